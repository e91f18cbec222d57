//! The flags by which a job is several processes: independent ones, or the ranks of an MPI program (spec/jobs J1, mpi.md).

use clap::{Args, ValueEnum};
use kumiko_job::description::{JobDescription, Mpi};

#[derive(Debug, Args)]
pub struct Instances {
    /// Instances started together.
    #[arg(long, short = 'n', default_value_t = 1)]
    count: u32,
    /// They are the ranks of one MPI program, started by a launcher of the library it is linked with, or of the one named.
    #[arg(long, value_name = "LIBRARY", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    mpi: Option<Library>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Library {
    /// That of the program; where its file does not tell, the first that is found.
    Auto,
    Mpich,
    Openmpi,
}

impl Instances {
    /// What the command line says goes over what the description says.
    pub fn apply(&self, description: &mut JobDescription) {
        if self.count != 1 {
            description.count = self.count;
        }
        if let Some(library) = self.mpi {
            description.mpi = Some(match library {
                Library::Auto => Mpi::Auto,
                Library::Mpich => Mpi::Mpich,
                Library::Openmpi => Mpi::Openmpi,
            });
        }
    }
}

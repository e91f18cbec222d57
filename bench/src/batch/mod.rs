//! `bench batch`: short jobs through Slurm and HTCondor, by pilots and without, beside `fork` and the engines' own commands. The
//! engines are real ones that are brought up on this machine for the run (testbeds/slurm, testbeds/condor). And jobs at several
//! sites that begin together; and the files of hosts that share none.
//!
//! Not here: several hosts that are machines; MPI.

mod carried;
mod many;
mod rows;
mod together;

use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::Row;
use crate::report::Report;
use crate::run::{self, Run};
use clap::Args;
use std::path::PathBuf;

type Measure = fn(&Bench) -> Row;

const ROWS: [(&str, Measure); 10] = [
    ("pilot", rows::pilot),
    ("slurm", rows::slurm),
    ("condor", rows::condor),
    ("many", many::slurm),
    ("many_condor", many::condor),
    ("together", together::together),
    ("carried_write", carried::written),
    ("carried_read", carried::read),
    ("carried_again", carried::again),
    ("carried_small", carried::small),
];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(run::keys(&ROWS)))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/batch].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &options.only);
    let bench = Bench::programs(options.quick)?;
    for (key, measure) in ROWS {
        run.row(key, || measure(&bench));
    }
    Ok(run.report("Batch systems", &[]))
}

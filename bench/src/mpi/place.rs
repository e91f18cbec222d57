//! Where ranks run: programs compiled by both libraries, a site that is given them, and the launchers without a site. Not
//! here: what is measured.

use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::rows::{job, to_the_end, within};
use crate::site::Site;
use crate::wait;
use kumiko_client::Client;
use kumiko_job::description::{JobDescription, Mpi};
use kumiko_job::id::JobId;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::{NamedTempFile, TempDir};

/// A run of the largest class on a busy machine.
const RUN_WITHIN: Duration = Duration::from_secs(60);

pub type Variables = &'static [(&'static str, &'static str)];

/// Words of Open MPI: messages between ranks of one host by TCP, and not through memory.
pub const BY_TCP: Variables = &[
    ("OMPI_MCA_btl", "self,tcp"),
    ("OMPI_MCA_btl_tcp_if_include", "lo"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Mpich,
    Openmpi,
}

impl Library {
    pub const ALL: [Library; 2] = [Library::Mpich, Library::Openmpi];

    fn word(self) -> &'static str {
        match self {
            Library::Mpich => "mpich",
            Library::Openmpi => "openmpi",
        }
    }

    /// What the site says to it (spec/jobs/mpi.md, N6), so that both do the same.
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Library::Mpich => &[("HYDRA_LAUNCHER", "fork"), ("HYDRA_IFACE", "lo")],
            Library::Openmpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_plm", "isolated"),
                ("OMPI_MCA_oob_tcp_if_include", "lo"),
                ("OMPI_MCA_pml", "ob1"),
                ("OMPI_MCA_btl", "self,vader"),
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_MCA_hwloc_base_binding_policy", "none"),
            ],
        }
    }

    /// In an allocation of Slurm's (N25), whose own `srun` starts what the launcher needs on the hosts.
    pub fn variables_of_hosts(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Library::Mpich => &[("UCX_LOG_LEVEL", "fatal")],
            Library::Openmpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_pml", "ob1"),
                ("OMPI_MCA_btl", "self,vader,tcp"),
                ("OMPI_MCA_hwloc_base_binding_policy", "none"),
            ],
        }
    }

    fn kind(self) -> Mpi {
        match self {
            Library::Mpich => Mpi::Mpich,
            Library::Openmpi => Mpi::Openmpi,
        }
    }

    pub fn launcher(self) -> String {
        format!("mpiexec.{}", self.word())
    }
}

/// One run: a program of the place, with its words.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub library: Library,
    pub ranks: u32,
    /// By its name there, or a path of the machine's.
    pub program: &'a str,
    pub words: &'a [&'a str],
    /// Over those of the library.
    pub variables: &'a [(&'a str, &'a str)],
}

/// How long it took in all, and what it said.
#[derive(Clone, Debug)]
pub struct Ran {
    pub wall_s: f64,
    pub said: String,
}

impl Ran {
    pub fn own_s(&self) -> Result<f64, Failure> {
        own_s(&self.said)
    }
}

/// The seconds that a program of examples/mpi says of itself; it has to have been right.
pub fn own_s(said: &str) -> Result<f64, Failure> {
    let rest = said.split_once(": right, ").map(|(_, rest)| rest);
    let number = rest.and_then(|rest| rest.split_once(" s, "));
    number
        .and_then(|(number, _)| number.parse().ok())
        .ok_or_else(|| Failure::unexpected(format!("the ranks said {said:?}")))
}

#[derive(Debug)]
pub struct Place {
    /// With a folder for each library.
    folder: TempDir,
    client: Client,
    _site: Site,
}

impl Place {
    pub fn new(bench: &Bench) -> Result<Place, Failure> {
        let making = || "making folders for MPI programs";
        let folder = tempfile::tempdir().doing(making)?;
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let examples = own.join("../examples/mpi");
        for library in Library::ALL {
            let to = folder.path().join(library.word());
            std::fs::create_dir(&to).doing(making)?;
            let kernels = ["ep", "is", "cg", "mg", "lu", "bt", "sp"].map(|name| (name, &examples));
            let mpi = own.join("mpi");
            let others = ["pingpong", "start"].map(|name| (name, &mpi));
            for (name, from) in kernels.into_iter().chain(others) {
                let mut compiler = Command::new(format!("mpicc.{}", library.word()));
                compiler.args(["-O2", "-std=gnu11", "-o"]);
                compiler
                    .arg(to.join(name))
                    .arg(from.join(format!("{name}.c")))
                    .arg("-lm");
                wait::output(&mut compiler, RUN_WITHIN)?;
            }
        }
        let site = Site::start(bench)?;
        let client = bench.runtime.block_on(site.connect())?;
        Ok(Place {
            folder,
            client,
            _site: site,
        })
    }

    /// Where its programs are.
    pub fn folder_of(&self, library: Library) -> PathBuf {
        self.folder.path().join(library.word())
    }

    /// By the launcher alone.
    pub fn bare(&self, run: Run<'_>) -> Result<Ran, Failure> {
        let mut launcher = Command::new(run.library.launcher());
        launcher.envs(run.library.variables().iter().copied());
        launcher.envs(run.variables.iter().copied());
        launcher.args(["-n", &run.ranks.to_string()]);
        launcher.arg(self.folder_of(run.library).join(run.program));
        launcher.args(run.words);
        let begun = Instant::now();
        let said = wait::output(&mut launcher, RUN_WITHIN)?;
        Ok(Ran {
            wall_s: begun.elapsed().as_secs_f64(),
            said: String::from_utf8_lossy(&said.stdout).into_owned(),
        })
    }

    /// By the launcher in a sandbox of its own, without a site.
    pub fn fenced(
        &self,
        run: Run<'_>,
        kumiko: &Path,
        mechanism: &str,
        policy: &str,
    ) -> Result<Ran, Failure> {
        let mut file = NamedTempFile::new().doing(|| "making a policy")?;
        file.write_all(policy.as_bytes())
            .doing(|| "writing a policy")?;
        let mut sandbox = Command::new(kumiko);
        sandbox.args(["sandbox", "run", "--mechanism", mechanism, "--policy"]);
        sandbox.arg(file.path()).arg("--dir");
        sandbox.arg(self.folder_of(run.library));
        sandbox.args(["--", "env"]);
        let variables = run.library.variables().iter().chain(run.variables);
        sandbox.args(variables.map(|(name, value)| format!("{name}={value}")));
        sandbox.args([&run.library.launcher(), "-n", &run.ranks.to_string()]);
        sandbox.arg(format!("/job/{}", run.program)).args(run.words);
        let begun = Instant::now();
        let said = wait::output(&mut sandbox, RUN_WITHIN)?;
        Ok(Ran {
            wall_s: begun.elapsed().as_secs_f64(),
            said: String::from_utf8_lossy(&said.stdout).into_owned(),
        })
    }

    /// As a job of the site. Its time is from the submission to the end, the programs being there.
    pub async fn job(&self, run: Run<'_>, mechanism: Option<&str>) -> Result<Ran, Failure> {
        let description = JobDescription {
            mechanism: mechanism.map(str::to_owned),
            ..JobDescription::new("", &[])
        };
        let (ran, _) = self.job_at(&self.client, run, description).await?;
        Ok(ran)
    }

    /// The same at any site, with what else is described.
    pub async fn job_at(
        &self,
        client: &Client,
        run: Run<'_>,
        description: JobDescription,
    ) -> Result<(Ran, JobId), Failure> {
        let said = |e| Failure::said("running ranks", &e);
        let folder = self.folder_of(run.library);
        let sent = within("the programs", client.upload_folder(&folder)).await?;
        let owned = run.variables.iter();
        let owned = owned.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let program = match run.program.starts_with('/') {
            true => run.program.to_owned(),
            false => format!("./{}", run.program),
        };
        let ranks = job(&program, run.words);
        let description = JobDescription {
            executable: ranks.executable,
            arguments: ranks.arguments,
            output: ranks.output,
            input: Some(sent.map_err(said)?.input),
            count: run.ranks,
            mpi: Some(run.library.kind()),
            environment: owned.collect(),
            ..description
        };
        let begun = Instant::now();
        let exec = within("the submission", client.exec(description)).await?;
        let mut attached = exec.map_err(said)?;
        let mut text = Vec::new();
        to_the_end(&mut attached, |data| text.extend_from_slice(data)).await?;
        let ran = Ran {
            wall_s: begun.elapsed().as_secs_f64(),
            said: String::from_utf8_lossy(&text).into_owned(),
        };
        let id = attached.job();
        let id = id.ok_or_else(|| Failure::unexpected("a job has no number"))?;
        Ok((ran, id))
    }

    /// Calls that the sandbox of the last job answered; None: nobody stood by.
    pub async fn answered(&self) -> Result<Option<f64>, Failure> {
        let said = |e| Failure::said("asking for a job's cost", &e);
        let jobs = self.client.list().await.map_err(said)?;
        let last = jobs.iter().map(|job| job.id).max();
        let last = last.ok_or_else(|| Failure::unexpected("there is no job"))?;
        let told = self.client.explain(last).await.map_err(said)?.join("\n");
        let calls = told.split_once("to answer ").map(|(_, rest)| rest);
        let calls = calls.and_then(|rest| rest.split_once(" calls"));
        Ok(calls.and_then(|(number, _)| number.parse().ok()))
    }
}

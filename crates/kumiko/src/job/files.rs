//! The flags of `submit` and `run` that name files on other servers, and what they make of a description.

use crate::fail::Failure;
use clap::Args;
use kumiko_job::description::{Destination, JobDescription, StageIn, StageOut};

#[derive(Debug, Default, Args)]
pub struct Files {
    /// Fetch a file before the job runs (https, http, gsiftp, file).
    #[arg(long, value_name = "URL=PATH")]
    pub stage_in: Vec<String>,
    /// As --stage-in, but once for all your jobs that name the same URL.
    #[arg(long, value_name = "URL=PATH")]
    pub stage_in_shared: Vec<String>,
    /// What a file that is fetched to PATH has to have, 64 digits: else the job fails. One that came before does not
    /// travel again.
    #[arg(long, value_name = "PATH=DIGITS")]
    pub sha256: Vec<String>,
    /// Send a file when the program has ended (https, gsiftp).
    #[arg(long, value_name = "PATH=URL")]
    pub stage_out: Vec<String>,
    /// Remove this from the job's directory when all is sent.
    #[arg(long, value_name = "PATH")]
    pub clean_up: Vec<String>,
    /// A directory for what only matters while the job runs (SCRATCH_DIRECTORY).
    #[arg(long, value_name = "PATH")]
    pub scratch: Option<String>,
    /// Send stdout there while the job runs: a URL, or a file of the job's directory.
    #[arg(long, value_name = "URL")]
    pub stdout: Vec<String>,
    /// Send stderr there while the job runs.
    #[arg(long, value_name = "URL")]
    pub stderr: Vec<String>,
}

impl Files {
    pub fn apply(&self, description: &mut JobDescription) -> Result<(), Failure> {
        for (flag, given, list) in [
            ("--stage-in", &self.stage_in, &mut description.stage_in),
            (
                "--stage-in-shared",
                &self.stage_in_shared,
                &mut description.stage_in_shared,
            ),
        ] {
            for text in given {
                // A URL may hold = , a name in the job's directory rarely does.
                let (from, to) = text
                    .rsplit_once('=')
                    .ok_or_else(|| pair(flag, text, "URL=PATH"))?;
                list.push(StageIn {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    bytes: None,
                    sha256: None,
                });
            }
        }
        for text in &self.sha256 {
            let (to, sum) = text
                .rsplit_once('=')
                .ok_or_else(|| pair("--sha256", text, "PATH=DIGITS"))?;
            let fetched = description.stage_in.iter_mut();
            let mut named = fetched
                .chain(&mut description.stage_in_shared)
                .filter(|file| file.to == to)
                .peekable();
            if named.peek().is_none() {
                return Err(Failure::misuse(format!(
                    "--sha256 {text}: nothing is fetched to {to}: name it with --stage-in"
                )));
            }
            named.for_each(|file| file.sha256 = Some(sum.to_owned()));
        }
        for text in &self.stage_out {
            let (from, to) = text
                .split_once('=')
                .ok_or_else(|| pair("--stage-out", text, "PATH=URL"))?;
            description.stage_out.push(StageOut {
                from: from.to_owned(),
                to: to.to_owned(),
            });
        }
        description.clean_up.extend_from_slice(&self.clean_up);
        if self.scratch.is_some() {
            description.scratch.clone_from(&self.scratch);
        }
        let destinations = |given: &[String]| -> Vec<Destination> {
            given.iter().map(|to| Destination::new(to)).collect()
        };
        description.stdout.extend(destinations(&self.stdout));
        description.stderr.extend(destinations(&self.stderr));
        Ok(())
    }
}

fn pair(flag: &str, text: &str, form: &str) -> Failure {
    Failure::misuse(format!("{flag} {text}: give {form}"))
}

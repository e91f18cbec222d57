//! An engine's own command, run with a deadline and with bounds: tools hang, and print what nobody asked for. Not here:
//! what is asked of it, what its words mean.

use super::Trouble;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// An engine that is well answers in some ms, and under load in seconds.
const DEADLINE: Duration = Duration::from_secs(30);
/// Of what a tool prints: a line for each of a hundred thousand jobs.
const OUTPUT_BYTES: u64 = 32 << 20;
/// Of what it complains: for people.
const COMPLAINT_BYTES: u64 = 4096;
/// What tools of engines need of this process' environment: to find their configuration and whose they are. Nothing else
/// goes along, since some engines would hand it on to jobs.
const ENVIRONMENT: [&str; 7] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SLURM_CONF",
    "CONDOR_CONFIG",
    "TMPDIR",
];

/// How an engine's commands are found, and how they find their engine: what they have of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    environment: BTreeMap<OsString, OsString>,
    deadline: Duration,
}

impl Tools {
    /// As this process would find them.
    pub fn here() -> Tools {
        let known = ENVIRONMENT.iter();
        let set = known.filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        Tools {
            environment: set.collect(),
            deadline: DEADLINE,
        }
    }

    /// Whether there is such a program.
    pub fn finds(&self, program: &str) -> bool {
        let path = self.environment.get(OsStr::new("PATH"));
        path.is_some_and(|path| {
            std::env::split_paths(path).any(|folder| folder.join(program).is_file())
        })
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<OsStr>) -> Tools {
        self.environment
            .insert(name.into(), value.as_ref().to_owned());
        self
    }

    /// With another deadline for each of them.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Tools {
        self.deadline = deadline;
        self
    }
}

/// What a tool that came to its end said.
#[derive(Debug)]
pub struct Said {
    pub well: bool,
    pub output: Vec<u8>,
    /// In one line.
    pub complaint: String,
}

/// Runs `program` to its end with `input` on its stdin. Killed if it takes too long: then whether it did what was asked is
/// not known.
pub async fn ask(
    tools: &Tools,
    program: &str,
    arguments: &[String],
    input: &str,
) -> Result<Said, Trouble> {
    let unreachable = |cause| Trouble::unreachable(program, cause);
    let run = async {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(&tools.environment)
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut output, mut complaint) = (Vec::new(), Vec::new());
        let write = async {
            if let Some(mut stdin) = stdin {
                // One that does not read it says why in other ways.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let read = async {
            match stdout {
                Some(stdout) => stdout.take(OUTPUT_BYTES).read_to_end(&mut output).await,
                None => Ok(0),
            }
        };
        let hear = async {
            let Some(mut stderr) = stderr else {
                return Ok(0);
            };
            (&mut stderr)
                .take(COMPLAINT_BYTES)
                .read_to_end(&mut complaint)
                .await?;
            tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await
        };
        let ((), read, heard) = tokio::join!(write, read, hear);
        read?;
        heard?;
        let status = child.wait().await?;
        let complaint = String::from_utf8_lossy(&complaint);
        let complaint: Vec<&str> = complaint
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        Ok::<Said, std::io::Error>(Said {
            well: status.success(),
            output,
            complaint: match complaint.is_empty() {
                true => format!("{program} ended with {status}"),
                false => complaint.join("; "),
            },
        })
    };
    match tokio::time::timeout(tools.deadline, run).await {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(error)) => Err(unreachable(error.to_string())),
        Err(_) => Err(unreachable(format!(
            "it did not answer within {:?}",
            tools.deadline
        ))),
    }
}

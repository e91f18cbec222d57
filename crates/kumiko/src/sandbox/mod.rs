//! `kumiko sandbox ...`: the process virtual machine by itself, as handy as bubblewrap. Not here: how `run` runs
//! (kumiko-entry).

mod calibrate;
mod check;
mod explain;
mod profile;

use crate::args::{Format, Sandbox};
use crate::fail::Failure;
use crate::output::{self, Show, say};
use kumiko_entry::sandbox::{self, Run};
use kumiko_entry::wishes;
use kumiko_policy::{Change, ChangeError, parse_change};
use kumiko_sandbox::{Machine, admissions};
use serde::Serialize;
use std::path::Path;

/// Before the number of a `sandbox run`; without it `set` is of a job.
const PID: &str = "pid:";

/// A change, as it was typed.
#[derive(Clone, Debug)]
pub struct Typed {
    pub word: String,
    pub change: Change,
}

impl Typed {
    pub fn read(word: &str) -> Result<Typed, ChangeError> {
        Ok(Typed {
            word: word.to_owned(),
            change: parse_change(word)?,
        })
    }
}

/// Is it of a job, and so for its site to do?
pub fn is_of_job(verb: &Sandbox) -> bool {
    matches!(verb, Sandbox::Set { which, .. } if !which.starts_with(PID))
}

/// What needs no site.
pub fn sandbox(verb: Sandbox, format: Format, home: Option<&Path>) -> Result<u8, Failure> {
    match verb {
        Sandbox::Run {
            under,
            dir,
            environment,
            command,
        } => {
            let run = Run {
                said: under.said(),
                mechanism: under.mechanism,
                directory: dir,
                environment,
                command,
            };
            sandbox::run(&run).map_err(|error| Failure {
                status: error.exit_status(),
                message: error.to_string(),
            })
        }
        Sandbox::Check { under, vo, what } => check::check(&under, vo.as_deref(), &what, format),
        Sandbox::Set {
            which,
            changes,
            policy,
            ..
        } => {
            let pid = which.strip_prefix(PID).and_then(|pid| pid.parse().ok());
            let Some(pid) = pid else {
                return Err(Failure::misuse(format!("\"{which}\": write {PID}NUMBER")));
            };
            if policy.is_some() {
                return Err(Failure::misuse(format!(
                    "--policy is for jobs; for {PID}NUMBER write /PATH=ACCESS, allow=ADDRESS, deny=ADDRESS or network=none"
                )));
            }
            let words: Vec<String> = changes.into_iter().map(|typed| typed.word).collect();
            say!("{}", wishes::ask(pid, &words)?)?;
            Ok(0)
        }
        Sandbox::Probe { calibrate: true } => calibrate::calibrate(format, home),
        Sandbox::Probe { calibrate: false } => {
            let machine = Machine::probe();
            output::one(
                format,
                &Probe {
                    mechanisms: mechanisms(&machine),
                    criu: criu(&machine),
                },
            )?;
            Ok(0)
        }
        Sandbox::Profile {
            under,
            dir,
            environment,
            command,
        } => {
            let run = Run {
                said: under.said(),
                mechanism: under.mechanism,
                directory: dir,
                environment,
                command,
            };
            profile::profile(&run, format, home)
        }
        Sandbox::Explain {
            under,
            without,
            measure,
            dir,
            command,
        } => {
            let run = Run {
                said: under.said(),
                mechanism: under.mechanism,
                directory: dir,
                environment: Vec::new(),
                command,
            };
            explain::explain(&run, &without, measure, format, home)
        }
    }
}

fn mechanisms(machine: &Machine) -> Vec<Mechanism> {
    let rows = admissions(machine).into_iter().map(|admission| {
        let obstacle = admission.admitted.err();
        Mechanism {
            name: admission.name.to_owned(),
            admitted: obstacle.is_none(),
            why: obstacle.as_ref().map(|obstacle| obstacle.why.clone()),
            remedy: obstacle.map(|obstacle| obstacle.remedy),
            leaves_open: admission.leaves_open,
        }
    });
    rows.collect()
}

fn criu(machine: &Machine) -> Criu {
    let path = std::env::var_os("PATH");
    match kumiko_sandbox::criu(machine, path.as_deref()) {
        Ok(usable) => Criu {
            usable: true,
            program: Some(usable.program.display().to_string()),
            version: Some(usable.version.to_string()),
            why: None,
            remedy: None,
        },
        Err(obstacle) => Criu {
            usable: false,
            program: None,
            version: None,
            why: Some(obstacle.why),
            remedy: Some(obstacle.remedy),
        },
    }
}

#[derive(Serialize)]
struct Mechanism {
    name: String,
    admitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    leaves_open: &'static [&'static str],
}

#[derive(Serialize)]
struct Probe {
    mechanisms: Vec<Mechanism>,
    criu: Criu,
}

/// What could dump programs that link no checkpoint library (spec/checkpoint, K50).
#[derive(Serialize)]
struct Criu {
    usable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Criu {
    fn human(&self) -> String {
        let told = [&self.version, &self.program, &self.why, &self.remedy];
        let told: Vec<&str> = told.into_iter().flatten().map(String::as_str).collect();
        let usable = if self.usable { "yes" } else { "no" };
        format!("\nCRIU, under namespace: {usable}; {}\n", told.join("; "))
    }
}

impl Show for Probe {
    fn human(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .mechanisms
            .iter()
            .map(|m| {
                let why = m
                    .why
                    .iter()
                    .chain(&m.remedy)
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join("; ");
                vec![
                    m.name.clone(),
                    if m.admitted { "yes" } else { "no" }.to_owned(),
                    why,
                ]
            })
            .collect();
        let mut text = output::table(&["MECHANISM", "ADMITTED", "WHY NOT"], &rows);
        for mechanism in self.mechanisms.iter().filter(|m| m.admitted) {
            text.push_str(&format!(
                "\n{} does not stop, or does without:\n",
                mechanism.name
            ));
            for what in mechanism.leaves_open {
                text.push_str(&format!("  {what}\n"));
            }
        }
        text.push_str(&self.criu.human());
        text
    }
}

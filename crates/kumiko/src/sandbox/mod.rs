//! `kumiko sandbox ...`: the process virtual machine by itself, as handy as bubblewrap. Not here: how `run` runs
//! (kumiko-entry).

mod check;

use crate::args::{Format, Sandbox, Under};
use crate::fail::Failure;
use crate::output::{self, Show, say};
use kumiko_entry::sandbox::{self, Run};
use kumiko_entry::wishes;
use kumiko_policy::Policy;
use kumiko_sandbox::{Choice, Machine, admissions, choose};
use serde::Serialize;

/// Before the number of a `sandbox run`; without it `set` is of a job.
const PID: &str = "pid:";

/// Is it of a job, and so for its site to do?
pub fn is_of_job(verb: &Sandbox) -> bool {
    matches!(verb, Sandbox::Set { which, .. } if !which.starts_with(PID))
}

/// What needs no site.
pub fn sandbox(verb: Sandbox, format: Format) -> Result<u8, Failure> {
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
        Sandbox::Set { which, limits, .. } => {
            let pid = which.strip_prefix(PID).and_then(|pid| pid.parse().ok());
            let Some(pid) = pid else {
                return Err(Failure::misuse(format!("\"{which}\": write {PID}NUMBER")));
            };
            say!("{}", wishes::ask(pid, &limits)?)?;
            Ok(0)
        }
        Sandbox::Probe => {
            output::one(
                format,
                &Probe {
                    mechanisms: mechanisms(&Machine::probe()),
                },
            )?;
            Ok(0)
        }
        Sandbox::Explain { under } => {
            let (policy, choice) = chosen(&under, &Machine::probe())?;
            output::one(format, &Explained::of(&policy, choice))?;
            Ok(0)
        }
    }
}

fn chosen(under: &Under, machine: &Machine) -> Result<(Policy, Choice), Failure> {
    let policy = sandbox::effective(&under.said(), None)?;
    let choice = choose(&policy, under.mechanism.as_deref(), machine)?;
    Ok((policy, choice))
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
        text
    }
}

#[derive(Serialize)]
struct Explained {
    mechanism: String,
    not_enforced: Vec<String>,
    why_not: Vec<(String, String)>,
    rules: usize,
}

impl Explained {
    fn of(policy: &Policy, choice: Choice) -> Explained {
        Explained {
            mechanism: choice.mechanism.to_owned(),
            not_enforced: choice.not_enforced,
            why_not: choice.why_not,
            rules: policy.paths.len(),
        }
    }
}

impl Show for Explained {
    fn human(&self) -> String {
        let mut text = format!(
            "mechanism {} for {} path rules\n",
            self.mechanism, self.rules
        );
        for what in &self.not_enforced {
            text.push_str(&format!("  not enforced by it: {what}\n"));
        }
        for (name, why) in &self.why_not {
            text.push_str(&format!("  not {name}: {why}\n"));
        }
        text
    }
}

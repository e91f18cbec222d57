//! `kumiko sandbox ...`: the process virtual machine by itself, as handy as bubblewrap. Not here: how `run` runs
//! (kumiko-entry).

use crate::args::{Format, Sandbox, Under};
use crate::fail::Failure;
use crate::output::{self, Show, say};
use kumiko_entry::sandbox::{self, Run};
use kumiko_policy::{GuestPath, Policy, Real, Seen};
use kumiko_sandbox::{Choice, Machine, admissions, choose};
use serde::Serialize;

pub fn sandbox(verb: Sandbox, format: Format) -> Result<u8, Failure> {
    match verb {
        Sandbox::Run {
            under,
            dir,
            environment,
            command,
        } => {
            let run = Run {
                policy: under.policy,
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
        Sandbox::Check { under, paths } => check(&under, &paths, format),
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
    let policy = sandbox::effective(under.policy.as_deref())?;
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

#[derive(Serialize)]
struct Decided {
    path: String,
    decision: String,
    by: String,
    origin: String,
}

impl Show for Decided {
    fn human(&self) -> String {
        format!(
            "{:<30} {:<40} by {} ({})",
            self.path, self.decision, self.by, self.origin
        )
    }
}

fn words(seen: &Seen) -> String {
    match seen {
        Seen::Shown { real, writable } => {
            let real = match real {
                Real::Host { root, beneath } => root.join(beneath).as_str().to_owned(),
                Real::Job { beneath } => GuestPath::root().join(beneath).as_str().replacen(
                    '/',
                    "the job's directory/",
                    1,
                ),
            };
            format!(
                "{} {real}",
                if *writable { "read and write" } else { "read" }
            )
        }
        Seen::Temporary => "an empty, private, writable place".to_owned(),
        Seen::Denied => "denied".to_owned(),
        Seen::Hidden => "hidden".to_owned(),
        Seen::Absent => "absent".to_owned(),
        Seen::Made => "made by the sandbox".to_owned(),
    }
}

/// Without paths the whole effective policy, a line each with where it comes from.
fn check(under: &Under, paths: &[String], format: Format) -> Result<u8, Failure> {
    let (policy, choice) = chosen(under, &Machine::assume())?;
    let asked: Vec<GuestPath> = if paths.is_empty() {
        policy.paths.iter().map(|rule| rule.path.clone()).collect()
    } else {
        paths
            .iter()
            .map(|p| GuestPath::new(p).map_err(|e| Failure::misuse(e.to_string())))
            .collect::<Result<_, _>>()?
    };
    let decided: Vec<Decided> = asked
        .iter()
        .map(|path| {
            let decision = policy.explain(path);
            Decided {
                path: path.as_str().to_owned(),
                decision: words(&decision.seen),
                by: decision.by.as_str().to_owned(),
                origin: decision.origin.to_string(),
            }
        })
        .collect();
    output::many(format, &decided)?;
    if format == Format::Human && paths.is_empty() {
        say!(
            "network {:?}; further processes {}; mechanism {}",
            policy.network(),
            policy.further_processes(),
            choice.mechanism
        )?;
        for what in &choice.not_enforced {
            say!("not enforced by it: {what}")?;
        }
    }
    Ok(0)
}

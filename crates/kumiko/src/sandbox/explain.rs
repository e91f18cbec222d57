//! `kumiko sandbox explain`: the table of mechanisms for a policy and a command, requirement by requirement, with what each
//! is predicted to cost, and with --measure what it took (spec/policy, P85 to P87).

use super::calibrate::columns;
use super::profile::{file, nothing};
use crate::args::Format;
use crate::fail::{Failure, While};
use crate::output::{self, Show};
use kumiko_entry::sandbox::{self, Run, RunError};
use kumiko_policy::choice::{Answer, Calibration, Known, Profile, Requirement, Row};
use kumiko_policy::{MechanismKind, Policy};
use kumiko_sandbox::{
    Choice, Evidence, Machine, Measured, Nothing, OfProgram, Program, SandboxError, choose,
    choose_by, look, table,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

pub fn explain(
    run: &Run,
    without: &[String],
    measure: Option<u32>,
    format: Format,
    home: Option<&Path>,
) -> Result<u8, Failure> {
    let policy = sandbox::effective(&run.said, None)?;
    let mut machine = Machine::probe();
    for name in without {
        let kind = MechanismKind::from_name(name).filter(|kind| *kind != MechanismKind::Auto);
        let kind = kind.ok_or(SandboxError::NoSuchMechanism { name: name.clone() })?;
        machine = machine.without(kind);
    }
    let measured = sandbox::measured(home);
    let found = Found::new(&policy, run, measured.as_ref());
    let rows = table(&policy, &machine, &found);
    let wanted = run.mechanism.as_deref();
    let choice = choose_by(&policy, wanted, &machine, &found);
    // Nothing of an explanation is an error but that nothing was asked.
    if let Err(SandboxError::NoSuchMechanism { .. }) = &choice {
        choice?;
        return Ok(1);
    }
    let took = match measure {
        None => BTreeMap::new(),
        Some(times) => took(run, &policy, &rows, times)?,
    };
    let (mechanism, refused) = match choice {
        Ok(choice) => (Some(choice), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let status = u8::from(refused.is_some());
    output::one(
        format,
        &Explained {
            mechanism: mechanism.as_ref().map(|choice| choice.mechanism.to_owned()),
            refused,
            not_enforced: mechanism
                .map(|choice| choice.not_enforced)
                .unwrap_or_default(),
            rules: policy.paths.len(),
            program: found.words(),
            costs: found.of_costs,
            profile: found.profile,
            rows,
            took_us: took,
        },
    )?;
    Ok(status)
}

/// What there is to go by, looked up once.
struct Found {
    calibration: Calibration,
    of_costs: String,
    profile: Profile,
    looked: Option<String>,
}

impl Found {
    fn new(policy: &Policy, run: &Run, measured: Option<&Measured>) -> Found {
        let (calibration, of_costs) = match measured.map(Measured::calibration) {
            Some(Ok(kept)) => {
                let words = format!(
                    "measured on this machine, {} rounds, others used {} % of the processors",
                    kept.rounds, kept.others_percent
                );
                (kept, words)
            }
            Some(Err(error)) => (Calibration::default(), format!("defaults: {error}")),
            None => (
                Calibration::default(),
                "defaults: neither HOME nor KUMIKO_HOME is set".to_owned(),
            ),
        };
        let (mut profile, mut looked) = (Nothing.profile(), None);
        if let Some((program, arguments)) = run.command.split_first() {
            let evidence = OfProgram {
                measured,
                program: Program {
                    policy,
                    job_directory: run.directory.as_deref().unwrap_or(Path::new("")),
                    program,
                    arguments,
                    path: None,
                },
            };
            profile = evidence.profile();
            looked = file(policy, run, program).and_then(|file| look(&file).ok());
        }
        Found {
            calibration,
            of_costs,
            profile,
            looked: looked.map(|looked| looked.words()),
        }
    }

    fn words(&self) -> String {
        match &self.looked {
            Some(looked) => format!("{looked}; {}", self.profile.known),
            None => self.profile.known.to_string(),
        }
    }
}

impl Evidence for Found {
    fn calibration(&self) -> Calibration {
        self.calibration.clone()
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }
}

/// Without a sandbox, as a name beside those of the mechanisms.
const NONE: &str = "none";

/// Medians, us, without a sandbox and under each admissible mechanism, in turn. What fails is left out, and said.
fn took(
    run: &Run,
    policy: &Policy,
    rows: &[Row],
    times: u32,
) -> Result<BTreeMap<String, u64>, Failure> {
    let null = nothing().doing(|| "opening /dev/null".to_owned())?;
    let streams = [null.as_fd(), null.as_fd(), null.as_fd()];
    let machine = Machine::assume();
    let choices: Vec<Choice> = rows
        .iter()
        .filter(|row| row.is_admissible())
        .map(|row| choose(policy, Some(row.mechanism.name()), &machine))
        .collect::<Result<_, _>>()?;
    let mut samples: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for _ in 0..times {
        for choice in &choices {
            let ran = sandbox::run_under(run, policy, choice, Some(streams));
            let ran = ran.map_err(|error| Failure {
                status: error.exit_status(),
                message: format!("under {}: {error}", choice.mechanism),
            })?;
            let us = u64::try_from(ran.wall.as_micros()).unwrap_or(u64::MAX);
            samples
                .entry(choice.mechanism.to_owned())
                .or_default()
                .push(us);
        }
        match bare(run) {
            Ok(us) => samples.entry(NONE.to_owned()).or_default().push(us),
            Err(error) => eprintln!("kumiko: without a sandbox it does not run: {error}"),
        }
    }
    let median = |mut all: Vec<u64>| {
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };
    Ok(samples
        .into_iter()
        .map(|(name, all)| (name, median(all)))
        .collect())
}

fn bare(run: &Run) -> Result<u64, Failure> {
    let folder = sandbox::Throwaway::new()?;
    let (program, arguments) = run
        .command
        .split_first()
        .ok_or_else(|| Failure::misuse(RunError::NoCommand.to_string()))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder.path());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begun = Instant::now();
    command.status().doing(|| format!("running {program}"))?;
    Ok(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX))
}

#[derive(Serialize)]
struct Explained {
    /// None: it would be refused.
    mechanism: Option<String>,
    refused: Option<String>,
    not_enforced: Vec<String>,
    rules: usize,
    program: String,
    costs: String,
    profile: Profile,
    rows: Vec<Row>,
    /// With --measure; "none" is without a sandbox.
    took_us: BTreeMap<String, u64>,
}

impl Explained {
    fn measured(&self, name: &str) -> String {
        let took = self.took_us.get(name);
        match (took, self.took_us.get(NONE)) {
            (Some(took), Some(bare)) => {
                format!("{} (+ {})", ms(*took), ms(took.saturating_sub(*bare)))
            }
            (Some(took), None) => ms(*took),
            (None, _) => "-".to_owned(),
        }
    }
}

fn ms(us: u64) -> String {
    format!("{}.{} ms", us / 1_000, us % 1_000 / 100)
}

impl Show for Explained {
    fn human(&self) -> String {
        let mut text = match (&self.mechanism, &self.refused) {
            (Some(mechanism), _) => {
                format!("mechanism {mechanism} for {} path rules\n", self.rules)
            }
            (None, Some(refused)) => format!("refused: {refused}\n"),
            (None, None) => String::new(),
        };
        text.push_str(&format!("  the program: {}\n", self.program));
        if self.profile.known >= Known::Past {
            let p = &self.profile;
            text.push_str(&format!(
                "    {} opens, {} looks, {} other calls with names, {} processes, {} programs, {} at once\n",
                p.opens, p.looks, p.answers, p.processes, p.execs, p.at_once
            ));
        }
        text.push_str(&format!("  the costs: {}\n", self.costs));
        for what in &self.not_enforced {
            text.push_str(&format!("  not enforced by it: {what}\n"));
        }
        let mut header = vec![
            "MECHANISM",
            "NO ROOT",
            "COMPLETE",
            "FREQUENT",
            "MANY",
            "START",
            "OPEN",
            "PROCESS",
            "PROGRAM",
            "PREDICTED",
        ];
        if !self.took_us.is_empty() {
            header.push("MEASURED");
        }
        header.push("WHY NOT");
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| self.row(row)).collect();
        text.push('\n');
        text.push_str(&output::table(&header, &rows));
        if let Some(bare) = self.took_us.get(NONE) {
            text.push_str(&format!("\nwithout a sandbox it took {}\n", ms(*bare)));
        }
        text
    }
}

impl Explained {
    fn row(&self, row: &Row) -> Vec<String> {
        let yes = |answer| if answer == Answer::Yes { "yes" } else { "no" }.to_owned();
        let [start, open, _, _, _, process, exec, _] = columns(&row.costs);
        let predicted = match row.overhead_permille {
            Some(permille) => format!(
                "+ {} ({}.{} %)",
                ms(row.overhead_us),
                permille / 10,
                permille % 10
            ),
            None => format!("+ {}", ms(row.overhead_us)),
        };
        let wall = row.mechanism != MechanismKind::Library;
        let mut obstacles = row.hindrances.iter();
        // None of them asks for root: what the machine does not admit without, it does not admit.
        let here = obstacles.all(|hindrance| hindrance.requirement != Requirement::Machine);
        let mut cells = vec![
            row.mechanism.name().to_owned(),
            if here { "yes" } else { "no" }.to_owned(),
            if wall { "yes" } else { "no" }.to_owned(),
            yes(row.frequent_calls),
            yes(row.many_processes),
            start,
            open,
            process,
            exec,
            predicted,
        ];
        if !self.took_us.is_empty() {
            cells.push(self.measured(row.mechanism.name()));
        }
        let why: Vec<String> = row
            .hindrances
            .iter()
            .map(|hindrance| format!("{}: {}", hindrance.requirement, hindrance.why))
            .collect();
        cells.push(why.join("; "));
        cells
    }
}

//! `bench choice`: does `auto` take the right mechanism? Machines, policies and programs in strata, so that no constant
//! answer is right in all of them; every admissible mechanism is run for every pair, in turn, and the pick judged by what
//! it took. As a user has it: the machine is calibrated, each program profiled, and `sandbox explain` asked, by the command.
//!
//! Not here: the model (kumiko-policy, choice).

mod judge;
mod strata;

use crate::bench;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::guard;
use crate::report::Report;
use crate::run::Run;
use crate::stats::{Unit, digits};
use crate::wait::{self, SAMPLE_WITHIN};
use clap::Args;
use judge::{Judged, Pair, judge};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use strata::{HOSTS, POLICIES, PROGRAMS, Program};
use tempfile::TempDir;

/// Beyond the best admissible by no more than this, a pick is as good.
const AS_GOOD: f64 = 1.05;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in a minute or two.
    #[arg(long)]
    pub quick: bool,
    /// Folder of the report [default: target/bench/choice].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Options {
    fn rounds(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }
}

pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &[]);
    let place = Place::new(bench::program("KUMIKO_BIN", "kumiko")?)?;
    eprintln!("bench: calibrating ...");
    place.calibrate()?;
    let programs: Vec<&Program> = PROGRAMS
        .iter()
        .filter(|program| program.is_here())
        .collect();
    for program in &programs {
        guard::go_on();
        place.profile(program)?;
    }
    let mut pairs = Vec::new();
    for program in &programs {
        for host in &HOSTS {
            for policy in host
                .policies
                .iter()
                .filter_map(|name| POLICIES.iter().find(|p| p.name == *name))
            {
                let told = place.explain(program, host.without, policy.name)?;
                pairs.push(Pair {
                    program: program.name,
                    host: host.name,
                    policy: policy.name,
                    pick: told.mechanism,
                    rows: told
                        .rows
                        .into_iter()
                        .map(|row| (row.mechanism, row.hindrances.is_empty(), row.overhead_us))
                        .collect(),
                });
            }
        }
    }
    let took = measure(&place, &programs, &pairs, options.rounds())?;
    let judged = judge(&pairs, &took, AS_GOOD);
    run.row("choice", || row(&judged));
    Ok(run.report("The choice of a mechanism", &[]))
}

/// What a program took under a policy and a mechanism: (program, policy, mechanism).
type Key = (&'static str, &'static str, String);

/// Every mechanism that some pair admits, once a round; seconds.
fn measure(
    place: &Place,
    programs: &[&Program],
    pairs: &[Pair],
    rounds: usize,
) -> Result<BTreeMap<Key, Vec<f64>>, Failure> {
    let mut took: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for pair in pairs {
        for (mechanism, admissible, _) in &pair.rows {
            if *admissible {
                took.entry((pair.program, pair.policy, mechanism.clone()))
                    .or_default();
            }
        }
    }
    for round in 0..=rounds {
        eprintln!("bench: round {round} of {rounds} ...");
        for ((name, policy, mechanism), samples) in &mut took {
            guard::go_on();
            let program = programs.iter().find(|program| program.name == *name);
            let Some(program) = program else { continue };
            let time = place.run(program, policy, mechanism)?;
            // The first is for caches.
            if round > 0 {
                samples.push(time);
            }
        }
    }
    Ok(took)
}

fn row(judged: &Judged) -> Row {
    let goal = |text, ours, reach| Goal { text, ours, reach };
    let goals = vec![
        goal(
            "≥ 90 % of picks within 5 % of the best admissible",
            "picks as good as the best",
            Reach::AtLeast { limit: 0.9 },
        ),
        goal(
            "no pick is inadmissible",
            "inadmissible picks",
            Reach::AtMost { limit: 0.5 },
        ),
        goal(
            "more than the best constant answer",
            "picks as good as the best",
            Reach::AtLeastTimes {
                theirs: "best constant answer",
                times: 1.01,
            },
        ),
        goal("≥ 30 pairs", "pairs", Reach::AtLeast { limit: 30.0 }),
    ];
    let mut row = Row::new(
        "choice",
        "Picks of auto, judged by what every admissible mechanism took",
        goals,
    );
    row.series("picks as good as the best", Unit::Plain)
        .push(judged.share());
    row.series("best constant answer", Unit::Plain)
        .push(judged.best_constant().1);
    row.series("inadmissible picks", Unit::Plain)
        .push(judged.inadmissible as f64);
    row.series("pairs", Unit::Plain).push(judged.pairs as f64);
    for (mechanism, share) in &judged.constants {
        row.note(format!(
            "always {mechanism}: {} of the pairs",
            digits(*share)
        ));
    }
    row.note(format!(
        "time of all picks × {} of that of the best",
        digits(judged.times_best)
    ));
    judged.lines.iter().for_each(|line| row.note(line.clone()));
    row
}

/// A folder with guests and policies, and a home for what is measured.
struct Place {
    kumiko: PathBuf,
    folder: TempDir,
    home: TempDir,
}

#[derive(Deserialize)]
struct Told {
    /// None: refused.
    mechanism: Option<String>,
    rows: Vec<ToldRow>,
}

#[derive(Deserialize)]
struct ToldRow {
    mechanism: String,
    hindrances: Vec<serde_json::Value>,
    overhead_us: u64,
}

impl Place {
    fn new(kumiko: PathBuf) -> Result<Place, Failure> {
        let making = || "making folders for the guests";
        let place = Place {
            kumiko,
            folder: tempfile::tempdir().doing(making)?,
            home: tempfile::tempdir().doing(making)?,
        };
        let folder = place.folder.path();
        fs::write(folder.join("file"), "x\n").doing(making)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("choice/load.c");
        for (name, how) in [("load", None), ("load-static", Some("-static"))] {
            let mut cc = Command::new("cc");
            cc.args(["-O2", "-pthread", "-o"])
                .arg(folder.join(name))
                .arg(&source)
                .args(how);
            wait::output(&mut cc, SAMPLE_WITHIN)?;
        }
        for policy in &POLICIES {
            fs::write(place.policy(policy.name), policy.text).doing(making)?;
        }
        Ok(place)
    }

    fn policy(&self, name: &str) -> PathBuf {
        self.home.path().join(format!("{name}.toml"))
    }

    fn sandbox(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(&self.kumiko);
        command.env("KUMIKO_HOME", self.home.path());
        command.args(["--output", "json", "sandbox"]).args(verb);
        command
    }

    fn calibrate(&self) -> Result<(), Failure> {
        let mut command = self.sandbox(&["probe", "--calibrate"]);
        let output = wait::output(&mut command, SAMPLE_WITHIN)?;
        eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        Ok(())
    }

    fn profile(&self, program: &Program) -> Result<(), Failure> {
        let mut command = self.sandbox(&["profile", "--dir"]);
        command
            .arg(self.folder.path())
            .arg("--")
            .args(program.command);
        wait::output(&mut command, SAMPLE_WITHIN).map(drop)
    }

    fn explain(&self, program: &Program, without: &[&str], policy: &str) -> Result<Told, Failure> {
        let mut command = self.sandbox(&["explain"]);
        for name in without {
            command.args(["--without", name]);
        }
        command.arg("--site-policy").arg(self.policy(policy));
        command.arg("--dir").arg(self.folder.path());
        command.arg("--").args(program.command);
        let output = wait::output(&mut command, SAMPLE_WITHIN)?;
        serde_json::from_slice(&output.stdout)
            .map_err(|e| Failure::said("reading an explanation", &e))
    }

    /// Seconds of the whole command.
    fn run(&self, program: &Program, policy: &str, mechanism: &str) -> Result<f64, Failure> {
        // No --output: then it is the small program that runs it.
        let mut command = Command::new(&self.kumiko);
        command.env("KUMIKO_HOME", self.home.path());
        command.args(["sandbox", "run", "--mechanism", mechanism, "--site-policy"]);
        command
            .arg(self.policy(policy))
            .arg("--dir")
            .arg(self.folder.path());
        command.arg("--").args(program.command);
        Ok(wait::timed(&mut command)?.as_secs_f64())
    }
}

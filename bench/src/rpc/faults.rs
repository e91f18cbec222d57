//! The fault harness of calls (e2e/tests/rpc_faults.rs) for longer than a test may take: on the site's own host, and on each engine. One
//! call with another result than its one right one, or none, ends it. Not here: what is done to calls.

use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::guard;
use crate::stats::Unit;
use crate::wait;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Calls on the site's own host, and on an engine's, whose slots take seconds.
const FORK: u64 = 500;
const ENGINE: u64 = 50;
const LEAST: u64 = 20;
/// For the harness to be built, and for each call.
const BUILT_WITHIN: Duration = Duration::from_secs(900);
const CALL_WITHIN: Duration = Duration::from_secs(10);
/// Lines of a failure that say which call it was, and what was done to it.
const TOLD_LINES: usize = 5;

struct Place {
    name: &'static str,
    text: &'static str,
    /// By the harness's name; None: the site's own host.
    engine: Option<&'static str>,
    calls: u64,
}

const PLACES: [Place; 4] = [
    Place {
        name: "fork",
        text: "each call on the site's host has its one right result",
        engine: None,
        calls: FORK,
    },
    Place {
        name: "slurm",
        text: "each call in Slurm's slots has its one right result",
        engine: Some("slurm"),
        calls: ENGINE,
    },
    Place {
        name: "condor",
        text: "each call in HTCondor's slots has its one right result",
        engine: Some("condor"),
        calls: ENGINE,
    },
    Place {
        name: "carried",
        text: "each call on hosts that have nothing of the site has its one right result",
        engine: Some("carried"),
        calls: ENGINE,
    },
];

pub fn faults(bench: &Bench) -> Row {
    let goals = PLACES.map(|place| Goal {
        text: place.text,
        ours: place.name,
        reach: Reach::AtLeast {
            limit: enough(bench, place.calls) as f64,
        },
    });
    let mut row = Row::new("faults", "Calls that are hurt", goals.into());
    let seed = seed();
    for Place {
        name,
        engine,
        calls,
        ..
    } in PLACES
    {
        guard::go_on();
        let calls = enough(bench, calls);
        match harness(engine, seed, calls) {
            Ok(told) => {
                row.series(name, Unit::Plain).push(told.right);
                let wrong = told.wrong.map(|wrong| format!("; {wrong}"));
                let wrong = wrong.unwrap_or_default();
                row.note(format!("{name}, seed {seed}: {}{wrong}", told.line));
            }
            Err(failure) => row.lacks(Some(name), &failure),
        }
    }
    row.note(format!(
        "Again: `KUMIKO_SEED={seed} ./x bench rpc --only faults`; without a seed each run draws others. A seed has the same done to the \
         same calls; how far they are by then is the machine's."
    ));
    row
}

/// All of them, or a tenth when in a hurry; of fewer than the least it is chance whether most are hurt.
fn enough(bench: &Bench, calls: u64) -> u64 {
    match bench.options.quick {
        true => (calls / 10).max(LEAST),
        false => calls,
    }
}

/// What is said, or another one in each run.
fn seed() -> u64 {
    let said = std::env::var("KUMIKO_SEED").ok();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    said.and_then(|text| text.parse().ok())
        .unwrap_or_else(|| now.map_or(1, |now| now.as_secs()))
}

/// What the harness says at its end.
#[derive(Debug, PartialEq)]
struct Told {
    line: String,
    right: f64,
    /// What it fell over.
    wrong: Option<String>,
}

fn harness(engine: Option<&str>, seed: u64, calls: u64) -> Result<Told, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "-q", "-p", "kumiko-e2e", "--test", "rpc_faults"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.args(["--", "--nocapture"]);
    command
        .env("KUMIKO_SEED", seed.to_string())
        .env("KUMIKO_TRIALS", calls.to_string())
        .env("RUST_BACKTRACE", "0")
        .env_remove("KUMIKO_ENGINE")
        .envs(engine.map(|engine| ("KUMIKO_ENGINE", engine)));
    let most = u32::try_from(calls).unwrap_or(u32::MAX);
    let within = BUILT_WITHIN + CALL_WITHIN.saturating_mul(most);
    let said = match wait::output(&mut command, within) {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(Failure::Ended { said, .. }) => said,
        Err(failure) => return Err(failure),
    };
    told(&said).ok_or(Failure::Unexpected { what: said })
}

/// None: it did not come to its calls.
fn told(said: &str) -> Option<Told> {
    let line = said
        .lines()
        .find(|line| line.contains(" calls are right"))?;
    let right = line.split(' ').next()?.parse().ok()?;
    let wrong: Vec<&str> = said
        .lines()
        .skip_while(|line| !line.contains("panicked at"))
        .take(TOLD_LINES)
        .collect();
    Some(Told {
        line: line.to_owned(),
        right,
        wrong: (!wrong.is_empty()).then(|| wrong.join(" ").trim_start_matches(": ").to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_right_is_counted_and_the_first_that_is_not_told() {
        let line = "2 of 3 calls are right, 2 were hurt";
        let check = |said: &str, wrong: Option<&str>| {
            let found = told(said).map(|told| (told.right, told.line, told.wrong));
            let wrong = wrong.map(str::to_owned);
            assert_eq!(found, Some((2.0, line.to_owned(), wrong)), "{said}");
        };
        check(&format!("\nrunning 1 test\n{line}\n"), None);
        let panic = "thread 'x' panicked at e2e/tests/rpc_faults.rs:1:1:\nKUMIKO_SEED=3, trial 2: left: \"wrong\"";
        check(&format!("{line}\n{panic}"), Some(&panic.replace('\n', " ")));
        let wrong = format!("{} {line}", panic.replace('\n', " "));
        check(&format!("{panic}\n{line}"), Some(&wrong));
        assert_eq!(told("SKIP x: missing slurm that can be brought up"), None);
    }
}

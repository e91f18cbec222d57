//! Rows that put calls from Python beside those of a process pool, Ray, Dask and Parsl, which are installed from PyPI into target/ when they
//! are first asked for. Not here: our own calls (`rows`).

use super::drivers::{Driver, PYTHON, World};
use super::rows::{Asked, contenders, started, times};
use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Row};
use crate::rounds;
use crate::rows::or_missing;
use crate::stats::Unit;
use crate::wait;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const OURS: &str = "kumiko, nothing kept";
const DURABLE: &str = "kumiko, all durable";
/// As others.py names them.
const POOL: &str = "pool";
const RAY: &str = "ray";
const DASK: &str = "dask";
const PARSL: &str = "parsl";

const PLACE: &str = "target/bench/others";
const INSTALLED_WITHIN: Duration = Duration::from_secs(600);

/// A Python that has them, and its folder.
fn installed() -> Result<PathBuf, Failure> {
    let place = std::path::absolute(PLACE).doing(|| format!("finding {PLACE}"))?;
    let wanted = place.join("wanted.txt");
    let text = include_str!("others.txt");
    if std::fs::read_to_string(&wanted).is_ok_and(|has| has == text) {
        return Ok(place);
    }
    wait::output(
        Command::new(PYTHON).args(["-m", "venv"]).arg(&place),
        INSTALLED_WITHIN,
    )?;
    let new = place.join("new.txt");
    std::fs::write(&new, text).doing(|| format!("writing {}", new.display()))?;
    let mut pip = Command::new(place.join("bin/pip"));
    wait::output(
        pip.args(["install", "--quiet", "-r"]).arg(&new),
        INSTALLED_WITHIN,
    )?;
    std::fs::rename(&new, &wanted).doing(|| format!("renaming {}", new.display()))?;
    Ok(place)
}

fn start(place: &Path, folder: &Path, name: &str) -> Result<Driver, Failure> {
    let bin = place.join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    // Whatever they start ends with it.
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-current-user", "--pid", "--mount-proc"])
        .args(["--fork", "--kill-child"])
        .arg(bin.join("python"))
        .arg(folder.join("others.py"))
        .arg(name)
        .env("PATH", format!("{}:{path}", bin.display()))
        // Ray writes a token there, and Parsl a trace.
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("RAY_AUTH_MODE", "disabled")
        .env("RAY_USAGE_STATS_ENABLED", "0");
    Driver::start(&mut command)
}

/// All of them in turn.
fn beside(row: &mut Row, bench: &Bench, rounds: usize, what: Asked<'_>) -> Result<(), Failure> {
    let world = World::new(bench)?;
    let mut all = vec![
        (OURS, world.python("none")),
        (DURABLE, world.python("full")),
    ];
    match installed() {
        Ok(place) => {
            let other = |name| (name, start(&place, world.folder(), name));
            all.extend([POOL, RAY, DASK, PARSL].map(other));
        }
        Err(failure) => row.lacks(None, &failure),
    }
    let mut drivers = started(row, all);
    let contenders = contenders(&mut drivers, what, false);
    rounds::take(row, bench.rounds(rounds), contenders);
    row.note("One worker each, on loopback, asked in turn. The others speak without TLS, and keep nothing; the pool is one process beside its caller.");
    Ok(())
}

fn not_slower() -> Vec<Goal> {
    vec![
        times("no slower than Ray", OURS, RAY, 1.0),
        times("no slower than Dask", OURS, DASK, 1.0),
        times("no slower than Parsl", OURS, PARSL, 1.0),
    ]
}

pub fn null(bench: &Bench) -> Row {
    let row = Row::new(
        "others",
        "A null call from Python, beside others",
        not_slower(),
    );
    or_missing(row, |row| {
        beside(row, bench, 30, ("null", 50, Unit::Seconds))?;
        row.note("Each sample is the mean of 50 calls in a row.");
        Ok(())
    })
}

pub fn big(bench: &Bench) -> Row {
    let title = "8 MiB in, 12 KiB out, from Python, beside others";
    let row = Row::new("others_big", title, not_slower());
    or_missing(row, |row| beside(row, bench, 30, ("big", 1, Unit::Seconds)))
}

pub fn rate(bench: &Bench) -> Row {
    let title = "Null calls from Python that do not wait for each other, beside others";
    let row = Row::new("others_rate", title, Vec::new());
    or_missing(row, |row| {
        beside(row, bench, 15, ("pipelined", 500, Unit::PerSecond))?;
        row.note("Each sample is 500 calls, all begun before the first is waited for.");
        Ok(())
    })
}

//! The rows of `bench rpc`: what is reached for, and how often who is asked.

use super::drivers::{Driver, World};
use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::Unit;
use std::io::Write;
use std::time::Instant;

const RAW: &str = "raw TLS chain of as many hops";
const C: &str = "C";
const PYTHON: &str = "Python";
const RECORD: &str = "C, with a durable record";
const FULL: &str = "C, all of it durable";
const AUTO: &str = "C, durable if it lasts (usual)";
const FSYNC: &str = "fsync of 4 KiB there";

/// Calls in one sample of the mean, and of the tail.
const BURST: usize = 100;
const TAIL: usize = 500;
/// Durable calls in one sample.
const DURABLE: usize = 20;
/// Open at once: what one client may have.
const PIPELINED: usize = 1000;

/// Those that could be started; why the others could not stands in the row.
pub fn started(
    row: &mut Row,
    all: Vec<(&'static str, Result<Driver, Failure>)>,
) -> Vec<(&'static str, Driver)> {
    let mut up = Vec::new();
    for (name, driver) in all {
        match driver {
            Ok(driver) => up.push((name, driver)),
            Err(failure) => row.lacks(Some(name), &failure),
        }
    }
    up
}

/// What, how many calls a sample, and in what that is told.
pub type Asked<'a> = (&'a str, usize, Unit);

/// The first or second figure.
pub fn contenders<'a>(
    drivers: &'a mut [(&'static str, Driver)],
    (what, count, unit): Asked<'a>,
    second: bool,
) -> Vec<Contender<'a>> {
    drivers
        .iter_mut()
        .map(|(name, driver)| {
            Contender::new(name, unit, move || {
                let (first, other) = driver.ask(what, count)?;
                Ok(if second { other } else { first })
            })
        })
        .collect()
}

pub fn times(text: &'static str, ours: &'static str, theirs: &'static str, times: f64) -> Goal {
    Goal {
        text,
        ours,
        reach: Reach::AtMostTimes { theirs, times },
    }
}

/// The raw chain, C and Python in turn, of calls of which nothing is kept.
fn beside_raw(
    row: &mut Row,
    bench: &Bench,
    rounds: usize,
    what: (&'static str, usize),
    slowest: bool,
) -> Result<(), Failure> {
    let world = World::new(bench)?;
    let (_server, raw) = world.raw()?;
    let all = vec![
        (RAW, Ok(raw)),
        (C, world.c("none")),
        (PYTHON, world.python("none")),
    ];
    let mut drivers = started(row, all);
    let what = (what.0, what.1, Unit::Seconds);
    let contenders = contenders(&mut drivers, what, slowest);
    rounds::take(row, bench.rounds(rounds), contenders);
    Ok(())
}

pub fn null(bench: &Bench) -> Row {
    let goals = vec![
        times("C: ≤ 2 × the raw chain", C, RAW, 2.0),
        times("Python: ≤ 2.5 × C", PYTHON, C, 2.5),
    ];
    let row = Row::new("null", "A null call of a warm routine", goals);
    or_missing(row, |row| {
        beside_raw(row, bench, 100, ("null", BURST), false)?;
        row.note("Each sample is the mean of 100 calls in a row; TLS on loopback; nothing of a call is kept.");
        Ok(())
    })
}

pub fn tail(bench: &Bench) -> Row {
    let goals = vec![times("C: p99 ≤ 2 × the raw chain's", C, RAW, 2.0)];
    let row = Row::new("tail", "The slowest of many null calls", goals);
    or_missing(row, |row| {
        beside_raw(row, bench, 30, ("null", TAIL), true)?;
        row.note("Each sample is the 99th percentile of 500 calls in a row.");
        Ok(())
    })
}

pub fn durable(bench: &Bench) -> Row {
    let goals = vec![
        Goal {
            text: "record: ≤ 300 µs",
            ours: RECORD,
            reach: Reach::AtMost { limit: 300e-6 },
        },
        times("record: or ≤ 2 × an fsync there", RECORD, FSYNC, 2.0),
    ];
    let row = Row::new("durable", "A null call that is recorded durably", goals);
    or_missing(row, |row| {
        let world = World::new(bench)?;
        let all = vec![
            (RECORD, world.c("record")),
            (FULL, world.c("full")),
            (AUTO, world.c("auto")),
        ];
        let mut drivers = started(row, all);
        let mut contenders = contenders(&mut drivers, ("null", DURABLE, Unit::Seconds), false);
        let mut file = tempfile::tempfile().doing(|| "making a file")?;
        contenders.push(Contender::new(FSYNC, Unit::Seconds, move || {
            let begun = Instant::now();
            for _ in 0..DURABLE {
                file.write_all(&[1; 4096]).doing(|| "writing a file")?;
                file.sync_data().doing(|| "syncing a file")?;
            }
            Ok(begun.elapsed().as_secs_f64() / DURABLE as f64)
        }));
        rounds::take(row, bench.rounds(50), contenders);
        row.note("Each sample is the mean of 20 calls, or fsyncs after 4 KiB more, in a row.");
        Ok(())
    })
}

pub fn pipelined(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "C: ≥ 100,000 a second",
        ours: C,
        reach: Reach::AtLeast { limit: 100_000.0 },
    }];
    let row = Row::new(
        "pipelined",
        "Null calls that do not wait for each other",
        goals,
    );
    or_missing(row, |row| {
        let world = World::new(bench)?;
        let all = vec![(C, world.c("none")), (PYTHON, world.python("none"))];
        let mut drivers = started(row, all);
        let what = ("pipelined", PIPELINED, Unit::PerSecond);
        let contenders = contenders(&mut drivers, what, false);
        rounds::take(row, bench.rounds(30), contenders);
        row.note("Each sample is 1000 calls, all begun before the first is waited for.");
        Ok(())
    })
}

pub fn big(bench: &Bench) -> Row {
    let goals = vec![times("C: ≤ 1.25 × the raw program", C, RAW, 1.25)];
    let row = Row::new("big", "8 MiB in, 12 KiB out", goals);
    or_missing(row, |row| {
        beside_raw(row, bench, 50, ("big", 1), false)?;
        Ok(())
    })
}

//! Paper 001's figures 5 and 6, Linpack through HTCondor's slots, and a long call that dies half-way.

use super::drivers::{Driver, Routines, World};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::guard;
use crate::info::curve::{Axis, Curve, Point, curves};
use crate::proc;
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::{Summary, Unit};

const SIZES: [u32; 5] = [64, 128, 256, 512, 1024];
const SMALL: &str = "linpack 128";
const LARGE: u32 = 1024;

const LOCAL: &str = "without a call";
const FORK: &str = "site of fork";
const CONDOR: &str = "HTCondor, only computed";
const ONCE: &str = "HTCondor, one checkpoint";
const AGAIN: &str = "HTCondor, a checkpoint and a death";

/// Durability, if nothing is said: of a call that is large, or lasts, all outlives the machine.
const USUAL: &str = "auto";
const MADE_WITH: &[&str] = &["--checkpoint"];

fn world(bench: &Bench, engine: Option<&'static str>) -> Result<World, Failure> {
    let routines = Routines {
        idl: "paper.idl",
        made: MADE_WITH,
        engine,
    };
    World::with(bench, routines)
}

/// Seconds of one call, and how it goes (paper.idl).
fn one(driver: &mut Driver, what: &str, how: usize) -> Result<f64, Failure> {
    driver.ask(what, how).map(|(seconds, _)| seconds)
}

/// As the benchmark counts them.
fn mflops(n: u32, seconds: f64) -> f64 {
    let n = f64::from(n);
    (2.0 * n.powi(3) / 3.0 + 2.0 * n.powi(2)) / seconds / 1e6
}

pub fn by_size(bench: &Bench) -> Row {
    let goals = vec![Goal {
        text: "N = 1024 through HTCondor ≤ 1.05 × a site of fork",
        ours: CONDOR,
        reach: Reach::AtMostTimes {
            theirs: FORK,
            times: 1.05,
        },
    }];
    let title = "Paper 001, figure 5: Linpack by its size; the series are those of N = 1024";
    let row = Row::new("linpack", title, goals);
    or_missing(row, |row| {
        let (fork, condor) = (world(bench, None)?, world(bench, Some("condor"))?);
        let (mut here, mut direct) = (fork.paper(USUAL)?, fork.paper(USUAL)?);
        let drivers = [CONDOR, ONCE, AGAIN].map(|name| Ok((name, condor.paper(USUAL)?)));
        let [mut plain, mut once, mut again] = all(drivers)?;
        let mut speeds: [Vec<Point>; 5] = Default::default();
        let names = [LOCAL, FORK, CONDOR, ONCE, AGAIN];
        for n in SIZES {
            let (what, local) = (format!("linpack {n}"), format!("local {n}"));
            let mut took = Row::new("took", "", Vec::new());
            let contenders = vec![
                Contender::new(LOCAL, Unit::Seconds, || one(&mut here, &local, 0)),
                Contender::new(FORK, Unit::Seconds, || one(&mut direct, &what, 0)),
                Contender::new(CONDOR, Unit::Seconds, || one(&mut plain.1, &what, 0)),
                Contender::new(ONCE, Unit::Seconds, || one(&mut once.1, &what, 1)),
                Contender::new(AGAIN, Unit::Seconds, || one(&mut again.1, &what, 2)),
            ];
            rounds::take(&mut took, bench.rounds(30), contenders);
            let mut told = Vec::new();
            for (name, speeds) in names.into_iter().zip(&mut speeds) {
                let samples = took.series(name, Unit::Seconds).clone();
                if let Some(summary) = Summary::of(&samples) {
                    let shown = Unit::Seconds.show(summary.median);
                    told.push(format!("{name} {shown}"));
                    speeds.push(Point {
                        x: n.into(),
                        y: mflops(n, summary.median),
                        computed: false,
                    });
                }
                if n == LARGE {
                    row.series(name, Unit::Seconds).extend(samples);
                }
            }
            row.note(format!("N = {n}: {}.", told.join(", ")));
            row.missing.extend(took.missing);
        }
        let axis = |label| Axis::of(label, true);
        let drawn = names.into_iter().zip(speeds);
        let drawn = drawn.map(|(name, points)| Curve { name, points });
        let drawn: Vec<Curve> = drawn.collect();
        row.pictures
            .push(curves(&axis("N"), &axis("Mflop/s"), &drawn));
        row.note("Elimination in plain loops; calls of the usual durability, by a pilot in a slot of HTCondor on this machine.");
        row.note("The paper: through HTCondor more than 3 × as long where calls are small; no difference at N = 1024.");
        Ok(())
    })
}

fn all<T, const N: usize>(all: [Result<T, Failure>; N]) -> Result<[T; N], Failure> {
    let all: Result<Vec<T>, Failure> = all.into_iter().collect();
    let lost = |_| Failure::unexpected("a program that calls is missing");
    all?.try_into().map_err(lost)
}

pub fn small(bench: &Bench) -> Row {
    const TAIL: &str = "p99 ÷ p50";
    let goals = vec![
        Goal {
            text: "p50 ≤ 5 ms",
            ours: CONDOR,
            reach: Reach::AtMost { limit: 5e-3 },
        },
        Goal {
            text: "p99 ≤ 3 × p50",
            ours: TAIL,
            reach: Reach::AtMost { limit: 3.0 },
        },
    ];
    let title = "Paper 001, figure 6: Linpack of N = 128 through HTCondor, again and again";
    let row = Row::new("small", title, goals);
    or_missing(row, |row| {
        let condor = world(bench, Some("condor"))?;
        let mut driver = condor.paper(USUAL)?;
        // The first one waits for the engine.
        let first = one(&mut driver, SMALL, 0)?;
        let mut samples = Vec::new();
        for _ in 0..bench.rounds(1000) {
            guard::go_on();
            samples.push(one(&mut driver, SMALL, 0)?);
        }
        if let Some(summary) = Summary::of(&samples) {
            row.series(TAIL, Unit::Plain)
                .push(summary.p99 / summary.median);
            let slow = samples.iter().filter(|s| **s > 3.0 * summary.median);
            row.note(format!(
                "{} of {} calls took more than three times the median; the slowest {}, the very first {}.",
                slow.count(),
                samples.len(),
                Unit::Seconds.show(summary.most),
                Unit::Seconds.show(first),
            ));
        }
        let numbered = samples.iter().enumerate().map(|(number, seconds)| Point {
            x: number as f64 + 1.0,
            y: 1000.0 * seconds,
            computed: false,
        });
        let curve = Curve {
            name: CONDOR,
            points: numbered.collect(),
        };
        let axis = |label| Axis::of(label, false);
        row.pictures
            .push(curves(&axis("call"), &axis("milliseconds"), &[curve]));
        row.series(CONDOR, Unit::Seconds).extend(samples);
        row.note("The paper: of 100 calls every fifth took extremely long, waiting for HTCondor's matching.");
        Ok(())
    })
}

/// Millions of doubles: more than 4 GiB.
const HUGE: &str = "huge 600";
/// How it travels.
const IN: usize = 0;
const BACK: usize = 1;
const BOTH: usize = 2;
const HUGE_BYTES: f64 = 600e6 * 8.0;
/// Of arguments (rpc-client's BLOCK_BYTES).
const BLOCK_BYTES: f64 = 256.0 * 1024.0;

pub fn huge(bench: &Bench) -> Row {
    by_direction(bench, "huge", "An array of 4.8 GB goes in", IN)
}

pub fn huge_back(bench: &Bench) -> Row {
    by_direction(bench, "huge_back", "An array of 4.8 GB comes back", BACK)
}

pub fn huge_both(bench: &Bench) -> Row {
    let title = "An array of 4.8 GB goes in and comes back";
    by_direction(bench, "huge_both", title, BOTH)
}

fn by_direction(bench: &Bench, key: &'static str, title: &'static str, how: usize) -> Row {
    const CLIENT: &str = "client, beside its array";
    const SITE: &str = "site";
    let goal = |ours| Goal {
        text: "larger by one block at most",
        ours,
        reach: Reach::AtMost { limit: BLOCK_BYTES },
    };
    let goals = vec![goal(CLIENT), goal(SITE)];
    let row = Row::new(key, title, goals);
    or_missing(row, |row| {
        for _ in 0..bench.rounds(3).min(3) {
            guard::go_on();
            let fork = world(bench, None)?;
            let mut driver = fork.paper(USUAL)?;
            one(&mut driver, SMALL, 0)?;
            let site = fork.site_pid()?;
            let before = proc::peak_bytes(site)?;
            let (seconds, more) = driver.ask(HUGE, how)?;
            row.series(CLIENT, Unit::Bytes).push(more);
            let site = proc::peak_bytes(site)?.saturating_sub(before);
            row.series(SITE, Unit::Bytes).push(site as f64);
            row.series("rate", Unit::BytesPerSecond)
                .push(HUGE_BYTES / seconds);
        }
        row.note("By how much each process' memory was larger at most than before the call; a small call went before. The routine has its \
                  arguments and results in a file that it maps.");
        Ok(())
    })
}

pub fn killed(bench: &Bench) -> Row {
    const UNDISTURBED: &str = "undisturbed";
    const KILLED: &str = "killed half-way";
    let goals = vec![Goal {
        text: "≤ 1.1 × undisturbed",
        ours: KILLED,
        reach: Reach::AtMostTimes {
            theirs: UNDISTURBED,
            times: 1.1,
        },
    }];
    let row = Row::new(
        "killed",
        "A call of a minute whose routine is killed half-way",
        goals,
    );
    or_missing(row, |row| {
        let fork = world(bench, None)?;
        let drivers = [fork.paper(USUAL), fork.paper(USUAL)];
        let [mut peace, mut death] = all(drivers)?;
        let what = if bench.options.quick {
            "long 10000"
        } else {
            "long 60000"
        };
        let contenders = vec![
            Contender::new(UNDISTURBED, Unit::Seconds, || one(&mut peace, what, 0)),
            Contender::new(KILLED, Unit::Seconds, || one(&mut death, what, 1)),
        ];
        rounds::take_long(row, bench.rounds(3), contenders);
        row.note("8 MiB of state; checkpoints as often as the library finds that they pay (K31).");
        Ok(())
    })
}

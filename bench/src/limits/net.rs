//! Rows of the network: what a guest sends and receives over the loopback, counted at the other end after two seconds.

use super::place::{Beside, Keeper, Place};
use super::receiver::Receiver;
use super::{Options, near};
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::info::curve::{Axis, Curve, Point, curves};
use crate::proc;
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::Unit;
use crate::wait::{self, SAMPLE_WITHIN};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// The rates have settled: what the table asks for.
const SETTLED: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(2);
/// A guest goes on for longer than it is looked at.
const GUEST_S: &str = "6";
pub const MBIT: f64 = 1e6 / 8.0;
const NAMESPACE: Keeper = Keeper::Ours("namespace");
const NATIVE: &str = "no sandbox";

/// One run: what came, bytes a second.
pub fn sent(
    place: &Place,
    keeper: Keeper,
    limit: Option<&str>,
    of: (&str, &str),
) -> Result<f64, Failure> {
    let receiver = Receiver::open(false)?;
    let port = receiver.port.to_string();
    let words = ["send", &port, GUEST_S, of.0, of.1];
    let _guest = Beside::start(place.guest(keeper, limit, &words))?;
    receiver.rate(SETTLED, SETTLED + MEASURED)
}

pub fn send(place: &Place, options: &Options) -> Row {
    const RATES: [(&str, &str, &str, f64, f64); 4] = [
        ("10 Mbit/s ± 5 %", "10 Mbit/s", "net=10Mbit/s", 10.0, 0.05),
        (
            "100 Mbit/s ± 2 %",
            "100 Mbit/s",
            "net=100Mbit/s",
            100.0,
            0.02,
        ),
        ("1 Gbit/s ± 2 %", "1 Gbit/s", "net=1Gbit/s", 1e3, 0.02),
        ("5 Gbit/s ± 2 %", "5 Gbit/s", "net=5Gbit/s", 5e3, 0.02),
    ];
    let goals = RATES.map(|(text, name, _, mbit, by)| near(text, name, mbit * MBIT, by));
    let mut row = Row::new("send", "What one socket sends under a limit", goals.into());
    let mut contenders: Vec<Contender<'_>> = RATES
        .into_iter()
        .map(|(_, name, limit, ..)| {
            Contender::new(name, Unit::BytesPerSecond, move || {
                sent(place, NAMESPACE, Some(limit), ("1", "1"))
            })
        })
        .collect();
    contenders.push(Contender::new(NATIVE, Unit::BytesPerSecond, move || {
        sent(place, Keeper::Native, None, ("1", "1"))
    }));
    rounds::take_long(&mut row, options.rounds(5), contenders);
    row.note("Writes of 16 KiB over the loopback, counted by the receiver from 2 s to 4 s after the connection came.");
    row
}

pub fn many(place: &Place, options: &Options) -> Row {
    const NAME: &str = "8 processes × 4 sockets";
    let goals = vec![near("1 Gbit/s ± 5 %", NAME, 1e3 * MBIT, 0.05)];
    let mut row = Row::new(
        "many",
        "What 32 sockets of 8 processes send under one limit",
        goals,
    );
    let one = |name, keeper, limit| {
        Contender::new(name, Unit::BytesPerSecond, move || {
            sent(place, keeper, limit, ("8", "4"))
        })
    };
    let contenders = vec![
        one(NAME, NAMESPACE, Some("net=1Gbit/s")),
        one(NATIVE, Keeper::Native, None),
    ];
    rounds::take_long(&mut row, options.rounds(5), contenders);
    row
}

pub fn free(place: &Place, options: &Options) -> Row {
    const OURS: [&str; 3] = ["namespace", "notify", "ptrace"];
    let goals = OURS.map(|ours| Goal {
        text: "no limit set: ≥ 0.98 × no sandbox",
        ours,
        reach: Reach::AtLeastTimes {
            theirs: NATIVE,
            times: 0.98,
        },
    });
    let mut row = Row::new("free", "What is sent without a limit", goals.into());
    let keepers = [(NATIVE, Keeper::Native)]
        .into_iter()
        .chain(OURS.map(|name| (name, Keeper::Ours(name))));
    let contenders = keepers.map(|(name, keeper)| {
        Contender::new(name, Unit::BytesPerSecond, move || {
            sent(place, keeper, None, ("1", "1"))
        })
    });
    rounds::take_long(&mut row, options.rounds(9), contenders.collect());
    row
}

/// Voluntary waits of each supervisor below a process: one that answers a call waits for the next.
fn waits_of_guards(root: u32) -> Result<u64, Failure> {
    let all = proc::all()?;
    let mut parents: BTreeMap<u32, Vec<&proc::Process>> = BTreeMap::new();
    for process in &all {
        parents.entry(process.parent).or_default().push(process);
    }
    let (mut waits, mut next) = (0, vec![root]);
    while let Some(pid) = next.pop() {
        for process in parents.get(&pid).into_iter().flatten() {
            if process.name.starts_with("kumiko-guard") {
                waits += waits_of(process.pid);
            }
            next.push(process.pid);
        }
    }
    Ok(waits)
}

/// Of all its threads; 0 when it is gone.
fn waits_of(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let texts = threads.into_iter().flatten().flatten();
    texts
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok())
        .filter_map(|status| {
            let line = status
                .lines()
                .find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        })
        .sum()
}

pub fn calls(place: &Place, _options: &Options) -> Row {
    const OURS: [(&str, &str); 2] = [
        ("notify", "waits of notify's supervisor, a write"),
        ("ptrace", "waits of ptrace's supervisor, a write"),
    ];
    let goals = OURS.map(|(_, ours)| Goal {
        text: "no data call is intercepted: < 0.001 a write",
        ours,
        reach: Reach::AtMost { limit: 1e-3 },
    });
    let row = Row::new(
        "calls",
        "Data calls that are intercepted under a limit",
        goals.into(),
    );
    let measure = |mechanism: &'static str| -> Result<(f64, f64), Failure> {
        let receiver = Receiver::open(false)?;
        let port = receiver.port.to_string();
        let words = ["send", &port, GUEST_S, "1", "1"];
        let limit = Some("net=1Gbit/s");
        let guest = Beside::start(place.guest(Keeper::Ours(mechanism), limit, &words))?;
        receiver.begun()?;
        let before = waits_of_guards(guest.pid)?;
        receiver.rate(SETTLED, SETTLED + MEASURED)?;
        let after = waits_of_guards(guest.pid)?;
        Ok(((after - before) as f64, guest.figure()?))
    };
    or_missing(row, |row| {
        for (mechanism, name) in OURS {
            let (waits, writes) = measure(mechanism)?;
            row.series(name, Unit::Plain).push(waits / writes);
            row.note(format!("{mechanism}: {waits} waits of its supervisor within 4 s, {writes} writes of the guest in 6 s."));
        }
        row.note("Under namespace nobody stands by the guest's calls; there are none to count.");
        Ok(())
    })
}

pub fn first(place: &Place, options: &Options) -> Row {
    const OURS: [(&str, &str); 4] = [
        ("namespace", "namespace"),
        ("notify", "notify"),
        ("ptrace", "ptrace"),
        ("library", "library"),
    ];
    const LIMIT: f64 = 100.0 * MBIT;
    const LOOKED_AT: Duration = Duration::from_millis(200);
    let goals = OURS.map(|(_, ours)| Goal {
        text: "≤ 1 MB beyond 100 Mbit/s within the first 200 ms",
        ours,
        reach: Reach::AtMost { limit: 1e6 },
    });
    let mut row = Row::new(
        "first",
        "What a new connection sends too much",
        goals.into(),
    );
    let contenders = OURS.map(|(mechanism, name)| {
        Contender::new(name, Unit::Bytes, move || {
            let receiver = Receiver::open(false)?;
            let port = receiver.port.to_string();
            let words = ["send", &port, "1", "1", "1"];
            let limit = Some("net=100Mbit/s");
            let _guest = Beside::start(place.guest(Keeper::Ours(mechanism), limit, &words))?;
            let seen = receiver.glances(LOOKED_AT)?;
            let last = seen.last().map_or(0.0, |seen| seen.bytes as f64);
            Ok((last - LIMIT * LOOKED_AT.as_secs_f64()).max(0.0))
        })
    });
    rounds::take_long(&mut row, options.rounds(9), contenders.into());
    row.note("A socket that is not yet found has no pace; where connections are asked for, it has one before it is connected.");
    row
}

pub fn change(place: &Place, options: &Options) -> Row {
    const TAKEN: &str = "from `sandbox set` to its rate";
    let goals = vec![Goal {
        text: "≤ 100 ms",
        ours: TAKEN,
        reach: Reach::AtMost { limit: 0.1 },
    }];
    let mut row = Row::new(
        "change",
        "100 Mbit/s changed to 1 Gbit/s while a guest sends",
        goals,
    );
    let mut pictured = Vec::new();
    let mut changed = || -> Result<f64, Failure> {
        let receiver = Receiver::open(false)?;
        let port = receiver.port.to_string();
        let words = ["send", &port, GUEST_S, "1", "1"];
        let guest = Beside::start(place.guest(NAMESPACE, Some("net=100Mbit/s"), &words))?;
        let begun = receiver.begun()?;
        std::thread::sleep(SETTLED.saturating_sub(begun.elapsed()));
        let kumiko = place.kumiko().to_owned();
        let setting = std::thread::spawn(move || {
            let mut set = Command::new(kumiko);
            set.args([
                "sandbox",
                "set",
                &format!("pid:{}", guest.pid),
                "net=1Gbit/s",
            ]);
            let set = wait::output(&mut set, SAMPLE_WITHIN).map(drop);
            (set, begun.elapsed(), guest)
        });
        let seen = receiver.glances(SETTLED + MEASURED)?;
        let joined = setting.join();
        let (set, at, _guest) =
            joined.map_err(|_| Failure::unexpected("setting the limit broke off"))?;
        set?;
        // The first stretch of 20 ms that runs at more than half of the new rate.
        let rates: Vec<(f64, f64)> = seen
            .windows(5)
            .filter_map(|some| {
                let (first, last) = (some.first()?, some.last()?);
                let rate = (last.bytes - first.bytes) as f64 / (last.at - first.at).as_secs_f64();
                Some((first.at.as_secs_f64(), rate))
            })
            .collect();
        let fast =
            |(since, rate): &&(f64, f64)| *since > SETTLED.as_secs_f64() && *rate > 500.0 * MBIT;
        let taken = rates.iter().find(fast).map(|(since, _)| *since);
        pictured = rates;
        let taken = taken.ok_or_else(|| Failure::unexpected("the rate never rose"))?;
        Ok((taken - at.as_secs_f64()).max(1e-3))
    };
    let contenders = vec![Contender::new(TAKEN, Unit::Seconds, &mut changed)];
    rounds::take_long(&mut row, options.rounds(9), contenders);
    let line = Curve {
        name: "what comes",
        points: pictured
            .into_iter()
            .map(|(x, y)| Point {
                x,
                y: y / MBIT,
                computed: false,
            })
            .collect(),
    };
    let axis = |label| Axis::of(label, false);
    row.pictures
        .push(curves(&axis("s"), &axis("Mbit/s"), &[line]));
    row.note("From the end of the command; at least 1 ms is written, as what comes is looked at each 5 ms.");
    row
}

pub fn receive(place: &Place, options: &Options) -> Row {
    const RATES: [(&str, &str, &str, f64); 2] = [
        ("100 Mbit/s ± 10 %", "100 Mbit/s", "net=100Mbit/s", 100.0),
        ("1 Gbit/s ± 10 %", "1 Gbit/s", "net=1Gbit/s", 1e3),
    ];
    let goals = RATES.map(|(text, name, _, mbit)| near(text, name, mbit * MBIT, 0.1));
    let mut row = Row::new(
        "receive",
        "What one socket receives under a limit",
        goals.into(),
    );
    let received = move |keeper, limit| -> Result<f64, Failure> {
        let sender = Receiver::open(true)?;
        let port = sender.port.to_string();
        Place::figure(&mut place.guest(keeper, limit, &["receive", &port, GUEST_S]))
    };
    let mut contenders: Vec<Contender<'_>> = RATES
        .into_iter()
        .map(|(_, name, limit, _)| {
            Contender::new(name, Unit::BytesPerSecond, move || {
                received(NAMESPACE, Some(limit))
            })
        })
        .collect();
    contenders.push(Contender::new(NATIVE, Unit::BytesPerSecond, move || {
        received(Keeper::Native, None)
    }));
    rounds::take_long(&mut row, options.rounds(5), contenders);
    row.note("Counted by the guest, from 2 s on.");
    row
}

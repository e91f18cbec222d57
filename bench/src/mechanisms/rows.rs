//! The rows of the mechanisms' speed table: what is reached for, and how it is taken.

use super::Options;
use super::figures::{self, PROCESSES};
use super::way::{Guest, Place, Way, absent};
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::rows::{sandbox, seconds_of};
use crate::stats::Unit;
use std::process::Command;

const NATIVE: &str = "native";

fn at_most(text: &'static str, ours: &'static str, theirs: &'static str, times: f64) -> Goal {
    Goal {
        text,
        ours,
        reach: Reach::AtMostTimes { theirs, times },
    }
}

/// What an open and a close may cost, by mechanism.
fn open_goals() -> Vec<Goal> {
    vec![
        at_most("namespace ≤ 1.05 × native", "namespace", NATIVE, 1.05),
        at_most("library ≤ 1.2 × native", "library", NATIVE, 1.2),
        at_most("notify ≤ 1.5 × a bare loop", "notify", "bare notify", 1.5),
        at_most("ptrace ≤ 1.3 × a bare loop", "ptrace", "bare ptrace", 1.3),
    ]
}

pub fn open(place: &Place, options: &Options) -> Row {
    let mut row = Row::new("open", "open and close of a mapped file", open_goals());
    let contenders = Way::ALL.map(|way| {
        Contender::new(way.name(), Unit::Seconds, move || {
            Ok(place.run(way, &Guest::opening(way.calls()))?.median_s)
        })
    });
    rounds::take(&mut row, options.rounds(30), contenders.into());
    row.note("A policy of 100 rules; guest and runner on one core; the median of short stretches of calls.");
    row.note("The bare loops, in C, read the path, replace its beginning and have the file opened: no more.");
    row.note(
        "PRoot traces every call; strace maps nothing, and stops opens alone (--seccomp-bpf).",
    );
    row
}

/// So many times as long is a sample where the kernel puts both: a program and its answerer begin on one core, and come apart
/// after some milliseconds.
const STEADY: usize = 20;

pub fn unpinned(place: &Place, options: &Options) -> Row {
    let goals = open_goals().into_iter().skip(2).collect();
    let mut row = Row::new("unpinned", "The same, wherever the kernel puts both", goals);
    let ways = [
        Way::Native,
        Way::Ours("notify"),
        Way::BareNotify,
        Way::Ours("ptrace"),
        Way::BareTrace,
        Way::Proot,
    ];
    let contenders = ways.map(|way| {
        Contender::new(way.name(), Unit::Seconds, move || {
            let guest = Guest {
                pinned: false,
                ..Guest::opening(STEADY * way.calls())
            };
            Ok(place.run(way, &guest)?.wall_s)
        })
    });
    rounds::take(&mut row, options.rounds(10), contenders.into());
    row.note("All of the wall time: where a wake-up goes to another core it costs several calls.");
    row
}

pub fn others(place: &Place, options: &Options) -> Row {
    let goals = Way::OURS.map(|name| at_most("≤ 1.05 × native", name, NATIVE, 1.05));
    let mut row = Row::new(
        "others",
        "A call that no mechanism selects (getppid)",
        goals.into(),
    );
    let contenders = Way::ALL.map(|way| {
        // Whoever stops every call, stops these too.
        let calls = if way == Way::Proot { 1_600 } else { 64_000 };
        Contender::new(way.name(), Unit::Seconds, move || {
            let guest = Guest {
                opens: false,
                ..Guest::opening(calls)
            };
            Ok(place.run(way, &guest)?.median_s)
        })
    });
    rounds::take(&mut row, options.rounds(30), contenders.into());
    row.note("A call that does next to nothing: what any filter of calls costs, the bare loops' too, is most of it.");
    row
}

/// One process, and as many as the table asks for: names of the series.
const ONE_AND_ALL: [(Way, &str, &str); 8] = [
    (Way::Ours("namespace"), "namespace, 1", "namespace, 64"),
    (Way::Ours("library"), "library, 1", "library, 64"),
    (Way::Ours("notify"), "notify, 1", "notify, 64"),
    (Way::Ours("ptrace"), "ptrace, 1", "ptrace, 64"),
    (Way::BareNotify, "bare notify, 1", "bare notify, 64"),
    (Way::BareTrace, "bare ptrace, 1", "bare ptrace, 64"),
    (Way::Proot, "PRoot, 1", "PRoot, 64"),
    (Way::Native, "native, 1", "native, 64"),
];

pub fn processes(place: &Place, options: &Options) -> Row {
    let goals = ONE_AND_ALL
        .into_iter()
        .filter(|(way, ..)| matches!(way, Way::Ours(_)))
        .map(|(_, one, all)| at_most("64 processes ≤ 1.3 × one", all, one, 1.3))
        .collect();
    let mut row = Row::new(
        "processes",
        "From 1 to 64 processes, time a call and core",
        goals,
    );
    let most = PROCESSES.last().copied().unwrap_or(1);
    let mut contenders = Vec::new();
    for (way, one, all) in ONE_AND_ALL {
        for (name, processes) in [(one, 1), (all, most)] {
            contenders.push(Contender::new(name, Unit::Seconds, move || {
                Ok(place
                    .run(way, &figures::of_processes(way, processes))?
                    .wall_s)
            }));
        }
    }
    rounds::take(&mut row, options.rounds(15), contenders);
    row.note("Wall time × cores in use / calls of all processes, on all cores: native's own share of the machine included.");
    figures::processes(&mut row, place, options);
    row
}

pub fn start(place: &Place, options: &Options) -> Row {
    let goal = |text, ours, by| Goal {
        text,
        ours,
        reach: Reach::AtMostMore { theirs: NATIVE, by },
    };
    let goals = vec![
        goal("namespace ≤ native + 2 ms", "namespace", 2e-3),
        goal("library ≤ native + 3 ms", "library", 3e-3),
        goal("notify ≤ native + 3 ms", "notify", 3e-3),
        goal("ptrace ≤ native + 3 ms", "ptrace", 3e-3),
    ];
    const COMMANDS: [(Way, &str); 4] = [
        (Way::Ours("namespace"), "namespace, as a command"),
        (Way::Ours("library"), "library, as a command"),
        (Way::Ours("notify"), "notify, as a command"),
        (Way::Ours("ptrace"), "ptrace, as a command"),
    ];
    let mut row = Row::new("start", "Start of /bin/true, to its end", goals);
    let mut contenders: Vec<Contender<'_>> = Way::OURS
        .into_iter()
        .map(|name| {
            Contender::new(name, Unit::Seconds, move || {
                sandbox::in_process(place.folder(), name)
            })
        })
        .collect();
    let others = [
        Way::Native,
        Way::BareNotify,
        Way::BareTrace,
        Way::Bubblewrap,
        Way::Proot,
        Way::Strace,
    ];
    let others = others.into_iter().map(|way| (way, way.name()));
    for (way, name) in COMMANDS.into_iter().chain(others) {
        contenders.push(Contender::new(name, Unit::Seconds, move || {
            seconds_of(&mut place.command(way, "/bin/true", &[])).map_err(|f| absent(way, f))
        }));
    }
    contenders.push(Contender::new("kumiko --version", Unit::Seconds, || {
        seconds_of(Command::new(place.kumiko()).arg("--version"))
    }));
    rounds::take(&mut row, options.rounds(100), contenders);
    row.note("By name alone: in a process that is there already, as a runner is; the others are commands with their own start.");
    row
}

/// Bytes of the longest path that is asked for, of the shortest, and what the difference may cost.
const LONG: usize = 4_000;
const SHORT: usize = 30;

pub fn length(place: &Place, options: &Options) -> Row {
    const SERIES: [(Way, &str, &str); 8] = [
        (Way::Native, "native, 30 bytes", "native, 4,000 bytes"),
        (
            Way::Ours("namespace"),
            "namespace, 30 bytes",
            "namespace, 4,000 bytes",
        ),
        (
            Way::Ours("library"),
            "library, 30 bytes",
            "library, 4,000 bytes",
        ),
        (
            Way::Ours("notify"),
            "notify, 30 bytes",
            "notify, 4,000 bytes",
        ),
        (
            Way::Ours("ptrace"),
            "ptrace, 30 bytes",
            "ptrace, 4,000 bytes",
        ),
        (
            Way::BareNotify,
            "bare notify, 30 bytes",
            "bare notify, 4,000 bytes",
        ),
        (
            Way::BareTrace,
            "bare ptrace, 30 bytes",
            "bare ptrace, 4,000 bytes",
        ),
        (Way::Proot, "PRoot, 30 bytes", "PRoot, 4,000 bytes"),
    ];
    let goals = SERIES
        .into_iter()
        .filter(|(way, ..)| matches!(way, Way::Ours(_)))
        .map(|(_, short, long)| Goal {
            text: "4,000 bytes ≤ 30 bytes + 6 µs",
            ours: long,
            reach: Reach::AtMostMore {
                theirs: short,
                by: 6e-6,
            },
        })
        .collect();
    let mut row = Row::new(
        "length",
        "open and close by a path of 4,000 bytes instead of 30",
        goals,
    );
    let mut contenders = Vec::new();
    for (way, short, long) in SERIES {
        for (name, bytes) in [(short, SHORT), (long, LONG)] {
            contenders.push(Contender::new(name, Unit::Seconds, move || {
                figures::by_length(place, way, bytes)
            }));
        }
    }
    rounds::take(&mut row, options.rounds(20), contenders);
    row.note("On one core; the path is lengthened by slashes. The kernel's own reading of it is part of the difference.");
    figures::lengths(&mut row, place, options);
    row
}

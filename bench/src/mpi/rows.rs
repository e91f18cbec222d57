//! The rows of `bench mpi`.

use super::place::{Library, Place, Run};
use crate::bench::Bench;
use crate::goal::{Goal, Reach, Row};
use crate::rounds::{self, Contender};
use crate::rows::or_missing;
use crate::stats::Unit;

const BARE: &str = "mpiexec alone";
const OURS: &str = "kumiko job --mpi";

/// Ranks of a kernel: those that the goal is for.
const RANKS: u32 = 4;
/// Messages of a sample: some tenths of a second.
const SMALL: (&str, &str, f64) = ("8", "100000", 100_000.0);
const BIG: (&str, &str, f64) = ("1048576", "500", 500.0);

pub fn kernel(place: &Place, bench: &Bench, [name, title]: [&'static str; 2]) -> Row {
    let goals = vec![Goal {
        text: "≤ native / 0.97, its own time",
        ours: OURS,
        reach: Reach::AtMostTimes {
            theirs: BARE,
            times: 1.0 / 0.97,
        },
    }];
    let row = Row::new(name, title, goals);
    or_missing(row, |row| {
        // Open MPI's ranks let others go first, where there are more of them than processors.
        let run = Run {
            library: Library::Openmpi,
            ranks: RANKS,
            program: name,
            words: &["W"],
            variables: &[],
        };
        let contenders = vec![
            Contender::new(BARE, Unit::Seconds, || place.bare(run)?.own_s()),
            Contender::new(OURS, Unit::Seconds, || {
                bench.runtime.block_on(place.job(run, None))?.own_s()
            }),
        ];
        rounds::take(row, bench.rounds(12), contenders);
        row.note(format!("examples/mpi/{name}.c, class W, by Open MPI."));
        Ok(())
    })
}

pub fn launch(place: &Place, bench: &Bench) -> Row {
    const NAMES: [(Library, &str, &str); 2] = [
        (Library::Mpich, "mpiexec of MPICH", "a job, MPICH"),
        (Library::Openmpi, "mpiexec of Open MPI", "a job, Open MPI"),
    ];
    let goals = vec![Goal {
        text: "two ranks of MPICH: ≤ 150 ms",
        ours: NAMES[0].2,
        reach: Reach::AtMost { limit: 150e-3 },
    }];
    let row = Row::new("launch", "Launch of two ranks, to their end", goals);
    or_missing(row, |row| {
        let mut contenders = Vec::new();
        for (library, bare, ours) in NAMES {
            let run = Run {
                library,
                ranks: 2,
                program: "start",
                words: &[],
                variables: &[],
            };
            contenders.push(Contender::new(bare, Unit::Seconds, move || {
                Ok(place.bare(run)?.wall_s)
            }));
            contenders.push(Contender::new(ours, Unit::Seconds, move || {
                Ok(bench.runtime.block_on(place.job(run, None))?.wall_s)
            }));
        }
        rounds::take(row, bench.rounds(30), contenders);
        row.note(
            "Ranks begin (MPI_Init) and end; a job is on an open session, its program sent before.",
        );
        Ok(())
    })
}

pub fn pingpong(place: &Place, bench: &Bench) -> Row {
    const NAMES: [(Library, [&str; 4]); 2] = [
        (
            Library::Mpich,
            [
                "MPICH alone, 8 bytes",
                "MPICH, 8 bytes",
                "MPICH alone, 1 MiB",
                "MPICH, 1 MiB",
            ],
        ),
        (
            Library::Openmpi,
            [
                "Open MPI alone, 8 bytes",
                "Open MPI, 8 bytes",
                "Open MPI alone, 1 MiB",
                "Open MPI, 1 MiB",
            ],
        ),
    ];
    let goal = |ours, theirs| Goal {
        text: "within noise of bare: ≤ 1.05 ×",
        ours,
        reach: Reach::AtMostTimes {
            theirs,
            times: 1.05,
        },
    };
    let goals = NAMES
        .iter()
        .flat_map(|(_, names)| [goal(names[1], names[0]), goal(names[3], names[2])]);
    let row = Row::new(
        "pingpong",
        "A message between two ranks, one way",
        goals.collect(),
    );
    or_missing(row, |row| {
        let mut contenders = Vec::new();
        for (library, names) in NAMES {
            for ((bytes, trips, number), names) in
                [(SMALL, [names[0], names[1]]), (BIG, [names[2], names[3]])]
            {
                for (name, ours) in [(names[0], false), (names[1], true)] {
                    let words = ["S", bytes, trips];
                    contenders.push(Contender::new(name, Unit::Seconds, move || {
                        let run = Run {
                            library,
                            ranks: 2,
                            program: "pingpong",
                            words: &words,
                            variables: &[],
                        };
                        let ran = match ours {
                            true => bench.runtime.block_on(place.job(run, None))?,
                            false => place.bare(run)?,
                        };
                        Ok(ran.own_s()? / number / 2.0)
                    }));
                }
            }
        }
        rounds::take(row, bench.rounds(20), contenders);
        Ok(())
    })
}

pub fn calls(place: &Place, bench: &Bench) -> Row {
    const NAMES: [(&str, &str); 2] = [
        ("notify", "calls answered by notify, a message"),
        ("ptrace", "calls answered by ptrace, a message"),
    ];
    const TRIPS: [(&str, f64); 2] = [("1000", 1_000.0), ("51000", 51_000.0)];
    let goals = NAMES.map(|(_, ours)| Goal {
        text: "no data call is intercepted: < 0.001 a message",
        ours,
        reach: Reach::AtMost { limit: 1e-3 },
    });
    let row = Row::new(
        "calls",
        "Calls of messages that are intercepted",
        goals.into(),
    );
    or_missing(row, |row| {
        for (mechanism, name) in NAMES {
            let mut answered = [0.0; 2];
            for ((trips, _), answered) in TRIPS.iter().zip(&mut answered) {
                let run = Run {
                    library: Library::Openmpi,
                    ranks: 2,
                    program: "pingpong",
                    words: &["S", "65536", trips],
                    variables: &[],
                };
                let job = place.job(run, Some(mechanism));
                bench.runtime.block_on(job)?.own_s()?;
                let told = bench.runtime.block_on(place.answered())?;
                *answered = told.unwrap_or_default();
            }
            let messages = 2.0 * (TRIPS[1].1 - TRIPS[0].1) * 1.1;
            let more = (answered[1] - answered[0]).max(0.0);
            row.series(name, Unit::Plain).push(more / messages);
            row.note(format!(
                "{mechanism}: {} calls with {} trips, {} with {}.",
                answered[0], TRIPS[0].0, answered[1], TRIPS[1].0
            ));
        }
        row.note("64 KiB a message, by Open MPI: the receiver reads the sender's memory. Under namespace nobody stands by the ranks' calls; there are none to count.");
        Ok(())
    })
}

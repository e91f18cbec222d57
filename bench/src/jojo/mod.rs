//! `bench jojo`: what Jojo's rows must reach. A program in Java (bench/jojo) measures each of them. Not here: the measuring, how
//! it is read and judged (`measured`, which `bench jpop` has as well), the report (`report`).

pub mod measured;

use crate::fail::Failure;
use crate::goal::Reach;
use crate::info::curve::Axis;
use crate::jojo::measured::{Asked, Bench, Figure, goal};
use crate::report::Report;
use crate::stats::Unit;
use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in some minutes.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(ROWS.map(|row| row.key)))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/jojo].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const ROWS: [Asked; 12] = [
    Asked {
        key: "ready",
        title: "A node is ready, by one ssh",
        goals: &[goal(
            "≤ `ssh true` + 350 ms",
            "node ready",
            Reach::AtMostMore {
                theirs: "ssh true",
                by: 0.35,
            },
        )],
    },
    Asked {
        key: "ready-far",
        title: "A node is ready, 300 ms away",
        goals: &[goal(
            "≤ 1.2 × `ssh true` + 1 s",
            "node ready",
            Reach::AtMostTimesMore {
                theirs: "ssh true",
                times: 1.2,
                by: 1.0,
            },
        )],
    },
    Asked {
        key: "classes",
        title: "200 classes, 300 ms away, cold",
        goals: &[
            goal(
                "chain ≤ 1.0 s",
                "200 classes, chain",
                Reach::AtMost { limit: 1.0 },
            ),
            goal(
                "tree ≤ 1.0 s",
                "200 classes, tree",
                Reach::AtMost { limit: 1.0 },
            ),
        ],
    },
    Asked {
        key: "calls",
        title: "A call",
        goals: &[
            goal(
                "over ssh ≤ 80 µs",
                "call over ssh",
                Reach::AtMost { limit: 80e-6 },
            ),
            goal(
                "over 3 hops ≤ 250 µs",
                "call over ssh, 3 hops",
                Reach::AtMost { limit: 250e-6 },
            ),
        ],
    },
    Asked {
        key: "rates",
        title: "Calls and messages a second",
        goals: &[
            goal(
                "pipelined calls ≥ 150 k/s",
                "pipelined calls over ssh",
                Reach::AtLeast { limit: 150e3 },
            ),
            goal(
                "one-way messages ≥ 500 k/s",
                "one-way messages over ssh",
                Reach::AtLeast { limit: 500e3 },
            ),
        ],
    },
    Asked {
        key: "arrays",
        title: "double[1M], over and over",
        goals: &[
            goal(
                "over ssh ≥ 0.8 × raw frames",
                "arrays over ssh",
                Reach::AtLeastTimes {
                    theirs: "raw frames over ssh",
                    times: 0.8,
                },
            ),
            goal(
                "over a pipe ≥ 0.9 × raw frames: the multiplexer",
                "arrays over a pipe",
                Reach::AtLeastTimes {
                    theirs: "raw frames over a pipe",
                    times: 0.9,
                },
            ),
        ],
    },
    Asked {
        key: "beside-bulk",
        title: "A small call while arrays pass",
        goals: &[goal(
            "p99 ≤ 5 ms",
            "small call beside bulk",
            Reach::P99AtMost { limit: 5e-3 },
        )],
    },
    Asked {
        key: "farm",
        title: "The paper's master and workers (its figure 16)",
        goals: &[
            goal(
                "3 layers, 16 workers: ≥ 95 % of ideal (5.0 s)",
                "3 layers, 16 workers",
                Reach::AtMost { limit: 5.0 / 0.95 },
            ),
            goal(
                "2 layers with credit, 16 workers: ≥ 80 % of its bandwidth's floor",
                "2 layers with credit, 16 workers",
                Reach::AtMostTimes {
                    theirs: "floor of the bandwidth",
                    times: 1.25,
                },
            ),
        ],
    },
    Asked {
        key: "many",
        title: "100 nodes of this machine, 3 levels",
        goals: &[
            goal(
                "ready ≤ 20 s",
                "100 nodes ready",
                Reach::AtMost { limit: 20.0 },
            ),
            goal(
                "each ≤ 60 MB",
                "memory of a node",
                Reach::P99AtMost { limit: 60e6 },
            ),
        ],
    },
    Asked {
        key: "kills",
        title: "A client is killed",
        goals: &[
            goal(
                "no JVM of its tree 5 s later",
                "the longest",
                Reach::AtMost { limit: 5.0 },
            ),
            goal(
                "nor behind ssh",
                "the longest behind ssh",
                Reach::AtMost { limit: 5.0 },
            ),
        ],
    },
    Asked {
        key: "lost",
        title: "A node dies or falls silent, and somebody waits for it",
        goals: &[
            goal(
                "killed: told within 100 ms",
                "SIGKILL",
                Reach::P99AtMost { limit: 0.1 },
            ),
            goal(
                "stopped: told within 10 s",
                "SIGSTOP",
                Reach::P99AtMost { limit: 10.0 },
            ),
        ],
    },
    Asked {
        key: "sizes",
        title: "What is sent before a node is one",
        goals: &[
            goal(
                "first stage ≤ 16 KiB",
                "first stage",
                Reach::AtMost { limit: 16384.0 },
            ),
            goal(
                "core ≤ 250 kB",
                "core, as it is sent",
                Reach::AtMost { limit: 250e3 },
            ),
        ],
    },
];

fn figures() -> [Figure; 3] {
    let bytes = || Axis {
        label: "bytes of a message",
        log: true,
        show: |v| Unit::Bytes.show(v),
    };
    let rate = || Axis {
        label: "bytes a second",
        log: true,
        show: |v| Unit::BytesPerSecond.show(v),
    };
    [
        // Figures 11 and 13: what is left of a near link, and what each part costs.
        Figure {
            row: "arrays",
            x: bytes(),
            y: rate(),
            curves: &[
                "frames over a pipe",
                "multiplexer over a pipe",
                "Jojo over a pipe",
                "frames over ssh",
                "multiplexer over ssh",
                "Jojo over ssh",
            ],
        },
        // Figure 12: a far one.
        Figure {
            row: "arrays",
            x: bytes(),
            y: rate(),
            curves: &[
                "frames over ssh, far",
                "multiplexer over ssh, far",
                "Jojo over ssh, far",
            ],
        },
        // Figure 16.
        Figure {
            row: "farm",
            x: Axis {
                label: "workers",
                log: true,
                show: |v| format!("{v:.0}"),
            },
            y: Axis {
                label: "10,000 jobs of 8 ms",
                log: true,
                show: |v| Unit::Seconds.show(v),
            },
            curves: &[
                "one node",
                "2 layers",
                "2 layers with credit",
                "3 layers",
                "ideal",
            ],
        },
    ]
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let bench = Bench {
        name: "jojo",
        title: "Speed of Jojo",
        main: "silf.jojo.bench.Main",
        class_path: &["jojo.jar", "testkit.jar"],
        rows: &ROWS,
        figures: &figures(),
    };
    measured::run(&bench, options.quick, &options.only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jojo::measured::tests::are_whole;

    #[test]
    fn every_row_has_goals_and_a_key_of_its_own_and_figures_have_rows() {
        are_whole(&ROWS, &figures());
    }
}

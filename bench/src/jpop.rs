//! `bench jpop`: what jPoP's rows must reach. A program in Java (bench/jpop) measures each of them. Not here: the measuring, how it
//! is read and judged (`jojo::measured`), the report (`report`).

use crate::fail::Failure;
use crate::goal::Reach;
use crate::info::curve::Axis;
use crate::jojo::measured::{self, Asked, Bench, Figure, goal};
use crate::report::Report;
use crate::stats::Unit;
use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in a minute.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(ROWS.map(|row| row.key)))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/jpop].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const ROWS: [Asked; 4] = [
    Asked {
        key: "sleeping",
        title: "Evaluations that sleep 8 ms, on 64 nodes at depth 3",
        goals: &[goal(
            "≥ 90 % of ideal",
            "share of ideal, 64 nodes",
            Reach::AtLeast { limit: 0.9 },
        )],
    },
    Asked {
        key: "cores",
        title: "Real compute on two processors",
        goals: &[goal(
            "≥ 1.8 × one node",
            "two nodes are faster, times",
            Reach::AtLeast { limit: 1.8 },
        )],
    },
    Asked {
        key: "extra",
        title: "States that four nodes look at, 20 instances",
        goals: &[goal(
            "≤ 10 % more than one node",
            "states of four nodes / of one",
            Reach::AtMost { limit: 1.1 },
        )],
    },
    Asked {
        key: "kills",
        title: "1 to 5 nodes and subtrees killed in each of 200 runs",
        goals: &[goal(
            "none has another optimum",
            "runs with another result",
            // A count: below the first.
            Reach::AtMost { limit: 0.5 },
        )],
    },
];

fn figures() -> [Figure; 1] {
    [Figure {
        row: "sleeping",
        x: Axis {
            label: "nodes that work",
            log: true,
            show: |v| format!("{v:.0}"),
        },
        y: Axis {
            label: "the same search",
            log: true,
            show: |v| Unit::Seconds.show(v),
        },
        curves: &["measured", "bare", "ideal"],
    }]
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let bench = Bench {
        name: "jpop",
        title: "Speed of jPoP",
        main: "silf.jpop.bench.Main",
        // Of the tests, what runs trees in one JVM.
        class_path: &["jojo.jar", "jpop.jar", "testkit.jar", "tests"],
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

//! `bench limits`: how exactly limits of a job are kept, beside no limit, and beside the kernel's own control groups where
//! this account may make them; and figure 5 of paper 000 as it is today.
//!
//! Not here: what keeping them costs a guest that is below all of them (the row `free` has the network's).

mod disk;
mod figures;
mod net;
mod place;
mod receiver;
mod work;

use crate::bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::report::Report;
use crate::run::{self, Run};
use clap::Args;
use place::Place;
use std::path::PathBuf;

type Measure = fn(&Place, &Options) -> Row;

const ROWS: [(&str, Measure); 10] = [
    ("send", net::send),
    ("many", net::many),
    ("free", net::free),
    ("calls", net::calls),
    ("first", net::first),
    ("change", net::change),
    ("receive", net::receive),
    ("disk", disk::disk),
    ("cpu", work::cpu),
    ("figure5", figures::rates),
];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in some minutes.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(run::keys(&ROWS)))]
    pub only: Vec<String>,
    /// Folder of the report, and of the files that guests read and write [default: target/bench/limits].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Options {
    pub fn folder(&self) -> PathBuf {
        run::folder("limits", self.out.as_deref())
    }

    /// The full number of rounds, or a few when in a hurry.
    fn rounds(&self, full: usize) -> usize {
        if self.quick { (full / 3).max(1) } else { full }
    }
}

/// A median within `share` of `amount`.
fn near(text: &'static str, ours: &'static str, amount: f64, share: f64) -> Goal {
    let reach = Reach::Within {
        of: amount,
        by: amount * share,
    };
    Goal { text, ours, reach }
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &options.only);
    let kumiko = bench::program("KUMIKO_BIN", "kumiko")?;
    let place = Place::new(kumiko, &options.folder())?;
    for (key, measure) in ROWS {
        run.row(key, || measure(&place, options));
    }
    Ok(run.report("Limits", &[]))
}

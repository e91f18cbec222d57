//! `bench mechanisms`: what each mechanism costs a guest, beside bare loops that do no more than reach the call, and beside
//! PRoot, bubblewrap and strace, in one run; and figures 3, 4 and 6 of paper 000 with the mechanisms of today.
//!
//! Not here: rates (the paper's figure 5), which no mechanism enforces yet.

mod figures;
mod rows;
mod way;

use crate::bench;
use crate::fail::Failure;
use crate::goal::Row;
use crate::report::Report;
use crate::run::{self, Run};
use clap::Args;
use std::path::PathBuf;
use way::Place;

type Measure = fn(&Place, &Options) -> Row;

const ROWS: [(&str, Measure); 7] = [
    ("open", rows::open),
    ("unpinned", rows::unpinned),
    ("others", rows::others),
    ("processes", rows::processes),
    ("start", rows::start),
    ("length", rows::length),
    ("trap", figures::trap),
];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in a minute.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(run::keys(&ROWS)))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/mechanisms].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Options {
    /// The full number of rounds, or a few when in a hurry.
    fn rounds(&self, full: usize) -> usize {
        if self.quick { (full / 5).max(3) } else { full }
    }
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &options.only);
    let place = Place::new(bench::program("KUMIKO_BIN", "kumiko")?)?;
    for (key, measure) in ROWS {
        run.row(key, || measure(&place, options));
    }
    Ok(run.report("Mechanisms", &[]))
}

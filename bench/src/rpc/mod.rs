//! `bench rpc`: calls of a routine from C and from Python, beside a chain of as many processes that only hands bytes on.
//! Ray, Dask, Parsl and a process pool beside them. And paper 001's Linpack, through HTCondor's slots; calls that die, and calls that are hurt,
//! on the site's own host and on engines.
//!
//! Not here: the speed of engines, what checkpoints cost (`checkpoint`).

mod drivers;
mod faults;
mod others;
mod paper;
mod rows;

use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::Row;
use crate::report::Report;
use crate::run::{self, Run};
use clap::Args;
use std::path::PathBuf;

type Measure = fn(&Bench) -> Row;

const ROWS: [(&str, Measure); 15] = [
    ("null", rows::null),
    ("tail", rows::tail),
    ("durable", rows::durable),
    ("pipelined", rows::pipelined),
    ("big", rows::big),
    ("others", others::null),
    ("others_big", others::big),
    ("others_rate", others::rate),
    ("linpack", paper::by_size),
    ("small", paper::small),
    ("killed", paper::killed),
    ("huge", paper::huge),
    ("huge_back", paper::huge_back),
    ("huge_both", paper::huge_both),
    ("faults", faults::faults),
];
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(run::keys(&ROWS)))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/rpc].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &options.only);
    let bench = Bench::programs(options.quick)?;
    for (key, measure) in ROWS {
        run.row(key, || measure(&bench));
    }
    Ok(run.report("Calls of routines", &[]))
}

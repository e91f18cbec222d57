//! `bench rpc`: calls of a routine from C and from Python, beside a chain of as many processes that only hands bytes on.
//!
//! Not here: engines, faults, checkpoints, the papers' Linpack; Ray, Dask and Parsl, which Debian does not have.

mod drivers;
mod rows;

use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::Row;
use crate::guard;
use crate::machine::Machine;
use crate::report::Report;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

type Measure = fn(&Bench) -> Row;

const ROWS: [(&str, Measure); 5] = [
    ("null", rows::null),
    ("tail", rows::tail),
    ("durable", rows::durable),
    ("pipelined", rows::pipelined),
    ("big", rows::big),
];
const KEYS: [&str; 5] = ["null", "tail", "durable", "pipelined", "big"];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(KEYS))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/rpc].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let begun = Instant::now();
    let mut machine = Machine::here();
    let bench = Bench::programs(options.quick)?;
    let wanted = |key: &str| options.only.is_empty() || options.only.iter().any(|k| k == key);
    let mut measured: Vec<Row> = Vec::new();
    for (key, measure) in ROWS.into_iter().filter(|(key, _)| wanted(key)) {
        eprintln!("bench: {key} ...");
        let row = measure(&bench);
        guard::go_on();
        for missing in &row.missing {
            eprintln!("bench: {key}: {missing}");
        }
        measured.push(row);
    }
    machine.ended();
    let pace = if options.quick { "quick" } else { "full" };
    machine.run = format!("{pace}, {} s", begun.elapsed().as_secs());
    Ok(Report {
        title: "Calls of routines",
        machine,
        rows: measured,
    })
}

/// Where its report goes.
pub fn folder(options: &Options) -> PathBuf {
    let folder = options.out.clone();
    folder.unwrap_or_else(|| PathBuf::from("target/bench/rpc"))
}

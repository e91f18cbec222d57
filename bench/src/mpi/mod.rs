//! `bench mpi`: MPI programs as jobs of a personal site, beside the same launcher without it: the kernels of examples/mpi, the
//! launch of two ranks, messages between two, and what of them is intercepted.
//!
//! Not here: more than one host.

mod place;
mod rows;

use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::Row;
use crate::guard;
use crate::machine::Machine;
use crate::report::Report;
use clap::Args;
use place::Place;
use std::path::PathBuf;
use std::time::Instant;

type Measure = fn(&Place, &Bench) -> Row;

const ROWS: [(&str, Measure); 10] = [
    ("ep", |place, bench| {
        rows::kernel(place, bench, ["ep", "EP of four ranks"])
    }),
    ("is", |place, bench| {
        rows::kernel(place, bench, ["is", "IS of four ranks"])
    }),
    ("cg", |place, bench| {
        rows::kernel(place, bench, ["cg", "CG of four ranks"])
    }),
    ("mg", |place, bench| {
        rows::kernel(place, bench, ["mg", "MG of four ranks"])
    }),
    ("lu", |place, bench| {
        rows::kernel(place, bench, ["lu", "LU of four ranks"])
    }),
    ("bt", |place, bench| {
        rows::kernel(place, bench, ["bt", "BT of four ranks"])
    }),
    ("sp", |place, bench| {
        rows::kernel(place, bench, ["sp", "SP of four ranks"])
    }),
    ("launch", rows::launch),
    ("pingpong", rows::pingpong),
    ("calls", rows::calls),
];
const KEYS: [&str; 10] = [
    "ep", "is", "cg", "mg", "lu", "bt", "sp", "launch", "pingpong", "calls",
];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(KEYS))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/mpi].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let begun = Instant::now();
    let mut machine = Machine::here();
    let bench = Bench::programs(options.quick)?;
    let place = Place::new(&bench)?;
    let wanted = |key: &str| options.only.is_empty() || options.only.iter().any(|k| k == key);
    let mut measured: Vec<Row> = Vec::new();
    for (key, measure) in ROWS.into_iter().filter(|(key, _)| wanted(key)) {
        eprintln!("bench: {key} ...");
        let row = measure(&place, &bench);
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
        title: "MPI",
        machine,
        rows: measured,
    })
}

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
use crate::guard;
use crate::machine::Machine;
use crate::report::Report;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use way::Place;

const KEYS: [&str; 7] = [
    "open",
    "unpinned",
    "others",
    "processes",
    "start",
    "length",
    "trap",
];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in a minute.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(KEYS))]
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
    let begun = Instant::now();
    let mut machine = Machine::here();
    let place = Place::new(bench::program("KUMIKO_BIN", "kumiko")?)?;
    let wanted = |key: &str| options.only.is_empty() || options.only.iter().any(|k| k == key);
    let mut measured: Vec<Row> = Vec::new();
    for key in KEYS.into_iter().filter(|key| wanted(key)) {
        eprintln!("bench: {key} ...");
        let row = match key {
            "open" => rows::open(&place, options),
            "unpinned" => rows::unpinned(&place, options),
            "others" => rows::others(&place, options),
            "processes" => rows::processes(&place, options),
            "start" => rows::start(&place, options),
            "length" => rows::length(&place, options),
            _ => figures::trap(&place, options),
        };
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
        title: "Mechanisms",
        machine,
        rows: measured,
    })
}

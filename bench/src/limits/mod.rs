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
use crate::guard;
use crate::machine::Machine;
use crate::report::Report;
use clap::Args;
use place::Place;
use std::path::PathBuf;
use std::time::Instant;

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

const KEYS: [&str; 10] = {
    let mut keys = [""; 10];
    let mut at = 0;
    while at < ROWS.len() {
        keys[at] = ROWS[at].0;
        at += 1;
    }
    keys
};

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in some minutes.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(KEYS))]
    pub only: Vec<String>,
    /// Folder of the report, and of the files that guests read and write [default: target/bench/limits].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Options {
    pub fn folder(&self) -> PathBuf {
        let folder = self.out.clone();
        folder.unwrap_or_else(|| PathBuf::from("target/bench/limits"))
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
    let begun = Instant::now();
    let mut machine = Machine::here();
    let kumiko = bench::program("KUMIKO_BIN", "kumiko")?;
    let place = Place::new(kumiko, &options.folder())?;
    let wanted = |key: &str| options.only.is_empty() || options.only.iter().any(|k| k == key);
    let mut measured: Vec<Row> = Vec::new();
    for (key, measure) in ROWS.into_iter().filter(|(key, _)| wanted(key)) {
        eprintln!("bench: {key} ...");
        let row = measure(&place, options);
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
        title: "Limits",
        machine,
        rows: measured,
    })
}

//! `bench globus`: a protocol-level client of GRAM, the same hands and keys for both, against a site of ours and against
//! the Globus Toolkit's own gatekeeper (testbeds/globus), in one run; and the toolkit's own command against both.
//!
//! Not here: what the toolkit's commands can do with us (e2e).

mod bare;
mod paper;
mod peaks;
mod places;
mod rows;
mod way;

use crate::bench::Bench;
use crate::fail::Failure;
use crate::report::Report;
use crate::run::Run;
use bare::Bare;
use clap::Args;
use places::Place;
use rows::Setup;
use std::path::PathBuf;
use std::sync::Arc;

const KEYS: [&str; 6] = ["pings", "job", "jobs", "delegation", "command", "paper"];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a tenth of the runs.
    #[arg(long)]
    pub quick: bool,
    /// Jobs one after another, for the distribution of their times.
    #[arg(long, default_value_t = 10_000)]
    pub runs: usize,
    /// Clients at once, for the rates.
    #[arg(long, default_value_t = 8)]
    pub clients: usize,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(KEYS))]
    pub only: Vec<String>,
    /// Leave the Globus Toolkit's gatekeeper out.
    #[arg(long)]
    pub alone: bool,
    /// Folder of the report [default: target/bench/globus].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &options.only);
    let bench = Bench::programs(false)?;
    let ours = Place::ours(&bench)?;
    let gct = if options.alone {
        Err(Failure::unexpected("it was left out"))
    } else {
        Place::toolkit(&bench)
    };
    if let Err(failure) = &gct {
        eprintln!("bench: GCT: {failure}");
    }
    let (host, client, trust) = ours.ends()?;
    let bare = bench.runtime.block_on(Bare::new(&host, &client, &trust))?;
    let fewer = if options.quick { 10 } else { 1 };
    let setup = Setup {
        runtime: &bench.runtime,
        ours: &ours,
        gct: &gct,
        bare: Arc::new(bare),
        runs: (options.runs / fewer).max(1),
        rounds: if options.quick { 3 } else { 8 },
        clients: options.clients,
    };
    for key in KEYS {
        run.rows(key, || match key {
            "pings" => vec![setup.pings()],
            "job" => Vec::from(setup.jobs_alone()),
            "jobs" => vec![setup.jobs()],
            "delegation" => vec![setup.delegation()],
            "command" => vec![setup.command()],
            _ => vec![paper::measure(setup.runtime, &ours.way)],
        });
    }
    let runs = format!("{} jobs one after another", setup.runs);
    Ok(run.report("GRAM", &[runs]))
}

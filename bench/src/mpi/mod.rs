//! `bench mpi`: MPI programs as jobs of a personal site, beside the same launcher without it: the kernels of examples/mpi, the
//! launch of two ranks, messages between two, and what of them is intercepted; and on several hosts, which are namespaces of this
//! machine.

mod figures;
mod hosts;
mod model;
mod place;
mod rows;
mod sites;

use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::Row;
use crate::report::Report;
use crate::run::{self, Run};
use clap::Args;
use model::Of;
use place::Place;
pub use place::own_s;
use std::path::PathBuf;

type Measure = fn(&Place, &Bench) -> Row;

const ROWS: [(&str, Measure); 18] = [
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
    ("t0", |place, bench| model::model(place, bench, Of::StartUp)),
    ("rinf", |place, bench| model::model(place, bench, Of::Rate)),
    ("figure8", model::figure),
    ("calls", rows::calls),
    ("hosts", hosts::messages),
    ("launch64", hosts::launch),
    ("sites", sites::messages),
    ("table3", figures::kernels),
    ("figure7", figures::limited),
];
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(run::keys(&ROWS)))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/mpi].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures every row that was asked for.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &options.only);
    let bench = Bench::programs(options.quick)?;
    let place = Place::new(&bench)?;
    for (key, measure) in ROWS {
        run.row(key, || measure(&place, &bench));
    }
    Ok(run.report("MPI", &[]))
}

//! `bench checkpoint`: how long a program stands still for a checkpoint, what one takes by its memory (paper 001's figures 3 and 4), and
//! what kernels lose by them (its table 1). And how soon what links nothing goes on from a dump.
//!
//! Not here: calls that go on from checkpoints (`rpc`).

mod kernels;
mod memory;
mod moved;

use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::goal::Row;
use crate::report::Report;
use crate::run::{self, Run};
use crate::wait;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

type Measure = fn(&Bench) -> Row;

const ROWS: [(&str, Measure); 4] = [
    ("freeze", memory::freeze),
    ("sizes", memory::sizes),
    ("moved", moved::moved),
    ("kernels", kernels::kernels),
];
const COMPILED_WITHIN: Duration = Duration::from_secs(60);
/// Of libkumikockpt.a, as docs/guide/checkpoint.md has it.
const LIBRARIES: [&str; 5] = ["-lm", "-lkumikockpt", "-lpthread", "-ldl", "-lm"];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(run::keys(&ROWS)))]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/checkpoint].
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
    Ok(run.report("Checkpoints", &[]))
}

/// For programs and checkpoints: on a disk, as the spool of a site is.
fn folder() -> Result<TempDir, Failure> {
    let making = || "making a folder in target/bench";
    std::fs::create_dir_all("target/bench").doing(making)?;
    let within = std::path::absolute("target/bench").doing(making)?;
    tempfile::tempdir_in(within).doing(making)
}

/// What links the library goes on where it was, where it is told a folder.
fn compiled(compiler: &str, source: &Path, to: &Path, links: bool) -> Result<(), Failure> {
    let mut compiler = Command::new(compiler);
    compiler
        .args(["-O2", "-std=gnu11", "-o"])
        .arg(to)
        .arg(source);
    if links {
        let library = std::env::var_os("KUMIKO_LIB").unwrap_or_else(|| "target/release".into());
        compiler.args(["-DCHECKPOINT", "-I"]).arg("bindings/c");
        compiler.arg("-L").arg(library).args(LIBRARIES);
    }
    wait::output(compiler.arg("-lm"), COMPILED_WITHIN).map(|_| ())
}

/// The files of a folder of checkpoints with this ending, in bytes, by their number.
fn files(folder: &Path, ending: &str) -> Result<Vec<u64>, Failure> {
    let reading = || format!("reading {}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).doing(reading)? {
        let entry = entry.doing(reading)?;
        let path = entry.path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if path.extension().is_some_and(|found| found == ending) {
            found.extend(number.zip(entry.metadata().ok().map(|about| about.len())));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, bytes)| bytes).collect())
}

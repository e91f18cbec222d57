//! One run of `bench site`: options, what all rows share, and the order of the rows. Not here: any measurement (`rows`).

use crate::fail::{Failure, While};
use crate::report::Report;
use crate::rows;
use crate::run::{self, Run};
use clap::Args;
use std::path::PathBuf;
use tokio::runtime::Runtime;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds: a glance in half a minute.
    #[arg(long)]
    pub quick: bool,
    /// Only these rows, by key.
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(run::keys(&rows::ALL)))]
    pub only: Vec<String>,
    /// How many jobs are alive at once where memory is measured.
    #[arg(long, default_value_t = 200, value_name = "JOBS")]
    pub live: usize,
    /// Folder of the report [default: target/bench/site].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What the rows share.
#[derive(Debug)]
pub struct Bench {
    pub options: Options,
    /// The programs as users get them.
    pub kumiko: PathBuf,
    pub runner: PathBuf,
    pub runtime: Runtime,
}

/// A program as users get it: named by a variable, else beside this one.
pub fn program(variable: &str, name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().doing(|| "finding this program")?;
    let path = std::env::var_os(variable).map_or_else(|| own.with_file_name(name), PathBuf::from);
    if path.is_file() {
        // A site starts the runner from another folder.
        return std::path::absolute(&path).doing(|| format!("finding {}", path.display()));
    }
    Err(Failure::Unexpected {
        what: format!(
            "{} is not there: build it by `./x build`, or name it in {variable}",
            path.display()
        ),
    })
}

impl Bench {
    /// For a run that has no options of a site's.
    pub fn programs(quick: bool) -> Result<Bench, Failure> {
        Bench::new(Options {
            quick,
            only: Vec::new(),
            live: 0,
            out: None,
        })
    }

    fn new(options: Options) -> Result<Bench, Failure> {
        Ok(Bench {
            kumiko: program("KUMIKO_BIN", "kumiko")?,
            runner: program("KUMIKO_RUN", "kumiko-run")?,
            runtime: Runtime::new().doing(|| "starting the client's runtime")?,
            options,
        })
    }

    /// The full number of rounds, or a tenth of it when in a hurry.
    pub fn rounds(&self, full: usize) -> usize {
        if self.options.quick {
            (full / 10).max(3)
        } else {
            full
        }
    }
}

/// Measures every row that was asked for. A row that fails is in the report, with the reason.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &options.only);
    let bench = Bench::new(options.clone())?;
    for (key, measure) in rows::ALL {
        run.row(key, || measure(&bench));
    }
    let live = format!("{} jobs alive for memory", options.live);
    Ok(run.report("Speed of a site", &[live]))
}

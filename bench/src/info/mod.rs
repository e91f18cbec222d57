//! `bench info`: the information service beside OpenLDAP's slapd with the same entries, through three levels, beside
//! paper 004, and with more and more hosts. Not here: the measurements themselves (`rows`, `paper`, `life`, `scale`).

pub(crate) mod curve;
mod giis;
mod hosts;
mod life;
mod paper;
mod raw;
mod rows;
mod scale;
mod world;

use crate::bench;
use crate::fail::{Failure, While};
use crate::goal::Row;
use crate::peers::slapd::Slapd;
use crate::proc;
use crate::report::Report;
use crate::run::Run;
use clap::Args;
use kumiko_directory::Op;
use rows::Setup;
use std::path::PathBuf;
use tokio::runtime::Runtime;
use world::World;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Fewer rounds.
    #[arg(long)]
    pub quick: bool,
    /// Hosts in both servers.
    #[arg(long, default_value_t = 10_000, value_name = "HOSTS")]
    pub hosts: usize,
    /// Only these rows: memory equality range rate dump changes hung paper levels dying rest scale.
    #[arg(long, num_args = 1.., value_name = "ROW")]
    pub only: Vec<String>,
    /// Folder of the report [default: target/bench/info].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Options {
    fn rounds(&self, full: usize) -> usize {
        if self.quick { (full / 4).max(3) } else { full }
    }
}

/// A row of the report.
type Measure = Box<dyn FnOnce(&mut Setup) -> Row>;

/// Measures every row.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut run = Run::begin(options.quick, &options.only);
    let world = World::new(bench::program("KUMIKO_BIN", "kumiko")?)?;
    let runtime = Runtime::new().doing(|| "starting the clients' runtime")?;
    let ours = world.serve("bench", "kind = \"index\"\nhost = false\n")?;
    let before = proc::memory(ours.pid)?.map_or(0, |m| m.private_bytes);
    let all = (0..options.hosts).map(|n| Op::Put(hosts::host(n)));
    let feeder = runtime.block_on(world.feed(&ours, all))?;
    eprintln!(
        "bench: {} hosts took {} bytes to tell",
        options.hosts, feeder.bytes
    );
    let theirs = Slapd::start(&hosts::ldif(options.hosts));
    let mut setup = Setup {
        options: options.clone(),
        world,
        runtime,
        ours,
        feeder,
        theirs,
    };
    let rows: [(&str, Measure); 12] = [
        ("memory", Box::new(move |s| s.memory(before))),
        ("equality", Box::new(|s| s.equality())),
        ("range", Box::new(|s| s.range())),
        ("rate", Box::new(|s| s.rate())),
        ("dump", Box::new(|s| s.dump())),
        ("changes", Box::new(|s| s.changes())),
        ("hung", Box::new(|s| s.hung())),
        ("paper", Box::new(|s| s.paper())),
        ("levels", Box::new(|s| s.levels())),
        ("dying", Box::new(|s| s.dying())),
        ("rest", Box::new(|s| s.rest())),
        ("scale", Box::new(|s| s.scale())),
    ];
    for (key, measure) in rows {
        run.row(key, || measure(&mut setup));
    }
    let hosts = format!("{} hosts", options.hosts);
    Ok(run.report("The information service", &[hosts]))
}

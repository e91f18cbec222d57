//! `./x bench NAME`: measures the product beside its peers in one run, and writes a report with plots and raw samples
//! into target/bench/NAME. Everything runs in throw-away places, and what was started is ended, on Ctrl-C as well.
//!
//! Not here: any use of it as a test; a missed figure is told, not an error.

mod batch;
mod bench;
mod checkpoint;
mod choice;
mod engine;
mod fail;
mod globus;
mod goal;
mod guard;
mod info;
mod jojo;
mod jpop;
mod limits;
mod machine;
mod mechanisms;
mod mpi;
mod peers;
mod plot;
mod proc;
mod report;
mod rounds;
mod rows;
mod rpc;
mod run;
mod site;
mod stats;
mod wait;

use clap::{Parser, Subcommand};
use fail::{Failure, While};
use report::Report;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;

#[derive(Debug, Parser)]
#[command(
    name = "bench",
    about = "Measurements beside peers, as a report in target/bench"
)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// One job at one site: start, streams, cancel, memory; beside ssh, bubblewrap, raw TLS and fork+exec.
    Site(bench::Options),
    /// GRAM: pings and jobs by a protocol-level client, beside the Globus Toolkit's own; paper 004's jobs.
    Globus(globus::Options),
    /// Short jobs through Slurm and HTCondor, by pilots and without; beside fork and the engines' own commands.
    Batch(batch::Options),
    /// Checkpoints of programs that link the library: standing still, by memory, kernels; paper 001's figures 3 and 4 and table 1.
    Checkpoint(checkpoint::Options),
    /// The choice of a mechanism: picks of auto, judged by what every admissible mechanism took.
    Choice(choice::Options),
    /// The information service: queries, changes, three levels; beside slapd and paper 004.
    Info(info::Options),
    /// Jojo: starts, classes, calls, arrays, the paper's master and workers; beside ssh, RMI and mitogen.
    Jojo(jojo::Options),
    /// jPoP: searches that sleep on 64 nodes, compute on two processors, look at more than one would, lose nodes.
    Jpop(jpop::Options),
    /// The sandbox's mechanisms, beside bare loops, PRoot, bubblewrap and strace; paper 000's figures 3, 4 and 6.
    Mechanisms(mechanisms::Options),
    /// MPI programs as jobs: kernels, launches, messages; beside the same launchers alone.
    Mpi(mpi::Options),
    /// Calls of routines from C and Python, beside a raw TLS chain; and under faults.
    Rpc(rpc::Options),
    /// How exactly limits are kept: network, disk, processors; beside no limit; paper 000's figure 5.
    Limits(limits::Options),
}

fn main() -> ExitCode {
    match Cli::parse().what {
        What::Site(o) => told(ended(move || {
            kept("site", o.out.as_deref(), bench::run(&o))
        })),
        What::Globus(o) => told(ended(move || {
            kept("globus", o.out.as_deref(), globus::run(&o))
        })),
        What::Batch(o) => told(ended(move || {
            kept("batch", o.out.as_deref(), batch::run(&o))
        })),
        What::Checkpoint(o) => told(ended(move || {
            kept("checkpoint", o.out.as_deref(), checkpoint::run(&o))
        })),
        What::Choice(o) => told(ended(move || {
            kept("choice", o.out.as_deref(), choice::run(&o))
        })),
        What::Info(o) => told(ended(move || kept("info", o.out.as_deref(), info::run(&o)))),
        What::Jojo(o) => told(ended(move || kept("jojo", o.out.as_deref(), jojo::run(&o)))),
        What::Jpop(o) => told(ended(move || kept("jpop", o.out.as_deref(), jpop::run(&o)))),
        What::Mechanisms(o) => told(ended(move || {
            kept("mechanisms", o.out.as_deref(), mechanisms::run(&o))
        })),
        What::Mpi(o) => told(ended(move || kept("mpi", o.out.as_deref(), mpi::run(&o)))),
        What::Rpc(o) => told(ended(move || kept("rpc", o.out.as_deref(), rpc::run(&o)))),
        What::Limits(o) => told(ended(move || {
            kept("limits", o.out.as_deref(), limits::run(&o))
        })),
    }
}

fn told(ended: Result<ExitCode, Failure>) -> ExitCode {
    ended.unwrap_or_else(|failure| {
        eprintln!("bench: {failure}");
        ExitCode::FAILURE
    })
}

/// The measuring has a thread of its own, so that this one can end everything when a signal comes first.
fn ended(
    run: impl FnOnce() -> Result<PathBuf, Failure> + Send + 'static,
) -> Result<ExitCode, Failure> {
    let (ended, first) = mpsc::channel();
    let by_signal = ended.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .doing(|| "starting the runtime that waits for signals")?;
    std::thread::spawn(move || {
        let signal = runtime.block_on(interrupted());
        // The receiver is gone when the run has ended: then nobody is interested.
        let _ = by_signal.send(signal.map(|()| None));
    });
    std::thread::spawn(move || {
        let _ = ended.send(run().map(Some));
    });
    let outcome = first
        .recv()
        .map_err(|e| Failure::said("waiting for the measurements", &e))?;
    guard::end_all();
    match outcome? {
        Some(folder) => {
            println!("{}", folder.display());
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(ExitCode::from(130)), // 128 + SIGINT, as shells say it
    }
}

/// A bench's report, in the folder of its name unless another was asked for.
fn kept(
    name: &str,
    out: Option<&Path>,
    report: Result<Report, Failure>,
) -> Result<PathBuf, Failure> {
    run::written(&report?, &run::folder(name, out))
}

async fn interrupted() -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).doing(|| "listening for SIGTERM")?;
    tokio::select! {
        heard = tokio::signal::ctrl_c() => heard.doing(|| "listening for SIGINT"),
        _ = terminate.recv() => Ok(()),
    }
}

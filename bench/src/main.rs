//! `./x bench NAME`: measures the product beside its peers in one run, and writes a report with plots and raw samples
//! into target/bench/NAME. Everything runs in throw-away places, and what was started is ended, on Ctrl-C as well.
//!
//! Not here: any use of it as a test; a missed figure is told, not an error.

mod batch;
mod bench;
mod choice;
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
mod site;
mod stats;
mod wait;

use clap::{Parser, Subcommand};
use fail::{Failure, While};
use std::path::PathBuf;
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
    /// Calls of routines from C and Python, beside a raw TLS chain.
    Rpc(rpc::Options),
    /// How exactly limits are kept: network, disk, processors; beside no limit; paper 000's figure 5.
    Limits(limits::Options),
}

fn main() -> ExitCode {
    match Cli::parse().what {
        What::Site(options) => told(ended(move || run(&options))),
        What::Globus(options) => told(ended(move || run_globus(&options))),
        What::Batch(options) => told(ended(move || run_batch(&options))),
        What::Choice(options) => told(ended(move || run_choice(&options))),
        What::Info(options) => told(ended(move || run_info(&options))),
        What::Jojo(options) => told(ended(move || jojo::run(&options))),
        What::Jpop(options) => told(ended(move || jpop::run(&options))),
        What::Mechanisms(options) => told(ended(move || run_mechanisms(&options))),
        What::Mpi(options) => told(ended(move || run_mpi(&options))),
        What::Rpc(options) => told(ended(move || run_rpc(&options))),
        What::Limits(options) => told(ended(move || run_limits(&options))),
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

fn run(options: &bench::Options) -> Result<PathBuf, Failure> {
    let folder = options
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("target/bench/site"));
    let report = bench::run(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

fn run_batch(options: &batch::Options) -> Result<PathBuf, Failure> {
    let folder = batch::folder(options);
    let report = batch::run(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

fn run_choice(options: &choice::Options) -> Result<PathBuf, Failure> {
    let folder = options.out.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from("target/bench/choice"));
    let report = choice::run(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

fn run_info(options: &info::Options) -> Result<PathBuf, Failure> {
    let folder = options.out.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from("target/bench/info"));
    let report = info::run(options, bench::program("KUMIKO_BIN", "kumiko")?)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

fn run_globus(options: &globus::Options) -> Result<PathBuf, Failure> {
    let folder = options.out.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from("target/bench/globus"));
    let report = globus::run(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

fn run_mechanisms(options: &mechanisms::Options) -> Result<PathBuf, Failure> {
    let folder = options.out.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from("target/bench/mechanisms"));
    let report = mechanisms::run(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

fn run_mpi(options: &mpi::Options) -> Result<PathBuf, Failure> {
    let folder = options.out.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from("target/bench/mpi"));
    let report = mpi::run(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

fn run_rpc(options: &rpc::Options) -> Result<PathBuf, Failure> {
    let folder = rpc::folder(options);
    let report = rpc::run(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

fn run_limits(options: &limits::Options) -> Result<PathBuf, Failure> {
    let folder = options.folder();
    let report = limits::run(options)?;
    report::write(&report, &folder)?;
    eprint!("{}", report::table(&report));
    Ok(folder.join("report.html"))
}

async fn interrupted() -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).doing(|| "listening for SIGTERM")?;
    tokio::select! {
        heard = tokio::signal::ctrl_c() => heard.doing(|| "listening for SIGINT"),
        _ = terminate.recv() => Ok(()),
    }
}

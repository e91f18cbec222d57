//! The kumiko command: arguments, configuration, wiring, output. No domain logic.

mod args;
mod attached;
mod config;
mod connect;
mod demo;
mod doctor;
mod exec;
mod fail;
mod home;
mod identity;
mod job;
mod output;
mod sandbox;
mod site;

use args::{Cli, Noun, Site};
use clap::Parser;
use fail::Failure;
use home::Home;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// A client moves a few streams; a site answers many. Both are mostly waiting.
const WORKER_THREADS: usize = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let status = match run(cli) {
        Ok(status) => status,
        Err(Failure { status, message }) => {
            if !message.is_empty() {
                eprintln!("kumiko: {message}");
            }
            status
        }
    };
    ExitCode::from(status)
}

fn run(cli: Cli) -> Result<u8, Failure> {
    let serving =
        matches!(&cli.noun, Noun::Site(Site::Start(start)) if start.foreground || start.demo);
    log(serving);
    // `| head` ends us, but for those that have a job to end first, or that serve.
    if !serving
        && !matches!(
            &cli.noun,
            Noun::Exec(_) | Noun::Job(args::Job::Run(_)) | Noun::Demo
        )
    {
        kumiko_linux::signals::end_with_closed_pipes();
    }
    // Without a runtime: what makes namespaces is to be one thread.
    if let Noun::Sandbox(verb) = cli.noun {
        return sandbox::sandbox(verb, cli.output);
    }
    let home = Home::find(cli.home.as_deref())?;
    let work = async {
        match cli.noun {
            Noun::Site(verb) => site::site(verb, cli.output, &home).await,
            Noun::Job(verb) => job::job(verb, cli.output, &home).await,
            Noun::Exec(exec) => exec::exec(exec, &home).await.map_err(Failure::own),
            Noun::Identity(verb) => identity::identity(verb, cli.output, &home),
            Noun::Sandbox(_) => Ok(0), // done above
            Noun::Doctor => doctor::doctor(cli.output, &home),
            Noun::Demo => demo::demo(),
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()?;
    let result = runtime.block_on(work);
    // A thread may still wait for our standard input; nobody waits for it.
    runtime.shutdown_background();
    result
}

/// KUMIKO_LOG chooses what is told (tracing's filter syntax); KUMIKO_LOG_FORMAT=json for machines.
fn log(serving: bool) {
    let usual = if serving { "info" } else { "error" };
    let filter = EnvFilter::try_from_env("KUMIKO_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    if std::env::var("KUMIKO_LOG_FORMAT").is_ok_and(|f| f == "json") {
        log.json().init();
    } else {
        log.init();
    }
}

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
mod info;
mod job;
mod jojo;
mod output;
mod rpc;
mod sandbox;
mod site;

use args::{Cli, Noun, Site, SiteArguments};
use clap::Parser;
use fail::Failure;
use home::Home;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// A client moves a few streams; a site answers many. Both are mostly waiting.
const WORKER_THREADS: usize = 2;
/// For work on files, all of it short. A site for many accounts has an agent for each, and each thread is one of the 32,768
/// that many kernels have in all: what a thousand jobs of each want after a restart waits in turn.
const BLOCKING_THREADS: usize = 32;
/// What is under way of a few streams in full flow, and more than any piece of it.
const KEPT_MEMORY_BYTES: i32 = 8 << 20;
const KEPT_PIECE_BYTES: i32 = 1 << 20;

fn main() -> ExitCode {
    kumiko_linux::this_process::keep_freed_memory(KEPT_MEMORY_BYTES, KEPT_PIECE_BYTES);
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
    let serving = match &cli.noun {
        Noun::Site(SiteArguments {
            verb: Site::Start(start),
            ..
        }) => start.foreground || start.demo,
        Noun::Front | Noun::Agent(_) => true,
        Noun::Info(info::Info::Serve(_) | info::Info::Keep { .. }) => true,
        _ => false,
    };
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
    let of_job = matches!(&cli.noun, Noun::Sandbox(verb) if sandbox::is_of_job(verb));
    if !of_job {
        if let Noun::Sandbox(verb) = cli.noun {
            return sandbox::sandbox(verb, cli.output, cli.home.as_deref());
        }
    }
    if let Noun::Jojo(arguments) = &cli.noun {
        return jojo::jojo(arguments);
    }
    let home = match &cli.noun {
        Noun::Site(site) => site::which(site, cli.home.as_deref())?,
        _ => Home::find(cli.home.as_deref())?,
    };
    // Nor for the monitor: it forks.
    if let Noun::Site(SiteArguments {
        verb: Site::Start(start),
        ..
    }) = &cli.noun
    {
        let many = match start.many {
            true => Some(site::many::configure(&home)?),
            false => site::many::of(&home)?,
        };
        if let (true, Some(many)) = (start.foreground, many) {
            return site::many::monitor(start, &home, &many);
        }
    }
    if let Noun::Front = &cli.noun {
        // Its threads are to be made behind the fence.
        let given = site::many::Given::take(&home)?;
        return on_threads(site::many::front(given, &home));
    }
    let work = async {
        match cli.noun {
            Noun::Site(site) => site::site(site.verb, cli.output, &home).await,
            Noun::Job(verb) => job::job(verb, cli.output, &home).await,
            Noun::Exec(exec) => exec::exec(exec, &home).await.map_err(Failure::own),
            Noun::Rpc(verb) => rpc::rpc(verb, cli.output, &home).await,
            Noun::Info(verb) => info::info(verb, cli.output, &home).await,
            Noun::Identity(verb) => identity::identity(verb, cli.output, &home),
            Noun::Sandbox(args::Sandbox::Set {
                which,
                target,
                changes,
                policy,
            }) => job::change(which, target, &changes, policy.as_deref(), &home).await,
            Noun::Sandbox(_) | Noun::Jojo(_) | Noun::Front => Ok(0), // done above
            Noun::Doctor => doctor::doctor(cli.output, &home),
            Noun::Demo => demo::demo(),
            Noun::Agent(agent) => site::many::agent(agent, &home).await,
        }
    };
    on_threads(work)
}

fn on_threads(work: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
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
        // They would be told on stderr too, by a macro that panics where that is on a full disk.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    if std::env::var("KUMIKO_LOG_FORMAT").is_ok_and(|f| f == "json") {
        log.json().init();
    } else {
        log.init();
    }
}

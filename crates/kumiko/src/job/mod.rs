//! `kumiko job ...`: submit, watch, take results.

mod across;
pub mod describe;
pub mod files;
mod instances;
mod place;
mod resources;
pub mod run;
mod select;
pub mod serve;
mod spread;
mod together;
pub mod view;
mod whole;

pub use across::Across;
pub use instances::Instances;
pub use place::Where;
pub use resources::Resources;

use crate::args::{Format, Job, Select, Target};
use crate::connect;
use crate::fail::{FAILED, Failure, While};
use crate::home::Home;
use crate::output::{self, say};
use crate::sandbox::Typed;
use kumiko_client::Client;
use kumiko_job::attempt::{Limits, OutputStream};
use kumiko_job::contract::JobView;
use kumiko_job::id::JobId;
use kumiko_policy::{Change, limits_of, text_of};
use select::{Selector, pick};
use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use view::{Event, Whole};
use whole::At;

/// The exit status: 0, or that of a job for `run` and `wait`.
pub async fn job(verb: Job, format: Format, home: &Home) -> Result<u8, Failure> {
    match verb {
        Job::Submit(submit) => run::submit(submit, format, home).await,
        Job::Run(submit) => run::run(submit, home).await.map_err(Failure::own),
        Job::Launch(submit) => across::launch(submit, home).await.map_err(Failure::own),
        Job::List { target, live } => list(&target, live, format, home).await,
        Job::Wait(select) => on(&select, home, wait).await.map_err(Failure::own),
        Job::Log {
            select,
            stderr,
            follow,
            from,
        } => {
            on(&select, home, async |client, jobs| {
                log(client, jobs, stderr, follow, from).await
            })
            .await
        }
        Job::Watch { select, after } => {
            on(&select, home, async |client, jobs| {
                watch(client, jobs, after, format).await
            })
            .await
        }
        Job::Show(select) => {
            let views = RefCell::new(Vec::new());
            let show = async |client: &Client, jobs| {
                for job in jobs {
                    let view = Whole(client.show(job).await?);
                    views.borrow_mut().push(view);
                }
                Ok(0)
            };
            let shown = on(&select, home, show).await?;
            output::many(format, &views.into_inner())?;
            Ok(shown)
        }
        Job::Cancel { select, grace } => {
            each(&select, home, async |client, job| {
                Ok(client.cancel(job, grace).await?)
            })
            .await
        }
        Job::Migrate { select, to } => {
            each(&select, home, async |client, job| {
                Ok(client.migrate(job, to.as_deref()).await?)
            })
            .await
        }
        Job::Signal { signal, select } => {
            let signal = signal_number(&signal)?;
            each(&select, home, async |client, job| {
                Ok(client.signal(job, signal).await?)
            })
            .await
        }
        Job::Delegate { target, rights } => {
            connect::with(target.site.as_deref(), home, async |client| {
                Ok(output::one(format, &client.delegate(rights.into()).await?)?)
            })
            .await?;
            Ok(0)
        }
        Job::Renew { select, rights } => {
            let renew = async |client: &Client, job| {
                let renewed = client.renew(job, rights.into()).await?;
                let left = view::left(renewed.not_after_ms);
                eprintln!("kumiko: job {job} has a credential for {left}");
                Ok(())
            };
            each(&select, home, renew).await
        }
        Job::Fetch { select, into } => {
            let fetch = async |client: &Client, job| {
                client.download_into(job, &into, None).await?;
                Ok(())
            };
            each(&select, home, fetch).await
        }
        Job::Serve(given) => serve::serve(given, home).await,
        Job::Explain(select) => {
            let explain = async |client: &Client, job| {
                for sentence in client.explain(job).await? {
                    say!("{sentence}")?;
                }
                Ok(())
            };
            each(&select, home, explain).await
        }
        Job::Remove(select) => {
            each(&select, home, async |client, job| {
                Ok(client.remove(job).await?)
            })
            .await
        }
    }
}

/// Opens a session, resolves the selectors, works on the jobs meant, and closes the session in order: one that is only
/// dropped is kept by the site for a while, as after a cut.
async fn on(
    select: &Select,
    home: &Home,
    work: impl AsyncFn(&Client, Vec<JobId>) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let selectors: Vec<Selector> = select
        .jobs
        .iter()
        .map(|t| Selector::parse(t))
        .collect::<Result<_, _>>()?;
    let client = connect::open(select.target.site.as_deref(), home).await?;
    let jobs = match chosen(&client, &selectors).await {
        Ok(jobs) if select.whole => return on_whole(client, jobs, home, work).await,
        Ok(jobs) => work(&client, jobs).await,
        Err(failure) => Err(failure),
    };
    client.close().await;
    jobs
}

/// At each site in turn; what fails at one does not keep the others from it.
async fn on_whole(
    client: Client,
    jobs: Vec<JobId>,
    home: &Home,
    work: impl AsyncFn(&Client, Vec<JobId>) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let whole::Found { at, all } = whole::of(client, jobs, home).await?;
    let mut first = if all { 0 } else { FAILED };
    for At { client, jobs } in at {
        let contact = client.address().to_string();
        let status = work(&client, jobs).await.unwrap_or_else(|failure| {
            eprintln!("kumiko: {contact}: {failure}");
            failure.status
        });
        connect::close(client).await;
        first = if first == 0 { status } else { first };
    }
    Ok(first)
}

/// As `on`, one job after the other.
async fn each(
    select: &Select,
    home: &Home,
    work: impl AsyncFn(&Client, JobId) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let all = async |client: &Client, jobs: Vec<JobId>| {
        for job in jobs {
            work(client, job).await?;
        }
        Ok(0)
    };
    on(select, home, all).await
}

/// Other limits, paths and addresses of jobs that run.
pub async fn change(
    which: String,
    target: Target,
    typed: &[Typed],
    policy: Option<&Path>,
    home: &Home,
) -> Result<u8, Failure> {
    let changes: Vec<Change> = typed.iter().map(|typed| typed.change.clone()).collect();
    let limits = limits_of(&changes);
    let mut texts: Vec<String> = text_of(&changes).into_iter().collect();
    if let Some(file) = policy {
        let text = std::fs::read_to_string(file);
        texts.insert(0, text.doing(|| format!("reading {}", file.display()))?);
    }
    let select = Select {
        jobs: vec![which],
        whole: false,
        target,
    };
    each(&select, home, async |client, job| {
        for text in &texts {
            for what in client.narrow(job, text).await? {
                eprintln!("kumiko: job {job} does not follow {what}");
            }
        }
        if limits != Limits::default() {
            client.limit(job, limits.clone()).await?;
        }
        Ok(())
    })
    .await
}

/// The list is asked for only where a selector needs it.
async fn chosen(client: &Client, selectors: &[Selector]) -> Result<Vec<JobId>, Failure> {
    let single = |s: &Selector| matches!(s, Selector::Range(from, to) if from == to);
    let known: Vec<JobId> = if selectors.iter().all(single) {
        Vec::new()
    } else {
        client.list().await?.iter().map(|v| v.id).collect()
    };
    let jobs = pick(selectors, &known);
    if jobs.is_empty() && selectors.contains(&Selector::Last) {
        return Err(Failure::from_text("you have no jobs there"));
    }
    Ok(jobs)
}

async fn list(target: &Target, live: bool, format: Format, home: &Home) -> Result<u8, Failure> {
    let client = connect::open(target.site.as_deref(), home).await?;
    let views: Vec<JobView> = client
        .list()
        .await?
        .into_iter()
        .filter(|v| !(live && v.state.has_ended()))
        .collect();
    client.close().await;
    if format == Format::Human {
        let rows: Vec<Vec<String>> = views.iter().map(view::row).collect();
        say!(
            "{}",
            output::table(&["JOB", "STATE", "RAN FOR", "NAME", "COMMAND"], &rows).trim_end()
        )?;
    } else {
        let views: Vec<Whole> = views.into_iter().map(Whole).collect();
        output::many(format, &views)?;
    }
    Ok(0)
}

/// Waits for all; the status is that of the first that did not end with 0.
async fn wait(client: &Client, jobs: Vec<JobId>) -> Result<u8, Failure> {
    let mut status = 0;
    for job in jobs {
        let mut events = client.watch(job, 0).await?;
        let outcome = loop {
            match events.next().await? {
                Some(event) if event.state.has_ended() => break event.outcome,
                Some(_) => {}
                None => break None,
            }
        };
        let outcome = outcome
            .ok_or_else(|| Failure::from_text(format!("job {job} was removed before it ended")))?;
        let (of_job, word) = run::status_of(&outcome);
        if let Some(word) = word {
            eprintln!("kumiko: job {job}: {word}");
        }
        if status == 0 {
            status = of_job;
        }
    }
    Ok(status)
}

async fn log(
    client: &Client,
    jobs: Vec<JobId>,
    stderr: bool,
    follow: bool,
    from: u64,
) -> Result<u8, Failure> {
    let stream = if stderr {
        OutputStream::Stderr
    } else {
        OutputStream::Stdout
    };
    let mut out = std::io::stdout().lock();
    for job in jobs {
        let until = if follow {
            u64::MAX
        } else {
            let view = client.show(job).await?;
            if stderr {
                view.stderr_bytes
            } else {
                view.stdout_bytes
            }
        };
        if from >= until {
            continue;
        }
        let mut left = until - from;
        let mut output = client.output(job, stream, from).await?;
        while left > 0 {
            let Some(data) = output.next().await? else {
                break;
            };
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
            out.write_all(&data[..most])?;
            out.flush()?;
            left -= most as u64;
        }
    }
    Ok(0)
}

async fn watch(
    client: &Client,
    jobs: Vec<JobId>,
    after: u64,
    format: Format,
) -> Result<u8, Failure> {
    for job in jobs {
        let mut events = client.watch(job, after).await?;
        while let Some(event) = events.next().await? {
            let ended = event.state.has_ended();
            output::one(
                if format == Format::Json {
                    Format::Lines
                } else {
                    format
                },
                &Event(event),
            )?;
            if ended {
                break;
            }
        }
    }
    Ok(0)
}

/// TERM, SIGTERM or 15.
fn signal_number(text: &str) -> Result<i32, Failure> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    kumiko_linux::signals::signal_number(name)
        .or_else(|| text.parse().ok().filter(|n| (1..=64).contains(n)))
        .ok_or_else(|| {
            Failure::misuse(format!(
                "\"{text}\" is no signal: write TERM, KILL, STOP, CONT, ... or a number"
            ))
        })
}

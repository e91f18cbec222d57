//! `kumiko job ...`: submit, watch, take results.

pub mod describe;
pub mod run;
mod select;
pub mod view;

use crate::args::{Format, Job, Select, Target};
use crate::connect;
use crate::fail::Failure;
use crate::home::Home;
use crate::output::{self, say};
use kumiko_client::Client;
use kumiko_job::attempt::OutputStream;
use kumiko_job::contract::JobView;
use kumiko_job::id::JobId;
use select::{Selector, pick};
use std::io::Write;
use view::{Event, Whole};

/// The exit status: 0, or that of a job for `run` and `wait`.
pub async fn job(verb: Job, format: Format, home: &Home) -> Result<u8, Failure> {
    match verb {
        Job::Submit(submit) => run::submit(submit, format, home).await,
        Job::Run(submit) => run::run(submit, home).await.map_err(Failure::own),
        Job::List { target, live } => list(&target, live, format, home).await,
        Job::Wait(select) => wait(&select, home).await.map_err(Failure::own),
        Job::Log {
            select,
            stderr,
            follow,
            from,
        } => log(&select, stderr, follow, from, home).await,
        Job::Watch { select, after } => watch(&select, after, format, home).await,
        Job::Show(select) => {
            let (client, jobs) = chosen(&select, home).await?;
            let mut views = Vec::new();
            for job in jobs {
                views.push(Whole(client.show(job).await?));
            }
            output::many(format, &views)?;
            Ok(0)
        }
        Job::Cancel { select, grace } => {
            let (client, jobs) = chosen(&select, home).await?;
            for job in jobs {
                client.cancel(job, grace).await?;
            }
            Ok(0)
        }
        Job::Signal { signal, select } => {
            let signal = signal_number(&signal)?;
            let (client, jobs) = chosen(&select, home).await?;
            for job in jobs {
                client.signal(job, signal).await?;
            }
            Ok(0)
        }
        Job::Delegate { target, rights } => {
            let client = connect::open(target.site.as_deref(), home).await?;
            output::one(format, &client.delegate(rights.into()).await?)?;
            client.close().await;
            Ok(0)
        }
        Job::Renew { select, rights } => {
            let (client, jobs) = chosen(&select, home).await?;
            for job in jobs {
                let renewed = client.renew(job, rights.into()).await?;
                eprintln!(
                    "kumiko: job {job} has a credential for {}",
                    view::left(renewed.not_after_ms)
                );
            }
            Ok(0)
        }
        Job::Fetch { select, into } => {
            let (client, jobs) = chosen(&select, home).await?;
            for job in jobs {
                client.download_into(job, &into, None).await?;
            }
            Ok(0)
        }
        Job::Explain(select) => {
            let (client, jobs) = chosen(&select, home).await?;
            for job in jobs {
                for sentence in client.explain(job).await? {
                    say!("{sentence}")?;
                }
            }
            Ok(0)
        }
        Job::Remove(select) => {
            let (client, jobs) = chosen(&select, home).await?;
            for job in jobs {
                client.remove(job).await?;
            }
            Ok(0)
        }
    }
}

/// Opens the session and resolves the selectors; the list is asked for only where one needs it.
async fn chosen(select: &Select, home: &Home) -> Result<(Client, Vec<JobId>), Failure> {
    let selectors: Vec<Selector> = select
        .jobs
        .iter()
        .map(|t| Selector::parse(t))
        .collect::<Result<_, _>>()?;
    let client = connect::open(select.target.site.as_deref(), home).await?;
    let single = |s: &Selector| matches!(s, Selector::Range(from, to) if from == to);
    let known: Vec<JobId> = if selectors.iter().all(single) {
        Vec::new()
    } else {
        client.list().await?.iter().map(|v| v.id).collect()
    };
    let jobs = pick(&selectors, &known);
    if jobs.is_empty() && selectors.contains(&Selector::Last) {
        return Err(Failure::from_text("you have no jobs there"));
    }
    Ok((client, jobs))
}

async fn list(target: &Target, live: bool, format: Format, home: &Home) -> Result<u8, Failure> {
    let client = connect::open(target.site.as_deref(), home).await?;
    let views: Vec<JobView> = client
        .list()
        .await?
        .into_iter()
        .filter(|v| !(live && v.state.has_ended()))
        .collect();
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
async fn wait(select: &Select, home: &Home) -> Result<u8, Failure> {
    let (client, jobs) = chosen(select, home).await?;
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
    select: &Select,
    stderr: bool,
    follow: bool,
    from: u64,
    home: &Home,
) -> Result<u8, Failure> {
    let (client, jobs) = chosen(select, home).await?;
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

async fn watch(select: &Select, after: u64, format: Format, home: &Home) -> Result<u8, Failure> {
    let (client, jobs) = chosen(select, home).await?;
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

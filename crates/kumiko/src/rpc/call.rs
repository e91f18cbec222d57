//! `kumiko rpc call` and `attach`: one call from words to printed results. What is needed to take its result later is written down
//! before the call begins (spec/rpc P40), and goes when the result is where it belongs.

use super::results::Outputs;
use super::{Call, Results, find, values};
use crate::args::Format;
use crate::connect;
use crate::fail::{Failure, While};
use crate::home::Home;
use kumiko_call::id::CallId;
use kumiko_call::message::Status;
use kumiko_client::Client;
use kumiko_directory::estimate::Work;
use kumiko_find::speeds::{self, Kept};
use kumiko_idl::Signature;
use kumiko_rpc_client::{Arguments, Calls, Note, Notes, RpcError, Settings, Stages, call_id};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// A site that may be away is told of what it need not keep, and not waited for.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// The status of a program that Ctrl-C ended, as shells have it.
const INTERRUPTED: u8 = 130;

pub async fn call(asked: Call, format: Format, home: &Home) -> Result<u8, Failure> {
    let settings = Settings {
        durability: asked.durability.into(),
        ..Settings::default()
    };
    match &asked.among.requirement {
        Some(requirement) => {
            let among = &asked.among;
            let (routine, work) = (&asked.routine, work(&asked));
            let mut sites = find::sites(among, requirement, routine, work, settings, home).await?;
            loop {
                let open = find::next(&mut sites, home).await?;
                let calls = Calls::new(open.client.clone(), settings);
                let signature = &open.signature;
                let at = (&open.client, &calls, true);
                let done = call_at(at, signature, &asked, format, home).await;
                connect::close(open.client.clone()).await;
                match done? {
                    Ok(status) => {
                        sites.answered(&open);
                        return Ok(status);
                    }
                    Err(refused) if refused.is_of_this_site() => sites.refused(&open, &refused),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        None => {
            let site = asked.target.site.as_deref();
            connect::with(site, home, async |client| {
                let calls = Calls::new(client.clone(), settings);
                let signature = calls.signature(&asked.routine).await?;
                let at = (client, &calls, false);
                let done = call_at(at, &signature, &asked, format, home).await?;
                Ok(done?)
            })
            .await
        }
    }
}

/// How much it is, if its routine was called from here before.
fn work(asked: &Call) -> Option<Work> {
    let signature = Kept::load().signature(&asked.routine)?;
    let targets = targets(&asked.results, &signature).ok()?;
    let given = values::arguments(&signature, &asked.arguments, &targets).ok()?;
    let heads = kumiko_rpc_client::heads(&signature, &given).ok()?;
    speeds::work(&signature, &heads)
}

/// Begins the call and takes its result; the inner error: it did not begin. `among`: it can go elsewhere.
async fn call_at(
    (client, calls, among): (&Client, &Calls, bool),
    signature: &Signature,
    asked: &Call,
    format: Format,
    home: &Home,
) -> Result<Result<u8, RpcError>, Failure> {
    let targets = targets(&asked.results, signature)?;
    let given = values::arguments(signature, &asked.arguments, &targets)?;
    let heads = kumiko_rpc_client::heads(signature, &given)?;
    let arguments = Arguments::new(signature, &given)?;
    let outputs = Outputs::new(signature, &arguments.plan, &targets)?;
    let arguments = arguments.with_places(outputs.places());
    let id = match calls.number().await {
        Ok(id) => id,
        Err(error) => return Ok(Err(error)),
    };
    let note = Note::new(client.address().to_string(), signature, &heads);
    let note = note.with_files(arguments.targets());
    let notes = Notes::of(home.root());
    notes.write(&note, id)?;
    calls.noted(notes.clone(), note.site.clone());
    if std::io::stderr().is_terminal() {
        eprintln!("call {id}: if this ends early, `kumiko rpc attach {id}` takes its result");
    }
    let stages = Stages::default();
    let calling = async {
        let routine = &asked.routine;
        match among {
            true => {
                calls
                    .call_or_elsewhere(id, routine, &arguments, &stages)
                    .await
            }
            false => calls.call_seen(id, routine, &arguments, &stages).await,
        }
    };
    let (came, interrupted) = interruptible(calls, id, calling).await?;
    if came.is_ok() {
        let contact = client.address().to_string();
        speeds::keep(&contact, signature, &heads, &stages.took());
    }
    let forget = || notes.forget(&note.site, calls.name_now(id));
    match came {
        Err(error) if error.goes_elsewhere(&stages) => {
            // What it has of the arguments it need not keep.
            let _ = tokio::time::timeout(HEARD_WITHIN, calls.cancel(id)).await;
            forget();
            if interrupted {
                // Nobody wants it elsewhere either.
                eprintln!("kumiko: {error}");
                return Ok(Ok(INTERRUPTED));
            }
            Ok(Err(error))
        }
        came => {
            let done = finish(calls, id, forget, came, |result| {
                outputs.show(result, format)
            });
            match done.await {
                Err(failure) if interrupted => {
                    eprintln!("kumiko: {failure}");
                    Ok(Ok(INTERRUPTED))
                }
                done => done.map(Ok),
            }
        }
    }
}

/// Ctrl-C cancels the call, whose end is waited for; the next one ends this program. True: there was one.
async fn interruptible<T>(
    calls: &Calls,
    id: CallId,
    calling: impl Future<Output = T>,
) -> Result<(T, bool), Failure> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut calling = std::pin::pin!(calling);
    let came = tokio::select! {
        came = &mut calling => Some(came),
        _ = interrupts.recv() => None,
    };
    let interrupted = came.is_none();
    if interrupted {
        calls.cancel(id).await?;
    }
    // Nothing else hears it any more.
    tokio::spawn(async move {
        if interrupts.recv().await.is_some() {
            std::process::exit(INTERRUPTED.into());
        }
    });
    let came = match came {
        Some(came) => came,
        None => calling.await,
    };
    Ok((came, interrupted))
}

pub async fn cancel(text: &str, site: Option<&str>, home: &Home) -> Result<u8, Failure> {
    let id = parse(text)?;
    connect::with(site, home, async |client| {
        let calls = Calls::new(client.clone(), Settings::default());
        let why = match calls.cancel_to_end(id).await? {
            Status::Failed(_) => {
                let _ = calls.until_over(id).await;
                Notes::of(home.root()).forget(&client.address().to_string(), id);
                return Ok(0);
            }
            Status::Result { .. } => format!("has its result: `kumiko rpc attach {id}` takes it"),
            _ => "is over".to_owned(),
        };
        Err(Failure::from_text(format!("call {id} {why}")))
    })
    .await
}

pub async fn attach(
    text: &str,
    results: &Results,
    site: Option<&str>,
    format: Format,
    home: &Home,
) -> Result<u8, Failure> {
    let id = parse(text)?;
    connect::with(site, home, async |client| {
        let address = client.address().to_string();
        let notes = Notes::of(home.root());
        let note = notes.read(&address, id)?;
        let (signature, plan) = note.plan()?;
        let targets = targets(results, &signature)?;
        let calls = Calls::new(client.clone(), Settings::default());
        let outputs = Outputs::new(&signature, &plan, &targets)?;
        let places = outputs.places();
        let came = calls.attach_to(id, &plan, note.files(), &places).await;
        let forget = || notes.forget(&address, id);
        finish(&calls, id, forget, came, |result| {
            outputs.show(result, format)
        })
        .await
    })
    .await
}

/// Puts the result where it belongs, and only then says that it is there.
async fn finish(
    calls: &Calls,
    id: CallId,
    forget: impl FnOnce(),
    came: Result<bytes::Bytes, RpcError>,
    show: impl FnOnce(&[u8]) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let shown = match came {
        Ok(result) => show(&result),
        // All of it is there, and could not be written here.
        Err(error @ RpcError::File { .. }) => Err(error.into()),
        Err(error) if error.is_final() => {
            // There will be no other outcome, and the site need not keep it.
            let _ = calls.until_over(id).await;
            forget();
            return Err(error.into());
        }
        Err(error) => return Err(error.into()),
    };
    shown.doing(|| {
        format!("the result of call {id} is kept at the site: `kumiko rpc attach {id}` takes it")
    })?;
    // If this does not arrive, the site keeps the result until it expires.
    let _ = calls.until_over(id).await;
    forget();
    Ok(0)
}

pub fn parse(text: &str) -> Result<CallId, Failure> {
    call_id(text).ok_or_else(|| Failure::misuse(format!("{text} names no call: they are like 7-3")))
}

/// Which arrays go to which files.
fn targets(results: &Results, signature: &Signature) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut targets = Vec::new();
    for text in &results.out {
        let (name, path) = text
            .split_once('=')
            .ok_or_else(|| Failure::misuse(format!("--out {text}: write NAME=FILE.npy")))?;
        let known = signature.formals.iter().any(|one| one.name() == name);
        if !known {
            let routine = &signature.name;
            return Err(Failure::misuse(format!(
                "--out {text}: {routine} has no {name}"
            )));
        }
        targets.push((name.to_owned(), PathBuf::from(path)));
    }
    Ok(targets)
}

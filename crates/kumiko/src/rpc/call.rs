//! `kumiko rpc call` and `attach`: one call from words to printed results. What is needed to take its result later is written down
//! before the call begins (spec/rpc P40), and goes when the result is where it belongs.

use super::{Call, Results, values};
use crate::args::Format;
use crate::connect;
use crate::fail::{Failure, While};
use crate::home::Home;
use crate::output::say;
use kumiko_call::id::CallId;
use kumiko_idl::{HEAD_BYTES, Head, Limits, Plan, Signature};
use kumiko_rpc_client::{Arguments, Calls, RpcError, Settings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// What a result is understood by.
#[derive(Serialize, Deserialize)]
struct Note {
    site: String,
    signature: String,
    heads: Vec<u8>,
}

pub async fn call(asked: Call, format: Format, home: &Home) -> Result<u8, Failure> {
    let site = asked.target.site.as_deref();
    connect::with(site, home, async |client| {
        let settings = Settings {
            durability: asked.durability.into(),
            ..Settings::default()
        };
        let calls = Calls::new(client.clone(), settings);
        let signature = calls.signature(&asked.routine).await?;
        let targets = targets(&asked.results, &signature)?;
        let given = values::arguments(&signature, &asked.arguments)?;
        let heads = kumiko_rpc_client::heads(&signature, &given)?;
        let arguments = Arguments::new(&signature, &given)?;
        let id = calls.number().await?;
        let note = Note {
            site: client.address().to_string(),
            signature: signature.to_text(),
            heads: heads.concat(),
        };
        let written = write(home, &note, id)?;
        if std::io::stderr().is_terminal() {
            eprintln!("call {id}: if this ends early, `kumiko rpc attach {id}` takes its result");
        }
        let came = calls.call(id, &asked.routine, &arguments).await;
        finish(&calls, id, &written, came, |result| {
            show(&signature, &arguments.plan, result, &targets, format)
        })
        .await
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
        let (note, written) = read(home, id, &address)?;
        let signature = Signature::from_text(&note.signature)?;
        let heads: Vec<Head> = note
            .heads
            .chunks_exact(HEAD_BYTES)
            .filter_map(|head| head.try_into().ok())
            .collect();
        let plan = signature.plan(&heads, Limits::WIDEST)?;
        let targets = targets(results, &signature)?;
        let calls = Calls::new(client.clone(), Settings::default());
        let came = calls.attach(id).await;
        finish(&calls, id, &written, came, |result| {
            if result.len() as u64 != plan.out_bytes {
                return Err(RpcError::Result {
                    call: id,
                    got: result.len() as u64,
                    expected: plan.out_bytes,
                }
                .into());
            }
            show(&signature, &plan, result, &targets, format)
        })
        .await
    })
    .await
}

/// Puts the result where it belongs, and only then says that it is there.
async fn finish(
    calls: &Calls,
    id: CallId,
    note: &Path,
    came: Result<bytes::Bytes, RpcError>,
    show: impl FnOnce(&[u8]) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let shown = match came {
        Ok(result) => show(&result),
        Err(error @ (RpcError::Failed { .. } | RpcError::Over { .. } | RpcError::Refused(_))) => {
            // There will be no other outcome, and the site need not keep it.
            let _ = calls.until_over(id).await;
            let _ = std::fs::remove_file(note);
            return Err(error.into());
        }
        Err(error) => return Err(error.into()),
    };
    shown.doing(|| {
        format!("the result of call {id} is kept at the site: `kumiko rpc attach {id}` takes it")
    })?;
    // If this does not arrive, the site keeps the result until it expires.
    let _ = calls.until_over(id).await;
    let _ = std::fs::remove_file(note);
    Ok(0)
}

fn parse(text: &str) -> Result<CallId, Failure> {
    let numbers = text.split_once('-').and_then(|(client, sequence)| {
        Some(CallId {
            client: client.parse().ok()?,
            sequence: sequence.parse().ok()?,
        })
    });
    numbers.ok_or_else(|| Failure::misuse(format!("{text} names no call: they are like 7-3")))
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

fn show(
    signature: &Signature,
    plan: &Plan,
    result: &[u8],
    targets: &[(String, PathBuf)],
    format: Format,
) -> Result<(), Failure> {
    let mut printed = Map::new();
    for back in values::results(signature, plan, result) {
        match targets.iter().find(|(name, _)| name == back.name) {
            Some((_, path)) => back.write(path)?,
            None if format == Format::Human => say!("{}", back.human())?,
            None => {
                printed.insert(back.name.to_owned(), back.json());
            }
        }
    }
    match format {
        Format::Human => {}
        Format::Json => say!("{}", serde_json::to_string_pretty(&Json::Object(printed))?)?,
        Format::Lines => say!("{}", Json::Object(printed))?,
    }
    Ok(())
}

fn folder(home: &Home) -> PathBuf {
    home.root().join("rpc").join("calls")
}

fn write(home: &Home, note: &Note, id: CallId) -> Result<PathBuf, Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let folder = folder(home);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .doing(|| format!("making {}", folder.display()))?;
    let path = folder.join(format!("{}@{id}", note.site.replace('/', "_")));
    crate::home::write_whole(&path, &serde_json::to_string(note)?)?;
    Ok(path)
}

fn read(home: &Home, id: CallId, site: &str) -> Result<(Note, PathBuf), Failure> {
    let path = folder(home).join(format!("{}@{id}", site.replace('/', "_")));
    match crate::home::read_optional(&path)? {
        Some(text) => Ok((
            serde_json::from_str(&text).doing(|| format!("reading {}", path.display()))?,
            path,
        )),
        None => Err(Failure::from_text(format!(
            "no call {id} at {site} was begun from here and is open still"
        ))),
    }
}

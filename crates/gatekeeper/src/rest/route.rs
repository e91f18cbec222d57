//! Which request is answered how (R1, R5 to R11).

use super::body::{self, Body};
use super::reply::{Answer, bad_method, json, refused, typed};
use crate::admit::Visitor;
use crate::desk::Desk;
use crate::files::{self, Found, staging_refusal};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, LOCATION};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use kumiko_job::attempt::{AttemptCommand, OutputStream};
use kumiko_job::contract::{EventStream, EventView, Jobs, OutputReader, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_job::validate::MAX_DESCRIPTION_BYTES;
use kumiko_staging::{Limits, Packing};
use kumiko_wire::api::{Done, Narrowed, Submitted};
use kumiko_wire::target::Target;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Write;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Of bodies that are a few fields.
const SMALL_BODY_BYTES: usize = 4096;
/// Of one that is a policy's text: in JSON each of its bytes may take two.
const POLICY_BODY_BYTES: usize = 2 * kumiko_job::contract::MAX_CHANGE_BYTES;
/// Size of the pieces of output.
const OUTPUT_PIECE_BYTES: usize = 64 * 1024;

/// Bodies of `cancel` and `signal`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    #[serde(default)]
    grace_ms: Option<u64>,
}

/// Body of `migrate`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Migrate {
    #[serde(default)]
    to: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signal {
    signal: i32,
}

/// Body of `policy`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Narrow {
    policy: String,
}

pub(super) async fn answer<J: Jobs>(
    desk: Arc<Desk<J>>,
    visitor: Arc<Visitor>,
    request: Request<Incoming>,
) -> Response<Body> {
    desk.meter.requests.fetch_add(1, Relaxed);
    match routed(&desk, &visitor, request).await {
        Ok(response) => response,
        Err(refusal) => {
            desk.refused(&refusal);
            refused(&refusal)
        }
    }
}

async fn routed<J: Jobs>(
    desk: &Arc<Desk<J>>,
    visitor: &Arc<Visitor>,
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    let target = Target::parse(head.uri.path(), head.uri.query())
        .map_err(|e| Refusal::new("bad_request", e.to_string()))?;
    let parts: Vec<&str> = target.parts.iter().map(String::as_str).collect();
    let method = head.method.as_str();
    let path = head.uri.path();
    let stall = desk.config.limits.body_stall;
    let caller = &visitor.caller;
    let done = || Ok(json(StatusCode::OK, &Done {}));
    let ["v1", parts @ ..] = parts.as_slice() else {
        return match (method, parts.as_slice()) {
            ("GET", ["metrics"]) => Ok(typed(
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                body::full(desk.metrics()),
            )),
            (_, ["metrics"]) => Ok(bad_method(&head.method, path, "GET")),
            _ => Err(no_such_resource(path)),
        };
    };
    match (method, parts) {
        ("GET", ["site"]) => Ok(json(StatusCode::OK, &desk.site(visitor))),
        ("POST", ["jobs"]) => {
            let text = body::whole(body, MAX_DESCRIPTION_BYTES, stall).await?;
            let description = JobDescription::from_json(&text)?;
            let job = desk
                .submit(visitor, description, key(&head.headers)?)
                .await?;
            let mut response = json(StatusCode::CREATED, &Submitted { job });
            if let Ok(location) = HeaderValue::from_str(&format!("/v1/jobs/{job}")) {
                response.headers_mut().insert(LOCATION, location);
            }
            Ok(response)
        }
        ("GET", ["jobs"]) => Ok(json(StatusCode::OK, &desk.jobs.list(caller).await?)),
        ("GET", ["jobs", id]) => Ok(json(
            StatusCode::OK,
            &desk.jobs.show(caller, job(id)?).await?,
        )),
        ("DELETE", ["jobs", id]) => {
            desk.jobs.remove(caller, job(id)?).await?;
            done()
        }
        ("GET", ["jobs", id, "explain"]) => Ok(json(
            StatusCode::OK,
            &desk.jobs.explain(caller, job(id)?).await?,
        )),
        ("GET", ["jobs", id, "events"]) => {
            let server_sent = head
                .headers
                .get(ACCEPT)
                .is_some_and(|a| a.as_bytes().starts_with(b"text/event-stream"));
            let after = match head
                .headers
                .get("last-event-id")
                .and_then(|id| id.to_str().ok())
            {
                Some(id) if server_sent => number("Last-Event-ID", id)?,
                _ => query(&target, "after")?.unwrap_or(0),
            };
            let job = job(id)?;
            let events = desk.jobs.watch(caller, job, after).await?;
            Ok(told(desk, visitor, job, events, server_sent))
        }
        ("POST", ["jobs", id, "cancel"]) => {
            let Cancel { grace_ms } =
                fields(body::whole(body, SMALL_BODY_BYTES, stall).await?, true)?;
            desk.jobs.cancel(caller, job(id)?, grace_ms).await?;
            done()
        }
        ("POST", ["jobs", id, "signal"]) => {
            let Signal { signal } =
                fields(body::whole(body, SMALL_BODY_BYTES, stall).await?, false)?;
            desk.jobs
                .command(caller, job(id)?, AttemptCommand::Signal { signal })
                .await?;
            done()
        }
        ("POST", ["jobs", id, "migrate"]) => {
            let Migrate { to } = fields(body::whole(body, SMALL_BODY_BYTES, stall).await?, true)?;
            desk.jobs.migrate(caller, job(id)?, to).await?;
            done()
        }
        ("POST", ["jobs", id, "limits"]) => {
            let limits = fields(body::whole(body, SMALL_BODY_BYTES, stall).await?, false)?;
            desk.jobs
                .command(caller, job(id)?, AttemptCommand::Limits(limits))
                .await?;
            done()
        }
        ("POST", ["jobs", id, "policy"]) => {
            let Narrow { policy } =
                fields(body::whole(body, POLICY_BODY_BYTES, stall).await?, false)?;
            let not_followed = desk.jobs.narrow(caller, job(id)?, &policy).await?;
            Ok(json(StatusCode::OK, &Narrowed { not_followed }))
        }
        ("GET", ["jobs", id, "stdout"]) => {
            output(desk, visitor, job(id)?, OutputStream::Stdout, &target).await
        }
        ("GET", ["jobs", id, "stderr"]) => {
            output(desk, visitor, job(id)?, OutputStream::Stderr, &target).await
        }
        ("GET", ["jobs", id, "files", below @ ..]) => {
            let root = desk.jobs.directory(caller, job(id)?).await?;
            let below = below.join("/");
            let found = tokio::task::spawn_blocking(move || files::find(&root, &below))
                .await
                .map_err(|e| Refusal::new("bug", format!("looking for a file: {e}")))??;
            Ok(match found {
                Found::Directory(entries) => json(StatusCode::OK, &entries),
                Found::File { file, bytes } => {
                    let mut response = typed(
                        StatusCode::OK,
                        "application/octet-stream",
                        body::file(file, bytes),
                    );
                    response.headers_mut().insert(CONTENT_LENGTH, bytes.into());
                    response
                }
            })
        }
        ("GET", ["jobs", id, "archive"]) => {
            let root = desk.jobs.directory(caller, job(id)?).await?;
            let place = desk.transfer()?;
            let packing = Packing::start(root, query(&target, "since_us")?, Limits::RESULTS);
            let body = body::pieces((packing, place), |(mut packing, place)| async move {
                let piece = packing.next().await.map_err(|e| staging_refusal(&e))?;
                Ok(piece.map(|piece| (piece, (packing, place))))
            });
            Ok(typed(StatusCode::OK, "application/x-tar", body))
        }
        ("POST", ["uploads"]) => {
            let uploaded = upload(desk, visitor, body).await?;
            Ok(json(StatusCode::CREATED, &uploaded))
        }
        (
            _,
            ["site"]
            | [
                "jobs",
                _,
                "explain" | "events" | "stdout" | "stderr" | "archive",
            ]
            | ["jobs", _, "files", ..],
        ) => Ok(bad_method(&head.method, path, "GET")),
        (_, ["jobs"]) => Ok(bad_method(&head.method, path, "GET, POST")),
        (_, ["jobs", _]) => Ok(bad_method(&head.method, path, "GET, DELETE")),
        (
            _,
            [
                "jobs",
                _,
                "cancel" | "migrate" | "signal" | "limits" | "policy",
            ]
            | ["uploads"],
        ) => Ok(bad_method(&head.method, path, "POST")),
        _ => Err(no_such_resource(path)),
    }
}

fn no_such_resource(path: &str) -> Refusal {
    Refusal::new(
        "no_such_resource",
        format!("there is nothing at {path}; see spec/rest"),
    )
}

fn job(id: &str) -> Result<JobId, Refusal> {
    number("a job's id", id).map(JobId)
}

fn number<T: FromStr>(what: &str, text: &str) -> Result<T, Refusal> {
    text.parse()
        .map_err(|_| Refusal::new("bad_request", format!("{what} is a number, not {text:?}")))
}

fn query(target: &Target, name: &str) -> Result<Option<u64>, Refusal> {
    target
        .first(name)
        .map(|text| number(name, text))
        .transpose()
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    headers
        .get("idempotency-key")
        .map(|key| {
            let key = key
                .to_str()
                .map_err(|_| Refusal::new("bad_key", "Idempotency-Key is plain ASCII text"))?;
            Ok(key.to_owned())
        })
        .transpose()
}

/// A small JSON body; an empty one, where that is allowed, is `{}`.
fn fields<T: DeserializeOwned>(text: Vec<u8>, may_be_empty: bool) -> Result<T, Refusal> {
    let text = if text.is_empty() && may_be_empty {
        b"{}".to_vec()
    } else {
        text
    };
    serde_json::from_slice(&text)
        .map_err(|e| Refusal::new("bad_request", format!("the request's body: {e}")))
}

/// Events as they happen: server-sent events, or one JSON a line.
fn told<J: Jobs>(
    desk: &Arc<Desk<J>>,
    visitor: &Arc<Visitor>,
    job: JobId,
    events: impl EventStream + 'static,
    server_sent: bool,
) -> Response<Body> {
    let (desk, visitor) = (desk.clone(), visitor.clone());
    let body = body::pieces(events, move |mut events| {
        let (desk, visitor) = (desk.clone(), visitor.clone());
        async move {
            match events.next().await {
                Some(event) => Ok(Some((written(&event, server_sent), events))),
                None => desk.events_ended(&visitor, job).await.map(|()| None),
            }
        }
    });
    let kind = if server_sent {
        "text/event-stream"
    } else {
        "application/x-ndjson"
    };
    typed(StatusCode::OK, kind, body)
}

fn written(event: &EventView, server_sent: bool) -> Bytes {
    let json = kumiko_wire::api::json(event);
    let json = String::from_utf8_lossy(&json);
    let mut text = String::with_capacity(json.len() + 64);
    // Writing into a String cannot fail.
    let _ = if server_sent {
        write!(
            text,
            "id: {}\nevent: {}\ndata: {json}\n\n",
            event.number, event.kind
        )
    } else {
        writeln!(text, "{json}")
    };
    Bytes::from(text)
}

async fn output<J: Jobs>(
    desk: &Arc<Desk<J>>,
    visitor: &Visitor,
    job: JobId,
    stream: OutputStream,
    target: &Target,
) -> Answer {
    let from = query(target, "from")?.unwrap_or(0);
    let reader = desk.jobs.output(&visitor.caller, job, stream, from).await?;
    let desk = desk.clone();
    let body = body::pieces(reader, move |mut reader| {
        let desk = desk.clone();
        async move {
            let Some((_, data)) = reader.read(OUTPUT_PIECE_BYTES).await? else {
                return Ok(None);
            };
            desk.meter
                .output_bytes
                .fetch_add(data.len() as u64, Relaxed);
            Ok(Some((data, reader)))
        }
    });
    Ok(typed(StatusCode::OK, "application/octet-stream", body))
}

async fn upload<J: Jobs>(
    desk: &Desk<J>,
    visitor: &Visitor,
    mut body: Incoming,
) -> Result<kumiko_wire::api::Uploaded, Refusal> {
    let taken = async {
        let mut upload = desk.upload(visitor).await?;
        let stall = desk.config.limits.body_stall;
        while let Some(data) = body::next(&mut body, stall).await? {
            upload.push(data).await?;
        }
        upload.finish().await
    };
    let result = taken.await;
    if result.is_err() {
        body::discard(body).await;
    }
    result
}

//! The HTTP door of an info server (spec/info, H1 to H4): the questions of the session's door as GET requests, answered
//! in JSON. HTTP/1.1 within TLS, told by ALPN.

use crate::desk::{Prepared, Refusal, attributes, status};
use crate::index::Index;
use crate::ldap::Client;
use crate::metrics;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kumiko_directory::ask::{Found, Query};
use kumiko_wire::target::Target;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// An answer is held whole; who wants more asks by LDAP or over a session.
const ENTRIES_MOST: usize = 10_000;
/// Header fields and their bytes: a browser sends a fraction.
const HEADER_FIELDS: usize = 64;
const HEADER_BYTES: usize = 16 * 1024;
/// From a connection's begin, or an answer's end, to the next request's header.
const HEADER_WITHIN: Duration = Duration::from_secs(30);

/// Serves one connection, for as long as an idle one may stay at most.
pub(crate) async fn serve<S>(index: Arc<Index>, stream: S, client: Client)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let within = Duration::from_millis(index.config.limits.idle_ms);
    let client = Arc::new(client);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&index, &client, &request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WITHIN)
        .max_headers(HEADER_FIELDS)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // Whoever leaves in the middle, or does not read, is not told anything more.
    let _ = tokio::time::timeout(within, connection).await;
}

fn answer(index: &Index, client: &Client, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    match route(index, client, request) {
        Ok(response) => response,
        Err((status, refusal)) => json(status, &refusal),
    }
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Full<Bytes>> {
    // Texts and numbers have a JSON form.
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Full::new(bytes.into()));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

type Refused = (StatusCode, Refusal);

fn route(
    index: &Index,
    client: &Client,
    request: &Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refused> {
    let bad = |refusal| (StatusCode::BAD_REQUEST, refusal);
    let target = Target::parse(request.uri().path(), request.uri().query());
    let target = target.map_err(|e| bad(Refusal::new("bad_request", e)))?;
    if request.method() != Method::GET {
        let refusal = Refusal::new("bad_method", "only GET is answered here");
        return Err((StatusCode::METHOD_NOT_ALLOWED, refusal));
    }
    if !index.config.anonymous && client.identity.is_none() {
        let refusal = Refusal::new(
            "not_admitted",
            "show a certificate: this server is not read anonymously",
        );
        return Err((StatusCode::FORBIDDEN, refusal));
    }
    let parts: Vec<&str> = target.parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["v1", "info", "query"] => {
            let query = query(&target).map_err(bad)?;
            let limit = query.limit.unwrap_or(ENTRIES_MOST).min(ENTRIES_MOST);
            let query = Query {
                limit: Some(limit),
                ..query
            };
            let prepared = Prepared::new(index, &query).map_err(bad)?;
            let found = index.read(|inner| {
                let (rows, matched) = prepared.rows(inner);
                let entries = prepared.views(inner, &rows);
                Found { matched, entries }
            });
            Ok(json(StatusCode::OK, &found))
        }
        ["v1", "info", "attributes"] => Ok(json(StatusCode::OK, &attributes(index))),
        ["v1", "info", "status"] => {
            let who = client.identity.as_deref().unwrap_or("");
            Ok(json(StatusCode::OK, &status(index, who)))
        }
        ["metrics"] => {
            let mut response = Response::new(Full::new(metrics::text(index).into()));
            let kind = header::HeaderValue::from_static("text/plain; version=0.0.4");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            Ok(response)
        }
        _ => {
            let words =
                "there are /v1/info/query, /v1/info/attributes, /v1/info/status and /metrics";
            Err((
                StatusCode::NOT_FOUND,
                Refusal::new("no_such_resource", words),
            ))
        }
    }
}

fn query(target: &Target) -> Result<Query, Refusal> {
    let mut query = Query::default();
    for (name, value) in &target.query {
        let wrong = || Refusal::new("bad_query", format!("{name}={value} cannot be used"));
        match name.as_str() {
            "expression" => query.expression.clone_from(value),
            "rank" => query.rank = Some(value.clone()),
            "limit" => query.limit = Some(value.parse().map_err(|_| wrong())?),
            "all" => query.all = value.parse().map_err(|_| wrong())?,
            "filter" => query.filter = Some(value.clone()),
            "base" => query.base = Some(value.clone()),
            "attributes" => query.attributes = value.split(',').map(str::to_owned).collect(),
            _ => {
                let words = "there are expression, rank, limit, all, filter, base and attributes";
                return Err(Refusal::new("bad_query", format!("{name:?}: {words}")));
            }
        }
    }
    Ok(query)
}

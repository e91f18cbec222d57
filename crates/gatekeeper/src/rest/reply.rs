//! Answers in JSON, and the HTTP status of each refusal (R3, R4).

use super::body::{self, Body};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use kumiko_job::contract::Refusal;
use serde::Serialize;

pub(super) type Answer = Result<Response<Body>, Refusal>;

pub(super) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    typed(
        status,
        "application/json",
        body::full(kumiko_wire::api::json(value)),
    )
}

pub(super) fn typed(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // What a job wrote is never to be taken for something of ours by a browser.
    response.headers_mut().insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}

pub(super) fn refused(refusal: &Refusal) -> Response<Body> {
    json(status(&refusal.code), refusal)
}

/// The one refusal with a header of its own.
pub(super) fn bad_method(
    method: &http::Method,
    path: &str,
    allowed: &'static str,
) -> Response<Body> {
    let refusal = Refusal::new(
        "bad_method",
        format!("{path} takes {allowed}, not {method}"),
    );
    let mut response = refused(&refusal);
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// A code that is not listed is the caller's request refused for a reason of the job's: 422.
fn status(code: &str) -> StatusCode {
    match code {
        "bad_request" | "bad_description" | "bad_key" | "bad_archive" | "not_a_command" => {
            StatusCode::BAD_REQUEST
        }
        "limited_proxy" | "not_admitted" | "policy_asks_more" => StatusCode::FORBIDDEN,
        "no_such_job" | "no_such_file" | "no_such_upload" | "no_such_resource" => {
            StatusCode::NOT_FOUND
        }
        "bad_method" => StatusCode::METHOD_NOT_ALLOWED,
        "body_stalled" => StatusCode::REQUEST_TIMEOUT,
        "job_live" | "key_reused" => StatusCode::CONFLICT,
        "output_freed" | "output_anew" => StatusCode::GONE,
        "body_too_large" | "archive_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        "too_many_live_jobs" | "too_many_kept_jobs" | "too_many_uploads" | "too_many_transfers" => {
            StatusCode::TOO_MANY_REQUESTS
        }
        "agent_unavailable" | "site_closing" | "site_draining" | "site_full" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        "disk_full" | "log_full" => StatusCode::INSUFFICIENT_STORAGE,
        "bug" | "log_damaged" | "log_unwritable" | "spool_unreadable" | "staging_failed"
        | "upload_failed" | "unreadable_file" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

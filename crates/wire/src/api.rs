//! Requests and replies on the streams of a session (spec/services). The payload that opens a stream is
//! the JSON of one [`Request`]; what follows are messages, told apart by their kind byte.
//!
//! Not here: the frames that carry them (`frame`), the binary messages of an attached job (`exec`).

use bytes::Bytes;
use kumiko_job::attempt::{Limits, OutputStream};
use kumiko_job::contract::Refusal;
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Kinds of messages (V2). Those of an attached job are in [`crate::exec`].
pub mod kind {
    /// One JSON value, its type fixed by the request.
    pub const REPLY: u8 = 0x01;
    /// A [`super::Refusal`]; the last message of its stream.
    pub const REFUSED: u8 = 0x02;
    /// The next bytes of a tar archive.
    pub const TAR: u8 = 0x03;
    /// A PKCS #10 request, DER: what the site wants signed (V8).
    pub const CERTIFICATE_REQUEST: u8 = 0x04;
    /// The certificate that a client made of it, DER.
    pub const CERTIFICATE: u8 = 0x05;
}

/// What opens a stream is held whole.
pub const MAX_REQUEST_BYTES: usize = crate::frame::REQUEST_BYTES;

/// What a client asks, one a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Answer: [`Submitted`]. The same `key` again answers the same job.
    Submit {
        description: JobDescription,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// `Submit` and `Attach` from 0 in one round trip. Answer: [`Submitted`], then as for `Attach`.
    Exec {
        description: JobDescription,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Answer: one `JobView` a message.
    List,
    /// Answer: `JobView`.
    Show { job: JobId },
    /// Answer: an array of sentences.
    Explain { job: JobId },
    /// Answer: one `EventView` a message, those after number `after` first, then as they happen.
    Watch {
        job: JobId,
        #[serde(default)]
        after: u64,
    },
    /// Answer: [`Done`]. `grace_ms`: between SIGTERM and SIGKILL; default: the job's.
    Cancel {
        job: JobId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
    },
    /// Answer: [`Done`].
    Signal { job: JobId, signal: i32 },
    /// Other limits while it runs: those that are named. Answer: [`Done`].
    Limit { job: JobId, limits: Limits },
    /// Narrows what a job may see and reach while it runs, by a text of a policy. Answer: [`Narrowed`].
    Narrow { job: JobId, policy: String },
    /// Lets a job begin that was submitted to be held. Answer: [`Done`].
    Release { job: JobId },
    /// The job is to be held on, for as long again as its description says. Answer: [`Done`].
    Hold { job: JobId },
    /// Ends what runs of a job that may run again, which it does then; on this host, if one is named. Answer: [`Done`].
    Migrate {
        job: JobId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// Answer: [`Done`].
    Remove { job: JobId },
    /// Both ways, in the messages of [`crate::exec`]. `stdin`: this client may send it.
    Attach {
        job: JobId,
        #[serde(default)]
        stdin: bool,
        #[serde(default)]
        stdout_from: u64,
        #[serde(default)]
        stderr_from: u64,
    },
    /// Answer: messages [`crate::exec::FromJob::Output`] of one stream.
    Output {
        job: JobId,
        stream: OutputStream,
        #[serde(default)]
        from: u64,
    },
    /// Which of these SHA-256s does the account's stock have? Answer: [`Stocked`].
    Stocked { sums: Vec<String> },
    /// The client sends a tar archive and finishes. Answer: [`Uploaded`].
    Upload,
    /// Answer: a tar archive of the job's own directory, or of what is newer in it than `since_us`.
    Download {
        job: JobId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_us: Option<u64>,
    },
    /// The site sends a request for a certificate, the client the certificate. Answer: [`Delegated`].
    Delegate,
    /// The same, for a living job that has a credential already. Answer: [`Renewed`].
    Renew { job: JobId },
    /// Answer: [`SiteView`].
    Site,
    /// Both ways, in the messages of [`crate::rpc`].
    Rpc,
}

/// The job exists and is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    pub job: JobId,
}

/// It is done, and there is nothing to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}

/// The job is narrowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowed {
    /// What of it the attempt that runs does not follow, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_followed: Vec<String>,
}

/// What of what was asked for the account's stock has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stocked {
    pub held: Vec<String>,
}

/// A folder is at the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    /// For `JobDescription::input`.
    pub input: String,
    pub entries: u64,
    pub bytes: u64,
    /// The site's time just after the last file; `Download` with it brings only what came later. Unix, microseconds.
    pub mark_us: u64,
}

/// A credential of the caller's is at the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegated {
    /// For `JobDescription::credential`.
    pub credential: String,
    /// When it ends; Unix time.
    pub not_after_ms: u64,
}

/// A job has another credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// When it ends; Unix time.
    pub not_after_ms: u64,
}

/// What a site says of itself to whom it serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteView {
    pub name: String,
    pub version: String,
    /// Who you are here.
    pub subject: String,
    pub account: String,
    pub limits: SiteLimits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteLimits {
    pub upload_bytes: u64,
    pub upload_entries: u64,
    pub stdin_window_bytes: u64,
}

/// Why a request or a reply could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error("a request of {bytes} bytes is over the limit of {MAX_REQUEST_BYTES}")]
    TooLong { bytes: usize },
    #[error("the request is not understood: {cause} (column {column}); see spec/services")]
    Request { cause: String, column: usize },
    #[error(
        "the site's answer is not understood: {cause}; client and site may be of different versions"
    )]
    Reply { cause: String },
    #[error("a message of kind {kind:#04x} was not expected here")]
    Kind { kind: u8 },
}

impl Request {
    /// The payload of the stream's opening (V1).
    pub fn encode(&self) -> Bytes {
        json(self)
    }

    /// # Errors
    /// Too long, not JSON, unknown request or field.
    pub fn decode(payload: &[u8]) -> Result<Request, ApiError> {
        if payload.len() > MAX_REQUEST_BYTES {
            return Err(ApiError::TooLong {
                bytes: payload.len(),
            });
        }
        serde_json::from_slice(payload).map_err(|e| ApiError::Request {
            cause: said(&e),
            column: e.column(),
        })
    }
}

/// The JSON of a reply, a refusal or an event.
pub fn json<T: Serialize>(value: &T) -> Bytes {
    // These types have string keys and no floats: serde_json cannot fail on them.
    serde_json::to_vec(value)
        .map(Bytes::from)
        .unwrap_or_default()
}

/// One reply of a known type.
///
/// # Errors
/// The JSON is not of this type.
pub fn reply<T: DeserializeOwned>(data: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(data).map_err(|e| ApiError::Reply {
        cause: e.to_string(),
    })
}

/// A refusal as it was sent; one that cannot be read is still a refusal.
pub fn refusal(data: &[u8]) -> Refusal {
    reply(data).unwrap_or_else(|e| Refusal {
        code: "bad_reply".to_owned(),
        message: e.to_string(),
    })
}

/// serde_json ends its messages by " at line 1 column N"; the column is kept apart.
fn said(e: &serde_json::Error) -> String {
    let text = e.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

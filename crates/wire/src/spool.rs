//! The files of a spool that site and runner write for each other, as JSON (spec/jobs/runner.md, R2).
//!
//! Text only: opening, locking and renaming is elsewhere.

use kumiko_job::attempt::{AttemptSpec, Outcome, Policy};

/// Most bytes of `attempt.json`, and of `policy.json`, which is a part of one: what a kernel takes as arguments and environment is less than this.
pub const ATTEMPT_LIMIT_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes of `status`: more than its longest outcome, and little enough to be kept free on every disk.
pub const STATUS_LIMIT_BYTES: usize = 64 * 1024;

/// Why a file of a spool was refused; whoever wrote it is at fault.
#[derive(Debug, thiserror::Error)]
pub enum SpoolFileError {
    #[error("{file} is over {limit} bytes")]
    TooLong { file: &'static str, limit: usize },
    /// With line and column.
    #[error("{file} is not what it should be: {cause}")]
    Malformed {
        file: &'static str,
        cause: serde_json::Error,
    },
}

/// The text of `attempt.json`.
pub fn encode_attempt(attempt: &AttemptSpec) -> Result<Vec<u8>, SpoolFileError> {
    let file = "attempt.json";
    let text =
        serde_json::to_vec(attempt).map_err(|cause| SpoolFileError::Malformed { file, cause })?;
    within(&text, file, ATTEMPT_LIMIT_BYTES)?;
    Ok(text)
}

/// Reads the text of `attempt.json`.
pub fn decode_attempt(text: &[u8]) -> Result<AttemptSpec, SpoolFileError> {
    decode(text, "attempt.json", ATTEMPT_LIMIT_BYTES)
}

/// Reads the text of `policy.json`.
pub fn decode_policy(text: &[u8]) -> Result<Policy, SpoolFileError> {
    decode(text, "policy.json", ATTEMPT_LIMIT_BYTES)
}

/// The text of `status`.
pub fn encode_status(outcome: &Outcome) -> Result<Vec<u8>, SpoolFileError> {
    let file = "status";
    let text =
        serde_json::to_vec(outcome).map_err(|cause| SpoolFileError::Malformed { file, cause })?;
    within(&text, file, STATUS_LIMIT_BYTES)?;
    Ok(text)
}

/// Reads the text of `status`.
pub fn decode_status(text: &[u8]) -> Result<Outcome, SpoolFileError> {
    decode(text, "status", STATUS_LIMIT_BYTES)
}

fn decode<T: serde::de::DeserializeOwned>(
    text: &[u8],
    file: &'static str,
    limit: usize,
) -> Result<T, SpoolFileError> {
    within(text, file, limit)?;
    serde_json::from_slice(text).map_err(|cause| SpoolFileError::Malformed { file, cause })
}

fn within(text: &[u8], file: &'static str, limit: usize) -> Result<(), SpoolFileError> {
    match text.len() > limit {
        true => Err(SpoolFileError::TooLong { file, limit }),
        false => Ok(()),
    }
}

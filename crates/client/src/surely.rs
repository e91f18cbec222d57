//! A submission whose end is known before another site is asked (spec/jobs/placement.md, PM22 and PM23): taken, refused and
//! not there, or neither is sure. Not here: which site is asked next.

use crate::{Client, ClientError};
use kumiko_job::contract::Refusal;
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_session::SessionError;
use std::time::Duration;
use tokio::time::timeout;

/// Why a site has not taken a job.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// It would not, and has no job of this key.
    #[error(transparent)]
    Refused(Refusal),
    /// It may have taken it.
    #[error("{why}")]
    Unsure { why: String },
}

impl Client {
    /// Submits under a key. The link may be lost on the way, the site may be killed and come back: it is asked again by the
    /// same key, for as long as `patience`. A refusal is believed when the site shows no job of the key: it may be the
    /// answer to a second asking, and another than the first would have had.
    ///
    /// # Errors
    /// `NotTaken`.
    pub async fn submit_surely(
        &self,
        description: JobDescription,
        key: &str,
        patience: Duration,
    ) -> Result<JobId, NotTaken> {
        let submitted = timeout(patience, self.submit(description, Some(key.to_owned()))).await;
        let refusal = match submitted {
            Ok(Ok(job)) => return Ok(job),
            Ok(Err(ClientError::Refused(refusal))) => refusal,
            Ok(Err(ClientError::Stream {
                cause: cause @ SessionError::RequestTooLong { .. },
                ..
            })) => {
                let refusal = Refusal::new("bad_description", cause.to_string());
                return Err(NotTaken::Refused(refusal)); // never sent
            }
            Ok(Err(error)) => return Err(unsure(&error.to_string())),
            Err(_) => return Err(unsure(&silent(patience))),
        };
        match timeout(patience, self.list()).await {
            Ok(Ok(jobs)) => {
                let same = jobs.iter().find(|job| job.key.as_deref() == Some(key));
                same.map(|job| job.id).ok_or(NotTaken::Refused(refusal))
            }
            Ok(Err(error)) => Err(unsure(&format!("{refusal}; and then {error}"))),
            Err(_) => Err(unsure(&format!("{refusal}; and then {}", silent(patience)))),
        }
    }
}

fn unsure(why: &str) -> NotTaken {
    NotTaken::Unsure {
        why: why.to_owned(),
    }
}

fn silent(patience: Duration) -> String {
    format!("it did not answer within {} s", patience.as_secs_f32())
}

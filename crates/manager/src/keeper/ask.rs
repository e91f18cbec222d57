//! What the keeper is asked, and how it answers.

use crate::act::Planned;
use crate::cell::Cell;
use crate::log::ReadError;
use kumiko_job::attempt::AttemptReport;
use kumiko_job::contract::{Caller, Refusal};
use kumiko_job::decide::Action;
use kumiko_job::description::{Destination, JobDescription};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::limits::Given;
use kumiko_job::staging::Item;
use kumiko_policy::{Limits, Policy};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;

pub type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

pub enum Ask {
    Submit(Box<Submission>),
    Report {
        attempt: AttemptId,
        report: AttemptReport,
    },
    Cancel {
        job: JobId,
        grace_ms: u64,
        reply: Reply<()>,
    },
    /// Nobody has been attached to it, or has held it on, for so long.
    Unattended {
        job: JobId,
        after_s: u64,
    },
    /// The attempt is to leave its host, which is drained, if its job may run again.
    Requeue {
        attempt: AttemptId,
        host: String,
    },
    /// What runs of a job is to end, and to run again, for its owner says so; there, if he says where.
    Migrate {
        job: JobId,
        to: Option<String>,
        reply: Reply<()>,
    },
    /// What is held may begin.
    Release {
        job: JobId,
        reply: Reply<()>,
    },
    Remove {
        job: JobId,
        reply: Reply<()>,
    },
    /// The job gets this credential instead of the one it has.
    Renew {
        job: JobId,
        name: String,
        not_after_ms: u64,
        reply: Reply<()>,
    },
    /// The credential of event `number` is about to end.
    CredentialEnding {
        job: JobId,
        number: u64,
    },
    /// Staging has done this, or cannot; see `respond::moved`.
    Moved {
        job: JobId,
        item: Item,
        given: Option<u64>,
        how: Result<u64, Refusal>,
    },
    /// The output streams are to go elsewhere.
    Redirect {
        job: JobId,
        stdout: Option<Vec<Destination>>,
        stderr: Option<Vec<Destination>>,
        reply: Reply<()>,
    },
    /// The owner wants other limits: those that are named.
    SetLimits {
        job: JobId,
        limits: Limits,
        reply: Reply<()>,
    },
    /// The owner narrows what a job may see and reach.
    Narrow {
        job: JobId,
        policy: Arc<Policy>,
        reply: Reply<()>,
    },
    /// Policies were changed, and give a job this now.
    PoliciesChanged {
        job: JobId,
        given: Box<Given>,
    },
    /// Brings an ended job back into memory.
    Load {
        job: JobId,
        reply: Reply<Option<Arc<Cell>>>,
    },
    /// What a job waits for that is not left; None: it does not.
    Waits {
        job: JobId,
        reply: Reply<Option<String>>,
    },
    /// Spools and directory of a removed job are gone.
    Erased {
        job: JobId,
    },
    /// Look for jobs whose time to be kept is over.
    Sweep,
    /// Record what was asked before, and go.
    Close {
        reply: oneshot::Sender<()>,
    },
}

pub struct Submission {
    pub caller: Caller,
    pub key: Option<String>,
    pub description: Arc<JobDescription>,
    pub policy: Policy,
    pub reply: Reply<JobId>,
}

impl Ask {
    /// Is it answered with a promise, which is to survive a power cut (spec/jobs J41)?
    pub fn is_promise(&self) -> bool {
        match self {
            Ask::Submit(_)
            | Ask::Cancel { .. }
            | Ask::Unattended { .. }
            | Ask::Requeue { .. }
            | Ask::Release { .. }
            | Ask::Migrate { .. }
            | Ask::Remove { .. }
            | Ask::Renew { .. }
            | Ask::Redirect { .. }
            | Ask::SetLimits { .. }
            | Ask::Narrow { .. }
            | Ask::PoliciesChanged { .. }
            // It may bring the first attempt with it.
            | Ask::Moved { .. }
            | Ask::Sweep => true,
            Ask::Report { .. }
            | Ask::CredentialEnding { .. }
            | Ask::Load { .. }
            | Ask::Waits { .. }
            | Ask::Erased { .. }
            | Ask::Close { .. } => false,
        }
    }
}

/// How the keeper has things done; must not block.
pub trait Act: Send + Sync {
    fn batch_name(&self) -> &'static str;
    fn spool(&self, attempt: AttemptId) -> PathBuf;
    fn act(self: Arc<Self>, action: Action, cell: &Arc<Cell>, planned: Planned);
}

/// An answer that waits for the commit.
pub enum Answer {
    Submit(Reply<JobId>, Result<JobId, Refusal>),
    Done(Reply<()>, Result<(), Refusal>),
}

impl Answer {
    /// `failed`: the commit did, whatever the answer would have been. Whoever asked may have gone.
    pub fn send(self, failed: Option<&Refusal>) {
        match self {
            Answer::Submit(reply, answer) => {
                let _ = reply.send(failed.map_or(answer, |refusal| Err(refusal.clone())));
            }
            Answer::Done(reply, answer) => {
                let _ = reply.send(failed.map_or(answer, |refusal| Err(refusal.clone())));
            }
        }
    }
}

pub fn no_such_job(job: JobId) -> Refusal {
    Refusal::new(
        "no_such_job",
        format!("there is no job {job} of yours here: `kumiko job list` shows those there are"),
    )
}

pub fn damaged(error: &ReadError) -> Refusal {
    Refusal::new(
        "log_damaged",
        format!("{error}: the site's operator must look at its event log"),
    )
}

pub fn full() -> Refusal {
    Refusal::new(
        "log_full",
        "the site cannot record this, its disk is full: nothing was done, try later",
    )
}

pub fn unwritable(error: &rusqlite::Error) -> Refusal {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => full(),
        _ => Refusal::new(
            "log_unwritable",
            format!(
                "the site cannot record this ({error}): nothing was done, its operator must look at the event log"
            ),
        ),
    }
}

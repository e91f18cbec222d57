//! What a manager is given when it is opened, and why opening can fail.

use kumiko_job::admission::Capacity;
use kumiko_job::contract::{Caller, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::event::{BadEvent, Record};
use kumiko_job::id::JobId;
use kumiko_job::state::Illegal;
use kumiko_job::transfer::Transfer;
use kumiko_policy::Policy;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Computes the effective policy of a description: the site's, narrowed by what is below it.
pub type Effective = Box<dyn Fn(&Caller, &JobDescription) -> Result<Policy, Refusal> + Send + Sync>;

/// Is told of each event right after it is recorded and before anybody else is. For tests that kill the site there.
pub type AfterCommit = Box<dyn Fn(JobId, &Record) + Send>;

/// Says why no job is taken now; jobs there are go on.
pub type Closed = Box<dyn Fn() -> Option<Refusal> + Send + Sync>;

pub struct Setup {
    /// Holds `events.db`, `lock`, `jobs/`, `uploads/` and `credentials/`; made (0700) if missing.
    pub directory: PathBuf,
    pub limits: Limits,
    /// What jobs can reserve. Where an engine keeps account of that, [`Capacity::UNBOUNDED`].
    pub capacity: Capacity,
    pub closed: Closed,
    pub effective: Effective,
    /// Moves files for jobs; None: jobs that need it are refused.
    pub transfer: Option<Arc<dyn Transfer>>,
    pub after_commit: Option<AfterCommit>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("directory", &self.directory)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What a site gives at most. Each is refused with a code of its own when it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that have not ended, of all callers. Each has a runner process beside it, so memory and pids are the measure.
    pub live_jobs: usize,
    /// Of them, those of one caller.
    pub live_jobs_per_caller: usize,
    /// Jobs of one caller that are kept, ended ones among them: bounds the log.
    pub kept_jobs_per_caller: usize,
    /// Uploads of one caller that no job has taken yet.
    pub uploads_per_caller: usize,
    /// An upload or a credential that no job has taken is swept after this.
    pub upload_keep: Duration,
    /// Credentials of one caller that no job has taken yet: each has a few kB.
    pub credentials_per_caller: usize,
    /// An ended job is kept for this long, in running time of the site: a clock that jumps expires nothing.
    pub keep: Duration,
    /// stdout and stderr, each.
    pub output_quota_bytes: u64,
    /// Between SIGTERM and SIGKILL, where neither job nor cancel say.
    pub grace_ms: u64,
    /// Where the job asks for none, or for more.
    pub time_limit_ms: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            live_jobs: 20_000,
            live_jobs_per_caller: 10_000,
            kept_jobs_per_caller: 200_000,
            uploads_per_caller: 64,
            credentials_per_caller: 64,
            upload_keep: Duration::from_secs(24 * 3600),
            keep: Duration::from_secs(7 * 24 * 3600),
            output_quota_bytes: 1 << 30,
            grace_ms: 5_000,
            time_limit_ms: None,
        }
    }
}

/// Why a manager did not open. No log was made or changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} cannot be prepared: {cause}")]
    Directory {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("{path} is held by another running site: stop that one first")]
    Busy { path: PathBuf },
    #[error(
        "the event log {log} is missing or empty, but {jobs} holds jobs: bring the log back from a backup, or move the \
         whole directory away to begin anew"
    )]
    LogMissing { log: PathBuf, jobs: PathBuf },
    #[error("the event log {log} cannot be read: {cause}")]
    Log {
        log: PathBuf,
        cause: rusqlite::Error,
    },
    #[error("{log} is a database, but not an event log of kumiko")]
    Foreign { log: PathBuf },
    #[error(
        "the event log {log} has schema {found}, this program knows {known}: start the program that wrote it"
    )]
    Schema {
        log: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("the event log {log} is damaged: event {number} of job {job}: {cause}")]
    BadEvent {
        log: PathBuf,
        job: JobId,
        number: u64,
        cause: BadEvent,
    },
    #[error("the event log {log} is damaged: {cause}")]
    Illegal { log: PathBuf, cause: Illegal },
    #[error("the event log {log} is damaged: job {job} has no events")]
    NoEvents { log: PathBuf, job: JobId },
    #[error("the manager's thread cannot be started: {cause}")]
    Thread { cause: std::io::Error },
}

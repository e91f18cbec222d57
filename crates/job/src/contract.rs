//! Contracts between services that do not know each other: each is a trait with numbered duties.

use crate::attempt::{AttemptCommand, AttemptReport, AttemptSpec, OutputStream};
use crate::description::{Destination, JobDescription};
use crate::id::{AttemptId, JobId};
use crate::together::Together;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use zeroize::Zeroizing;

pub use kumiko_policy::MAX_CHANGE_BYTES;

/// Receives what attempts report, in the order of each attempt.
pub trait AttemptSink: Send + Sync + 'static {
    fn report(&self, id: AttemptId, report: AttemptReport);
}

/// Where attempts run (LRM in the field's words).
///
/// 0. `admits` refuses a description that asks for what the engine cannot give, before anything is recorded.
/// 1. `start` returns only after the engine has accepted or refused; a second `start` of the same id starts nothing. An
///    engine that cannot be reached has done neither: the attempt is then held, and handed over once it can be.
/// 2. Reports of an attempt reach the sink in order; `Ended` is the last, and comes once a process of this site.
/// 3. `adopt` (after a restart of the site) reattaches: reports resume, or `Ended` is reported from what is on disk.
///    An attempt that provably never began is first fenced, so that it cannot begin later (a runner forked by the dead
///    site may be on its way), then reported `Ended(NeverStarted { code: NOT_BEGUN, .. })`: it will be tried again.
///    Where that cannot be proved it is `Ended(Lost)`, which is never tried again.
///    An attempt that an engine still holds, or may, is followed: the engine is asked by the attempt's tag.
/// 4. `command` for an attempt that has ended is no error. `Cancel` also ends one that has not begun yet.
/// 5. How it ended is kept apart: by itself, by its engine (`EngineEnded`, with the cause), lost, never started. A word of
///    the engine's that is not known is kept as text, and decides nothing.
pub trait BatchSystem: Send + Sync + 'static {
    fn name(&self) -> &'static str;
    fn admits(&self, description: &JobDescription) -> Result<(), Refusal>;
    /// What the engine says of an attempt that has not begun, in its own words; None: it says nothing.
    fn waits(&self, _id: AttemptId) -> Option<String> {
        None
    }
    /// The hosts that an attempt may be wanted on now (`AttemptSpec::wanted_on`).
    fn hosts(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
    /// Whether an attempt has its place on that one of them.
    fn is_on(&self, _id: AttemptId, _host: &str) -> bool {
        false
    }
    /// Whether it has its place on a host that one may be wanted on, or could be.
    fn is_piloted(&self, _id: AttemptId) -> bool {
        false
    }
    /// Runners that were made ahead and wait for an attempt.
    fn spares(&self) -> u64 {
        0
    }
    fn start(&self, spec: AttemptSpec) -> impl Future<Output = Result<(), BatchError>> + Send;
    fn adopt(&self, id: AttemptId) -> impl Future<Output = ()> + Send;
    fn command(&self, id: AttemptId, command: AttemptCommand) -> impl Future<Output = ()> + Send;
    /// The spool directory of an attempt: files `stdout` and `stderr`, readable below the reported length.
    fn spool(&self, id: AttemptId) -> PathBuf;
    /// Removes the spool of an ended attempt.
    fn forget(&self, id: AttemptId) -> impl Future<Output = ()> + Send;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("the runner {program} could not be started: {cause}")]
    NoRunner { program: String, cause: String },
    #[error("the spool {path} could not be prepared: {cause}")]
    Spool { path: String, cause: String },
    #[error("{engine} refused the attempt: {words}")]
    Refused { engine: &'static str, words: String },
}

/// Who asks: the verified subject of a certificate chain, and the account it is mapped to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// End-entity subject in the form /C=../O=../CN=...
    pub subject: String,
    pub account: String,
}

/// A service's refusal: `code` names a row of spec/errors.toml, `message` says what, where, and what to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: String,
    pub message: String,
}

impl Refusal {
    pub fn new(code: &str, message: impl Into<String>) -> Refusal {
        Refusal {
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

/// What the door (gatekeeper) needs of the manager. A caller sees and touches only jobs of its own subject.
///
/// 1. `submit` returns after the job is durable; the same `key` again returns the same job.
/// 2. `watch` yields each event once, in order, from `after` (exclusive), and then as they happen; it ends with the
///    job's removal.
/// 3. `output` yields the bytes of a stream from `offset` as they come, and ends when the job has ended and all is read.
///    Reading frees nothing of a `Flow` output: the reader says `Consumed` by `command` once the bytes have arrived,
///    so that one who lost the link can read again from where it was.
/// 4. `Release` by `command` is recorded first. `attend`, however short, holds a job on that waits to be released.
/// 5. `command` for a job whose attempt is still being started waits for it; for an ended one it is no error.
pub trait Jobs: Send + Sync + 'static {
    /// What operators count: name, what it is in words, and how much. Of nobody in particular.
    fn gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }
    fn submit(
        &self,
        caller: &Caller,
        description: JobDescription,
        key: Option<String>,
    ) -> impl Future<Output = Result<JobId, Refusal>> + Send;
    fn list(&self, caller: &Caller) -> impl Future<Output = Result<Vec<JobView>, Refusal>> + Send;
    fn show(
        &self,
        caller: &Caller,
        job: JobId,
    ) -> impl Future<Output = Result<JobView, Refusal>> + Send;
    fn explain(
        &self,
        caller: &Caller,
        job: JobId,
    ) -> impl Future<Output = Result<Vec<String>, Refusal>> + Send;
    fn watch(
        &self,
        caller: &Caller,
        job: JobId,
        after: u64,
    ) -> impl Future<Output = Result<impl EventStream + 'static, Refusal>> + Send;
    fn cancel(
        &self,
        caller: &Caller,
        job: JobId,
        grace_ms: Option<u64>,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
    /// Anything but `Settled` and `Cancel`: those are the manager's own.
    fn command(
        &self,
        caller: &Caller,
        job: JobId,
        command: AttemptCommand,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
    /// Ends what runs of a job that may run again, which it does then (spec/jobs J38); on this host, if one is named.
    fn migrate(
        &self,
        caller: &Caller,
        job: JobId,
        to: Option<String>,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
    /// Narrows what a job that waits or runs may see and reach, by a text of a policy (spec/policy P89). What of it an
    /// attempt that runs does not follow, in words.
    fn narrow(
        &self,
        caller: &Caller,
        job: JobId,
        policy: &str,
    ) -> impl Future<Output = Result<Vec<String>, Refusal>> + Send;
    /// Says that the caller is attached, until what this gives is dropped (`JobDescription::attended_s`).
    fn attend(
        &self,
        caller: &Caller,
        job: JobId,
    ) -> impl Future<Output = Result<impl Send + 'static, Refusal>> + Send;
    /// Waits until more than `above` bytes of stdin were taken, or no more will be (closed or ended); None: at once.
    fn stdin_taken(
        &self,
        caller: &Caller,
        job: JobId,
        above: Option<u64>,
    ) -> impl Future<Output = Result<StdinTaken, Refusal>> + Send;
    fn remove(
        &self,
        caller: &Caller,
        job: JobId,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
    /// Sends the output streams of a job that has not ended elsewhere from now on (GRAM's stdio update); None: as before.
    fn redirect(
        &self,
        caller: &Caller,
        job: JobId,
        stdout: Option<Vec<Destination>>,
        stderr: Option<Vec<Destination>>,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
    fn output(
        &self,
        caller: &Caller,
        job: JobId,
        stream: OutputStream,
        offset: u64,
    ) -> impl Future<Output = Result<impl OutputReader + 'static, Refusal>> + Send;
    /// The job's own directory on the host, to read results from.
    fn directory(
        &self,
        caller: &Caller,
        job: JobId,
    ) -> impl Future<Output = Result<PathBuf, Refusal>> + Send;
    /// A fresh, private folder for an upload and the id to name it by in `JobDescription::input`.
    fn new_upload(
        &self,
        caller: &Caller,
    ) -> impl Future<Output = Result<(String, PathBuf), Refusal>> + Send;
    /// Keeps a credential of the caller's; answers the id to name it by in `JobDescription::credential`.
    fn new_credential(
        &self,
        caller: &Caller,
        credential: Delegated,
    ) -> impl Future<Output = Result<String, Refusal>> + Send;
    /// Gives a living job that has a credential another one; returns after the job can find it.
    fn renew(
        &self,
        caller: &Caller,
        job: JobId,
        credential: Delegated,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
}

/// A delegated credential on its way to a job: a proxy file with its key. Wipes itself, and is not printed.
pub struct Delegated {
    pub pem: Zeroizing<Vec<u8>>,
    /// When it ends; Unix time.
    pub not_after_ms: u64,
}

impl std::fmt::Debug for Delegated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delegated")
            .field("not_after_ms", &self.not_after_ms)
            .finish_non_exhaustive()
    }
}

/// How much of its stdin a job has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdinTaken {
    /// All bytes below this were handed to the guest.
    pub offset: u64,
    /// More is useless: the guest closed its stdin or has ended.
    pub closed: bool,
}

/// Events of one job (duty 2 of `Jobs`). None: the job was removed, or the site is going down.
pub trait EventStream: Send {
    fn next(&mut self) -> impl Future<Output = Option<EventView>> + Send;
}

/// Bytes of one output stream (duty 3 of `Jobs`).
pub trait OutputReader: Send {
    /// Up to `most` bytes, with the offset they begin at; None: the stream has ended.
    fn read(
        &mut self,
        most: usize,
    ) -> impl Future<Output = Result<Option<(u64, Bytes)>, Refusal>> + Send;
}

/// What is told of a job (the JSON of REST and of `--output json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    pub id: JobId,
    /// The submitter's own name for the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub state: JobState,
    pub name: Option<String>,
    pub executable: String,
    pub arguments: Vec<String>,
    pub subject: String,
    pub account: String,
    pub batch: Option<String>,
    pub mechanism: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<String>,
    pub epoch: u32,
    /// Unix time, milliseconds.
    pub submitted_ms: u64,
    pub started_ms: Option<u64>,
    pub ended_ms: Option<u64>,
    pub outcome: Option<crate::attempt::Outcome>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// When the credential of a job that has not ended ends; Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_ends_ms: Option<u64>,
    /// How far its files are, of a job that has some to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging: Option<StagingView>,
    /// Of a job that starts together with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Box<Together>>,
    /// It is ready, and waits to be released.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held: bool,
    /// Number of the job's last event.
    pub last_event: u64,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// How far the files of a job are, in the stage that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagingView {
    pub files_done: u32,
    pub files: u32,
    /// Of those that are done.
    pub bytes_done: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Files are fetched before it can be planned.
    StagingIn,
    Pending,
    Active,
    Suspended,
    /// The program is over; its files and streams are still being sent.
    StagingOut,
    Done,
    Failed,
    Cancelled,
}

impl JobState {
    /// No state follows but removal.
    pub fn has_ended(self) -> bool {
        matches!(
            self,
            JobState::Done | JobState::Failed | JobState::Cancelled
        )
    }
}

/// One event as told to watchers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventView {
    pub job: JobId,
    /// Counts from 1 within the job.
    pub number: u64,
    /// Unix time, milliseconds.
    pub at_ms: u64,
    pub kind: String,
    pub state: JobState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<crate::attempt::Outcome>,
    /// In words.
    pub text: String,
}

/// A contract behind an `Arc` is the contract.
impl<T: AttemptSink> AttemptSink for Arc<T> {
    fn report(&self, id: AttemptId, report: AttemptReport) {
        (**self).report(id, report);
    }
}

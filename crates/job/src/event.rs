//! Events of a job: facts, recorded before anything is done because of them (spec/jobs, "Events").
//! Not here: what they lead to (`state`, `decide`).

use crate::attempt::{Cost, Outcome, OutputStream};
use crate::contract::{Caller, EventView, JobState};
use crate::description::{Destination, JobDescription};
use crate::id::JobId;
use crate::staging::Item;
use kumiko_policy::{Limits, Policy};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind after which no event of a job comes.
pub const REMOVED: &str = "removed";
/// The kinds by which one who starts several jobs together knows how far each is.
pub const PLANNED: &str = "planned";
pub const HELD: &str = "held";
pub const STARTED: &str = "started";

/// One fact about one job. The JSON form is what the log holds (spec/jobs J20).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The job exists. Always the first.
    Submitted {
        caller: Caller,
        /// The caller's own name for this submission; the same key again is the same job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        description: Arc<JobDescription>,
    },
    /// The job has this delegated credential from now on, instead of one it may have had before.
    CredentialGiven {
        name: String,
        /// When it ends; Unix time.
        not_after_ms: u64,
    },
    /// Its credential has less than `CREDENTIAL_WARNING_MS` left. Once for each credential.
    CredentialEnding {
        not_after_ms: u64,
    },
    /// Files are to be fetched first. In the place of the first `Planned`.
    StagingIn {
        files: u32,
    },
    /// Staging has done this.
    Transferred {
        item: Item,
        bytes: u64,
    },
    /// Staging cannot do this. Before an attempt it ends the job.
    TransferFailed {
        item: Item,
        code: String,
        message: String,
    },
    /// The output streams go elsewhere from now on; None: as before.
    Redirected {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdout: Option<Vec<Destination>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<Vec<Destination>>,
    },
    /// What the job reserves is not left yet: its first attempt is planned once it is. In the place of that.
    Queued {},
    /// From here on an attempt of this epoch may exist on `batch`. `boot` names the run of the machine that planned it.
    Planned {
        epoch: u32,
        batch: String,
        boot: String,
    },
    /// All is ready but for the execution of its program, which waits to be released.
    Held {
        epoch: u32,
    },
    /// Its program need not wait.
    Released {},
    /// The guest runs.
    Started {
        epoch: u32,
        pid: u32,
        mechanism: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        not_enforced: Vec<String>,
        /// Why this mechanism, what keeps the limits, and whose policies hold.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        why: Vec<String>,
    },
    /// Other limits hold from now on: those that are named.
    LimitsSet {
        by: LimitsBy,
        limits: Limits,
    },
    /// What it may see and reach is narrowed by this from now on, besides what was asked before (spec/policy P89).
    Narrowed {
        policy: Arc<Policy>,
    },
    /// Of the policy that holds by now its attempt does not follow this, in words; none: it follows all of it again.
    Unfollowed {
        epoch: u32,
        not: Vec<String>,
    },
    /// The attempt is to leave its host, which is drained, or because its owner asks: it is ended, and its job runs again elsewhere from
    /// its start.
    Requeued {
        epoch: u32,
        /// None: its owner asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Where its owner wants the next one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    Suspended {
        epoch: u32,
    },
    Resumed {
        epoch: u32,
    },
    /// Nobody was attached for as long as the description allows: a cancel follows.
    Unattended {
        after_s: u64,
    },
    /// Somebody wants the job ended. Again only with a shorter grace.
    CancelRequested {
        grace_ms: u64,
    },
    /// The attempt is over. `retry` is recorded and not derived, so that a later version with another rule still
    /// replays to the same state.
    AttemptEnded {
        epoch: u32,
        outcome: Outcome,
        retry: bool,
        stdout_bytes: u64,
        stderr_bytes: u64,
        /// Files and streams are still to be sent: the job's end is `StagedOut`. Recorded for the same reason as `retry`.
        #[serde(default, skip_serializing_if = "is_false")]
        staging_out: bool,
        /// What its sandbox cost, if it was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
    /// All is sent, or cannot be.
    StagedOut {
        /// The job's.
        outcome: Outcome,
    },
    /// The job is forgotten: by its owner, or because its time to be kept is over.
    Removed {
        expired: bool,
    },
}

/// Who changed a job's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitsBy {
    /// The job's owner.
    Owner,
    /// The policies above the job's, which were changed.
    Policies,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// An event in its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts from 1 within the job, without gaps.
    pub number: u64,
    /// Unix time, milliseconds; only told, never compared with a clock's other reading to decide order.
    pub at_ms: u64,
    pub event: Event,
}

/// The bytes in the log are no event of this version.
#[derive(Debug, thiserror::Error)]
#[error("not an event of this version, at line {line} column {column}: {what}")]
pub struct BadEvent {
    pub line: usize,
    pub column: usize,
    pub what: String,
}

impl Event {
    /// Reads the log's form (spec/jobs J20). Unknown events and fields are refused: a state guessed from half of the
    /// facts could run a job twice.
    pub fn from_json(bytes: &[u8]) -> Result<Event, BadEvent> {
        serde_json::from_slice(bytes).map_err(|error| BadEvent {
            line: error.line(),
            column: error.column(),
            what: error.to_string(),
        })
    }

    /// The log's form.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The name that watchers see.
    pub fn kind(&self) -> &'static str {
        match self {
            Event::Submitted { .. } => "submitted",
            Event::CredentialGiven { .. } => "credential_given",
            Event::CredentialEnding { .. } => "credential_ending",
            Event::StagingIn { .. } => "staging_in",
            Event::Transferred { .. } => "transferred",
            Event::TransferFailed { .. } => "transfer_failed",
            Event::Redirected { .. } => "redirected",
            Event::StagedOut { .. } => "staged_out",
            Event::Queued {} => "queued",
            Event::Planned { .. } => PLANNED,
            Event::Held { .. } => HELD,
            Event::Released {} => "released",
            Event::Started { .. } => STARTED,
            Event::LimitsSet { .. } => "limits_set",
            Event::Narrowed { .. } => "narrowed",
            Event::Unfollowed { .. } => "unfollowed",
            Event::Requeued { .. } => "requeued",
            Event::Suspended { .. } => "suspended",
            Event::Resumed { .. } => "resumed",
            Event::Unattended { .. } => "unattended",
            Event::CancelRequested { .. } => "cancel_requested",
            Event::AttemptEnded { .. } => "attempt_ended",
            Event::Removed { .. } => REMOVED,
        }
    }

    /// Must this event be on the platter, and not only in the kernel, before anybody is told? What a runner reports can be
    /// learned again from its spool; what a client was promised cannot (spec/jobs J41).
    pub fn is_promise(&self) -> bool {
        matches!(
            self,
            Event::Submitted { .. }
                // Forgotten in a power cut, it would be planned again as if there had been no guest.
                | Event::Planned { epoch: 1, .. }
                | Event::CredentialGiven { .. }
                | Event::Redirected { .. }
                | Event::LimitsSet { .. }
                | Event::Narrowed { .. }
                | Event::Released {}
                // Forgotten, the attempt that ends by it would have been cancelled by nobody.
                | Event::Requeued { .. }
                | Event::CancelRequested { .. }
                | Event::Removed { .. }
        )
    }
}

impl Record {
    /// As told to watchers; `state` is the job's after this event.
    pub fn view(&self, job: JobId, state: JobState) -> EventView {
        let outcome = match &self.event {
            Event::AttemptEnded { outcome, .. } | Event::StagedOut { outcome } => {
                Some(outcome.clone())
            }
            // With no attempt that could be asked to end, it is the end.
            Event::CancelRequested { .. } if state.has_ended() => Some(Outcome::Cancelled),
            Event::TransferFailed {
                item,
                code,
                message,
            } if state.has_ended() => Some(Outcome::StagingFailed {
                item: *item,
                code: code.clone(),
                message: message.clone(),
            }),
            _ => None,
        };
        EventView {
            job,
            number: self.number,
            at_ms: self.at_ms,
            kind: self.event.kind().to_owned(),
            state,
            outcome,
            text: crate::explain::event(&self.event),
        }
    }
}

impl OutputStream {
    /// Name of its file in the spool.
    pub fn name(self) -> &'static str {
        match self {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        }
    }
}

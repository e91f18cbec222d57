//! Events of calls: facts, recorded before anything is done because of them (spec/rpc, "Events").
//! Not here: what they lead to (`call`, `ledger`, `decide`).

use crate::id::{CallId, CheckpointId};
use serde::{Deserialize, Serialize};

/// One fact. The JSON form is what the log holds (P20).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A client has this number from now on.
    Registered { client: u64, subject: String },
    /// The client's calls below this count are over and will not be asked for again.
    Released { client: u64, below: u64 },
    /// The client was not heard for its lease, and has no call.
    Left { client: u64 },
    /// Something happened to a call.
    Call { call: CallId, event: CallEvent },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CallEvent {
    /// The call exists. Always the first.
    Invoked(Invocation),
    /// This many blocks of arguments are on the disk.
    Received { blocks: u64 },
    /// From here on an attempt of this epoch may exist on the host. It begins at the checkpoint, or at the beginning.
    Planned {
        epoch: u32,
        host: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<CheckpointId>,
    },
    /// The routine computes; and what would become of that if its process died, in words.
    Started {
        epoch: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovery: Option<String>,
    },
    /// This checkpoint is whole and on the disk.
    Checkpointed { checkpoint: CheckpointId },
    /// The host was silent for a while.
    Suspected { epoch: u32 },
    /// It was heard again.
    Trusted { epoch: u32 },
    /// The attempt is over. With a `failure` the call is too. That is recorded and not derived, so that a later version
    /// with another rule still replays to the same state.
    AttemptEnded {
        epoch: u32,
        end: End,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The client wants it computed elsewhere: this attempt is to end, and the next goes on from its newest checkpoint; on this host, if one
    /// is named.
    MigrateRequested {
        epoch: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// The client does not want it any more.
    CancelRequested,
    /// The client has its result, or knows of its failure.
    Acknowledged,
    /// Nobody came for it in time.
    Expired,
}

/// What is asked for. The same words again are the same call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// `module/routine`.
    pub routine: String,
    /// Bytes of all arguments that travel.
    pub in_bytes: u64,
    /// Bytes of a block, but for the last; at least 1.
    pub block_bytes: u64,
    /// For so long a result is kept that nobody fetches, and half of the arguments that nobody goes on sending.
    pub keep_ms: u64,
}

impl Invocation {
    /// Blocks of arguments.
    pub fn blocks(&self) -> u64 {
        self.in_bytes.div_ceil(self.block_bytes.max(1))
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum End {
    /// The result is on the disk, under the attempt's epoch.
    Finished { out_bytes: u64 },
    /// The routine ended itself: by a signal of its own making or a status. `point` counts its safe points, 0 for none.
    Crashed { cause: String, point: u64 },
    /// The routine said that it cannot compute what it was given: the name of its error, and what it told of it.
    Raised { error: String, told: String },
    /// Somebody else ended it.
    Killed { cause: String },
    /// The host needed its place, and may take the call again.
    Preempted,
    /// The host was silent for too long; the attempt may still compute.
    HostLost,
    /// The host has no room for it.
    NoSpace,
    /// The checkpoint cannot be read.
    BadCheckpoint,
    /// It computed for longer than it may.
    TimeLimit,
    /// It was told to end.
    Cancelled,
    /// The host will never run it: no such routine, or its policy forbids.
    Refused { message: String },
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Failure {
    /// The routine crashed twice at one point for one cause: trying again would do the same.
    Crashes {
        cause: String,
        point: u64,
    },
    /// So many attempts in a row came no further; the last one ended so.
    Fruitless {
        attempts: u32,
        last: String,
    },
    /// The routine's own error: trying again would do the same.
    Raised {
        error: String,
        told: String,
    },
    TimeLimit,
    Cancelled,
    Refused {
        message: String,
    },
}

/// An event in its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts from 1 without gaps, over all calls of the log.
    pub number: u64,
    pub event: Event,
}

/// An event of one call as it is told to its client (P58).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    pub number: u64,
    /// Since 1970 by the site's clock; nothing is decided by it. None: it was recorded by an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    pub event: CallEvent,
}

/// The bytes in the log are no event of this version.
#[derive(Debug, thiserror::Error)]
#[error("not an event of this version: {what}")]
pub struct BadEvent {
    /// With line and column.
    pub what: String,
}

impl Event {
    /// Reads the log's form (P20). Unknown events and fields are refused: a state guessed from half of the facts could
    /// deliver a call twice.
    ///
    /// # Errors
    /// Where the bytes are no event.
    pub fn from_json(bytes: &[u8]) -> Result<Event, BadEvent> {
        serde_json::from_slice(bytes).map_err(|error| BadEvent {
            what: error.to_string(),
        })
    }

    pub fn to_json(&self) -> String {
        // Only maps with keys that are no texts, and types that fail by themselves, cannot be written: none is here.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl CallEvent {
    pub fn kind(&self) -> &'static str {
        match self {
            CallEvent::Invoked(_) => "invoked",
            CallEvent::Received { .. } => "received",
            CallEvent::Planned { .. } => "planned",
            CallEvent::Started { .. } => "started",
            CallEvent::Checkpointed { .. } => "checkpointed",
            CallEvent::Suspected { .. } => "suspected",
            CallEvent::Trusted { .. } => "trusted",
            CallEvent::AttemptEnded { .. } => "attempt_ended",
            CallEvent::MigrateRequested { .. } => "migrate_requested",
            CallEvent::CancelRequested => "cancel_requested",
            CallEvent::Acknowledged => "acknowledged",
            CallEvent::Expired => "expired",
        }
    }
}

impl End {
    pub fn name(&self) -> &'static str {
        match self {
            End::Finished { .. } => "finished",
            End::Crashed { .. } => "crashed",
            End::Raised { .. } => "raised",
            End::Killed { .. } => "killed",
            End::Preempted => "preempted",
            End::HostLost => "host_lost",
            End::NoSpace => "no_space",
            End::BadCheckpoint => "bad_checkpoint",
            End::TimeLimit => "time_limit",
            End::Cancelled => "cancelled",
            End::Refused { .. } => "refused",
        }
    }
}

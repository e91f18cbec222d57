//! What client, server and hosts say to each other, as values (spec/rpc, "Conversation"). Any of it may be lost, come twice,
//! late, or in another order. Not here: how it is written in bytes; bytes of blocks travel beside.

use crate::event::{End, Failure, Invocation};
use crate::id::{AttemptId, CallId, CheckpointId};

/// From a client. Each is answered, and may be said again until it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Asks for a number; `passing`: of one whose calls begin in memory.
    Register {
        passing: bool,
    },
    Invoke {
        call: CallId,
        /// All calls of the client below are over for it.
        first_open: u64,
        invocation: Invocation,
    },
    /// A block of arguments, which is on the server's disk when this is looked at.
    Block {
        call: CallId,
        number: u64,
    },
    /// How is it?
    Ask {
        call: CallId,
    },
    /// A block of the result.
    Fetch {
        call: CallId,
        number: u64,
    },
    /// The client has the whole result where it belongs, or knows of the failure.
    Acknowledge {
        call: CallId,
    },
    Cancel {
        call: CallId,
    },
    /// It is to go on elsewhere, if it is this attempt that computes.
    Migrate {
        call: CallId,
        epoch: u32,
        /// A host by the name that its batch system has for it.
        to: Option<String>,
    },
}

impl FromClient {
    pub fn call(&self) -> Option<CallId> {
        match self {
            FromClient::Register { .. } => None,
            FromClient::Invoke { call, .. }
            | FromClient::Block { call, .. }
            | FromClient::Ask { call }
            | FromClient::Fetch { call, .. }
            | FromClient::Acknowledge { call }
            | FromClient::Cancel { call }
            | FromClient::Migrate { call, .. } => Some(*call),
        }
    }
}

/// To a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    Registered {
        client: u64,
    },
    Status {
        call: CallId,
        status: Status,
    },
    /// This block of the result comes with it.
    Part {
        call: CallId,
        number: u64,
    },
    Refused {
        call: Option<CallId>,
        refusal: Refusal,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The server wants this block of arguments next.
    Wants {
        block: u64,
    },
    /// No host has it.
    Waiting,
    Computing {
        epoch: u32,
        started: bool,
        suspect: bool,
    },
    Result {
        blocks: u64,
        out_bytes: u64,
    },
    Failed(Failure),
    /// The outcome was acknowledged, or nobody came for it.
    Over {
        expired: bool,
    },
}

/// Why a message has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "client {client} was never given its number, or has left: register again, and invoke anew"
    )]
    NoClient { client: u64 },
    #[error("the client's number belongs to another subject")]
    Foreign,
    #[error("call {call} was never invoked here")]
    NoCall { call: CallId },
    #[error("call {call} was invoked before, with other words")]
    OtherWords { call: CallId },
    #[error("the client has {open} open calls, at most {most} are taken: wait for some")]
    TooManyCalls { open: usize, most: usize },
    #[error("the invocation cannot be: {what}")]
    BadInvocation { what: &'static str },
    #[error("the server cannot write its log now: try again")]
    LogUnwritable,
}

impl Refusal {
    /// The same message may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Refusal::TooManyCalls { .. } | Refusal::LogUnwritable)
    }
}

/// From a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromHost {
    /// It computes; said regularly, as a heartbeat. `recovery`: how it would be recovered, in words for the record.
    Beat {
        attempt: AttemptId,
        recovery: Option<String>,
    },
    /// The attempt's checkpoint of this number is whole and on the disk. Numbers go upwards; a report that is lost is made
    /// good by the next one.
    Checkpoint { attempt: AttemptId, number: u64 },
    /// Said until it is noted. A result is on the server's disk, under its epoch, when this is looked at.
    Ended { attempt: AttemptId, end: End },
}

impl FromHost {
    pub fn attempt(&self) -> AttemptId {
        match self {
            FromHost::Beat { attempt, .. }
            | FromHost::Checkpoint { attempt, .. }
            | FromHost::Ended { attempt, .. } => *attempt,
        }
    }
}

/// To a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToHost {
    Run {
        attempt: AttemptId,
        checkpoint: Option<CheckpointId>,
    },
    Cancel {
        attempt: AttemptId,
    },
    /// It is to end, for another goes on.
    Leave {
        attempt: AttemptId,
    },
    /// It is not, or no longer, the attempt that counts: end it, and forget what it made
    /// but for checkpoints that were noted.
    Fence {
        attempt: AttemptId,
    },
    /// What was said is recorded; with `ended`, that was its end, and it need not be said again.
    Noted {
        attempt: AttemptId,
        ended: bool,
    },
}

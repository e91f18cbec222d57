//! Names of calls and attempts (spec/rpc P1, P2).

use serde::{Deserialize, Serialize};
use std::fmt;

/// One call: its client's number, which the server gave, and the client's own count, from 1. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallId {
    pub client: u64,
    pub sequence: u64,
}

/// One try to compute a call. `epoch` counts from 1 and fences: what an older epoch says is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId {
    pub call: CallId,
    pub epoch: u32,
}

/// A checkpoint of a call: the attempt that made it, and its count within that attempt, from 1. So an attempt that is fenced
/// cannot put its own in the place of another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointId {
    pub epoch: u32,
    pub number: u64,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.client, self.sequence)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.call, self.epoch)
    }
}

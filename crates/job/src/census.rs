//! How full a batch system is, as it is told to the information service (spec/jobs/placement.md, PM1 to PM4). Values only:
//! who counts is `kumiko-batch`, who tells is the program around.

use serde::{Deserialize, Serialize};

/// Queues that are told of; sites have some ten, and one that has thousands tells the first of them.
pub const QUEUES_MOST: usize = 64;

/// A batch system at a moment. Slots are processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Census {
    pub slots: u64,
    /// Of those, how many could run something now.
    pub slots_free: u64,
    /// Of those, the most that one job can have, being on one host (of HTCondor: in one slot).
    pub slots_host: u64,
    /// Jobs of anybody, as far as the batch system shows them.
    pub waiting: u64,
    pub running: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilots: Option<PilotCensus>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<Queue>,
}

/// The site's own pilots before an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PilotCensus {
    /// That take attempts.
    pub ready: u64,
    /// Of those, with nothing to do.
    pub idle: u64,
}

/// One queue of an engine (partition of Slurm).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub name: String,
    /// It starts jobs.
    pub open: bool,
    pub slots: u64,
    pub slots_free: u64,
    pub waiting: u64,
    pub running: u64,
}

//! One pilot, as the pool knows it: its state, what it holds, until when it may be there. Pure. Not here: who is given what.

use crate::engine::seen::{Seen, Time};
use kumiko_job::id::AttemptId;
use std::collections::BTreeMap;

/// Within this a pilot whose connection broke, and nothing else, is there again.
const BACK_WITHIN_MS: u64 = 1_000;

/// A pilot's number: its place is `pilot-N`.
pub type Number = u64;
/// When a pilot says that it began: an engine may start it again in the same place.
pub type Began = u64;

/// What an attempt asks of a pilot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    pub cpus: u32,
    /// To its limit and the end of its grace; None: it has no limit.
    pub time_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The engine is being asked to take it.
    Asking,
    /// The engine has it; it was not heard of yet.
    Asked,
    Ready,
    /// It was told to take no more.
    Retired,
    /// Its connection broke.
    Away,
}

/// Until when a pilot may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    NotSaid,
    None,
    At { ms: u64, whole_ms: u64 },
}

impl End {
    pub(super) fn of(time: Option<Time>, asked_ms: u64) -> End {
        match time {
            None => End::None,
            Some(Time { left_ms, whole_ms }) => End::At {
                ms: asked_ms.saturating_add(left_ms),
                whole_ms,
            },
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pilot {
    pub(super) state: State,
    pub(super) held: BTreeMap<AttemptId, Need>,
    pub(super) end: End,
    /// By each name that the engine has for its host, once it said so.
    pub(super) hosts: Vec<String>,
    /// Its host, if that is drained.
    pub(super) leaves: Option<String>,
    /// Its engine takes the slot back.
    pub(super) recalled: bool,
    /// It took attempts when its connection broke, and has lost nothing but that, for all that is known.
    pub(super) is_missed: bool,
    /// When it was heard last.
    pub(super) heard_ms: u64,
    /// When it began, once it was heard.
    pub(super) began: Option<Began>,
    /// What the engine said of it last; `Some(None)`: it does not know it.
    pub(super) seen: Option<Option<Seen>>,
    /// When the engine took it, or its connection broke: what was asked before says nothing.
    pub(super) since_ms: u64,
    pub(super) idle_since_ms: u64,
}

impl Pilot {
    pub(super) fn new(state: State, now_ms: u64) -> Pilot {
        Pilot {
            state,
            held: BTreeMap::new(),
            end: End::NotSaid,
            hosts: Vec::new(),
            leaves: None,
            recalled: false,
            is_missed: false,
            heard_ms: now_ms,
            began: None,
            seen: None,
            since_ms: now_ms,
            idle_since_ms: now_ms,
        }
    }

    pub(super) fn free(&self, cpus: u32) -> u32 {
        cpus.saturating_sub(self.held.values().map(|need| need.cpus).sum())
    }

    pub(super) fn may_take(&self) -> bool {
        self.leaves.is_none() && !matches!(self.state, State::Retired | State::Away)
    }

    /// Whether what needs so long may begin now. How long it is for that has no limit, nobody knows: it is not given what is
    /// soon over.
    pub(super) fn has_time(&self, need: &Need, now_ms: u64) -> bool {
        match (self.end, need.time_ms) {
            (End::NotSaid, _) => false,
            (End::None, _) => true,
            (End::At { ms, .. }, Some(time_ms)) => now_ms.saturating_add(time_ms) <= ms,
            (End::At { .. }, None) => !self.is_old(now_ms),
        }
    }

    /// Less than half of its time is left.
    pub(super) fn is_old(&self, now_ms: u64) -> bool {
        matches!(self.end, End::At { ms, whole_ms } if ms.saturating_sub(now_ms) < whole_ms / 2)
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.state, State::Ready | State::Retired)
    }

    /// It may go on as before in a moment.
    pub(super) fn may_be_back(&self, now_ms: u64) -> bool {
        let is_over = matches!(self.seen, Some(None | Some(Seen::Over(_))));
        let is_recent = now_ms.saturating_sub(self.since_ms) < BACK_WITHIN_MS;
        self.state == State::Away && self.is_missed && is_recent && !is_over
    }

    /// It takes attempts.
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Ready && self.leaves.is_none()
    }

    pub(super) fn is_on(&self, host: &str) -> bool {
        self.hosts.iter().any(|one| one == host)
    }

    /// It will take attempts.
    pub(super) fn is_to_come(&self) -> bool {
        match self.state {
            State::Asking | State::Asked => true,
            State::Ready => self.end == End::NotSaid,
            State::Retired | State::Away => false,
        }
    }
}

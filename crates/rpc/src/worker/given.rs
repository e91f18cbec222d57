//! What a worker is given to do, and whom it tells what it sees of it. Not here: what it does.

use crate::callbacks::Asked;
use crate::registry::Routine;
use crate::store::Held;
use bytes::Bytes;
use kumiko_call::event::End;
use kumiko_call::id::{AttemptId, CheckpointId};
use kumiko_idl::Plan;
use kumiko_policy::Policy;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

/// What a call is computed by.
#[derive(Clone, Debug)]
pub struct Order {
    pub routine: Arc<Routine>,
    pub policy: Arc<Policy>,
    pub may_dump: bool,
}

/// What becomes of a call that is half-way when its process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The program makes checkpoints, from which it is resumed.
    Checkpoint,
    /// Its process may be dumped, and goes on from that.
    Dump,
    /// It begins anew from the kept arguments.
    Restart,
}

impl Order {
    /// By what is known before it runs: the host may have no CRIU, and its runner then says so.
    pub fn recovery(&self) -> Recovery {
        match self.routine.signature.checkpoint {
            true => Recovery::Checkpoint,
            false if self.may_dump && self.policy.dump() => Recovery::Dump,
            false => Recovery::Restart,
        }
    }
}

/// One call to compute.
#[derive(Debug)]
pub struct Run {
    pub attempt: AttemptId,
    /// Digest of the routine's program.
    pub program: String,
    pub plan: Plan,
    pub arguments: Held,
    /// With the checkpoint, or the dump, to begin at.
    pub recovery: Recovery,
    pub checkpoint: Option<CheckpointId>,
    /// It was told to go on elsewhere: by an older process of the site, or before its worker heard of it.
    pub leaving: bool,
    /// The host that it is wanted on.
    pub wanted_on: Option<String>,
    /// The result may stay in memory.
    pub in_memory: bool,
    /// The result is to outlive the machine.
    pub sync: bool,
    /// What its caller's functions said, by the question's number; None: its routine asks none.
    pub said: Option<UnboundedReceiver<(u64, Bytes)>>,
    /// True from when the call is not wanted any more.
    pub cancelled: watch::Receiver<bool>,
    pub follower: Box<dyn Follow>,
}

/// Who is told what is seen of a run, in order; nothing behind its end. Does not wait.
pub trait Follow: fmt::Debug + Send + Sync {
    fn see(&mut self, seen: Seen);
}

#[derive(Debug)]
pub enum Seen {
    /// It has computed for a while; and how it would be recovered, for the record.
    Started(String),
    /// Its host is suspect (true), or no longer.
    Doubt(bool),
    /// The routine asks its caller's functions.
    Asks(Asked),
    Over(Over),
}

/// Of a result also its length; of another end, the numbers of the newest checkpoints that were made, upwards.
#[derive(Debug)]
pub enum Done {
    Finished(Held, u64),
    Ended(End, Vec<u64>),
    /// Its host is given up; with the numbers of the newest checkpoints that are here.
    Lost(Vec<u64>),
}

/// Of a run, with the worker that may be given another one when that is on its way to the log: of two calls that are recorded as one
/// worker's, a site that begins anew would not know which it computes.
pub type Over = (Done, Option<u64>);

impl Run {
    pub(super) fn over(&mut self, done: Done, free: Option<u64>) {
        self.follower.see(Seen::Over((done, free)));
    }
}

impl Done {
    pub(super) fn ended(end: End) -> Done {
        Done::Ended(end, Vec::new())
    }
}

/// The worker that was picked has gone meanwhile.
pub fn unheard(mut run: Run) {
    let cause = "its process ended before it heard of the call".to_owned();
    run.over(Done::ended(End::Killed { cause }), None);
}

/// Never comes where nothing will be said any more.
pub(super) async fn next_said(said: &mut Option<UnboundedReceiver<(u64, Bytes)>>) -> (u64, Bytes) {
    let next = match said {
        Some(said) => said.recv().await,
        None => None,
    };
    match next {
        Some(next) => next,
        None => std::future::pending().await,
    }
}

/// Waits until the call is not wanted any more; false: that is never heard, for the site goes down.
pub(super) async fn is_cancelled(of: &mut watch::Receiver<bool>) -> bool {
    of.wait_for(|cancelled| *cancelled).await.is_ok()
}

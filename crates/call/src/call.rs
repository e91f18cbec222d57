//! States of one call and the one way from one to the next: `apply` (spec/rpc, "States").
//! Not here: who causes events (`respond`), what follows (`decide`), which calls there are (`ledger`).

use crate::event::{CallEvent, End, Failure, Invocation};
use crate::id::{AttemptId, CallId, CheckpointId};

/// A call as replay of its events makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub id: CallId,
    pub invocation: Invocation,
    pub cancelled: bool,
    /// Checkpoints that can be resumed from, oldest first: at most two, so that a bad one has one before it.
    pub checkpoints: Vec<CheckpointId>,
    /// How attempts crashed so far.
    pub crashes: Vec<Crash>,
    /// Attempts in a row that made no checkpoint and were not just moved away.
    pub fruitless: u32,
    /// Where the last attempt was lost; the next one goes elsewhere if it can.
    pub lost_host: Option<String>,
    /// Where the next attempt is wanted.
    pub wanted_on: Option<String>,
    pub stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    pub cause: String,
    pub point: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Arguments arrive; so many blocks are on the disk.
    Transferring {
        blocks: u64,
    },
    /// All arguments are here; no attempt is planned. `last_epoch` is 0 before the first.
    Waiting {
        last_epoch: u32,
    },
    Computing(Attempt),
    /// The outcome waits for the client.
    Kept(Outcome),
    /// Nothing is kept but that it was.
    Done {
        expired: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub epoch: u32,
    pub host: String,
    /// None: from the beginning.
    pub checkpoint: Option<CheckpointId>,
    /// Number of the last one that it made itself.
    pub made: u64,
    pub started: bool,
    pub suspect: bool,
    /// It is to end, and the next to go on.
    pub leaving: bool,
    /// Where in its batch system it is wanted.
    pub wanted_on: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The result lies under this epoch.
    Result {
        epoch: u32,
        out_bytes: u64,
    },
    Failed(Failure),
}

/// Checkpoints that are kept: the newest, and one before it for when that cannot be read.
const GENERATIONS: usize = 2;

impl Stage {
    pub fn name(&self) -> &'static str {
        match self {
            Stage::Transferring { .. } => "transferring",
            Stage::Waiting { .. } => "waiting",
            Stage::Computing(_) => "computing",
            Stage::Kept(_) => "kept",
            Stage::Done { .. } => "done",
        }
    }
}

impl Call {
    /// The attempt that may live, and be believed.
    pub fn attempt(&self) -> Option<&Attempt> {
        match &self.stage {
            Stage::Computing(attempt) => Some(attempt),
            _ => None,
        }
    }

    pub fn attempt_id(&self, epoch: u32) -> AttemptId {
        AttemptId {
            call: self.id,
            epoch,
        }
    }

    /// Blocks of the result, when there is one.
    pub fn result_blocks(&self) -> Option<u64> {
        match &self.stage {
            Stage::Kept(Outcome::Result { out_bytes, .. }) => {
                Some(out_bytes.div_ceil(self.invocation.block_bytes.max(1)))
            }
            _ => None,
        }
    }

    /// All arguments were received, were there none to receive.
    fn received(blocks: u64, invocation: &Invocation) -> Stage {
        match blocks == invocation.blocks() {
            true => Stage::Waiting { last_epoch: 0 },
            false => Stage::Transferring { blocks },
        }
    }
}

/// The state after the event; `call` is None before the first. Pure, and total over what may legally follow.
///
/// # Errors
/// Why the event cannot follow.
pub fn apply(id: CallId, call: Option<&Call>, event: &CallEvent) -> Result<Call, &'static str> {
    let Some(call) = call else {
        return match event {
            CallEvent::Invoked(invocation) if invocation.block_bytes > 0 => Ok(Call {
                id,
                stage: Call::received(0, invocation),
                invocation: invocation.clone(),
                cancelled: false,
                checkpoints: Vec::new(),
                crashes: Vec::new(),
                fruitless: 0,
                lost_host: None,
                wanted_on: None,
            }),
            CallEvent::Invoked(_) => Err("blocks have at least one byte"),
            _ => Err("a call begins with invoked"),
        };
    };
    let mut next = call.clone();
    match (&mut next.stage, event) {
        (Stage::Transferring { blocks }, CallEvent::Received { blocks: now }) => {
            if *now <= *blocks || *now > call.invocation.blocks() {
                return Err("blocks count upwards to the last");
            }
            next.stage = Call::received(*now, &call.invocation);
        }
        (Stage::Transferring { .. } | Stage::Waiting { .. }, CallEvent::CancelRequested) => {
            next.cancelled = true;
            next.stage = Stage::Kept(Outcome::Failed(Failure::Cancelled));
        }
        (Stage::Transferring { .. } | Stage::Kept(_), CallEvent::Expired) => {
            next.stage = Stage::Done { expired: true };
        }
        (
            Stage::Waiting { last_epoch },
            CallEvent::Planned {
                epoch,
                host,
                checkpoint,
            },
        ) => {
            if *epoch != *last_epoch + 1 {
                return Err("epochs count without gaps");
            }
            if checkpoint.as_ref() != call.checkpoints.last() {
                return Err("an attempt begins at the newest checkpoint that can be read");
            }
            next.stage = Stage::Computing(Attempt {
                epoch: *epoch,
                host: host.clone(),
                checkpoint: *checkpoint,
                made: 0,
                started: false,
                suspect: false,
                leaving: false,
                wanted_on: next.wanted_on.take(),
            });
        }
        (Stage::Computing(attempt), event) => match event {
            CallEvent::CancelRequested if !call.cancelled => next.cancelled = true,
            CallEvent::Started { epoch, .. } => {
                living(attempt, *epoch)?;
                if std::mem::replace(&mut attempt.started, true) {
                    return Err("an attempt starts once");
                }
            }
            CallEvent::Suspected { epoch } => {
                living(attempt, *epoch)?;
                if std::mem::replace(&mut attempt.suspect, true) {
                    return Err("it is suspect already");
                }
            }
            CallEvent::Trusted { epoch } => {
                living(attempt, *epoch)?;
                if !std::mem::replace(&mut attempt.suspect, false) {
                    return Err("it is not suspect");
                }
            }
            CallEvent::MigrateRequested { epoch, to } => {
                living(attempt, *epoch)?;
                next.wanted_on.clone_from(to);
                if std::mem::replace(&mut attempt.leaving, true) || call.cancelled {
                    return Err("an attempt leaves once, of a call that is wanted");
                }
            }
            CallEvent::Checkpointed { checkpoint } => {
                living(attempt, checkpoint.epoch)?;
                if !attempt.started || checkpoint.number <= attempt.made {
                    return Err("checkpoints are a started attempt's and go upwards");
                }
                attempt.made = checkpoint.number;
                next.checkpoints.push(*checkpoint);
                if next.checkpoints.len() > GENERATIONS {
                    next.checkpoints.remove(0);
                }
                next.fruitless = 0;
            }
            CallEvent::AttemptEnded {
                epoch,
                end,
                failure,
            } => {
                living(attempt, *epoch)?;
                let attempt = attempt.clone();
                ended(&mut next, &attempt, end, failure.as_ref())?;
            }
            _ => return Err("a computing call has an attempt to hear of"),
        },
        (Stage::Kept(_), CallEvent::Acknowledged) => next.stage = Stage::Done { expired: false },
        _ => return Err("not in this stage"),
    }
    if matches!(next.stage, Stage::Done { .. }) {
        next.checkpoints.clear();
        next.crashes.clear();
        next.wanted_on = None;
    }
    Ok(next)
}

fn living(attempt: &Attempt, epoch: u32) -> Result<(), &'static str> {
    match attempt.epoch == epoch {
        true => Ok(()),
        false => Err("the living attempt has another epoch"),
    }
}

fn ended(
    call: &mut Call,
    attempt: &Attempt,
    end: &End,
    failure: Option<&Failure>,
) -> Result<(), &'static str> {
    call.lost_host = None;
    match end {
        End::Finished { .. } if failure.is_some() => {
            return Err("a result is no failure");
        }
        End::Finished { out_bytes } => {
            call.stage = Stage::Kept(Outcome::Result {
                epoch: attempt.epoch,
                out_bytes: *out_bytes,
            });
            return Ok(());
        }
        End::Preempted => {}
        End::Crashed { cause, point } => {
            call.fruitless += 1;
            call.crashes.push(Crash {
                cause: cause.clone(),
                point: *point,
            });
        }
        End::HostLost => {
            call.fruitless += 1;
            call.lost_host = Some(attempt.host.clone());
        }
        End::BadCheckpoint => {
            call.fruitless += 1;
            call.checkpoints
                .retain(|one| Some(*one) != attempt.checkpoint);
        }
        End::Raised { .. }
        | End::Killed { .. }
        | End::NoSpace
        | End::TimeLimit
        | End::Cancelled
        | End::Refused { .. } => call.fruitless += 1,
    }
    call.stage = match failure {
        Some(failure) => Stage::Kept(Outcome::Failed(failure.clone())),
        None => Stage::Waiting {
            last_epoch: attempt.epoch,
        },
    };
    Ok(())
}

//! What a call's state asks to be done (spec/rpc, "Actions"). Every action is idempotent, so that doing the list again after
//! a crash is recovery, and there is no other recovery path. Not here: how an action is done.

use crate::call::{Call, Stage};
use crate::id::{AttemptId, CallId, CheckpointId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Find a host, other than `avoid` if there is one, and record `Planned`.
    Place {
        call: CallId,
        epoch: u32,
        checkpoint: Option<CheckpointId>,
        avoid: Option<String>,
    },
    /// Let the host run this attempt, once; and listen to it.
    Run {
        attempt: AttemptId,
        host: String,
        checkpoint: Option<CheckpointId>,
    },
    /// Tell the attempt to end.
    Cancel { attempt: AttemptId, host: String },
    /// Tell the attempt to end, so that the next goes on elsewhere; whatever else it had ended by, it ends as preempted.
    Leave { attempt: AttemptId, host: String },
    /// Nobody may come: after so long without a word of the client's, record `Expired`.
    Expire { call: CallId, after_ms: u64 },
    /// Arguments, checkpoints and result may go.
    Erase { call: CallId },
}

/// All that `call` asks for now.
pub fn decide(call: &Call) -> Vec<Action> {
    let expire = || Action::Expire {
        call: call.id,
        after_ms: call.invocation.keep_ms,
    };
    match &call.stage {
        Stage::Transferring { .. } | Stage::Kept(_) => vec![expire()],
        Stage::Waiting { last_epoch } => vec![Action::Place {
            call: call.id,
            epoch: last_epoch + 1,
            checkpoint: call.checkpoints.last().copied(),
            avoid: call.lost_host.clone(),
        }],
        Stage::Computing(attempt) => {
            let id = call.attempt_id(attempt.epoch);
            let host = attempt.host.clone();
            let cancel = call.cancelled.then(|| Action::Cancel {
                attempt: id,
                host: host.clone(),
            });
            let leave = attempt.leaving.then(|| Action::Leave {
                attempt: id,
                host: host.clone(),
            });
            let run = Action::Run {
                attempt: id,
                host: host.clone(),
                checkpoint: attempt.checkpoint,
            };
            [Some(run), leave, cancel].into_iter().flatten().collect()
        }
        Stage::Done { .. } => vec![Action::Erase { call: call.id }],
    }
}

/// What `after` asks for and `before` did not: the actions of the event between them.
pub fn new_actions(before: Option<&Call>, after: &Call) -> Vec<Action> {
    let done = before.map(decide).unwrap_or_default();
    let mut actions = decide(after);
    actions.retain(|action| !done.contains(action));
    actions
}

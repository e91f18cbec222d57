//! Checkpoints and dumps of the call that a worker computes: given to its process before, taken from it after (spec/rpc P80 to P88). What is looked
//! at is `crate::checkpoints` and `crate::dumps`.

use super::{Done, PROGRAM, Recovery, Run, Worker};
use crate::checkpoints::{Checkpoints, Left, Unreadable};
use crate::dumps::{Dumps, answered};
use kumiko_call::event::End;
use kumiko_call::id::{AttemptId as CallAttempt, CallId, CheckpointId};
use kumiko_job::attempt::Outcome;
use kumiko_job::contract::BatchSystem;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How the site comes by what an attempt left of checkpoints.
type Bring = fn(&Checkpoints, CallId, &Path, u64, &str) -> io::Result<Left>;
/// And of dumps: the numbers of the newest.
type BringDumps = fn(&Dumps, CallAttempt, &Path, u64, &str) -> io::Result<Vec<u64>>;

impl<B: BatchSystem> Worker<B> {
    /// A dump was given before the process began.
    pub(super) async fn give_checkpoint(&self, run: &Run) -> Result<(), Unreadable> {
        let Some(CheckpointId { number, .. }) = run.checkpoint.filter(|_| !self.goes_on(run))
        else {
            return Ok(());
        };
        let (store, job) = (Arc::clone(&self.shop.store), self.job());
        let (call, program) = (run.attempt.call, run.program.clone());
        let given = move || store.checkpoints.give(call, number, &job, &program);
        let given = tokio::task::spawn_blocking(given).await;
        given.unwrap_or_else(|error| Err(io::Error::other(error).into()))
    }

    /// Of a process that is told to end next. One that makes none, or has begun with none yet, ends at once.
    pub(super) async fn ask_for_checkpoint(&self, run: &Run) {
        if run.recovery != Recovery::Checkpoint {
            return;
        }
        let (store, job) = (Arc::clone(&self.shop.store), self.job());
        let call = self.told(run).call;
        let asked = move || store.checkpoints.ask(call, &job);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(asked).await {
            tracing::debug!(attempt = %run.attempt, %error, "no checkpoint is asked for");
        }
    }

    /// An end without a result: what there is of checkpoints, or dumps, goes to the site.
    pub(super) async fn unfinished(&self, run: &Run, end: End) -> Done {
        let left = match run.recovery {
            Recovery::Dump if self.may_live() => self.dumped(run, Dumps::copy).await,
            Recovery::Dump => self.dumped(run, Dumps::take).await,
            _ => self.left(run, Checkpoints::take).await,
        };
        match end {
            End::Crashed { cause, .. } if run.recovery == Recovery::Checkpoint => {
                let point = left.points;
                Done::Ended(End::Crashed { cause, point }, left.made)
            }
            end => Done::Ended(end, left.made),
        }
    }

    /// Checkpoints, or dumps, of a process that may live still, and goes on in its folder if it does.
    pub(super) async fn kept(&self, run: &Run) -> Vec<u64> {
        let left = match run.recovery {
            Recovery::Dump => self.dumped(run, Dumps::copy).await,
            _ => self.left(run, Checkpoints::keep).await,
        };
        left.made
    }

    /// Of which an engine says that it has ended, it may have lost the host alone.
    fn may_live(&self) -> bool {
        let lost = |outcome: &Outcome| self.end_of(outcome) == End::HostLost;
        self.ended.as_ref().is_none_or(lost)
    }

    async fn dumped(&self, run: &Run, bring: BringDumps) -> Left {
        let (store, told, folder) = (Arc::clone(&self.shop.store), self.told(run), self.folder());
        let given = run.checkpoint.map_or(0, |checkpoint| checkpoint.number);
        let taken = move || {
            let program = std::fs::read_to_string(folder.join(PROGRAM))?;
            bring(&store.dumps, told, &folder, given, &program)
        };
        let taken = tokio::task::spawn_blocking(taken).await;
        let made = taken
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .unwrap_or_else(|error| {
                tracing::warn!(attempt = %run.attempt, %error, "dumps cannot be kept");
                Vec::new()
            });
        Left { made, points: 0 }
    }

    async fn left(&self, run: &Run, bring: Bring) -> Left {
        if run.recovery != Recovery::Checkpoint {
            return Left::default();
        }
        let (store, job) = (Arc::clone(&self.shop.store), self.job());
        let call = run.attempt.call;
        let given = run.checkpoint.map_or(0, |checkpoint| checkpoint.number);
        // One that was found again may be of a program that was registered before.
        let program = self.folder().join(PROGRAM);
        let brought = move || {
            let program = std::fs::read_to_string(program)?;
            bring(&store.checkpoints, call, &job, given, &program)
        };
        let brought = tokio::task::spawn_blocking(brought).await;
        brought
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .unwrap_or_else(|error| {
                tracing::warn!(attempt = %run.attempt, %error, "checkpoints cannot be kept");
                Left::default()
            })
    }

    pub(super) async fn drop_dumps(&self) {
        let folder = self.folder();
        let dropped = tokio::task::spawn_blocking(move || answered(&folder)).await;
        match dropped {
            Ok(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(worker = self.number, %error, "dumps of a call that is computed are not removed");
            }
            _ => {}
        }
    }

    pub(super) async fn drop_checkpoints(&self, attempt: CallAttempt) {
        let (store, job) = (Arc::clone(&self.shop.store), self.job());
        let dropped = move || store.checkpoints.drop_of(attempt.call, &job);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(dropped).await {
            tracing::warn!(%attempt, %error, "checkpoints of a call that is computed are not removed");
        }
    }
}

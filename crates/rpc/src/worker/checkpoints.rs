//! Checkpoints of the call that a worker computes: given to its process before, taken from it after (spec/rpc P80 to P83). What is looked
//! at is `crate::checkpoints`.

use super::{Done, PROGRAM, Run, Worker};
use crate::checkpoints::{Left, Unreadable};
use kumiko_call::event::End;
use kumiko_call::id::{AttemptId as CallAttempt, CheckpointId};
use kumiko_job::contract::BatchSystem;
use std::io;
use std::sync::Arc;

impl<B: BatchSystem> Worker<B> {
    pub(super) async fn give_checkpoint(&self, run: &Run) -> Result<(), Unreadable> {
        let Some(CheckpointId { number, .. }) = run.checkpoint else {
            return Ok(());
        };
        let (store, job) = (Arc::clone(&self.shop.store), self.job());
        let (call, program) = (run.attempt.call, run.program.clone());
        let given = move || store.checkpoints.give(call, number, &job, &program);
        let given = tokio::task::spawn_blocking(given).await;
        given.unwrap_or_else(|error| Err(io::Error::other(error).into()))
    }

    /// An end without a result: what there is of checkpoints goes to the site.
    pub(super) async fn unfinished(&self, run: &Run, end: End) -> Done {
        if !run.checkpoints {
            return Done::ended(end);
        }
        let (store, job) = (Arc::clone(&self.shop.store), self.job());
        let call = run.attempt.call;
        let given = run.checkpoint.map_or(0, |checkpoint| checkpoint.number);
        // One that was found again may be of a program that was registered before.
        let program = self.folder().join(PROGRAM);
        let taken = move || {
            let program = std::fs::read_to_string(program)?;
            store.checkpoints.take(call, &job, given, &program)
        };
        let taken = tokio::task::spawn_blocking(taken).await;
        let left = match taken.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(left) => left,
            Err(error) => {
                tracing::warn!(attempt = %run.attempt, %error, "checkpoints cannot be kept");
                Left::default()
            }
        };
        match end {
            End::Crashed { cause, .. } => {
                let point = left.points;
                Done::Ended(End::Crashed { cause, point }, left.made)
            }
            end => Done::Ended(end, left.made),
        }
    }

    /// Checkpoints of a process that may live still, and goes on in its folder if it does.
    pub(super) async fn copied(&self, run: &Run) -> Vec<u64> {
        if !run.checkpoints {
            return Vec::new();
        }
        let (store, job) = (Arc::clone(&self.shop.store), self.job());
        let call = run.attempt.call;
        let given = run.checkpoint.map_or(0, |checkpoint| checkpoint.number);
        let program = self.folder().join(PROGRAM);
        let copied = move || {
            let program = std::fs::read_to_string(program)?;
            store.checkpoints.copy(call, &job, given, &program)
        };
        let copied = tokio::task::spawn_blocking(copied).await;
        match copied.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(left) => left.made,
            Err(error) => {
                tracing::warn!(attempt = %run.attempt, %error, "checkpoints cannot be copied");
                Vec::new()
            }
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

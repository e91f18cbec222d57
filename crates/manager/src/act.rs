//! Doing what the log says is to be done. Every action is a task of its own that may be done again after a crash.
//! Not here: what is to be done (`kumiko_job::decide`).

use crate::cell::{Cell, Face};
use crate::files::Files;
use crate::keeper::{Act, Ask};
use crate::setup::{Effective, Limits};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome};
use kumiko_job::contract::{BatchError, BatchSystem, Refusal};
use kumiko_job::decide::Action;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::state::Job;
use kumiko_policy::Policy;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tokio::runtime::Handle;

pub struct Actor<B> {
    pub batch: B,
    pub files: Files,
    pub effective: Effective,
    pub limits: Limits,
    pub runtime: Handle,
    pub asks: Sender<Ask>,
}

impl<B: BatchSystem> Act for Actor<B> {
    fn batch_name(&self) -> &'static str {
        self.batch.name()
    }

    fn spool(&self, attempt: AttemptId) -> PathBuf {
        self.batch.spool(attempt)
    }

    fn act(self: Arc<Self>, action: Action, cell: &Arc<Cell>, planned: Planned) {
        let cell = Arc::clone(cell);
        let runtime = self.runtime.clone();
        match action {
            Action::Run(attempt) => match planned {
                Planned::Now(policy) => drop(runtime.spawn(self.start(attempt, cell, policy))),
                Planned::Before => drop(runtime.spawn(self.adopt(attempt, cell))),
            },
            Action::Cancel { attempt, grace_ms } => {
                drop(runtime.spawn(self.command(
                    attempt,
                    cell,
                    AttemptCommand::Cancel { grace_ms },
                )));
            }
            Action::Settle(attempt) => drop(runtime.spawn(self.settle(attempt))),
            Action::Erase { job, last_epoch } => {
                drop(runtime.spawn(self.erase(job, last_epoch, cell)))
            }
        }
    }
}

/// When an attempt that is to live was planned.
pub enum Planned {
    /// By this process, just now: it is to be started. The policy is there if it was computed already.
    Now(Option<Policy>),
    /// By a process that died: it may live, or have lived.
    Before,
}

impl<B: BatchSystem> Actor<B> {
    async fn start(self: Arc<Self>, attempt: AttemptId, cell: Arc<Cell>, policy: Option<Policy>) {
        let job = cell.job();
        let outcome = match self.spec(attempt, &job, policy) {
            Ok(spec) => self
                .batch
                .start(spec)
                .await
                .map_err(|error| never_started(&error)),
            Err(refusal) => Err(refusal),
        };
        match outcome {
            Ok(()) => cell.update(attempt, |face| face.ready = true),
            Err(Refusal { code, message }) => {
                let report = AttemptReport::Ended(Outcome::NeverStarted { code, message });
                // The keeper is gone only when the site goes down; the next one will find that nothing began.
                let _ = self.asks.send(Ask::Report { attempt, report });
            }
        }
    }

    async fn adopt(self: Arc<Self>, attempt: AttemptId, cell: Arc<Cell>) {
        self.batch.adopt(attempt).await;
        cell.update(attempt, |face| face.ready = true);
    }

    fn spec(
        &self,
        attempt: AttemptId,
        job: &Job,
        policy: Option<Policy>,
    ) -> Result<AttemptSpec, Refusal> {
        let description = &job.description;
        let policy = match policy {
            Some(policy) => policy,
            None => (self.effective)(&job.caller, description)?,
        };
        let job_directory = self
            .files
            .prepare(attempt.job, description)
            .map_err(|error| {
                let path = self.files.job(attempt.job);
                Refusal::new(
                    "job_directory",
                    format!(
                        "the job's own directory in {} could not be made: {error}",
                        path.display()
                    ),
                )
            })?;
        let asked_ms = description
            .time_limit_s
            .map(|limit| limit.saturating_mul(1000));
        Ok(AttemptSpec {
            id: attempt,
            executable: description.executable.clone(),
            arguments: description.arguments.clone(),
            environment: description.environment.clone(),
            directory: description.directory.clone(),
            job_directory,
            stdin: description.stdin.clone(),
            output: description.output,
            terminal: description.terminal,
            count: description.count,
            time_limit_ms: asked_ms.into_iter().chain(self.limits.time_limit_ms).min(),
            grace_ms: description.grace_ms.unwrap_or(self.limits.grace_ms),
            output_quota_bytes: self.limits.output_quota_bytes,
            policy,
            mechanism: description.mechanism.clone(),
        })
    }

    /// Waits until the batch system knows the attempt, then tells it. Nothing to tell to one that is over.
    pub async fn command(
        self: Arc<Self>,
        attempt: AttemptId,
        cell: Arc<Cell>,
        command: AttemptCommand,
    ) {
        let over = |face: &Face| face.job.attempt() != Some(attempt) || face.closing;
        let mut face = cell.watch();
        let known = match face.wait_for(|face| face.ready || over(face)).await {
            Ok(face) => !over(&face),
            Err(_) => false,
        };
        if known {
            self.batch.command(attempt, command).await;
        }
    }

    async fn settle(self: Arc<Self>, attempt: AttemptId) {
        self.batch.command(attempt, AttemptCommand::Settled).await;
    }

    async fn erase(self: Arc<Self>, job: JobId, last_epoch: u32, cell: Arc<Cell>) {
        for epoch in 1..=last_epoch {
            self.batch.forget(AttemptId { job, epoch }).await;
        }
        let actor = Arc::clone(&self);
        let erased = tokio::task::spawn_blocking(move || {
            actor
                .files
                .erase(job, cell.job().description.input.as_deref())
        })
        .await;
        match erased {
            Ok(Ok(())) => drop(self.asks.send(Ask::Erased { job })),
            Ok(Err(error)) => {
                let path = self.files.job(job);
                tracing::warn!(path = %path.display(), %error, "a removed job's directory stays until the next start");
            }
            // Only when the runtime goes down: the next start erases.
            Err(_) => {}
        }
    }
}

fn never_started(error: &BatchError) -> Refusal {
    match error {
        BatchError::NoRunner { .. } => Refusal::new("no_runner", error.to_string()),
        BatchError::Spool { .. } => Refusal::new("no_spool", error.to_string()),
    }
}

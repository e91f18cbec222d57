//! Doing what the log says is to be done. Every action is a task of its own that may be done again after a crash.
//! Not here: what is to be done (`kumiko_job::decide`).

use crate::attended;
use crate::cell::{Cell, Face};
use crate::credentials::{Credentials, PROXY, now_ms};
use crate::files::Files;
use crate::keeper::{Act, Ask};
use crate::setup::{self, Closed, Effective};
use kumiko_checkpoint::LEAVE;
use kumiko_job::admission::Capacity;
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Dumped, Dumps, Outcome};
use kumiko_job::contract::{BatchError, BatchSystem, Refusal};
use kumiko_job::decide::Action;
use kumiko_job::description::Stdin;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::limits::{self, Given};
use kumiko_job::respond::CREDENTIAL_WARNING_MS;
use kumiko_job::staging::{EXECUTABLE, STDIN, in_job_directory};
use kumiko_job::state::Job;
use kumiko_job::transfer::Transfer;
use kumiko_job::url::looks_like_url;
use kumiko_linux::Dir;
use kumiko_policy::{JOB_DIRECTORY, Limited, Limits, Policy, amended};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;

/// In its own directory, where a job that may run again leaves checkpoints, if its program links the library.
const CHECKPOINT: &str = ".checkpoint";

/// A wall clock that was set meanwhile, or a machine that slept, is noticed within this time.
const CLOCK_TRUSTED: Duration = Duration::from_secs(300);

pub struct Actor<B> {
    pub batch: B,
    pub files: Files,
    pub credentials: Arc<Credentials>,
    pub effective: Effective,
    pub closed: Closed,
    pub capacity: Capacity,
    pub limits: setup::Limits,
    pub transfer: Option<Arc<dyn Transfer>>,
    pub runtime: Handle,
    pub asks: Sender<Ask>,
    /// Held while a job that runs is told what it is to follow.
    pub following: Mutex<()>,
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
                Planned::Now(policy) => {
                    let policy = policy.map(|policy| *policy);
                    drop(runtime.spawn(self.start(attempt, cell, policy)));
                }
                Planned::Before => drop(runtime.spawn(self.adopt(attempt, cell))),
            },
            Action::Cancel { attempt, grace_ms } => {
                drop(runtime.spawn(self.command(
                    attempt,
                    cell,
                    AttemptCommand::Cancel { grace_ms },
                )));
            }
            Action::Requeue(attempt) => drop(runtime.spawn(self.requeue(attempt, cell))),
            Action::Release(attempt) => {
                drop(runtime.spawn(self.command(attempt, cell, AttemptCommand::Release)));
            }
            Action::Limit { attempt, .. } => {
                let limits = cell.job().limits.hold.clone();
                drop(runtime.spawn(self.command(attempt, cell, AttemptCommand::Limits(limits))));
            }
            Action::Place { job, .. } => match planned {
                // `renew` does it, for who renews is to hear whether it is done.
                Planned::Now(_) => {}
                Planned::Before => drop(runtime.spawn_blocking(move || {
                    if let Err(error) = self.credentials.place(&cell) {
                        tracing::warn!(%job, %error, "a job cannot be given its renewed credential");
                    }
                })),
            },
            Action::Attend { job, after_s } => {
                let after = Duration::from_secs(after_s);
                let ask = Ask::Unattended { job, after_s };
                let sleep = move || tokio::time::sleep(after);
                let asks = self.asks.clone();
                drop(runtime.spawn(attended::count_down(asks, ask, after_s, cell, sleep)));
            }
            Action::StageIn { .. } => drop(runtime.spawn(self.stage_in(cell))),
            Action::Stream { stream, given, .. } => self.send_streams(&cell, stream, given),
            Action::StageOut { .. } => drop(runtime.spawn(self.stage_out(cell))),
            Action::Unstage { job } => {
                if let Some(transfer) = self.transfer.clone() {
                    drop(runtime.spawn(async move { transfer.forget(job).await }));
                }
            }
            Action::Remind { number, .. } => drop(runtime.spawn(self.remind(cell, number))),
            Action::Discard { .. } => drop(runtime.spawn_blocking(move || self.discard(&cell))),
            Action::Settle(attempt) => drop(runtime.spawn(self.settle(attempt, cell))),
            Action::Erase { job, last_epoch } => {
                drop(runtime.spawn(self.erase(job, last_epoch, cell)))
            }
        }
    }
}

/// When an attempt that is to live was planned.
pub enum Planned {
    /// By this process, just now: it is to be started. The policy is there if it was computed already.
    Now(Option<Box<Policy>>),
    /// By a process that died: it may live, or have lived.
    Before,
}

impl<B: BatchSystem> Actor<B> {
    async fn start(self: Arc<Self>, attempt: AttemptId, cell: Arc<Cell>, policy: Option<Policy>) {
        let job = cell.job();
        // A job that staged in has had it made.
        if job.description.scratch.is_some() {
            if let Err(refusal) = self.prepare(&cell).await {
                return self.not_started(attempt, refusal);
            }
        }
        let outcome = match self.spec(attempt, &cell, &job, policy) {
            Ok(spec) => self
                .batch
                .start(spec)
                .await
                .map_err(|error| never_started(&error)),
            Err(refusal) => Err(refusal),
        };
        match outcome {
            Ok(()) => cell.update(attempt, |face| face.ready = true),
            Err(refusal) => self.not_started(attempt, refusal),
        }
    }

    fn not_started(&self, attempt: AttemptId, Refusal { code, message }: Refusal) {
        let report = AttemptReport::Ended(Outcome::NeverStarted { code, message });
        // The keeper is gone only when the site goes down; the next one will find that nothing began.
        let _ = self.asks.send(Ask::Report { attempt, report });
    }

    async fn adopt(self: Arc<Self>, attempt: AttemptId, cell: Arc<Cell>) {
        self.batch.adopt(attempt).await;
        cell.update(attempt, |face| face.ready = true);
    }

    fn spec(
        &self,
        attempt: AttemptId,
        cell: &Cell,
        job: &Job,
        policy: Option<Policy>,
    ) -> Result<AttemptSpec, Refusal> {
        let description = &job.description;
        let mut policy = match policy {
            Some(policy) => policy,
            None => (self.effective)(&job.caller, description)?,
        };
        if job.limits.number > 0 {
            let given = Given {
                at_first: Limits::default(),
                now: policy.limits.clone(),
                above: self.above(&job.caller, description)?,
            };
            for of in Limited::ALL {
                policy.limits.set(of, limits::allowed(job, &given, of));
            }
        }
        if let Some(asked) = &job.narrowed {
            policy = amended(&policy, asked);
        }
        let job_directory = self.job_directory(job)?;
        let mut environment = description.environment.clone();
        if let Some(scratch) = description.scratch.as_deref().and_then(in_job_directory) {
            environment
                .entry("SCRATCH_DIRECTORY".to_owned())
                .or_insert_with(|| format!("{JOB_DIRECTORY}/{scratch}"));
        }
        if job.credential.is_some() {
            self.credentials
                .place(cell)
                .map_err(|error| not_placed(attempt.job, &error))?;
            environment
                .entry("X509_USER_PROXY".to_owned())
                .or_insert_with(|| format!("{JOB_DIRECTORY}/{PROXY}"));
        }
        if may_checkpoint(job) {
            environment
                .entry("KUMIKO_CHECKPOINT".to_owned())
                .or_insert_with(|| format!("{JOB_DIRECTORY}/{CHECKPOINT}"));
        }
        let dumped = may_checkpoint(job) && policy.dump();
        if may_checkpoint(job) && !dumped {
            // It begins at its start, if another policy had it dumped before.
            if let Err(error) = self.files.remove_dumps(job.id) {
                tracing::warn!(job = %job.id, %error, "dumps that are of no use any more stay");
            }
        }
        let dumps = dumped.then(|| Dumps {
            folder: self.files.dumps_of(job.id),
            path: std::env::var("PATH").unwrap_or_default(),
            guest: Dumped::Job,
        });
        let asked_ms = description
            .time_limit_s
            .map(|limit| limit.saturating_mul(1000));
        Ok(AttemptSpec {
            id: attempt,
            executable: if looks_like_url(&description.executable) {
                format!("{JOB_DIRECTORY}/{EXECUTABLE}")
            } else {
                description.executable.clone()
            },
            arguments: description.arguments.clone(),
            environment,
            directory: description.directory.clone(),
            job_directory,
            stdin: match &description.stdin {
                Stdin::Url(_) => Stdin::File(STDIN.to_owned()),
                stdin => stdin.clone(),
            },
            output: description.output,
            terminal: description.terminal,
            count: description.count,
            mpi: description.mpi,
            resources: description.resources.clone(),
            time_limit_ms: asked_ms.into_iter().chain(self.limits.time_limit_ms).min(),
            grace_ms: description.grace_ms.unwrap_or(self.limits.grace_ms),
            output_quota_bytes: self.limits.output_quota_bytes,
            policy,
            mechanism: description.mechanism.clone(),
            hold_ms: job
                .hold_s()
                .filter(|_| !job.hold.released)
                .map(|hold_s| hold_s.saturating_mul(1000)),
            alone_ms: None,
            beat_ms: None,
            dumps,
            wanted_on: job.wanted_on(attempt.epoch).map(str::to_owned),
        })
    }

    /// Makes the job's own directory, if it is not there.
    pub fn job_directory(&self, job: &Job) -> Result<PathBuf, Refusal> {
        self.files
            .prepare(job.id, &job.description)
            .map_err(|error| {
                let path = self.files.job(job.id);
                let message = format!(
                    "the job's own directory in {} could not be made: {error}",
                    path.display()
                );
                Refusal::new("job_directory", message)
            })
    }

    /// Waits until the credential of event `number` is about to end. tokio's clock runs without leaps and the
    /// certificate's end is told by the wall's: so it is looked at again in between.
    async fn remind(self: Arc<Self>, cell: Arc<Cell>, number: u64) {
        let mut face = cell.watch();
        let over = |face: &Face| {
            let current = face.job.credential.as_ref();
            face.closing
                || !face.job.is_live()
                || current.is_none_or(|credential| credential.number != number)
        };
        let job = cell.job();
        let Some(credential) = &job.credential else {
            return;
        };
        let warn_at_ms = credential
            .not_after_ms
            .saturating_sub(CREDENTIAL_WARNING_MS);
        loop {
            let left = Duration::from_millis(warn_at_ms.saturating_sub(now_ms()));
            if left.is_zero() {
                let ask = Ask::CredentialEnding {
                    job: job.id,
                    number,
                };
                // The keeper is gone only when the site goes down: the next one reminds.
                let _ = self.asks.send(ask);
                return;
            }
            let ended = face.wait_for(over);
            if tokio::time::timeout(left.min(CLOCK_TRUSTED), ended)
                .await
                .is_ok()
            {
                return;
            }
        }
    }

    /// Nothing of an ended job's credential is kept; `Place` may come later and does nothing then. Blocks.
    pub fn discard(&self, cell: &Cell) {
        let job = cell.job();
        let Some(credential) = &job.credential else {
            return;
        };
        if let Err(error) = self.credentials.discard(job.id, Some(&credential.name)) {
            let path = self.files.job(job.id);
            tracing::warn!(path = %path.display(), %error, "an ended job's credential stays until the next start");
        }
    }

    /// Waits until the batch system knows the attempt, then tells it. Nothing to tell to one that is over.
    pub async fn command(
        self: Arc<Self>,
        attempt: AttemptId,
        cell: Arc<Cell>,
        command: AttemptCommand,
    ) {
        if self.is_known(attempt, &cell).await {
            self.batch.command(attempt, command).await;
        }
    }

    /// A program that links the library of checkpoints makes one first (spec/checkpoint, K38), what is dumped is dumped.
    async fn requeue(self: Arc<Self>, attempt: AttemptId, cell: Arc<Cell>) {
        let own = cell.job().description.grace_ms;
        let grace_ms = own.unwrap_or(self.limits.grace_ms);
        let directory = self.files.job(attempt.job);
        let ask = move || {
            let folder = Dir::open(&directory)?.open_dir(CHECKPOINT)?;
            folder.create_file(LEAVE.to_string_lossy().as_ref(), 0o600)
        };
        // Where there is no such folder the program makes none; where it is asked already, it is.
        let _ = tokio::task::spawn_blocking(ask).await;
        self.command(attempt, cell, AttemptCommand::Vacate { grace_ms })
            .await;
    }

    /// Waits until the batch system knows the attempt; false: it is over.
    pub async fn is_known(&self, attempt: AttemptId, cell: &Cell) -> bool {
        let over = |face: &Face| face.job.attempt() != Some(attempt) || face.closing;
        let mut face = cell.watch();
        match face.wait_for(|face| face.ready || over(face)).await {
            Ok(face) => !over(&face),
            Err(_) => false,
        }
    }

    async fn settle(self: Arc<Self>, attempt: AttemptId, cell: Arc<Cell>) {
        self.batch.command(attempt, AttemptCommand::Settled).await;
        if may_checkpoint(&cell.job()) && cell.job().program_is_over() {
            let removed = tokio::task::spawn_blocking(move || self.files.remove_dumps(attempt.job));
            if let Ok(Err(error)) = removed.await {
                tracing::warn!(job = %attempt.job, %error, "dumps of an ended job stay until it is removed");
            }
        }
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
        if let Some(transfer) = &self.transfer {
            transfer.forget(job).await;
        }
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

/// Of several instances each would take the others' checkpoints for its own.
fn may_checkpoint(job: &Job) -> bool {
    job.description.rerun && job.description.count == 1
}

pub fn not_placed(job: JobId, error: &std::io::Error) -> Refusal {
    Refusal::new(
        "credential_not_placed",
        format!(
            "the credential could not be put as {PROXY} into the directory of job {job}: {error}; the job may have made that \
             impossible"
        ),
    )
}

fn never_started(error: &BatchError) -> Refusal {
    match error {
        BatchError::NoRunner { .. } => Refusal::new("no_runner", error.to_string()),
        BatchError::Spool { .. } => Refusal::new("no_spool", error.to_string()),
        BatchError::Refused { .. } => Refusal::new("engine_refused", error.to_string()),
    }
}

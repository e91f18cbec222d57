//! The contract `Jobs`, as the door sees it: each call checks who asks, and hands on.

use crate::Manager;
use crate::act::not_placed;
use crate::cell::{Cell, Face};
use crate::credentials::{Unsynced, not_kept};
use crate::keeper::{Ask, Reply, Submission, damaged, no_migration, no_such_job};
use crate::output::Output;
use crate::staging::unavailable;
use crate::watch::Watch;
use bytes::Bytes;
use kumiko_job::attempt::{AttemptCommand, OutputStream, STDIN_WINDOW_BYTES};
use kumiko_job::contract::{
    BatchSystem, Caller, Delegated, EventStream, JobView, Jobs, OutputReader, Refusal, StdinTaken,
};
use kumiko_job::description::{Destination, JobDescription, OutputMode};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::rerun;
use kumiko_job::staging::asks_for_files;
use kumiko_job::state::{Job, Stage};
use kumiko_job::validate::{MAX_GRACE_MS, MAX_NAME_BYTES};
use kumiko_job::validate_staging::destinations;
use kumiko_policy::Limited;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;

/// `Flow` output is freed in such steps: few enough to cost nothing, and whole blocks of every file system, so that no
/// byte of a block that is still to be read is zeroed (fallocate(2), FALLOC_FL_PUNCH_HOLE).
const FLOW_STEP_BYTES: u64 = 512 * 1024;

/// What is left to reserve, as operators read it.
const LEFT: [(Limited, &str, &str); 5] = [
    (
        Limited::Cpu,
        "left_cpu_percent",
        "Left to reserve: percent of one processor.",
    ),
    (
        Limited::Memory,
        "left_memory_mib",
        "Left to reserve: memory, MiB.",
    ),
    (
        Limited::Network,
        "left_network_kbyte_s",
        "Left to reserve: network, KByte/s.",
    ),
    (
        Limited::Disk,
        "left_disk_kbyte_s",
        "Left to reserve: disk, KByte/s.",
    ),
    (
        Limited::Processes,
        "left_processes",
        "Left to reserve: processes.",
    ),
];

impl<B: BatchSystem> Manager<B> {
    pub(crate) async fn ask<T>(&self, ask: impl FnOnce(Reply<T>) -> Ask) -> Result<T, Refusal> {
        let closing = || {
            Refusal::new(
                "site_closing",
                "the site is going down: ask again when it is back",
            )
        };
        let (reply, answer) = oneshot::channel();
        self.asks.send(ask(reply)).map_err(|_| closing())?;
        answer.await.map_err(|_| closing())?
    }

    fn unsynced(&self, credential: &str) -> Result<Option<Unsynced>, Refusal> {
        let unsynced = self.actor.credentials.unsynced(credential);
        unsynced.map_err(|error| not_kept(&error))
    }

    /// What a job runs as can go on there: what is no pilot's would begin where its engine likes.
    fn may_begin_on(&self, job: &Job, host: &str) -> Result<(), Refusal> {
        rerun::migrate(job, Some(host)).map_err(|why| no_migration(job.id, why))?;
        let batch = &self.actor.batch;
        let piloted = job.attempt().is_some_and(|id| batch.is_piloted(id));
        let why = match piloted {
            true => rerun::no_pilot("jobs", host, &batch.hosts()),
            false => Some(format!(
                "job {} cannot be wanted on {host:?}: no pilot of this site has it",
                job.id
            )),
        };
        match why {
            None => Ok(()),
            Some(message) => Err(Refusal::new("job_no_host", message)),
        }
    }

    /// The caller's job. That there is one of somebody else's is not told.
    async fn find(&self, caller: &Caller, id: JobId) -> Result<Arc<Cell>, Refusal> {
        let found = match self.cells.get(id) {
            Some(cell) => Some(cell),
            None => self.ask(|reply| Ask::Load { job: id, reply }).await?,
        };
        let cell = found.ok_or_else(|| no_such_job(id))?;
        let job = cell.job();
        if job.caller.subject != caller.subject || matches!(job.stage, Stage::Removed { .. }) {
            return Err(no_such_job(id));
        }
        Ok(cell)
    }

    /// Frees what the reader of a flowing output has, in whole steps, and never what it cannot have.
    async fn consumed(
        &self,
        attempt: AttemptId,
        cell: Arc<Cell>,
        stream: OutputStream,
        offset: u64,
    ) {
        let length = cell.look().length(stream);
        let offset = offset.min(length) / FLOW_STEP_BYTES * FLOW_STEP_BYTES;
        let flows = cell.job().description.output == OutputMode::Flow;
        if flows && cell.free(stream, offset) {
            let command = AttemptCommand::Consumed { stream, offset };
            Arc::clone(&self.actor)
                .command(attempt, cell, command)
                .await;
        }
    }

    /// The attempt whose guest has begun, which is waited for: what is told to a runner that never begins is lost, and
    /// another one follows it. None: there is no guest any more.
    async fn begun(&self, cell: &Cell) -> Option<AttemptId> {
        let mut face = cell.watch();
        let begun = |face: &Face| matches!(face.job.stage, Stage::Running(..));
        let over = |face: &Face| face.job.program_is_over() || face.closing;
        let face = face.wait_for(|face| begun(face) || over(face)).await.ok()?;
        face.job.attempt().filter(|_| begun(&face))
    }

    /// Hands stdin to the runner piece by piece, each when there is room: what the guest does not read waits here, with
    /// the client behind it. A closed stdin takes all, and forgets it.
    async fn stdin(&self, attempt: AttemptId, cell: &Arc<Cell>, mut offset: u64, mut data: Bytes) {
        while !data.is_empty() {
            let gone = |face: &Face| {
                face.job.attempt() != Some(attempt) || face.closing || face.stdin_closed
            };
            let room = |face: &Face| (face.stdin_taken + STDIN_WINDOW_BYTES).saturating_sub(offset);
            let mut face = cell.watch();
            let most = match face.wait_for(|face| gone(face) || room(face) > 0).await {
                Ok(face) if !gone(&face) => usize::try_from(room(&face)).unwrap_or(usize::MAX),
                _ => return,
            };
            let piece = data.split_to(most.min(data.len()));
            let length = piece.len() as u64;
            let command = AttemptCommand::Stdin {
                offset,
                data: piece,
            };
            Arc::clone(&self.actor)
                .command(attempt, Arc::clone(cell), command)
                .await;
            offset += length;
        }
    }
}

fn view(cell: &Cell) -> JobView {
    let face = cell.look();
    face.job.view(face.stdout_bytes, face.stderr_bytes)
}

fn check_key(key: &str) -> Result<(), Refusal> {
    if key.is_empty() || key.len() > MAX_NAME_BYTES || key.chars().any(char::is_control) {
        return Err(Refusal::new(
            "bad_key",
            format!(
                "the key of a submission has 1 to {MAX_NAME_BYTES} bytes and no control characters"
            ),
        ));
    }
    Ok(())
}

impl<B: BatchSystem> Jobs for Manager<B> {
    fn gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        let stats = self.stats();
        let mut gauges = vec![
            ("jobs_live", "Jobs that have not ended.", stats.live as u64),
            ("jobs_kept", "Jobs that are not removed.", stats.kept as u64),
            (
                "jobs_queued",
                "Jobs that wait until what they reserve is left.",
                stats.queued as u64,
            ),
            (
                "spare_runners",
                "Runners that wait for an attempt.",
                self.actor.batch.spares(),
            ),
        ];
        // What is not bounded here is no number.
        let left = LEFT.into_iter().filter_map(|(of, name, help)| {
            let left = stats.left.get(of).filter(|left| *left <= of.most())?;
            Some((name, help, left))
        });
        gauges.extend(left);
        gauges
    }

    async fn submit(
        &self,
        caller: &Caller,
        description: JobDescription,
        key: Option<String>,
    ) -> Result<JobId, Refusal> {
        if self.is_draining() {
            return Err(Refusal::new(
                "site_draining",
                "the site takes no new jobs: submit elsewhere, or later",
            ));
        }
        if let Some(refusal) = (self.actor.closed)() {
            return Err(refusal);
        }
        description.validate()?;
        key.as_deref().map_or(Ok(()), check_key)?;
        self.actor.batch.admits(&description)?;
        self.actor.capacity.admits(&description)?;
        if asks_for_files(&description) && self.actor.transfer.is_none() {
            return Err(unavailable());
        }
        let policy = (self.actor.effective)(caller, &description)?;
        let unsynced = match &description.credential {
            Some(name) => self.unsynced(name)?,
            None => None,
        };
        let owner = caller.clone();
        let description = Arc::new(description);
        let recorded = self.ask(|reply| {
            Ask::Submit(Box::new(Submission {
                caller: owner,
                key,
                description,
                policy,
                reply,
            }))
        });
        // Both are waits for the disk, which writes for both at once.
        let (recorded, synced) = tokio::join!(recorded, synced(unsynced));
        let job = recorded?;
        if let Err(refusal) = synced {
            // Told that it is not taken, its owner must not find it running.
            self.cancel(caller, job, None).await?;
            return Err(refusal);
        }
        Ok(job)
    }

    async fn list(&self, caller: &Caller) -> Result<Vec<JobView>, Refusal> {
        // Living ones first: one that ends in between is then in both, and the log's word counts.
        let mut views: BTreeMap<JobId, JobView> = self
            .cells
            .all()
            .iter()
            .filter(|cell| {
                let face = cell.look();
                face.job.caller.subject == caller.subject && face.job.is_live()
            })
            .map(|cell| view(cell))
            .map(|view| (view.id, view))
            .collect();
        let reader = Arc::clone(&self.reader);
        let subject = caller.subject.clone();
        let ended = tokio::task::spawn_blocking(move || reader.ended(&subject))
            .await
            .map_err(|error| Refusal::new("bug", error.to_string()))?
            .map_err(|error| damaged(&error))?;
        views.extend(ended.into_iter().map(|view| (view.id, view)));
        Ok(views.into_values().collect())
    }

    async fn show(&self, caller: &Caller, job: JobId) -> Result<JobView, Refusal> {
        Ok(view(&*self.find(caller, job).await?))
    }

    async fn explain(&self, caller: &Caller, job: JobId) -> Result<Vec<String>, Refusal> {
        self.find(caller, job).await?;
        let reader = Arc::clone(&self.reader);
        let read = tokio::task::spawn_blocking(move || reader.job(job))
            .await
            .map_err(|error| Refusal::new("bug", error.to_string()))?
            .map_err(|error| damaged(&error))?;
        let (job, records) = read.ok_or_else(|| no_such_job(job))?;
        let mut lines = kumiko_job::explain::job(&job, &records);
        let waits = match &job.stage {
            Stage::Planned(attempt) => self.actor.batch.waits(job.attempt_id(attempt.epoch)),
            Stage::Waiting { .. } => self.ask(|reply| Ask::Waits { job: job.id, reply }).await?,
            _ => None,
        };
        lines.extend(waits.map(|words| format!("Now {words}.")));
        Ok(lines)
    }

    async fn watch(
        &self,
        caller: &Caller,
        job: JobId,
        after: u64,
    ) -> Result<impl EventStream + 'static, Refusal> {
        let cell = self.find(caller, job).await?;
        Ok(Watch::new(cell, Arc::clone(&self.reader), after))
    }

    async fn cancel(
        &self,
        caller: &Caller,
        job: JobId,
        grace_ms: Option<u64>,
    ) -> Result<(), Refusal> {
        let cell = self.find(caller, job).await?;
        let own = cell.job().description.grace_ms;
        let grace_ms = grace_ms
            .or(own)
            .unwrap_or(self.actor.limits.grace_ms)
            .min(MAX_GRACE_MS);
        self.ask(|reply| Ask::Cancel {
            job,
            grace_ms,
            reply,
        })
        .await
    }

    async fn migrate(
        &self,
        caller: &Caller,
        job: JobId,
        to: Option<String>,
    ) -> Result<(), Refusal> {
        let cell = self.find(caller, job).await?;
        if let Some(host) = &to {
            self.may_begin_on(&cell.job(), host)?;
        }
        self.ask(|reply| Ask::Migrate { job, to, reply }).await
    }

    async fn narrow(
        &self,
        caller: &Caller,
        job: JobId,
        policy: &str,
    ) -> Result<Vec<String>, Refusal> {
        let cell = self.find(caller, job).await?;
        self.narrowed(caller, cell, policy).await
    }

    async fn command(
        &self,
        caller: &Caller,
        job: JobId,
        command: AttemptCommand,
    ) -> Result<(), Refusal> {
        let cell = self.find(caller, job).await?;
        if let AttemptCommand::Limits(limits) = command {
            self.within(caller, &cell.job().description, &limits)?;
            return self
                .ask(|reply| Ask::SetLimits { job, limits, reply })
                .await;
        }
        if command == AttemptCommand::Release {
            return self.ask(|reply| Ask::Release { job, reply }).await;
        }
        let attempt = match command {
            AttemptCommand::Stdin { .. } | AttemptCommand::StdinEnd { .. } => {
                self.begun(&cell).await
            }
            _ => cell.job().attempt(),
        };
        let Some(attempt) = attempt else {
            return Ok(());
        };
        match command {
            AttemptCommand::Settled
            | AttemptCommand::Cancel { .. }
            | AttemptCommand::Vacate { .. } => Err(Refusal::new(
                "not_a_command",
                "that is the manager's own to say: use cancel",
            )),
            AttemptCommand::Stdin { offset, data } => {
                self.stdin(attempt, &cell, offset, data).await;
                Ok(())
            }
            AttemptCommand::Consumed { stream, offset } => {
                self.consumed(attempt, cell, stream, offset).await;
                Ok(())
            }
            AttemptCommand::Signal { .. }
            | AttemptCommand::Release
            | AttemptCommand::Limits(_)
            | AttemptCommand::StdinEnd { .. }
            | AttemptCommand::Window(_) => {
                Arc::clone(&self.actor)
                    .command(attempt, cell, command)
                    .await;
                Ok(())
            }
        }
    }

    async fn attend(&self, caller: &Caller, job: JobId) -> Result<impl Send + 'static, Refusal> {
        Ok(self.find(caller, job).await?.attend())
    }

    async fn stdin_taken(
        &self,
        caller: &Caller,
        job: JobId,
        above: Option<u64>,
    ) -> Result<StdinTaken, Refusal> {
        let cell = self.find(caller, job).await?;
        let told = |face: &Face| StdinTaken {
            offset: face.stdin_taken,
            closed: face.stdin_closed || face.job.program_is_over(),
        };
        let news = |face: &Face| {
            let StdinTaken { offset, closed } = told(face);
            closed || face.closing || (face.ready && above.is_none_or(|above| offset > above))
        };
        let mut face = cell.watch();
        let taken = face.wait_for(news).await.map(|face| told(&face));
        taken.map_err(|_| no_such_job(job))
    }

    async fn remove(&self, caller: &Caller, job: JobId) -> Result<(), Refusal> {
        self.find(caller, job).await?;
        self.ask(|reply| Ask::Remove { job, reply }).await
    }

    async fn redirect(
        &self,
        caller: &Caller,
        job: JobId,
        stdout: Option<Vec<Destination>>,
        stderr: Option<Vec<Destination>>,
    ) -> Result<(), Refusal> {
        self.find(caller, job).await?;
        for (field, list) in [("stdout", &stdout), ("stderr", &stderr)] {
            destinations(field, list.as_deref().unwrap_or_default())?;
        }
        if self.actor.transfer.is_none() {
            return Err(unavailable());
        }
        self.ask(|reply| Ask::Redirect {
            job,
            stdout,
            stderr,
            reply,
        })
        .await
    }

    async fn output(
        &self,
        caller: &Caller,
        job: JobId,
        stream: OutputStream,
        offset: u64,
    ) -> Result<impl OutputReader + 'static, Refusal> {
        let cell = self.find(caller, job).await?;
        let mut output = Output::new(Arc::clone(&self.actor), cell, stream, offset);
        output.check()?;
        Ok(output)
    }

    async fn directory(&self, caller: &Caller, job: JobId) -> Result<PathBuf, Refusal> {
        let cell = self.find(caller, job).await?;
        let (ended, had) = (!cell.job().is_live(), cell.job().credential.is_some());
        if ended && had {
            // Who was told of the end may be faster than what is done because of it.
            let actor = Arc::clone(&self.actor);
            blocking(move || actor.discard(&cell)).await?;
        }
        Ok(self.actor.files.job(job))
    }

    async fn new_upload(&self, caller: &Caller) -> Result<(String, PathBuf), Refusal> {
        for name in self.uploads.expire(self.actor.limits.upload_keep) {
            let actor = Arc::clone(&self.actor);
            tokio::task::spawn_blocking(move || match actor.files.remove_upload(&name) {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(upload = %name, %error, "a stale upload stays until the next start")
                }
            });
        }
        let most = self.actor.limits.uploads_per_caller;
        let uploads = &self.actor.files.uploads;
        let there = |name: &str| uploads.join(name).exists();
        let name = self.uploads.add(&caller.subject, most, there).ok_or_else(|| {
            Refusal::new(
                "too_many_uploads",
                format!("you have {most} uploads that no job has taken, the most this site allows: submit jobs with them, or wait"),
            )
        })?;
        let path = self.actor.files.uploads.join(&name);
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok((name, path)),
            Err(error) => {
                self.uploads.forget(&name);
                Err(Refusal::new(
                    "upload_failed",
                    format!(
                        "the folder {} for an upload could not be made: {error}",
                        path.display()
                    ),
                ))
            }
        }
    }

    async fn new_credential(
        &self,
        caller: &Caller,
        credential: Delegated,
    ) -> Result<String, Refusal> {
        let (actor, caller) = (Arc::clone(&self.actor), caller.clone());
        blocking(move || {
            actor.credentials.sweep(actor.limits.upload_keep);
            let most = actor.limits.credentials_per_caller;
            actor.credentials.keep(&caller.subject, &credential, most)
        })
        .await?
    }

    async fn renew(
        &self,
        caller: &Caller,
        job: JobId,
        credential: Delegated,
    ) -> Result<(), Refusal> {
        let cell = self.find(caller, job).await?;
        let not_after_ms = credential.not_after_ms;
        let name = self.new_credential(caller, credential).await?;
        synced(self.unsynced(&name)?).await?;
        let _one = self.renewing.lock().await;
        let credentials = Arc::clone(&self.actor.credentials);
        credentials.claim(&name, &caller.subject)?;
        let given = name.clone();
        let recorded = self
            .ask(|reply| Ask::Renew {
                job,
                name: given,
                not_after_ms,
                reply,
            })
            .await;
        blocking(move || match recorded {
            Ok(()) => {
                credentials.forget(&name);
                credentials
                    .place(&cell)
                    .map_err(|error| not_placed(job, &error))
            }
            Err(refusal) => {
                credentials.drop_file(&name);
                Err(refusal)
            }
        })
        .await?
    }
}

/// On the disk when it returns.
async fn synced(credential: Option<Unsynced>) -> Result<(), Refusal> {
    match credential {
        Some(unsynced) => blocking(move || unsynced.sync())
            .await?
            .map_err(|error| not_kept(&error)),
        None => Ok(()),
    }
}

/// Work on files.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Refusal::new("bug", error.to_string()))
}

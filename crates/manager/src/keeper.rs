//! The one thread that records: it takes what is asked, makes events of it (kumiko-job), commits as many as there are in one
//! transaction, and only then tells anybody and has anything done (spec/jobs, "What is durable when").
//! Not here: SQL (`log`), doing (`act`).

use crate::act::Planned;
use crate::cell::{Cell, Cells};
use crate::files::Uploads;
use crate::log::{Log, ReadError};
use crate::setup::{AfterCommit, Limits};
use kumiko_job::attempt::{AttemptReport, OutputStream};
use kumiko_job::contract::{Caller, Refusal};
use kumiko_job::decide::{Action, new_actions};
use kumiko_job::description::JobDescription;
use kumiko_job::event::{Event, Record};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::respond::{self, Here, OutputBytes};
use kumiko_job::state::{Job, Stage, apply};
use kumiko_policy::Policy;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{oneshot, watch};

/// Most asks in one transaction: bounds how long the first one waits for the last.
const GROUP: usize = 512;
/// A report that could not be recorded (disk full) is tried again after this; nobody hears of it before.
const RETRY: Duration = Duration::from_millis(500);
/// The WAL is moved into the database after so many events, once nothing is asked for `IDLE` ...
const CHECKPOINT_EVENTS: usize = 500;
const IDLE: Duration = Duration::from_millis(50);
/// ... and after so many in any case: at about 4 kB each, the WAL stays below 32 MB.
const CHECKPOINT_EVENTS_BUSY: usize = 8_000;
/// Expired jobs in one sweep's transaction.
const SWEEP: usize = 256;

pub type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

pub enum Ask {
    Submit(Box<Submission>),
    Report {
        attempt: AttemptId,
        report: AttemptReport,
    },
    Cancel {
        job: JobId,
        grace_ms: u64,
        reply: Reply<()>,
    },
    Remove {
        job: JobId,
        reply: Reply<()>,
    },
    /// Brings an ended job back into memory.
    Load {
        job: JobId,
        reply: Reply<Option<Arc<Cell>>>,
    },
    /// Spools and directory of a removed job are gone.
    Erased {
        job: JobId,
    },
    /// Look for jobs whose time to be kept is over.
    Sweep,
    Close {
        reply: oneshot::Sender<()>,
    },
}

pub struct Submission {
    pub caller: Caller,
    pub key: Option<String>,
    pub description: Arc<JobDescription>,
    pub policy: Policy,
    pub reply: Reply<JobId>,
}

/// How the keeper has things done; must not block.
pub trait Act: Send + Sync {
    fn batch_name(&self) -> &'static str;
    fn spool(&self, attempt: AttemptId) -> PathBuf;
    fn act(self: Arc<Self>, action: Action, cell: &Arc<Cell>, planned: Planned);
}

/// How many jobs there are. Published after each commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub live: usize,
    pub kept: usize,
    pub events_recorded: u64,
    pub commits: u64,
    /// Reports that wait for a log that cannot be written (full disk).
    pub unrecorded_reports: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    live: usize,
    kept: usize,
}

pub struct Keeper {
    pub log: Log,
    pub cells: Arc<Cells>,
    pub uploads: Arc<Uploads>,
    pub actor: Arc<dyn Act>,
    pub limits: Limits,
    pub after_commit: Option<AfterCommit>,
    pub last_job: u64,
    /// See `respond::Here`.
    boot: String,
    /// Running time of the site before this process, and since when it counts.
    pub run_ms: u64,
    pub since: Instant,
    pub stats: watch::Sender<Stats>,
    counts: HashMap<String, Count>,
    ended_in_memory: usize,
    since_checkpoint: usize,
    /// Reports and erasures that could not be recorded yet, in order.
    backlog: Vec<Ask>,
}

/// One event of the open transaction.
struct Step {
    record: Record,
    before: Option<Arc<Job>>,
    after: Arc<Job>,
}

/// The open transaction.
#[derive(Default)]
struct Draft {
    steps: Vec<Step>,
    newest: HashMap<JobId, Arc<Job>>,
    policies: HashMap<JobId, Policy>,
    claimed: Vec<String>,
    erased: Vec<JobId>,
    answers: Vec<Answer>,
    /// What must not be lost, should the commit fail.
    keep: Vec<Ask>,
    close: Vec<oneshot::Sender<()>>,
    sweep_again: bool,
}

enum Answer {
    Submit(Reply<JobId>, Result<JobId, Refusal>),
    Done(Reply<()>, Result<(), Refusal>),
}

impl Keeper {
    #[allow(clippy::too_many_arguments)] // each is a part of its own; made in one place
    pub fn new(
        log: Log,
        cells: Arc<Cells>,
        uploads: Arc<Uploads>,
        actor: Arc<dyn Act>,
        limits: Limits,
        after_commit: Option<AfterCommit>,
        loaded: (u64, u64, HashMap<String, usize>),
        boot: String,
        stats: watch::Sender<Stats>,
    ) -> Keeper {
        let (last_job, run_ms, kept) = loaded;
        let mut counts: HashMap<String, Count> = kept
            .into_iter()
            .map(|(subject, kept)| (subject, Count { live: 0, kept }))
            .collect();
        for cell in cells.all() {
            let job = cell.job();
            if job.is_live() {
                counts.entry(job.caller.subject.clone()).or_default().live += 1;
            }
        }
        Keeper {
            log,
            cells,
            uploads,
            actor,
            limits,
            after_commit,
            last_job,
            boot,
            run_ms,
            since: Instant::now(),
            stats,
            counts,
            ended_in_memory: 0,
            since_checkpoint: 0,
            backlog: Vec::new(),
        }
    }

    /// Recovery and then work, until `Close` or until nobody can ask any more.
    pub fn run(mut self, asks: &Receiver<Ask>) {
        self.publish_stats(0);
        for cell in self.cells.all() {
            let job = cell.job();
            for action in kumiko_job::decide::decide(&job) {
                Arc::clone(&self.actor).act(action, &cell, Planned::Before);
            }
        }
        while let Some(group) = self.next_group(asks) {
            let closing = self.record(group);
            if !closing.is_empty() {
                self.close();
                for reply in closing {
                    // Whoever asked may have gone.
                    let _ = reply.send(());
                }
                return;
            }
        }
        self.close();
    }

    fn next_group(&mut self, asks: &Receiver<Ask>) -> Option<Vec<Ask>> {
        let mut group = std::mem::take(&mut self.backlog);
        let wait = if !group.is_empty() {
            Some(RETRY)
        } else if self.since_checkpoint >= CHECKPOINT_EVENTS {
            Some(IDLE)
        } else {
            None
        };
        let first = match wait {
            None => asks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(wait) => asks.recv_timeout(wait),
        };
        match first {
            Ok(ask) => group.push(ask),
            Err(RecvTimeoutError::Timeout) => {
                if group.is_empty() {
                    self.checkpoint();
                }
            }
            Err(RecvTimeoutError::Disconnected) => return None,
        }
        group.extend(asks.try_iter().take(GROUP));
        Some(group)
    }

    fn checkpoint(&mut self) {
        self.since_checkpoint = 0;
        if let Err(error) = self.log.checkpoint() {
            tracing::warn!(%error, "the event log's WAL could not be moved into the database; it is tried again later");
        }
    }

    fn here(&self) -> Here<'_> {
        Here {
            batch: self.actor.batch_name(),
            boot: &self.boot,
        }
    }

    fn running_ms(&self) -> u64 {
        self.run_ms + u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records a group; returns who waits for the close.
    fn record(&mut self, group: Vec<Ask>) -> Vec<oneshot::Sender<()>> {
        let promise = group.iter().any(|ask| {
            matches!(
                ask,
                Ask::Submit(_) | Ask::Cancel { .. } | Ask::Remove { .. } | Ask::Sweep
            )
        });
        let mut draft = Draft::default();
        let mut failure = self.log.begin(promise).err();
        for ask in group {
            match failure {
                None => failure = self.draft(&mut draft, ask).err(),
                Some(_) => give_back(&mut draft, ask),
            }
        }
        if failure.is_none() {
            failure = self.log.commit().err();
        }
        let closing = std::mem::take(&mut draft.close);
        match failure {
            None => self.publish(draft),
            Some(error) => self.take_back(draft, &error),
        }
        closing
    }

    /// Adds what follows from `ask` to the open transaction.
    fn draft(&mut self, draft: &mut Draft, ask: Ask) -> rusqlite::Result<()> {
        match ask {
            Ask::Submit(submission) => self.submit(draft, *submission),
            Ask::Report { attempt, report } => {
                let failed = self.report(draft, attempt, &report);
                draft.keep.push(Ask::Report { attempt, report });
                failed
            }
            Ask::Cancel {
                job,
                grace_ms,
                reply,
            } => {
                let (done, failed) =
                    self.change(draft, job, |job| Ok(respond::cancel(job, grace_ms)));
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::Remove { job, reply } => {
                let (done, failed) = self.change(draft, job, |job| {
                    respond::remove(job, false).map_err(|error| {
                        Refusal::new(
                            "job_live",
                            format!("job {} cannot be removed: {error}; cancel it first, or wait for it", job.id),
                        )
                    })
                });
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::Load { job, reply } => {
                self.load(job, reply);
                Ok(())
            }
            Ask::Erased { job } => {
                draft.keep.push(Ask::Erased { job });
                draft.erased.push(job);
                self.log.erase_job(job)
            }
            Ask::Sweep => self.sweep(draft),
            Ask::Close { reply } => {
                draft.close.push(reply);
                Ok(())
            }
        }
    }

    fn submit(&mut self, draft: &mut Draft, submission: Submission) -> rusqlite::Result<()> {
        let Submission {
            caller,
            key,
            description,
            policy,
            reply,
        } = submission;
        let before = match key
            .as_deref()
            .map(|key| self.log.job_of_key(&caller.subject, key))
            .transpose()
        {
            Ok(before) => before.flatten(),
            Err(error) => {
                draft
                    .answers
                    .push(Answer::Submit(reply, Err(unwritable(&error))));
                return Err(error);
            }
        };
        if let Some(id) = before {
            let answer = match self.current(draft, id) {
                Ok(Some(job)) if same_request(&job.description, &description) => Ok(id),
                Ok(_) => Err(Refusal::new(
                    "key_reused",
                    format!(
                        "the key of this submission is that of job {id}, which has another description: use a new key"
                    ),
                )),
                Err(error) => Err(damaged(&error)),
            };
            draft.answers.push(Answer::Submit(reply, answer));
            return Ok(());
        }
        if let Err(refusal) = self.admit(draft, &caller, &description) {
            draft.answers.push(Answer::Submit(reply, Err(refusal)));
            return Ok(());
        }
        let id = JobId(self.last_job + 1);
        let events = respond::submit(&caller, key, description, self.here());
        let written = self.write(draft, id, None, events.into());
        if let Ok(Ok(())) = written {
            self.last_job = id.0;
            draft.policies.insert(id, policy);
        }
        let (answer, failed) = split(written, id);
        draft.answers.push(Answer::Submit(reply, answer));
        failed
    }

    fn admit(
        &self,
        draft: &mut Draft,
        caller: &Caller,
        description: &JobDescription,
    ) -> Result<(), Refusal> {
        let fresh = |of: Option<&str>| {
            draft
                .newest
                .values()
                .filter(|job| {
                    job.last_event <= 2 && of.is_none_or(|subject| job.caller.subject == subject)
                })
                .count()
        };
        let count = self
            .counts
            .get(&caller.subject)
            .copied()
            .unwrap_or_default();
        let mine = fresh(Some(&caller.subject));
        let all: usize = self.stats.borrow().live + fresh(None);
        if all >= self.limits.live_jobs {
            let most = self.limits.live_jobs;
            return Err(Refusal::new(
                "site_full",
                format!(
                    "the site has {most} jobs that have not ended and takes no more: try later"
                ),
            ));
        }
        if count.live + mine >= self.limits.live_jobs_per_caller {
            let most = self.limits.live_jobs_per_caller;
            return Err(Refusal::new(
                "too_many_live_jobs",
                format!(
                    "you have {most} jobs that have not ended, the most this site allows: wait for some, or cancel them"
                ),
            ));
        }
        if count.kept + mine >= self.limits.kept_jobs_per_caller {
            let most = self.limits.kept_jobs_per_caller;
            return Err(Refusal::new(
                "too_many_kept_jobs",
                format!(
                    "the site keeps {most} jobs of yours, the most it allows: remove ended ones"
                ),
            ));
        }
        if let Some(input) = &description.input {
            self.uploads.claim(input, &caller.subject)?;
            draft.claimed.push(input.clone());
        }
        Ok(())
    }

    fn report(
        &mut self,
        draft: &mut Draft,
        attempt: AttemptId,
        report: &AttemptReport,
    ) -> rusqlite::Result<()> {
        let job = match self.current(draft, attempt.job) {
            Ok(Some(job)) => job,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::error!(%attempt, %error, "a report is dropped: its job cannot be read");
                return Ok(());
            }
        };
        let mut output = OutputBytes::default();
        if job.attempt() == Some(attempt) && matches!(report, AttemptReport::Ended(_)) {
            output = self.output_bytes(attempt);
        }
        let events = respond::report(&job, attempt.epoch, report.clone(), output, self.here());
        match self.write(draft, attempt.job, Some(job), events) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refusal)) => {
                tracing::error!(%attempt, %refusal, "a report makes no sense");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The last reported lengths, or what lies in the spool, if a site that died had heard more than this one.
    fn output_bytes(&self, attempt: AttemptId) -> OutputBytes {
        let spool = self.actor.spool(attempt);
        let size = |stream: OutputStream| {
            std::fs::metadata(spool.join(stream.name())).map_or(0, |file| file.len())
        };
        let (stdout, stderr) = self.cells.get(attempt.job).map_or((0, 0), |cell| {
            (cell.look().stdout_bytes, cell.look().stderr_bytes)
        });
        OutputBytes {
            stdout: stdout.max(size(OutputStream::Stdout)),
            stderr: stderr.max(size(OutputStream::Stderr)),
        }
    }

    /// Events of a job that exists; the refusal for the caller apart from a failure of the log.
    fn change(
        &mut self,
        draft: &mut Draft,
        id: JobId,
        respond: impl FnOnce(&Job) -> Result<Vec<Event>, Refusal>,
    ) -> (Result<(), Refusal>, rusqlite::Result<()>) {
        let job = match self.current(draft, id) {
            Ok(Some(job)) => job,
            Ok(None) => return (Err(no_such_job(id)), Ok(())),
            Err(error) => return (Err(damaged(&error)), Ok(())),
        };
        match respond(&job) {
            Ok(events) => split(self.write(draft, id, Some(job), events), ()),
            Err(refusal) => (Err(refusal), Ok(())),
        }
    }

    fn current(&self, draft: &Draft, id: JobId) -> Result<Option<Arc<Job>>, ReadError> {
        if let Some(job) = draft.newest.get(&id) {
            return Ok(Some(Arc::clone(job)));
        }
        if let Some(cell) = self.cells.get(id) {
            return Ok(Some(cell.job()));
        }
        Ok(self.log.read_job(id)?.map(|(job, _)| Arc::new(job)))
    }

    /// Applies all, then writes all: half of what follows from one ask is never recorded.
    fn write(
        &mut self,
        draft: &mut Draft,
        id: JobId,
        mut before: Option<Arc<Job>>,
        events: Vec<Event>,
    ) -> rusqlite::Result<Result<(), Refusal>> {
        let mut steps = Vec::with_capacity(events.len());
        for event in events {
            let number = before.as_ref().map_or(0, |job| job.last_event) + 1;
            let record = Record {
                number,
                at_ms: now_ms(),
                event,
            };
            let after = match apply(id, before.as_deref(), &record) {
                Ok(after) => Arc::new(after),
                Err(illegal) => return Ok(Err(Refusal::new("bug", illegal.to_string()))),
            };
            steps.push(Step {
                record,
                before: before.replace(Arc::clone(&after)),
                after,
            });
        }
        for step in steps {
            if step.before.is_none() {
                self.log.add_job(&step.after)?;
            }
            self.log.append(id, &step.record)?;
            match &step.after.stage {
                Stage::Ended(_) => self
                    .log
                    .end_job(&step.after.view(0, 0), self.running_ms())?,
                Stage::Removed { .. } => self.log.hide_job(id)?,
                Stage::Waiting { .. } | Stage::Planned(_) | Stage::Running(..) => {}
            }
            draft.newest.insert(id, Arc::clone(&step.after));
            draft.steps.push(step);
        }
        Ok(Ok(()))
    }

    fn load(&mut self, id: JobId, reply: Reply<Option<Arc<Cell>>>) {
        let found = match self.cells.get(id) {
            Some(cell) => Ok(Some(cell)),
            None => match self.log.read_job(id) {
                Ok(Some((job, records))) => {
                    self.ended_in_memory += 1;
                    Ok(Some(self.cells.add(id, Cell::new(Arc::new(job), &records))))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(damaged(&error)),
            },
        };
        // Whoever asked may have gone.
        let _ = reply.send(found);
    }

    fn sweep(&mut self, draft: &mut Draft) -> rusqlite::Result<()> {
        let now = self.running_ms();
        self.log.set_run_ms(now)?;
        let keep_ms = u64::try_from(self.limits.keep.as_millis()).unwrap_or(u64::MAX);
        let expired = self.log.ended_before(now.saturating_sub(keep_ms), SWEEP)?;
        draft.sweep_again = expired.len() == SWEEP;
        for id in expired {
            let (done, failed) = self.change(draft, id, |job| {
                respond::remove(job, true).map_err(|error| Refusal::new("bug", error.to_string()))
            });
            failed?;
            if let Err(refusal) = done {
                tracing::warn!(job = %id, %refusal, "an expired job stays");
            }
        }
        Ok(())
    }

    /// After the commit: now it happened.
    fn publish(&mut self, draft: Draft) {
        if let Some(after_commit) = &self.after_commit {
            for step in &draft.steps {
                after_commit(step.after.id, &step.record);
            }
        }
        let mut policies = draft.policies;
        let mut actions = Vec::new();
        let recorded = draft.steps.len();
        for step in draft.steps {
            self.count(step.before.as_deref(), &step.after);
            let event = step.record.view(step.after.id, step.after.state());
            let id = step.after.id;
            let cell = match self.cells.get(id) {
                Some(cell) => {
                    cell.publish(Arc::clone(&step.after), event);
                    cell
                }
                None if step.before.is_none() => self
                    .cells
                    .add(id, Cell::new(Arc::clone(&step.after), &[step.record])),
                // Removed without having been looked at: the actions need a cell, nobody else does.
                None => Arc::new(Cell::new(Arc::clone(&step.after), &[])),
            };
            for action in new_actions(step.before.as_deref(), &step.after) {
                actions.push((action, Arc::clone(&cell)));
            }
        }
        for name in draft.claimed {
            self.uploads.forget(&name);
        }
        for job in draft.erased {
            self.cells.remove(job);
        }
        self.since_checkpoint += recorded;
        self.publish_stats(recorded as u64);
        for answer in draft.answers {
            answer.send(None);
        }
        for (action, cell) in actions {
            let policy = match action {
                Action::Run(attempt) => policies.remove(&attempt.job),
                _ => None,
            };
            Arc::clone(&self.actor).act(action, &cell, Planned::Now(policy));
        }
        if draft.sweep_again {
            self.backlog.push(Ask::Sweep);
        }
        self.ended_in_memory = self.cells.evict(self.ended_in_memory);
        if self.since_checkpoint >= CHECKPOINT_EVENTS_BUSY {
            self.checkpoint();
        }
    }

    fn count(&mut self, before: Option<&Job>, after: &Job) {
        let count = self.counts.entry(after.caller.subject.clone()).or_default();
        match before {
            None => {
                count.live += 1;
                count.kept += 1;
            }
            Some(before) if before.is_live() && !after.is_live() => {
                count.live = count.live.saturating_sub(1);
                self.ended_in_memory += 1;
            }
            Some(before)
                if !matches!(before.stage, Stage::Removed { .. })
                    && matches!(after.stage, Stage::Removed { .. }) =>
            {
                count.kept = count.kept.saturating_sub(1);
            }
            Some(_) => {}
        }
    }

    fn publish_stats(&self, recorded: u64) {
        let live = self.counts.values().map(|count| count.live).sum();
        let kept = self.counts.values().map(|count| count.kept).sum();
        self.stats.send_modify(|stats| {
            stats.live = live;
            stats.kept = kept;
            stats.events_recorded += recorded;
            stats.commits += u64::from(recorded > 0);
            stats.unrecorded_reports = 0;
        });
    }

    /// The commit failed: nothing happened. Clients hear so; what runners said is kept and tried again.
    fn take_back(&mut self, draft: Draft, error: &rusqlite::Error) {
        self.log.roll_back();
        let refusal = unwritable(error);
        tracing::error!(%refusal, "events could not be recorded");
        if let Some(first) = draft.steps.iter().find(|step| step.before.is_none()) {
            self.last_job = first.after.id.0 - 1;
        }
        for name in draft.claimed {
            self.uploads.unclaim(&name);
        }
        for answer in draft.answers {
            answer.send(Some(&refusal));
        }
        self.backlog = draft.keep;
        let waiting = self.backlog.len();
        self.stats
            .send_modify(|stats| stats.unrecorded_reports = waiting);
    }

    fn close(&mut self) {
        let now = self.running_ms();
        let closed = self
            .log
            .begin(true)
            .and_then(|()| self.log.set_run_ms(now))
            .and_then(|()| self.log.commit());
        if let Err(error) = closed {
            tracing::warn!(%error, "the site's running time could not be recorded: jobs are kept a little longer");
            self.log.roll_back();
        }
        self.checkpoint();
    }
}

/// An ask that came after the transaction failed.
fn give_back(draft: &mut Draft, ask: Ask) {
    let refusal = || Refusal::new("log_unwritable", "not reached");
    match ask {
        Ask::Submit(submission) => draft
            .answers
            .push(Answer::Submit(submission.reply, Err(refusal()))),
        Ask::Cancel { reply, .. } | Ask::Remove { reply, .. } => {
            draft.answers.push(Answer::Done(reply, Err(refusal())))
        }
        Ask::Report { .. } | Ask::Erased { .. } | Ask::Load { .. } => draft.keep.push(ask),
        Ask::Close { reply } => draft.close.push(reply),
        Ask::Sweep => {}
    }
}

/// Is this the description again? An upload is made anew by a client that asks again after a crash, under another name.
fn same_request(one: &JobDescription, other: &JobDescription) -> bool {
    let input = one.input.clone().filter(|_| other.input.is_some());
    let other_input = other.input.clone().filter(|_| one.input.is_none());
    *one == JobDescription {
        input: input.or(other_input),
        ..other.clone()
    }
}

/// A failure of the log reaches the caller as a refusal and the transaction as itself.
fn split<T>(
    written: rusqlite::Result<Result<(), Refusal>>,
    value: T,
) -> (Result<T, Refusal>, rusqlite::Result<()>) {
    match written {
        Ok(Ok(())) => (Ok(value), Ok(())),
        Ok(Err(refusal)) => (Err(refusal), Ok(())),
        Err(error) => (Err(unwritable(&error)), Err(error)),
    }
}

impl Answer {
    /// `failed`: the commit did, whatever the answer would have been. Whoever asked may have gone.
    fn send(self, failed: Option<&Refusal>) {
        match self {
            Answer::Submit(reply, answer) => {
                let _ = reply.send(failed.map_or(answer, |refusal| Err(refusal.clone())));
            }
            Answer::Done(reply, answer) => {
                let _ = reply.send(failed.map_or(answer, |refusal| Err(refusal.clone())));
            }
        }
    }
}

pub fn no_such_job(job: JobId) -> Refusal {
    Refusal::new(
        "no_such_job",
        format!("there is no job {job} of yours here: `kumiko job list` shows those there are"),
    )
}

fn damaged(error: &ReadError) -> Refusal {
    Refusal::new(
        "log_damaged",
        format!("{error}: the site's operator must look at its event log"),
    )
}

fn unwritable(error: &rusqlite::Error) -> Refusal {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => Refusal::new(
            "log_full",
            "the site cannot record this, its disk is full: nothing was done, try later",
        ),
        _ => Refusal::new(
            "log_unwritable",
            format!(
                "the site cannot record this ({error}): nothing was done, its operator must look at the event log"
            ),
        ),
    }
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

//! The one thread that records: it takes what is asked, makes events of it, commits as many as there are in one transaction,
//! and only then tells anybody and has anything done (spec/jobs, "What is durable when").
//! Not here: SQL (`log`), doing (`act`).

mod ask;
mod counts;
mod draft;

pub use ask::{Act, Ask, Reply, Submission, damaged, no_such_job};
pub use counts::{Counts, Stats};
pub use draft::no_migration;

use crate::act::Planned;
use crate::cell::{Cell, Cells};
use crate::credentials::Credentials;
use crate::files::{Hold, Uploads};
use crate::log::Log;
use crate::setup::{AfterCommit, Limits};
use ask::unwritable;
use draft::Draft;
use kumiko_job::admission::{Capacity, Ledger};
use kumiko_job::decide::{Action, decide, new_actions};
use kumiko_job::id::JobId;
use kumiko_job::respond::Here;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
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
/// Expired jobs in one transaction.
const SWEEP: usize = 256;

pub struct Keeper {
    pub log: Log,
    pub cells: Arc<Cells>,
    pub uploads: Arc<Uploads>,
    pub credentials: Arc<Credentials>,
    pub actor: Arc<dyn Act>,
    pub limits: Limits,
    pub after_commit: Option<AfterCommit>,
    pub last_job: u64,
    /// See `respond::Here`.
    pub boot: String,
    /// Running time of the site before this process, and since when it counts.
    pub run_ms: u64,
    pub since: Instant,
    pub counts: Counts,
    pub capacity: Capacity,
    /// As the log has it; within a transaction, as that leaves it.
    pub ledger: Ledger,
    pub stats: watch::Sender<Stats>,
    pub memory: Memory,
    /// Held as long as anything may be recorded: a second manager on the same directory would run everything twice.
    pub _hold: Hold,
}

/// What the keeper itself remembers between transactions.
#[derive(Default)]
pub struct Memory {
    ended_cells: usize,
    since_checkpoint: usize,
    /// What could not be recorded yet, in order.
    backlog: Vec<Ask>,
}

impl Keeper {
    /// Recovery and then work, until `Close`.
    pub fn run(mut self, asks: &Receiver<Ask>) {
        self.publish_stats(0);
        for cell in self.cells.all() {
            for action in decide(&cell.job()) {
                Arc::clone(&self.actor).act(action, &cell, Planned::Before);
            }
        }
        if !self.ledger.next().is_empty() {
            // The capacity may have been raised while the site was down.
            self.transact(Vec::new());
        }
        while let Some(group) = self.next_group(asks) {
            let closing = self.record(group);
            if !closing.is_empty() {
                self.close();
                drop(self);
                for reply in closing {
                    // Whoever asked may have gone.
                    let _ = reply.send(());
                }
                return;
            }
        }
    }

    fn next_group(&mut self, asks: &Receiver<Ask>) -> Option<Vec<Ask>> {
        let mut group = std::mem::take(&mut self.memory.backlog);
        let wait = if !group.is_empty() {
            Some(RETRY)
        } else if self.memory.since_checkpoint >= CHECKPOINT_EVENTS {
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
            Err(RecvTimeoutError::Timeout) if group.is_empty() => self.checkpoint(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
        group.extend(asks.try_iter().take(GROUP));
        Some(group)
    }

    /// Records a group; returns who waits for the close.
    fn record(&mut self, group: Vec<Ask>) -> Vec<oneshot::Sender<()>> {
        match group.is_empty() {
            true => Vec::new(),
            false => self.transact(group),
        }
    }

    /// One transaction: what follows from the group, and from what is left then.
    fn transact(&mut self, group: Vec<Ask>) -> Vec<oneshot::Sender<()>> {
        let mut draft = Draft::default();
        // Whoever waits may be planned, which is a promise.
        let promise = self.ledger.queued() > 0 || group.iter().any(Ask::is_promise);
        let mut failure = self.log.begin(promise).err();
        for ask in group {
            match &failure {
                None => failure = self.draft(&mut draft, ask).err(),
                Some(error) => draft.give_back(ask, unwritable(error)),
            }
        }
        if failure.is_none() {
            failure = self.admit_waiting(&mut draft).err();
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

    /// After the commit: now it happened.
    fn publish(&mut self, mut draft: Draft) {
        if let Some(after_commit) = &self.after_commit {
            for step in &draft.steps {
                after_commit(step.after.id, &step.record);
            }
        }
        let mut actions = Vec::new();
        let recorded = draft.steps.len();
        for step in draft.steps {
            let (before, after) = (step.before.as_deref(), &step.after);
            self.counts.step(before, after);
            if before.is_some_and(|job| job.is_live()) && !after.is_live() {
                self.memory.ended_cells += 1;
            }
            let cell = match self.cells.get(after.id) {
                Some(cell) => {
                    cell.publish(Arc::clone(after), step.record.view(after.id, after.state()));
                    cell
                }
                None if before.is_none() => {
                    let cell = Cell::new(Arc::clone(after), std::slice::from_ref(&step.record));
                    self.cells.add(after.id, cell)
                }
                // Removed without having been looked at: the actions need a cell, nobody else does.
                None => Arc::new(Cell::new(Arc::clone(after), &[])),
            };
            for action in new_actions(before, after) {
                actions.push((action, Arc::clone(&cell)));
            }
        }
        for name in draft.claimed {
            self.uploads.forget(&name);
        }
        for name in draft.credentials {
            self.credentials.forget(&name);
        }
        for job in draft.erased {
            self.cells.remove(job);
        }
        self.publish_stats(recorded);
        for answer in draft.answers {
            answer.send(None);
        }
        for (action, cell) in actions {
            let policy = match action {
                Action::Run(attempt) => draft.policies.remove(&attempt.job),
                _ => None,
            };
            Arc::clone(&self.actor).act(action, &cell, Planned::Now(policy.map(Box::new)));
        }
        if draft.sweep_again {
            self.memory.backlog.push(Ask::Sweep);
        }
        self.memory.ended_cells = self.cells.evict(self.memory.ended_cells);
        self.memory.since_checkpoint += recorded;
        if self.memory.since_checkpoint >= CHECKPOINT_EVENTS_BUSY {
            self.checkpoint();
        }
    }

    /// The commit failed: nothing happened. Clients hear so; what runners said is kept and tried again.
    fn take_back(&mut self, draft: Draft, error: &rusqlite::Error) {
        self.log.roll_back();
        self.ledger = Ledger::new(self.capacity);
        for cell in self.cells.all() {
            self.ledger.step(None, &cell.job());
        }
        let refusal = unwritable(error);
        tracing::error!(%refusal, "events could not be recorded");
        if let Some(first) = draft.steps.iter().find(|step| step.before.is_none()) {
            self.last_job = first.after.id.0 - 1;
        }
        for name in draft.claimed {
            self.uploads.unclaim(&name);
        }
        for name in draft.credentials {
            self.credentials.unclaim(&name);
        }
        for answer in draft.answers {
            answer.send(Some(&refusal));
        }
        let waiting = draft.keep.len();
        self.memory.backlog = draft.keep;
        self.stats
            .send_modify(|stats| stats.unrecorded_reports = waiting);
    }

    fn publish_stats(&self, recorded: usize) {
        self.stats.send_modify(|stats| {
            stats.live = self.counts.all.live;
            stats.kept = self.counts.all.kept;
            stats.queued = self.ledger.queued();
            stats.left = self.ledger.left();
            stats.events_recorded += recorded as u64;
            stats.commits += u64::from(recorded > 0);
            stats.unrecorded_reports = 0;
        });
    }

    /// Only here are ended jobs brought back: whoever else did might bring back one that is being removed.
    fn load(&mut self, id: JobId, reply: Reply<Option<Arc<Cell>>>) {
        let found = match self.cells.get(id) {
            Some(cell) => Ok(Some(cell)),
            None => self
                .log
                .read_job(id)
                .map_err(|error| damaged(&error))
                .map(|found| {
                    found.map(|(job, records)| {
                        self.memory.ended_cells += 1;
                        self.cells.add(id, Cell::new(Arc::new(job), &records))
                    })
                }),
        };
        // Whoever asked may have gone.
        let _ = reply.send(found);
    }

    fn here(&self, has_room: bool) -> Here<'_> {
        Here {
            batch: self.actor.batch_name(),
            boot: &self.boot,
            has_room,
        }
    }

    fn running_ms(&self) -> u64 {
        self.run_ms + u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn checkpoint(&mut self) {
        self.memory.since_checkpoint = 0;
        if let Err(error) = self.log.checkpoint() {
            tracing::warn!(%error, "the event log's WAL could not be moved into the database; it is tried again later");
        }
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

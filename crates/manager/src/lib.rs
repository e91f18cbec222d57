//! The manager: what is asked becomes events, events are recorded, and only then things are done because of them.
//! After a crash the events are replayed and what they ask for is done again; there is no other recovery (spec/jobs).
//!
//! Not here: what events mean (kumiko-job), how attempts run (batch), who may call (gatekeeper).
#![allow(clippy::result_large_err)] // OpenError is made once a process

mod act;
mod attended;
mod cell;
mod credentials;
mod files;
mod jobs;
mod keeper;
mod limits;
mod log;
mod output;
mod setup;
mod sink;
mod staging;
mod watch;

pub use keeper::Stats;
pub use setup::{AfterCommit, Closed, Effective, Limits, OpenError, Setup};
pub use sink::Sink;

use act::Actor;
use cell::{Cell, Cells};
use credentials::Credentials;
use files::{Files, Uploads};
use keeper::{Ask, Counts, Keeper, Memory};
use kumiko_job::admission::Ledger;
use kumiko_job::contract::BatchSystem;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::rerun;
use log::{Log, Reader};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Changes with each boot of the machine (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Jobs whose time is over are looked for this often at most ...
const SWEEP_MOST: Duration = Duration::from_secs(3600);
/// ... and at least: a short time to be kept needs no greater precision.
const SWEEP_LEAST: Duration = Duration::from_millis(100);

/// The jobs of one account. Its calls are those of `kumiko_job::contract::Jobs`.
pub struct Manager<B> {
    actor: Arc<Actor<B>>,
    cells: Arc<Cells>,
    uploads: Arc<Uploads>,
    /// One renewal after the other.
    renewing: tokio::sync::Mutex<()>,
    reader: Arc<Reader>,
    asks: Sender<Ask>,
    stats: tokio::sync::watch::Receiver<Stats>,
    draining: AtomicBool,
    sweeper: tokio::task::AbortHandle,
}

impl<B> fmt::Debug for Manager<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("stats", &*self.stats.borrow())
            .finish_non_exhaustive()
    }
}

impl<B: BatchSystem> Manager<B> {
    /// Opens the log (or makes one where there never was any), replays it, and has done what it asks for: attempts that
    /// may live are adopted. `batch` is given the sink that its attempts report to.
    pub async fn open(
        setup: Setup,
        batch: impl FnOnce(Arc<Sink>) -> B,
    ) -> Result<Arc<Self>, OpenError> {
        let Setup {
            directory,
            limits,
            capacity,
            closed,
            effective,
            transfer,
            after_commit,
        } = setup;
        let files = Files::new(&directory);
        let hold = files.hold(&directory).await?;
        let log = Log::open(&files.log, &files.jobs, !files.has_jobs())?;
        let loaded = log.load(&files.log)?;
        let reader = Reader::open(&files.log)
            .map(Arc::new)
            .map_err(|cause| OpenError::Log {
                log: files.log.clone(),
                cause,
            })?;
        files.make()?;
        let credentials = Arc::new(Credentials::open(&directory, &loaded.jobs)?);

        let boot = std::fs::read_to_string(BOOT_ID).map_err(|cause| OpenError::Directory {
            path: BOOT_ID.into(),
            cause,
        })?;
        let boot = boot.trim().to_owned();

        let cells = Arc::new(Cells::default());
        let mut wanted = HashSet::new();
        let mut ledger = Ledger::new(capacity);
        for (job, records) in loaded.jobs {
            ledger.step(None, &job);
            wanted.extend(job.description.input.clone().filter(|_| job.is_live()));
            cells.add(job.id, Cell::new(Arc::new(job), &records));
        }
        files.sweep_uploads(&wanted);

        let (asks, asked) = mpsc::channel();
        let sink = Arc::new(Sink {
            asks: asks.clone(),
            cells: Arc::clone(&cells),
        });
        let uploads = Arc::new(Uploads::default());
        let (stats_sender, stats) = tokio::sync::watch::channel(Stats::default());
        let actor = Arc::new(Actor {
            batch: batch(sink),
            credentials: Arc::clone(&credentials),
            files,
            effective,
            closed,
            capacity,
            limits: limits.clone(),
            transfer,
            runtime: Handle::current(),
            asks: asks.clone(),
            following: std::sync::Mutex::new(()),
        });
        let sweep_every = (limits.keep / 8).clamp(SWEEP_LEAST, SWEEP_MOST);
        let subjects = cells.all().into_iter().map(|cell| cell.job());
        let live = subjects
            .filter(|job| job.is_live())
            .map(|job| job.caller.subject.clone());
        let keeper = Keeper {
            log,
            counts: Counts::new(loaded.kept, live),
            capacity,
            ledger,
            cells: Arc::clone(&cells),
            uploads: Arc::clone(&uploads),
            credentials,
            actor: Arc::<Actor<B>>::clone(&actor),
            limits,
            after_commit,
            last_job: loaded.last_job,
            boot,
            run_ms: loaded.run_ms,
            since: Instant::now(),
            stats: stats_sender,
            memory: Memory::default(),
            _hold: hold,
        };
        std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || keeper.run(&asked))
            .map_err(|cause| OpenError::Thread { cause })?;
        let sweeper = tokio::spawn(sweep(asks.clone(), sweep_every)).abort_handle();
        Ok(Arc::new(Manager {
            actor,
            cells,
            uploads,
            renewing: tokio::sync::Mutex::new(()),
            reader,
            asks,
            stats,
            draining: AtomicBool::new(false),
            sweeper,
        }))
    }

    /// What runs its attempts.
    pub fn batch(&self) -> &B {
        &self.actor.batch
    }

    pub fn stats(&self) -> Stats {
        *self.stats.borrow()
    }

    /// The same, told whenever anything is recorded.
    pub fn watch_stats(&self) -> tokio::sync::watch::Receiver<Stats> {
        self.stats.clone()
    }

    /// Jobs whose attempt is on a drained host, which `leaves` names and says whether it is to be left now, leave it if they may
    /// run again. By host, those that stay to their end.
    pub fn leave(
        &self,
        leaves: impl Fn(AttemptId) -> Option<(String, bool)>,
    ) -> BTreeMap<String, Vec<JobId>> {
        let mut staying: BTreeMap<String, Vec<JobId>> = BTreeMap::new();
        for cell in self.cells.all() {
            let job = cell.job();
            let Some(attempt) = job.attempt() else {
                continue;
            };
            match leaves(attempt) {
                Some((host, true)) if rerun::leaves(&job) => {
                    // The keeper is gone only when the site goes down: the next one asks.
                    let _ = self.asks.send(Ask::Requeue { attempt, host });
                }
                Some((host, _)) => staying.entry(host).or_default().push(job.id),
                None => {}
            }
        }
        staying.values_mut().for_each(|jobs| jobs.sort());
        staying
    }

    /// Takes no new jobs from now on, and returns when none lives.
    pub async fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        let mut stats = self.stats.clone();
        // An error says that the keeper is gone: then nothing will change any more.
        let _ = stats.wait_for(|stats| stats.live == 0).await;
    }

    /// Stops recording and ends watchers. Jobs go on: the next manager on this directory adopts them.
    pub async fn close(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.sweeper.abort();
        let (reply, closed) = oneshot::channel();
        if self.asks.send(Ask::Close { reply }).is_ok() {
            // An error says that it was closed by another call.
            let _ = closed.await;
        }
        for cell in self.cells.all() {
            cell.close();
        }
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

impl<B> Drop for Manager<B> {
    fn drop(&mut self) {
        self.sweeper.abort();
        let (reply, _) = oneshot::channel();
        // An error says that it was closed before.
        let _ = self.asks.send(Ask::Close { reply });
    }
}

async fn sweep(asks: Sender<Ask>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        if asks.send(Ask::Sweep).is_err() {
            return;
        }
    }
}

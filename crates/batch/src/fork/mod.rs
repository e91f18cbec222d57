//! Attempts as processes of this machine: each has a spool directory and a runner in it (spec/jobs/runner.md).
//!
//! Not here: what a runner does (kumiko-runner).

mod blank;
mod live;
mod start;

use crate::able::{Able, only};
use crate::spool;
use blank::Blank;
use kumiko_job::attempt::{AttemptCommand, AttemptSpec};
use kumiko_job::contract::{AttemptSink, BatchError, BatchSystem, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::AttemptId;
use live::Live;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The batch system of a one-machine site. Needs a tokio runtime around it. Dropping it leaves the runners to
/// themselves: a later one with the same root adopts them.
pub struct Fork {
    shared: Arc<Shared>,
}

/// What the attempts of one `Fork` have in common.
struct Shared {
    root: PathBuf,
    runner: PathBuf,
    sink: Arc<dyn AttemptSink>,
    live: Mutex<HashMap<AttemptId, Arc<Live>>>,
    /// For the next start.
    blank: Mutex<Option<Blank>>,
}

impl Fork {
    /// `root`: holds the spools, made if missing; `runner`: the program kumiko-run.
    pub fn new(root: PathBuf, runner: PathBuf, sink: Arc<dyn AttemptSink>) -> Self {
        Blank::sweep(&root);
        let shared = Shared {
            root,
            runner,
            sink,
            live: Mutex::default(),
            blank: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl Shared {
    fn spool(&self, id: AttemptId) -> PathBuf {
        self.root.join(id.to_string())
    }

    fn live(&self) -> MutexGuard<'_, HashMap<AttemptId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blank(&self) -> MutexGuard<'_, Option<Blank>> {
        self.blank.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It blocks.
    fn take_blank(&self) -> Option<Blank> {
        let mut blank = self.blank().take()?;
        blank.serves(&self.runner).then_some(blank)
    }

    /// Makes the next blank, unless there is one. It blocks; without a blank a start only takes longer.
    fn make_blank(&self) {
        let mut blank = self.blank();
        if blank.is_none() {
            *blank = Blank::make(&self.root, &self.runner).ok();
        }
    }

    /// The attempt's entry, which is new if the second value says so.
    fn enter(&self, id: AttemptId) -> (Arc<Live>, bool) {
        let mut live = self.live();
        if let Some(known) = live.get(&id) {
            return (Arc::clone(known), false);
        }
        let new = Arc::new(Live::new(id));
        live.insert(id, Arc::clone(&new));
        (new, true)
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        self.shared
            .live()
            .drain()
            .for_each(|(_, live)| live.leave());
    }
}

impl std::fmt::Debug for Fork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Fork");
        shown.field("root", &self.shared.root);
        shown.field("live", &self.shared.live().len());
        shown.finish_non_exhaustive()
    }
}

impl BatchSystem for Fork {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn admits(&self, description: &JobDescription) -> Result<(), Refusal> {
        // What is left of the host is the site's to know (kumiko_job::admission).
        let able = Able {
            shares: true,
            ..Able::default()
        };
        only(description, &able, self.name())
    }

    fn spares(&self) -> u64 {
        u64::from(self.shared.blank().as_ref().is_some_and(Blank::has_runner))
    }

    async fn start(&self, spec: AttemptSpec) -> Result<(), BatchError> {
        let (live, _) = self.shared.enter(spec.id);
        live.start(&self.shared, spec).await
    }

    async fn adopt(&self, id: AttemptId) {
        let (live, new) = self.shared.enter(id);
        if new {
            live.adopt(&self.shared);
        }
    }

    async fn command(&self, id: AttemptId, command: AttemptCommand) {
        let live = self.shared.live().get(&id).cloned();
        if let Some(live) = live {
            live.command(command).await;
        }
    }

    fn spool(&self, id: AttemptId) -> PathBuf {
        self.shared.spool(id)
    }

    async fn forget(&self, id: AttemptId) {
        self.command(id, AttemptCommand::Settled).await;
        let shared = Arc::clone(&self.shared);
        let removed = tokio::task::spawn_blocking(move || spool::remove(&shared.root, id)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(attempt = %id, %error, "a spool is not removed");
        }
    }
}

//! Attempts as processes of this machine: each has a spool directory and a runner in it (spec/jobs/runner.md).

use kumiko_job::attempt::{AttemptCommand, AttemptSpec};
use kumiko_job::contract::{AttemptSink, BatchError, BatchSystem};
use kumiko_job::id::AttemptId;
use std::path::PathBuf;
use std::sync::Arc;

/// The batch system of a one-machine site.
pub struct Fork {
    root: PathBuf,
    runner: PathBuf,
    sink: Arc<dyn AttemptSink>,
}

impl Fork {
    /// `root`: holds the spools, made if missing; `runner`: the program kumiko-run.
    pub fn new(root: PathBuf, runner: PathBuf, sink: Arc<dyn AttemptSink>) -> Self {
        Self { root, runner, sink }
    }
}

impl std::fmt::Debug for Fork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fork")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl BatchSystem for Fork {
    fn name(&self) -> &'static str {
        "fork"
    }

    async fn start(&self, spec: AttemptSpec) -> Result<(), BatchError> {
        let _ = (&self.sink, spec);
        Err(BatchError::NoRunner {
            program: self.runner.display().to_string(),
            cause: "starting is being written".into(),
        })
    }

    async fn adopt(&self, _id: AttemptId) {}

    async fn command(&self, _id: AttemptId, _command: AttemptCommand) {}

    fn spool(&self, id: AttemptId) -> PathBuf {
        self.root.join(id.to_string())
    }

    async fn forget(&self, _id: AttemptId) {}
}

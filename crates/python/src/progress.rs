//! How far a call is, for whoever shows it. Not here: how that is shown (bindings/python, `_progress`).

use kumiko_rpc_client::{Stage, Stages};
use pyo3::prelude::*;
use std::sync::Arc;

/// Of one call: given to it when it begins, and asked at any time.
#[pyclass(frozen)]
#[derive(Debug, Default)]
pub struct Progress {
    pub stages: Arc<Stages>,
}

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Progress {
        Progress::default()
    }

    /// The stage, its bytes that went or came and all of them (0: none, or not known), for how many seconds it has lasted, and how often
    /// functions of the caller's were asked.
    fn now(&self) -> (&'static str, u64, u64, f64, u64) {
        let (moved, took) = (self.stages.moved(), self.stages.took());
        let (name, done, all, lasted) = match self.stages.stage() {
            Stage::Sending => ("sending", moved.sent, moved.to_send, took.sending),
            Stage::Computing => ("computing", 0, 0, took.computing),
            Stage::Fetching => ("fetching", moved.fetched, moved.to_fetch, took.fetching),
            Stage::Over => ("over", 0, 0, took.fetching),
        };
        (name, done, all, lasted.as_secs_f64(), took.questions)
    }
}

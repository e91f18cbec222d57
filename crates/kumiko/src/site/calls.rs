//! Calls of routines at a personal site: which policy they run under, where they are kept. Wiring only.

use crate::fail::{Failure, While};
use crate::home::Home;
use crate::site::effective::Policies;
use crate::site::settings::Settings;
use kumiko_batch::fork::Fork;
use kumiko_idl::Limits;
use kumiko_job::description::JobDescription;
use kumiko_linux::this_process;
use kumiko_rpc::{Calls, Setup};
use std::path::PathBuf;
use std::sync::Arc;

/// Processes of routines at once, for each processor: one computes while another is given its arguments.
const WORKERS_PER_PROCESSOR: usize = 2;
/// So that routines that wait for each other's callers do not on a small machine.
const WORKERS_LEAST: usize = 8;

/// Calls are computed on this host, whatever runs the site's jobs.
pub async fn open(
    home: &Home,
    settings: &Settings,
    runner: PathBuf,
) -> Result<Arc<Calls<Fork>>, Failure> {
    let policies = Policies::load(home, settings, &home.draining())?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let setup = Setup {
        directory: home.state().join("rpc"),
        account: this_process::account_name(),
        effective: Box::new(move |caller| match policies.closed() {
            Some(refusal) => Err(refusal),
            None => policies.effective(caller, &JobDescription::new("routine", &[])),
        }),
        workers: (processors * WORKERS_PER_PROCESSOR).max(WORKERS_LEAST),
        limits: Limits::WIDEST,
        grace_ms: settings.grace_ms,
        time_limit_ms: None,
    };
    let calls = Calls::open(setup, |spools, reports| Fork::new(spools, runner, reports))
        .await
        .doing(|| "opening the site's calls of routines".to_owned())?;
    Ok(Arc::new(calls))
}

//! Calls of routines: which policy they run under, what runs them, where they are kept. Wiring only.

use crate::fail::{Failure, While};
use crate::home::Home;
use crate::site::drained::{self, Staying};
use crate::site::effective::Policies;
use crate::site::landing;
use crate::site::many;
use crate::site::pilots;
use crate::site::settings::Settings;
use kumiko_batch::chosen::{Chosen, Name, Prepared};
use kumiko_batch::engine::Leaves;
use kumiko_batch::pilots::Size;
use kumiko_idl::Limits;
use kumiko_job::description::JobDescription;
use kumiko_linux::this_process;
use kumiko_rpc::registry::Registry;
use kumiko_rpc::{Calls, Setup};
use kumiko_sandbox::Machine;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Processes of routines at once, for each processor: one computes while another is given its arguments.
const WORKERS_PER_PROCESSOR: usize = 2;
/// So that routines that wait for each other's callers do not on a small machine.
const WORKERS_LEAST: usize = 8;
/// Of an engine without pilots each process is a job of its own, and one that is idle holds its slot for a minute.
const WORKERS_OF_ENGINE: usize = 64;

/// Where calls are kept, and under which policies they run.
pub struct Place {
    pub directory: PathBuf,
    pub policies: Policies,
}

/// What the site offers.
pub fn registry(home: &Home) -> Result<Registry, Failure> {
    Ok(match many::of(home)? {
        Some(_) => Registry::shared(home.calls()),
        None => Registry::new(home.calls()),
    })
}

/// Calls are computed by what runs the site's jobs, or by what `calls` of site.toml says.
pub async fn open(
    home: &Home,
    settings: &Settings,
    runner: PathBuf,
    place: Place,
) -> Result<Arc<Calls<Chosen>>, Failure> {
    let Place {
        directory,
        policies,
    } = place;
    let drained = drained::before(home, &directory)?;
    let batch = settings.runs_calls();
    let pilots = pilots::of_calls(settings)?;
    let state = directory.clone();
    let setup = Setup {
        directory,
        registry: registry(home)?,
        account: this_process::account_name(),
        effective: Box::new(move |caller| match policies.closed() {
            Some(refusal) => Err(refusal),
            None => policies.effective(caller, &JobDescription::new("routine", &[])),
        }),
        workers: workers(batch, pilots.size),
        limits: Limits::WIDEST,
        grace_ms: settings.grace_ms,
        time_limit_ms: None,
        elsewhere: batch != Name::Fork,
        may_dump: batch != Name::Fork || is_dumping_host(),
    };
    let spools = setup.spools();
    let prepared = Prepared::new(batch, spools.clone(), runner, pilots)
        .doing(|| format!("preparing {}", spools.display()))?
        .without(drained);
    let prepared = landing::of_calls(prepared, settings, &state, &home.calls())?;
    let calls = Calls::open(setup, |_, reports| prepared.open(reports))
        .await
        .doing(|| "opening the site's calls of routines".to_owned())?;
    Ok(Arc::new(calls))
}

/// This host has what a runner needs to dump (spec/checkpoint K50 to K52); it says so itself, of other hosts too.
fn is_dumping_host() -> bool {
    let path = std::env::var_os("PATH");
    !kumiko_linux::is_root() && kumiko_sandbox::criu(&Machine::glance(), path.as_deref()).is_ok()
}

/// Calls leave drained hosts and slots that are taken back; `now` are hosts that all leave.
pub fn leave(calls: &Calls<Chosen>, now: &BTreeSet<String>) -> Staying {
    calls.leave(|attempt| {
        let (Leaves::Drained(host) | Leaves::Recalled(host)) = calls.batch().leaves(attempt)?;
        Some(now.contains(&host))
    });
    Staying::new()
}

fn workers(batch: Name, pilots: Size) -> usize {
    match (batch, pilots.most as usize * pilots.cpus as usize) {
        (Name::Fork, _) => {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            (processors * WORKERS_PER_PROCESSOR).max(WORKERS_LEAST)
        }
        (Name::Slurm | Name::Condor, 0) => WORKERS_OF_ENGINE,
        (Name::Slurm | Name::Condor, slots) => slots,
    }
}

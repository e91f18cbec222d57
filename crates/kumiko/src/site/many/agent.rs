//! `kumiko agent`: the jobs and calls of one account, as that account. Started by the monitor, with the line to it as standard
//! input.

use crate::args::Agent as Arguments;
use crate::fail::{Failure, While};
use crate::home::Home;
use crate::site::calls;
use crate::site::drained;
use crate::site::edited;
use crate::site::effective::Policies;
use crate::site::fetch;
use crate::site::gram::gram;
use crate::site::many::service;
use crate::site::serve::{end_asked, open_manager, runner};
use crate::site::settings::Settings;
use crate::site::staging::{mover, stock};
use kumiko_gatekeeper::Agent;
use kumiko_linux::spooling::is_locked;
use kumiko_linux::{detach, this_process};
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The agent before this one, whose monitor was killed, closes its log within this.
const OTHER_ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Nothing tells when a lock of flock(2) becomes free but waiting for it, which would take it.
const LOCK_LOOK: Duration = Duration::from_millis(10);

pub async fn agent(given: Arguments, home: &Home) -> Result<u8, Failure> {
    detach::guard()?;
    let monitor = detach::take_stdin()?;
    this_process::raise_open_files()?;
    let settings = Settings::load(home)?;
    let idle_s = settings.accounts.clone().unwrap_or_default().idle_s;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&given.state)
        .doing(|| format!("making {}", given.state.display()))?;
    until_other_ended(&given.state).await?;
    let policies = Policies::load_in(home, &settings, &given.draining, &given.state)?;
    let (organisations, followed) = (policies.organisations(), policies.files());
    let stock = stock(&given.state, settings.stock_bytes);
    let mover = mover(&given.state, home.certificates(), stock.clone())?;
    let state = given.state.clone();
    // How full the engine is no agent tells: there may be hundreds.
    let (manager, _) = open_manager(
        home,
        &settings,
        policies,
        state,
        runner()?,
        Arc::clone(&mover),
    )
    .await?;
    let gram = gram(&settings, &given.state, settings.listen.ip(), mover);
    let agent = Agent::new(
        service(&settings, stock, Some(gram)),
        &home.certificates(),
        given.account,
        Arc::clone(&manager),
    )?;
    let place = calls::Place {
        directory: given.state.join("rpc"),
        policies: Policies::load_in(home, &settings, &given.draining, &given.state)?,
    };
    let calls = calls::open(home, &settings, runner()?, place).await?;
    agent.offer_calls(Arc::clone(&calls) as Arc<dyn kumiko_session::Service>);
    tracing::info!(jobs = manager.stats().live, "the agent serves");
    let followers = (Arc::clone(&manager), Arc::clone(&calls));
    let changed = move || {
        let (manager, calls) = followers.clone();
        async move {
            manager.policies_changed().await;
            calls.policies_changed().await;
        }
    };
    let following = tokio::spawn(edited::follow(followed, changed));
    let draining = [
        tokio::spawn(drained::follow(
            home.drained_hosts(),
            given.state.clone(),
            Arc::clone(&manager),
            |manager| manager.batch(),
            drained::leave_by_jobs,
        )),
        tokio::spawn(drained::follow(
            home.drained_hosts(),
            given.state.join("rpc"),
            Arc::clone(&calls),
            |calls| calls.batch(),
            calls::leave,
        )),
    ];
    let fetching = tokio::spawn(fetch::keep(organisations));
    let has_work = || manager.stats().live > 0 || calls.is_busy();
    let idle_after = Duration::from_secs(idle_s);
    let end = agent
        .run(monitor, idle_after, has_work, end_asked())
        .await?;
    following.abort();
    fetching.abort();
    for task in draining {
        task.abort();
    }
    calls.close().await;
    manager.close().await;
    tracing::info!(?end, "the agent ends; running jobs and calls go on");
    Ok(0)
}

/// Waits for an agent before this one to let go of the account's log.
async fn until_other_ended(state: &Path) -> Result<(), Failure> {
    let path = state.join("lock");
    let begun = Instant::now();
    while begun.elapsed() < OTHER_ENDS_WITHIN {
        match File::options().write(true).open(&path) {
            Ok(lock) if is_locked(&lock)? => tokio::time::sleep(LOCK_LOOK).await,
            _ => return Ok(()), // what is wrong with it is said by whoever needs it
        }
    }
    Ok(())
}

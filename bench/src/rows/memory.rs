//! What a live job costs in memory: the growth of the site's share (Pss) a job, and what a job's runner and the init of
//! its room have for themselves, while many jobs `sleep`.

use super::{connected, job, or_missing, within};
use crate::bench::Bench;
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::proc;
use crate::stats::Unit;
use kumiko_client::Client;
use kumiko_job::contract::JobState;
use kumiko_job::description::JobDescription;
use std::time::Instant;

pub const KEY: &str = "memory";
const SITE: &str = "site, a job";
const RUNNER: &str = "runner, private";
const WITH_INIT: &str = "runner and init, private";
/// As the kernel names a process of /…/kumiko-run.
const RUNNER_NAME: &str = "kumiko-run";
/// As the first process of a room names itself.
const INIT_NAME: &str = "init";
/// Submitted before the first look, so that what a site makes once is not counted as a job's.
const FIRST: usize = 20;
/// The site's growth is looked at after each such part of the jobs: so many samples.
const LOOKS: usize = 10;
/// More runners than this tell nothing new, and each look costs the kernel a walk.
const RUNNERS_LOOKED_AT: usize = 200;

pub fn measure(bench: &Bench) -> Row {
    let goals = vec![
        Goal {
            text: "≤ 20 kB in the site",
            ours: SITE,
            reach: Reach::AtMost { limit: 20e3 },
        },
        Goal {
            text: "≤ 300 kB private in the runner",
            ours: RUNNER,
            reach: Reach::AtMost { limit: 300e3 },
        },
    ];
    or_missing(Row::new(KEY, "Memory of a live job", goals), |row| {
        let (site, client) = connected(bench)?;
        let pid = site.pid()?;
        let begun = Instant::now();
        bench.runtime.block_on(alive(&client, FIRST))?;
        let mut before = share(pid)?;
        let mut live = FIRST;
        let part = (bench.options.live / LOOKS).max(1);
        while live < bench.options.live + FIRST {
            // As many as the machine admits are measured, and what stopped it is said.
            if let Err(failure) = bench.runtime.block_on(alive(&client, part)) {
                row.note(format!("No more than {live} jobs: {failure}"));
                break;
            }
            live += part;
            let now = share(pid)?;
            row.series(SITE, Unit::Bytes)
                .push((now - before) / part as f64);
            before = now;
        }
        row.note(format!(
            "{live} jobs were alive at once, {:.1} s after the first.",
            begun.elapsed().as_secs_f64()
        ));
        runners(row, pid)
    })
}

fn share(site: u32) -> Result<f64, Failure> {
    let memory = proc::memory(site)?.ok_or_else(|| Failure::unexpected("the site is gone"))?;
    Ok(memory.share_bytes as f64)
}

/// Submits so many, and returns when all of them run.
async fn alive(client: &Client, count: usize) -> Result<(), Failure> {
    let said = |e| Failure::said("starting a job that stays alive", &e);
    let mut ids = Vec::new();
    for _ in 0..count {
        let description = JobDescription {
            output: Default::default(),
            ..job("/bin/sleep", &["100000"])
        };
        ids.push(
            within("the submission", client.submit(description, None))
                .await?
                .map_err(said)?,
        );
    }
    for id in ids {
        let mut events = client.watch(id, 0).await.map_err(said)?;
        loop {
            match within("an event", events.next()).await?.map_err(said)? {
                Some(event) if event.state == JobState::Active => break,
                Some(event) if event.outcome.is_none() => {}
                Some(event) => {
                    return Err(Failure::unexpected(format!(
                        "job {id} is no more: {}",
                        event.text
                    )));
                }
                None => return Err(Failure::unexpected(format!("job {id} is gone"))),
            }
        }
    }
    Ok(())
}

/// Each runner that is a child of the site, and the first process of its room below it.
fn runners(row: &mut Row, site: u32) -> Result<(), Failure> {
    let all = proc::all()?;
    let children = |parent: u32, name: &'static str| {
        all.iter()
            .filter(move |p| p.parent == parent && p.name == name)
    };
    for runner in children(site, RUNNER_NAME).take(RUNNERS_LOOKED_AT) {
        let Some(own) = proc::memory(runner.pid)? else {
            continue;
        };
        let mut with = own.private_bytes;
        for init in children(runner.pid, INIT_NAME) {
            with += proc::memory(init.pid)?.map_or(0, |m| m.private_bytes);
        }
        row.series(RUNNER, Unit::Bytes)
            .push(own.private_bytes as f64);
        row.series(WITH_INIT, Unit::Bytes).push(with as f64);
    }
    if children(site, RUNNER_NAME).next().is_none() {
        return Err(Failure::unexpected(format!(
            "no process {RUNNER_NAME} is a child of the site"
        )));
    }
    Ok(())
}

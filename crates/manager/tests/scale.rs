//! Many jobs: what they cost in memory and in commits, how soon an end is told, how long a restart takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{alice, done, open, program, soon};
use kumiko_job::contract::{EventStream, Jobs};
use kumiko_job::id::{AttemptId, JobId};
use std::time::{Duration, Instant};

/// Jobs that live at once; `KUMIKO_JOBS` for more than the default's limit is not useful.
const LIVE_JOBS: u64 = 10_000;
/// What a live job may cost the manager; a site has 20 kB for it all together.
const MOST_BYTES_A_JOB: u64 = 8_000;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

#[tokio::test]
async fn ten_thousand_jobs_live_cheaply_and_a_restart_is_quick() {
    // Twenty thousand folders come and go: not on a disk that writes each of them down.
    let shared = std::path::Path::new("/dev/shm");
    let dir = if shared.is_dir() {
        tempfile::tempdir_in(shared)
    } else {
        tempfile::tempdir()
    }
    .unwrap();
    let mut stage = open(dir.path()).await;
    let (_, spec) = stage.submit(program()).await;
    stage.run(spec.id);
    let before = resident_bytes();
    let start = Instant::now();
    let mut submissions = tokio::task::JoinSet::new();
    for job in 1..LIVE_JOBS {
        let manager = std::sync::Arc::clone(&stage.manager);
        submissions.spawn(async move { manager.submit(&alice(), program(), None).await.unwrap() });
        // So many clients at once.
        if job > 256 {
            let spec = stage.started().await;
            stage.run(spec.id);
        }
    }
    for _ in 0..256 {
        let spec = stage.started().await;
        stage.run(spec.id);
    }
    let submitted = start.elapsed();
    let last = AttemptId {
        job: JobId(LIVE_JOBS),
        epoch: 1,
    };
    let mut watch = stage.manager.watch(&alice(), last.job, 2).await.unwrap();
    soon("the last to run", watch.next()).await.unwrap();
    eprintln!("running after {:?}", start.elapsed());
    let bytes = resident_bytes().saturating_sub(before) / LIVE_JOBS;
    let stats = stage.manager.stats();
    assert_eq!(stats.live as u64, LIVE_JOBS);
    assert!(bytes <= MOST_BYTES_A_JOB, "{bytes} bytes a live job");
    assert!(
        stats.commits < stats.events_recorded / 2,
        "no group commit: {stats:?}"
    );

    let mut delays = Vec::new();
    for job in 1..=200 {
        let mut watch = stage.manager.watch(&alice(), JobId(job), 3).await.unwrap();
        let told = Instant::now();
        stage.end(
            AttemptId {
                job: JobId(job),
                epoch: 1,
            },
            done(),
        );
        soon("an end", watch.next()).await.unwrap();
        delays.push(told.elapsed());
    }
    delays.sort_unstable();

    stage.manager.close().await;
    drop(stage);
    let start = Instant::now();
    let stage = open(dir.path()).await;
    let replayed = start.elapsed();
    for job in 201..=LIVE_JOBS {
        stage.end(
            AttemptId {
                job: JobId(job),
                epoch: 1,
            },
            done(),
        );
    }
    soon("the site to be empty", stage.manager.drain()).await;
    stage.manager.close().await;
    drop(stage);
    let start = Instant::now();
    let stage = open(dir.path()).await;
    let reopened = start.elapsed();
    assert_eq!(
        stage.manager.list(&alice()).await.unwrap().len() as u64,
        LIVE_JOBS
    );
    eprintln!(
        "{LIVE_JOBS} jobs: {bytes} bytes each, submitted and running in {submitted:?}, {} events in {} commits; \
         end to watcher {:?} median, {:?} worst; replayed live in {replayed:?}, opened with all ended in {reopened:?}",
        stats.events_recorded,
        stats.commits,
        delays[delays.len() / 2],
        delays[delays.len() - 1],
    );
    assert!(replayed < Duration::from_secs(20) && reopened < Duration::from_secs(2));
}

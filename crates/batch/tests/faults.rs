//! What goes wrong around a real engine while attempts run: the disk of the spools is full, the engine is down, or hangs, when
//! it is to take one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{OwnCondor, OwnSlurm, Record, SmallDisk, id, pilots, script, until};
use kumiko_job::attempt::{AttemptCommand, AttemptSpec, Outcome};
use kumiko_job::contract::{BatchError, BatchSystem};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const WELL: Outcome = Outcome::Exited { status: 0 };
/// Until it is told to go on.
const WAITS: &str = "echo up; while [ ! -e go ]; do sleep 0.02; done";

// signal(7).
const STOP: i32 = 19;
const CONTINUE: i32 = 18;

/// Counts its starts, and waits.
fn counted(top: &Path, job: u64) -> AttemptSpec {
    script(top, job, &format!("echo x >> ran; {WAITS}"))
}

fn once_each(top: &Path, jobs: RangeInclusive<u64>) {
    for job in jobs {
        let ran = std::fs::read_to_string(top.join(format!("job-{job}/ran"))).unwrap();
        assert_eq!(ran, "x\n", "{job}");
    }
}

fn go(top: &Path, job: u64) {
    std::fs::write(top.join(format!("job-{job}/go")), "").unwrap();
}

/// The spools are on a disk of 2 MiB.
async fn what_becomes_of_a_full_disk(system: &impl BatchSystem, record: &Record, top: &Path) {
    let quiet = format!("{WAITS}; exit 3");
    system.start(script(top, 1, &quiet)).await.unwrap();
    record.printed(id(1), 3).await;
    let loud = "head -c 4000000 /dev/zero; exit 0";
    system.start(script(top, 2, loud)).await.unwrap();
    match record.ended(id(2)).await {
        Outcome::SpoolFailed { message } => assert!(message.contains("No space"), "{message}"),
        other => panic!("{other:?}"),
    }
    let refused = system.start(script(top, 3, "exit 0")).await;
    assert!(
        matches!(refused, Err(BatchError::Spool { .. })),
        "{refused:?}"
    );
    // One that writes nothing more ends as it would have, and its end is kept.
    go(top, 1);
    assert_eq!(record.ended(id(1)).await, Outcome::Exited { status: 3 });
    system.forget(id(2)).await;
    system.start(script(top, 4, "exit 0")).await.unwrap();
    assert_eq!(record.ended(id(4)).await, WELL);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_what_writes_to_it_and_is_told_to_what_comes() {
    let test = "a_full_disk_ends_what_writes_to_it_and_is_told_to_what_comes";
    let Some(f) = OwnSlurm::new(test, &[]) else {
        return;
    };
    let Some(disk) = SmallDisk::mount(f.top().join("spools")) else {
        return kumiko_testkit::skip(test, "the right to mount a small tmpfs (root)");
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    what_becomes_of_a_full_disk(&system, &record, f.top()).await;
    drop(system);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pilot_outlives_a_full_disk() {
    let test = "a_pilot_outlives_a_full_disk";
    let Some(f) = OwnSlurm::new(test, &[]) else {
        return;
    };
    let root = f.top().join("spools");
    let Some(disk) = SmallDisk::mount(root.clone()) else {
        return kumiko_testkit::skip(test, "the right to mount a small tmpfs (root)");
    };
    let record = Arc::new(Record::default());
    let system = f.piloted(record.clone(), pilots(0, 1, 4));
    what_becomes_of_a_full_disk(&system, &record, f.top()).await;
    let given = std::fs::read_to_string(root.join("4.1/pilot")).unwrap();
    assert!(given.starts_with("1 "), "the same one: {given}");
    drop(system);
    common::end_pilots(&root);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_slurms_controller_may_have_heard_before_it_hung_runs_once() {
    const DEADLINE: Duration = Duration::from_secs(3);
    let test = "what_slurms_controller_may_have_heard_before_it_hung_runs_once";
    let Some(f) = OwnSlurm::new(test, &[]) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open_by(record.clone(), |tools| tools.within(DEADLINE));
    system.start(counted(f.top(), 1)).await.unwrap();
    record.printed(id(1), 3).await;
    let pid = std::fs::read_to_string(f.engine.directory.path().join("slurmctld.pid"));
    let controller = pid.unwrap().trim().parse().unwrap();
    common::signal(controller, STOP);
    // `sbatch` has connected, and what it asked for waits to be read.
    system.start(counted(f.top(), 2)).await.unwrap();
    let held = || {
        let waits = system.waits(id(2));
        waits.is_some_and(|why| why.contains("slurm says nothing"))
    };
    until(held).await;
    go(f.top(), 1);
    assert_eq!(record.ended(id(1)).await, WELL);
    common::signal(controller, CONTINUE);
    record.printed(id(2), 3).await;
    go(f.top(), 2);
    assert_eq!(record.ended(id(2)).await, WELL);
    for job in [1, 2] {
        system.command(id(job), AttemptCommand::Settled).await;
    }
    // Whatever it made of what it heard has come to its end by then.
    let queue = ["--noheader", "--states=PENDING,RUNNING,COMPLETING"];
    until(|| {
        let said = f.engine.command("squeue").args(queue).output().unwrap();
        said.status.success() && said.stdout.is_empty()
    })
    .await;
    once_each(f.top(), 1..=2);
}

/// A child of a process, by its name.
fn child(parent: u32, name: &str) -> u32 {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.split_once(") ").is_some_and(|(before, behind)| {
            let of = behind.split(' ').nth(1).and_then(|word| word.parse().ok());
            before.ends_with(name) && of == Some(parent)
        })
    };
    pids.find(is_it).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_condors_schedd_misses_while_it_is_down_runs_once_when_it_is_back() {
    let test = "what_condors_schedd_misses_while_it_is_down_runs_once_when_it_is_back";
    // The master starts it again a second after it has seen it die.
    let soon = "MASTER_BACKOFF_CONSTANT = 1\nMASTER_BACKOFF_CEILING = 2\n";
    let Some(f) = OwnCondor::new(test, soon) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    for job in [1, 2] {
        system.start(counted(f.top(), job)).await.unwrap();
        record.printed(id(job), 3).await;
    }
    let master = std::fs::read_to_string(f.engine.directory.path().join("run/master.pid"));
    let master: u32 = master.unwrap().trim().parse().unwrap();
    common::signal(master, STOP);
    common::signal(child(master, "condor_schedd"), 9);
    // Its end is the runner's to tell.
    go(f.top(), 1);
    assert_eq!(record.ended(id(1)).await, WELL);
    system.start(counted(f.top(), 3)).await.unwrap();
    let held = || {
        let waits = system.waits(id(3));
        waits.is_some_and(|why| why.contains("condor says nothing"))
    };
    until(held).await;
    common::signal(master, CONTINUE);
    record.printed(id(3), 3).await;
    for job in [2, 3] {
        go(f.top(), job);
        assert_eq!(record.ended(id(job)).await, WELL, "{job}");
    }
    once_each(f.top(), 1..=3);
}

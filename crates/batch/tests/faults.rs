//! What goes wrong around a real Slurm while attempts run: the disk of the spools is full, its controller hangs when it is to
//! take one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::waiting::{counted, go, once_each, what_becomes_of_a_full_disk};
use common::{OwnSlurm, Record, SmallDisk, id, pilots, until};
use kumiko_job::attempt::{AttemptCommand, Outcome};
use kumiko_job::contract::BatchSystem;
use std::sync::Arc;
use std::time::Duration;

const WELL: Outcome = Outcome::Exited { status: 0 };
// signal(7).
const STOP: i32 = 19;
const CONTINUE: i32 = 18;

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

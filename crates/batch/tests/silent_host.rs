//! A host of a real Slurm that falls silent: its cable is pulled, in a network of its own. What runs there runs once, what has not
//! begun there does not begin later.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{OwnSlurm, Record, id, pilots, script, until};
use kumiko_batch::engine::Cluster;
use kumiko_batch::engine::drained::Drained;
use kumiko_batch::slurm::Commands;
use kumiko_job::attempt::{AttemptReport, AttemptSpec, EngineCause, NOT_BEGUN, Outcome};
use kumiko_job::contract::BatchSystem;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::Arc;

const WELL: Outcome = Outcome::Exited { status: 0 };

/// Two hosts, neither of which Slurm gives up by itself (how long that takes it is its own), or takes back by itself: an answer may
/// be under way when a cable is pulled.
fn two_hosts(test: &str) -> Option<OwnSlurm> {
    let settings = [
        ("SLURM_NETWORKS", "yes"),
        ("SLURM_HOSTS", "2"),
        ("SLURM_HOST_TIMEOUT", "300"),
        ("SLURM_SETTINGS", "ReturnToService=0"),
    ];
    OwnSlurm::new(test, &settings)
}

/// Counts its starts, and runs until it is told.
fn counted(f: &OwnSlurm, job: u64) -> AttemptSpec {
    let text = "echo x >> ran; echo up; while [ ! -e go ]; do sleep 0.02; done";
    script(f.top(), job, text)
}

/// How often it was started.
fn starts(f: &OwnSlurm, job: u64) -> usize {
    let ran = std::fs::read_to_string(f.top().join(format!("job-{job}/ran")));
    ran.unwrap_or_default().lines().count()
}

/// From now on these hosts are drained, and no others.
async fn drain(system: &Cluster<Drained<Commands>>, hosts: &[&str]) {
    let hosts: BTreeSet<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    assert_eq!(system.drain(&hosts).await.unwrap(), hosts);
}

async fn never_began(record: &Record, job: u64) {
    match record.ended(id(job)).await {
        Outcome::NeverStarted { code, message } => assert_eq!(code, NOT_BEGUN, "{message}"),
        other => panic!("{other:?}"),
    }
}

/// Pulls a host's cable (`down`), or puts it back (`up`).
fn cable(f: &OwnSlurm, host: &str, state: &str) {
    let link = host.replace('n', "host");
    let line = ["ip", "link", "set", &link, state];
    let done = f.engine.command("at-controller").args(line).status();
    assert!(done.unwrap().success(), "{link} {state}");
}

fn said(f: &OwnSlurm, program: &str, line: &[impl AsRef<OsStr>]) -> String {
    let output = f.engine.command(program).args(line).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Arguments of `squeue`: a line for each job in this state on a host.
fn at(host: &str, state: &str) -> [String; 4] {
    let (states, list) = (format!("--states={state}"), format!("--nodelist={host}"));
    [
        "--noheader".to_owned(),
        "--format=%N".to_owned(),
        states,
        list,
    ]
}

/// What an administrator says of a host.
fn administer(f: &OwnSlurm, host: &str, words: &[&str]) {
    let host = format!("NodeName={host}");
    let mut line = f.engine.command("scontrol");
    let done = line.arg("update").arg(host).args(words).status();
    assert!(done.unwrap().success(), "{words:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_falls_silent_and_comes_back_runs_nothing_twice_and_nothing_late() {
    let test = "a_host_that_falls_silent_and_comes_back_runs_nothing_twice_and_nothing_late";
    let Some(f) = two_hosts(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.drainable(record.clone());
    system.start(counted(&f, 1)).await.unwrap();
    record.printed(id(1), 3).await;
    let host = said(&f, "squeue", &["--noheader", "--format=%N"]);
    drain(&system, &[if host == "n1" { "n2" } else { "n1" }]).await;
    cable(&f, &host, "down");
    // Slurm does not know yet, and gives it that host.
    system.start(counted(&f, 2)).await.unwrap();
    until(|| said(&f, "squeue", &at(&host, "R")).lines().count() == 2).await;
    administer(&f, &host, &["State=DOWN", "Reason=silent"]);
    never_began(&record, 2).await;
    // The other is given up by Slurm, but its runner lives: it has not ended.
    let ended = |report: &AttemptReport| matches!(report, AttemptReport::Ended(_));
    assert!(
        !record.of(id(1)).iter().any(ended),
        "{:?}",
        record.of(id(1))
    );
    cable(&f, &host, "up");
    administer(&f, &host, &["State=RESUME"]);
    // Slurm ends what it has given up, once it reaches the host again.
    match record.ended(id(1)).await {
        Outcome::EngineEnded { cause, .. } => assert_eq!(cause, EngineCause::HostLost),
        other => panic!("{other:?}"),
    }
    drain(&system, &[]).await;
    system.start(script(f.top(), 3, "exit 0")).await.unwrap();
    assert_eq!(record.ended(id(3)).await, WELL);
    assert_eq!(starts(&f, 1), 1);
    assert_eq!(starts(&f, 2), 0, "it was over before the host came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pilot_on_a_silent_host_runs_nothing_twice_and_another_takes_what_comes() {
    let test = "a_pilot_on_a_silent_host_runs_nothing_twice_and_another_takes_what_comes";
    let Some(f) = two_hosts(test) else {
        return;
    };
    let root = f.top().join("spools");
    let record = Arc::new(Record::default());
    let system = f.piloted(record.clone(), pilots(0, 2, 1));
    system.start(counted(&f, 1)).await.unwrap();
    record.printed(id(1), 3).await;
    let host = said(&f, "squeue", &["--noheader", "--format=%N"]);
    cable(&f, &host, "down");
    administer(&f, &host, &["State=DOWN", "Reason=silent"]);
    system.start(counted(&f, 2)).await.unwrap();
    record.printed(id(2), 3).await;
    let given = std::fs::read_to_string(root.join("2.1/pilot")).unwrap();
    assert!(given.starts_with("2 "), "{given}");
    // The runner in the first lives, whatever Slurm says of its pilot.
    let ended = |report: &AttemptReport| matches!(report, AttemptReport::Ended(_));
    assert!(!record.of(id(1)).iter().any(ended));
    cable(&f, &host, "up");
    administer(&f, &host, &["State=RESUME"]);
    match record.ended(id(1)).await {
        Outcome::EngineEnded { cause, .. } => assert_eq!(cause, EngineCause::HostLost),
        other => panic!("{other:?}"),
    }
    // There is room for one in its place.
    system.start(counted(&f, 3)).await.unwrap();
    record.printed(id(3), 3).await;
    for job in [2, 3] {
        std::fs::write(f.top().join(format!("job-{job}/go")), "").unwrap();
        assert_eq!(record.ended(id(job)).await, WELL);
    }
    for job in 1..=3 {
        assert_eq!(starts(&f, job), 1, "{job}");
    }
    common::end_pilots(&root);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_begun_on_a_host_that_is_drained_is_over_there_at_once() {
    let test = "what_has_not_begun_on_a_host_that_is_drained_is_over_there_at_once";
    let Some(f) = two_hosts(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.drainable(record.clone());
    drain(&system, &["n2"]).await;
    cable(&f, "n1", "down");
    system.start(counted(&f, 1)).await.unwrap();
    until(|| said(&f, "squeue", &["--noheader", "--format=%N"]) == "n1").await;
    drain(&system, &["n1"]).await;
    never_began(&record, 1).await;
    // The next attempt of the job.
    let mut again = counted(&f, 1);
    again.id.epoch += 1;
    let second = again.id;
    system.start(again).await.unwrap();
    record.printed(second, 3).await;
    assert_eq!(said(&f, "squeue", &at("n2", "R")), "n2");
    cable(&f, "n1", "up");
    drain(&system, &[]).await;
    std::fs::write(f.top().join("job-1/go"), "").unwrap();
    assert_eq!(record.ended(second).await, WELL);
    assert_eq!(starts(&f, 1), 1);
}

//! What goes wrong around a real HTCondor while attempts run: the disk of the spools is full, its schedd is down, or hangs, when it is to
//! take one, its tools lie, a pilot dies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::waiting::{counted, go, once_each, what_becomes_of_a_full_disk};
use common::{OwnCondor, Record, SmallDisk, id, pilots, script, until};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome};
use kumiko_job::contract::BatchSystem;
use kumiko_job::description::Resources;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

const WELL: Outcome = Outcome::Exited { status: 0 };

// signal(7).
const KILL: i32 = 9;
const STOP: i32 = 19;
const CONTINUE: i32 = 18;

fn master(f: &OwnCondor) -> u32 {
    let master = std::fs::read_to_string(f.engine.directory.path().join("run/master.pid"));
    master.unwrap().trim().parse().unwrap()
}

/// Children of a process, by their name.
fn children(parent: u32, name: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.split_once(") ").is_some_and(|(before, behind)| {
            let of = behind.split(' ').nth(1).and_then(|word| word.parse().ok());
            before.ends_with(name) && of == Some(parent)
        })
    };
    pids.filter(is_it).collect()
}

/// A process that is stopped as long as this is kept: a pool whose daemons stay so does not end.
struct Stopped(u32);

impl Stopped {
    fn new(pid: u32) -> Stopped {
        common::signal(pid, STOP);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        common::signal(self.0, CONTINUE);
    }
}

fn schedd(f: &OwnCondor) -> u32 {
    children(master(f), "condor_schedd")[0]
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
    let stopped = Stopped::new(master(&f));
    common::signal(schedd(&f), KILL);
    // Its end is the runner's to tell.
    go(f.top(), 1);
    assert_eq!(record.ended(id(1)).await, WELL);
    system.start(counted(f.top(), 3)).await.unwrap();
    let held = || {
        let waits = system.waits(id(3));
        waits.is_some_and(|why| why.contains("condor says nothing"))
    };
    until(held).await;
    drop(stopped);
    record.printed(id(3), 3).await;
    for job in [2, 3] {
        go(f.top(), job);
        assert_eq!(record.ended(id(job)).await, WELL, "{job}");
    }
    once_each(f.top(), 1..=3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_condors_schedd_may_have_heard_before_it_hung_runs_once() {
    let test = "what_condors_schedd_may_have_heard_before_it_hung_runs_once";
    let Some(f) = OwnCondor::new(test, "") else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open_by(record.clone(), |tools| tools.within(Duration::from_secs(3)));
    system.start(counted(f.top(), 1)).await.unwrap();
    record.printed(id(1), 3).await;
    let stopped = Stopped::new(schedd(&f));
    // `condor_submit` has connected, and what it asked for waits to be read.
    system.start(counted(f.top(), 2)).await.unwrap();
    let held = || {
        let waits = system.waits(id(2));
        waits.is_some_and(|why| why.contains("condor says nothing"))
    };
    until(held).await;
    go(f.top(), 1);
    assert_eq!(record.ended(id(1)).await, WELL);
    drop(stopped);
    record.printed(id(2), 3).await;
    go(f.top(), 2);
    assert_eq!(record.ended(id(2)).await, WELL);
    for job in [1, 2] {
        system.command(id(job), AttemptCommand::Settled).await;
    }
    // Whatever it made of what it heard has come to its end by then.
    until(|| {
        let mut line = f.engine.command("condor_q");
        let said = line.args(["-af", "ClusterId"]).output().unwrap();
        said.status.success() && said.stdout.is_empty()
    })
    .await;
    once_each(f.top(), 1..=2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_what_writes_to_it_and_is_told_to_what_comes_to_condor() {
    let test = "a_full_disk_ends_what_writes_to_it_and_is_told_to_what_comes_to_condor";
    let Some(f) = OwnCondor::new(test, "") else {
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
async fn a_condor_q_that_prints_garbage_ends_nothing_of_a_real_condor() {
    let test = "a_condor_q_that_prints_garbage_ends_nothing_of_a_real_condor";
    let Some(f) = OwnCondor::new(test, "") else {
        return;
    };
    // Before HTCondor's own in PATH.
    let own = f.top().join("tools");
    std::fs::create_dir(&own).unwrap();
    let condor_q = "#!/bin/sh\n[ -e \"${0%/*}/garbage\" ] && exec head -c 4096 /dev/urandom\nPATH=${PATH#*:} exec condor_q \"$@\"\n";
    std::fs::write(own.join("condor_q"), condor_q).unwrap();
    std::fs::set_permissions(own.join("condor_q"), Permissions::from_mode(0o755)).unwrap();
    let mut path = own.clone().into_os_string();
    path.push(":");
    path.push(f.engine.directory.path().join("bin"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let record = Arc::new(Record::default());
    let system = f.open_by(record.clone(), |tools| tools.with("PATH", &path));
    system.start(counted(f.top(), 1)).await.unwrap();
    record.printed(id(1), 3).await;
    // No host has so many: it waits in the queue.
    let waits_for_ever = AttemptSpec {
        resources: Resources {
            cpus: Some(4000),
            ..Resources::default()
        },
        ..counted(f.top(), 2)
    };
    system.start(waits_for_ever).await.unwrap();
    std::fs::write(own.join("garbage"), "").unwrap();
    let says = |words: &str| system.waits(id(2)).is_some_and(|why| why.contains(words));
    until(|| says("not an answer")).await;
    go(f.top(), 1);
    assert_eq!(record.ended(id(1)).await, WELL);
    assert_eq!(record.of(id(2)), []);
    std::fs::remove_file(own.join("garbage")).unwrap();
    until(|| says("condor says") && !says("not an answer")).await;
    assert_eq!(record.of(id(2)), []);
    system
        .command(id(2), AttemptCommand::Cancel { grace_ms: 0 })
        .await;
    match record.ended(id(2)).await {
        Outcome::NeverStarted { .. } | Outcome::Cancelled => {}
        other => panic!("{other:?}"),
    }
    once_each(f.top(), 1..=1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pilot_of_condors_takes_along_is_told_and_the_next_has_another_pilot() {
    let test = "what_a_pilot_of_condors_takes_along_is_told_and_the_next_has_another_pilot";
    let Some(f) = OwnCondor::new(test, "") else {
        return;
    };
    let root = f.top().join("spools");
    let record = Arc::new(Record::default());
    let system = f.piloted(record.clone(), pilots(0, 1, 2));
    system.start(counted(f.top(), 1)).await.unwrap();
    record.printed(id(1), 3).await;
    let pilot =
        |job| std::fs::read_to_string(root.join(id(job).to_string()).join("pilot")).unwrap();
    let first = pilot(1);
    common::end_pilots(&root);
    match record.ended(id(1)).await {
        Outcome::Lost { .. } | Outcome::EngineEnded { .. } => {}
        other => panic!("{other:?}"),
    }
    system.command(id(1), AttemptCommand::Settled).await;
    system.start(counted(f.top(), 2)).await.unwrap();
    record.printed(id(2), 3).await;
    assert_ne!(first, pilot(2));
    go(f.top(), 2);
    assert_eq!(record.ended(id(2)).await, WELL);
    once_each(f.top(), 1..=2);
    common::end_pilots(&root);
}

/// A claim that nothing is heard of is given up within seconds.
const SOON_GIVEN_UP: &str =
    "JOB_DEFAULT_LEASE_DURATION = 6\nALIVE_INTERVAL = 2\nMAX_CLAIM_ALIVES_MISSED = 2\n";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "HTCondor gives a host up after half a minute"]
async fn a_host_that_condor_loses_and_has_again_runs_nothing_twice() {
    let test = "a_host_that_condor_loses_and_has_again_runs_nothing_twice";
    let Some(f) = OwnCondor::new(test, SOON_GIVEN_UP) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    system.start(counted(f.top(), 1)).await.unwrap();
    record.printed(id(1), 3).await;
    // All that HTCondor has on that host; not what it started there.
    let master = master(&f);
    let startds = children(master, "condor_startd").into_iter();
    let mut busy = startds.map(|startd| (startd, children(startd, "condor_starter")));
    let (startd, starters) = busy.find(|(_, starters)| !starters.is_empty()).unwrap();
    let stopped = Stopped::new(master);
    // A startd that sees its starter die ends what that one left behind.
    let each = |signal| starters.iter().for_each(|pid| common::signal(*pid, signal));
    each(STOP);
    common::signal(startd, KILL);
    each(KILL);
    // It has given that host up, and would begin anew on the other.
    let log = f.top().join(format!("spools/{}/condor.log", id(1)));
    until(|| {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        said.contains("Job was evicted")
    })
    .await;
    let ended = |report: &AttemptReport| matches!(report, AttemptReport::Ended(_));
    assert!(!record.of(id(1)).iter().any(ended), "its runner lives");
    go(f.top(), 1);
    assert_eq!(record.ended(id(1)).await, WELL);
    drop(stopped);
    system.command(id(1), AttemptCommand::Settled).await;
    system.start(script(f.top(), 2, "exit 0")).await.unwrap();
    assert_eq!(record.ended(id(2)).await, WELL);
    once_each(f.top(), 1..=1);
}

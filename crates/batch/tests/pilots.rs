//! Pilots on a real Slurm: they are killed, their site is, and they are found again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Fixture, OwnSlurm, PilotedSlurmFixture, Record, id, pilots, script, until};
use kumiko_job::attempt::{AttemptCommand, AttemptSpec, EngineCause, Outcome};
use kumiko_job::contract::BatchSystem;
use kumiko_job::description::Resources;
use std::path::Path;
use std::sync::Arc;

const WELL: Outcome = Outcome::Exited { status: 0 };
/// Says in whose slot it is, and runs until it is told.
const WAITS: &str = "echo up; while [ ! -e go ]; do sleep 0.02; done";

/// The places of pilots among the spools.
fn places(root: &Path) -> Vec<String> {
    let names = std::fs::read_dir(root).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("pilot-"))
        .collect();
    names.sort();
    names
}

/// The attempt's end, which is settled then: its runner waits for that.
async fn ended(system: &impl BatchSystem, record: &Record, job: u64) -> Outcome {
    let outcome = record.ended(id(job)).await;
    system.command(id(job), AttemptCommand::Settled).await;
    outcome
}

/// Which pilot has the attempt.
fn pilot_of(root: &Path, job: u64) -> String {
    let given = std::fs::read_to_string(root.join(id(job).to_string()).join("pilot")).unwrap();
    given.split(' ').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pilot_takes_one_attempt_after_the_other_and_many_at_once() {
    let test = "one_pilot_takes_one_attempt_after_the_other_and_many_at_once";
    let Some(f) = PilotedSlurmFixture::new(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open_with(record.clone(), pilots(0, 1, 2));
    for job in 1..=3 {
        system.start(script(f.top(), job, "exit 0")).await.unwrap();
        assert_eq!(ended(&system, &record, job).await, WELL);
    }
    for job in 4..=6 {
        system.start(script(f.top(), job, WAITS)).await.unwrap();
    }
    record.printed(id(4), 3).await;
    record.printed(id(5), 3).await;
    // There is room for two, and a word for the third.
    until(|| {
        system
            .waits(id(6))
            .is_some_and(|why| why.contains("waits for a pilot"))
    })
    .await;
    std::fs::write(f.top().join("job-4/go"), "").unwrap();
    assert_eq!(ended(&system, &record, 4).await, WELL);
    record.printed(id(6), 3).await;
    assert_eq!(places(&f.root()), ["pilot-1"]);
    // What needs more than processors is the engine's own business.
    let other = AttemptSpec {
        resources: Resources {
            queue: Some("urgent".into()),
            ..Resources::default()
        },
        ..script(f.top(), 7, "exit 0")
    };
    system.start(other).await.unwrap();
    assert_eq!(ended(&system, &record, 7).await, WELL);
    assert!(!f.root().join("7.1/pilot").exists());
    for job in 5..=6 {
        std::fs::write(f.top().join(format!("job-{job}/go")), "").unwrap();
        assert_eq!(ended(&system, &record, job).await, WELL);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pilots_and_what_they_hold_outlive_their_site() {
    let Some(f) = PilotedSlurmFixture::new("pilots_and_what_they_hold_outlive_their_site") else {
        return;
    };
    let record = Arc::new(Record::default());
    let one = || pilots(1, 1, 1);
    let system = f.open_with(record.clone(), one());
    for job in 1..=3 {
        system.start(script(f.top(), job, WAITS)).await.unwrap();
    }
    record.printed(id(1), 3).await;
    drop(system);
    std::fs::write(f.top().join("job-1/go"), "").unwrap();
    let record = Arc::new(Record::default());
    let system = f.open_with(record.clone(), one());
    for job in 1..=3 {
        system.adopt(id(job)).await;
    }
    assert_eq!(ended(&system, &record, 1).await, WELL);
    // Those that waited have their turn as they came.
    record.printed(id(2), 3).await;
    assert!(record.of(id(3)).is_empty());
    std::fs::write(f.top().join("job-2/go"), "").unwrap();
    assert_eq!(ended(&system, &record, 2).await, WELL);
    record.printed(id(3), 3).await;
    std::fs::write(f.top().join("job-3/go"), "").unwrap();
    assert_eq!(ended(&system, &record, 3).await, WELL);
    assert_eq!(places(&f.root()), ["pilot-1"]);
}

/// The process of the pilot in this place: runners in it are copies of it, and its children.
fn process_of(place: &Path) -> i32 {
    let wanted = format!("--pilot\0{}\0", place.display());
    let mut all: Vec<(i32, i32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        if !String::from_utf8_lossy(&read("cmdline")).ends_with(&wanted) {
            continue;
        }
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let behind = stat.rsplit(") ").next().unwrap_or_default();
        let parent = behind.split(' ').nth(1).and_then(|word| word.parse().ok());
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        all.extend(pid.zip(parent));
    }
    // What the engine started it by has other words before these.
    let is_copy = |parent: i32| all.iter().any(|(pid, _)| *pid == parent);
    let own: Vec<i32> = all
        .iter()
        .filter(|(pid, parent)| {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            exe.ends_with("kumiko-run") && !is_copy(*parent)
        })
        .map(|(pid, _)| *pid)
        .collect();
    assert_eq!(own.len(), 1, "{all:?}");
    own[0]
}

fn signal(pid: i32, name: &str) {
    let line = [format!("-{name}"), pid.to_string()];
    let killed = std::process::Command::new("kill").args(line).status();
    assert!(killed.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stopped_pilot_has_not_begun_runs_in_another_and_once() {
    let test = "what_a_stopped_pilot_has_not_begun_runs_in_another_and_once";
    let Some(f) = PilotedSlurmFixture::new(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open_with(record.clone(), pilots(0, 2, 2));
    system.start(script(f.top(), 1, WAITS)).await.unwrap();
    record.printed(id(1), 3).await;
    let stopped = process_of(&f.root().join("pilot-1"));
    signal(stopped, "STOP");
    let counts = format!("echo once >> count; {WAITS}");
    system.start(script(f.top(), 2, &counts)).await.unwrap();
    assert_eq!(pilot_of(&f.root(), 2), "1");
    record.printed(id(2), 3).await;
    assert_eq!(pilot_of(&f.root(), 2), "2");
    // It is told to start that, too, once it goes on; and nothing happened to what it had begun.
    signal(stopped, "CONT");
    system
        .start(script(f.top(), 3, "echo third"))
        .await
        .unwrap();
    assert_eq!(ended(&system, &record, 3).await, WELL);
    for job in [1, 2] {
        std::fs::write(f.top().join(format!("job-{job}/go")), "").unwrap();
        assert_eq!(ended(&system, &record, job).await, WELL);
    }
    let count = std::fs::read_to_string(f.top().join("job-2/count")).unwrap();
    assert_eq!(count, "once\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_pilot_takes_along_is_told_and_the_next_has_another_pilot() {
    let test = "what_its_pilot_takes_along_is_told_and_the_next_has_another_pilot";
    let Some(f) = OwnSlurm::new(test, &[]) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.piloted(record.clone(), pilots(0, 1, 2));
    let root = f.top().join("spools");
    for job in 1..=3 {
        system.start(script(f.top(), job, WAITS)).await.unwrap();
    }
    record.printed(id(1), 3).await;
    record.printed(id(2), 3).await;
    let first = pilot_of(&root, 1);
    // By its operator: all that run in it, with a cause.
    let tag = std::fs::read_to_string(root.join("site")).unwrap();
    let name = format!("kumiko-{}-pilot-{first}", tag.trim());
    let done = f.engine.command("scancel").args(["--name", &name]).status();
    assert!(done.unwrap().success());
    for job in 1..=2 {
        match ended(&system, &record, job).await {
            Outcome::EngineEnded { cause, .. } => assert_eq!(cause, EngineCause::Removed),
            other => panic!("{other:?}"),
        }
    }
    record.printed(id(3), 3).await;
    let second = pilot_of(&root, 3);
    assert_ne!(first, second);
    // And a pilot that dies: its runners die with it, which is said.
    common::end_pilots(&root);
    match ended(&system, &record, 3).await {
        Outcome::Lost { .. } | Outcome::EngineEnded { .. } => {}
        other => panic!("{other:?}"),
    }
    system.start(script(f.top(), 4, "exit 0")).await.unwrap();
    assert_eq!(ended(&system, &record, 4).await, WELL);
    common::end_pilots(&root);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_longer_than_pilots_is_the_engines_own_business() {
    let test = "what_is_longer_than_pilots_is_the_engines_own_business";
    let Some(f) = PilotedSlurmFixture::new(test) else {
        return;
    };
    let record = Arc::new(Record::default());
    // Slurm counts in minutes: two.
    let mut two = pilots(0, 1, 2);
    two.size.time_ms = Some(110_000);
    let system = f.open_with(record.clone(), two);
    let limited = |job, limit_ms| AttemptSpec {
        time_limit_ms: Some(limit_ms),
        grace_ms: 0,
        ..script(f.top(), job, "exit 0")
    };
    system.start(script(f.top(), 1, WAITS)).await.unwrap();
    record.printed(id(1), 3).await;
    // Each with a minute to spare.
    for (job, limit_ms, in_pilot) in [(2, 1_000, true), (3, 61_000, false)] {
        system.start(limited(job, limit_ms)).await.unwrap();
        assert_eq!(ended(&system, &record, job).await, WELL);
        let given = f.root().join(id(job).to_string()).join("pilot");
        assert_eq!(given.exists(), in_pilot, "{limit_ms}");
    }
    std::fs::write(f.top().join("job-1/go"), "").unwrap();
    assert_eq!(ended(&system, &record, 1).await, WELL);
}

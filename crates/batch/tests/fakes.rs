//! Faults of an engine and of its tools, on a fake Slurm first in PATH: down, hanging, printing garbage, saying anything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{FakeFixture, Fixture, Record, id, script, until};
use kumiko_job::attempt::{AttemptCommand, AttemptSpec, EngineCause, NOT_BEGUN, Outcome};
use kumiko_job::contract::{BatchError, BatchSystem};
use kumiko_job::description::Resources;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const WELL: Outcome = Outcome::Exited { status: 0 };

fn fixture(test: &str) -> Option<(FakeFixture, Arc<Record>)> {
    Some((FakeFixture::new(test)?, Arc::new(Record::default())))
}

/// An attempt that counts its starts; where it does so.
fn counted(fixture: &FakeFixture, job: u64) -> (AttemptSpec, PathBuf) {
    let spec = script(fixture.top(), job, "echo x >> ran");
    let ran = spec.job_directory.join("ran");
    (spec, ran)
}

fn once(ran: &PathBuf) {
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_down_gets_the_attempt_once_it_is_up() {
    let Some((f, record)) = fixture("an_engine_that_is_down_gets_the_attempt_once_it_is_up") else {
        return;
    };
    let system = f.open(record.clone());
    f.fault("down", true);
    let (spec, ran) = counted(&f, 1);
    system.start(spec).await.unwrap();
    until(|| {
        system
            .waits(id(1))
            .is_some_and(|words| words.contains("Unable to contact"))
    })
    .await;
    assert_eq!(record.of(id(1)), []);
    f.fault("down", false);
    assert_eq!(record.ended(id(1)).await, WELL);
    once(&ran);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cancelled_while_its_engine_is_down_ends_at_once_and_never_runs() {
    let Some((f, record)) = fixture("what_is_cancelled_while_its_engine_is_down_ends_at_once")
    else {
        return;
    };
    let system = f.open(record.clone());
    f.fault("hold", true);
    let (accepted, ran) = counted(&f, 1);
    system.start(accepted).await.unwrap();
    f.fault("down", true);
    let (held, never) = counted(&f, 2);
    system.start(held).await.unwrap();
    for job in [1, 2] {
        system
            .command(id(job), AttemptCommand::Cancel { grace_ms: 0 })
            .await;
        assert_eq!(record.ended(id(job)).await, Outcome::Cancelled);
    }
    f.fault("down", false);
    f.fault("hold", false);
    // The engine still had the first: it is told, or runs what does not begin.
    until(|| {
        f.states()
            .iter()
            .all(|state| state != "PENDING" && state != "RUNNING")
    })
    .await;
    assert!(!ran.exists() && !never.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_nothing() {
    let Some((f, record)) = fixture("garbage_ends_nothing") else {
        return;
    };
    let system = f.open(record.clone());
    f.fault("hold", true);
    let (spec, ran) = counted(&f, 1);
    system.start(spec).await.unwrap();
    f.fault("garbage", true);
    until(|| {
        system
            .waits(id(1))
            .is_some_and(|words| words.contains("not an answer"))
    })
    .await;
    assert_eq!(record.of(id(1)), []);
    f.fault("garbage", false);
    f.fault("hold", false);
    assert_eq!(record.ended(id(1)).await, WELL);
    once(&ran);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_hangs_is_killed_and_the_attempt_runs_once() {
    let Some((f, record)) = fixture("a_tool_that_hangs_is_killed_and_the_attempt_runs_once") else {
        return;
    };
    let system = f.open_within(record.clone(), Duration::from_millis(300));
    f.fault("hang", true);
    let (spec, ran) = counted(&f, 1);
    system.start(spec).await.unwrap();
    until(|| {
        system
            .waits(id(1))
            .is_some_and(|words| words.contains("did not answer"))
    })
    .await;
    drop(system);
    f.fault("hang", false);
    let patient = f.open(record.clone());
    patient.adopt(id(1)).await;
    // Nobody knows its tag: it never began, and a later attempt would be made.
    match record.ended(id(1)).await {
        Outcome::NeverStarted { code, .. } => assert_eq!(code, NOT_BEGUN),
        other => panic!("{other:?}"),
    }
    assert!(!ran.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_engine_took_before_the_site_died_is_found_by_its_tag() {
    let Some((f, record)) = fixture("what_the_engine_took_before_the_site_died_is_found") else {
        return;
    };
    f.fault("hold", true);
    let (spec, ran) = counted(&f, 1);
    let before = f.open(record.clone());
    before.start(spec).await.unwrap();
    drop(before);
    let after = f.open(record.clone());
    after.adopt(id(1)).await;
    until(|| {
        after
            .waits(id(1))
            .is_some_and(|words| words == "slurm says PENDING")
    })
    .await;
    assert_eq!(record.of(id(1)), []);
    f.fault("hold", false);
    assert_eq!(record.ended(id(1)).await, WELL);
    once(&ran);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_with_the_engines_words_and_leaves_nothing() {
    let Some((f, record)) = fixture("a_refusal_is_told_with_the_engines_words") else {
        return;
    };
    let system = f.open(record);
    let spec = AttemptSpec {
        resources: Resources {
            queue: Some("nope".into()),
            ..Resources::default()
        },
        ..counted(&f, 1).0
    };
    match system.start(spec).await {
        Err(BatchError::Refused { engine, words }) => {
            assert_eq!(engine, "slurm");
            assert!(words.contains("invalid partition"), "{words}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!system.spool(id(1)).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_engine_says_of_a_killed_attempt_is_its_end() {
    let Some((f, record)) = fixture("what_the_engine_says_of_a_killed_attempt_is_its_end") else {
        return;
    };
    let system = f.open(record.clone());
    let rows = [
        (1, "TIMEOUT", Some(EngineCause::Limit)),
        (2, "OUT_OF_MEMORY", Some(EngineCause::Limit)),
        (3, "PREEMPTED", Some(EngineCause::Preempted)),
        (4, "NODE_FAIL", Some(EngineCause::HostLost)),
        (5, "CANCELLED", Some(EngineCause::Removed)),
        // It was put back into the queue, where it would not run again.
        (6, "PENDING", Some(EngineCause::Evicted)),
        (7, "COMPLETED", None),
    ];
    for (job, _, _) in rows {
        system
            .start(script(f.top(), job, "echo up; exec sleep 600"))
            .await
            .unwrap();
    }
    for (job, state, cause) in rows {
        record.printed(id(job), 3).await;
        f.say("IN_A_STATE_OF_ITS_OWN", &system.spool(id(job)));
        f.kill_runner(record.started(id(job)).await);
        // A word that is not known is kept, and decides nothing.
        until(|| {
            system
                .waits(id(job))
                .is_some_and(|words| words.contains("IN_A_STATE_OF_ITS_OWN"))
        })
        .await;
        f.say(state, &system.spool(id(job)));
        match (record.ended(id(job)).await, cause) {
            (Outcome::EngineEnded { cause, message }, Some(expected)) => {
                assert_eq!(cause, expected, "{state}");
                assert!(message.contains(state), "{message}");
            }
            (Outcome::Lost { .. }, None) => {}
            (other, _) => panic!("{state}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_began_is_worth_another_attempt_only_if_nobody_meant_it() {
    let Some((f, record)) = fixture("what_never_began_is_worth_another_attempt") else {
        return;
    };
    let system = f.open(record.clone());
    f.fault("hold", true);
    let rows = [
        (1, "NODE_FAIL", true),
        (2, "PREEMPTED", true),
        (3, "CANCELLED", false),
        (4, "FAILED", false),
    ];
    for (job, state, again) in rows {
        system.start(counted(&f, job).0).await.unwrap();
        f.say(state, &system.spool(id(job)));
        let not_begun = match record.ended(id(job)).await {
            Outcome::NeverStarted { code, .. } => code == NOT_BEGUN,
            Outcome::EngineEnded { .. } => false,
            other => panic!("{state}: {other:?}"),
        };
        assert_eq!(not_begun, again, "{state}");
    }
    f.fault("hold", false);
}

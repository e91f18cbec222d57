//! Jobs that live only while somebody is attached (spec/jobs J36), through the contract `Jobs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Asked, Stage, alice, bob, open, program};
use kumiko_job::attempt::{AttemptCommand, Outcome};
use kumiko_job::contract::Jobs;
use kumiko_job::description::JobDescription;
use kumiko_job::id::AttemptId;

/// The shortest that there is.
fn attended() -> JobDescription {
    JobDescription {
        attended_s: Some(1),
        grace_ms: Some(321),
        ..program()
    }
}

async fn told_to_end(stage: &mut Stage, attempt: AttemptId) {
    match stage.asked().await {
        Asked::Command(id, AttemptCommand::Cancel { grace_ms: 321 }) => assert_eq!(id, attempt),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_job_that_nobody_attends_is_cancelled_and_explains_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(attended()).await;
    stage.run(spec.id);
    told_to_end(&mut stage, spec.id).await;
    stage.end(spec.id, Outcome::Cancelled);
    let events = stage.events_to_end(id).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let unattended = kinds.iter().position(|kind| *kind == "unattended").unwrap();
    assert_eq!(kinds[unattended + 1], "cancel_requested", "{kinds:?}");
    let story = stage.manager.explain(&alice(), id).await.unwrap();
    assert_eq!(
        story.last().unwrap(),
        "It ended: cancelled, since nobody was attached to it for 1 s."
    );
}

#[tokio::test]
async fn a_restart_counts_anew_and_only_the_owner_attends() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(attended()).await;
    stage.run(spec.id);
    let stranger = stage.manager.attend(&bob(), id).await.err().unwrap();
    assert_eq!(stranger.code, "no_such_job");
    let here = stage.manager.attend(&alice(), id).await.unwrap();
    stage.manager.close().await;
    drop((here, stage));

    let mut stage = open(dir.path()).await;
    assert!(matches!(stage.asked().await, Asked::Adopt(adopted) if adopted == spec.id));
    told_to_end(&mut stage, spec.id).await;
}

//! Jobs that are held until they are released (spec/jobs/together.md, T20 to T25), through the contract `Jobs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Asked, Stage, alice, bob, done, open, program, soon};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, Outcome};
use kumiko_job::contract::Jobs;
use kumiko_job::description::JobDescription;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::together::Together;

fn held(hold_s: u64) -> JobDescription {
    JobDescription {
        together: Some(Box::new(Together {
            request: "r".into(),
            subjob: 0,
            sites: vec!["localhost:2119".into()],
            label: None,
            hold_s: Some(hold_s),
        })),
        ..program()
    }
}

async fn is_told(stage: &mut Stage, attempt: AttemptId, command: AttemptCommand) {
    match stage.asked().await {
        Asked::Command(id, told) => assert_eq!((id, told), (attempt, command)),
        other => panic!("{other:?}"),
    }
}

async fn release(stage: &Stage, job: JobId) -> Result<(), String> {
    let alice = alice();
    let released = stage.manager.command(&alice, job, AttemptCommand::Release);
    released.await.map_err(|refusal| refusal.code)
}

async fn until_held(stage: &Stage, job: JobId) {
    let held = async {
        while !stage.manager.show(&alice(), job).await.unwrap().held {
            tokio::task::yield_now().await;
        }
    };
    soon("the job to be held", held).await;
}

#[tokio::test]
async fn a_release_is_recorded_and_reaches_what_is_held_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(held(600)).await;
    assert_eq!(spec.hold_ms, Some(600_000));
    stage.report(spec.id, AttemptReport::Held);
    until_held(&stage, id).await;
    let bob = bob();
    let stranger = stage.manager.command(&bob, id, AttemptCommand::Release);
    assert_eq!(stranger.await.unwrap_err().code, "no_such_job");
    release(&stage, id).await.unwrap();
    is_told(&mut stage, spec.id, AttemptCommand::Release).await;
    stage.manager.close().await;
    drop(stage);

    let mut stage = open(dir.path()).await;
    assert!(matches!(stage.asked().await, Asked::Adopt(adopted) if adopted == spec.id));
    is_told(&mut stage, spec.id, AttemptCommand::Release).await;
    stage.run(spec.id);
    release(&stage, id).await.unwrap();
    let (plain, _) = stage.submit(program()).await;
    assert_eq!(release(&stage, plain).await.unwrap_err(), "job_not_held");
    stage.end(spec.id, done());
    let events = stage.events_to_end(id).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let all = [
        "submitted",
        "planned",
        "held",
        "released",
        "started",
        "attempt_ended",
    ];
    assert_eq!(kinds, all);
}

#[tokio::test]
async fn one_that_is_released_before_it_is_held_is_told_when_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(held(600)).await;
    release(&stage, id).await.unwrap();
    stage.report(spec.id, AttemptReport::Held);
    is_told(&mut stage, spec.id, AttemptCommand::Release).await;
}

#[tokio::test]
async fn one_that_nobody_holds_on_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(held(1)).await;
    stage.report(spec.id, AttemptReport::Held);
    match stage.asked().await {
        Asked::Command(of, AttemptCommand::Cancel { .. }) => assert_eq!(of, spec.id),
        other => panic!("{other:?}"),
    }
    assert_eq!(release(&stage, id).await.unwrap_err(), "job_ended");
    stage.end(spec.id, Outcome::Cancelled);
    let events = stage.events_to_end(id).await;
    assert!(
        events.iter().any(|event| event.kind == "unattended"),
        "{events:?}"
    );
}

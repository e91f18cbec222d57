//! Jobs that may run again from their start (spec/jobs, J37 to J39): a drained host that is left, also by a site that is killed
//! meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Asked, Stage, alice, done, open, program, soon};
use kumiko_job::attempt::{AttemptCommand, Outcome, OutputStream};
use kumiko_job::contract::{EventStream, JobState, Jobs, OutputReader};
use kumiko_job::description::JobDescription;
use kumiko_job::id::{AttemptId, JobId};
use std::collections::BTreeMap;

fn may_run_again() -> JobDescription {
    JobDescription {
        rerun: true,
        grace_ms: Some(7),
        ..program()
    }
}

/// All is on n1, which is drained now.
fn leave(stage: &Stage) -> BTreeMap<String, Vec<JobId>> {
    stage.manager.leave(|_| Some(("n1".to_owned(), true)))
}

/// Its program runs, and the manager knows.
async fn runs(stage: &Stage, attempt: AttemptId) {
    stage.run(attempt);
    let events = stage.manager.watch(&alice(), attempt.job, 0).await;
    let mut events = events.unwrap();
    let known = async { while events.next().await.unwrap().kind != "started" {} };
    soon("the manager to know that it runs", known).await;
}

async fn told_to_end(stage: &mut Stage, attempt: AttemptId) {
    match stage.asked().await {
        Asked::Command(of, AttemptCommand::Vacate { grace_ms: 7 }) => assert_eq!(of, attempt),
        other => panic!("{other:?}"),
    }
}

/// The next attempt of the job, whose first one may go.
async fn again(stage: &mut Stage, first: AttemptId) -> AttemptId {
    let (mut next, mut settled) = (None, false);
    while next.is_none() || !settled {
        match stage.asked().await {
            Asked::Start(spec) => next = Some(spec.id),
            Asked::Command(of, AttemptCommand::Settled) => settled = of == first,
            other => panic!("{other:?}"),
        }
    }
    let epoch = first.epoch + 1;
    assert_eq!(next, Some(AttemptId { epoch, ..first }));
    next.unwrap()
}

#[tokio::test]
async fn what_may_run_again_leaves_a_drained_host_and_the_rest_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (job, first) = stage.submit(may_run_again()).await;
    let (staying, other) = stage.submit(program()).await;
    for spec in [&first, &other] {
        runs(&stage, spec.id).await;
    }
    stage.write(first.id, OutputStream::Stdout, b"the first run\n");
    let mut reader = stage
        .manager
        .output(&alice(), job, OutputStream::Stdout, 0)
        .await
        .unwrap();
    assert_eq!(
        reader.read(100).await.unwrap().unwrap().1,
        "the first run\n"
    );
    let rest = BTreeMap::from([("n1".to_owned(), vec![staying])]);
    assert_eq!(leave(&stage), rest);
    told_to_end(&mut stage, first.id).await;
    // Asked again while it ends, nothing more happens.
    assert_eq!(leave(&stage), rest);
    stage.end(first.id, Outcome::Cancelled);
    let second = again(&mut stage, first.id).await;
    let refused = reader.read(100).await.unwrap_err();
    assert_eq!(refused.code, "output_anew");
    let view = stage.manager.show(&alice(), job).await.unwrap();
    assert_eq!((view.state, view.stdout_bytes), (JobState::Pending, 0));
    stage.run(second);
    stage.write(second, OutputStream::Stdout, b"well\n");
    stage.end(second, done());
    let events = stage.events_to_end(job).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let all = [
        "submitted",
        "planned",
        "started",
        "requeued",
        "attempt_ended",
        "planned",
        "started",
        "attempt_ended",
    ];
    assert_eq!(kinds, all);
    let output = stage.read_all(job, OutputStream::Stdout, 0).await;
    assert_eq!(output, b"well\n");
}

#[tokio::test]
async fn a_site_that_was_killed_meanwhile_has_it_leave_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (_, first) = stage.submit(may_run_again()).await;
    runs(&stage, first.id).await;
    leave(&stage);
    told_to_end(&mut stage, first.id).await;
    stage.manager.close().await;
    drop(stage);

    let mut stage = open(dir.path()).await;
    assert!(matches!(stage.asked().await, Asked::Adopt(of) if of == first.id));
    told_to_end(&mut stage, first.id).await;
    stage.end(first.id, Outcome::Cancelled);
    again(&mut stage, first.id).await;
}

#[tokio::test]
async fn a_job_whose_host_is_lost_runs_again_with_leave_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let lost = || Outcome::Lost {
        message: "gone".to_owned(),
    };
    let (_, first) = stage.submit(may_run_again()).await;
    stage.run(first.id);
    stage.end(first.id, lost());
    let second = again(&mut stage, first.id).await;
    let (plain, only) = stage.submit(program()).await;
    stage.run(only.id);
    stage.end(only.id, lost());
    let events = stage.events_to_end(plain).await;
    assert_eq!(events.last().unwrap().outcome, Some(lost()));
    stage.run(second);
    stage.end(second, done());
    assert_eq!(stage.events_to_end(first.id.job).await.len(), 7);
}

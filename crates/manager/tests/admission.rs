//! Jobs that reserve parts of the host: they wait, begin when there is room, and know where they were after a kill
//! (spec/policy, P70 to P75).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Asked, Stage, alice, bob, done, not_begun, open_on, program, setup, soon};
use kumiko_job::admission::Capacity;
use kumiko_job::contract::{EventStream, JobState, Jobs};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_manager::Limits;
use kumiko_policy::Limited;
use std::path::Path;

async fn site(directory: &Path, memory_mib: u64) -> Stage {
    let mut setup = setup(directory, Limits::default());
    setup.capacity = Capacity::new(&kumiko_policy::Limits {
        memory_mib: Some(memory_mib),
        cpu_percent: Some(200),
        ..kumiko_policy::Limits::default()
    });
    open_on(directory, setup).await.unwrap()
}

fn reserving(memory_mib: u64) -> JobDescription {
    let mut description = program();
    description.resources.memory_mib = Some(memory_mib);
    description
}

async fn submit(stage: &Stage, memory_mib: u64) -> JobId {
    let description = reserving(memory_mib);
    stage
        .manager
        .submit(&alice(), description, None)
        .await
        .unwrap()
}

async fn last_line(stage: &Stage, id: JobId) -> String {
    let mut lines = stage.manager.explain(&alice(), id).await.unwrap();
    lines.pop().unwrap()
}

async fn until_started(stage: &mut Stage, id: JobId) -> kumiko_job::attempt::AttemptSpec {
    loop {
        match stage.asked().await {
            Asked::Start(spec) => {
                assert_eq!(spec.id.job, id);
                return *spec;
            }
            Asked::Command(..) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Watchers may hear of an end before the figures are told.
async fn until_left(stage: &Stage, memory_mib: u64) {
    let mut stats = stage.manager.watch_stats();
    let left = stats.wait_for(|stats| stats.left.get(Limited::Memory) == Some(memory_mib));
    soon("what is left", left).await.unwrap();
}

#[tokio::test]
async fn a_job_waits_until_what_it_reserves_is_left_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = site(dir.path(), 100).await;
    let (first, spec) = stage.submit(reserving(70)).await;
    let second = submit(&stage, 60).await;
    let view = stage.manager.show(&alice(), second).await.unwrap();
    assert_eq!((view.state, view.epoch), (JobState::Pending, 0));
    assert_eq!(
        last_line(&stage, second).await,
        "Now 60 MiB of memory are reserved, 30 MiB of 100 MiB are left, 1 jobs hold the rest."
    );
    until_left(&stage, 30).await;
    let stats = stage.manager.stats();
    assert_eq!(stats.queued, 1);
    let gauges = stage.manager.gauges();
    let figure = |name: &str| gauges.iter().find(|one| one.0 == name).map(|one| one.2);
    assert_eq!(figure("jobs_live"), Some(2));
    assert_eq!(figure("jobs_queued"), Some(1));
    assert_eq!(figure("left_memory_mib"), Some(30));
    assert_eq!(figure("left_network_kbyte_s"), None);
    // What reserves nothing, or is no more than what is left beside those that wait, begins.
    let (_, free) = stage.submit(program()).await;
    // A third that came later would fit, and waits: it would take what the second waits for.
    let third = submit(&stage, 30).await;
    let told = last_line(&stage, third).await;
    assert!(told.contains("1 that came before it wait too"), "{told}");

    stage.run(spec.id);
    stage.end(spec.id, done());
    assert_eq!(stage.events_to_end(first).await.len(), 4);
    let second = until_started(&mut stage, second).await;
    let third = until_started(&mut stage, third).await;
    until_left(&stage, 10).await;
    for attempt in [second.id, third.id, free.id] {
        stage.end(attempt, done());
        stage.events_to_end(attempt.job).await;
    }
    until_left(&stage, 100).await;
    let kinds: Vec<String> = stage
        .events_to_end(second.id.job)
        .await
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert_eq!(kinds, ["submitted", "queued", "planned", "attempt_ended"]);
}

#[tokio::test]
async fn what_never_fits_is_refused_and_what_waits_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = site(dir.path(), 100).await;
    let refuse = async |description: JobDescription, says: &str| {
        let refusal = stage
            .manager
            .submit(&alice(), description, None)
            .await
            .unwrap_err();
        assert_eq!(refusal.code, "never_fits");
        assert!(refusal.message.contains(says), "{}", refusal.message);
    };
    refuse(reserving(101), "resources.memory_mib: ").await;
    let mut rate = program();
    rate.resources.network_kbyte_s = Some(1);
    refuse(rate, "resources.network_kbyte_s: ").await;
    let mut processors = program();
    processors.resources.cpus = Some(1);
    processors.count = 3;
    refuse(processors, "resources.cpus: ").await;
    assert_eq!(stage.manager.stats().kept, 0, "nothing was recorded");

    let (_, holder) = stage.submit(reserving(100)).await;
    let (second, third) = (submit(&stage, 100).await, submit(&stage, 1).await);
    stage.manager.cancel(&alice(), second, None).await.unwrap();
    let view = stage.manager.show(&alice(), second).await.unwrap();
    assert_eq!((view.state, view.epoch), (JobState::Cancelled, 0));
    // An attempt that never began keeps what it has for the next one.
    stage.end(holder.id, not_begun());
    let again = until_started(&mut stage, holder.id.job).await;
    assert_eq!(again.id.epoch, 2);
    until_left(&stage, 0).await;
    stage.end(again.id, done());
    until_started(&mut stage, third).await;
    until_left(&stage, 99).await;
    let strangers = stage.manager.explain(&bob(), third).await.unwrap_err();
    assert_eq!(strangers.code, "no_such_job");
}

#[tokio::test]
async fn a_site_that_was_killed_holds_what_was_held_and_admits_in_the_same_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = site(dir.path(), 100).await;
    let (_, holder) = stage.submit(reserving(80)).await;
    let big = submit(&stage, 90).await;
    let small = submit(&stage, 15).await;
    stage.manager.close().await;
    drop(stage);

    let mut stage = site(dir.path(), 100).await;
    assert!(matches!(stage.asked().await, Asked::Adopt(id) if id == holder.id));
    until_left(&stage, 20).await;
    assert_eq!(stage.manager.stats().queued, 2);
    assert!(
        last_line(&stage, small)
            .await
            .contains("1 that came before")
    );
    stage.end(holder.id, done());
    let began = until_started(&mut stage, big).await;
    until_left(&stage, 10).await;
    stage.manager.close().await;
    drop(stage);

    // The operator gives more: what waits begins with the site.
    let mut stage = site(dir.path(), 200).await;
    let mut asked = Vec::new();
    for _ in 0..2 {
        asked.push(match stage.asked().await {
            Asked::Adopt(id) => (id.job, "adopt"),
            Asked::Start(spec) => (spec.id.job, "start"),
            other => panic!("{other:?}"),
        });
    }
    asked.sort();
    assert_eq!(asked, [(big, "adopt"), (small, "start")]);
    stage.end(began.id, done());
    stage.events_to_end(big).await;
    until_left(&stage, 185).await;
}

#[tokio::test]
async fn who_watches_a_waiting_job_hears_that_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = site(dir.path(), 100).await;
    let (_, holder) = stage.submit(reserving(100)).await;
    let waiting = submit(&stage, 1).await;
    let mut events = stage.manager.watch(&alice(), waiting, 2).await.unwrap();
    stage.end(holder.id, done());
    let event = soon("the plan", events.next()).await.unwrap();
    assert_eq!((event.number, event.kind.as_str()), (3, "planned"));
}

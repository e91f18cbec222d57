//! Limits that are changed while a job waits or runs are events of it; policies that are changed reach jobs that run
//! (spec/policy, P56, P76, P77 and P89).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Asked, Stage, alice, done, open_on, program, setup};
use kumiko_job::attempt::AttemptCommand;
use kumiko_job::contract::{Jobs, Refusal};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_manager::Limits as OfSite;
use kumiko_policy::{Limits, Policy, Seen};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The memory that the site's policy gives; the job's own policy is a number of MiB too.
type Gives = Arc<Mutex<Option<u64>>>;

async fn site(directory: &Path, gives: &Gives) -> Stage {
    let mut setup = setup(directory, OfSite::default());
    let gives = Arc::clone(gives);
    setup.effective = Box::new(move |_, description| {
        let gives = *gives.lock().unwrap();
        let own: Option<u64> = description.policy.as_ref().map(|own| own.parse().unwrap());
        if own > gives.or(own) {
            return Err(Refusal::new("policy_asks_more", "more"));
        }
        Ok(Policy {
            limits: memory(own.or(gives)),
            ..Policy::default()
        })
    });
    open_on(directory, setup).await.unwrap()
}

fn memory(memory_mib: Option<u64>) -> Limits {
    Limits {
        memory_mib,
        ..Limits::default()
    }
}

async fn set(stage: &Stage, id: JobId, mib: u64) -> Result<(), Refusal> {
    let command = AttemptCommand::Limits(memory(Some(mib)));
    stage.manager.command(&alice(), id, command).await
}

/// The memory that the attempt is told to have.
async fn told(stage: &mut Stage, attempt: AttemptId) -> Option<u64> {
    match stage.asked().await {
        Asked::Command(of, AttemptCommand::Limits(limits)) if of == attempt => limits.memory_mib,
        other => panic!("{other:?}"),
    }
}

async fn record(stage: &Stage, id: JobId) -> String {
    stage
        .manager
        .explain(&alice(), id)
        .await
        .unwrap()
        .join("\n")
}

#[tokio::test]
async fn limits_that_the_owner_changed_are_recorded_and_hold_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let gives = Gives::new(Mutex::new(Some(1000)));
    let mut stage = site(dir.path(), &gives).await;
    let (id, spec) = stage.submit(program()).await;
    assert_eq!(spec.policy.limits.memory_mib, Some(1000));
    let refusal = set(&stage, id, 1001).await.unwrap_err();
    assert_eq!(refusal.code, "policy_asks_more");
    let refusal = set(&stage, id, 0).await.unwrap_err();
    assert_eq!(refusal.code, "bad_policy");
    set(&stage, id, 300).await.unwrap();
    assert_eq!(told(&mut stage, spec.id).await, Some(300));
    set(&stage, id, 300).await.unwrap();
    set(&stage, id, 500).await.unwrap();
    assert_eq!(told(&mut stage, spec.id).await, Some(500));
    let words = record(&stage, id).await;
    assert_eq!(
        words.matches("other limits hold, by its owner").count(),
        2,
        "{words}"
    );
    assert!(words.contains("memory limit of 500 MiB"), "{words}");
    stage.manager.close().await;
    drop(stage);

    let mut stage = site(dir.path(), &gives).await;
    let mut asked = Vec::new();
    for _ in 0..2 {
        asked.push(match stage.asked().await {
            Asked::Adopt(of) if of == spec.id => None,
            Asked::Command(of, AttemptCommand::Limits(limits)) if of == spec.id => {
                limits.memory_mib
            }
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(asked, [None, Some(500)]);
    stage.end(spec.id, done());
    stage.events_to_end(id).await;
    let refusal = set(&stage, id, 300).await.unwrap_err();
    assert_eq!(refusal.code, "job_ended");
}

#[tokio::test]
async fn an_attempt_that_begins_later_begins_with_the_limits_that_the_job_has() {
    let dir = tempfile::tempdir().unwrap();
    let gives = Gives::new(Mutex::new(Some(1000)));
    let mut stage = site(dir.path(), &gives).await;
    let (id, spec) = stage.submit(program()).await;
    set(&stage, id, 300).await.unwrap();
    assert_eq!(told(&mut stage, spec.id).await, Some(300));
    stage.end(spec.id, common::not_begun());
    loop {
        match stage.asked().await {
            Asked::Start(spec) => {
                assert_eq!(
                    (spec.id.epoch, spec.policy.limits.memory_mib),
                    (2, Some(300))
                );
                return;
            }
            Asked::Command(..) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn policies_that_are_changed_reach_jobs_that_run_and_give_back_what_they_took() {
    let dir = tempfile::tempdir().unwrap();
    let gives = Gives::new(Mutex::new(None));
    let mut stage = site(dir.path(), &gives).await;
    let (id, spec) = stage.submit(program()).await;
    let change = async |stage: &Stage, mib: Option<u64>| {
        *gives.lock().unwrap() = mib;
        stage.manager.policies_changed().await;
    };
    let no_limit = Some(kumiko_policy::Limited::Memory.most());
    change(&stage, Some(400)).await;
    assert_eq!(told(&mut stage, spec.id).await, Some(400));
    change(&stage, Some(400)).await;
    change(&stage, None).await;
    assert_eq!(told(&mut stage, spec.id).await, no_limit);
    // What the owner asked for is kept in mind, within what is given.
    set(&stage, id, 700).await.unwrap();
    assert_eq!(told(&mut stage, spec.id).await, Some(700));
    change(&stage, Some(600)).await;
    assert_eq!(told(&mut stage, spec.id).await, Some(600));
    change(&stage, Some(900)).await;
    assert_eq!(told(&mut stage, spec.id).await, Some(700));
    let words = record(&stage, id).await;
    for expected in [
        "by changed policies of the site, the organisation or the user: memory limit of 400 MiB",
        "no memory limit",
        "memory limit of 600 MiB",
    ] {
        assert!(words.contains(expected), "{words}");
    }
}

#[tokio::test]
async fn a_job_whose_own_policy_asks_for_more_than_is_given_by_now_has_what_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let gives = Gives::new(Mutex::new(Some(1000)));
    let mut stage = site(dir.path(), &gives).await;
    let mut description = program();
    description.policy = Some("500".to_owned());
    let (_, spec) = stage.submit(description).await;
    assert_eq!(spec.policy.limits.memory_mib, Some(500));
    *gives.lock().unwrap() = Some(200);
    stage.manager.policies_changed().await;
    assert_eq!(told(&mut stage, spec.id).await, Some(200));
    *gives.lock().unwrap() = Some(800);
    stage.manager.policies_changed().await;
    assert_eq!(told(&mut stage, spec.id).await, Some(500));
}

#[tokio::test]
async fn what_the_owner_narrowed_is_recorded_followed_and_holds_for_a_later_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let gives = Gives::new(Mutex::new(None));
    let mut stage = site(dir.path(), &gives).await;
    let (id, spec) = stage.submit(program()).await;
    let follows = stage.root.join(spec.id.to_string()).join("policy.json");
    let usr = kumiko_policy::GuestPath::new("/usr").unwrap();
    let narrow = async |stage: &Stage, text: &str| stage.manager.narrow(&alice(), id, text).await;
    let refused = [
        ("[paths]\n\"/usr\" = \"write\"", "policy_asks_more"),
        ("strict = true", "bad_policy"),
        ("", "bad_policy"),
    ];
    for (text, code) in refused {
        assert_eq!(narrow(&stage, text).await.unwrap_err().code, code, "{text}");
    }
    for (text, expected) in [
        ("paths.\"/usr\" = \"hidden\"", Seen::Hidden),
        ("paths.\"/usr\" = \"denied\"", Seen::Denied),
    ] {
        narrow(&stage, text).await.unwrap();
        assert_eq!(told(&mut stage, spec.id).await, None);
        let now: Policy = serde_json::from_slice(&std::fs::read(&follows).unwrap()).unwrap();
        assert_eq!(now.explain(&usr).seen, expected);
    }
    let words = record(&stage, id).await;
    assert!(words.contains("its owner narrowed"), "{words}");
    assert!(words.contains("/usr denied"), "{words}");
    stage.end(spec.id, common::not_begun());
    loop {
        match stage.asked().await {
            Asked::Start(spec) => {
                assert_eq!(spec.policy.explain(&usr).seen, Seen::Denied);
                return;
            }
            Asked::Command(..) => {}
            other => panic!("{other:?}"),
        }
    }
}

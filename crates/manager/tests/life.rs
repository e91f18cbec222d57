//! The life of a job through the contract `Jobs`, against a batch system that the test plays.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Asked, alice, bob, done, not_begun, open, program, soon, try_open};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, Outcome, OutputStream};
use kumiko_job::contract::{BatchError, EventStream, JobState, Jobs, OutputReader, Refusal};
use kumiko_job::description::OutputMode;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_manager::Limits;
use std::time::Duration;

fn code<T>(result: Result<T, Refusal>) -> String {
    result.err().map(|refusal| refusal.code).unwrap_or_default()
}

#[tokio::test]
async fn a_job_is_started_runs_and_ends_and_its_events_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(program()).await;
    assert_eq!(id, JobId(1));
    assert_eq!(spec.id.epoch, 1);
    assert!(spec.job_directory.is_dir());
    assert_eq!(
        stage.manager.show(&alice(), id).await.unwrap().state,
        JobState::Pending
    );

    stage.run(spec.id);
    stage.write(spec.id, OutputStream::Stdout, b"hello\n");
    stage.end(spec.id, done());
    let events = stage.events_to_end(id).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["submitted", "planned", "started", "attempt_ended"]);
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);

    let view = stage.manager.show(&alice(), id).await.unwrap();
    assert_eq!(
        (view.state, view.stdout_bytes, view.outcome),
        (JobState::Done, 6, Some(done()))
    );
    assert_eq!(view.not_enforced, ["disk"]);
    assert_eq!(
        stage.read_all(id, OutputStream::Stdout, 0).await,
        b"hello\n"
    );
    assert_eq!(stage.read_all(id, OutputStream::Stdout, 4).await, b"o\n");
    assert!(
        matches!(stage.asked().await, Asked::Command(of, AttemptCommand::Settled) if of == spec.id)
    );
    let words = stage.manager.explain(&alice(), id).await.unwrap();
    assert_eq!(words.last().unwrap(), "It ended: the program ended well.");
}

#[tokio::test]
async fn the_same_key_is_the_same_job_also_after_its_end_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let key = || Some("k".to_owned());
    let id = stage
        .manager
        .submit(&alice(), program(), key())
        .await
        .unwrap();
    let spec = stage.started().await;
    assert_eq!(
        stage
            .manager
            .submit(&alice(), program(), key())
            .await
            .unwrap(),
        id
    );
    let other = kumiko_job::description::JobDescription::new("/bin/false", &[]);
    assert_eq!(
        code(stage.manager.submit(&alice(), other, key()).await),
        "key_reused"
    );
    assert_ne!(
        stage
            .manager
            .submit(&bob(), program(), key())
            .await
            .unwrap(),
        id
    );
    stage.end(spec.id, done());
    stage.events_to_end(id).await;
    stage.manager.close().await;
    drop(stage);
    let stage = open(dir.path()).await;
    assert_eq!(
        stage
            .manager
            .submit(&alice(), program(), key())
            .await
            .unwrap(),
        id
    );
}

#[tokio::test]
async fn a_caller_sees_and_touches_only_his_own_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, _) = stage.submit(program()).await;
    let manager = &stage.manager;
    assert_eq!(code(manager.show(&bob(), id).await), "no_such_job");
    assert_eq!(code(manager.cancel(&bob(), id, None).await), "no_such_job");
    assert_eq!(code(manager.remove(&bob(), id).await), "no_such_job");
    assert_eq!(code(manager.explain(&bob(), id).await), "no_such_job");
    assert_eq!(code(manager.directory(&bob(), id).await), "no_such_job");
    assert_eq!(
        code(manager.watch(&bob(), id, 0).await.map(drop)),
        "no_such_job"
    );
    assert_eq!(
        code(
            manager
                .output(&bob(), id, OutputStream::Stdout, 0)
                .await
                .map(drop)
        ),
        "no_such_job"
    );
    assert_eq!(
        code(
            manager
                .command(&bob(), id, AttemptCommand::Signal { signal: 15 })
                .await
        ),
        "no_such_job"
    );
    assert!(manager.list(&bob()).await.unwrap().is_empty());
    assert_eq!(manager.list(&alice()).await.unwrap().len(), 1);
    assert_eq!(code(manager.show(&alice(), JobId(99)).await), "no_such_job");
}

#[tokio::test]
async fn a_watcher_gets_each_event_once_from_where_it_was_and_ends_with_the_removal() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(program()).await;
    let mut watch = stage.manager.watch(&alice(), id, 2).await.unwrap();
    stage.run(spec.id);
    // More than memory keeps.
    for _ in 0..10 {
        stage.report(spec.id, AttemptReport::Suspended);
        stage.report(spec.id, AttemptReport::Suspended);
        stage.report(spec.id, AttemptReport::Resumed);
    }
    stage.end(spec.id, done());
    stage.events_to_end(id).await;
    let mut numbers = Vec::new();
    for _ in 3..=24 {
        numbers.push(soon("events", watch.next()).await.unwrap().number);
    }
    assert_eq!(numbers, (3..=24).collect::<Vec<u64>>());

    // The log goes with the job: who had not read it gets what memory holds, in order, and the end.
    let late = stage.manager.watch(&alice(), id, 0).await.unwrap();
    stage.manager.remove(&alice(), id).await.unwrap();
    for mut watch in [watch, late] {
        let mut last = None;
        while let Some(event) = soon("the removal", watch.next()).await {
            assert!(last.is_none_or(|last| last < event.number));
            last = Some(event.number);
        }
        assert_eq!(last, Some(25));
    }
}

#[tokio::test]
async fn output_comes_as_it_is_written_and_ends_with_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(program()).await;
    let mut reader = stage
        .manager
        .output(&alice(), id, OutputStream::Stderr, 0)
        .await
        .unwrap();
    stage.run(spec.id);
    for piece in ["one", "two", "three"] {
        stage.write(spec.id, OutputStream::Stderr, piece.as_bytes());
        let (_, data) = soon("output", reader.read(100)).await.unwrap().unwrap();
        assert_eq!(data, piece.as_bytes());
    }
    let mut rest = tokio::spawn(async move { reader.read(100).await });
    assert!(
        tokio::time::timeout(Duration::from_millis(1), &mut rest)
            .await
            .is_err()
    );
    stage.end(spec.id, done());
    assert!(soon("the end", rest).await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn flowing_output_is_freed_when_the_client_has_it_and_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let mut description = program();
    description.output = OutputMode::Flow;
    let (id, spec) = stage.submit(description).await;
    stage.run(spec.id);
    stage.write(spec.id, OutputStream::Stdout, &vec![b'x'; 1 << 20]);
    let consumed = |offset| AttemptCommand::Consumed {
        stream: OutputStream::Stdout,
        offset,
    };
    stage
        .manager
        .command(&alice(), id, consumed(600_000))
        .await
        .unwrap();
    assert!(
        matches!(stage.asked().await, Asked::Command(_, command) if command == consumed(512 * 1024))
    );
    assert_eq!(
        code(
            stage
                .manager
                .output(&alice(), id, OutputStream::Stdout, 0)
                .await
                .map(drop)
        ),
        "output_freed"
    );
    let mut reader = stage
        .manager
        .output(&alice(), id, OutputStream::Stdout, 600_000)
        .await
        .unwrap();
    assert_eq!(
        soon("output", reader.read(10)).await.unwrap().unwrap().0,
        600_000
    );

    // What was freed is known again to a site that was restarted: by the hole in the spool.
    let file = std::fs::File::options()
        .write(true)
        .open(stage.root.join("1.1/stdout"))
        .unwrap();
    if kumiko_linux::spooling::punch_hole(&file, 0, 512 * 1024).is_err() {
        eprintln!(
            "SKIP flowing_output_is_freed_when_the_client_has_it_and_not_given_again: missing holes in files"
        );
        return;
    }
    stage.manager.close().await;
    drop((reader, stage));
    let stage = open(dir.path()).await;
    stage.report(
        spec.id,
        AttemptReport::Output {
            stream: OutputStream::Stdout,
            length: 1 << 20,
        },
    );
    assert_eq!(
        code(
            stage
                .manager
                .output(&alice(), id, OutputStream::Stdout, 0)
                .await
                .map(drop)
        ),
        "output_freed"
    );
    let mut reader = stage
        .manager
        .output(&alice(), id, OutputStream::Stdout, 512 * 1024)
        .await
        .unwrap();
    assert_eq!(
        soon("output", reader.read(10)).await.unwrap().unwrap().1,
        &b"xxxxxxxxxx"[..]
    );
}

#[tokio::test]
async fn a_cancel_reaches_the_attempt_once_and_a_hastier_one_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(program()).await;
    stage.run(spec.id);
    for grace in [Some(900), Some(900), Some(2000), Some(10)] {
        stage.manager.cancel(&alice(), id, grace).await.unwrap();
    }
    // Each is a task of its own: the order is the runner's to mend, it takes the shortest.
    let mut told = Vec::new();
    for _ in 0..2 {
        let Asked::Command(_, AttemptCommand::Cancel { grace_ms }) = stage.asked().await else {
            panic!()
        };
        told.push(grace_ms);
    }
    told.sort_unstable();
    assert_eq!(told, [10, 900]);
    stage.end(spec.id, Outcome::Cancelled);
    let events = stage.events_to_end(id).await;
    assert_eq!(events.last().unwrap().state, JobState::Cancelled);
    stage.manager.cancel(&alice(), id, None).await.unwrap();
}

#[tokio::test]
async fn a_restart_adopts_what_may_live_and_tells_it_again_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (planned, first) = stage.submit(program()).await;
    let (running, second) = stage.submit(program()).await;
    stage.run(second.id);
    stage
        .manager
        .cancel(&alice(), running, Some(5))
        .await
        .unwrap();
    assert!(matches!(stage.asked().await, Asked::Command(..)));
    stage.manager.close().await;
    drop(stage);

    let mut stage = open(dir.path()).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(match stage.asked().await {
            Asked::Adopt(id) => (id, None),
            Asked::Command(id, AttemptCommand::Cancel { grace_ms }) => (id, Some(grace_ms)),
            other => panic!("{other:?}"),
        });
    }
    seen.sort_unstable();
    assert_eq!(
        seen,
        [(first.id, None), (second.id, None), (second.id, Some(5))]
    );
    let view = stage.manager.show(&alice(), running).await.unwrap();
    assert_eq!(
        (view.state, view.mechanism.as_deref()),
        (JobState::Active, Some("puppet"))
    );

    // The one that never began is tried again, the one that was running never.
    stage.end(first.id, not_begun());
    let again = stage.started().await;
    assert_eq!(
        again.id,
        AttemptId {
            job: planned,
            epoch: 2
        }
    );
    stage.end(
        first.id,
        Outcome::Lost {
            message: "late word of a fenced attempt".into(),
        },
    );
    stage.end(
        second.id,
        Outcome::Lost {
            message: "host lost".into(),
        },
    );
    stage.end(again.id, done());
    assert_eq!(
        stage.events_to_end(planned).await.last().unwrap().state,
        JobState::Done
    );
    assert_eq!(
        stage.events_to_end(running).await.last().unwrap().state,
        JobState::Failed
    );
}

#[tokio::test]
async fn an_attempt_that_the_batch_system_refuses_ends_the_job_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    *stage.refuse.lock().unwrap() = Some(BatchError::NoRunner {
        program: "/x/kumiko-run".into(),
        cause: "not found".into(),
    });
    let (id, _) = stage.submit(program()).await;
    let events = stage.events_to_end(id).await;
    let Some(Outcome::NeverStarted { code, message }) = events.last().unwrap().outcome.clone()
    else {
        panic!()
    };
    assert_eq!(code, "no_runner");
    assert!(message.contains("/x/kumiko-run"), "{message}");
}

#[tokio::test]
async fn a_removed_job_leaves_nothing_and_its_number_is_never_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(program()).await;
    assert_eq!(code(stage.manager.remove(&alice(), id).await), "job_live");
    std::fs::create_dir(spec.job_directory.join("closed")).unwrap();
    let mut none = std::fs::metadata(spec.job_directory.join("closed"))
        .unwrap()
        .permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut none, 0o000);
    std::fs::set_permissions(spec.job_directory.join("closed"), none).unwrap();
    stage.end(spec.id, done());
    stage.events_to_end(id).await;
    let mut watch = stage.manager.watch(&alice(), id, 3).await.unwrap();
    stage.manager.remove(&alice(), id).await.unwrap();
    assert_eq!(
        soon("the removal", watch.next()).await.unwrap().kind,
        "removed"
    );
    assert!(soon("the end", watch.next()).await.is_none());
    assert_eq!(code(stage.manager.show(&alice(), id).await), "no_such_job");
    assert!(matches!(
        stage.asked().await,
        Asked::Command(_, AttemptCommand::Settled)
    ));
    assert!(matches!(stage.asked().await, Asked::Forget(of) if of == spec.id));
    stage.manager.close().await;
    drop((watch, stage));
    // A restart does again what was not finished.
    let mut stage = open(dir.path()).await;
    let (next, _) = stage.submit_after_forgets(program()).await;
    assert_eq!(next, JobId(2));
    assert!(!spec.job_directory.exists());
}

impl common::Stage {
    async fn submit_after_forgets(
        &mut self,
        description: kumiko_job::description::JobDescription,
    ) -> (JobId, kumiko_job::attempt::AttemptSpec) {
        let id = self
            .manager
            .submit(&alice(), description, None)
            .await
            .unwrap();
        loop {
            match self.asked().await {
                Asked::Start(spec) => return (id, *spec),
                Asked::Forget(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn an_upload_becomes_the_directory_of_one_job_of_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (name, path) = stage.manager.new_upload(&alice()).await.unwrap();
    std::fs::write(path.join("data"), "42").unwrap();
    let mut description = program();
    description.input = Some(name.clone());
    assert_eq!(
        code(
            stage
                .manager
                .submit(&bob(), description.clone(), None)
                .await
        ),
        "no_such_upload"
    );
    let (_, spec) = stage.submit(description.clone()).await;
    assert_eq!(
        std::fs::read_to_string(spec.job_directory.join("data")).unwrap(),
        "42"
    );
    assert!(!path.exists());
    assert_eq!(
        code(stage.manager.submit(&alice(), description, None).await),
        "no_such_upload"
    );
    // One that nobody took is swept at the next start.
    let (_, stale) = stage.manager.new_upload(&alice()).await.unwrap();
    stage.manager.close().await;
    drop(stage);
    let _stage = open(dir.path()).await;
    assert!(!stale.exists());
}

#[tokio::test]
async fn each_limit_is_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        live_jobs: 3,
        live_jobs_per_caller: 2,
        kept_jobs_per_caller: 3,
        uploads_per_caller: 1,
        ..Limits::default()
    };
    let mut stage = try_open(dir.path(), limits).await.unwrap();
    let (first, spec) = stage.submit(program()).await;
    stage.submit(program()).await;
    assert_eq!(
        code(stage.manager.submit(&alice(), program(), None).await),
        "too_many_live_jobs"
    );
    stage.manager.submit(&bob(), program(), None).await.unwrap();
    assert_eq!(
        code(stage.manager.submit(&bob(), program(), None).await),
        "site_full"
    );
    stage.started().await;
    stage.end(spec.id, done());
    stage.events_to_end(first).await;
    assert!(matches!(stage.asked().await, Asked::Command(..)));
    stage.submit(program()).await;
    stage.end(
        AttemptId {
            job: JobId(2),
            epoch: 1,
        },
        done(),
    );
    stage.events_to_end(JobId(2)).await;
    assert_eq!(
        code(stage.manager.submit(&alice(), program(), None).await),
        "too_many_kept_jobs"
    );
    stage.manager.new_upload(&alice()).await.unwrap();
    assert_eq!(
        code(stage.manager.new_upload(&alice()).await),
        "too_many_uploads"
    );
    let mut wide = program();
    wide.policy = Some("all".into());
    assert_eq!(
        code(stage.manager.submit(&bob(), wide, None).await),
        "policy_too_wide"
    );
    let mut bad = program();
    bad.count = 0;
    assert_eq!(
        code(stage.manager.submit(&bob(), bad, None).await),
        "bad_description"
    );
}

#[tokio::test]
async fn ended_jobs_expire_by_the_running_time_of_the_site() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        keep: Duration::from_millis(1),
        ..Limits::default()
    };
    let mut stage = try_open(dir.path(), limits).await.unwrap();
    let (id, spec) = stage.submit(program()).await;
    let mut watch = stage.manager.watch(&alice(), id, 0).await.unwrap();
    stage.end(spec.id, done());
    let mut last = None;
    while let Some(event) = soon("the removal", watch.next()).await {
        last = Some(event);
    }
    assert_eq!(last.unwrap().text, "removed: its time to be kept is over");
}

#[tokio::test]
async fn a_drained_site_takes_nothing_new_and_says_when_it_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (_, spec) = stage.submit(program()).await;
    let manager = std::sync::Arc::clone(&stage.manager);
    let mut drained = tokio::spawn(async move { manager.drain().await });
    assert!(
        tokio::time::timeout(Duration::from_millis(1), &mut drained)
            .await
            .is_err()
    );
    assert_eq!(
        code(stage.manager.submit(&alice(), program(), None).await),
        "site_draining"
    );
    stage.end(spec.id, done());
    soon("the site to be empty", drained).await.unwrap();
}

#[tokio::test]
async fn output_that_the_site_lost_is_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, spec) = stage.submit(program()).await;
    stage.write(spec.id, OutputStream::Stdout, b"hello");
    let mut reader = stage
        .manager
        .output(&alice(), id, OutputStream::Stdout, 0)
        .await
        .unwrap();
    let file = stage.root.join("1.1/stdout");
    std::fs::write(&file, "hel").unwrap();
    assert_eq!(code(reader.read(100).await.map(drop)), "spool_unreadable");
    std::fs::remove_file(&file).unwrap();
    let again = stage
        .manager
        .output(&alice(), id, OutputStream::Stdout, 0)
        .await;
    assert_eq!(code(again.map(drop)), "spool_unreadable");
    // The rest of the site goes on.
    stage.end(spec.id, done());
    assert_eq!(
        stage.events_to_end(id).await.last().unwrap().state,
        JobState::Done
    );
}

#[tokio::test]
async fn a_closed_manager_says_so_and_its_watchers_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    let (id, _) = stage.submit(program()).await;
    let mut watch = stage.manager.watch(&alice(), id, 2).await.unwrap();
    let mut reader = stage
        .manager
        .output(&alice(), id, OutputStream::Stdout, 0)
        .await
        .unwrap();
    stage.manager.close().await;
    assert!(soon("the end", watch.next()).await.is_none());
    assert_eq!(
        code(soon("the end", reader.read(1)).await.map(drop)),
        "site_closing"
    );
    assert_eq!(
        code(stage.manager.cancel(&alice(), id, None).await),
        "site_closing"
    );
    assert_eq!(
        code(stage.manager.submit(&alice(), program(), None).await),
        "site_draining"
    );
}

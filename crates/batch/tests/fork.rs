//! What is `fork`'s own: its refusals, its descriptors and memory, its processes, and a site that is killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Fixture, ForkFixture, Record, id, script};
use kumiko_batch::fork::Fork;
use kumiko_job::attempt::{AttemptCommand, Outcome};
use kumiko_job::contract::{BatchError, BatchSystem};
use std::path::PathBuf;
use std::sync::Arc;

#[tokio::test]
async fn a_runner_that_is_missing_is_named_and_the_start_may_be_tried_again() {
    let Some(fixture) = ForkFixture::new("a_runner_that_is_missing_is_named") else {
        return;
    };
    let record = Arc::new(Record::default());
    let broken = Fork::new(
        fixture.root(),
        PathBuf::from("/no/such/kumiko-run"),
        record.clone(),
    );
    let spec = script(fixture.top(), 1, "exit 0");
    match broken.start(spec.clone()).await {
        Err(BatchError::NoRunner { program, .. }) => assert_eq!(program, "/no/such/kumiko-run"),
        other => panic!("{other:?}"),
    }
    assert!(!broken.spool(id(1)).exists());
    let mended = fixture.open(record.clone());
    mended.start(spec).await.unwrap();
    assert_eq!(record.ended(id(1)).await, Outcome::Exited { status: 0 });
    mended.command(id(1), AttemptCommand::Settled).await;
}

#[tokio::test]
async fn a_place_that_cannot_hold_spools_is_named() {
    let Some(fixture) = ForkFixture::new("a_place_that_cannot_hold_spools_is_named") else {
        return;
    };
    let file = fixture.top().join("file");
    std::fs::write(&file, "").unwrap();
    let system = Fork::new(
        file.join("spools"),
        fixture.runner.clone(),
        Arc::new(Record::default()),
    );
    match system.start(script(fixture.top(), 1, "")).await {
        Err(BatchError::Spool { path, .. }) => assert!(path.ends_with("file/spools/1.1"), "{path}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn spools_are_private_and_their_path_may_be_long() {
    use std::os::unix::fs::PermissionsExt;
    let Some(fixture) = ForkFixture::new("spools_are_private_and_their_path_may_be_long") else {
        return;
    };
    let record = Arc::new(Record::default());
    let root = fixture.top().join("x".repeat(150)).join("y".repeat(150));
    let system = Fork::new(root.clone(), fixture.runner.clone(), record.clone());
    system
        .start(script(fixture.top(), 1, "exit 0"))
        .await
        .unwrap();
    assert_eq!(record.ended(id(1)).await, Outcome::Exited { status: 0 });
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(root.clone()), 0o700);
    assert_eq!(mode(system.spool(id(1))), 0o700);
    for name in ["control", "stdout", "stderr", "status"] {
        assert_eq!(mode(system.spool(id(1)).join(name)), 0o600, "{name}");
    }
    system.command(id(1), AttemptCommand::Settled).await;
}

#[tokio::test]
async fn no_zombie_and_no_descriptor_is_left() {
    let Some(fixture) = ForkFixture::new("no_zombie_and_no_descriptor_is_left") else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = fixture.open(record.clone());
    let mut runners = Vec::new();
    for job in 1..=5 {
        system
            .start(script(fixture.top(), job, "exit 0"))
            .await
            .unwrap();
        let pid = record.started(id(job)).await;
        runners.push(kumiko_linux::process::pidfd(pid as i32).unwrap());
        record.ended(id(job)).await;
        system.command(id(job), AttemptCommand::Settled).await;
    }
    let gone = async {
        while !format!("{system:?}").contains("live: 0") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(common::DEADLINE, gone).await.unwrap();
    for runner in runners {
        let info = kumiko_linux::process::reap(std::os::fd::AsFd::as_fd(&runner));
        assert!(info.is_err(), "a zombie is left: {info:?}");
    }
}

#[tokio::test]
async fn a_spool_made_ahead_is_taken_by_the_next_attempt_or_swept_by_the_next_site() {
    let Some(fixture) = ForkFixture::new("a_spool_made_ahead_is_taken_or_swept") else {
        return;
    };
    let blanks = |system: &Fork| -> Vec<PathBuf> {
        let root = system.spool(id(1)).parent().unwrap().to_owned();
        let paths = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path());
        paths
            .filter(|p| p.display().to_string().contains("/blank-"))
            .collect()
    };
    let record = Arc::new(Record::default());
    let system = fixture.open(record.clone());
    for job in 1..=2 {
        let before = if job == 1 {
            Vec::new()
        } else {
            blanks(&system)
        };
        system
            .start(script(fixture.top(), job, "exit 0"))
            .await
            .unwrap();
        assert!(before.iter().all(|path| !path.exists()), "{before:?}");
        assert_eq!(record.ended(id(job)).await, Outcome::Exited { status: 0 });
        let made = async {
            while blanks(&system).is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(common::DEADLINE, made).await.unwrap();
    }
    drop(system);
    let next = fixture.open(record);
    // One that was still being made goes as soon as it is.
    let gone = async {
        while !blanks(&next).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(common::DEADLINE, gone).await.unwrap();
}

/// Plays a site in a process of its own, which the next test starts and kills; does nothing by itself.
#[tokio::test]
async fn site() {
    let Some(top) = std::env::var_os("KUMIKO_TEST_TOP").map(PathBuf::from) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = Fork::new(
        top.join("spools"),
        common::runner().unwrap(),
        record.clone(),
    );
    let text = "echo one; echo x >> ran; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 4";
    system.start(script(&top, 1, text)).await.unwrap();
    record.printed(id(1), 4).await;
    std::fs::write(top.join("running"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_site_loses_nothing() {
    let Some(fixture) = ForkFixture::new("a_killed_site_loses_nothing") else {
        return;
    };
    let mut site = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "site"])
        .env("KUMIKO_TEST_TOP", fixture.top())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let running = async {
        while !fixture.top().join("running").exists() {
            assert!(site.try_wait().unwrap().is_none(), "the site ended");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(common::DEADLINE, running)
        .await
        .unwrap();
    site.kill().unwrap();
    site.wait().unwrap();
    let record = Arc::new(Record::default());
    let system = fixture.open(record.clone());
    system.adopt(id(1)).await;
    record.printed(id(1), 4).await;
    let job = fixture.top().join("job-1");
    std::fs::write(job.join("go"), "").unwrap();
    assert_eq!(record.ended(id(1)).await, Outcome::Exited { status: 4 });
    assert_eq!(
        std::fs::read_to_string(system.spool(id(1)).join("stdout")).unwrap(),
        "one\ntwo\n"
    );
    assert_eq!(std::fs::read_to_string(job.join("ran")).unwrap(), "x\n");
    system.command(id(1), AttemptCommand::Settled).await;
}

/// Pids of the runners that wait in spools below the fixture, once there are `wanted` of them.
async fn spares(fixture: &ForkFixture, wanted: usize) -> Vec<u32> {
    let root = fixture.root().display().to_string();
    let waits = |pid: u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("\0--spare\0") && line.contains(&root)
    };
    let look = async {
        loop {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            let found: Vec<u32> = pids.filter(|pid| waits(*pid)).collect();
            if found.len() == wanted {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(common::DEADLINE, look).await.unwrap()
}

async fn run(system: &Fork, fixture: &ForkFixture, record: &Record, job: u64) -> u32 {
    let spec = script(fixture.top(), job, "exit 0");
    system.start(spec).await.unwrap();
    let pid = record.started(id(job)).await;
    assert_eq!(record.ended(id(job)).await, Outcome::Exited { status: 0 });
    system.command(id(job), AttemptCommand::Settled).await;
    pid
}

#[tokio::test]
async fn the_runner_of_the_next_attempt_waits_already_and_ends_with_its_site() {
    let Some(fixture) = ForkFixture::new("the_runner_of_the_next_attempt_waits_already") else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = fixture.open(record.clone());
    assert_eq!(system.spares(), 0, "before the first attempt there is none");
    run(&system, &fixture, &record, 1).await;
    let waiting = spares(&fixture, 1).await;
    assert_eq!(system.spares(), 1);
    // It has the attempt's spool for its own from now on, so it is told by its pid.
    assert_eq!([run(&system, &fixture, &record, 2).await], waiting[..]);
    drop(system);
    spares(&fixture, 0).await;
}

#[tokio::test]
async fn a_spare_of_a_program_that_was_replaced_is_not_used() {
    let Some(mut fixture) = ForkFixture::new("a_spare_of_a_program_that_was_replaced") else {
        return;
    };
    let (program, newer) = (fixture.top().join("run"), fixture.top().join("newer"));
    std::fs::copy(&fixture.runner, &program).unwrap();
    std::fs::copy(&fixture.runner, &newer).unwrap();
    fixture.runner = program.clone();
    let record = Arc::new(Record::default());
    let system = fixture.open(record.clone());
    run(&system, &fixture, &record, 1).await;
    let old = spares(&fixture, 1).await;
    std::fs::rename(&newer, &program).unwrap();
    assert_ne!([run(&system, &fixture, &record, 2).await], old[..]);
    let new = spares(&fixture, 1).await;
    assert_eq!([run(&system, &fixture, &record, 3).await], new[..]);
}

#[tokio::test]
async fn a_spare_that_died_is_no_loss() {
    let Some(fixture) = ForkFixture::new("a_spare_that_died_is_no_loss") else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = fixture.open(record.clone());
    run(&system, &fixture, &record, 1).await;
    for pid in spares(&fixture, 1).await {
        fixture.kill_runner(pid);
    }
    run(&system, &fixture, &record, 2).await;
    spares(&fixture, 1).await;
}

#[tokio::test]
async fn an_attempt_whose_spare_died_before_it_heard_its_call_begins_anew() {
    let Some(fixture) = ForkFixture::new("an_attempt_whose_spare_died_unheard") else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = fixture.open(record.clone());
    run(&system, &fixture, &record, 1).await;
    let spare = spares(&fixture, 1).await[0];
    common::signal(spare, 19); // SIGSTOP: it cannot hear
    system
        .start(script(fixture.top(), 2, "exit 7"))
        .await
        .unwrap();
    common::signal(spare, 9);
    assert_ne!(record.started(id(2)).await, spare);
    assert_eq!(record.ended(id(2)).await, Outcome::Exited { status: 7 });
}

//! The duties of `BatchSystem` (kumiko_job::contract), for whatever implements it: each case is written once and run
//! with each fixture.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::{
    CondorFixture, FakeFixture, Fixture, ForkFixture, PilotedCondorFixture, PilotedSlurmFixture,
    Record, SlurmFixture, id, script,
};
use kumiko_job::attempt::{
    AttemptCommand, AttemptReport, AttemptSpec, NOT_BEGUN, Outcome, OutputStream,
};
use kumiko_job::contract::BatchSystem;
use kumiko_job::description::Stdin;
use std::sync::Arc;

const WELL: Outcome = Outcome::Exited { status: 0 };

/// Runs every case with a fixture, as tests of its own.
macro_rules! suite {
    ($system:ident, $fixture:ty: $($case:ident)*) => {
        mod $system {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(fixture) = <$fixture>::new(stringify!($case)) {
                    super::$case(fixture).await;
                }
            })*
        }
    };
}

macro_rules! all {
    ($system:ident, $fixture:ty) => {
        suite! { $system, $fixture:
            an_attempt_runs_and_its_output_is_readable_below_the_reported_length
            reports_come_in_order_and_the_end_is_the_last_and_once
            a_second_start_of_an_attempt_starts_nothing
            what_cannot_run_is_accepted_and_reported_by_code
            commands_reach_the_attempt
            what_is_held_begins_when_it_is_released_whoever_was_there_before
            a_command_to_what_has_ended_or_never_was_is_no_error
            stdin_waits_for_its_reader
            attempts_go_on_without_their_site_and_are_adopted
            an_attempt_that_ended_without_its_site_is_reported_from_disk
            an_attempt_that_never_began_is_said_so_and_never_will
            a_killed_runner_is_lost_and_told_by_itself
            a_runner_killed_without_its_site_is_lost_to_the_next
            what_is_forgotten_is_gone
            many_attempts_run_at_once
        }
    };
}

all!(fork, ForkFixture);
all!(fake_slurm, FakeFixture);
all!(slurm, SlurmFixture);
all!(condor, CondorFixture);
all!(piloted_slurm, PilotedSlurmFixture);
all!(piloted_condor, PilotedCondorFixture);

async fn an_attempt_runs_and_its_output_is_readable_below_the_reported_length<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let spec = script(f.top(), 1, "echo hello; echo oops >&2; exit 3");
    system.start(spec).await.unwrap();
    assert_eq!(record.ended(id(1)).await, Outcome::Exited { status: 3 });
    let length = |of| {
        record
            .of(id(1))
            .iter()
            .rev()
            .find_map(|report| match report {
                AttemptReport::Output { stream, length } if *stream == of => Some(*length),
                _ => None,
            })
    };
    assert_eq!(length(OutputStream::Stdout), Some(6));
    assert_eq!(length(OutputStream::Stderr), Some(5));
    let read = |name| std::fs::read_to_string(system.spool(id(1)).join(name)).unwrap();
    assert_eq!(
        (read("stdout"), read("stderr")),
        ("hello\n".into(), "oops\n".into())
    );
    system.command(id(1), AttemptCommand::Settled).await;
}

async fn reports_come_in_order_and_the_end_is_the_last_and_once<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    system
        .start(script(f.top(), 1, "seq 200000; seq 100000 >&2"))
        .await
        .unwrap();
    assert_eq!(record.ended(id(1)).await, WELL);
    system.command(id(1), AttemptCommand::Settled).await;
    let told = record.of(id(1));
    assert!(matches!(told[0], AttemptReport::Started { .. }), "{told:?}");
    assert_eq!(told.last(), Some(&AttemptReport::Ended(WELL)));
    let ends = told
        .iter()
        .filter(|report| matches!(report, AttemptReport::Ended(_)));
    assert_eq!(ends.count(), 1);
    let lengths: Vec<u64> = told
        .iter()
        .filter_map(|report| match report {
            AttemptReport::Output {
                stream: OutputStream::Stdout,
                length,
            } => Some(*length),
            _ => None,
        })
        .collect();
    assert!(lengths.is_sorted(), "{lengths:?}");
}

async fn a_second_start_of_an_attempt_starts_nothing<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let spec = script(
        f.top(),
        1,
        "echo x >> ran; while [ ! -e go ]; do sleep 0.02; done",
    );
    let both = tokio::join!(system.start(spec.clone()), system.start(spec.clone()));
    both.0.unwrap();
    both.1.unwrap();
    record.started(id(1)).await;
    system.start(spec.clone()).await.unwrap();
    drop(system);
    let after = f.open(record.clone()); // and a site that does not know that it did
    after.start(spec.clone()).await.unwrap();
    std::fs::write(spec.job_directory.join("go"), "").unwrap();
    assert_eq!(record.ended(id(1)).await, WELL);
    after.command(id(1), AttemptCommand::Settled).await;
    after.start(spec.clone()).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(spec.job_directory.join("ran")).unwrap(),
        "x\n"
    );
}

async fn what_cannot_run_is_accepted_and_reported_by_code<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let spec = AttemptSpec {
        executable: "/no/such/program".into(),
        ..script(f.top(), 1, "")
    };
    system.start(spec).await.unwrap();
    match record.ended(id(1)).await {
        Outcome::NeverStarted { code, .. } => assert_eq!(code, "no_such_executable"),
        other => panic!("{other:?}"),
    }
    system.command(id(1), AttemptCommand::Settled).await;
}

async fn commands_reach_the_attempt<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let rows = [
        (
            1,
            AttemptCommand::Signal { signal: 10 },
            Outcome::Exited { status: 10 },
        ),
        (
            2,
            AttemptCommand::Cancel { grace_ms: 10_000 },
            Outcome::Cancelled,
        ),
        (
            3,
            AttemptCommand::Cancel { grace_ms: 0 },
            Outcome::Cancelled,
        ),
    ];
    for (job, command, expected) in rows {
        let text = "trap 'exit 10' USR1; echo ready; while :; do sleep 0.02; done";
        system.start(script(f.top(), job, text)).await.unwrap();
        record.printed(id(job), 6).await;
        system.command(id(job), command.clone()).await;
        assert_eq!(record.ended(id(job)).await, expected, "{command:?}");
        system.command(id(job), AttemptCommand::Settled).await;
    }
}

async fn what_is_held_begins_when_it_is_released_whoever_was_there_before<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let held = |job| AttemptSpec {
        hold_ms: Some(600_000),
        ..script(f.top(), job, "echo ran > ran")
    };
    let (first, second) = (held(1), held(2));
    for spec in [&first, &second] {
        system.start(spec.clone()).await.unwrap();
        record.held(spec.id).await;
    }
    system
        .command(id(2), AttemptCommand::Cancel { grace_ms: 0 })
        .await;
    assert_eq!(record.ended(id(2)).await, Outcome::Cancelled);
    assert!(!second.job_directory.join("ran").exists());
    drop(system);
    let record = Arc::new(Record::default());
    let after = f.open(record.clone());
    after.adopt(id(1)).await;
    // Said before its runner is there again.
    after.command(id(1), AttemptCommand::Release).await;
    assert_eq!(record.ended(id(1)).await, WELL);
    assert!(first.job_directory.join("ran").exists());
}

async fn a_command_to_what_has_ended_or_never_was_is_no_error<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    system.start(script(f.top(), 1, "exit 0")).await.unwrap();
    record.ended(id(1)).await;
    let stdin = AttemptCommand::Stdin {
        offset: 0,
        data: Bytes::from(vec![0; 1 << 20]),
    };
    for command in [
        stdin,
        AttemptCommand::Cancel { grace_ms: 0 },
        AttemptCommand::Signal { signal: 9 },
        AttemptCommand::Settled,
        AttemptCommand::Settled,
        AttemptCommand::Cancel { grace_ms: 0 },
    ] {
        system.command(id(1), command.clone()).await;
        system.command(id(404), command).await;
    }
}

async fn stdin_waits_for_its_reader<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = Arc::new(f.open(record.clone()));
    let text = "while [ ! -e go ]; do sleep 0.02; done; sha256sum";
    let spec = AttemptSpec {
        stdin: Stdin::Live,
        ..script(f.top(), 1, text)
    };
    let go = spec.job_directory.join("go");
    system.start(spec).await.unwrap();
    record.started(id(1)).await;
    let data = Bytes::from(vec![b'x'; 3_000_000]);
    let end = data.len() as u64;
    let sending = tokio::spawn({
        let system = system.clone();
        async move {
            system
                .command(id(1), AttemptCommand::Stdin { offset: 0, data })
                .await
        }
    });
    // What the pipe and the window hold is taken; the rest waits in the sender.
    record
        .wait_for(id(1), |r| {
            matches!(r, AttemptReport::StdinTaken { offset } if *offset >= 65536).then_some(())
        })
        .await;
    assert!(!sending.is_finished());
    std::fs::write(go, "").unwrap();
    sending.await.unwrap();
    system
        .command(id(1), AttemptCommand::StdinEnd { offset: end })
        .await;
    assert_eq!(record.ended(id(1)).await, WELL);
    let out = std::fs::read_to_string(system.spool(id(1)).join("stdout")).unwrap();
    let again = std::process::Command::new("sh")
        .args(["-c", "head -c 3000000 /dev/zero | tr '\\0' x | sha256sum"])
        .output()
        .unwrap();
    assert_eq!(out, String::from_utf8(again.stdout).unwrap());
    system.command(id(1), AttemptCommand::Settled).await;
}

async fn attempts_go_on_without_their_site_and_are_adopted<F: Fixture>(f: F) {
    let before = Arc::new(Record::default());
    let system = f.open(before.clone());
    let spec = script(
        f.top(),
        1,
        "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 4",
    );
    let go = spec.job_directory.join("go");
    system.start(spec).await.unwrap();
    before.printed(id(1), 4).await;
    drop(system);
    let after = Arc::new(Record::default());
    let system = f.open(after.clone());
    system.adopt(id(1)).await;
    after.started(id(1)).await;
    after.printed(id(1), 4).await;
    std::fs::write(go, "").unwrap();
    assert_eq!(after.ended(id(1)).await, Outcome::Exited { status: 4 });
    let out = std::fs::read_to_string(system.spool(id(1)).join("stdout")).unwrap();
    assert_eq!(out, "one\ntwo\n");
    system.command(id(1), AttemptCommand::Settled).await;
}

async fn an_attempt_that_ended_without_its_site_is_reported_from_disk<F: Fixture>(f: F) {
    let before = Arc::new(Record::default());
    let system = f.open(before.clone());
    system
        .start(script(f.top(), 1, "echo words; exit 6"))
        .await
        .unwrap();
    before.ended(id(1)).await;
    system.command(id(1), AttemptCommand::Settled).await;
    drop(system);
    let after = Arc::new(Record::default());
    let system = f.open(after.clone());
    system.adopt(id(1)).await;
    assert_eq!(after.ended(id(1)).await, Outcome::Exited { status: 6 });
    let told = after.of(id(1));
    let stdout = AttemptReport::Output {
        stream: OutputStream::Stdout,
        length: 6,
    };
    assert!(told.contains(&stdout), "{told:?}");
    system.adopt(id(1)).await; // as often as one likes: the site may die again before it has recorded this
}

async fn an_attempt_that_never_began_is_said_so_and_never_will<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    for _ in 0..2 {
        system.adopt(id(9)).await;
        match record.ended(id(9)).await {
            Outcome::NeverStarted { code, .. } => assert_eq!(code, NOT_BEGUN),
            other => panic!("{other:?}"),
        }
    }
    let spec = script(f.top(), 9, "touch ran");
    let ran = spec.job_directory.join("ran");
    let after = Arc::new(Record::default());
    let system = f.open(after.clone());
    system.start(spec).await.unwrap();
    after.ended(id(9)).await;
    assert!(!ran.exists());
}

async fn a_killed_runner_is_lost_and_told_by_itself<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    system
        .start(script(f.top(), 1, "echo words; exec sleep 60"))
        .await
        .unwrap();
    record.printed(id(1), 6).await;
    f.kill_runner(record.started(id(1)).await);
    assert!(matches!(record.ended(id(1)).await, Outcome::Lost { .. }));
}

async fn a_runner_killed_without_its_site_is_lost_to_the_next<F: Fixture>(f: F) {
    let before = Arc::new(Record::default());
    let system = f.open(before.clone());
    let spec = script(f.top(), 1, "echo x >> ran; echo words; exec sleep 60");
    let ran = spec.job_directory.join("ran");
    system.start(spec.clone()).await.unwrap();
    before.printed(id(1), 6).await;
    let runner = before.started(id(1)).await;
    drop(system);
    f.kill_runner(runner);
    let after = Arc::new(Record::default());
    let system = f.open(after.clone());
    system.adopt(id(1)).await;
    assert!(matches!(after.ended(id(1)).await, Outcome::Lost { .. }));
    system.start(spec).await.unwrap(); // it began: nothing runs twice
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "x\n");
}

async fn what_is_forgotten_is_gone<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    system.start(script(f.top(), 1, "exit 0")).await.unwrap();
    record.ended(id(1)).await;
    assert!(system.spool(id(1)).exists());
    system.forget(id(1)).await;
    assert!(!system.spool(id(1)).exists());
    system.forget(id(1)).await;
    system.forget(id(404)).await;
}

/// With pilots and without at the same time, both fit into the 64 processors of a testbed's hosts.
const MANY: u64 = 24;

async fn many_attempts_run_at_once<F: Fixture>(f: F) {
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let go = f.top().join("job-1/go");
    for job in 1..=MANY {
        let spec = AttemptSpec {
            job_directory: f.top().join("job-1"),
            ..script(
                f.top(),
                job,
                "while [ ! -e go ]; do sleep 0.05; done; exit $KUMIKO_RANK",
            )
        };
        system.start(spec).await.unwrap();
    }
    for job in 1..=MANY {
        record.started(id(job)).await;
    }
    std::fs::write(go, "").unwrap();
    for job in 1..=MANY {
        assert_eq!(record.ended(id(job)).await, WELL);
        system.command(id(job), AttemptCommand::Settled).await;
    }
}

//! What real engines do to attempts, and what becomes of these: preempted, held, evicted, removed; controller killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{CondorFixture, Fixture, OwnSlurm, Record, id, script, until};
use kumiko_job::attempt::{EngineCause, Outcome};
use kumiko_job::contract::BatchSystem;
use std::process::Command;
use std::sync::Arc;

const WELL: Outcome = Outcome::Exited { status: 0 };
/// Until it is told to go on.
const WAITS: &str = "echo up; while [ ! -e go ]; do sleep 0.02; done";

fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn ended_by(outcome: &Outcome, cause: EngineCause) {
    match outcome {
        Outcome::EngineEnded { cause: told, .. } => assert_eq!(*told, cause, "{outcome:?}"),
        other => panic!("{cause:?} expected: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slurm_preempts_an_attempt_and_says_so() {
    let Some(f) = OwnSlurm::new("slurm_preempts_an_attempt_and_says_so", &[]) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    system.start(script(f.top(), 1, WAITS)).await.unwrap();
    record.printed(id(1), 3).await;
    // It needs all there is, and its partition is worth more.
    let line = [
        "--parsable",
        "--partition=urgent",
        "--nodes=2",
        "--exclusive",
        "--output=/dev/null",
        "--wrap=true",
    ];
    ok(f.engine.command("sbatch").args(line));
    ended_by(&record.ended(id(1)).await, EngineCause::Preempted);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_live_through_the_death_of_slurms_controller() {
    let test = "attempts_live_through_the_death_of_slurms_controller";
    let Some(f) = OwnSlurm::new(test, &[]) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    for job in [1, 2] {
        system.start(script(f.top(), job, WAITS)).await.unwrap();
        record.printed(id(job), 3).await;
    }
    let directory = f.engine.directory.path();
    // What it had not saved yet it would forget, and give the number of that job to the next.
    let site = std::fs::read_to_string(f.top().join("spools/site")).unwrap();
    let tag = kumiko_batch::engine::order::tag(&site, id(2));
    let saved = directory.join("state/job_state");
    until(|| {
        let saved = std::fs::read(&saved).unwrap_or_default();
        saved.windows(tag.len()).any(|part| part == tag.as_bytes())
    })
    .await;
    let pid = std::fs::read_to_string(directory.join("slurmctld.pid")).unwrap();
    ok(Command::new("kill").args(["-KILL", pid.trim()]));
    // Its end is the runner's to tell, who tells it to us.
    std::fs::write(f.top().join("job-1/go"), "").unwrap();
    assert_eq!(record.ended(id(1)).await, WELL);
    let configuration = directory.join("slurm.conf");
    ok(Command::new("slurmctld")
        .arg("-f")
        .arg(&configuration)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"));
    std::fs::write(f.top().join("job-2/go"), "").unwrap();
    assert_eq!(record.ended(id(2)).await, WELL);
    system.start(script(f.top(), 3, "exit 0")).await.unwrap();
    assert_eq!(record.ended(id(3)).await, WELL);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_condor_does_to_a_running_attempt_is_told_apart() {
    let Some(f) = CondorFixture::new("what_condor_does_to_a_running_attempt_is_told_apart") else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let rows: [(u64, &[&str], EngineCause); 3] = [
        (1, &["condor_hold"], EngineCause::Held),
        (2, &["condor_vacate_job", "-fast"], EngineCause::Evicted),
        (3, &["condor_rm"], EngineCause::Removed),
    ];
    for (job, _, _) in rows {
        system.start(script(f.top(), job, WAITS)).await.unwrap();
    }
    for (job, command, _) in rows {
        record.printed(id(job), 3).await;
        let constraint = format!("KumikoTag == \"{}\"", f.tag(id(job)));
        let (program, flags) = command.split_first().unwrap();
        ok(f.engine()
            .command(program)
            .args(flags)
            .args(["-constraint", &constraint]));
    }
    for (job, _, cause) in rows {
        ended_by(&record.ended(id(job)).await, cause);
    }
    // Nothing of them stays in the queue, to be run again when somebody releases it.
    let all = f.all();
    until(|| {
        ok(f.engine()
            .command("condor_q")
            .args(["-constraint", &all, "-af", "ClusterId"]))
        .trim()
        .is_empty()
    })
    .await;
}

//! What real engines do to attempts, and what becomes of these: preempted, held, evicted, removed, over their time, without a host;
//! controller killed, tools that lie.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{CondorFixture, Fixture, OwnCondor, OwnSlurm, Record, id, script, until};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, EngineCause, Outcome};
use kumiko_job::contract::BatchSystem;
use kumiko_job::description::Resources;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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
async fn slurm_preempts_attempts_and_says_so() {
    let Some(f) = OwnSlurm::new("slurm_preempts_attempts_and_says_so", &[]) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    // The other as a launcher of MPI does, which tells how its ranks ended.
    let launcher = format!("trap 'exit 143' TERM; {WAITS}");
    for (job, line) in [(1, WAITS), (2, &launcher)] {
        system.start(script(f.top(), job, line)).await.unwrap();
        record.printed(id(job), 3).await;
    }
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
    for job in [1, 2] {
        ended_by(&record.ended(id(job)).await, EngineCause::Preempted);
    }
}

/// Slurm's number of an attempt's job.
fn number(f: &OwnSlurm, job: u64) -> String {
    let site = std::fs::read_to_string(f.top().join("spools/site")).unwrap();
    let tag = kumiko_batch::engine::order::tag(&site, id(job));
    let line = ["--noheader", "--format=%i", "--name", &tag];
    ok(f.engine.command("squeue").args(line)).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn slurm_ends_what_is_over_its_time_and_what_is_on_a_lost_host_and_says_which() {
    let test = "slurm_ends_what_is_over_its_time_and_what_is_on_a_lost_host_and_says_which";
    let Some(f) = OwnSlurm::new(test, &[]) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let scontrol = |words: &[&str]| ok(f.engine.command("scontrol").arg("update").args(words));
    // All of a host, so that the second is on the other.
    let first = AttemptSpec {
        resources: Resources {
            cpus: Some(32),
            ..Resources::default()
        },
        ..script(f.top(), 1, WAITS)
    };
    for spec in [first, script(f.top(), 2, WAITS)] {
        let id = spec.id;
        system.start(spec).await.unwrap();
        record.printed(id, 3).await;
    }
    // As at the end of the time that a partition gives, which is a minute at least. Slurm looks twice a minute,
    // and takes no end that is past when its daemon reads it.
    let first = format!("JobId={}", number(&f, 1));
    scontrol(&[&first, "EndTime=now+5"]);
    let second = number(&f, 2);
    let line = ["--noheader", "--format=%N", "--jobs", &second];
    let host = ok(f.engine.command("squeue").args(line));
    let host = format!("NodeName={}", host.trim());
    scontrol(&[&host, "State=DOWN", "Reason=test"]);
    ended_by(&record.ended(id(2)).await, EngineCause::HostLost);
    ended_by(&record.ended(id(1)).await, EngineCause::Limit);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_squeue_that_prints_garbage_ends_nothing_of_a_real_slurm() {
    let test = "a_squeue_that_prints_garbage_ends_nothing_of_a_real_slurm";
    let Some(f) = OwnSlurm::new(test, &[]) else {
        return;
    };
    // Before Slurm's own in PATH.
    let own = f.top().join("tools");
    std::fs::create_dir(&own).unwrap();
    let squeue = "#!/bin/sh\n[ -e \"${0%/*}/garbage\" ] && exec head -c 4096 /dev/urandom\nPATH=${PATH#*:} exec squeue \"$@\"\n";
    std::fs::write(own.join("squeue"), squeue).unwrap();
    std::fs::set_permissions(own.join("squeue"), Permissions::from_mode(0o755)).unwrap();
    let mut path = own.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let record = Arc::new(Record::default());
    let system = f.open_by(record.clone(), |tools| tools.with("PATH", &path));
    for job in [1, 2] {
        system.start(script(f.top(), job, WAITS)).await.unwrap();
        record.printed(id(job), 3).await;
    }
    std::fs::write(own.join("garbage"), "").unwrap();
    common::signal(record.started(id(1)).await, 9);
    until(|| {
        system
            .waits(id(1))
            .is_some_and(|words| words.contains("not an answer"))
    })
    .await;
    std::fs::write(f.top().join("job-2/go"), "").unwrap();
    assert_eq!(record.ended(id(2)).await, WELL);
    let ended = |report: &AttemptReport| matches!(report, AttemptReport::Ended(_));
    assert!(
        !record.of(id(1)).iter().any(ended),
        "{:?}",
        record.of(id(1))
    );
    std::fs::remove_file(own.join("garbage")).unwrap();
    assert!(matches!(record.ended(id(1)).await, Outcome::Lost { .. }));
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

/// Its hosts hold jobs to the memory that they asked for, and what asks for a time limit has two seconds: less than a job can ask for is
/// more than a minute (E5).
const CONDOR_LIMITS: &str = "use POLICY : HOLD_IF_MEMORY_EXCEEDED
WANT_VACATE = False
JOB_TRANSFORM_NAMES = short
JOB_TRANSFORM_short @=end
  REQUIREMENTS AllowedJobDuration =!= undefined
  SET AllowedJobDuration 2
@end";
/// It looks every second what jobs use.
const SLURM_LIMITS: &str = "JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill";
/// Three times what is asked for: tail(1) keeps in memory what it may have to print.
const EATS: &str = "echo up; (head -c 400000000 /dev/zero; sleep 100) | tail -c 400000000";

/// Of 128 MiB.
fn small(top: &Path, job: u64, text: &str) -> AttemptSpec {
    AttemptSpec {
        resources: Resources {
            memory_mib: Some(128),
            ..Resources::default()
        },
        ..script(top, job, text)
    }
}

/// What an engine ends for its memory is told apart from what fails by itself.
async fn memory_is_told_apart(system: &impl BatchSystem, record: &Record, top: &Path) {
    for (job, text) in [(1, EATS), (3, "echo up; exit 1")] {
        system.start(small(top, job, text)).await.unwrap();
    }
    assert_eq!(record.ended(id(3)).await, Outcome::Exited { status: 1 });
    ended_by(&record.ended(id(1)).await, EngineCause::Limit);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_condor_ends_for_being_over_a_limit_is_told_apart_from_what_failed_by_itself() {
    let test = "what_condor_ends_for_being_over_a_limit_is_told_apart_from_what_failed_by_itself";
    let Some(f) = OwnCondor::new(test, CONDOR_LIMITS) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    let timed = AttemptSpec {
        time_limit_ms: Some(1_000_000),
        ..script(f.top(), 2, WAITS)
    };
    system.start(timed).await.unwrap();
    memory_is_told_apart(&system, &record, f.top()).await;
    ended_by(&record.ended(id(2)).await, EngineCause::Limit);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_slurm_ends_for_its_memory_is_told_apart_from_what_failed_by_itself() {
    let test = "what_slurm_ends_for_its_memory_is_told_apart_from_what_failed_by_itself";
    let Some(f) = OwnSlurm::new(test, &[("SLURM_SETTINGS", SLURM_LIMITS)]) else {
        return;
    };
    let record = Arc::new(Record::default());
    let system = f.open(record.clone());
    memory_is_told_apart(&system, &record, f.top()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a thousand jobs of a real Slurm: a minute or two"]
async fn a_thousand_attempts_that_slurm_holds_while_their_site_is_down_run_once_each() {
    const MANY: u64 = 1000;
    let test = "a_thousand_attempts_that_slurm_holds_while_their_site_is_down_run_once_each";
    let Some(f) = OwnSlurm::new(test, &[]) else {
        return;
    };
    let before = Arc::new(Record::default());
    let system = f.open(before.clone());
    // These have both hosts until they are told.
    let blocking = |job| AttemptSpec {
        resources: Resources {
            cpus: Some(32),
            ..Resources::default()
        },
        ..script(f.top(), job, WAITS)
    };
    let blockers = [MANY + 1, MANY + 2];
    for job in blockers {
        system.start(blocking(job)).await.unwrap();
        before.printed(id(job), 3).await;
    }
    for job in 1..=MANY {
        let spec = script(f.top(), job, "echo x >> ran");
        system.start(spec).await.unwrap();
    }
    drop(system);
    let after = Arc::new(Record::default());
    let system = f.open(after.clone());
    for job in 1..=MANY + 2 {
        system.adopt(id(job)).await;
    }
    until(|| (1..=MANY).all(|job| system.waits(id(job)).is_some_and(|w| w.contains("PENDING"))))
        .await;
    for job in blockers {
        std::fs::write(f.top().join(format!("job-{job}/go")), "").unwrap();
        // Until then its runner has the host.
        after.ended(id(job)).await;
        system.command(id(job), AttemptCommand::Settled).await;
    }
    for job in 1..=MANY {
        assert_eq!(after.ended(id(job)).await, WELL, "{job}");
        system.command(id(job), AttemptCommand::Settled).await;
        let ran = std::fs::read_to_string(f.top().join(format!("job-{job}/ran"))).unwrap();
        assert_eq!(ran, "x\n", "{job}");
    }
}

//! The manager with real runners, started by itself or by a real engine, killed right after each event that it records, and started
//! again on the same files.
//! The one scenario that is not a black box: from outside nobody can hit the moment between an event and its action.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_batch::chosen::{Chosen, Prepared};
use kumiko_batch::pilots::{Pilots, Size};
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::contract::{Caller, EventStream, Jobs, OutputReader};
use kumiko_job::description::{Destination, JobDescription, Resources, StageIn, StageOut};
use kumiko_job::id::JobId;
use kumiko_manager::{Limits, Manager, Setup};
use kumiko_policy::Policy;
use kumiko_staging::Mover;
use kumiko_staging::cache::Cache;
use kumiko_testkit::engine::Engine;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DIRECTORY: &str = "KUMIKO_EVERY_EVENT_DIRECTORY";
const DIE_AFTER: &str = "KUMIKO_EVERY_EVENT_DIE_AFTER";
/// The name of the batch system, and how many pilots are before it.
const BATCH: &str = "KUMIKO_EVERY_EVENT_BATCH";
const PILOTS: &str = "KUMIKO_EVERY_EVENT_PILOTS";
/// Set where the site dies so often that a job may be given up.
const GIVES_UP: &str = "KUMIKO_EVERY_EVENT_GIVES_UP";
/// In case kill(1) is missing.
const NOT_KILLED: i32 = 86;

fn runner() -> PathBuf {
    std::env::var_os("KUMIKO_RUN").map_or_else(
        || kumiko_e2e::kumiko().with_file_name("kumiko-run"),
        PathBuf::from,
    )
}

fn caller() -> Caller {
    Caller {
        subject: "/O=Test/CN=Alice".to_owned(),
        account: "alice".to_owned(),
    }
}

/// The site, in a process that the tests below start. By itself it does nothing.
#[test]
fn the_site() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let die_after: u64 = std::env::var(DIE_AFTER).unwrap().parse().unwrap();
    let recorded = AtomicU64::new(0);
    let setup = Setup {
        directory: directory.join("state"),
        limits: Limits::default(),
        capacity: kumiko_job::admission::Capacity::UNBOUNDED,
        closed: Box::new(|| None),
        effective: Box::new(|_, _| Ok(Policy::default())),
        transfer: Some(mover(&directory)),
        after_commit: Some(Box::new(move |_, _| {
            if recorded.fetch_add(1, Ordering::Relaxed) + 1 == die_after {
                // As with kill -9, nothing is flushed, dropped or said.
                kill_self();
            }
        })),
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let batch = batch(directory.join("spool"));
        let manager = Manager::open(setup, |sink| batch.open(sink)).await.unwrap();
        live(&manager, &directory).await;
        manager.close().await;
    });
}

/// What the environment names.
fn batch(spool: PathBuf) -> Prepared {
    let said = |name: &str| std::env::var(name).unwrap_or_default();
    let pilots = Pilots {
        size: Size {
            least: 0,
            most: said(PILOTS).parse().unwrap_or(0),
            cpus: 4,
            time_ms: None,
        },
        resources: Resources {
            cpus: Some(4),
            ..Resources::default()
        },
    };
    let name = said(BATCH).parse().unwrap_or_default();
    Prepared::new(name, spool, runner(), pilots).unwrap()
}

/// Moves files of this host only: no CA is needed.
fn mover(directory: &Path) -> Arc<Mover> {
    let (under_way, cache) = (directory.join("state/staging"), directory.join("cache"));
    let trust = directory.join("certificates");
    let none = trust.clone();
    let load = Arc::new(move || kumiko_identity::TrustStore::load(&none));
    std::fs::create_dir_all(directory.join("state")).unwrap();
    Arc::new(Mover::new(kumiko_staging::Setup::new(under_way, cache, load, trust)).unwrap())
}

/// A file in, a file and a stream out, and cleaned up.
fn staged() -> JobDescription {
    let script = "test -s in && echo start >> starts && echo made > made && echo out";
    JobDescription {
        stage_in: vec![StageIn {
            from: "file:///usr/bin/env".to_owned(),
            to: "in".to_owned(),
            bytes: None,
            sha256: None,
        }],
        stage_out: vec![StageOut {
            from: "made".to_owned(),
            to: "x-gass-cache://made".to_owned(),
        }],
        stdout: vec![Destination::new("log")],
        clean_up: vec!["in".to_owned()],
        ..JobDescription::new("sh", &["-c".to_owned(), script.to_owned()])
    }
}

fn kill_self() -> ! {
    std::process::Command::new("kill")
        .args(["-9", &std::process::id().to_string()])
        .status()
        .unwrap();
    std::process::exit(NOT_KILLED)
}

async fn live(manager: &Arc<Manager<Chosen>>, directory: &Path) {
    let run = |script: &str| JobDescription::new("sh", &["-c".to_owned(), script.to_owned()]);
    let counted = run("echo start >> starts; echo out; exit 5");
    let patient = run("echo start >> starts; echo out; sleep 600");
    let short = manager
        .submit(&caller(), counted, Some("short".to_owned()))
        .await
        .unwrap();
    let long = manager
        .submit(&caller(), patient, Some("long".to_owned()))
        .await
        .unwrap();
    manager.cancel(&caller(), long, Some(10_000)).await.unwrap();
    let moved = manager
        .submit(&caller(), staged(), Some("staged".to_owned()))
        .await
        .unwrap();
    // An attempt that never began is tried again, but not for ever by a site that dies each time.
    let given_up = matches!(end(manager, short).await, Outcome::NeverStarted { .. });
    assert!(
        !given_up || std::env::var_os(GIVES_UP).is_some(),
        "given up after one crash"
    );
    if !given_up {
        assert_eq!(end(manager, short).await, Outcome::Exited { status: 5 });
        assert_eq!(output(manager, short).await, "out\n");
    }
    assert_eq!(end(manager, long).await, Outcome::Cancelled);
    let moved_end = end(manager, moved).await;
    let moved_ran = !matches!(moved_end, Outcome::NeverStarted { .. });
    assert!(moved_ran || std::env::var_os(GIVES_UP).is_some());
    let folder = manager.directory(&caller(), moved).await.unwrap();
    if moved_ran {
        assert_eq!(moved_end, Outcome::Exited { status: 0 });
        let log = std::fs::read_to_string(folder.join("log")).unwrap();
        assert_eq!(log, "out\n");
        let cache = Cache::new(directory.join("cache"));
        let mut made = String::new();
        std::io::Read::read_to_string(&mut cache.open("made").unwrap(), &mut made).unwrap();
        assert_eq!(made, "made\n");
    }
    assert!(!folder.join("in").exists(), "it is cleaned up");
    let jobs = [
        (short, usize::from(!given_up)),
        (long, 0),
        (moved, usize::from(moved_ran)),
    ];
    for (job, least) in jobs {
        let starts = manager
            .directory(&caller(), job)
            .await
            .unwrap()
            .join("starts");
        let starts = std::fs::read_to_string(starts)
            .unwrap_or_default()
            .lines()
            .count();
        assert!(
            (least..=1).contains(&starts),
            "job {job} was started {starts} times"
        );
    }
    let spools = std::fs::read_dir(directory.join("spool")).unwrap();
    let is_pilot = |name: OsString| name.to_string_lossy().starts_with("pilot-");
    let any = spools.flatten().any(|entry| is_pilot(entry.file_name()));
    let wanted = std::env::var(PILOTS).is_ok_and(|most| most != "0");
    assert_eq!(any, wanted, "pilots");
    std::fs::write(directory.join("finished"), "").unwrap();
}

async fn end(manager: &Arc<Manager<Chosen>>, job: JobId) -> Outcome {
    let mut events = manager.watch(&caller(), job, 0).await.unwrap();
    let mut number = 0;
    loop {
        let event = tokio::time::timeout(kumiko_e2e::DEADLINE, events.next())
            .await
            .expect("in time")
            .expect("an end");
        number += 1;
        assert_eq!(event.number, number, "each event once, in order");
        if event.state.has_ended() {
            return event.outcome.expect("an end has an outcome");
        }
    }
}

async fn output(manager: &Arc<Manager<Chosen>>, job: JobId) -> String {
    let mut reader = manager
        .output(&caller(), job, OutputStream::Stdout, 0)
        .await
        .unwrap();
    let mut all = Vec::new();
    while let Some((offset, data)) = reader.read(4096).await.unwrap() {
        assert_eq!(offset, all.len() as u64);
        all.extend_from_slice(&data);
    }
    String::from_utf8(all).unwrap()
}

/// What a site finds in its environment.
type Variables = Vec<(&'static str, OsString)>;

/// Whether the site came to its own end.
fn site(directory: &Path, die_after: u64, variables: &Variables) -> bool {
    finished(site_command(directory, die_after, variables))
}

fn site_command(directory: &Path, die_after: u64, variables: &Variables) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_site", "--nocapture"])
        .envs(variables.iter().cloned())
        .env(DIRECTORY, directory)
        .env(DIE_AFTER, die_after.to_string());
    command
}

fn finished(mut site: Command) -> bool {
    let output = site.output().unwrap();
    let killed = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
    assert!(
        output.status.success() || killed,
        "{}",
        kumiko_e2e::told(&output)
    );
    output.status.success()
}

/// Where a site with these variables is killed after each of its events in turn.
fn killed_after_any_event(variables: &Variables) {
    let mut died = 0;
    loop {
        let directory = tempfile::tempdir().unwrap();
        let lived = site(directory.path(), died + 1, variables);
        if !lived {
            assert!(
                site(directory.path(), 0, variables),
                "recovered after event {}",
                died + 1
            );
        }
        assert!(directory.path().join("finished").exists());
        if lived {
            break;
        }
        died += 1;
    }
    assert!(died >= 15, "three jobs have more events than {died}");
}

/// With a real engine, of which jobs are left in it when the site dies.
fn killed_with_jobs_in(engine: &'static str, pilots: &str, test: &str) {
    let Some(testbed) = Engine::shared(engine, test) else {
        return;
    };
    let mut variables = testbed.environment();
    variables.push((BATCH, engine.into()));
    variables.push((PILOTS, pilots.into()));
    killed_after_any_event(&variables);
}

#[test]
fn kill_9_after_any_event_of_a_jobs_life_loses_nothing_and_runs_nothing_twice() {
    killed_after_any_event(&Variables::new());
}

#[test]
fn kill_9_after_any_event_loses_nothing_that_slurm_has() {
    killed_with_jobs_in(
        "slurm",
        "0",
        "kill_9_after_any_event_loses_nothing_that_slurm_has",
    );
}

#[test]
fn kill_9_after_any_event_loses_nothing_that_condor_has() {
    killed_with_jobs_in(
        "condor",
        "0",
        "kill_9_after_any_event_loses_nothing_that_condor_has",
    );
}

#[test]
fn kill_9_after_any_event_loses_nothing_that_pilots_have() {
    killed_with_jobs_in(
        "slurm",
        "1",
        "kill_9_after_any_event_loses_nothing_that_pilots_have",
    );
}

#[test]
fn a_site_that_is_killed_again_at_each_recovery_still_gets_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut lives = 1;
    loop {
        let mut site = site_command(directory.path(), 2, &Variables::new());
        site.env(GIVES_UP, "1");
        if finished(site) {
            break;
        }
        lives += 1;
        assert!(lives < 50, "it makes no progress");
    }
    assert!(lives > 2, "{lives}");
}

//! A site that dies right after each event it records, and is started again on the same files: the runners go on
//! meanwhile, nothing acknowledged is lost, nothing runs twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::paper::Paper;
use common::{alice, soon};
use kumiko_job::admission::Capacity;
use kumiko_job::contract::{EventStream, JobState, Jobs};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_manager::{Limits, Manager};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const DIRECTORY: &str = "KUMIKO_CRASH_DIRECTORY";
const DIE_AFTER: &str = "KUMIKO_CRASH_AFTER";

/// What the client of the site was told, line by line; it outlives the site.
struct Diary<'a>(&'a Path);

impl Diary<'_> {
    fn write(&self, line: &str) {
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.0.join("diary"))
            .unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join("diary")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn job(&self, key: &str) -> Option<JobId> {
        let line = format!("job {key} ");
        self.lines()
            .iter()
            .find_map(|said| Some(JobId(said.strip_prefix(&line)?.parse().unwrap())))
    }

    fn says(&self, line: &str) -> bool {
        self.lines().iter().any(|said| said == line)
    }
}

/// The site and its client in one process, which the tests below start and which dies as they say. By itself it does
/// nothing.
#[test]
fn the_site() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory);
    let die_after: u64 = std::env::var(DIE_AFTER).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut setup = common::setup(directory, Limits::default());
        setup.capacity = Capacity::new(&kumiko_policy::Limits {
            memory_mib: Some(100),
            ..kumiko_policy::Limits::default()
        });
        let recorded = AtomicU64::new(0);
        setup.after_commit = Some(Box::new(move |_, _| {
            if recorded.fetch_add(1, Ordering::Relaxed) + 1 == die_after {
                std::process::abort();
            }
        }));
        let root = directory.join("spool");
        let manager = Manager::open(setup, |sink| Paper { root, sink })
            .await
            .unwrap();
        live(&manager, &Diary(directory)).await;
        manager.close().await;
    });
}

async fn live(manager: &Manager<Paper>, diary: &Diary<'_>) {
    for key in ["short", "forever", "upload"] {
        if diary.says(&format!("removing {key}")) {
            continue;
        }
        let mut description = JobDescription::new(key, &[]);
        // There is room for one of them: the other waits.
        description.resources.memory_mib = (key != "forever").then_some(60);
        if key == "upload" {
            let (name, path) = manager.new_upload(&alice()).await.unwrap();
            std::fs::write(path.join("data"), "42").unwrap();
            description.input = Some(name);
        }
        let id = manager
            .submit(&alice(), description, Some(key.into()))
            .await
            .unwrap();
        match diary.job(key) {
            Some(before) => assert_eq!(id, before, "one key, two jobs"),
            None => diary.write(&format!("job {key} {id}")),
        }
    }
    let job = |key: &str| diary.job(key).unwrap();
    manager
        .cancel(&alice(), job("forever"), Some(10_000))
        .await
        .unwrap();
    diary.write("cancelled forever");
    for key in ["short", "upload", "forever"] {
        if !diary.says(&format!("removing {key}")) {
            let state = end_of(manager, job(key)).await;
            diary.write(&format!("{key} is {state:?}"));
        }
    }
    let directory = manager.directory(&alice(), job("upload")).await.unwrap();
    if diary.says("upload is Done") {
        let data = std::fs::read_to_string(directory.join("data")).unwrap();
        assert_eq!(data, "42");
    }
    diary.write("removing short");
    match manager.remove(&alice(), job("short")).await {
        Ok(()) => {}
        Err(refusal) => assert_eq!(refusal.code, "no_such_job"),
    }
    diary.write("finished");
}

async fn end_of(manager: &Manager<Paper>, id: JobId) -> JobState {
    let mut events = manager.watch(&alice(), id, 0).await.unwrap();
    let mut next = 1;
    loop {
        let event = soon("the end of a job", events.next())
            .await
            .expect("it ends");
        assert_eq!(event.number, next);
        next += 1;
        if !matches!(
            event.state,
            JobState::Pending | JobState::Active | JobState::Suspended
        ) {
            return event.state;
        }
    }
}

/// Runs the site; says whether it lived to its end.
fn run(directory: &Path, die_after: u64) -> bool {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_site", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(DIE_AFTER, die_after.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let lived = output.status.success();
    let died_as_told = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(6);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(lived || died_as_told, "died after {die_after}: {words}");
    lived
}

/// What must hold whenever the site died; returns which jobs came to their own end.
fn check(directory: &Path) -> Vec<&'static str> {
    let diary = Diary(directory);
    assert!(diary.says("finished"));
    let uploads = std::fs::read_dir(directory.join("manager/uploads")).unwrap();
    assert!(uploads.count() <= 1, "a stale upload stays");
    let keys = ["short", "upload", "forever"];
    let well = |key: &&str| {
        let guest = format!("spool/guest.{}", diary.job(key).unwrap());
        let begun =
            std::fs::read_to_string(directory.join(guest)).map_or(0, |text| text.lines().count());
        let (done, cancelled, failed) = (
            diary.says(&format!("{key} is Done")),
            diary.says(&format!("{key} is Cancelled")),
            diary.says(&format!("{key} is Failed")),
        );
        assert_eq!(
            u8::from(done) + u8::from(cancelled) + u8::from(failed),
            1,
            "{key} has one end"
        );
        assert!(begun <= 1, "{key} runs twice");
        assert!(begun == 1 || !done, "{key} is done and never began");
        assert!(begun == 0 || !failed, "{key} began and failed");
        done || (cancelled && **key == *"forever")
    };
    keys.into_iter().filter(well).collect()
}

fn can_run(test: &str) -> bool {
    let known = Command::new("flock")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if known.is_err() {
        eprintln!("SKIP {test}: missing flock(1)");
    }
    known.is_ok()
}

#[test]
fn a_site_killed_after_any_event_goes_on_where_it_was() {
    if !can_run("a_site_killed_after_any_event_goes_on_where_it_was") {
        return;
    }
    let mut died = 0;
    loop {
        let directory = tempfile::tempdir().unwrap();
        let lived = run(directory.path(), died + 1);
        if !lived {
            assert!(run(directory.path(), 0), "it lives when nobody kills it");
        }
        assert_eq!(check(directory.path()), ["short", "upload", "forever"]);
        if lived {
            break;
        }
        died += 1;
    }
    assert!(died >= 12, "three jobs have more events than {died}");
}

#[test]
fn a_site_that_dies_after_every_single_event_comes_to_the_end_all_the_same() {
    if !can_run("a_site_that_dies_after_every_single_event_comes_to_the_end_all_the_same") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut lives = 1;
    while !run(directory.path(), 1) {
        lives += 1;
        assert!(lives < 100, "it makes no progress");
    }
    // Attempts are given up that the site dies over again and again, before they begin.
    check(directory.path());
    assert!(lives > 8, "{lives}");
}

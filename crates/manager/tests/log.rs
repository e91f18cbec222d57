//! Logs that cannot be opened, and a disk that is full: clear words, nothing lost, and the site still answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{alice, done, open, program, soon, try_open};
use kumiko_job::contract::{EventStream, JobState, Jobs};
use kumiko_manager::{Limits, OpenError};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A directory with one living job in its log.
async fn used() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = open(dir.path()).await;
    stage.submit(program()).await;
    stage.manager.close().await;
    let log = dir.path().join("manager/events.db");
    (dir, log)
}

async fn refused(dir: &Path) -> OpenError {
    match try_open(dir, Limits::default()).await {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

fn sql(log: &Path, text: &str) {
    rusqlite::Connection::open(log)
        .unwrap()
        .execute_batch(text)
        .unwrap();
}

/// What happens to the log, how, and what is said then.
type Row = (&'static str, fn(&Path), fn(&OpenError) -> bool);

#[tokio::test]
async fn a_log_that_is_not_what_it_was_is_never_silently_made_anew() {
    let rows: &[Row] = &[
        (
            "gone",
            |log| std::fs::remove_file(log).unwrap(),
            |error| matches!(error, OpenError::LogMissing { .. }),
        ),
        (
            "emptied",
            |log| std::fs::write(log, "").unwrap(),
            |error| matches!(error, OpenError::LogMissing { .. }),
        ),
        (
            "garbage",
            |log| std::fs::write(log, "garbage".repeat(1000)).unwrap(),
            |error| matches!(error, OpenError::Log { .. }),
        ),
        (
            "of a later version",
            |log| sql(log, "PRAGMA user_version = 99"),
            |error| matches!(error, OpenError::Schema { found: 99, .. }),
        ),
        (
            "of another program",
            |log| sql(log, "PRAGMA application_id = 7"),
            |error| matches!(error, OpenError::Foreign { .. }),
        ),
        (
            "with an unknown event",
            |log| {
                sql(
                    log,
                    r#"UPDATE events SET body = '{"flew":{}}' WHERE number = 2"#,
                )
            },
            |error| matches!(error, OpenError::BadEvent { number: 2, .. }),
        ),
        (
            "with a gap",
            |log| sql(log, "UPDATE events SET number = 4 WHERE number = 2"),
            |error| matches!(error, OpenError::Illegal { .. }),
        ),
        (
            "without its events",
            |log| sql(log, "DELETE FROM events"),
            |error| matches!(error, OpenError::NoEvents { .. }),
        ),
    ];
    for (what, damage, expected) in rows {
        let (dir, log) = used().await;
        damage(&log);
        let error = refused(dir.path()).await;
        assert!(expected(&error), "{what}: {error:?}");
        assert!(error.to_string().contains("events.db"), "{what}: {error}");
    }
}

#[tokio::test]
async fn two_managers_never_hold_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let _stage = open(dir.path()).await;
    assert!(matches!(refused(dir.path()).await, OpenError::Busy { .. }));
}

/// As a killed one's is, by a child that it was just starting.
#[tokio::test]
async fn a_lock_that_outlives_its_manager_for_a_moment_is_waited_for() {
    let (dir, log) = used().await;
    let lock = File::open(log.with_file_name("lock")).unwrap();
    kumiko_linux::spooling::wait_for_lock(&lock).unwrap();
    let child = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(lock);
    });
    open(dir.path()).await;
    assert!(child.is_finished());
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("manager"), "a file").unwrap();
    let error = refused(dir.path()).await;
    assert!(
        error.to_string().contains("/manager cannot be prepared"),
        "{error}"
    );
}

const SMALL_DISK: &str = "KUMIKO_SMALL_DISK";

/// Starts itself again with a disk of its own, of 2 MiB.
#[test]
fn a_full_disk_refuses_what_is_new_loses_nothing_and_heals() {
    const NAME: &str = "a_full_disk_refuses_what_is_new_loses_nothing_and_heals";
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return tokio::runtime::Runtime::new()
            .unwrap()
            .block_on(on_a_small_disk(Path::new(&disk)));
    }
    let dir = tempfile::tempdir().unwrap();
    let in_namespace = |script: &str, arguments: &[&std::ffi::OsStr]| {
        Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-ec",
                script,
                "sh",
            ])
            .args(arguments)
            .env(SMALL_DISK, dir.path())
            .stdin(Stdio::null())
            .output()
    };
    let mount = r#"mount -t tmpfs -o size=2m none "$KUMIKO_SMALL_DISK""#;
    if !in_namespace(mount, &[]).is_ok_and(|output| output.status.success()) {
        eprintln!("SKIP {NAME}: missing user namespaces");
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let arguments = [
        exe.as_os_str(),
        "--exact".as_ref(),
        NAME.as_ref(),
        "--nocapture".as_ref(),
    ];
    let output = in_namespace(&format!(r#"{mount}; exec "$@""#), &arguments).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn on_a_small_disk(disk: &Path) {
    let mut stage = open(disk).await;
    let (id, spec) = stage.submit(program()).await;
    let filler = disk.join("filler");
    let mut refusal = None;
    // The log may have room in what it has already.
    for _ in 0..10_000 {
        let _ = std::fs::write(&filler, vec![0; 2 << 20]);
        match stage.manager.submit(&alice(), program(), None).await {
            Ok(_) => {}
            Err(refused) => {
                refusal = Some(refused);
                break;
            }
        }
    }
    assert_eq!(refusal.unwrap().code, "log_full");
    assert_eq!(
        stage.manager.show(&alice(), id).await.unwrap().state,
        JobState::Pending
    );
    assert!(!stage.manager.list(&alice()).await.unwrap().is_empty());
    assert!(stage.manager.explain(&alice(), id).await.is_ok());

    let mut watch = stage.manager.watch(&alice(), id, 2).await.unwrap();
    stage.run(spec.id);
    stage.end(spec.id, done());
    let busy = || stage.manager.stats().unrecorded_reports == 0;
    soon("the reports to be held back", async {
        while busy() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        stage.manager.show(&alice(), id).await.unwrap().last_event,
        2
    );
    std::fs::remove_file(&filler).unwrap();
    let kinds = [
        soon("healing", watch.next()).await.unwrap(),
        soon("healing", watch.next()).await.unwrap(),
    ];
    assert_eq!(kinds.map(|event| event.kind), ["started", "attempt_ended"]);
    stage
        .manager
        .submit(&alice(), program(), None)
        .await
        .unwrap();
}

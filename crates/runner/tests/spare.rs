//! A runner that waits for its attempt (spec/jobs/runner.md, R15).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Site, script, wait};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, Outcome};
use kumiko_linux::{spooling, unix_socket};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

struct Spare {
    top: TempDir,
    runner: Child,
    leash: UnixStream,
    site: Site,
}

/// Returns when it waits in `top/spool`.
fn spare() -> Spare {
    let top = tempfile::tempdir().unwrap();
    let spool = top.path().join("spool");
    fs::create_dir(&spool).unwrap();
    let listener = unix_socket::listen(&spool.join("control")).unwrap();
    let (end, leash) = UnixStream::pair().unwrap();
    let runner = Command::new(env!("CARGO_BIN_EXE_kumiko-run"))
        .arg("--spare")
        .arg(&spool)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(OwnedFd::from(end))
        .stderr(File::open(&spool).unwrap())
        .spawn()
        .unwrap();
    let site = Site::connect(&top);
    let until = std::time::Instant::now() + common::DEADLINE;
    while !spool.join("stderr").exists() {
        assert!(std::time::Instant::now() < until, "it does not begin");
        std::thread::yield_now();
    }
    Spare {
        top,
        runner,
        leash,
        site,
    }
}

#[test]
fn it_runs_the_attempt_that_its_spool_is_renamed_for() {
    let mut spare = spare();
    let (blank, spool, job) = (
        spare.top.path().join("spool"),
        spare.top.path().join("7.1"),
        spare.top.path().join("job"),
    );
    fs::create_dir(&job).unwrap();
    let mut spec = script("echo out; echo err >&2; exit 3");
    spec.job_directory = job;
    let attempt = serde_json::to_vec(&spec).unwrap();
    fs::write(blank.join("attempt.json"), attempt).unwrap();
    fs::rename(&blank, &spool).unwrap();
    spare.leash.write_all(&[1]).unwrap();
    let AttemptReport::Started { pid, .. } = spare.site.started() else {
        unreachable!()
    };
    assert_eq!(pid, spare.runner.id());
    spare.leash.read_exact(&mut [0]).unwrap(); // it heard
    drop(spare.leash); // a site that goes now goes as any other
    assert_eq!(spare.site.ended(), Outcome::Exited { status: 3 });
    spare.site.say(&AttemptCommand::Settled);
    assert_eq!(wait(&mut spare.runner), 0);
    assert_eq!(fs::read_to_string(spool.join("stdout")).unwrap(), "out\n");
    assert_eq!(fs::read_to_string(spool.join("stderr")).unwrap(), "err\n");
    assert!(spool.join("status").exists());
}

#[test]
fn it_ends_with_the_site_that_never_called_it_and_the_attempt_has_not_begun() {
    let mut spare = spare();
    let spool = spare.top.path().join("7.1");
    // As late as can be: the site dies between naming the spool and the call.
    fs::rename(spare.top.path().join("spool"), &spool).unwrap();
    drop(spare.leash);
    assert_eq!(wait(&mut spare.runner), 0);
    for name in ["stdout", "stderr", "status", "log"] {
        assert!(!spool.join(name).exists(), "{name}");
    }
    let lock = File::options()
        .write(true)
        .open(spool.join("status.new"))
        .unwrap();
    assert!(spooling::try_lock(lock).unwrap());
}

//! What a guest cannot do to its runner, and what is left when a runner is killed (spec/jobs/runner.md, R1, R7, R8).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Attempt, DEADLINE, script};
use kumiko_job::attempt::{AttemptSpec, Outcome};
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::process;
use std::fs;

#[test]
fn the_environment_of_a_job_reaches_the_guest_only() {
    let environment = [
        ("LD_PRELOAD", "/no/such.so"),
        ("KUMIKO_RANK", "77"),
        ("OWN", "x=y z"),
    ];
    let spec = AttemptSpec {
        environment: environment
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
            .into(),
        ..script("echo $LD_PRELOAD,$KUMIKO_RANK,$KUMIKO_COUNT,$KUMIKO_JOB,$OWN; env; exec sleep 60")
    };
    let mut attempt = Attempt::start(spec);
    attempt.printed("KUMIKO_COUNT=1");
    let out = attempt.read("stdout");
    assert!(out.starts_with("/no/such.so,0,1,7.1,x=y z\n"), "{out}");
    assert!(!out.contains("KUMIKO_TEST_SECRET"), "{out}");
    let maps = fs::read_to_string(format!("/proc/{}/environ", attempt.runner.id()));
    if let Ok(own) = maps {
        assert!(!own.contains("LD_PRELOAD"), "{own}");
    }
}

#[test]
fn a_guest_cannot_signal_trace_read_or_even_see_its_runner() {
    let text = "while [ ! -s pid ]; do sleep 0.02; done; read pid < pid; \
         for s in 0 9 19; do kill -$s $pid 2>/dev/null && echo signalled $s; done; \
         for f in mem environ fd root cwd; do [ -e /proc/$pid/$f ] && echo saw $f; done; echo end";
    let mut attempt = Attempt::start(script(text));
    attempt.site.started();
    fs::write(attempt.job("pid"), format!("{}\n", attempt.runner.id())).unwrap();
    assert_eq!(attempt.end(), Outcome::Exited { status: 0 });
    assert_eq!(attempt.read("stdout"), "end\n");
}

#[test]
fn a_guest_cannot_find_or_write_the_spool() {
    let top = tempfile::tempdir().unwrap(); // only for a name that exists on the host
    let text = "for d in \"$1\" \"$1\"/.. ../spool /proc/self/fd/*; do \
         for f in status stdout lock control attempt.json; do \
         [ -e \"$d/$f\" ] && echo found $d/$f; (echo forged > \"$d/$f\") 2>/dev/null && echo wrote $d/$f; \
         done; done; ls /proc/self/fd | tr '\\n' ' '; echo end";
    let mut spec = script(text);
    spec.arguments
        .extend(["sh".into(), top.path().display().to_string()]);
    let mut attempt = Attempt::start(spec);
    assert_eq!(attempt.end(), Outcome::Exited { status: 0 });
    let out = attempt.read("stdout");
    // 3 is the directory that ls itself reads.
    assert_eq!(out, "0 1 2 3 end\n");
}

#[test]
fn others_of_the_account_cannot_read_the_runner() {
    let mut attempt = Attempt::start(script("echo ready; exec sleep 60"));
    attempt.printed("ready");
    let file = format!("/proc/{}/environ", attempt.runner.id());
    // Not dumpable: its files in /proc belong to root (proc(5)), whoever runs it.
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(file).unwrap().uid(), 0);
}

#[test]
fn when_a_runner_is_killed_its_guests_die() {
    let mut attempt = Attempt::start(script(
        "(trap '' TERM HUP; exec setsid sleep 61) & echo $$ ready; exec sleep 62",
    ));
    attempt.printed("ready");
    let guests = children(attempt.runner.id());
    assert!(!guests.is_empty());
    let pidfds: Vec<_> = guests
        .iter()
        .map(|pid| process::pidfd(*pid).unwrap())
        .collect();
    attempt.runner.kill().unwrap();
    attempt.runner.wait().unwrap();
    let poll = Poll::new().unwrap();
    for (pidfd, token) in pidfds.iter().zip(0..) {
        poll.add(pidfd, token, Interest::Read).unwrap();
    }
    for pidfd in &pidfds {
        let ended = poll.wait::<1>(Some(DEADLINE)).unwrap().next();
        assert!(ended.is_some(), "a guest outlives its runner");
        let _ = poll.remove(&pidfds[ended.unwrap().token as usize]);
        let _ = pidfd;
    }
    assert!(!attempt.spool("status").exists());
}

/// The children of a process and theirs, by /proc/PID/task/PID/children (proc(5)).
fn children(pid: u32) -> Vec<i32> {
    let mut all = Vec::new();
    let mut next = vec![pid as i32];
    while let Some(pid) = next.pop() {
        let list =
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let found: Vec<i32> = list
            .split_whitespace()
            .map(|p| p.parse().unwrap())
            .collect();
        all.extend(&found);
        next.extend(found);
    }
    all
}

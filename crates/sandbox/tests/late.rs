//! A job that ran for a while before anybody stood by it (spec/policy P57, P58). One test: every child of this process is the job.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_linux::limits::usage;
use kumiko_policy::{Limits, Network};
use kumiko_sandbox::Limiter;
use std::process::Command;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn what_a_job_used_before_it_was_in_a_group_is_made_up_for() {
    let mut shell = Command::new("sh");
    let mut child = shell.args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let begun = Instant::now();
    let until = |what: &str, holds: &mut dyn FnMut() -> bool| {
        while !holds() {
            assert!(begun.elapsed() < DEADLINE, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let used = || usage::cpu(pid).unwrap();
    until("uses a tenth of a second", &mut || {
        used().own > Duration::from_millis(100)
    });
    let limits = Limits {
        cpu_percent: Some(10),
        ..Limits::default()
    };
    let from = Instant::now();
    let mut limiter = Limiter::begin(&limits, Network::Host, "namespace", &[pid], None);
    let mut tick = || {
        if limiter.due().is_some_and(|due| due <= Instant::now()) {
            assert_eq!(limiter.tick(Instant::now(), false), None);
        }
    };
    until("is stopped", &mut || {
        tick();
        used().stopped
    });
    until("goes on", &mut || {
        tick();
        !used().stopped
    });
    // A tenth of a second is what it may have in a second.
    let stood = from.elapsed();
    assert!(stood > Duration::from_millis(900), "{stood:?}");
    child.kill().unwrap();
    drop(limiter);
    child.wait().unwrap();
}

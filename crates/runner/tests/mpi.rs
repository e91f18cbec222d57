//! What reaches ranks that a launcher started, each in a process group of its own (spec/jobs/mpi.md, N7). Their room, and
//! what they pass each other, is tried with real programs (e2e).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Attempt, DEADLINE, script, skip};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, Outcome};
use kumiko_job::description::Mpi;
use kumiko_linux::limits::{tasks, usage};
use kumiko_policy::Network;
use std::time::{Duration, Instant};

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
const RANKS: usize = 3;

/// Ranks that sleep below a process, and whether each is stopped.
fn ranks(below: i32) -> Vec<bool> {
    let sleeps = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x001000\0")
    };
    let all = tasks::below(below).into_iter().filter(sleeps);
    all.filter_map(|pid| usage::cpu(pid).ok().map(|cpu| cpu.stopped))
        .collect()
}

fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < DEADLINE, "not so: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn a_launcher_and_its_ranks_are_stopped_go_on_and_end_together() {
    let test = "a_launcher_and_its_ranks_are_stopped_go_on_and_end_together";
    for (mpi, launcher) in [
        (Mpi::Mpich, "/usr/bin/mpiexec.hydra"),
        (Mpi::Openmpi, "/usr/bin/mpiexec.openmpi"),
    ] {
        if !std::path::Path::new(launcher).exists() {
            skip(test, launcher);
            continue;
        }
        let mut spec = script("exec sleep 1000");
        spec.count = RANKS as u32;
        spec.mpi = Some(mpi);
        let mut attempt = Attempt::start(spec);
        attempt.site.started();
        let runner = attempt.runner.id() as i32;
        until("all ranks sleep", || ranks(runner) == [false; RANKS]);
        let signal = |attempt: &mut Attempt, signal| {
            attempt.site.say(&AttemptCommand::Signal { signal });
        };
        signal(&mut attempt, SIGSTOP);
        attempt
            .site
            .wait_for(|report| *report == AttemptReport::Suspended);
        until("all ranks are stopped", || ranks(runner) == [true; RANKS]);
        signal(&mut attempt, SIGCONT);
        attempt
            .site
            .wait_for(|report| *report == AttemptReport::Resumed);
        until("all ranks go on", || ranks(runner) == [false; RANKS]);
        attempt
            .site
            .say(&AttemptCommand::Cancel { grace_ms: 10_000 });
        assert_eq!(attempt.end(), Outcome::Cancelled, "{mpi:?}");
    }
}

#[test]
fn several_hosts_without_a_network_are_refused_and_nothing_runs() {
    let mut spec = script("true");
    spec.count = 2;
    spec.mpi = Some(Mpi::Auto);
    spec.resources.host_count = Some(2);
    spec.policy.network = Some(Network::None);
    match Attempt::start(spec).end() {
        Outcome::NeverStarted { code, .. } => assert_eq!(code, "host_count_refused"),
        other => panic!("{other:?}"),
    }
}

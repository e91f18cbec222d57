//! A runner keeps the limits of its policy, and tells which one its guests were over (spec/policy, P50).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Attempt, script};
use kumiko_job::attempt::{AttemptReport, AttemptSpec, EngineCause, Outcome};
use kumiko_linux::limits::group::{Controller, Place};
use kumiko_policy::{Limits, Policy};

fn limited(text: &str, limits: Limits) -> AttemptSpec {
    AttemptSpec {
        policy: Policy {
            limits,
            layers: vec!["the site's".to_owned(), "the job's".to_owned()],
            ..Policy::default()
        },
        grace_ms: 100,
        ..script(text)
    }
}

#[test]
fn an_attempt_that_is_over_a_limit_ends_for_it() {
    let none = Limits::default;
    let memory = Limits {
        memory_mib: Some(50),
        ..none()
    };
    let cpu = Limits {
        cpu_time_s: Some(1),
        ..none()
    };
    let wall = Limits {
        wall_time_s: Some(1),
        ..none()
    };
    let rows = [
        (
            memory,
            "dd if=/dev/zero of=/dev/null bs=200M",
            "memory limit of 50 MiB",
        ),
        (cpu, "while :; do :; done", "cpu time limit of 1 s"),
        (wall, "sleep 1000", "wall time limit of 1 s"),
    ];
    for (limits, text, expected) in rows {
        let mut attempt = Attempt::start(limited(text, limits));
        let end = attempt.end();
        let Outcome::EngineEnded {
            cause: EngineCause::Limit,
            message,
        } = &end
        else {
            panic!("{text}: {end:?}");
        };
        assert!(message.contains(expected), "{message}");
        let kept: Outcome = serde_json::from_str(&attempt.read("status")).unwrap();
        assert_eq!(kept, end);
    }
}

#[test]
fn the_record_says_why_and_under_whose_policies() {
    let limits = Limits {
        memory_mib: Some(4096),
        network_kbyte_s: Some(1000),
        ..Limits::default()
    };
    let mut attempt = Attempt::start(limited("true", limits));
    attempt.end();
    let started = attempt.site.heard.iter().find_map(|report| match report {
        AttemptReport::Started {
            why, not_enforced, ..
        } => Some((why.join("\n"), not_enforced.join("\n"))),
        _ => None,
    });
    let (why, not_enforced) = started.unwrap();
    for words in [
        "mechanism namespace: the cheapest",
        "not notify",
        "the site's; the job's",
        "memory limit of 4096 MiB: ",
    ] {
        assert!(why.contains(words), "{words}: {why}");
    }
    assert!(not_enforced.contains("what is not TCP"), "{not_enforced}");
}

#[test]
fn what_the_kernel_can_keep_of_a_whole_job_it_keeps() {
    let limits = Limits {
        cpu_percent: Some(50),
        memory_mib: Some(1000),
        disk_kbyte_s: Some(1_000_000),
        ..Limits::default()
    };
    for (controller, name) in [
        (Controller::Cpu, "cpu"),
        (Controller::Memory, "memory"),
        (Controller::Disk, "blkio"),
    ] {
        if Place::find(controller).is_none() {
            eprintln!(
                "SKIP what_the_kernel_can_keep_of_a_whole_job_it_keeps: missing a control group of {name}"
            );
            continue;
        }
        // It is put into its groups when it has been found.
        let text = format!(
            "until grep -E '(^0:|[:,]{name}[:,]).*kumiko-job-' /proc/self/cgroup >/dev/null; do :; done"
        );
        let mut attempt = Attempt::start(limited(&text, limits.clone()));
        assert_eq!(attempt.end(), Outcome::Exited { status: 0 }, "{name}");
    }
}

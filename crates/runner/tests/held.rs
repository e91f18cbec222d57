//! Attempts that are held until they are released (spec/jobs/runner.md, R16).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Attempt, Site, script, wait};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome};
use kumiko_job::description::Stdin;

fn held(text: &str) -> AttemptSpec {
    AttemptSpec {
        hold_ms: Some(600_000),
        ..script(text)
    }
}

fn is_held(attempt: &mut Attempt) {
    attempt
        .site
        .wait_for(|report| *report == AttemptReport::Held);
}

#[test]
fn nothing_runs_before_the_release_whoever_comes_and_goes() {
    let mut attempt = Attempt::start(AttemptSpec {
        count: 3,
        ..held("echo ran >> $HOME/ran")
    });
    is_held(&mut attempt);
    // The site is started anew.
    attempt.site = Site::connect(&attempt.top);
    is_held(&mut attempt);
    assert!(!attempt.job("ran").exists());
    attempt.site.say(&AttemptCommand::Release);
    assert_eq!(attempt.end(), Outcome::Exited { status: 0 });
    let ran = std::fs::read_to_string(attempt.job("ran")).unwrap();
    assert_eq!(ran, "ran\nran\nran\n");
}

#[test]
fn what_comes_before_the_release_is_for_the_guest() {
    let mut attempt = Attempt::start(AttemptSpec {
        stdin: Stdin::Live,
        ..held("cat; exit 3")
    });
    is_held(&mut attempt);
    attempt.site.say(&AttemptCommand::Stdin {
        offset: 0,
        data: "early ".into(),
    });
    attempt.site.say(&AttemptCommand::Release);
    attempt.site.say(&AttemptCommand::Stdin {
        offset: 6,
        data: "and late".into(),
    });
    attempt.site.say(&AttemptCommand::StdinEnd { offset: 14 });
    assert_eq!(attempt.end(), Outcome::Exited { status: 3 });
    assert_eq!(attempt.read("stdout"), "early and late");
}

#[test]
fn a_cancel_ends_what_is_held_and_nothing_ran() {
    let mut attempt = Attempt::start(held("echo ran"));
    is_held(&mut attempt);
    attempt
        .site
        .say(&AttemptCommand::Cancel { grace_ms: 10_000 });
    assert_eq!(attempt.end(), Outcome::Cancelled);
    assert_eq!(attempt.read("stdout"), "");
    let heard = &attempt.site.heard;
    let started = |report: &AttemptReport| matches!(report, AttemptReport::Started { .. });
    assert!(!heard.iter().any(started), "{heard:?}");
}

#[test]
fn a_program_that_is_not_there_is_known_before_it_is_held() {
    let mut attempt = Attempt::start(AttemptSpec {
        executable: "/no/such/program".into(),
        ..held("")
    });
    match attempt.end() {
        Outcome::NeverStarted { code, message } => {
            assert_eq!(code, "no_such_executable", "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!attempt.site.heard.contains(&AttemptReport::Held));
}

#[test]
fn a_runner_that_is_left_alone_gives_its_slot_back() {
    let mut attempt = Attempt::start(AttemptSpec {
        hold_ms: Some(1),
        ..held("echo ran")
    });
    is_held(&mut attempt);
    attempt
        .site
        .stream
        .shutdown(std::net::Shutdown::Both)
        .unwrap();
    wait(&mut attempt.runner);
    let status = attempt.read("status");
    assert!(status.contains("not_released"), "{status}");
    assert_eq!(attempt.read("stdout"), "");
}

//! How attempts end, and what is then told and kept (spec/jobs/runner.md, R4 to R14).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Attempt, Site, script, wait};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome, OutputStream};
use kumiko_job::description::{Stdin, WindowSize};
use std::fs;
use std::os::unix::net::UnixStream;

#[test]
fn each_end_is_told_and_kept() {
    let rows: Vec<(&str, AttemptSpec, Outcome)> = vec![
        ("well", script("exit 0"), Outcome::Exited { status: 0 }),
        ("status", script("exit 41"), Outcome::Exited { status: 41 }),
        (
            "signal",
            script("kill -KILL $$"),
            Outcome::Signalled { signal: 9 },
        ),
        // Ignored signals are inherited over exec, and ours are no business of the guest's.
        (
            "broken pipe",
            script("kill -PIPE $$; sleep 9"),
            Outcome::Signalled { signal: 13 },
        ),
        (
            "file size",
            script("ulimit -f 1; exec head -c 100000 /dev/zero > large"),
            Outcome::Signalled { signal: 25 },
        ),
        (
            "time",
            AttemptSpec {
                time_limit_ms: Some(50),
                ..script("exec sleep 30")
            },
            Outcome::TimeLimit,
        ),
        (
            "time, and deaf to SIGTERM",
            AttemptSpec {
                time_limit_ms: Some(50),
                grace_ms: 50,
                ..script("trap '' TERM; while :; do sleep 30; done")
            },
            Outcome::TimeLimit,
        ),
        (
            "rank",
            AttemptSpec {
                count: 3,
                ..script("exit $KUMIKO_RANK$KUMIKO_COUNT")
            },
            Outcome::Exited { status: 3 },
        ),
        (
            "quota",
            AttemptSpec {
                output_quota_bytes: 1000,
                ..script("exec yes")
            },
            Outcome::OutputQuota {
                stream: OutputStream::Stdout,
            },
        ),
    ];
    for (name, spec, expected) in rows {
        let mut attempt = Attempt::start(spec);
        assert_eq!(attempt.end(), expected, "{name}");
        let kept: Outcome = serde_json::from_str(&attempt.read("status")).unwrap();
        assert_eq!(kept, expected, "{name}");
    }
}

#[test]
fn what_cannot_start_says_why_by_code() {
    let row = |spec| {
        let mut attempt = Attempt::start(spec);
        match attempt.end() {
            Outcome::NeverStarted { code, message } => (code, message),
            other => panic!("{other:?}"),
        }
    };
    let absent = AttemptSpec {
        executable: "/no/such".into(),
        ..script("")
    };
    let (code, message) = row(absent);
    assert_eq!(code, "no_such_executable");
    assert!(message.contains("/no/such"), "{message}");
    let rows = [
        (
            AttemptSpec {
                count: 0,
                ..script("")
            },
            "count_out_of_range",
        ),
        (
            AttemptSpec {
                count: 1_000_000,
                ..script("")
            },
            "count_out_of_range",
        ),
        (
            AttemptSpec {
                count: 2,
                terminal: Some(WindowSize {
                    rows: 1,
                    columns: 1,
                }),
                ..script("")
            },
            "terminal_with_count",
        ),
        (
            AttemptSpec {
                stdin: Stdin::File("../spool/attempt.json".into()),
                ..script("")
            },
            "stdin_unreadable",
        ),
        (
            AttemptSpec {
                stdin: Stdin::File("/etc/passwd".into()),
                ..script("")
            },
            "stdin_unreadable",
        ),
        (
            AttemptSpec {
                stdin: Stdin::File(".".into()),
                ..script("")
            },
            "stdin_unreadable",
        ),
        (
            AttemptSpec {
                mechanism: Some("magic".into()),
                ..script("")
            },
            "no_such_mechanism",
        ),
    ];
    for (spec, expected) in rows {
        let told = format!("{spec:?}");
        assert_eq!(row(spec).0, expected, "{told}");
    }
}

#[test]
fn an_attempt_that_cannot_be_read_is_refused_by_name() {
    for text in ["", "{", "{\"id\": 7}", "\u{0}"] {
        let mut attempt = Attempt::start_with(script(""), |top| {
            fs::write(top.path().join("spool/attempt.json"), text).unwrap();
        });
        match attempt.end() {
            Outcome::NeverStarted { code, .. } => assert_eq!(code, "bad_attempt"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn cancel_asks_first_and_a_stopped_guest_hears_it() {
    let mut attempt = Attempt::start(script(
        "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done",
    ));
    attempt.printed("ready");
    attempt.site.say(&AttemptCommand::Signal { signal: 19 });
    attempt.site.wait_for(|r| *r == AttemptReport::Suspended);
    attempt.site.say(&AttemptCommand::Signal { signal: 18 });
    attempt.site.wait_for(|r| *r == AttemptReport::Resumed);
    attempt.site.say(&AttemptCommand::Signal { signal: 19 });
    attempt
        .site
        .say(&AttemptCommand::Cancel { grace_ms: 20_000 });
    assert_eq!(attempt.end(), Outcome::Cancelled);
    assert!(attempt.read("stdout").contains("asked"));
}

#[test]
fn cancel_does_not_wait_longer_than_its_grace() {
    let mut attempt = Attempt::start(script(
        "trap '' TERM; echo ready; while :; do sleep 30; done",
    ));
    attempt.printed("ready");
    attempt.site.say(&AttemptCommand::Cancel {
        grace_ms: 1_000_000,
    });
    attempt.site.say(&AttemptCommand::Cancel { grace_ms: 20 }); // the shorter one holds
    assert_eq!(attempt.end(), Outcome::Cancelled);
}

#[test]
fn what_a_guest_leaves_running_ends_with_it() {
    let mut attempt = Attempt::start(script(
        "(trap '' TERM HUP; exec setsid sleep 60) & echo done",
    ));
    assert_eq!(attempt.end(), Outcome::Exited { status: 0 });
    assert_eq!(attempt.read("stdout"), "done\n");
}

#[test]
fn a_signal_reaches_the_guest() {
    let mut attempt = Attempt::start(script(
        "trap 'exit 10' USR1; echo ready; while :; do sleep 0.02; done",
    ));
    attempt.printed("ready");
    for useless in [0, -1, 65, i32::MAX, i32::MIN] {
        attempt
            .site
            .say(&AttemptCommand::Signal { signal: useless });
    }
    attempt.site.say(&AttemptCommand::Signal { signal: 10 });
    assert_eq!(attempt.end(), Outcome::Exited { status: 10 });
}

#[test]
fn a_second_runner_of_an_attempt_touches_nothing() {
    let again = |attempt: &Attempt| {
        let spool = attempt.top.path().join("spool");
        let mut second = std::process::Command::new(env!("CARGO_BIN_EXE_kumiko-run"))
            .arg(spool)
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!(wait(&mut second), 3);
    };
    let mut attempt = Attempt::start(script("echo once; exec sleep 30"));
    attempt.printed("once");
    again(&attempt);
    attempt.site.say(&AttemptCommand::Cancel { grace_ms: 1000 });
    attempt.end();
    again(&attempt); // nor after the first has gone
    assert_eq!(attempt.read("stdout"), "once\n");
}

#[test]
fn a_runner_that_comes_late_respects_the_fence() {
    let mut attempt = Attempt::start_with(script("touch ran"), |top| {
        fs::write(top.path().join("spool/status"), "{}").unwrap();
    });
    assert_eq!(wait(&mut attempt.runner), 3);
    assert!(!attempt.job("ran").exists());
    assert!(!attempt.spool("stdout").exists());
}

#[test]
fn without_a_site_the_guest_goes_on_and_its_end_is_kept() {
    let mut attempt = Attempt::start(script(
        "echo ready; while [ ! -e go ]; do sleep 0.02; done; echo end; exit 5",
    ));
    attempt.printed("ready");
    let top = &attempt.top;
    attempt.site = Site::connect(top); // and the first is closed
    attempt.site.started();
    attempt.site.stream = UnixStream::pair().unwrap().0; // nobody is connected now
    fs::write(attempt.job("go"), "").unwrap();
    assert_eq!(wait(&mut attempt.runner), 0);
    assert_eq!(attempt.read("stdout"), "ready\nend\n");
    assert_eq!(attempt.read("status"), r#"{"exited":{"status":5}}"#);
}

#[test]
fn a_runner_whose_spool_is_gone_goes_with_its_guests() {
    for (name, text) in [
        ("its guest computes", "echo ready; exec sleep 1000"),
        (
            "its guest ends",
            "echo ready; while [ ! -e go ]; do sleep 0.02; done",
        ),
    ] {
        let mut attempt = Attempt::start(script(text));
        attempt.printed("ready");
        attempt.site.stream = UnixStream::pair().unwrap().0; // nobody is connected now
        fs::remove_dir_all(attempt.top.path().join("spool")).unwrap();
        fs::write(attempt.job("go"), "").unwrap();
        assert_eq!(wait(&mut attempt.runner), 0, "{name}");
    }
}

#[test]
fn a_runner_says_that_it_lives_as_often_as_it_is_to() {
    let mut attempt = Attempt::start(AttemptSpec {
        beat_ms: Some(20),
        ..script("exec sleep 30")
    });
    attempt.site.started();
    for _ in 0..5 {
        attempt.site.wait_for(|r| matches!(r, AttemptReport::Beat));
    }
    attempt.site = Site::connect(&attempt.top);
    attempt.site.started();
    assert_eq!(attempt.site.hear(), Some(AttemptReport::Beat));
    attempt.site.say(&AttemptCommand::Cancel { grace_ms: 1000 });
    let mut reports = std::iter::from_fn(|| attempt.site.hear());
    assert!(reports.any(|r| r == AttemptReport::Ended(Outcome::Cancelled)));
}

#[test]
fn a_newer_site_takes_the_place_of_the_older_and_is_told_all() {
    let mut attempt = Attempt::start(script("echo ready; exec sleep 30"));
    attempt.printed("ready");
    let mut newer = Site::connect(&attempt.top);
    newer.started();
    newer.wait_for(|r| matches!(r, AttemptReport::Output { length: 6, .. }));
    while attempt.site.hear().is_some() {} // the older is let go
    newer.say(&AttemptCommand::Cancel { grace_ms: 1000 });
    assert_eq!(newer.ended(), Outcome::Cancelled);
}

#[test]
fn a_site_that_speaks_wrongly_is_let_go_and_nothing_else_happens() {
    use std::io::Write;
    let mut attempt = Attempt::start(script("echo ready; exec sleep 30"));
    attempt.printed("ready");
    attempt.site.stream.write_all(&[0xff; 64]).unwrap();
    while attempt.site.hear().is_some() {}
    attempt.site = Site::connect(&attempt.top);
    attempt.site.started();
    attempt.site.say(&AttemptCommand::Cancel { grace_ms: 1000 });
    assert_eq!(attempt.end(), Outcome::Cancelled);
}

#[test]
fn misuse_has_its_own_exit_status() {
    let runner = || std::process::Command::new(env!("CARGO_BIN_EXE_kumiko-run"));
    assert_eq!(runner().output().unwrap().status.code(), Some(2));
    let missing = runner().arg("/no/such/spool").output().unwrap();
    assert_eq!(missing.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/spool"));
}

#[test]
fn a_guest_that_kills_its_siblings_before_they_execute_has_run_all_the_same() {
    let spec = AttemptSpec {
        count: 64,
        ..script("echo ran; [ $KUMIKO_RANK = 0 ] && while :; do kill -9 -1; done; exec sleep 60")
    };
    let mut attempt = Attempt::start(AttemptSpec {
        time_limit_ms: Some(1_000),
        grace_ms: 0,
        ..spec
    });
    let outcome = attempt.end();
    assert!(
        !matches!(outcome, Outcome::NeverStarted { .. }),
        "{outcome:?}"
    );
}

#[test]
fn a_machine_that_goes_down_asks_the_guest_and_its_runner_sees_how_it_ends() {
    let mut attempt = Attempt::start(script(
        "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.02; done",
    ));
    attempt.printed("ready");
    let runner = kumiko_linux::process::pidfd(attempt.runner.id() as i32).unwrap();
    for signal in [1, 2, 15] {
        kumiko_linux::process::signal(std::os::fd::AsFd::as_fd(&runner), signal).unwrap();
    }
    attempt.site.say(&AttemptCommand::Signal { signal: 15 });
    assert_eq!(attempt.end(), Outcome::Exited { status: 5 });
    assert_eq!(attempt.read("stdout"), "ready\nasked\n");
}

//! What goes in and out of guests (spec/jobs/runner.md, R3, R9, R13, R25, R26).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::{Attempt, script, skip, wait};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome, OutputStream};
use kumiko_job::description::{OutputMode, Stdin, WindowSize};
use kumiko_wire::runner::STDIN_WINDOW_BYTES;
use std::fs;
use std::os::unix::fs::MetadataExt;

const WELL: Outcome = Outcome::Exited { status: 0 };

fn live(text: &str) -> AttemptSpec {
    AttemptSpec {
        stdin: Stdin::Live,
        ..script(text)
    }
}

fn stdin(offset: u64, data: &'static [u8]) -> AttemptCommand {
    AttemptCommand::Stdin {
        offset,
        data: Bytes::from_static(data),
    }
}

#[test]
fn stdout_and_stderr_are_kept_apart_to_the_last_byte() {
    let mut attempt = Attempt::start(script("printf 'a\\0b'; printf 'c' >&2; seq 100000"));
    assert_eq!(attempt.end(), WELL);
    let numbers: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(attempt.read("stdout"), format!("a\0b{numbers}"));
    assert_eq!(attempt.read("stderr"), "c");
    assert_eq!(
        attempt.site.length(OutputStream::Stdout),
        3 + numbers.len() as u64
    );
    assert_eq!(attempt.site.length(OutputStream::Stderr), 1);
}

#[test]
fn much_output_arrives_whole() {
    let mut attempt = Attempt::start(script("head -c 100000000 /dev/zero"));
    assert_eq!(attempt.end(), WELL);
    assert_eq!(
        fs::metadata(attempt.spool("stdout")).unwrap().len(),
        100_000_000
    );
}

#[test]
fn the_quota_cuts_the_file_at_its_length() {
    let exact = "head -c 1000 /dev/zero";
    let over = "head -c 1001 /dev/zero >&2";
    for (text, expected) in [
        (exact, WELL),
        (
            over,
            Outcome::OutputQuota {
                stream: OutputStream::Stderr,
            },
        ),
    ] {
        let mut attempt = Attempt::start(AttemptSpec {
            output_quota_bytes: 1000,
            ..script(text)
        });
        assert_eq!(attempt.end(), expected, "{text}");
        let size = |name| fs::metadata(attempt.spool(name)).unwrap().len();
        assert_eq!(size("stdout") + size("stderr"), 1000, "{text}");
        let told =
            attempt.site.length(OutputStream::Stdout) + attempt.site.length(OutputStream::Stderr);
        assert_eq!(told, 1000, "{text}");
    }
}

#[test]
fn stdin_is_empty_unless_somebody_sends_it() {
    let mut attempt = Attempt::start(script("cat; echo end"));
    assert_eq!(attempt.end(), WELL);
    assert_eq!(attempt.read("stdout"), "end\n");
    assert!(attempt.site.heard.contains(&AttemptReport::StdinClosed));
}

#[test]
fn a_stdin_file_is_read_from_the_jobs_directory_by_each_rank() {
    let spec = AttemptSpec {
        stdin: Stdin::File("in/data".into()),
        count: 2,
        ..script("cat")
    };
    let mut attempt = Attempt::start_with(spec, |top| {
        fs::create_dir(top.path().join("job/in")).unwrap();
        fs::write(top.path().join("job/in/data"), "words\n").unwrap();
    });
    assert_eq!(attempt.end(), WELL);
    assert_eq!(attempt.read("stdout"), "words\nwords\n");
}

#[test]
fn live_stdin_is_taken_once_whatever_is_sent_twice() {
    let mut attempt = Attempt::start(live("cat"));
    attempt.site.say(&stdin(0, b"one "));
    attempt.site.say(&stdin(0, b"one two "));
    attempt.site.say(&stdin(100, b"behind a gap"));
    attempt.site.say(&stdin(4, b"two three"));
    attempt.site.say(&AttemptCommand::StdinEnd { offset: 13 });
    assert_eq!(attempt.end(), WELL);
    assert_eq!(attempt.read("stdout"), "one two three");
    assert!(
        attempt
            .site
            .heard
            .contains(&AttemptReport::StdinTaken { offset: 13 })
    );
}

#[test]
fn stdin_that_is_not_read_is_not_kept_without_bounds_and_commands_pass_it() {
    let mut attempt = Attempt::start(live("exec sleep 60"));
    attempt.site.started();
    let piece = Bytes::from(vec![1; STDIN_WINDOW_BYTES]);
    for n in 0..16 {
        let offset = n * STDIN_WINDOW_BYTES as u64;
        attempt.site.say(&AttemptCommand::Stdin {
            offset,
            data: piece.clone(),
        });
    }
    attempt
        .site
        .say(&AttemptCommand::Cancel { grace_ms: 10_000 });
    assert_eq!(attempt.end(), Outcome::Cancelled);
    let taken = attempt
        .site
        .heard
        .iter()
        .rev()
        .find_map(|report| match report {
            AttemptReport::StdinTaken { offset } => Some(*offset),
            _ => None,
        });
    assert!(taken.unwrap() <= 1024 * 1024, "{taken:?}");
}

#[test]
fn a_guest_that_closes_its_stdin_is_told_of() {
    let mut attempt = Attempt::start(live("exec <&-; echo ready; exec sleep 60"));
    attempt.site.wait_for(|r| *r == AttemptReport::StdinClosed);
    attempt
        .site
        .say(&AttemptCommand::Cancel { grace_ms: 10_000 });
    assert_eq!(attempt.end(), Outcome::Cancelled);
}

#[test]
fn a_terminal_has_its_size_its_keys_and_one_stream() {
    let spec = AttemptSpec {
        stdin: Stdin::Live,
        terminal: Some(WindowSize {
            rows: 33,
            columns: 101,
        }),
        ..script(
            "trap 'stty size' WINCH; test -t 0 && test -t 2 && stty size; stty -echo; echo ready >&2; \
             while ! read line; do :; done; echo \"got $line\"; cat; echo end",
        )
    };
    let mut attempt = Attempt::start(spec);
    attempt.printed("ready");
    attempt.site.say(&AttemptCommand::Window(WindowSize {
        rows: 44,
        columns: 55,
    }));
    attempt.printed("44 55");
    attempt.site.say(&stdin(0, b"keys\n"));
    attempt.printed("got keys");
    attempt.site.say(&AttemptCommand::StdinEnd { offset: 5 });
    assert_eq!(attempt.end(), WELL);
    let out = attempt.read("stdout");
    assert!(out.starts_with("33 101\r\n"), "{out:?}");
    assert!(out.ends_with("end\r\n"), "{out:?}");
    assert_eq!(attempt.read("stderr"), "");
}

#[test]
fn control_c_on_a_terminal_interrupts_the_guest() {
    let spec = AttemptSpec {
        stdin: Stdin::Live,
        terminal: Some(WindowSize {
            rows: 24,
            columns: 80,
        }),
        ..script("echo ready; exec sleep 60")
    };
    let mut attempt = Attempt::start(spec);
    attempt.printed("ready");
    attempt.site.say(&stdin(0, b"\x03"));
    assert_eq!(attempt.end(), Outcome::Signalled { signal: 2 });
}

#[test]
fn a_flowing_guest_waits_for_its_reader_and_what_was_read_is_freed() {
    const SENT: u64 = 40 * 1024 * 1024;
    let spec = AttemptSpec {
        output: OutputMode::Flow,
        ..script(&format!("head -c {SENT} /dev/urandom; echo sent >&2"))
    };
    let mut attempt = Attempt::start(spec);
    let window = 16 * 1024 * 1024;
    let at = |length| move |r: &AttemptReport| matches!(r, AttemptReport::Output { stream: OutputStream::Stdout, length: l } if *l >= length);
    attempt.site.wait_for(at(window));
    assert_eq!(
        attempt.site.length(OutputStream::Stdout),
        window,
        "it waits at the window"
    );
    let mut consumed = 0;
    while consumed < SENT {
        consumed = attempt.site.length(OutputStream::Stdout);
        attempt.site.say(&AttemptCommand::Consumed {
            stream: OutputStream::Stdout,
            offset: consumed,
        });
        if consumed < SENT {
            attempt.site.wait_for(at(consumed + 1));
        }
    }
    assert_eq!(attempt.end(), WELL);
    let file = fs::metadata(attempt.spool("stdout")).unwrap();
    assert_eq!(file.len(), SENT);
    assert!(
        file.blocks() * 512 < SENT / 2,
        "{} blocks are left",
        file.blocks()
    );
}

#[test]
fn a_flowing_guest_that_ends_is_not_kept_by_a_reader_that_does_not_read() {
    let spec = AttemptSpec {
        output: OutputMode::Flow,
        output_quota_bytes: 1000,
        ..script("head -c 5000 /dev/zero")
    };
    let mut attempt = Attempt::start(spec);
    assert_eq!(attempt.end(), WELL);
    assert_eq!(fs::metadata(attempt.spool("stdout")).unwrap().len(), 5000);
}

#[test]
fn guests_that_wait_for_a_site_are_not_kept_where_none_comes_for_long() {
    const SENT: u64 = 40 * 1024 * 1024;
    let alone = |text: &str| AttemptSpec {
        output: OutputMode::Flow,
        alone_ms: Some(300),
        ..live(text)
    };
    let left = |attempt: &mut Attempt| {
        attempt.site.stream = std::os::unix::net::UnixStream::pair().unwrap().0;
        assert_eq!(wait(&mut attempt.runner), 0);
        assert_eq!(attempt.read("status"), r#"{"exited":{"status":0}}"#);
    };
    let mut attempt = Attempt::start(alone("echo ready; cat; echo no more"));
    attempt.printed("ready");
    left(&mut attempt);
    assert_eq!(attempt.read("stdout"), "ready\nno more\n");

    let mut attempt = Attempt::start(alone(&format!("head -c {SENT} /dev/urandom; echo sent")));
    let stdout = |r: &AttemptReport| matches!(r, AttemptReport::Output { length, .. } if *length == 16 << 20);
    attempt.site.wait_for(stdout);
    left(&mut attempt);
    let stdout = fs::read(attempt.spool("stdout")).unwrap();
    assert_eq!(stdout.len() as u64, SENT + 5);
    assert!(stdout.ends_with(b"sent\n"));
    let newest = &stdout[stdout.len() - (16 << 20)..];
    assert!(
        newest
            .chunks(4096)
            .all(|page| page.iter().any(|byte| *byte != 0)),
        "the newest stays"
    );
    let blocks = fs::metadata(attempt.spool("stdout")).unwrap().blocks();
    assert!(blocks * 512 < SENT / 2, "{blocks} blocks are left");
}

/// A full disk, made by a limit on the size of files that the runner inherits: the same path as ENOSPC.
#[test]
fn a_spool_that_cannot_be_written_ends_the_guest_and_is_told() {
    let test = "a_spool_that_cannot_be_written_ends_the_guest_and_is_told";
    if !std::path::Path::new("/usr/bin/prlimit").exists() {
        return skip(test, "prlimit");
    }
    let mut attempt = Attempt::start(script(
        "echo ready; while [ ! -e go ]; do sleep 0.02; done; exec yes",
    ));
    attempt.printed("ready");
    let limited = std::process::Command::new("prlimit")
        .args(["--fsize=100000", "--pid", &attempt.runner.id().to_string()])
        .status()
        .unwrap();
    assert!(limited.success());
    fs::write(attempt.job("go"), "").unwrap();
    match attempt.end() {
        Outcome::SpoolFailed { message } => assert!(message.contains("stdout"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(attempt.read("status").contains("spool_failed"));
}

#[test]
fn a_full_disk_ends_the_guest_and_its_outcome_is_kept_all_the_same() {
    let test = "a_full_disk_ends_the_guest_and_its_outcome_is_kept_all_the_same";
    let Some(disk) = SmallDisk::mount() else {
        return skip(test, "the right to mount a small tmpfs (root)");
    };
    let mut attempt = Attempt::start_at(disk.0.path(), script("echo ready; exec yes"), |_| ());
    match attempt.end() {
        Outcome::SpoolFailed { message } => assert!(message.contains("No space"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(attempt.read("status").contains("spool_failed"));
    let kept = fs::metadata(attempt.spool("stdout")).unwrap().len();
    assert_eq!(attempt.site.length(OutputStream::Stdout), kept);
}

/// A filesystem of its own that is soon full.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"])
            .arg(place.path())
            .stderr(std::process::Stdio::null())
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Self(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0.path())
            .status();
    }
}

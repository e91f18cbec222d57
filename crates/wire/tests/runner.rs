//! Frames of the control socket against the vectors in spec/jobs/vectors and against each other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use kumiko_job::attempt::{
    AttemptCommand, AttemptReport, Cost, EngineCause, Limits, Outcome, OutputStream,
};
use kumiko_job::description::WindowSize;
use kumiko_wire::runner::{
    NOT_ENFORCED_LIMIT, RunnerFrameError, STDIN_PIECE_BYTES, TEXT_LIMIT_BYTES, WHY_LIMIT,
    decode_command, decode_report, encode_command, encode_report,
};
use std::path::PathBuf;

fn vectors(kind: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/jobs/vectors")
        .join(kind)
}

fn ended(name: &'static str, outcome: Outcome) -> (&'static str, AttemptReport) {
    (name, AttemptReport::Ended(outcome))
}

fn reports() -> Vec<(&'static str, AttemptReport)> {
    vec![
        (
            "started",
            AttemptReport::Started {
                pid: 4711,
                mechanism: "namespace".into(),
                not_enforced: vec!["disk rate".into(), "net rate".into()],
                why: vec!["the cheapest that this machine admits".into()],
            },
        ),
        (
            "output",
            AttemptReport::Output {
                stream: OutputStream::Stderr,
                length: 1 << 40,
            },
        ),
        ("stdin-taken", AttemptReport::StdinTaken { offset: 65536 }),
        ("stdin-closed", AttemptReport::StdinClosed),
        (
            "followed",
            AttemptReport::Followed {
                not: vec!["network and addresses".into()],
            },
        ),
        ("beat", AttemptReport::Beat),
        ("vacates", AttemptReport::Vacates),
        ("suspended", AttemptReport::Suspended),
        ("resumed", AttemptReport::Resumed),
        (
            "cost",
            AttemptReport::Cost(Cost {
                start_us: 3_100,
                answering_us: 420_000,
                answered: 41_234,
            }),
        ),
        ended("exited", Outcome::Exited { status: 3 }),
        ended("signalled", Outcome::Signalled { signal: 11 }),
        ended("cancelled", Outcome::Cancelled),
        ended("time-limit", Outcome::TimeLimit),
        ended(
            "output-quota",
            Outcome::OutputQuota {
                stream: OutputStream::Stdout,
            },
        ),
        ended(
            "never-started",
            Outcome::NeverStarted {
                code: "no_such_executable".into(),
                message: "no /bin/nö".into(),
            },
        ),
        ended(
            "spool-failed",
            Outcome::SpoolFailed {
                message: "disk full".into(),
            },
        ),
        ended(
            "limit",
            Outcome::EngineEnded {
                cause: EngineCause::Limit,
                message: "memory limit of 100 MiB: it came to 120".into(),
            },
        ),
        ended(
            "lost",
            Outcome::Lost {
                message: "killed".into(),
            },
        ),
    ]
}

fn commands() -> Vec<(&'static str, AttemptCommand)> {
    vec![
        ("signal", AttemptCommand::Signal { signal: 10 }),
        ("cancel", AttemptCommand::Cancel { grace_ms: 5000 }),
        ("vacate", AttemptCommand::Vacate { grace_ms: 30_000 }),
        (
            "stdin",
            AttemptCommand::Stdin {
                offset: 7,
                data: Bytes::from_static(b"\0\xffbytes"),
            },
        ),
        ("stdin-end", AttemptCommand::StdinEnd { offset: 14 }),
        (
            "window",
            AttemptCommand::Window(WindowSize {
                rows: 24,
                columns: 80,
            }),
        ),
        (
            "consumed",
            AttemptCommand::Consumed {
                stream: OutputStream::Stdout,
                offset: 4096,
            },
        ),
        ("settled", AttemptCommand::Settled),
        ("release", AttemptCommand::Release),
        (
            "limits",
            AttemptCommand::Limits(Limits {
                network_kbyte_s: Some(12_500),
                processes: Some(7),
                ..Limits::default()
            }),
        ),
    ]
}

#[test]
fn every_report_has_the_bytes_of_its_vector() {
    for (name, report) in reports() {
        let mut bytes = Vec::new();
        encode_report(&report, &mut bytes);
        let vector = std::fs::read(vectors("valid").join(format!("{name}.report"))).expect(name);
        assert_eq!(bytes, vector, "{name}");
        assert_eq!(
            decode_report(&vector),
            Ok(Some((report, vector.len()))),
            "{name}"
        );
    }
}

#[test]
fn every_command_has_the_bytes_of_its_vector() {
    for (name, command) in commands() {
        let mut bytes = Vec::new();
        encode_command(&command, &mut bytes);
        let vector = std::fs::read(vectors("valid").join(format!("{name}.command"))).expect(name);
        assert_eq!(bytes, vector, "{name}");
        assert_eq!(
            decode_command(&vector),
            Ok(Some((command, vector.len()))),
            "{name}"
        );
    }
}

#[test]
fn a_frame_in_pieces_is_waited_for() {
    for (name, report) in reports() {
        let mut bytes = Vec::new();
        encode_report(&report, &mut bytes);
        for cut in 0..bytes.len() {
            assert_eq!(
                decode_report(&bytes[..cut]),
                Ok(None),
                "{name} cut at {cut}"
            );
        }
    }
}

#[test]
fn every_invalid_vector_is_refused() {
    let mut seen = 0;
    for entry in std::fs::read_dir(vectors("invalid")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let refused = match path.extension().and_then(|e| e.to_str()) {
            Some("report") => decode_report(&bytes).map(|_| ()),
            Some("command") => decode_command(&bytes).map(|_| ()),
            _ => continue,
        };
        seen += 1;
        assert!(refused.is_err(), "{} was accepted", path.display());
    }
    assert!(seen >= 10, "only {seen} vectors were found");
}

#[test]
fn a_frame_that_announces_too_much_is_refused_before_it_is_there() {
    assert_eq!(
        decode_command(&[0xff; 4]),
        Err(RunnerFrameError::TooLong { length: u32::MAX })
    );
}

#[test]
fn long_texts_are_cut_at_a_character_and_long_lists_say_so() {
    let mut bytes = Vec::new();
    encode_report(
        &AttemptReport::Started {
            pid: 1,
            mechanism: "ö".repeat(TEXT_LIMIT_BYTES),
            not_enforced: vec!["x".repeat(TEXT_LIMIT_BYTES + 1); 40],
            why: vec!["y".repeat(TEXT_LIMIT_BYTES + 1); 40],
        },
        &mut bytes,
    );
    let Ok(Some((
        AttemptReport::Started {
            mechanism,
            not_enforced,
            why,
            ..
        },
        _,
    ))) = decode_report(&bytes)
    else {
        panic!("not decoded");
    };
    assert_eq!(mechanism, "ö".repeat(TEXT_LIMIT_BYTES / 2));
    assert_eq!(not_enforced.len(), NOT_ENFORCED_LIMIT);
    assert_eq!(not_enforced.last().unwrap(), "and 32 more");
    assert_eq!(
        (why.len(), why.last().unwrap().as_str()),
        (WHY_LIMIT, "and 36 more")
    );
}

#[test]
fn much_stdin_becomes_pieces_at_consecutive_offsets() {
    let data = Bytes::from(vec![5; 2 * STDIN_PIECE_BYTES + 1]);
    let mut bytes = Vec::new();
    encode_command(
        &AttemptCommand::Stdin {
            offset: 10,
            data: data.clone(),
        },
        &mut bytes,
    );
    let (mut rest, mut next, mut got) = (&bytes[..], 10, Vec::new());
    while let Some((AttemptCommand::Stdin { offset, data }, taken)) = decode_command(rest).unwrap()
    {
        assert_eq!(offset, next);
        next += data.len() as u64;
        got.extend_from_slice(&data);
        rest = &rest[taken..];
    }
    assert_eq!(got, data);
}

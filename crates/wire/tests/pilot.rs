//! Lines of a pilot's socket against the vectors in spec/jobs/vectors (`*.pilot-command`, `*.pilot-report`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_job::id::{AttemptId, JobId};
use kumiko_wire::pilot::{
    HELD_LIMIT, LINE_LIMIT_BYTES, PilotCommand, PilotLineError, PilotReport, decode_command,
    decode_report, encode_command, encode_report,
};
use std::path::PathBuf;

fn vectors(kind: &str, ending: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/jobs/vectors")
        .join(kind);
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
    let vectors: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|of| of == ending))
        .map(|file| (file.clone(), std::fs::read(file).unwrap()))
        .collect();
    assert!(!vectors.is_empty());
    vectors
}

fn id(job: u64, epoch: u32) -> AttemptId {
    let job = JobId(job);
    AttemptId { job, epoch }
}

#[test]
fn what_is_valid_is_read_and_written_the_same() {
    for (file, line) in vectors("valid", "pilot-command") {
        let (command, taken) = decode_command(&line).unwrap().unwrap();
        let mut again = Vec::new();
        encode_command(&command, &mut again);
        assert_eq!((taken, again), (line.len(), line), "{}", file.display());
    }
    for (file, line) in vectors("valid", "pilot-report") {
        let (report, taken) = decode_report(&line).unwrap().unwrap();
        let mut again = Vec::new();
        encode_report(&report, &mut again);
        assert_eq!((taken, again), (line.len(), line), "{}", file.display());
    }
}

#[test]
fn what_is_invalid_is_refused() {
    for (file, line) in vectors("invalid", "pilot-command") {
        assert!(decode_command(&line).is_err(), "{}", file.display());
    }
    for (file, line) in vectors("invalid", "pilot-report") {
        assert!(decode_report(&line).is_err(), "{}", file.display());
    }
}

#[test]
fn a_line_counts_once_it_is_whole() {
    let both = b"start 7.1\nkill 8.2\n";
    for cut in 0..10 {
        assert_eq!(decode_command(&both[..cut]).unwrap(), None, "{cut}");
    }
    let start = (PilotCommand::Start(id(7, 1)), 10);
    assert_eq!(decode_command(both).unwrap(), Some(start));
    let kill = (PilotCommand::Kill(id(8, 2)), 9);
    assert_eq!(decode_command(&both[10..]).unwrap(), Some(kill));
}

#[test]
fn a_line_is_as_long_as_the_longest_list_and_no_longer() {
    let most = PilotReport::Holds {
        since_ms: u64::MAX,
        held: vec![id(u64::MAX, u32::MAX); HELD_LIMIT],
    };
    let mut line = Vec::new();
    encode_report(&most, &mut line);
    assert!(line.len() < LINE_LIMIT_BYTES, "{}", line.len());
    assert_eq!(decode_report(&line).unwrap(), Some((most, line.len())));
    let endless = vec![b' '; LINE_LIMIT_BYTES];
    assert_eq!(decode_report(&endless), Err(PilotLineError::TooLong));
    assert_eq!(decode_report(&endless[1..]), Ok(None));
}

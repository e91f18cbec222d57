//! Messages of the hosts of an MPI program against the vectors in spec/jobs/vectors (`*.meeting`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_wire::meeting::{
    BODY_LIMIT_BYTES, LINE_LIMIT_BYTES, MeetingError, Message, SECRET_DIGITS, decode, encode,
};
use std::path::PathBuf;

fn vectors(kind: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/jobs/vectors")
        .join(kind);
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
    let vectors: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|of| of == "meeting"))
        .map(|file| (file.clone(), std::fs::read(file).unwrap()))
        .collect();
    assert!(!vectors.is_empty());
    vectors
}

#[test]
fn what_is_valid_is_read_and_written_the_same_and_counts_once_it_is_whole() {
    for (file, bytes) in vectors("valid") {
        let (message, taken) = decode(&bytes).unwrap().unwrap();
        let mut again = Vec::new();
        encode(&message, &mut again);
        assert_eq!((taken, &again), (bytes.len(), &bytes), "{}", file.display());
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), Ok(None), "{} {cut}", file.display());
        }
        again.extend_from_slice(b"here");
        assert_eq!(decode(&again), Ok(Some((message, taken))));
    }
}

#[test]
fn what_is_invalid_is_refused() {
    for (file, bytes) in vectors("invalid") {
        assert!(decode(&bytes).is_err(), "{}", file.display());
    }
}

#[test]
fn messages_are_as_long_as_the_longest_and_no_longer() {
    let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap();
    let mut line = Vec::new();
    let here = Message::Here {
        secret: "f".repeat(SECRET_DIGITS),
        number: u32::MAX,
        own: longest,
        first: longest,
    };
    encode(&here, &mut line);
    assert_eq!(decode(&line), Ok(Some((here, line.len()))));
    assert_eq!(
        decode(&[b'x'; LINE_LIMIT_BYTES]),
        Err(MeetingError::TooLong)
    );
    let mut bytes = Vec::new();
    let command = vec![b'x'; BODY_LIMIT_BYTES];
    let run = Message::Run { command };
    encode(&run, &mut bytes);
    assert_eq!(decode(&bytes), Ok(Some((run, bytes.len()))));
}

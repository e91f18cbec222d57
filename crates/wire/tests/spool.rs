//! The files of a spool against the vectors in spec/jobs/vectors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_job::attempt::Outcome;
use kumiko_wire::spool::{
    SpoolFileError, decode_attempt, decode_status, encode_attempt, encode_status,
};
use std::path::{Path, PathBuf};

/// The vectors of a kind with these last words in their names.
fn vectors(kind: &str, ending: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/jobs/vectors");
    let found: Vec<_> = std::fs::read_dir(folder.join(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == ending))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    assert!(!found.is_empty(), "no {kind} {ending}");
    found
}

#[test]
fn valid_files_are_read_and_survive_being_written_again() {
    for (path, text) in vectors("valid", "status") {
        let outcome = decode_status(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(
            decode_status(&encode_status(&outcome).unwrap()).unwrap(),
            outcome
        );
    }
    for (path, text) in vectors("valid", "attempt") {
        let attempt = decode_attempt(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(
            decode_attempt(&encode_attempt(&attempt).unwrap()).unwrap(),
            attempt
        );
    }
}

#[test]
fn invalid_files_are_refused() {
    for (path, text) in vectors("invalid", "status") {
        assert!(decode_status(&text).is_err(), "{}", path.display());
    }
    for (path, text) in vectors("invalid", "attempt") {
        assert!(decode_attempt(&text).is_err(), "{}", path.display());
    }
}

#[test]
fn what_is_over_the_limit_is_not_even_parsed() {
    let long = vec![b' '; 5 * 1024 * 1024];
    for refused in [
        decode_attempt(&long).map(|_| ()),
        decode_status(&long).map(|_| ()),
    ] {
        assert!(
            matches!(refused, Err(SpoolFileError::TooLong { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_status_is_as_people_expect_it() {
    let text = encode_status(&Outcome::Exited { status: 3 }).unwrap();
    assert_eq!(text, br#"{"exited":{"status":3}}"#);
}

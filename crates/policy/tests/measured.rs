//! spec/policy/vectors/measured: every kept text is read as what stands beside it, and written again as it was.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_policy::choice::{Calibration, MAX_MEASURED_BYTES, MeasuredError, Profile};
use std::path::Path;

/// Names end in `.costs` or `.profile`.
fn check(folder: &str, told: impl Fn(&str, &str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/policy/vectors/measured")
        .join(folder);
    let mut count = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let kind = path.extension().unwrap().to_str().unwrap().to_owned();
        if kind == "expected" {
            continue;
        }
        count += 1;
        let told = told(&kind, &std::fs::read_to_string(&path).unwrap());
        let beside = format!("{}.expected", path.display());
        if !Path::new(&beside).exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&beside, &told).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(told, expected, "{}", path.display());
    }
    assert!(count > 0);
}

/// Read, and written again.
fn again(kind: &str, text: &str) -> Result<String, MeasuredError> {
    match kind {
        "costs" => Calibration::from_text(text).map(|read| read.to_text()),
        _ => Profile::from_text(text).map(|read| read.to_text()),
    }
}

#[test]
fn valid_texts_are_read_and_written_again() {
    check("valid", |kind, text| {
        let written = again(kind, text).unwrap();
        assert_eq!(again(kind, &written).unwrap(), written);
        written
    });
}

#[test]
fn invalid_texts_give_their_errors() {
    check("invalid", |kind, text| {
        format!("{}\n", again(kind, text).unwrap_err())
    });
}

#[test]
fn a_text_that_is_too_long_is_not_looked_at() {
    let text = "#".repeat(MAX_MEASURED_BYTES + 1);
    assert_eq!(Calibration::from_text(&text), Err(MeasuredError::TooLong));
    assert_eq!(Profile::from_text(&text), Err(MeasuredError::TooLong));
}

#[test]
fn what_is_measured_is_read_again_as_it_was() {
    let measured = Calibration {
        kernel: "6.18.5 #1 SMP".to_owned(),
        program: "0123456789abcdef".to_owned(),
        measured_s: 1_700_000_000,
        rounds: 7,
        ..Calibration::default()
    };
    let text = measured.to_text();
    assert!(text.len() * 4 <= MAX_MEASURED_BYTES, "{}", text.len());
    assert_eq!(Calibration::from_text(&text), Ok(measured));
    let profile = Profile {
        passed: Some(9),
        wall_us: Some(1_000),
        ..Profile::default()
    };
    assert_eq!(Profile::from_text(&profile.to_text()), Ok(profile));
}

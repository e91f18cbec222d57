//! Descriptions and events against the vectors in spec/jobs/vectors. Beside each description that must be refused stands
//! what is said then; `KUMIKO_WRITE_VECTORS=1` writes it anew, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_job::contract::Refusal;
use kumiko_job::description::JobDescription;
use kumiko_job::event::Event;
use kumiko_job::validate::{self, DescriptionError};
use std::path::PathBuf;

fn vectors(kind: &str, extension: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/jobs/vectors")
        .join(kind);
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let ours = entries.filter(|path| path.extension().is_some_and(|of| of == extension));
    let vectors: Vec<_> = ours
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    assert!(!vectors.is_empty());
    vectors
}

#[test]
fn valid_descriptions_are_read_and_written_without_loss() {
    for (path, bytes) in vectors("valid", "description") {
        let description = JobDescription::from_json(&bytes)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let written = serde_json::to_vec(&description).unwrap();
        assert_eq!(
            JobDescription::from_json(&written).unwrap(),
            description,
            "{}",
            path.display()
        );
    }
}

#[test]
fn invalid_descriptions_are_refused_with_their_field_and_reason() {
    for (path, bytes) in vectors("invalid", "description") {
        let error = JobDescription::from_json(&bytes).expect_err(&path.display().to_string());
        let expected = path.with_extension("description.expected");
        if std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&expected, format!("{error}\n")).unwrap();
        }
        let expected = std::fs::read_to_string(expected).unwrap();
        assert_eq!(expected.trim_end(), error.to_string(), "{}", path.display());
    }
}

#[test]
fn valid_events_have_one_form() {
    for (path, bytes) in vectors("valid", "event") {
        let event =
            Event::from_json(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(
            event.to_json().unwrap().as_bytes(),
            bytes,
            "{}",
            path.display()
        );
    }
}

#[test]
fn what_is_no_event_of_this_version_is_refused() {
    for (path, bytes) in vectors("invalid", "event") {
        assert!(Event::from_json(&bytes).is_err(), "{}", path.display());
    }
}

#[test]
fn what_is_too_much_is_refused_by_its_limit() {
    let base = || JobDescription::new("/bin/true", &[]);
    let long = |bytes: usize| "x".repeat(bytes);
    type Change<'a> = &'a dyn Fn(&mut JobDescription);
    let rows: &[(&str, Change<'_>)] = &[
        ("executable", &|job| {
            job.executable = long(validate::MAX_PATH_BYTES + 1)
        }),
        ("arguments", &|job| {
            job.arguments = vec![String::new(); validate::MAX_ARGUMENTS + 1]
        }),
        ("arguments[1]", &|job| {
            job.arguments = vec![String::new(), long(validate::MAX_STRING_BYTES + 1)]
        }),
        ("arguments", &|job| {
            job.arguments = vec![long(validate::MAX_STRING_BYTES); 9]
        }),
        ("environment", &|job| {
            let names = 0..=validate::MAX_VARIABLES;
            job.environment = names
                .map(|name| (name.to_string(), String::new()))
                .collect();
        }),
        ("environment.A", &|job| {
            job.environment
                .insert("A".into(), long(validate::MAX_STRING_BYTES + 1));
        }),
        ("name", &|job| {
            job.name = Some(long(validate::MAX_NAME_BYTES + 1))
        }),
        ("policy", &|job| {
            job.policy = Some(long(validate::MAX_POLICY_BYTES + 1))
        }),
        ("directory", &|job| {
            job.directory = Some(long(validate::MAX_PATH_BYTES + 1))
        }),
        ("time_limit_s", &|job| {
            job.time_limit_s = Some(validate::MAX_TIME_LIMIT_S + 1)
        }),
    ];
    for (field, change) in rows {
        let mut description = base();
        change(&mut description);
        let error = description.validate().expect_err(field);
        assert!(
            error.to_string().starts_with(&format!("{field}: ")),
            "{field}: {error}"
        );
        let refusal = Refusal::from(error);
        assert_eq!(refusal.code, "bad_description");
    }
    let text = long(validate::MAX_DESCRIPTION_BYTES + 1);
    let error = JobDescription::from_json(text.as_bytes()).unwrap_err();
    assert!(matches!(error, DescriptionError::TooLong { .. }));
}

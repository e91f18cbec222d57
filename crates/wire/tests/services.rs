//! Requests, messages of an attached job, REST paths and JSON against spec/services/vectors and spec/rest/vectors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::contract::{EventView, JobView, Refusal};
use kumiko_job::description::WindowSize;
use kumiko_job::id::JobId;
use kumiko_wire::api::{Request, SiteView, Submitted, Uploaded, json};
use kumiko_wire::exec::{FromJob, ToJob};
use kumiko_wire::target::Target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The vectors of a folder that end so, by name.
fn vectors(folder: &str, end: &str) -> BTreeMap<String, Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../")
        .join(folder);
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())) {
        let entry = entry.unwrap();
        if let Some(name) = entry.file_name().to_str().unwrap().strip_suffix(end) {
            found.insert(name.to_owned(), std::fs::read(entry.path()).unwrap());
        }
    }
    assert!(!found.is_empty(), "no {end} in {folder}");
    found
}

const SERVICES_VALID: &str = "spec/services/vectors/valid";
const SERVICES_INVALID: &str = "spec/services/vectors/invalid";
const REST_VALID: &str = "spec/rest/vectors/valid";
const REST_INVALID: &str = "spec/rest/vectors/invalid";

#[test]
fn valid_requests_are_read_and_written_again_as_the_same() {
    let vectors = vectors(SERVICES_VALID, ".request");
    for (name, text) in &vectors {
        let request = Request::decode(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(Request::decode(&request.encode()), Ok(request), "{name}");
    }
    assert_eq!(
        Request::decode(&vectors["attach-from-the-start"]).unwrap(),
        Request::Attach {
            job: JobId(7),
            stdin: false,
            stdout_from: 0,
            stderr_from: 0
        }
    );
    assert_eq!(
        Request::decode(&vectors["cancel"]).unwrap(),
        Request::Cancel {
            job: JobId(7),
            grace_ms: Some(500)
        }
    );
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    for (name, text) in vectors(SERVICES_INVALID, ".request") {
        let error = Request::decode(&text).expect_err(&name);
        assert!(
            error.to_string().contains("not understood"),
            "{name}: {error}"
        );
    }
    assert!(
        Request::decode(&vec![b' '; 300_000])
            .unwrap_err()
            .to_string()
            .contains("over the limit")
    );
}

#[test]
fn messages_of_an_attached_job_have_one_form() {
    for (name, bytes) in vectors(SERVICES_VALID, ".to-job") {
        let data = Bytes::from(bytes);
        let message =
            ToJob::decode(data[0], data.slice(1..)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(message.encode(), (data[0], data.slice(1..)), "{name}");
    }
    for (name, bytes) in vectors(SERVICES_VALID, ".from-job") {
        let data = Bytes::from(bytes);
        let message =
            FromJob::decode(data[0], data.slice(1..)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (kind, pieces) = message.encode();
        assert_eq!(
            (kind, &pieces.concat()[..]),
            (data[0], &data[1..]),
            "{name}"
        );
    }
}

#[test]
fn messages_mean_what_the_clauses_say() {
    let to = vectors(SERVICES_VALID, ".to-job");
    for (name, message) in [
        (
            "stdin",
            ToJob::Stdin {
                offset: 5,
                data: Bytes::from_static(b"hello"),
            },
        ),
        (
            "stdin-nothing",
            ToJob::Stdin {
                offset: u64::MAX,
                data: Bytes::new(),
            },
        ),
        ("stdin-end", ToJob::StdinEnd { offset: 10 }),
        (
            "window",
            ToJob::Window(WindowSize {
                rows: 24,
                columns: 80,
            }),
        ),
        ("signal", ToJob::Signal { signal: 15 }),
        (
            "consumed",
            ToJob::Consumed {
                stream: OutputStream::Stderr,
                offset: 1 << 20,
            },
        ),
    ] {
        let data = Bytes::from(to[name].clone());
        assert_eq!(
            ToJob::decode(data[0], data.slice(1..)),
            Ok(message),
            "{name}"
        );
    }
    let from = vectors(SERVICES_VALID, ".from-job");
    let err = Bytes::from_static(b"err");
    for (name, message) in [
        (
            "stderr",
            FromJob::Output {
                stream: OutputStream::Stderr,
                offset: 7,
                data: err,
            },
        ),
        ("stdin-taken", FromJob::StdinTaken { offset: 5 }),
        ("stdin-closed", FromJob::StdinClosed),
        ("ended", FromJob::Ended(Outcome::Exited { status: 3 })),
        ("ended-cancelled", FromJob::Ended(Outcome::Cancelled)),
    ] {
        let data = Bytes::from(from[name].clone());
        assert_eq!(
            FromJob::decode(data[0], data.slice(1..)),
            Ok(message),
            "{name}"
        );
    }
}

#[test]
fn invalid_messages_of_an_attached_job_are_refused() {
    for (name, bytes) in vectors(SERVICES_INVALID, ".to-job") {
        let data = Bytes::from(bytes);
        assert!(
            ToJob::decode(data[0], data.slice(1..)).is_err(),
            "{name} was taken"
        );
    }
    for (name, bytes) in vectors(SERVICES_INVALID, ".from-job") {
        let data = Bytes::from(bytes);
        assert!(
            FromJob::decode(data[0], data.slice(1..)).is_err(),
            "{name} was taken"
        );
    }
}

fn target(text: &[u8]) -> Result<Target, kumiko_wire::target::TargetError> {
    let text = std::str::from_utf8(text).unwrap();
    let (path, query) = text
        .split_once('?')
        .map_or((text, None), |(path, query)| (path, Some(query)));
    Target::parse(path, query)
}

#[test]
fn paths_are_taken_or_refused_as_the_vectors_say() {
    let valid = vectors(REST_VALID, ".target");
    for (name, text) in &valid {
        target(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert_eq!(
        target(&valid["encoded"]).unwrap().parts[4..],
        ["a b", "é.txt"]
    );
    for (name, text) in vectors(REST_INVALID, ".target") {
        assert!(target(&text).is_err(), "{name} was taken");
    }
}

/// The type reads the vectors and writes the same members with the same values.
fn keeps<T: Serialize + DeserializeOwned>(kind: &str) {
    for (name, text) in vectors(REST_VALID, &format!(".{kind}.json")) {
        let value: T = serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (read, written): (Value, Value) = (
            serde_json::from_slice(&text).unwrap(),
            serde_json::from_slice(&json(&value)).unwrap(),
        );
        assert_eq!(read, written, "{name}");
    }
}

#[test]
fn the_json_of_answers_is_that_of_the_vectors() {
    keeps::<JobView>("job");
    keeps::<EventView>("event");
    keeps::<Submitted>("submitted");
    keeps::<Uploaded>("uploaded");
    keeps::<SiteView>("site");
    keeps::<Refusal>("refusal");
}

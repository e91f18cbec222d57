//! spec/rpc P50 to P62: messages of calls, and answers of routines, against the vectors in spec/rpc/vectors.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use kumiko_call::event::{CallEvent, Failure, Invocation, Recorded};
use kumiko_call::id::{AttemptId, CallId};
use kumiko_call::message::{FromClient, Status};
use kumiko_job::contract::Refusal;
use kumiko_wire::routine::{self, Said};
use kumiko_wire::rpc::{Durability, FromSite, Pieces, ToSite};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const CALL: CallId = CallId {
    client: 7,
    sequence: 3,
};

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/rpc/vectors")
        .join(kind)
}

/// The bytes of a vector, which is made of `ours` where it is missing and asked for.
fn vector(kind: &str, name: &str, ours: &[u8]) -> Vec<u8> {
    let path = folder(kind).join(name);
    if !path.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
        std::fs::write(&path, ours).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// No file of these endings is without a row here.
fn all_are_named(kind: &str, ending: &str, names: &BTreeSet<String>) {
    for entry in folder(kind).read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.ends_with(ending) || names.contains(&name), "{name}");
    }
}

fn with_kind((kind, pieces): Pieces) -> Vec<u8> {
    [&[kind], &*pieces.concat()].concat()
}

fn split(bytes: &[u8]) -> (u8, Bytes) {
    let (kind, rest) = bytes.split_first().unwrap();
    (*kind, Bytes::copy_from_slice(rest))
}

#[test]
fn messages_of_clients_are_the_bytes_of_the_vectors() {
    let call = |message| ToSite::Call {
        message,
        data: Bytes::new(),
    };
    let block = ToSite::Call {
        message: FromClient::Block {
            call: CALL,
            number: 2,
        },
        data: Bytes::from_static(b"the block"),
    };
    let invocation = Invocation {
        routine: "linpack/dgesv".to_owned(),
        in_bytes: 1 << 40,
        block_bytes: 1 << 18,
        keep_ms: 86_400_000,
    };
    let rows = [
        (
            "register-none",
            ToSite::Register {
                durability: Durability::None,
            },
        ),
        (
            "register-full",
            ToSite::Register {
                durability: Durability::Full,
            },
        ),
        (
            "register-auto",
            ToSite::Register {
                durability: Durability::Auto,
            },
        ),
        (
            "signature",
            ToSite::Signature {
                routine: "pi/trial".to_owned(),
            },
        ),
        (
            "signatures",
            ToSite::Signature {
                routine: String::new(),
            },
        ),
        (
            "invoke",
            call(FromClient::Invoke {
                call: CALL,
                first_open: 2,
                invocation,
            }),
        ),
        ("block", block),
        ("ask", call(FromClient::Ask { call: CALL })),
        (
            "fetch",
            call(FromClient::Fetch {
                call: CALL,
                number: u64::MAX,
            }),
        ),
        ("acknowledge", call(FromClient::Acknowledge { call: CALL })),
        ("cancel", call(FromClient::Cancel { call: CALL })),
        (
            "migrate",
            call(FromClient::Migrate {
                call: CALL,
                epoch: 2,
                to: None,
            }),
        ),
        (
            "migrate-to",
            call(FromClient::Migrate {
                call: CALL,
                epoch: 2,
                to: Some("n2".to_owned()),
            }),
        ),
        ("record", ToSite::Record { call: CALL }),
        (
            "said",
            ToSite::Said {
                call: CALL,
                epoch: 2,
                number: 5,
                data: Bytes::from_static(b"what its caller's function says"),
            },
        ),
    ];
    let mut names = BTreeSet::new();
    for (name, message) in rows {
        let name = format!("{name}.to-site");
        let ours = with_kind(message.clone().encode());
        let bytes = vector("valid", &name, &ours);
        assert_eq!(ours, bytes, "{name}");
        let (kind, data) = split(&bytes);
        assert_eq!(ToSite::decode(kind, data).unwrap(), message, "{name}");
        names.insert(name);
    }
    all_are_named("valid", ".to-site", &names);
}

#[test]
fn messages_of_sites_are_the_bytes_of_the_vectors() {
    let status = |status| FromSite::Status { call: CALL, status };
    let computing = Status::Computing {
        epoch: 2,
        started: true,
        suspect: false,
    };
    let crashes = Failure::Crashes {
        cause: "it ended by signal 11".to_owned(),
        point: 0,
    };
    let part = FromSite::Part {
        call: CALL,
        number: 1,
        data: Bytes::from_static(b"a part"),
    };
    let refused = |call| FromSite::Refused {
        call,
        refusal: Refusal::new("no_routine", "there is none"),
    };
    let started = Recorded {
        number: 12,
        at_ms: Some(1_700_000_000_000),
        event: CallEvent::Started {
            epoch: 2,
            recovery: None,
        },
    };
    let recorded = |one| FromSite::Recorded { call: CALL, one };
    let result = Status::Result {
        blocks: 2,
        out_bytes: 300_000,
    };
    let rows = [
        ("registered", FromSite::Registered { client: 7 }),
        (
            "routine",
            FromSite::Routine {
                dumped: false,
                signature: "Module m;".to_owned(),
            },
        ),
        (
            "routine-dumped",
            FromSite::Routine {
                dumped: true,
                signature: "Module m;".to_owned(),
            },
        ),
        (
            "routines-end",
            FromSite::Routine {
                dumped: false,
                signature: String::new(),
            },
        ),
        ("wants", status(Status::Wants { block: 5 })),
        ("waiting", status(Status::Waiting)),
        ("computing", status(computing)),
        ("result", status(result)),
        ("failed", status(Status::Failed(crashes))),
        ("over", status(Status::Over { expired: true })),
        ("part", part),
        ("refused", refused(None)),
        ("refused-call", refused(Some(CALL))),
        (
            "asks",
            FromSite::Asks {
                call: CALL,
                epoch: 2,
                number: 5,
                formal: 1,
                data: Bytes::from_static(b"its arguments"),
            },
        ),
        ("recorded", recorded(Some(started))),
        ("recorded-end", recorded(None)),
    ];
    let mut names = BTreeSet::new();
    for (name, message) in rows {
        let name = format!("{name}.from-site");
        let ours = with_kind(message.clone().encode());
        let bytes = vector("valid", &name, &ours);
        assert_eq!(ours, bytes, "{name}");
        let (kind, data) = split(&bytes);
        assert_eq!(FromSite::decode(kind, data).unwrap(), message, "{name}");
        names.insert(name);
    }
    all_are_named("valid", ".from-site", &names);
}

#[test]
fn what_is_no_message_is_refused_by_the_field_where_it_fails() {
    let numbers = |kind: u8, numbers: &[u64], rest: &[u8]| {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        [&[kind][..], &bytes.collect::<Vec<u8>>(), rest].concat()
    };
    let client = [
        ("kind", vec![0x3f], "kind 0x3f is unknown"),
        ("register-short", vec![0x40], "ends before its durability"),
        (
            "register-value",
            vec![0x40, 3],
            "durability of a message of kind 0x40 is out of range",
        ),
        (
            "register-long",
            vec![0x40, 0, 0],
            "1 bytes after its last field",
        ),
        (
            "signature-no-text",
            vec![0x41, 0xff],
            "routine of a message",
        ),
        (
            "invoke-short",
            numbers(0x42, &[7, 3, 1, 16], &[]),
            "ends before its length of a block",
        ),
        (
            "block-short",
            numbers(0x43, &[7, 3], &[0; 7]),
            "ends before its number",
        ),
        (
            "said-short",
            numbers(0x49, &[7, 3], &[2, 0, 0, 0, 5]),
            "ends before its number",
        ),
        (
            "migrate-short",
            numbers(0x4a, &[7, 3], &[2, 0]),
            "ends before its epoch",
        ),
        (
            "migrate-no-text",
            numbers(0x4a, &[7, 3], &[2, 0, 0, 0, 0xff]),
            "host of a message",
        ),
        (
            "ask-long",
            numbers(0x44, &[7, 3], &[0]),
            "1 bytes after its last field",
        ),
    ];
    let mut names = BTreeSet::new();
    for (name, ours, expected) in client {
        let name = format!("{name}.to-site");
        let (kind, data) = split(&vector("invalid", &name, &ours));
        let error = ToSite::decode(kind, data).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        names.insert(name);
    }
    all_are_named("invalid", ".to-site", &names);
    let site = [
        ("routine-short", vec![0x61], "ends before its mark"),
        (
            "routine-flag",
            [&[0x61, 2][..], b"Module m;"].concat(),
            "mark of dumps of a message of kind 0x61 is out of range",
        ),
        ("state", numbers(0x62, &[7, 3], &[6]), "state of a message"),
        (
            "flag",
            numbers(0x62, &[7, 3], &[5, 2]),
            "expiry of a message",
        ),
        (
            "computing-short",
            numbers(0x62, &[7, 3], &[2, 1, 0, 0]),
            "ends before its epoch",
        ),
        (
            "failure",
            numbers(0x62, &[7, 3], b"\x04{}"),
            "failure of a message",
        ),
        (
            "refusal",
            numbers(0x64, &[0, 0], b"no"),
            "refusal of a message",
        ),
        (
            "recorded-event",
            numbers(0x65, &[7, 3], b"{}"),
            "event of a message",
        ),
        (
            "asks-short",
            numbers(0x66, &[7, 3], &[2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]),
            "ends before its formal",
        ),
        (
            "part-short",
            numbers(0x63, &[7], &[]),
            "ends before its count",
        ),
    ];
    let mut names = BTreeSet::new();
    for (name, ours, expected) in site {
        let name = format!("{name}.from-site");
        let (kind, data) = split(&vector("invalid", &name, &ours));
        let error = FromSite::decode(kind, data).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        names.insert(name);
    }
    all_are_named("invalid", ".from-site", &names);
}

#[test]
fn a_routine_answers_its_call_and_no_other() {
    let attempt = AttemptId {
        call: CALL,
        epoch: 2,
    };
    let words = |words: [u64; 5], rest: &[u8]| {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        [&bytes.collect::<Vec<u8>>(), rest].concat()
    };
    let done = u64::from_le_bytes(*b"kkmdone1");
    let back = u64::from_le_bytes(*b"kkmback1");
    let ask = |words: [u64; 7], rest: &[u8]| {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        [&bytes.collect::<Vec<u8>>(), rest].concat()
    };
    let text = "Module m; Define f(OUT double x[1], g(IN int n)) { }";
    let signature = kumiko_idl::check(&kumiko_idl::parse(text).unwrap()).unwrap();
    let plan = signature.routines[0]
        .plan(&[[0; 16], [0; 16]], kumiko_idl::Limits::WIDEST)
        .unwrap();
    type TestRow = (
        &'static str,
        &'static str,
        Vec<u8>,
        Result<Option<Vec<u8>>, ()>,
    );
    let result = || Ok(Some(b"8 bytes.".to_vec()));
    let fail = u64::from_le_bytes(*b"kkmfail1");
    let rows: [TestRow; 18] = [
        (
            "valid",
            "fails",
            words([fail, 7, 3, 2, 19], b"ValueError\nno\nroot!"),
            Ok(Some(b"ValueError: no\nroot!".to_vec())),
        ),
        (
            "valid",
            "fails-bare",
            words([fail, 7, 3, 2, 10], b"ValueError"),
            Ok(Some(b"ValueError: ".to_vec())),
        ),
        (
            "valid",
            "fails-begun",
            words([fail, 7, 3, 2, 19], b"ValueError\nno"),
            Ok(None),
        ),
        (
            "invalid",
            "fails-nameless",
            words([fail, 7, 3, 2, 4], b"\nwhy"),
            Err(()),
        ),
        (
            "invalid",
            "fails-much",
            words([fail, 7, 3, 2, 4097], b"E"),
            Err(()),
        ),
        (
            "invalid",
            "fails-no-text",
            words([fail, 7, 3, 2, 2], b"E\xff"),
            Err(()),
        ),
        (
            "valid",
            "whole",
            words([done, 7, 3, 2, 8], b"8 bytes."),
            result(),
        ),
        (
            "valid",
            "and-more",
            words([done, 7, 3, 2, 8], b"8 bytes.and more"),
            result(),
        ),
        (
            "valid",
            "begun",
            words([done, 7, 3, 2, 8], b"8 by"),
            Ok(None),
        ),
        (
            "valid",
            "asks",
            ask([back, 7, 3, 2, 5, 1, 3], b"its"),
            Ok(Some(b"5 1 its".to_vec())),
        ),
        (
            "valid",
            "asks-begun",
            ask([back, 7, 3, 2, 5, 1, 3], b"it"),
            Ok(None),
        ),
        (
            "invalid",
            "asks-no-callback",
            ask([back, 7, 3, 2, 5, 0, 3], b"its"),
            Err(()),
        ),
        (
            "invalid",
            "asks-elsewhere",
            ask([back, 7, 3, 2, 5, 2, 3], b"its"),
            Err(()),
        ),
        (
            "invalid",
            "asks-much",
            ask([back, 7, 3, 2, 5, 1, 1 << 21], b"its"),
            Err(()),
        ),
        (
            "invalid",
            "asks-none",
            ask([back, 7, 3, 2, 0, 1, 3], b"its"),
            Err(()),
        ),
        (
            "invalid",
            "older-epoch",
            words([done, 7, 3, 1, 8], b"8 bytes."),
            Err(()),
        ),
        (
            "invalid",
            "length",
            words([done, 7, 3, 2, 9], b"8 bytes."),
            Err(()),
        ),
        ("invalid", "printed", b"hello\n".to_vec(), Err(())),
    ];
    for (kind, name, ours, expected) in rows {
        let bytes = vector(kind, &format!("{name}.answer"), &ours);
        // Whole, of any call: whether it may be asked is not looked at.
        let whole = ["asks", "asks-no-callback", "asks-elsewhere", "asks-none"];
        assert_eq!(
            routine::is_question(&bytes),
            whole.contains(&name),
            "{name}"
        );
        if whole.contains(&name) {
            let more = [&bytes[..], b"!"].concat();
            assert!(!routine::is_question(&more), "{name}");
        }
        let found = routine::hear(&bytes, attempt, &plan).map_err(|_| ());
        let found = found.map(|said| {
            said.map(|said| match said {
                Said::Answer {
                    out_bytes, small, ..
                } => {
                    assert_eq!(out_bytes, 8);
                    small.to_vec()
                }
                Said::Asks {
                    number,
                    formal,
                    data,
                    whole,
                } => {
                    assert_eq!(whole, bytes.len());
                    [format!("{number} {formal} ").as_bytes(), data].concat()
                }
                Said::Fails { error, told, whole } => {
                    assert_eq!(whole, bytes.len());
                    format!("{error}: {told}").into_bytes()
                }
            })
        });
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn what_was_said_is_known_by_its_first_word() {
    let call = CallId {
        client: 7,
        sequence: 3,
    };
    let said = routine::said(AttemptId { call, epoch: 2 }, 5, b"its");
    let words = [u64::from_le_bytes(*b"kkmsaid1"), 7, 3, 2, 5, 3];
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    assert_eq!(said, words.chain(*b"its").collect::<Vec<u8>>());
    assert!(routine::is_said(&said) && routine::is_said(&said[..8]));
    for other in [&said[..7], &said[1..], b"kkmcall1", b""] {
        assert!(!routine::is_said(other), "{other:?}");
    }
}

//! Messages of the monitor and prefaces of relayed connections, against the vectors in spec/monitor and each other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use kumiko_wire::monitor::{
    FromAgent, FromFront, MonitorMessageError, NotIntroduced, TEXT_MOST_BYTES, ToAgent, ToFront,
};
use kumiko_wire::relay::{Door, LENGTH_BYTES, PREFACE_MOST_BYTES, Preface, PrefaceError};
use std::path::PathBuf;

const ALICE: &str = "/O=Grid/CN=Alice";

/// Files `NAME.WHO` of one kind, with their bytes.
fn vectors(kind: &str, who: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/monitor/vectors")
        .join(kind);
    let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == who))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    found.sort();
    found
}

/// Each row has a file that holds exactly its bytes, and no valid file is without a row; no invalid file decodes.
#[track_caller]
fn check<T: PartialEq + std::fmt::Debug, E: std::fmt::Debug>(
    who: &str,
    rows: &[(&str, T)],
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Result<T, E>,
) {
    let files = vectors("valid", who);
    for (name, value) in rows {
        let bytes = &files
            .iter()
            .find(|(file, _)| file == name)
            .unwrap_or_else(|| panic!("no vector {name}.{who}: {:02x?}", encode(value)))
            .1;
        assert_eq!(&encode(value), bytes, "{name}.{who}");
        assert_eq!(&decode(bytes).unwrap(), value, "{name}.{who}");
        for cut in 0..bytes.len() {
            if let Ok(other) = decode(&bytes[..cut]) {
                assert_ne!(&other, value, "{name}.{who} cut at {cut}");
            }
        }
    }
    assert_eq!(files.len(), rows.len(), "a vector of {who} has no row");
    let bad = vectors("invalid", who);
    assert!(!bad.is_empty(), "no invalid vectors of {who}");
    for (name, bytes) in bad {
        assert!(decode(&bytes).is_err(), "{name}.{who} was taken");
    }
}

#[test]
fn what_a_front_says_is_one_of_two_messages() {
    let introduce = FromFront::Introduce {
        number: 7,
        subject: ALICE.to_owned(),
    };
    let rows = [("ready", FromFront::Ready), ("introduce", introduce)];
    check("from-front", &rows, FromFront::encode, FromFront::decode);
}

#[test]
fn what_a_front_hears_is_one_of_two_messages() {
    let introduced = ToFront::Introduced {
        number: 7,
        account: "alice".to_owned(),
    };
    let refused = |why| ToFront::Refused {
        number: u32::MAX,
        why,
    };
    let rows = [
        ("introduced", introduced),
        ("unmapped", refused(NotIntroduced::Unmapped)),
        ("not-served", refused(NotIntroduced::NotServed)),
        ("too-many", refused(NotIntroduced::TooMany)),
        ("failing", refused(NotIntroduced::Failing)),
        ("busy", refused(NotIntroduced::Busy)),
        ("closing", refused(NotIntroduced::Closing)),
        ("unreadable", refused(NotIntroduced::Unreadable)),
    ];
    check("to-front", &rows, ToFront::encode, ToFront::decode);
}

#[test]
fn what_an_agent_says_and_hears_are_three_messages() {
    let connection = ToAgent::Connection {
        subject: ALICE.to_owned(),
    };
    let rows = [("connection", connection), ("go", ToAgent::Go)];
    check("to-agent", &rows, ToAgent::encode, ToAgent::decode);
    let rows = [("idle", FromAgent::Idle { taken: 1 << 40 })];
    check("from-agent", &rows, FromAgent::encode, FromAgent::decode);
}

#[test]
fn a_preface_tells_door_peer_and_chain() {
    let chain = vec![
        Bytes::from_static(&[0x30, 1, 2]),
        Bytes::from_static(&[0x30]),
    ];
    let preface = |door, peer: &str| Preface {
        door,
        peer: peer.parse().unwrap(),
        chain: chain.clone(),
    };
    let rows = [
        ("session", preface(Door::Session, "192.0.2.1:65535")),
        ("http1", preface(Door::Http1, "[2001:db8::1]:1")),
        ("http2", preface(Door::Http2, "127.0.0.1:2119")),
        ("gram", preface(Door::Gram, "[::1]:40000")),
    ];
    check(
        "preface",
        &rows,
        |p| p.encode()[LENGTH_BYTES..].to_vec(),
        |bytes| Preface::decode(Bytes::copy_from_slice(bytes)),
    );
}

#[test]
fn lengths_are_bounded_before_anything_is_held() {
    let long = "x".repeat(TEXT_MOST_BYTES + 1);
    let message = FromFront::Introduce {
        number: 1,
        subject: long,
    };
    assert!(matches!(
        FromFront::decode(&message.encode()),
        Err(MonitorMessageError::Length { .. })
    ));
    let most = u32::try_from(PREFACE_MOST_BYTES).unwrap();
    assert_eq!(Preface::length(most.to_le_bytes()), Ok(PREFACE_MOST_BYTES));
    assert!(matches!(
        Preface::length((most + 1).to_le_bytes()),
        Err(PrefaceError::TooLong { .. })
    ));
}

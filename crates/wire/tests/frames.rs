//! Session frames against the vectors in spec/session/vectors and against each other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::{Bytes, BytesMut};
use kumiko_wire::frame::{Frame, Half, Hello, Welcome, decode};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The `.frame` files of a folder: name to bytes.
fn vectors(kind: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/session/vectors")
        .join(kind);
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "frame")
        {
            found.insert(
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                std::fs::read(path).unwrap(),
            );
        }
    }
    found
}

fn frames() -> BTreeMap<&'static str, Frame> {
    let hello = |resume| {
        let (mut session, mut token) = ([0; 16], [0; 16]);
        (0..16).for_each(|index| (session[index], token[index]) = (index as u8, index as u8 + 16));
        Frame::Hello(Hello {
            session,
            token,
            resume,
        })
    };
    BTreeMap::from([
        ("hello-new", hello(None)),
        ("hello-resume", hello(Some((1 << 33) + 7))),
        (
            "welcome",
            Frame::Welcome(Welcome {
                received: 9,
                resume_within_ms: 30_000,
                max_streams: 256,
            }),
        ),
        (
            "open",
            Frame::Open {
                stream: 1,
                number: 1,
                request: Bytes::from_static(br#"{"site":{}}"#),
            },
        ),
        (
            "data",
            Frame::Data {
                stream: 1,
                number: 2,
                kind: 200,
                more: false,
                data: Bytes::from("hä\0"),
            },
        ),
        (
            "data-more",
            Frame::Data {
                stream: u32::MAX,
                number: u32::MAX,
                kind: 0,
                more: true,
                data: vec![b'x'; 5000].into(),
            },
        ),
        (
            "data-empty",
            Frame::Data {
                stream: 1,
                number: 3,
                kind: 1,
                more: false,
                data: Bytes::new(),
            },
        ),
        (
            "finish",
            Frame::Finish {
                stream: 1,
                number: 4,
            },
        ),
        (
            "reset-sending",
            Frame::Reset {
                stream: 1,
                number: 5,
                half: Half::Sending,
                code: 42,
            },
        ),
        (
            "reset-receiving",
            Frame::Reset {
                stream: 7,
                number: 6,
                half: Half::Receiving,
                code: 0xffff_ff01,
            },
        ),
        (
            "credit",
            Frame::Credit {
                stream: 1,
                limit: 1 << 40,
            },
        ),
        ("ack", Frame::Ack { received: 77 }),
        ("ping", Frame::Ping { nonce: u64::MAX }),
        ("pong", Frame::Pong { nonce: 0 }),
        (
            "goodbye",
            Frame::Goodbye {
                code: 5,
                text: "the server is going down".into(),
            },
        ),
    ])
}

#[test]
fn each_valid_vector_is_one_frame_and_that_frame_is_it() {
    let (frames, vectors) = (frames(), vectors("valid"));
    assert!(
        frames
            .keys()
            .copied()
            .eq(vectors.keys().map(String::as_str)),
        "{:?}",
        vectors.keys()
    );
    for (name, frame) in frames {
        let mut encoded = BytesMut::new();
        frame.encode(&mut encoded);
        assert_eq!(encoded, vectors[name], "{name}");
        assert_eq!(decode(&mut encoded), Ok(Some(frame)), "{name}");
        assert!(encoded.is_empty(), "{name}");
    }
}

#[test]
fn a_frame_that_is_not_complete_is_waited_for() {
    for (name, bytes) in vectors("valid") {
        for length in 0..bytes.len() {
            let mut some = BytesMut::from(&bytes[..length]);
            assert_eq!(decode(&mut some), Ok(None), "{length} bytes of {name}");
            assert_eq!(some.len(), length, "{length} bytes of {name}");
        }
    }
}

#[test]
fn each_invalid_vector_is_refused_by_name() {
    let rows = BTreeMap::from([
        ("type-0", "frame type 0 is not known"),
        ("type-71-alone", "frame type 71 is not known"),
        (
            "kind-on-open",
            "the OPEN frame sets kind, which it does not have",
        ),
        (
            "more-on-open",
            "the OPEN frame sets flags, which it does not have",
        ),
        (
            "flag-not-known",
            "the DATA frame sets flags, which it does not have",
        ),
        (
            "stream-on-ack",
            "the ACK frame sets stream, which it does not have",
        ),
        (
            "number-on-credit",
            "the CREDIT frame sets number, which it does not have",
        ),
        ("data-on-no-stream", "the DATA frame names no stream"),
        (
            "data-too-long",
            "the DATA frame is 32769 bytes long; at most 32768 are allowed",
        ),
        (
            "data-giant",
            "the DATA frame is 4294967295 bytes long; at most 32768 are allowed",
        ),
        (
            "request-too-long",
            "the OPEN frame is 262145 bytes long; at most 262144 are allowed",
        ),
        (
            "finish-with-payload",
            "the FINISH frame is 1 bytes long; it has 0",
        ),
        ("ack-too-short", "the ACK frame is 7 bytes long; it has 8"),
        ("half-not-known", "the field half of the RESET frame is 2"),
        (
            "hello-version-9",
            "the peer speaks version 9 of the session protocol; version 1 is spoken here",
        ),
        (
            "hello-too-short",
            "the HELLO frame is 1 bytes long; it has 44",
        ),
        (
            "hello-not-its-length",
            "the HELLO frame is 45 bytes long; it has 44",
        ),
        ("hello-mode-2", "the field mode of the HELLO frame is 2"),
        (
            "hello-new-with-received",
            "the field mode of the HELLO frame is 0",
        ),
        (
            "welcome-version-2",
            "the peer speaks version 2 of the session protocol; version 1 is spoken here",
        ),
        (
            "welcome-reserved",
            "the field reserved of the WELCOME frame is 1",
        ),
        (
            "goodbye-too-short",
            "the GOODBYE frame is 1 bytes long; it has 4",
        ),
        (
            "goodbye-not-text",
            "the text of the GOODBYE frame is not UTF-8",
        ),
    ]);
    let vectors = vectors("invalid");
    assert!(
        rows.keys().copied().eq(vectors.keys().map(String::as_str)),
        "{:?}",
        vectors.keys()
    );
    for (name, word) in rows {
        let error = decode(&mut BytesMut::from(&vectors[name][..])).expect_err(name);
        assert_eq!(error.to_string(), word, "{name}");
    }
}

//! spec/gram: vectors (many of them taken from links between the programs of the Globus Toolkit), and tokens.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_wire::gram::{
    Callback, FrameError, JobReply, JobRequest, MAX_HEAD_BYTES, Query, QueryReply, Request,
    ToGatekeeper, TokenError, Tokens, Wanted, decode_request, decode_response, encode_request,
    encode_response,
};
use std::fmt::Debug;
use std::path::{Path, PathBuf};

fn vectors(folder: &str, kind: &str, told: impl Fn(&[u8]) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/gram/vectors")
        .join(folder);
    let mut paths: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == kind))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let told = told(&std::fs::read(&path).unwrap()) + "\n";
        let beside = PathBuf::from(format!("{}.expected", path.display()));
        if !beside.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&beside, &told).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(told, expected, "{}", path.display());
    }
}

fn said<T: Debug, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(value) => format!("{value:#?}"),
        Err(error) => format!("error: {error}"),
    }
}

/// By its target: of a gatekeeper, of a job, or of a client that listens.
fn request(bytes: &[u8]) -> String {
    let request = match decode_request(bytes) {
        Ok(Some((request, _))) => request,
        Ok(None) => return "error: not whole".to_owned(),
        Err(error) => return format!("error: {error}"),
    };
    let target = request.target.as_str();
    if target == "/" {
        said(Callback::decode(&request.body))
    } else if target.starts_with("/1") {
        said(Query::decode(&request.body))
    } else {
        said(ToGatekeeper::decode(&request))
    }
}

fn reply(bytes: &[u8]) -> String {
    let response = match decode_response(bytes) {
        Ok(Some((response, _))) => response,
        Ok(None) => return "error: not whole".to_owned(),
        Err(error) => return format!("error: {error}"),
    };
    match &response.body {
        Some(body) if body.contains("failure-code") => said(QueryReply::decode(body)),
        Some(body) if !body.is_empty() => said(JobReply::decode(body)),
        _ => format!("{response:#?}"),
    }
}

fn refused(told: String) -> String {
    assert!(told.starts_with("error: "), "{told}");
    told
}

#[test]
fn valid_requests_are_read() {
    vectors("valid", "request", |bytes| {
        let told = request(bytes);
        assert!(!told.starts_with("error"), "{told}");
        told
    });
}

#[test]
fn valid_replies_are_read() {
    vectors("valid", "reply", |bytes| {
        let told = reply(bytes);
        assert!(!told.starts_with("error"), "{told}");
        told
    });
}

#[test]
fn invalid_requests_are_refused_by_name() {
    vectors("invalid", "request", |bytes| refused(request(bytes)));
}

#[test]
fn invalid_replies_are_refused_by_name() {
    vectors("invalid", "reply", |bytes| refused(reply(bytes)));
}

#[test]
fn what_the_programs_of_the_toolkit_send_is_what_we_would_send() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/gram/vectors/valid");
    let names = [
        "ping-01.request",
        "run-01.request",
        "run-03.request",
        "life-02.request",
        "life-04.request",
        "misc-01.request",
        "segexit-02.request",
    ];
    for name in names {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let (request, length) = decode_request(&bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len(), "{name}");
        let again = if request.target == "/" {
            Request {
                body: Callback::decode(&request.body).unwrap().encode(),
                ..request
            }
        } else if request.target.starts_with("/1") {
            Request {
                body: Query::decode(&request.body).unwrap().encode(),
                ..request
            }
        } else {
            ToGatekeeper::decode(&request).unwrap().encode("vm")
        };
        assert_eq!(
            String::from_utf8(encode_request(&again)).unwrap(),
            String::from_utf8(bytes).unwrap(),
            "{name}"
        );
    }
    for name in [
        "life-03.reply",
        "run-02.reply",
        "misc-04.reply",
        "misc-09.reply",
    ] {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let (response, _) = decode_response(&bytes).unwrap().unwrap();
        let body = response.body.unwrap();
        let again = if body.contains("failure-code") {
            QueryReply::decode(&body).unwrap().encode()
        } else {
            JobReply::decode(&body).unwrap().encode()
        };
        let written = String::from_utf8(encode_response(&again)).unwrap();
        let theirs = String::from_utf8(bytes)
            .unwrap()
            .replace("200 Ok", "200 OK");
        assert_eq!(written, theirs, "{name}");
    }
}

#[test]
fn a_callback_of_any_text_is_read_as_it_was_written() {
    for callback in [
        "https://h:1/",
        "a\r\nb",
        "a\nrsl: \"x\"",
        "\"",
        " x",
        "\\",
        "x\r",
        "a\\\"\nb",
    ] {
        let job = JobRequest {
            state_mask: 1,
            callback: Some(callback.to_owned()),
            rsl: "&(executable=a)".to_owned(),
        };
        let message = ToGatekeeper {
            service: "jobmanager".to_owned(),
            account: None,
            wanted: Wanted::Job(job),
        };
        let again = ToGatekeeper::decode(&message.encode("h"));
        assert_eq!(again, Ok(message), "{callback:?}");
    }
}

#[test]
fn a_frame_that_comes_byte_by_byte_is_read_once_it_is_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/gram/vectors/valid");
    let bytes = std::fs::read(folder.join("run-01.request")).unwrap();
    for length in 0..bytes.len() {
        assert_eq!(decode_request(&bytes[..length]), Ok(None), "{length}");
    }
    assert!(decode_request(&bytes).unwrap().is_some());
}

#[test]
fn a_head_that_does_not_end_is_refused_at_its_limit() {
    let endless = [b"POST / HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
    assert_eq!(decode_request(&endless[..MAX_HEAD_BYTES - 1]), Ok(None));
    let over = decode_request(&endless[..MAX_HEAD_BYTES]);
    assert_eq!(over, Err(FrameError::HeadTooLong));
    assert_eq!(decode_request(&endless), Err(FrameError::HeadTooLong));
}

/// A record of TLS.
fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&[kind, 3, 3], length.as_slice(), bytes].concat()
}

fn prefixed(token: &[u8]) -> Vec<u8> {
    [&u32::try_from(token.len()).unwrap().to_be_bytes(), token].concat()
}

#[test]
fn lengths_of_tokens_are_taken_out_wherever_the_bytes_are_parted() {
    let hello = record(22, b"hello");
    let flight = [record(20, &[1]), record(23, &[7; 300])].concat();
    let data = record(23, b"data");
    let plain = [hello.clone(), flight.clone(), data.clone()].concat();
    let mixed = [prefixed(&hello), prefixed(&flight), data.clone()].concat();
    for bytes in [&plain, &mixed] {
        for size in [1, 2, 3, 4, 5, 7, 64, 1000] {
            let mut tokens = Tokens::default();
            let mut out = Vec::new();
            for chunk in bytes.chunks(size) {
                tokens.push(chunk, &mut out).unwrap();
            }
            assert_eq!(out, plain, "parted by {size}");
            assert!(!tokens.is_within());
        }
    }
}

#[test]
fn what_is_neither_record_nor_token_is_refused() {
    let rows: &[(&[u8], TokenError)] = &[
        (b"GET / HTTP/1.1", TokenError::NoToken { header: *b"GET " }),
        (&[1, 0, 0, 0], TokenError::TooLong { bytes: 1 << 24 }),
        (&[0, 0, 0, 0], TokenError::Empty),
        (
            &[22, 2, 0, 0],
            TokenError::NoToken {
                header: [22, 2, 0, 0],
            },
        ),
    ];
    for (bytes, error) in rows {
        let pushed = Tokens::default().push(bytes, &mut Vec::new());
        assert_eq!(pushed, Err(*error), "{bytes:?}");
    }
}

//! Requests and messages on a session's streams: whatever comes, the decoders answer, and what they accept has one form.
#![no_main]

use bytes::Bytes;
use kumiko_wire::api::Request;
use kumiko_wire::exec::{FromJob, ToJob};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(request) = Request::decode(data) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let rest = Bytes::copy_from_slice(rest);
    if let Ok(message) = ToJob::decode(*kind, rest.clone()) {
        assert_eq!(message.encode(), (*kind, rest.clone()));
    }
    if let Ok(message) = FromJob::decode(*kind, rest) {
        let (kind, pieces) = message.clone().encode();
        assert_eq!(FromJob::decode(kind, pieces.concat().into()), Ok(message));
    }
});

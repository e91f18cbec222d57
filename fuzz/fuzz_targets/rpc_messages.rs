//! Messages of calls, and answers of routines: whatever comes, the decoders answer, and what they accept has one form.
#![no_main]

use bytes::Bytes;
use kumiko_call::id::{AttemptId, CallId};
use kumiko_wire::routine;
use kumiko_wire::rpc::{FromSite, ToSite};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let call = CallId {
        client: 7,
        sequence: 3,
    };
    for out_bytes in [0, 8, 1 << 40] {
        let answer = routine::answer(data, AttemptId { call, epoch: 2 }, out_bytes);
        if let Ok(Some(small)) = answer {
            assert!(small.len() <= 8);
        }
    }
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let rest = Bytes::copy_from_slice(rest);
    if let Ok(message) = ToSite::decode(*kind, rest.clone()) {
        let (again, pieces) = message.encode();
        assert_eq!((again, pieces.concat()), (*kind, rest.to_vec()));
    }
    if let Ok(message) = FromSite::decode(*kind, rest) {
        // JSON has blanks that may differ.
        let (kind, pieces) = message.clone().encode();
        assert_eq!(FromSite::decode(kind, pieces.concat().into()), Ok(message));
    }
});

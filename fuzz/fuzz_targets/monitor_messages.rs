//! Messages between front, monitor and agents, and the preface of a relayed connection: whatever comes, the decoders
//! answer, and what they accept has one form.
#![no_main]

use bytes::Bytes;
use kumiko_wire::monitor::{FromAgent, FromFront, ToAgent, ToFront};
use kumiko_wire::relay::{LENGTH_BYTES, Preface};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = FromFront::decode(data) {
        assert_eq!(message.encode(), data);
    }
    if let Ok(message) = ToFront::decode(data) {
        assert_eq!(message.encode(), data);
    }
    if let Ok(message) = FromAgent::decode(data) {
        assert_eq!(message.encode(), data);
    }
    if let Ok(message) = ToAgent::decode(data) {
        assert_eq!(message.encode(), data);
    }
    if let Ok(preface) = Preface::decode(Bytes::copy_from_slice(data)) {
        assert_eq!(preface.encode()[LENGTH_BYTES..], *data);
    }
});

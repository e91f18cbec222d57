//! Session frames: whatever comes, the decoder answers, and what it accepts has one form.
#![no_main]

use bytes::BytesMut;
use kumiko_wire::frame::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut rest = BytesMut::from(data);
    while let Ok(Some(frame)) = decode(&mut rest) {
        let mut again = BytesMut::new();
        frame.encode(&mut again);
        let end = data.len() - rest.len();
        assert_eq!(again, data[end - again.len()..end]);
    }
});

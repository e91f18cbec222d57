//! Lines of a pilot's socket: whatever comes, the decoders answer, and what they accept has one form.
#![no_main]

use kumiko_wire::pilot::{decode_command, decode_report, encode_command, encode_report};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut again = Vec::new();
    if let Ok(Some((report, taken))) = decode_report(data) {
        encode_report(&report, &mut again);
        assert_eq!(again, data[..taken]);
    }
    again.clear();
    if let Ok(Some((command, taken))) = decode_command(data) {
        encode_command(&command, &mut again);
        assert_eq!(again, data[..taken]);
    }
});

//! Messages of the hosts of an MPI program: whatever comes, the decoder answers, and what it accepts has one form.
#![no_main]

use kumiko_wire::meeting::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(Some((message, taken))) = decode(data) {
        let mut again = Vec::new();
        encode(&message, &mut again);
        assert_eq!(again, data[..taken]);
    }
});

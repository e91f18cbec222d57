//! The JSON of a spool: whatever stands in it, the decoders answer, and what they accept survives being written again.
#![no_main]

use kumiko_wire::spool::{
    decode_attempt, decode_policy, decode_status, encode_attempt, encode_status,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(attempt) = decode_attempt(data) {
        if let Ok(text) = encode_attempt(&attempt) {
            assert!(decode_attempt(&text).is_ok_and(|again| again == attempt));
        }
    }
    let _ = decode_policy(data); // a part of an attempt
    if let Ok(outcome) = decode_status(data) {
        if let Ok(text) = encode_status(&outcome) {
            assert!(decode_status(&text).is_ok_and(|again| again == outcome));
        }
    }
});

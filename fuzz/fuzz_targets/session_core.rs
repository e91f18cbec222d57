//! The session's state machine: whatever a peer says, it answers, and holds no more than it may.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kumiko_session::fuzz::feed(data));

//! Certificate requests, PEM or DER: they come from whoever wants a certificate.
#![no_main]

use kumiko_identity::ca;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = ca::request_subject(data);
});

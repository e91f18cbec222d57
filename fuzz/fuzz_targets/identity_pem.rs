//! Bundles of certificates in PEM, as in proxy files and trust directories.
#![no_main]

use kumiko_identity::Certificate;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Certificate::bundle_from_pem(data);
});

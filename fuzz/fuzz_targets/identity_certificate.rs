//! Certificates in DER: our reader of fields and OpenSSL agree on what is one, or at least neither falls over.
#![no_main]

use kumiko_identity::{Certificate, Fields};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Fields::from_der(data);
    for certificate in Certificate::sequence_from_der(data).into_iter().flatten() {
        let _ = (certificate.to_pem(), certificate.serial());
    }
});

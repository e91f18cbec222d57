//! Names: what is read is written so that it reads back as the same name.
#![no_main]

use kumiko_identity::Dn;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(name) = Dn::parse(text) {
        let written = name.to_string();
        // Escapes are up to four times as long as what they stand for, and only so much is read.
        if written.len() <= 4096 {
            assert_eq!(Dn::parse(&written), Ok(name));
        }
    }
});

//! What external providers print, LDIF or JSON.
#![no_main]

use kumiko_directory::ldif;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(entries) = ldif::parse(text) {
        for entry in entries {
            let _ = ldif::show(&ldif::stamp(entry, 1_000, 60_000, |t| t.parse().ok()));
        }
    }
});

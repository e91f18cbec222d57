//! What a host asks of whoever has the site's files: whatever comes, the decoder answers, and what it accepts has one form.
#![no_main]

use kumiko_ferry::files::serve::Asked;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(asked) = Asked::read(data) {
        let written = asked.write();
        assert!(!written.contains(char::is_control));
        let again = Asked::read(written.as_bytes()).map(|asked| asked.write());
        assert_eq!(again, Some(written));
    }
});

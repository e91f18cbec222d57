//! What a host asks of whoever has the site's files, and what it is told of chunks: whatever comes, the decoders answer, and what they
//! accept has one form.
#![no_main]

use kumiko_ferry::files::notice::{Notice, is_notice};
use kumiko_ferry::files::serve::Asked;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(asked) = Asked::read(data) {
        let written = asked.write();
        assert!(!written.contains(char::is_control));
        let again = Asked::read(written.as_bytes()).map(|asked| asked.write());
        assert_eq!(again, Some(written));
    }
    if let Some(notice) = Notice::read(data) {
        assert!(is_notice(data));
        assert_eq!(notice.write(), data);
    }
});

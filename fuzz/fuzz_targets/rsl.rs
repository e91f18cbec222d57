//! RSL texts: what is read is printed and read again as the same, and evaluated or refused.
#![no_main]

use kumiko_job::rsl;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(spec) = rsl::parse(text) else {
        return;
    };
    let printed = spec.to_string();
    // Quotes make it longer than what was read.
    if printed.len() <= rsl::MAX_RSL_BYTES {
        assert_eq!(rsl::parse(&printed).as_ref(), Ok(&spec));
    }
    let variables = rsl::Variables::from([("HOME".to_owned(), "/job".to_owned())]);
    if let Ok(rsl::Request::Submit(submission)) = rsl::request(&spec, &variables) {
        let _ = submission.describe("alice", "fork");
    }
    let _ = rsl::stdio_update(&spec, &variables);
});

//! Addresses of files: what is accepted is read again as the same, and names no user and no zero byte.
#![no_main]

use kumiko_job::staging::in_job_directory;
use kumiko_job::url::{MAX_URL_BYTES, Url, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(below) = in_job_directory(text) {
        assert!(
            !below.starts_with('/')
                && below
                    .split('/')
                    .all(|part| !matches!(part, "" | "." | ".."))
        );
    }
    let Ok(url) = Url::parse(text) else {
        return;
    };
    assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(&url));
    let path = url.decoded_path();
    assert!(!path.contains(&0) || url.server.is_none());
    if let Some(server) = &url.server {
        assert!(server.port > 0 && !server.host.is_empty() && !server.host.contains('@'));
        let again = format!("https://h{}", encode(&path));
        // Written with %41 for each byte it may be longer than an address can be.
        if again.len() <= MAX_URL_BYTES {
            assert_eq!(Url::parse(&again).map(|url| url.decoded_path()), Ok(path));
        }
    }
});

//! Filters as text: what is read is printed and read again as the same filter.
#![no_main]

use kumiko_directory::Filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(filter) = Filter::parse(text) {
        assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
    }
});

//! Paths and queries of REST: what is accepted cannot climb.
#![no_main]

use kumiko_wire::target::Target;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (path, query) = text
        .split_once('?')
        .map_or((text, None), |(path, query)| (path, Some(query)));
    if let Ok(target) = Target::parse(path, query) {
        for part in target.parts {
            assert!(part != ".." && part != "." && !part.contains(['/', '\0']));
        }
    }
});

//! grid-mapfiles: what is read can be written and read again.
#![no_main]

use kumiko_identity::GridMap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(map) = GridMap::parse(text) else {
        return;
    };
    for (name, accounts) in map.iter() {
        if name.to_string().len() <= 4096 {
            let accounts: Vec<&str> = accounts.iter().map(String::as_str).collect();
            let again = GridMap::parse(&GridMap::line(name, &accounts));
            assert!(again.is_ok_and(|again| again.lookup(name) == accounts));
        }
    }
});

//! What the library in guests looks through: code that anybody may map, and paths that anybody may name. Both are
//! compared with the plainest way to find the same.
#![no_main]

use kumiko_preload::sites::sites;
use kumiko_preload::table::{Index, Mount, Table, make};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const PLACES: [&str; 5] = ["/", "/a", "/a/b", "/a/b/a", "/somewhat/longer.than/eight"];

static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mounts = PLACES.map(|place| Mount {
        place: place.into(),
        real: place.into(),
        flags: 0,
    });
    make(&mounts).expect("no two of one hash")
});

/// Names of a path; None where the supervisor is asked.
fn names(path: &[u8]) -> Option<Vec<&[u8]>> {
    let names: Vec<&[u8]> = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .collect();
    (path.starts_with(b"/") && !names.contains(&b"..".as_slice())).then_some(names)
}

fuzz_target!(|data: &[u8]| {
    let mut found = Vec::new();
    sites(data, &[2, 257], |at, number| {
        found.push((at, number));
        true
    });
    let plain: Vec<(usize, u32)> = data
        .windows(7)
        .enumerate()
        .filter(|(at, seven)| {
            let prefix = *at > 0 && data[at - 1] & 0xf0 == 0x40;
            !prefix && seven[0] == 0xb8 && seven[5..] == [0x0f, 0x05]
        })
        .map(|(at, seven)| {
            let number = seven[1..5].try_into().map(u32::from_le_bytes);
            (at + 5, number.expect("four bytes"))
        })
        .filter(|(_, number)| [2, 257].contains(number))
        .collect();
    assert_eq!(found, plain);

    // A path ends before a zero.
    let path = data.split(|byte| *byte == 0).next().unwrap_or_default();
    let table = Table::new(&TABLE);
    let place = table
        .deepest(Index::Place, path)
        .and_then(|found| table.place(&found.slot));
    let expected = names(path).and_then(|names| {
        let above = PLACES.iter().rev().find(|place| {
            let place: Vec<&[u8]> = place[1..]
                .as_bytes()
                .split(|byte| *byte == b'/')
                .filter(|name| !name.is_empty())
                .collect();
            names.starts_with(&place)
        });
        above.map(|place| place.trim_end_matches('/').as_bytes())
    });
    assert_eq!(place, expected);
    // A table that was cut off finds what it finds, and reads nothing behind its end.
    let cut = Table::new(&TABLE[..data.len().min(TABLE.len())]);
    let _ = cut
        .deepest(Index::Real, path)
        .map(|found| cut.real(&found.slot));
});

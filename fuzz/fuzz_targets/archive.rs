//! Archives that strangers send: whatever they hold, nothing is made outside the folder.
#![no_main]

use kumiko_staging::{Limits, unpack};
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

static OUTER: LazyLock<PathBuf> = LazyLock::new(|| {
    let outer = std::env::temp_dir().join(format!("kumiko-fuzz-archive-{}", std::process::id()));
    std::fs::create_dir_all(&outer).expect("a folder to work in");
    outer
});

fuzz_target!(|data: &[u8]| {
    let folder = OUTER.join("folder");
    std::fs::create_dir(&folder).expect("an empty folder");
    let limits = Limits {
        bytes: 1 << 16,
        entries: 64,
        depth: 8,
    };
    let _ = unpack(data, &folder, limits); // most are refused
    std::fs::remove_dir_all(&folder).expect("only what can be removed");
    let left = std::fs::read_dir(&*OUTER)
        .expect("the folder to work in")
        .count();
    assert_eq!(left, 0, "something was made beside the folder");
});

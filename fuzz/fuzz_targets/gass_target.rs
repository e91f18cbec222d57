//! Requests of GASS: what is accepted cannot climb, whatever was sent.
#![no_main]

use kumiko_staging::gass::target::{self, Place};
use libfuzzer_sys::fuzz_target;
use std::path::{Component, Path};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // Neither may panic, nor answer what the field does not say.
    if let Some(from) = target::range_from(text) {
        assert!(text.contains(&from.to_string()) || text.contains('0'));
    }
    if let Some((first, whole)) = target::content_range(text) {
        assert!(first < whole);
    }
    let (method, target) = text.split_once(' ').unwrap_or((text, ""));
    let Ok(asked) = target::read(method, target) else {
        return;
    };
    let plain = |path: &Path| {
        path.components()
            .all(|part| matches!(part, Component::Normal(_) | Component::RootDir))
            && !path.as_os_str().as_encoded_bytes().contains(&0)
    };
    match asked.place {
        Place::File(path) => assert!(path.is_absolute() && plain(&path)),
        Place::Home { below, .. } => assert!(below.is_relative() && plain(&below)),
        Place::Stdout | Place::Stderr | Place::Shutdown => {}
    }
});

//! Events in the log: whatever bytes a damaged log holds are read or refused, and what is read is written the same again.
#![no_main]

use kumiko_job::event::Event;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(event) = Event::from_json(data) {
        let written = event.to_json().unwrap_or_default();
        assert!(matches!(Event::from_json(written.as_bytes()), Ok(again) if again == event));
    }
});

//! Descriptions of jobs: whatever comes is read or refused, and what is read is written and read without loss.
#![no_main]

use kumiko_job::description::JobDescription;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(description) = JobDescription::from_json(data) else {
        return;
    };
    let written = serde_json::to_vec(&description).unwrap_or_default();
    assert!(matches!(JobDescription::from_json(&written), Ok(again) if again == description));
});

//! What engines' commands print and their logs hold: whatever it is, the decoders answer.
#![no_main]

use kumiko_batch::{condor, slurm};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for rows in [
        slurm::words::rows(data, "kumiko-"),
        condor::words::rows(data),
    ]
    .into_iter()
    .flatten()
    {
        assert!(rows.len() <= data.len());
    }
    let _ = condor::words::last_event(data);
    let _ = slurm::census::census(data, data);
    let _ = condor::census::census(data);
});

//! Texts in which costs and profiles are kept; what is accepted is written and read again as the same, and gives a table.
#![no_main]

use kumiko_policy::MechanismKind;
use kumiko_policy::choice::{Calibration, Candidate, Profile, table};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let costs = Calibration::from_text(text);
    if let Ok(costs) = &costs {
        assert_eq!(Calibration::from_text(&costs.to_text()).as_ref(), Ok(costs));
    }
    let profile = Profile::from_text(text);
    if let Ok(profile) = &profile {
        assert_eq!(Profile::from_text(&profile.to_text()).as_ref(), Ok(profile));
    }
    let candidates = MechanismKind::ALL.map(|kind| Candidate {
        kind,
        hindrances: Vec::new(),
    });
    let rows = table(
        &candidates,
        &profile.unwrap_or_default(),
        &costs.unwrap_or_default(),
    );
    assert_eq!(rows.len(), candidates.len());
});

//! Signing policies, and the matching of a name against whatever patterns they hold.
#![no_main]

use kumiko_identity::{Dn, SigningPolicy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(policy) = SigningPolicy::parse_bytes(data) {
        let subject = Dn::default().with("O", "Grid").with("CN", "Alice");
        for (ca, _) in policy.rules() {
            assert!(policy.knows(ca));
            policy.allows(ca, &subject);
        }
    }
});

//! What a site wishes of a ferry: whatever comes, the decoder answers, and what it accepts has one form and leads nowhere else.
#![no_main]

use kumiko_ferry::Wish;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(wish) = Wish::decode(data) {
        assert!(!wish.name.contains(['/', '\0']));
        assert_eq!(wish.encode(), data);
    }
});

//! Policy texts in either notation; what is accepted can be laid over the default policy, or is refused by name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(policy) = kumiko_policy::parse(text, "fuzz") {
        let _ = kumiko_policy::narrow(&kumiko_policy::Policy::default(), &policy);
        let _ = policy.explain(&kumiko_policy::GuestPath::root());
        let _ = policy.reaches(([127, 0, 0, 1], 80).into());
        for addresses in policy.reach.iter().flat_map(|layer| &layer.deny) {
            assert_eq!(addresses.to_string().parse(), Ok(*addresses));
        }
    }
});

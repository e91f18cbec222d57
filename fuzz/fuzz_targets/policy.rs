//! Policy texts in either notation, and words that change what runs; what is accepted can be laid over the default policy, or is
//! refused by name.
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
    let words = text.lines().map(kumiko_policy::parse_change);
    let changes: Vec<_> = words.filter_map(Result::ok).collect();
    let said = kumiko_policy::text_of(&changes).unwrap_or_else(|| text.to_owned());
    if let Ok(asked) = kumiko_policy::parse_amendment(&said, "fuzz") {
        let asked = kumiko_policy::amend(Some(&asked), &asked);
        let now = kumiko_policy::amended(&kumiko_policy::Policy::default(), &asked);
        let _ = now.in_words();
    }
});

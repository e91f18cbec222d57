//! Texts of virtual organisations; what is accepted can be laid over the default policy, or is refused by name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(vo) = kumiko_policy::parse_vo(text, "fuzz") {
        let _ = kumiko_policy::nest([(kumiko_policy::Layer::Vo, &vo.policy)]);
    }
});

//! What stands behind the fixed part of a result, and is told by a guest's program: texts and files of a plan, wherever they are said to be.
#![no_main]

use kumiko_idl::{Limits, Signature, pack_lengths, pack_texts};

const ROUTINE: &str = "Module m;\nDefine f(OUT string s[2], OUT filename g, OUT long x[1], OUT filename h[3], OUT string t[2:1]) {}";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(signature) = Signature::from_text(ROUTINE) else {
        return;
    };
    let Ok(plan) = signature.plan(&[[0; 16]; 5], Limits::WIDEST) else {
        return;
    };
    let whole = data.len() as u64;
    let Ok(spans) = plan.tail(data, whole) else {
        return;
    };
    for (number, span) in spans {
        let end = span.at + span.bytes;
        assert!(span.at >= plan.out_bytes && end <= whole);
        let packed = &data[span.at as usize..end as usize];
        let place = &plan.places[number];
        if let Some(texts) = place.texts(packed) {
            assert_eq!(pack_texts(&texts).as_deref(), Some(packed));
        }
        if let Some(files) = place.files(packed, span.bytes) {
            let lengths = pack_lengths(files.iter().map(|file| file.bytes));
            assert!(files.len() == 1 || packed.starts_with(&lengths));
            assert!(files.iter().all(|file| file.at + file.bytes <= span.bytes));
        }
    }
});

//! IDL texts: what is read is printed and read again as the same; what passes the checks survives the way to a client, and
//! has sizes or an error for any scalars.
#![no_main]

use kumiko_idl::{Formal, Limits, MAX_IDL_BYTES, Signature, Value, check, parse};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = Signature::from_text(text);
    let Ok(idl) = parse(text) else {
        return;
    };
    let printed = idl.to_string();
    // Blanks and escapes make it longer than what was read.
    if printed.len() <= MAX_IDL_BYTES {
        assert_eq!(parse(&printed).as_ref(), Ok(&idl));
    }
    let Ok(checked) = check(&idl) else {
        return;
    };
    for signature in checked.routines {
        let text = signature.to_text();
        assert_eq!(Signature::from_text(&text).as_ref(), Ok(&signature));
        for scalar in [0, 1, 7, i64::MAX] {
            let value = |formal: &Formal| match formal {
                Formal::Parameter(one) if one.element.is_real() => Some(Value::Real(0.5)),
                Formal::Parameter(_) => Some(Value::Integer(i128::from(scalar))),
                Formal::Callback(_) => None,
            };
            let arguments: Vec<_> = signature.formals.iter().map(value).collect();
            let _ = signature.operations(&arguments);
            let Ok(layout) = signature.layout(&arguments, Limits::WIDEST) else {
                continue;
            };
            for array in layout.arrays.iter().flatten() {
                let end = array.memory_bytes().unwrap_or(0);
                // Of millions of runs the first thousand tell as much.
                for run in array.runs().into_iter().flatten().take(1000) {
                    assert!(run.bytes > 0 && run.offset_bytes + run.bytes <= end);
                }
            }
        }
    }
});

//! Messages of calls, and answers of routines: whatever comes, the decoders answer, and what they accept has one form.
#![no_main]

use bytes::Bytes;
use kumiko_call::id::{AttemptId, CallId};
use kumiko_idl::{Limits, Signature};
use kumiko_wire::routine::{self, Said};
use kumiko_wire::rpc::{FromSite, ToSite};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let call = CallId {
        client: 7,
        sequence: 3,
    };
    for formals in ["", "OUT double x[1], f(IN int n)", "OUT filename f"] {
        let text = format!("Module m; Define r({formals}) {{}}");
        let Ok(signature) = Signature::from_text(&text) else {
            return;
        };
        let heads = vec![[0; 16]; signature.formals.len()];
        let Ok(plan) = signature.plan(&heads, Limits::WIDEST) else {
            return;
        };
        match routine::hear(data, AttemptId { call, epoch: 2 }, &plan) {
            Ok(Some(Said::Answer { small, whole, .. })) => {
                assert!(small.len() <= 8 && whole <= data.len());
            }
            Ok(Some(Said::Asks { whole, .. } | Said::Fails { whole, .. })) => {
                assert!(whole <= data.len());
            }
            _ => {}
        }
    }
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let rest = Bytes::copy_from_slice(rest);
    if let Ok(message) = ToSite::decode(*kind, rest.clone()) {
        let (again, pieces) = message.encode();
        assert_eq!((again, pieces.concat()), (*kind, rest.to_vec()));
    }
    if let Ok(message) = FromSite::decode(*kind, rest) {
        // JSON has blanks that may differ.
        let (kind, pieces) = message.clone().encode();
        assert_eq!(FromSite::decode(kind, pieces.concat().into()), Ok(message));
    }
});

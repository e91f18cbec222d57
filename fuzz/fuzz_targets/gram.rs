//! GRAM's frames and messages, both directions, and tokens: what is read is written and read again as the same.
#![no_main]

use kumiko_wire::gram::{
    Callback, JobReply, Query, QueryReply, ToGatekeeper, Tokens, decode_request, decode_response,
    encode_request, encode_response,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(Some((request, length))) = decode_request(data) {
        assert!(length <= data.len());
        if let Ok(message) = ToGatekeeper::decode(&request) {
            let bytes = encode_request(&message.encode(&request.host));
            if let Ok(Some((again, _))) = decode_request(&bytes) {
                assert_eq!(ToGatekeeper::decode(&again).as_ref(), Ok(&message));
            }
        }
        let _ = Query::decode(&request.body).map(|query| query.encode());
        let _ = Callback::decode(&request.body).map(|callback| callback.encode());
    }
    if let Ok(Some((response, length))) = decode_response(data) {
        assert!(length <= data.len());
        let body = response.body.as_deref().unwrap_or_default();
        let _ = JobReply::decode(body).map(|reply| encode_response(&reply.encode()));
        let _ = QueryReply::decode(body).map(|reply| encode_response(&reply.encode()));
    }
    let _ = kumiko_wire::gram::certificate_length(data);
    let (mut at_once, mut parted) = (Vec::new(), Vec::new());
    let mut tokens = Tokens::default();
    if tokens.push(data, &mut at_once).is_ok() {
        let mut tokens = Tokens::default();
        for byte in data.chunks(3) {
            let _ = tokens.push(byte, &mut parted);
        }
        assert_eq!(at_once, parted);
    }
});

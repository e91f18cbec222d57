//! GRAM's protocol, version 2, as the clients of GT 2 to GT 6 speak it (spec/gram): tokens, frames, messages, callbacks.
//! Not here: TLS and delegation below it, RSL inside of it (kumiko-job).

mod body;
mod der;
mod frame;
mod message;
mod query;
mod token;

pub use body::{BodyError, MAX_FIELDS};
pub use der::{NoCertificate, certificate_length};
pub use frame::{
    FrameError, MAX_BODY_BYTES, MAX_HEAD_BYTES, Request, Response, Status, decode_request,
    decode_response, encode_request, encode_response,
};
pub use kumiko_job::rsl::GramCode;
pub use message::{
    Callback, Contacted, JobReply, JobRequest, JobState, MessageError, QueryReply, ToGatekeeper,
    Wanted,
};
pub use query::{Query, Signal, Sizes};
pub use token::{MAX_TOKEN_BYTES, TokenError, Tokens};

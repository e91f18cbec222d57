//! A service on streams of sessions that whoever accepts sessions (the gatekeeper) hands on without knowing it; who wires the
//! two together offers it. Not here: any service.

use crate::Stream;
use std::future::Future;
use std::pin::Pin;

/// Who speaks on a stream, as the accepting side has verified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// End-entity subject in the form /C=../O=../CN=...
    pub subject: String,
    pub account: String,
    /// False: what it shows is good for looking, not for starting anything (a limited proxy).
    pub may_start: bool,
}

/// 1. `serve` ends when the stream does, and whatever the peer says, breaks nothing but this stream.
/// 2. What it does for a subject is seen by that subject alone.
pub trait Service: Send + Sync + 'static {
    fn serve(&self, peer: Peer, stream: Stream) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

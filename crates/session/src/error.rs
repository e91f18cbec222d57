//! What can go wrong with a session or a stream, and whose fault it is.

use kumiko_wire::frame::FrameError;
use std::io;
use std::sync::Arc;

/// An error of a session (it is over, all its streams with it) or of one stream.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    /// The first connection failed; nothing was sent twice. Retry as the caller likes.
    #[error("no connection: {0}")]
    Connect(#[source] Arc<io::Error>),
    /// The session and its streams are gone; what they were about may live on: attach again by its id and offset.
    #[error("the session is lost: {0}")]
    Lost(String),
    /// Closed in order, by this side or by the peer.
    #[error("the session is closed")]
    Closed,
}

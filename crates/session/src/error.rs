//! What can go wrong with a session or a stream, and whose fault it is.

use kumiko_wire::frame::FrameError;
use std::io;
use std::sync::Arc;

/// A server that hangs up without a word tells why at home only: the agent of the caller's account did not start.
fn who_knows(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "; the site's log says why",
        _ => "",
    }
}

/// An error of a session (it is over, all its streams with it) or of one stream.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    /// The first connection failed or broke before the server's WELCOME. Nothing was carried out twice; try again.
    #[error("no session came about: {0}{hint}", hint = who_knows(.0))]
    Connect(#[source] Arc<io::Error>),
    /// The server refused the session (S8); the text is its own.
    #[error("the server refuses the session: {text}")]
    Refused { code: u32, text: String },
    /// The session and its streams are gone; what they were about may live on: attach again by its id and offset.
    #[error("the session is lost: {0}")]
    Lost(#[source] LostReason),
    /// Closed in order, by this side or by the peer.
    #[error("the session is closed")]
    Closed,
    /// The peer broke the protocol; its fault.
    #[error("the peer breaks the session protocol: {0}")]
    Violation(#[source] Violation),
    /// The peer says that this side broke the protocol; a bug of one of the two.
    #[error("the peer ends the session for a breach of the protocol: {text}")]
    Accused { text: String },
    /// The connection broke while the first frame was awaited; its fault is not known.
    #[error("the connection ended before its first frame: {0}")]
    NoGreeting(#[source] Arc<io::Error>),
    /// The peer gave up sending on this stream; `code` is its reason.
    #[error("the peer gave the stream up (code {code:#x})")]
    Reset { code: u32 },
    /// The peer reads no more on this stream; `code` is its reason.
    #[error("the peer reads no more of the stream (code {code:#x})")]
    Stopped { code: u32 },
    /// The caller's fault: close streams, or open another session.
    #[error("{limit} streams are open, and no more are allowed in one session")]
    TooManyStreams { limit: u32 },
    /// The caller's fault: send the rest as messages.
    #[error("the request is {bytes} bytes long; at most {limit} can open a stream")]
    RequestTooLong { bytes: usize, limit: usize },
    /// The peer's fault, or read it by `recv_part`.
    #[error("a message is longer than {limit} bytes")]
    MessageTooLong { limit: usize },
    /// The caller's fault: an earlier `send` of this stream was dropped halfway through its message.
    #[error("an earlier message of this stream was given up halfway")]
    MessageCut,
    /// The machine gives no random numbers to make the session's secret of.
    #[error("no random numbers: {0}")]
    NoRandomness(#[source] Arc<io::Error>),
}

/// Why a session could not be resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LostReason {
    #[error("no connection for {window_ms} ms; last tried: {last}")]
    NotReached { window_ms: u64, last: String },
    #[error(
        "the server does not know it any more (it was restarted, or the time to come back is over)"
    )]
    Forgotten,
    #[error("the server is going down")]
    GoingDown,
    #[error("its owner did not come back within {window_ms} ms")]
    Abandoned { window_ms: u64 },
    #[error("too many sessions wait for their owners; this was the oldest")]
    Evicted,
}

/// How a peer can break the protocol (spec/session).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// S7: a frame came again, or one is missing.
    #[error("frame number {got} came where {expected} was due")]
    OutOfOrder { expected: u32, got: u32 },
    /// S6.
    #[error("{used} bytes came on stream {stream}, and {allowed} were allowed")]
    CreditExceeded {
        stream: u32,
        allowed: u64,
        used: u64,
    },
    /// S5: the stream was never opened.
    #[error("the frame {frame} came for stream {stream}, which was never opened")]
    UnknownStream { frame: &'static str, stream: u32 },
    /// S5: stream numbers only grow.
    #[error("stream {stream} is opened after stream {last}")]
    DuplicateStream { stream: u32, last: u32 },
    /// S5.
    #[error("the frame {frame} came on stream {stream} after its end")]
    AfterEnd { frame: &'static str, stream: u32 },
    /// S3, S5: this frame is not the peer's to send now.
    #[error("the frame {frame} came {when}")]
    Unexpected {
        frame: &'static str,
        when: &'static str,
    },
    /// S7.
    #[error("frame {acknowledged} is acknowledged, and {sent} were sent")]
    AckBeyondSent { acknowledged: u64, sent: u64 },
    /// S9: what would have to be sent again was acknowledged, or was never sent.
    #[error("the peer resumes after frame {received}; {from} to {to} are possible")]
    BadResume { received: u64, from: u64, to: u64 },
    /// S7.
    #[error("{bytes} bytes wait for acknowledgement, and the peer goes on asking")]
    NotAcknowledging { bytes: usize },
}

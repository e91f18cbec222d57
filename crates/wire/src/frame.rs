//! Frames of the session protocol `kumiko/1`: spec/session, clauses S2 to S8. Their bytes are in `codec`.
//!
//! Not here: which frame may come when (that is `kumiko-session`), and what streams carry.

mod codec;

pub use codec::{decode, encode_data};

use bytes::Bytes;

/// The one version there is (S3).
pub const VERSION: u16 = 1;
/// Size of the fixed header (S2).
pub const HEADER_BYTES: usize = 16;
/// The longest payload of a DATA frame: on a loopback it holds the line for some 30 µs (S4).
pub const PART_BYTES: usize = 32 << 10;
/// The longest request in an OPEN frame: a description with a long command line fits (S4).
pub const REQUEST_BYTES: usize = 256 << 10;
/// The longest text in a GOODBYE frame: a sentence (S4).
pub const TEXT_BYTES: usize = 1 << 10;
/// The longest HELLO of any version, so that a version not known yet can be refused by name (S3).
pub const HELLO_BYTES_MAX: usize = 1 << 10;
/// Counted for a frame besides its payload, so that credit bounds memory for empty messages too (S6).
pub const FRAME_COST_BYTES: usize = 64;
/// What each side may send on a new stream before any CREDIT: two full parts, so that one can be read while the
/// other is under way (S6).
pub const INITIAL_CREDIT_BYTES: u32 = 2 * (PART_BYTES + FRAME_COST_BYTES) as u32;
/// A receiver acknowledges at least this often; a sender can hold at least four times as much (S7).
pub const ACK_EVERY_BYTES: usize = 128 << 10;

/// Codes of GOODBYE (S8).
pub mod goodbye {
    pub const DONE: u32 = 0;
    pub const VERSION: u32 = 1;
    pub const VIOLATION: u32 = 2;
    pub const UNKNOWN_SESSION: u32 = 3;
    pub const TOO_MANY_SESSIONS: u32 = 4;
    pub const GOING_DOWN: u32 = 5;
    /// Before a session: whoever answers knows the owner and does not let it in.
    pub const NOT_ADMITTED: u32 = 6;
}

/// Codes of RESET that the session itself uses; others belong to the streams' users (S5).
pub mod reset {
    /// The sending or receiving half was dropped.
    pub const DROPPED: u32 = 0;
    /// More streams than WELCOME allowed.
    pub const TOO_MANY_STREAMS: u32 = 0xffff_ff01;
    /// A message longer than the receiver puts together.
    pub const MESSAGE_TOO_LONG: u32 = 0xffff_ff02;
    /// A message was begun and will not be completed.
    pub const MESSAGE_CUT: u32 = 0xffff_ff03;
}

/// One frame. `number` is the low half of the sequence number (S7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Hello(Hello),
    Welcome(Welcome),
    Open {
        stream: u32,
        number: u32,
        request: Bytes,
    },
    Data {
        stream: u32,
        number: u32,
        kind: u8,
        more: bool,
        data: Bytes,
    },
    Finish {
        stream: u32,
        number: u32,
    },
    Reset {
        stream: u32,
        number: u32,
        half: Half,
        code: u32,
    },
    /// The peer may have sent `limit` bytes (S6) on this stream since it began.
    Credit {
        stream: u32,
        limit: u64,
    },
    Ack {
        received: u64,
    },
    Ping {
        nonce: u64,
    },
    Pong {
        nonce: u64,
    },
    Goodbye {
        code: u32,
        text: String,
    },
}

/// Which half of a stream a RESET ends, seen from its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// "I send no more, and what I sent is not complete."
    Sending,
    /// "I read no more."
    Receiving,
}

/// The first frame of a connection, by the side that dialled.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    pub session: [u8; 16],
    /// Secret of the session: whoever resumes must show it.
    pub token: [u8; 16],
    /// None: a new session. Some: resume, and all up to this number has arrived here.
    pub resume: Option<u64>,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hello")
            .field("session", &self.session)
            .field("resume", &self.resume)
            .finish_non_exhaustive()
    }
}

/// The answer to HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// All up to this number has arrived here.
    pub received: u64,
    /// How long the server keeps the session after a cut.
    pub resume_within_ms: u32,
    /// Streams that may be open at once.
    pub max_streams: u32,
}

/// The peer's bytes are no frame (S2 to S5).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("frame type {0} is not known")]
    UnknownType(u8),
    #[error("the {frame} frame is {length} bytes long; at most {limit} are allowed")]
    TooLong {
        frame: &'static str,
        length: u32,
        limit: usize,
    },
    #[error("the {frame} frame is {length} bytes long; it has {wanted}")]
    WrongLength {
        frame: &'static str,
        length: u32,
        wanted: usize,
    },
    #[error("the {frame} frame sets {field}, which it does not have")]
    UnusedField {
        frame: &'static str,
        field: &'static str,
    },
    #[error("the {frame} frame names no stream")]
    NoStream { frame: &'static str },
    #[error("the text of the GOODBYE frame is not UTF-8")]
    NotText,
    #[error("the field {field} of the {frame} frame is {value}")]
    BadValue {
        frame: &'static str,
        field: &'static str,
        value: u32,
    },
    #[error(
        "the peer speaks version {0} of the session protocol; version {VERSION} is spoken here"
    )]
    Version(u16),
}

impl Frame {
    /// The name in the clauses.
    pub fn name(&self) -> &'static str {
        match self {
            Frame::Hello(_) => "HELLO",
            Frame::Welcome(_) => "WELCOME",
            Frame::Open { .. } => "OPEN",
            Frame::Data { .. } => "DATA",
            Frame::Finish { .. } => "FINISH",
            Frame::Reset { .. } => "RESET",
            Frame::Credit { .. } => "CREDIT",
            Frame::Ack { .. } => "ACK",
            Frame::Ping { .. } => "PING",
            Frame::Pong { .. } => "PONG",
            Frame::Goodbye { .. } => "GOODBYE",
        }
    }
}

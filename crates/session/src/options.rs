//! The limits of a session, each with its reason (spec/session S6, S7 and S9). Not here: the limits that the bytes
//! themselves set; those stand in `kumiko_wire::frame`.

use std::time::Duration;

/// One client keeps a stream for each thing it follows; this many, twice (S5), cost at most 32 MiB of unread data.
pub const MAX_STREAMS: u32 = 256;
/// What one stream may have on its way unread: fills 160 Mbit/s at 100 ms. On a short path windows stay far below.
pub const STREAM_CREDIT_BYTES: u32 = 2 << 20;
/// Sent and not yet acknowledged, of all streams together; four full windows of bulk streams.
pub const SESSION_BUFFER_BYTES: usize = 8 << 20;
/// A walk from one wireless network to another, or a restarted router.
pub const RESUME_WITHIN: Duration = Duration::from_secs(30);
/// Two of these without a byte mean that the peer is gone; NAT tables forget after 30 s at the earliest in practice.
pub const KEEPALIVE: Duration = Duration::from_secs(15);
/// A message that is handed over whole must be held whole.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// From the first byte of a connection to its HELLO or WELCOME.
pub const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Sessions of one owner at a server, attached and detached: some for a person, one for each slot of a cluster.
pub const MAX_SESSIONS_PER_OWNER: usize = 1024;
/// Detached sessions at a server; the oldest go first.
pub const MAX_DETACHED: usize = 1024;
/// What all detached sessions together may hold; the oldest go first.
pub const MAX_DETACHED_BYTES: usize = 64 << 20;

/// The limits of a session or of a server's sessions. `Options::default()` takes the constants of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Streams open at once in one session.
    pub max_streams: u32,
    /// The largest window of one stream; at least `kumiko_wire::frame::INITIAL_CREDIT_BYTES`.
    pub stream_credit_bytes: u32,
    /// What a session may hold for sending again; also the pool from which windows grow.
    pub session_buffer_bytes: usize,
    /// How long a session outlives its connection.
    pub resume_within: Duration,
    /// Silence after which the peer is asked; twice this and it is taken for dead.
    pub keepalive: Duration,
    /// The longest message that `Receiver::recv` puts together.
    pub max_message_bytes: usize,
    /// Time for the handshake of the session, and for each dialling while it reconnects.
    pub hello_within: Duration,
    /// Server only.
    pub max_sessions_per_owner: usize,
    /// Server only.
    pub max_detached: usize,
    /// Server only.
    pub max_detached_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_streams: MAX_STREAMS,
            stream_credit_bytes: STREAM_CREDIT_BYTES,
            session_buffer_bytes: SESSION_BUFFER_BYTES,
            resume_within: RESUME_WITHIN,
            keepalive: KEEPALIVE,
            max_message_bytes: MAX_MESSAGE_BYTES,
            hello_within: HELLO_WITHIN,
            max_sessions_per_owner: MAX_SESSIONS_PER_OWNER,
            max_detached: MAX_DETACHED,
            max_detached_bytes: MAX_DETACHED_BYTES,
        }
    }
}

//! `kumiko/1` over any byte stream (spec/session): many streams with credit each, numbered frames, and resumption
//! after a cut without loss or repetition.
//!
//! `core` is the protocol itself: no clock, no I/O. `driver` moves its bytes, `client` dials again after a cut,
//! `server` accepts, `registry` keeps the sessions whose connection is gone. Not here: TLS, who the peer is, what the streams carry.
//!
//! Whoever makes the TCP connection sets `TCP_NODELAY` (frames are gathered here already) and `TCP_NOTSENT_LOWAT`
//! (about 64 KiB: what the kernel has taken cannot be overtaken by a small message any more).

mod client;
mod core;
mod driver;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod options;
mod registry;
mod server;
mod service;
mod shared;
mod stream;

pub use client::{Dial, Session, State};
pub use error::{LostReason, SessionError, Violation};
pub use options::*;
pub use server::{Served, Server, Stats};
pub use service::{Peer, Service};
pub use stream::{Draft, Message, Part, Receiver, Sender, Stream};

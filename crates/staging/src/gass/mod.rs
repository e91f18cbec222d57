//! GASS: files over HTTPS as the Globus tools move them (spec/staging, G1 to G9), and plain HTTP. HTTP itself is hyper's,
//! which REST brings along anyway: it bounds heads, undoes chunks and was attacked by others before us; what is ours is the
//! meaning of a request ([`target`]) and of a range.

pub mod client;
mod doorway;
mod prompt;
mod served;
mod server;
pub mod target;

pub use doorway::{Doorway, Link};
pub use server::{Rights, Root, Served, Server, Sink};

use std::time::Duration;

/// No byte moves for so long: the peer is given up. TCP's own retransmissions have mended all they can by then.
pub const STALL: Duration = Duration::from_secs(60);
/// TCP and TLS together: a host that is up answers within two round trips, a lost SYN is sent again after 1 and 3 s.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// What identifies us, as GASS peers do.
const AGENT: &str = "Globus-GASS-HTTP/1.1.0";
/// Where an append is posted to; the path follows as the query.
const APPEND: &str = "/globus-bins/GASSappend";
/// A head of a request or an answer: a path of 4,096 bytes, written as %41, and a few fields.
const HEAD_BYTES: usize = 32 * 1024;
/// The largest piece that is read, written and accounted for at once.
pub const PIECE_BYTES: usize = 256 * 1024;

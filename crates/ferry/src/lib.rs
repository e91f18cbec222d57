//! Where a runner's or a pilot's socket does not lead to its site, since its host has another kernel, a ferry does
//! (spec/jobs/pilots.md, PL40 to PL47): a program on the host calls the site, which has it connect to the sockets there.
//!
//! Not here: what is said over them; who is started where (kumiko-batch).

mod address;
mod bridge;
mod door;
pub mod files;
pub mod host;
mod landing;
mod wish;

pub use address::{Address, NoAddress};
pub use landing::{Landing, LandingError};
#[doc(hidden)]
pub use wish::Wish;

use kumiko_session::Options;
use std::time::Duration;

/// In a place: the credential by which its ferry is known.
pub const TICKET: &str = "ferry.pem";
/// In a place: it comes anew with each ferry.
const LANDED: &str = "landed";
/// In the root of the spools: what ferries are told of their site.
const DIRECTORY: &str = "landing";
/// In that: the CA's own key and what it issued, for the site alone.
const AUTHORITY: &str = "ca";
/// In that: where the site listens.
const ADDRESS: &str = "address";
/// In that: the CA that both sides believe, and no other.
const TRUST: &str = "trust";
/// In that: a socket. Whom it leads to the site needs no ferry.
const HERE: &str = "here";
const ALPN: &[u8] = b"kumiko/1";
/// TCP and TLS together: a lost SYN is sent again after 1 and 3 s.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// A pilot and as many runners as it may hold, and as many again that are about to end.
const MAX_STREAMS: u32 = 1040;
/// Two of these without a byte, and the other side is taken to be gone: as long as a pilot's own silence (PL13).
const KEEPALIVE: Duration = Duration::from_secs(5);

fn options() -> Options {
    Options {
        max_streams: MAX_STREAMS,
        keepalive: KEEPALIVE,
        ..Options::default()
    }
}

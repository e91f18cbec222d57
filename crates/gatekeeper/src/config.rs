//! What a gatekeeper is told, and its limits, each with its reason.

use crate::gram::Gram;
use kumiko_staging::stock::Stock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Connections at once: each costs some 60 kB with its TLS buffers, so that all cost less than 256 MB.
pub const CONNECTIONS: usize = 4096;
/// From one address at once: a class room behind one NAT fits, and one address cannot take all.
pub const CONNECTIONS_PER_ADDRESS: usize = 1024;
/// From accept to a verified certificate. Slow links need seconds; who needs more holds a place for nothing.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// What a stranger may send before it is known who it is: the longest sensible chain (ten certificates of 4 kB) fits.
pub const BYTES_BEFORE_AUTHENTICATION: u64 = 64 * 1024;
/// An HTTP connection without a request, or a request without a complete head.
pub const HTTP_IDLE: Duration = Duration::from_secs(60);
/// Between two pieces of a request's body, or of an archive.
pub const BODY_STALL: Duration = Duration::from_secs(60);
/// Requests at once on one HTTP/2 connection; streams of output take one each.
pub const HTTP2_STREAMS: u32 = 128;
/// After the word to stop: time for answers under way.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(5);

/// Where a gatekeeper listens, who it is, and whom it lets in. Files are read again when they change.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    /// The site's name, as told to its users.
    pub name: String,
    pub host_certificate: PathBuf,
    pub host_key: PathBuf,
    /// Trust directory: CAs, signing policies, CRLs.
    pub trust: PathBuf,
    /// None: who is mapped is found out by a monitor.
    pub mapfile: Option<PathBuf>,
    /// A personal site serves its owner's account only: whoever maps to another is refused.
    pub only_account: Option<String>,
    /// Limited proxies may start jobs. As with GRAM, they may not unless this is set.
    pub accept_limited: bool,
    pub limits: Limits,
    /// Of the account; None: nothing is kept, and no upload takes anything from it.
    pub stock: Option<Arc<Stock>>,
    /// None: GRAM's door is closed.
    pub gram: Option<Gram>,
}

/// What the doors need of it, whichever process they are in.
#[derive(Clone, Debug)]
pub struct Service {
    pub name: String,
    pub accept_limited: bool,
    pub limits: Limits,
    /// As in [`Config`].
    pub stock: Option<Arc<Stock>>,
    /// None: GRAM's door is closed.
    pub gram: Option<Gram>,
}

impl Config {
    pub(crate) fn service(&self) -> Service {
        Service {
            name: self.name.clone(),
            accept_limited: self.accept_limited,
            limits: self.limits.clone(),
            stock: self.stock.clone(),
            gram: self.gram.clone(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Limits {
    pub connections: usize,
    pub connections_per_address: usize,
    pub handshake_within: Duration,
    pub bytes_before_authentication: u64,
    pub http_idle: Duration,
    pub body_stall: Duration,
    pub drain_within: Duration,
    pub upload: kumiko_staging::Limits,
    pub session: kumiko_session::Options,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: CONNECTIONS,
            connections_per_address: CONNECTIONS_PER_ADDRESS,
            handshake_within: HANDSHAKE_WITHIN,
            bytes_before_authentication: BYTES_BEFORE_AUTHENTICATION,
            http_idle: HTTP_IDLE,
            body_stall: BODY_STALL,
            drain_within: DRAIN_WITHIN,
            upload: kumiko_staging::Limits::default(),
            session: kumiko_session::Options::default(),
        }
    }
}

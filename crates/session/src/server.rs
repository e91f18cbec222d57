//! The accepting side.

use crate::{Options, SessionError, Stream};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

/// How a connection ended, seen from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// In order.
    Closed,
    /// Cut: the session waits for its owner to come back.
    Detached,
    /// A newer connection has taken the session over.
    Superseded,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub attached: usize,
    pub detached: usize,
    pub streams: usize,
    pub held_bytes: usize,
}

#[derive(Clone, Debug)]
pub struct Server {}

impl Server {
    pub fn new(_options: Options) -> Server {
        Server {}
    }
    /// Serves one connection of `owner` (the verified subject) until it ends; `handler` is called for each new
    /// stream and must not block.
    pub async fn serve<S, H>(
        &self,
        _io: S,
        _owner: &str,
        _handler: H,
    ) -> Result<Served, SessionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Bytes, Stream) + Clone + Send + 'static,
    {
        Err(SessionError::Closed)
    }
    /// Says goodbye to all, and forgets what was detached.
    pub async fn shutdown(&self) {}
    pub fn stats(&self) -> Stats {
        Stats::default()
    }
}

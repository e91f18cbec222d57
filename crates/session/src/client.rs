//! The dialling side.

use crate::{Options, SessionError, Stream};
use bytes::Bytes;
use std::future::Future;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// Makes a connection to the same server, again and again: TCP, TLS, ALPN `kumiko/1`.
pub trait Dial: Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn dial(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Connected,
    Reconnecting,
    Lost,
}

#[derive(Clone, Debug)]
pub struct Session {}

impl Session {
    /// Dials and returns as soon as the connection stands: what is opened and sent at once goes in the same flight
    /// as the handshake; a refusal is then seen by the first stream.
    pub async fn connect<D: Dial>(_dial: D, _options: Options) -> Result<Session, SessionError> {
        Err(SessionError::Closed)
    }
    pub async fn open(&self, _request: Bytes) -> Result<Stream, SessionError> {
        Err(SessionError::Closed)
    }
    /// Sends what is queued, then says goodbye.
    pub async fn close(&self) {}
    pub fn state(&self) -> watch::Receiver<State> {
        watch::channel(State::Lost).1
    }
}

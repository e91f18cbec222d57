//! The accepting side: one connection after the other is greeted, attached to its session, and driven (S3, S8).

use crate::driver::{self, End};
use crate::registry::Registry;
use crate::{LostReason, Options, SessionError, Stream, Violation};
use bytes::{Bytes, BytesMut};
use kumiko_wire::frame::{self, Frame, FrameError, Hello, goodbye};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// For a goodbye to a peer that may not read, and for all goodbyes of a shutdown.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

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

/// What a server holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions with a connection, and without.
    pub attached: usize,
    pub detached: usize,
    /// Open streams of all sessions.
    pub streams: usize,
    /// Unread, unsent and unacknowledged, in bytes of cost (S6).
    pub held_bytes: usize,
}

/// The sessions of one server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Server {
    registry: Arc<Registry>,
}

impl Server {
    pub fn new(options: Options) -> Server {
        let registry = Arc::new(Registry::new(options));
        Server { registry }
    }

    /// Serves one connection of `owner` (the verified subject) until it ends. `handler` is called for each stream
    /// that the client opens, with its request; it must not block. Dropping the future cuts the connection.
    ///
    /// # Errors
    /// The session could not begin or go on, and why; the peer has been told where it could be.
    pub async fn serve<S, H>(&self, io: S, owner: &str, handler: H) -> Result<Served, SessionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Bytes, Stream) + Clone + Send + 'static,
    {
        self.serve_until(io, owner, std::future::pending(), handler)
            .await
    }

    /// The same until `over` says in words why there must be an end: then the session ends too, and the peer is told
    /// (NOT_ADMITTED).
    ///
    /// # Errors
    /// As [`Server::serve`]; `Refused` with those words.
    pub async fn serve_until<S, H>(
        &self,
        io: S,
        owner: &str,
        over: impl Future<Output = String>,
        handler: H,
    ) -> Result<Served, SessionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Bytes, Stream) + Clone + Send + 'static,
    {
        let (mut io, mut input) = (io, BytesMut::new());
        let options = &self.registry.options;
        let hello = match timeout(options.hello_within, read_hello(&mut io, &mut input)).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(error)) => return Err(refuse(io, error).await),
            Err(_) => {
                let late = io::Error::new(io::ErrorKind::TimedOut, "no HELLO came in time");
                return Err(SessionError::NoGreeting(Arc::new(late)));
            }
        };
        let attached = match self
            .registry
            .attach((Arc::from(owner), hello.session), &hello)
        {
            Ok(attached) => attached,
            Err(error) => return Err(refuse(io, error).await),
        };
        let (shared, epoch) = (&attached.shared, attached.epoch);
        let on_open = |id, request| {
            let stream = Stream::new(shared.clone(), id, options.max_message_bytes, None);
            handler(request, stream);
        };
        let ending = async {
            let (code, text) = (goodbye::NOT_ADMITTED, over.await);
            let error = SessionError::Refused {
                code,
                text: text.clone(),
            };
            shared.with(|core| core.end_saying(error, code, text));
            std::future::pending().await
        };
        let end = tokio::select! {
            end = driver::run(shared, epoch, io, input, on_open) => end,
            () = shared.superseded(epoch) => End::Superseded,
            () = ending => End::Over,
        };
        match end {
            End::Superseded => Ok(Served::Superseded),
            End::Cut(_) => Ok(attached.detach()),
            End::Over => {
                attached.remove();
                match shared.with(|core| core.is_over().cloned()) {
                    None
                    | Some(SessionError::Closed | SessionError::Lost(LostReason::GoingDown)) => {
                        Ok(Served::Closed)
                    }
                    Some(error) => Err(error),
                }
            }
        }
    }

    /// Says goodbye to all clients, ends what is detached, and admits nobody any more.
    pub async fn shutdown(&self) {
        let mut count = self.registry.close();
        // Who has not heard it by then will find the connection closed.
        let _ = timeout(GOODBYE_WITHIN, count.wait_for(|count| *count == 0)).await;
    }

    pub fn stats(&self) -> Stats {
        self.registry.stats()
    }
}

async fn read_hello<S: AsyncRead + Unpin>(
    io: &mut S,
    input: &mut BytesMut,
) -> Result<Hello, SessionError> {
    loop {
        match frame::decode(input).map_err(|error| SessionError::Violation(error.into()))? {
            Some(Frame::Hello(hello)) => return Ok(hello),
            Some(other) => {
                let (frame, when) = (other.name(), "before HELLO");
                return Err(SessionError::Violation(Violation::Unexpected {
                    frame,
                    when,
                }));
            }
            None => {}
        }
        let nothing = |error| SessionError::NoGreeting(Arc::new(error));
        if io.read_buf(input).await.map_err(nothing)? == 0 {
            return Err(nothing(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

/// Says goodbye to a peer that gets no session, and hands the error on.
async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(mut io: S, error: SessionError) -> SessionError {
    let (code, text) = match &error {
        SessionError::Refused { code, text } => (*code, text.clone()),
        SessionError::Violation(Violation::Frame(FrameError::Version(_))) => {
            (goodbye::VERSION, error.to_string())
        }
        SessionError::Violation(_) => (goodbye::VIOLATION, error.to_string()),
        _ => return error,
    };
    let mut bytes = BytesMut::new();
    Frame::Goodbye { code, text }.encode(&mut bytes);
    // The peer may be gone already; the error stands all the same.
    if let Ok(Ok(())) = timeout(GOODBYE_WITHIN, io.write_all(&bytes)).await {
        driver::farewell(&mut io).await;
    }
    error
}

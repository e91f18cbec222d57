//! The dialling side: connects, and connects again after a cut (S9).

use crate::core::{Core, Role};
use crate::driver::{self, End};
use crate::shared::Shared;
use crate::{LostReason, Options, SessionError, Stream};
use bytes::{Bytes, BytesMut};
use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Between attempts to reach the server again: at once, then twice as long each time up to the second.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Makes a connection to the same server, again and again: TCP, TLS, ALPN `kumiko/1`.
pub trait Dial: Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn dial(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Connected, and the server has not answered yet; streams can be used already.
    Connecting,
    Connected,
    /// The connection is cut; streams wait.
    Reconnecting,
    /// Over: refused, failed, or not resumed in time.
    Lost,
    /// Over, in order.
    Closed,
}

/// One session with a server. Clones are the same session; it closes when the last of them and of its streams is
/// dropped.
#[derive(Clone, Debug)]
pub struct Session {
    handle: Arc<Handle>,
}

#[derive(Debug)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
    max_message_bytes: usize,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Session {
    /// Dials, and returns as soon as the connection stands: what is opened and sent at once goes in the same flight
    /// as the handshake, and a refusal is seen by the first stream.
    ///
    /// # Errors
    /// `Connect`: the dialling failed. `NoRandomness`.
    pub async fn connect<D: Dial>(dial: D, options: Options) -> Result<Session, SessionError> {
        let io = dial
            .dial()
            .await
            .map_err(|error| SessionError::Connect(Arc::new(error)))?;
        let (session, token) =
            secrets().map_err(|error| SessionError::NoRandomness(Arc::new(error)))?;
        let max_message_bytes = options.max_message_bytes;
        let attempt_within = options.hello_within;
        let shared = Arc::new(Shared::new(Core::new(
            Role::Client,
            options,
            session,
            token,
        )));
        let epoch = shared.with(Core::greet);
        let handle = Arc::new(Handle {
            shared: shared.clone(),
            max_message_bytes,
        });
        tokio::spawn(keep(shared, dial, io, epoch, attempt_within));
        Ok(Session { handle })
    }

    /// Opens a stream with a request. Waits while too much is waiting to be sent.
    ///
    /// # Errors
    /// `TooManyStreams`, `RequestTooLong`; else the session is over.
    pub async fn open(&self, request: Bytes) -> Result<Stream, SessionError> {
        let shared = &self.handle.shared;
        let id = poll_fn(|cx| shared.with(|core| core.poll_open(&request, cx.waker()))).await?;
        Ok(Stream::new(
            shared.clone(),
            id,
            self.handle.max_message_bytes,
            Some(self.handle.clone()),
        ))
    }

    /// Sends what is queued, says goodbye, and returns when that is done. Open streams end with `Closed`.
    pub async fn close(&self) {
        self.handle.shared.close();
        let mut state = self.state();
        // Its sender lives in `shared`, so that this cannot fail.
        let _ = state
            .wait_for(|state| matches!(state, State::Lost | State::Closed))
            .await;
    }

    /// The state of the session, to be read or watched.
    pub fn state(&self) -> watch::Receiver<State> {
        self.handle.shared.state()
    }

    /// Why the session is over, if it is.
    pub fn error(&self) -> Option<SessionError> {
        self.handle.shared.with(|core| core.is_over().cloned())
    }
}

/// Identity and token of a new session.
fn secrets() -> io::Result<([u8; 16], [u8; 16])> {
    let mut source = std::fs::File::open("/dev/urandom")?;
    let (mut session, mut token) = ([0; 16], [0; 16]);
    source.read_exact(&mut session)?;
    source.read_exact(&mut token)?;
    Ok((session, token))
}

/// Drives one connection after the other until the session is over.
async fn keep<D: Dial>(
    shared: Arc<Shared>,
    dial: D,
    first: D::Io,
    first_epoch: u64,
    attempt_within: Duration,
) {
    let (mut io, mut epoch) = (first, first_epoch);
    let mut until = None;
    let mut pause = Duration::ZERO;
    loop {
        // OPEN from a server is a violation, so that nothing is ever handed to the handler.
        let end = driver::run(&shared, epoch, io, BytesMut::new(), |_, _| {}).await;
        let End::Cut(error) = end else { break };
        let (now, error) = (Instant::now(), Arc::new(error));
        let resume_within = shared.with(|core| {
            let stood = core.phase() == crate::core::Phase::Up;
            core.cut();
            if !core.was_welcomed() {
                core.end(SessionError::Connect(error.clone()));
            } else if core.is_closing() {
                core.end(SessionError::Closed);
            }
            if stood {
                // The time to come back counts from the last connection that stood.
                until = None;
                pause = Duration::ZERO;
            }
            core.resume_within()
        });
        shared.publish();
        let until = *until.get_or_insert(now + resume_within);
        match redial(
            &shared,
            &dial,
            until,
            &mut pause,
            attempt_within,
            error.to_string(),
        )
        .await
        {
            None => break,
            Some(again) => io = again,
        }
        epoch = shared.with(Core::greet);
    }
    shared.publish();
}

/// Dials until a connection stands; None: the session is over, by now at the latest.
async fn redial<D: Dial>(
    shared: &Shared,
    dial: &D,
    until: Instant,
    pause: &mut Duration,
    attempt_within: Duration,
    mut last: String,
) -> Option<D::Io> {
    let began = Instant::now();
    let mut state = shared.state();
    let over = |shared: &Shared| shared.with(|core| core.is_over().is_some());
    let attempts = async {
        loop {
            let now = Instant::now();
            if over(shared) || now + *pause >= until {
                return None;
            }
            tokio::time::sleep(*pause).await;
            *pause = (2 * *pause).clamp(RETRY_MIN, RETRY_MAX);
            match timeout_at(until.min(Instant::now() + attempt_within), dial.dial()).await {
                Ok(Ok(io)) => return Some(io),
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = "the server does not answer".to_owned(),
            }
        }
    };
    let io = tokio::select! {
        io = attempts => io,
        _ = state.wait_for(|state| *state == State::Closed) => None,
    };
    if io.is_none() {
        let window_ms = u64::try_from((until.max(began) - began).as_millis()).unwrap_or(u64::MAX);
        let reason = LostReason::NotReached {
            window_ms,
            last: last.to_string(),
        };
        shared.with(|core| core.end(SessionError::Lost(reason)));
    }
    io
}

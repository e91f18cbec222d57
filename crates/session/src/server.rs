//! The accepting side: one registry of sessions, attached and detached (S3, S8, S9).

use crate::core::{Core, Role};
use crate::driver::{self, End};
use crate::shared::Shared;
use crate::{LostReason, Options, SessionError, Stream, Violation};
use bytes::{Bytes, BytesMut};
use kumiko_wire::frame::{self, Frame, FrameError, Hello, goodbye};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

/// For a goodbye to a peer that may not read; and for all goodbyes of a shutdown.
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
    pub attached: usize,
    pub detached: usize,
    pub streams: usize,
    pub held_bytes: usize,
}

/// The sessions of one server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    registry: Mutex<Registry>,
    /// Number of sessions, for `shutdown` to wait on.
    count: watch::Sender<usize>,
}

type Key = (Arc<str>, [u8; 16]);

#[derive(Debug, Default)]
struct Registry {
    sessions: HashMap<Key, Entry>,
    per_owner: HashMap<Arc<str>, usize>,
    cuts: u64,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    shared: Arc<Shared>,
    token: [u8; 16],
    detached: Option<Detached>,
}

/// Since which cut (they are counted), and what it may come to hold.
#[derive(Clone, Copy, Debug)]
struct Detached {
    cut: u64,
    bytes: usize,
}

impl Server {
    pub fn new(options: Options) -> Server {
        Server {
            inner: Arc::new(Inner {
                options,
                registry: Mutex::default(),
                count: watch::Sender::new(0),
            }),
        }
    }

    /// Serves one connection of `owner` (the verified subject) until it ends. `handler` is called for each stream
    /// that the client opens, with its request; it must not block.
    ///
    /// # Errors
    /// The session could not begin or go on, and why; the peer has been told where it could be.
    pub async fn serve<S, H>(
        &self,
        mut io: S,
        owner: &str,
        handler: H,
    ) -> Result<Served, SessionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Bytes, Stream) + Clone + Send + 'static,
    {
        let mut input = BytesMut::new();
        let hello = match timeout(
            self.inner.options.hello_within,
            read_hello(&mut io, &mut input),
        )
        .await
        {
            Ok(Ok(hello)) => hello,
            Ok(Err(error)) => return Err(refuse(io, error).await),
            Err(_) => {
                return Err(SessionError::NoGreeting(Arc::new(
                    io::ErrorKind::TimedOut.into(),
                )));
            }
        };
        let key: Key = (Arc::from(owner), hello.session);
        let (shared, epoch) = match self.inner.attach(&key, &hello) {
            Ok(attached) => attached,
            Err(error) => return Err(refuse(io, error).await),
        };
        let max_message_bytes = self.inner.options.max_message_bytes;
        let on_open = |id, request| {
            handler(
                request,
                Stream::new(shared.clone(), id, max_message_bytes, None),
            )
        };
        let end = tokio::select! {
            end = driver::run(&shared, epoch, io, input, on_open) => end,
            () = shared.superseded(epoch) => End::Superseded,
        };
        match end {
            End::Superseded => Ok(Served::Superseded),
            End::Cut(_) => Ok(self.detach(&key, &shared, epoch)),
            End::Over => {
                self.inner.remove(&key, &shared);
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

    /// The connection of `epoch` is cut: the session waits, and is given up when nobody comes.
    fn detach(&self, key: &Key, shared: &Arc<Shared>, epoch: u64) -> Served {
        let inner = &self.inner;
        let mut registry = inner.registry();
        let bytes = shared.with(|core| {
            if core.epoch() != epoch {
                return None;
            }
            core.cut();
            Some(core.held_bytes_at_most())
        });
        let Some(bytes) = bytes else {
            return Served::Superseded;
        };
        if shared.with(|core| core.is_over().is_some()) {
            drop(registry);
            inner.remove(key, shared);
            return Served::Closed;
        }
        registry.cuts += 1;
        let cut = registry.cuts;
        if let Some(entry) = registry.sessions.get_mut(key) {
            entry.detached = Some(Detached { cut, bytes });
        }
        let evicted = registry.make_room(&inner.options);
        drop(registry);
        inner.tell_count();
        for shared in evicted {
            shared.with(|core| core.end(SessionError::Lost(LostReason::Evicted)));
        }
        let window = inner.options.resume_within;
        let (inner, key, shared) = (inner.clone(), key.clone(), shared.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(window) => {}
                () = shared.superseded(epoch) => return,
            }
            let abandoned = {
                let mut registry = inner.registry();
                let waits =
                    |entry: &Entry| entry.detached.is_some_and(|detached| detached.cut == cut);
                registry.sessions.get(&key).is_some_and(waits) && registry.remove(&key, &shared)
            };
            if abandoned {
                let window_ms = window.as_millis().try_into().unwrap_or(u64::MAX);
                shared
                    .with(|core| core.end(SessionError::Lost(LostReason::Abandoned { window_ms })));
                inner.tell_count();
            }
        });
        Served::Detached
    }

    /// Says goodbye to all clients, ends what is detached, and admits nobody any more.
    pub async fn shutdown(&self) {
        let inner = &self.inner;
        let detached = {
            let mut registry = inner.registry();
            registry.closed = true;
            for entry in registry.sessions.values() {
                let (error, text) = (
                    SessionError::Lost(LostReason::GoingDown),
                    "the server is going down".to_owned(),
                );
                entry
                    .shared
                    .with(|core| core.end_saying(error, goodbye::GOING_DOWN, text));
            }
            let waits = |(key, entry): (&Key, &Entry)| {
                entry.detached.map(|_| (key.clone(), entry.shared.clone()))
            };
            registry
                .sessions
                .iter()
                .filter_map(waits)
                .collect::<Vec<_>>()
        };
        for (key, shared) in detached {
            inner.remove(&key, &shared);
        }
        let mut count = inner.count.subscribe();
        let _ = timeout(GOODBYE_WITHIN, count.wait_for(|count| *count == 0)).await;
    }

    pub fn stats(&self) -> Stats {
        let registry = self.inner.registry();
        let mut stats = Stats::default();
        for entry in registry.sessions.values() {
            match entry.detached {
                Some(_) => stats.detached += 1,
                None => stats.attached += 1,
            }
            let (streams, bytes) = entry
                .shared
                .with(|core| (core.stream_count(), core.held_bytes()));
            stats.streams += streams;
            stats.held_bytes += bytes;
        }
        stats
    }
}

impl Inner {
    /// Finds or makes the session of a HELLO and gives it the new connection.
    fn attach(&self, key: &Key, hello: &Hello) -> Result<(Arc<Shared>, u64), SessionError> {
        let refused = |code, text: &str| {
            Err(SessionError::Refused {
                code,
                text: text.to_owned(),
            })
        };
        let mut registry = self.registry();
        if registry.closed {
            return refused(goodbye::GOING_DOWN, "the server is going down");
        }
        let shared = match (registry.sessions.get_mut(key), hello.resume) {
            (Some(entry), Some(_)) if same(&entry.token, &hello.token) => {
                entry.detached = None;
                entry.shared.clone()
            }
            (_, Some(_)) => return refused(goodbye::UNKNOWN_SESSION, "there is no such session"),
            (Some(_), None) => return refused(goodbye::VIOLATION, "a session of this name exists"),
            (None, None) => {
                let of_owner = registry.per_owner.get(&key.0).copied().unwrap_or(0);
                if of_owner >= self.options.max_sessions_per_owner {
                    return refused(
                        goodbye::TOO_MANY_SESSIONS,
                        "too many sessions of this owner",
                    );
                }
                *registry.per_owner.entry(key.0.clone()).or_default() += 1;
                let core = Core::new(
                    Role::Server,
                    self.options.clone(),
                    hello.session,
                    hello.token,
                );
                let shared = Arc::new(Shared::new(core));
                let entry = Entry {
                    shared: shared.clone(),
                    token: hello.token,
                    detached: None,
                };
                registry.sessions.insert(key.clone(), entry);
                shared
            }
        };
        let now_ms = shared.now_ms();
        let welcomed = shared.with(|core| core.welcome(hello.resume, now_ms));
        let epoch = match welcomed {
            Ok(epoch) => epoch,
            Err(error) => {
                // Only the owner with the token comes here: its session cannot be gone on with.
                registry.remove(key, &shared);
                shared.with(|core| core.end(error.clone()));
                return Err(error);
            }
        };
        drop(registry);
        shared.take_over(epoch);
        self.tell_count();
        Ok((shared, epoch))
    }

    fn remove(&self, key: &Key, shared: &Arc<Shared>) {
        self.registry().remove(key, shared);
        self.tell_count();
    }

    fn tell_count(&self) {
        let count = self.registry().sessions.len();
        self.count.send_replace(count);
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Takes the session out, if it is still this one.
    fn remove(&mut self, key: &Key, shared: &Arc<Shared>) -> bool {
        if !self
            .sessions
            .get(key)
            .is_some_and(|entry| Arc::ptr_eq(&entry.shared, shared))
        {
            return false;
        }
        self.sessions.remove(key);
        if let Some(count) = self.per_owner.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.per_owner.remove(&key.0);
            }
        }
        true
    }

    /// Takes out the oldest detached sessions until number and bytes are within their limits.
    fn make_room(&mut self, options: &Options) -> Vec<Arc<Shared>> {
        let mut waiting: Vec<(Detached, Key)> = self
            .sessions
            .iter()
            .filter_map(|(key, entry)| entry.detached.map(|detached| (detached, key.clone())))
            .collect();
        waiting.sort_by_key(|(detached, _)| std::cmp::Reverse(detached.cut));
        let mut bytes: usize = waiting.iter().map(|(detached, _)| detached.bytes).sum();
        let mut evicted = Vec::new();
        while waiting.len() > options.max_detached || bytes > options.max_detached_bytes {
            let Some((detached, key)) = waiting.pop() else {
                break;
            };
            bytes -= detached.bytes;
            if let Some(shared) = self.sessions.get(&key).map(|entry| entry.shared.clone()) {
                self.remove(&key, &shared);
                evicted.push(shared);
            }
        }
        evicted
    }
}

/// Takes as long for any two tokens.
fn same(one: &[u8; 16], other: &[u8; 16]) -> bool {
    one.iter()
        .zip(other)
        .fold(0, |difference, (a, b)| difference | (a ^ b))
        == 0
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
        match io.read_buf(input).await {
            Ok(0) => {
                return Err(SessionError::NoGreeting(Arc::new(
                    io::ErrorKind::UnexpectedEof.into(),
                )));
            }
            Ok(_) => {}
            Err(error) => return Err(SessionError::NoGreeting(Arc::new(error))),
        }
    }
}

/// Says goodbye to a peer that gets no session, and hands the error on.
async fn refuse<S: AsyncWrite + Unpin>(mut io: S, error: SessionError) -> SessionError {
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
    let _ = timeout(GOODBYE_WITHIN, async {
        io.write_all(&bytes).await?;
        io.shutdown().await
    })
    .await;
    error
}

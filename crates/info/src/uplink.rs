//! The telling side of registrations (spec/info, R5 to R9): one task for each server above. It tells what changed as
//! soon as it can be sent; while it cannot, changes of one value become one; after a gap it begins with everything.

use crate::config::{Above, PORT};
use crate::error::StartError;
use crate::index::Index;
use bytes::Bytes;
use kumiko_directory::Op;
use kumiko_directory::ask::{Ask, kind as answer};
use kumiko_directory::delta::{self, kind};
use kumiko_directory::source::{Hello, Welcome};
use kumiko_identity::tls::{Connector, TlsStream};
use kumiko_session::{Dial, Options, Receiver, Sender, Session, SessionError, State};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

/// TCP and TLS together.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Between attempts to register: at once, then twice as long each time.
const RETRY_LEAST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(5);
/// Changes within this time are told together: a tenth of what a change may take to the top of three levels.
const GATHER: Duration = Duration::from_millis(3);
/// Operations of one message: a tenth of a megabyte or so.
const OPS_OF_MESSAGE: usize = 1000;

/// A message is cut when it is so long.
const PIECE_BYTES: usize = 1 << 20;

/// Dials a server's session door, again after each cut.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub host: String,
    pub port: u16,
    pub connector: Arc<Connector>,
}

impl Dialer {
    pub fn new(address: &str, connector: Arc<Connector>) -> Result<Dialer, StartError> {
        let (host, port) = split(address).ok_or_else(|| StartError::Address {
            address: address.to_owned(),
        })?;
        Ok(Dialer {
            host,
            port,
            connector,
        })
    }
}

/// HOST, HOST:PORT, [V6], [V6]:PORT.
pub(crate) fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (
                host,
                after.strip_prefix(':').or(after.is_empty().then_some(""))?,
            )
        }
        None => match address.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => (address, ""),
            Some((host, port)) if !port.is_empty() => (host, port),
            Some(_) => return None,
            None => (address, ""),
        },
    };
    let port = match port {
        "" => PORT,
        port => port.parse().ok().filter(|p| *p != 0)?,
    };
    let usable = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
    usable.then(|| (host.to_owned(), port))
}

impl Dial for Dialer {
    type Io = TlsStream<TcpStream>;

    async fn dial(&self) -> io::Result<Self::Io> {
        let connect = async {
            let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
            kumiko_linux::tcp::tune(&tcp)?;
            let connected = self.connector.connect(&self.host, tcp).await;
            Ok(connected.map_err(io::Error::other)?.0)
        };
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no connection within 10 s");
        tokio::time::timeout(CONNECT_WITHIN, connect)
            .await
            .unwrap_or_else(|_| Err(late()))
    }
}

/// Why telling ended; all but `Over` are tried again.
enum Ended {
    /// The server goes down.
    Over,
    /// In words, for `status`.
    Lost(String),
}

impl From<SessionError> for Ended {
    fn from(error: SessionError) -> Ended {
        Ended::Lost(error.to_string())
    }
}

/// Keeps this server registered at one above until `stop`.
pub(crate) async fn keep(
    index: Arc<Index>,
    above: Above,
    dialer: Dialer,
    mut stop: watch::Receiver<bool>,
) {
    let mut pause = Duration::ZERO;
    loop {
        let begun = Instant::now();
        index.set_above(&above.address, "connecting");
        match register(&index, &above, &dialer, &mut stop).await {
            Ended::Over => return,
            Ended::Lost(why) => index.set_above(&above.address, &why),
        }
        pause = match begun.elapsed() > RETRY_MOST {
            true => RETRY_LEAST,
            false => (2 * pause).clamp(RETRY_LEAST, RETRY_MOST),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn register(
    index: &Arc<Index>,
    above: &Above,
    dialer: &Dialer,
    stop: &mut watch::Receiver<bool>,
) -> Ended {
    let heartbeat = Duration::from_millis(above.heartbeat_ms);
    let options = Options {
        // A cut is noticed within a few heartbeats, so that a way that works again is used again.
        keepalive: 2 * heartbeat,
        ..Options::default()
    };
    let connecting = Session::connect(dialer.clone(), options);
    let session = tokio::select! {
        session = connecting => match session {
            Ok(session) => session,
            Err(error) => return Ended::Lost(error.to_string()),
        },
        _ = stop.wait_for(|stop| *stop) => return Ended::Over,
    };
    let mut state = session.state();
    let ended = tokio::select! {
        ended = converse(index, above, &session, stop) => ended.err().unwrap_or(Ended::Over),
        _ = state.wait_for(|s| matches!(s, State::Lost | State::Closed)) => {
            let why = session.error().map_or("the session ended".to_owned(), |e| e.to_string());
            Ended::Lost(why)
        }
    };
    // The goodbye of the stream has to arrive, if anybody is there to hear it.
    let _ = tokio::time::timeout(heartbeat, session.close()).await;
    ended
}

async fn converse(
    index: &Arc<Index>,
    above: &Above,
    session: &Session,
    stop: &mut watch::Receiver<bool>,
) -> Result<(), Ended> {
    let hello = index.read(|inner| Hello {
        name: above
            .name
            .clone()
            .unwrap_or_else(|| index.config.own_name()),
        kind: index.config.kind,
        id: inner.registrations.id().to_owned(),
        epoch: index.epoch,
        ttl_ms: above.ttl_ms,
        heartbeat_ms: above.heartbeat_ms,
        below: inner.registrations.below(),
        now_ms: index.clock.now_ms(),
        first: inner.directory.first_kept(),
        last: inner.directory.sequence(),
    });
    let below = hello.below.clone();
    let request = serde_json::to_vec(&Ask::Register(hello));
    let request = request.map_err(|e| Ended::Lost(e.to_string()))?;
    let (sender, mut receiver) = session.open(request.into()).await?.split();
    let welcome: Welcome = match receiver.recv().await? {
        Some(message) if message.kind == answer::REPLY => {
            serde_json::from_slice(&message.data).map_err(|e| Ended::Lost(e.to_string()))?
        }
        other => return Err(refusal(other)),
    };
    index.set_above(&above.address, "registered");
    let mut telling = Telling {
        index,
        sender,
        reached: welcome.after,
        below,
        generation: 0,
        heartbeat: Duration::from_millis(welcome.heartbeat_ms),
    };
    let refused = tokio::select! {
        told = telling.tell() => told.err(),
        refused = listen(&mut receiver) => Some(refused),
        _ = stop.wait_for(|stop| *stop) => None,
    };
    match refused {
        Some(ended) => Err(ended),
        None => {
            // In order: what is below goes from the server above at once.
            let _ = telling.sender.finish().await;
            Ok(())
        }
    }
}

async fn listen(receiver: &mut Receiver) -> Ended {
    match receiver.recv().await {
        Ok(message) => refusal(message),
        Err(error) => error.into(),
    }
}

fn refusal(message: Option<kumiko_session::Message>) -> Ended {
    #[derive(serde::Deserialize)]
    struct Refused {
        message: String,
    }
    let words = message
        .filter(|m| m.kind == answer::REFUSED)
        .and_then(|m| serde_json::from_slice::<Refused>(&m.data).ok());
    Ended::Lost(
        words.map_or("the server ended the registration".to_owned(), |r| {
            r.message
        }),
    )
}

struct Telling<'a> {
    index: &'a Arc<Index>,
    sender: Sender,
    /// All changes up to this number are told; None: nothing is.
    reached: Option<u64>,
    below: BTreeSet<String>,
    /// Of the registrations here, when `below` was looked at.
    generation: u64,
    heartbeat: Duration,
}

impl Telling<'_> {
    async fn tell(&mut self) -> Result<(), Ended> {
        let mut version = self.index.follow();
        let mut beat = tokio::time::interval(self.heartbeat);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            version.borrow_and_update();
            let reached = match self.reached {
                Some(reached) => reached,
                None => self.snapshot(&mut beat).await?,
            };
            let since = self
                .index
                .read(|inner| inner.directory.ops_since(reached, OPS_OF_MESSAGE));
            let Ok((ops, now)) = since else {
                self.reached = None;
                continue;
            };
            self.reached = Some(now);
            self.send_ops(reached, now, &ops).await?;
            self.tell_below().await?;
            if now < self.index.read(|inner| inner.directory.sequence()) {
                continue;
            }
            tokio::select! {
                changed = version.changed() => match changed {
                    Ok(()) => tokio::time::sleep(GATHER).await,
                    Err(_) => return Ok(()),
                },
                _ = beat.tick() => self.beat().await?,
            }
        }
    }

    /// In messages of a bearable size; only the last one says that all up to `now` is told.
    async fn send_ops(&mut self, before: u64, now: u64, ops: &[Op]) -> Result<(), Ended> {
        let mut pieces = pieces(ops).into_iter().peekable();
        while let Some(piece) = pieces.next() {
            let reached = if pieces.peek().is_none() { now } else { before };
            let mut bytes = Vec::with_capacity(piece.len() + 10);
            delta::write_number(&mut bytes, reached);
            bytes.extend_from_slice(&piece);
            self.sender.send(kind::OPS, bytes.into()).await?;
        }
        Ok(())
    }

    async fn beat(&mut self) -> Result<(), Ended> {
        let mut bytes = Vec::new();
        delta::write_number(&mut bytes, self.index.clock.now_ms());
        delta::write_number(&mut bytes, self.reached.unwrap_or(0));
        Ok(self.sender.send(kind::HEARTBEAT, bytes.into()).await?)
    }

    async fn tell_below(&mut self) -> Result<(), Ended> {
        let below = self.index.read(|inner| {
            let registrations = &inner.registrations;
            let changed = registrations.generation() != self.generation;
            self.generation = registrations.generation();
            changed.then(|| registrations.below())
        });
        let Some(below) = below.filter(|below| *below != self.below) else {
            return Ok(());
        };
        // Texts have a JSON form.
        let bytes = serde_json::to_vec(&below).unwrap_or_default();
        self.below = below;
        Ok(self.sender.send(kind::BELOW, bytes.into()).await?)
    }

    /// Tells everything, in pieces; what changes meanwhile is told again afterwards.
    async fn snapshot(&mut self, beat: &mut tokio::time::Interval) -> Result<u64, Ended> {
        let number = self.index.read(|inner| inner.directory.sequence());
        let mut bytes = Vec::new();
        delta::write_number(&mut bytes, number);
        let number_bytes = Bytes::from(bytes);
        self.sender
            .send(kind::SNAPSHOT, number_bytes.clone())
            .await?;
        let mut from = Some(0);
        while let Some(at) = from {
            let (ops, next) = self
                .index
                .read(|inner| inner.directory.ops_from(at, OPS_OF_MESSAGE));
            for piece in pieces(&ops) {
                self.sender.send(kind::SNAPSHOT_OPS, piece.into()).await?;
            }
            from = next;
            beat.reset();
        }
        self.sender.send(kind::SNAPSHOT_END, number_bytes).await?;
        self.reached = Some(number);
        Ok(number)
    }
}

/// The bytes of operations, cut where they become long; an entry is bounded far below the most of a message.
fn pieces(ops: &[Op]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut bytes = Vec::new();
    for op in ops {
        delta::write(&mut bytes, op);
        if bytes.len() >= PIECE_BYTES {
            pieces.push(std::mem::take(&mut bytes));
        }
    }
    if !bytes.is_empty() {
        pieces.push(bytes);
    }
    pieces
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    #[test]
    fn addresses_have_a_host_and_perhaps_a_port() {
        for (text, host, port) in [
            ("a", "a", 2135),
            ("a:7", "a", 7),
            ("[::1]", "::1", 2135),
            ("[::1]:7", "::1", 7),
            ("::1", "::1", 2135),
        ] {
            assert_eq!(super::split(text), Some((host.to_owned(), port)), "{text}");
        }
        for text in ["", ":7", "a:", "a:x", "a:0", "[::1", "a b", "ldap://a"] {
            assert_eq!(super::split(text), None, "{text}");
        }
    }
}

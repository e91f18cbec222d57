//! From a fresh TCP connection to a known caller at one of the doors, or a refusal.

use crate::Refused;
use crate::bounds::{Budget, Budgeted};
use crate::config::{Config, Service};
use crate::gram::{Tokened, greet};
use crate::keys::Loaded;
use bytes::BytesMut;
use kumiko_identity::tls::TlsStream;
use kumiko_identity::{Peer, ProxyKind};
use kumiko_job::contract::Caller;
use kumiko_wire::frame::{Frame, goodbye};
pub(crate) use kumiko_wire::relay::Door;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// For the word to one who is not let in.
pub(crate) const TURN_AWAY_WITHIN: Duration = Duration::from_secs(2);
/// What such a peer may still have under way.
const LINGER_BYTES: u64 = 1 << 20;

/// A wall clock that was set meanwhile, or a machine that slept, is noticed within this time.
const CLOCK_TRUSTED: Duration = Duration::from_secs(300);

/// Resolves when the wall clock has passed `end`. tokio's clock knows nothing of leaps: so it is looked at again.
pub(crate) async fn until(end: SystemTime) {
    while let Ok(left) = end.duration_since(SystemTime::now()) {
        // A little more, so that a clock of coarse steps does not make many of the last one.
        tokio::time::sleep(left.min(CLOCK_TRUSTED) + Duration::from_millis(1)).await;
    }
}

/// A connection with a stranger as the front has it.
pub(crate) type Tls = TlsStream<Budgeted<Tokened>>;

/// A connection as a door has it: TLS itself, or the front's relay of what was in it.
pub(crate) trait Link: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<L: AsyncRead + AsyncWrite + Unpin + Send + 'static> Link for L {}

/// Who came in.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub caller: Caller,
    /// As TLS has verified it.
    pub peer: Peer,
    /// False for a limited proxy, unless the site takes them.
    pub may_start: bool,
}

/// The door that ALPN names; TLS has chosen among [`crate::keys::ALPN`] already.
fn door(alpn: Option<&[u8]>) -> Door {
    match alpn {
        Some(b"kumiko/1") => Door::Session,
        Some(b"h2") => Door::Http2,
        Some(_) => Door::Http1,
        None => Door::Gram,
    }
}

/// Finds out who it is. Reads nothing beyond the limits of `config`.
pub(crate) async fn authenticate(
    config: &Config,
    keys: &Loaded,
    tcp: TcpStream,
) -> Result<(Tls, Peer, Door), Refused> {
    kumiko_linux::tcp::tune(&tcp).map_err(|e| Refused::Socket {
        cause: e.to_string(),
    })?;
    let limits = &config.limits;
    let budget = Budget::new(limits.bytes_before_authentication);
    let spare = tcp
        .as_fd()
        .try_clone_to_owned()
        .map_err(|e| Refused::Socket {
            cause: e.to_string(),
        })?;
    let handshake = keys
        .acceptor
        .accept(Budgeted::new(Tokened::new(tcp), budget.clone()));
    let cause = match tokio::time::timeout(limits.handshake_within, handshake).await {
        Ok(Ok((mut link, peer))) => {
            budget.lift();
            let door = door(link.alpn().as_deref());
            if door == Door::Gram && link.version() == "TLSv1.3" {
                greet(&mut link).await.map_err(|e| Refused::Socket {
                    cause: e.to_string(),
                })?;
            }
            return Ok((link, peer, door));
        }
        Err(_) => {
            return Err(Refused::TooSlow {
                within: limits.handshake_within,
            });
        }
        Ok(Err(_)) if budget.is_spent() => {
            return Err(Refused::TooMuch {
                limit: limits.bytes_before_authentication,
            });
        }
        Ok(Err(e)) => e.to_string(),
    };
    linger(spare).await;
    Err(Refused::Tls { cause })
}

/// Ends a connection whose last word (a TLS alert) is to be heard: a socket that is closed with something unread takes
/// it back (TCP answers with a reset). So what comes is read until the peer has closed, within bounds.
async fn linger(socket: OwnedFd) {
    let lingering = async {
        let mut tcp = TcpStream::from_std(socket.into())?;
        tcp.shutdown().await?;
        tokio::io::copy(&mut tcp.take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    // Whether it was heard makes no difference any more.
    let _ = tokio::time::timeout(TURN_AWAY_WITHIN, lingering).await;
}

/// The account that the grid-mapfile gives a peer; None where the monitor will say. Of several the first counts, or the
/// one that the site serves.
pub(crate) fn authorise(
    config: &Config,
    keys: &Loaded,
    peer: &Peer,
    door: Door,
) -> Result<Option<String>, Refused> {
    let subject = peer.identity.to_string();
    if peer.kind == ProxyKind::Independent {
        return Err(Refused::Independent { subject });
    }
    let Some(map) = &keys.map else {
        return Ok(None);
    };
    if door == Door::Gram && config.gram.is_none() {
        return Err(Refused::Gram);
    }
    let accounts = map.lookup(&peer.identity);
    match (accounts.first(), &config.only_account) {
        (None, _) => Err(Refused::Unmapped { subject }),
        (Some(_), Some(only)) if accounts.contains(only) => Ok(Some(only.clone())),
        (Some(first), Some(only)) => Err(Refused::OtherAccount {
            subject,
            account: first.clone(),
            only: only.clone(),
        }),
        (Some(first), None) => Ok(Some(first.clone())),
    }
}

impl Visitor {
    /// Of a verified peer that is mapped to an account.
    pub fn new(service: &Service, peer: Peer, account: String) -> Visitor {
        Visitor {
            caller: Caller {
                subject: peer.identity.to_string(),
                account,
            },
            may_start: service.accept_limited || peer.kind != ProxyKind::Limited,
            peer,
        }
    }
}

/// Tells a peer that is known by its certificate why it is not let in, in its door's own words.
pub(crate) async fn turn_away(link: impl Link, door: Door, why: &Refused) {
    match door {
        Door::Session => {
            let mut goodbye = BytesMut::new();
            Frame::Goodbye {
                code: match why.passes() {
                    true => goodbye::GOING_DOWN,
                    false => goodbye::NOT_ADMITTED,
                },
                text: why.to_string(),
            }
            .encode(&mut goodbye);
            say(link, &goodbye).await;
        }
        Door::Http1 | Door::Http2 => crate::rest::turn_away(link, door, why).await,
        Door::Gram => crate::gram::turn_away(link).await,
    }
}

/// Says one thing, and lingers.
async fn say(mut link: impl Link, what: &[u8]) {
    let said = async {
        link.write_all(what).await?;
        link.shutdown().await?;
        tokio::io::copy(&mut link.take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    // Whether it was heard makes no difference any more.
    let _ = tokio::time::timeout(TURN_AWAY_WITHIN, said).await;
}

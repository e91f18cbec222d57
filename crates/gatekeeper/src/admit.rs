//! From a fresh TCP connection to a known caller at one of the doors, or a refusal.

use crate::Refused;
use crate::bounds::{Budget, Budgeted};
use crate::config::Config;
use crate::keys::Loaded;
use kumiko_identity::ProxyKind;
use kumiko_identity::tls::TlsStream;
use kumiko_job::contract::Caller;
use tokio::net::TcpStream;

pub(crate) type Link = TlsStream<Budgeted<TcpStream>>;

/// Who came in.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub caller: Caller,
    /// False for a limited proxy, unless the site takes them.
    pub may_start: bool,
}

/// What a connection is for, as its ALPN says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Session,
    Http1,
    Http2,
    /// No ALPN: GRAM as GT2 and GCT speak it. Not built yet.
    Gram,
}

impl Door {
    /// TLS has chosen among [`crate::keys::ALPN`] already.
    fn of(alpn: Option<&[u8]>) -> Door {
        match alpn {
            Some(b"kumiko/1") => Door::Session,
            Some(b"h2") => Door::Http2,
            Some(_) => Door::Http1,
            None => Door::Gram,
        }
    }
}

/// TLS, then the map. Reads nothing beyond the limits of `config`.
pub(crate) async fn admit(
    config: &Config,
    keys: &Loaded,
    tcp: TcpStream,
) -> Result<(Link, Visitor, Door), Refused> {
    kumiko_linux::tcp::tune(&tcp).map_err(|e| Refused::Socket {
        cause: e.to_string(),
    })?;
    let limits = &config.limits;
    let budget = Budget::new(limits.bytes_before_authentication);
    let handshake = keys.acceptor.accept(Budgeted::new(tcp, budget.clone()));
    let (link, peer) = match tokio::time::timeout(limits.handshake_within, handshake).await {
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
        Ok(Err(e)) => {
            return Err(Refused::Tls {
                cause: e.to_string(),
            });
        }
        Ok(Ok(accepted)) => accepted,
    };
    budget.lift();
    let subject = peer.identity.to_string();
    let account = match keys.map.lookup(&peer.identity).first() {
        Some(account) => account.clone(),
        None => return Err(Refused::Unmapped { subject }),
    };
    if let Some(only) = config
        .only_account
        .as_ref()
        .filter(|only| **only != account)
    {
        return Err(Refused::OtherAccount {
            subject,
            account,
            only: only.clone(),
        });
    }
    let door = Door::of(link.alpn().as_deref());
    if door == Door::Gram {
        return Err(Refused::Gram);
    }
    let may_start = config.accept_limited || peer.kind != ProxyKind::Limited;
    Ok((
        link,
        Visitor {
            caller: Caller { subject, account },
            may_start,
        },
        door,
    ))
}

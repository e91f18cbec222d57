//! TCP and TLS to a gatekeeper, with ALPN `kumiko/1`.

use crate::ClientError;
use kumiko_identity::tls::{Connector, TlsStream};
use kumiko_session::Dial;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// The port of GRAM gatekeepers (IANA: gsigatekeeper), and ours.
pub const DEFAULT_PORT: u16 = 2119;
/// TCP and TLS together; a host that is up answers within two round trips, and a lost SYN is sent again after 1 and 3 s.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// Where a site's gatekeeper listens. `host` is also the name that its certificate must bear.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiteAddress {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for SiteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`, or a bare v6 address.
impl FromStr for SiteAddress {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let wrong = |cause: &str| ClientError::Address {
            text: text.to_owned(),
            cause: cause.to_owned(),
        };
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest
                .split_once(']')
                .ok_or_else(|| wrong("the bracket is not closed"))?;
            (
                host,
                after
                    .strip_prefix(':')
                    .or(if after.is_empty() { None } else { Some(after) }),
            )
        } else if text.matches(':').count() > 1 {
            (text, None)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        if host
            .chars()
            .any(|c| c.is_whitespace() || c == '/' || c.is_control())
        {
            return Err(wrong("a host has no blanks or slashes"));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => return Err(wrong("the port is not a number from 1 to 65535")),
                Ok(port) => port,
            },
        };
        Ok(SiteAddress {
            host: host.to_owned(),
            port,
        })
    }
}

/// Dials one site, again after each cut.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub address: SiteAddress,
    pub connector: Arc<Connector>,
}

impl Dial for Dialer {
    type Io = TlsStream<TcpStream>;

    async fn dial(&self) -> io::Result<Self::Io> {
        let connect = async {
            let tcp = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
            kumiko_linux::tcp::tune(&tcp)?;
            let (mut tls, _peer) = self
                .connector
                .connect(&self.address.host, tcp)
                .await
                .map_err(io::Error::other)?;
            tls.gather();
            Ok(tls)
        };
        tokio::time::timeout(CONNECT_WITHIN, connect)
            .await
            .unwrap_or_else(|_| {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no connection within {} s", CONNECT_WITHIN.as_secs()),
                ))
            })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_or_without_a_port() {
        for (text, host, port, shown) in [
            ("site.example", "site.example", 2119, "site.example:2119"),
            (
                "site.example:4000",
                "site.example",
                4000,
                "site.example:4000",
            ),
            ("[::1]", "::1", 2119, "[::1]:2119"),
            ("[::1]:7", "::1", 7, "[::1]:7"),
            ("fe80::1", "fe80::1", 2119, "[fe80::1]:2119"),
        ] {
            let address: SiteAddress = text.parse().unwrap();
            assert_eq!(
                (address.host.as_str(), address.port),
                (host, port),
                "{text}"
            );
            assert_eq!(address.to_string(), shown);
        }
        for text in [
            "",
            ":1",
            "host:",
            "host:0",
            "host:65536",
            "host:x",
            "[::1",
            "[::1]x",
            "a b",
            "https://a",
        ] {
            assert!(text.parse::<SiteAddress>().is_err(), "{text:?} was taken");
        }
    }
}

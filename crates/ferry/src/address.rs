//! Where a site listens for ferries, as it is written: `HOST`, `HOST:PORT`, `[V6]`, `[V6]:PORT`. Pure.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an address.
    pub host: String,
    /// 0: any that is free.
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address at which hosts can reach this machine: write HOST or HOST:PORT, as 10.0.0.1 or [fd00::1]:2200"
)]
pub struct NoAddress(String);

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Address, NoAddress> {
        let read = || {
            let (host, port) = match text.strip_prefix('[') {
                Some(rest) => rest.split_once(']')?,
                None => text.split_at(text.find(':').unwrap_or(text.len())),
            };
            let port = match port {
                "" => 0,
                port => port.strip_prefix(':')?.parse().ok()?,
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let v6 = text.starts_with('[') && host.parse::<std::net::Ipv6Addr>().is_ok();
            let named = !text.starts_with('[') && !host.is_empty() && host.chars().all(plain);
            (v6 || named).then(|| Address {
                host: host.to_owned(),
                port,
            })
        };
        read().ok_or_else(|| NoAddress(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_or_without_a_port() {
        let rows = [
            ("head", "head:0"),
            ("head.example:2200", "head.example:2200"),
            ("10.0.0.1", "10.0.0.1:0"),
            ("[fd00::1]", "[fd00::1]:0"),
            ("[fd00::1]:7", "[fd00::1]:7"),
        ];
        for (text, shown) in rows {
            let read: Result<Address, _> = text.parse();
            assert_eq!(read.map(|read| read.to_string()), Ok(shown.to_owned()));
        }
        for text in [
            "",
            ":7",
            "a b",
            "fd00::1",
            "[head]",
            "head:",
            "head:x",
            "head:70000",
            "[fd00::1",
            "a/b",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}

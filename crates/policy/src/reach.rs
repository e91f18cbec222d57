//! Which addresses a guest may connect to (P60 to P64): words of a policy to values, and what they decide for an address.
//! Pure. Not in it: how a mechanism holds a guest to it.

use crate::types::{Origin, Policy};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Most address rules in one policy: each connection is held against all of them, in some microseconds.
pub const MAX_ADDRESSES: usize = 1_000;

/// Addresses and ports: `192.0.2.0/24:80-443`, `[2001:db8::]/32`, `*:25`. Without a length one address, without ports all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Addresses {
    /// None: every address.
    block: Option<Block>,
    first_port: u16,
    last_port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Block {
    address: IpAddr,
    bits: u8,
}

/// What one layer says: what is not allowed is denied where anything is allowed, and what is denied stays so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<Addresses>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Addresses>,
    pub origin: Origin,
    /// The line of each rule, by its words (`deny *:25`), where they were told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, u32>,
}

impl Reach {
    /// What decides, and where it stands.
    fn by(&self, words: String) -> Option<(String, Origin)> {
        let mut origin = self.origin.clone();
        origin.line = self.lines.get(&words).copied().unwrap_or(origin.line);
        Some((words, origin))
    }
}

/// What is decided for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    pub reached: bool,
    /// The rule that decides, and where it stands; None: no rule speaks of it.
    pub by: Option<(String, Origin)>,
}

/// Why a word names no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("is no address: write 192.0.2.7, [2001:db8::7] or *")]
    Address,
    #[error("has a length that is none: 0 to 32 for IPv4, 0 to 128 for IPv6")]
    Length,
    #[error("has bits set behind its length: write the first address of the block")]
    Bits,
    #[error("has ports that are none: write :443 or :5000-5999, from 1 to 65535")]
    Ports,
}

impl FromStr for Addresses {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Addresses, AddressError> {
        let (address, rest) = match text.strip_prefix('[') {
            Some(text) => {
                let (address, rest) = text.split_once(']').ok_or(AddressError::Address)?;
                let address: Ipv6Addr = address.parse().map_err(|_| AddressError::Address)?;
                (Some(IpAddr::V6(address)), rest)
            }
            None => {
                let end = text.find(['/', ':']).unwrap_or(text.len());
                let (address, rest) = text.split_at(end);
                let one = || address.parse::<Ipv4Addr>().map(IpAddr::V4);
                match address {
                    "*" => (None, rest),
                    _ => (Some(one().map_err(|_| AddressError::Address)?), rest),
                }
            }
        };
        let (length, ports) = match rest.find(':') {
            Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..)),
            None => (rest, None),
        };
        let block = match (address, length.strip_prefix('/')) {
            (None, None) if length.is_empty() => None,
            (Some(address), None) if length.is_empty() => Some(Block {
                address,
                bits: width(address),
            }),
            (Some(address), Some(bits)) => Some(block(address, bits)?),
            (None, _) => return Err(AddressError::Length),
            (Some(_), None) => return Err(AddressError::Address),
        };
        let (first_port, last_port) = match ports {
            None => (0, u16::MAX),
            Some(ports) => {
                let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                (port(first)?, port(last)?)
            }
        };
        if first_port > last_port {
            return Err(AddressError::Ports);
        }
        Ok(Addresses {
            block,
            first_port,
            last_port,
        })
    }
}

/// Digits alone: no sign, no blank.
fn number(text: &str, most: u32) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse().ok())
        .flatten()
        .filter(|number| *number <= most)
}

fn port(text: &str) -> Result<u16, AddressError> {
    let port = number(text, u16::MAX.into()).filter(|port| *port > 0);
    port.and_then(|port| u16::try_from(port).ok())
        .ok_or(AddressError::Ports)
}

fn block(address: IpAddr, bits: &str) -> Result<Block, AddressError> {
    let bits = number(bits, width(address).into()).and_then(|bits| u8::try_from(bits).ok());
    let bits = bits.ok_or(AddressError::Length)?;
    let block = Block { address, bits };
    match block.masked(address) == Some(value(address)) {
        true => Ok(block),
        false => Err(AddressError::Bits),
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn value(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

impl Block {
    /// An address of the same family without what is behind the block's length.
    fn masked(&self, address: IpAddr) -> Option<u128> {
        if address.is_ipv4() != self.address.is_ipv4() {
            return None;
        }
        let behind = u32::from(width(address) - self.bits);
        let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
        Some(value(address) & mask)
    }
}

impl Addresses {
    pub fn covers(&self, address: SocketAddr) -> bool {
        let port = address.port();
        let address = meant(address.ip());
        let inside = self
            .block
            .is_none_or(|block| block.masked(address) == Some(value(block.address)));
        inside && (self.first_port..=self.last_port).contains(&port)
    }
}

/// As the kernel takes it: IPv4 in IPv6's clothes is IPv4, and nobody is this host itself.
fn meant(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.block {
            None => f.write_str("*")?,
            Some(Block { address, bits }) => {
                match address {
                    IpAddr::V4(address) => write!(f, "{address}")?,
                    IpAddr::V6(address) => write!(f, "[{address}]")?,
                }
                if bits < width(address) {
                    write!(f, "/{bits}")?;
                }
            }
        }
        match (self.first_port, self.last_port) {
            (0, _) => Ok(()),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

impl From<Addresses> for String {
    fn from(addresses: Addresses) -> String {
        addresses.to_string()
    }
}

impl TryFrom<String> for Addresses {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Addresses, AddressError> {
        text.parse()
    }
}

impl Policy {
    /// May a guest connect to it, as far as address rules say? Every layer has to admit it.
    pub fn reaches(&self, address: SocketAddr) -> Reached {
        reaches(&self.reach, address)
    }
}

/// As [`Policy::reaches`], for who has the layers alone.
pub fn reaches(layers: &[Reach], address: SocketAddr) -> Reached {
    let mut by = None;
    for layer in layers {
        let covering =
            |rules: &[Addresses]| rules.iter().find(|rule| rule.covers(address)).copied();
        if let Some(rule) = covering(&layer.deny) {
            return Reached {
                reached: false,
                by: layer.by(format!("deny {rule}")),
            };
        }
        let Some(allow) = &layer.allow else { continue };
        match covering(allow) {
            Some(rule) => by = layer.by(format!("allow {rule}")),
            None => {
                return Reached {
                    reached: false,
                    by: layer.by("not among what is allowed".to_owned()),
                };
            }
        }
    }
    Reached { reached: true, by }
}

/// May a guest have this address and port for its own? Port 0 is whatever the kernel gives. Else as what it would connect
/// to; at an unspecified address it is to be had by everybody, so every address has to be admitted at that port.
pub fn binds(layers: &[Reach], address: SocketAddr) -> bool {
    if address.port() == 0 {
        return true;
    }
    if !address.ip().to_canonical().is_unspecified() {
        return reaches(layers, address).reached;
    }
    let port = |rule: &&Addresses| (rule.first_port..=rule.last_port).contains(&address.port());
    let all = |rule: &Addresses| {
        let block = rule.block.as_ref();
        block.is_none_or(|block| block.bits == 0 && block.masked(address.ip()).is_some())
    };
    layers.iter().all(|layer| {
        let allow = layer.allow.as_ref();
        let allowed = allow.is_none_or(|rules| rules.iter().filter(port).any(all));
        allowed && !layer.deny.iter().any(|rule| port(&rule))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bound_is_what_could_be_connected_to() {
        let check = |allow: Option<&[&str]>, deny: &[&str], address: &str, expected: bool| {
            let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
            let layer = Reach {
                allow: allow.map(rules),
                deny: rules(deny),
                origin: Origin {
                    source: String::new(),
                    line: 0,
                },
                lines: BTreeMap::new(),
            };
            let asked = address.parse().unwrap();
            assert_eq!(
                binds(&[layer], asked),
                expected,
                "{allow:?} {deny:?} {address}"
            );
        };
        let one = Some(["192.0.2.7:80"].as_slice());
        check(one, &[], "192.0.2.7:80", true);
        check(one, &[], "192.0.2.7:81", false);
        check(one, &[], "192.0.2.7:0", true);
        check(one, &[], "0.0.0.0:0", true);
        check(one, &[], "0.0.0.0:80", false);
        check(Some(&["*:80"]), &[], "0.0.0.0:80", true);
        check(Some(&["*:80"]), &[], "[::]:80", true);
        check(Some(&["*:80"]), &[], "0.0.0.0:81", false);
        check(Some(&["0.0.0.0/0"]), &[], "0.0.0.0:80", true);
        check(Some(&["0.0.0.0/0"]), &[], "[::]:80", false);
        check(Some(&["127.0.0.1"]), &[], "0.0.0.0:80", false);
        check(None, &["192.0.2.7:80"], "0.0.0.0:80", false);
        check(None, &["192.0.2.7:80"], "0.0.0.0:81", true);
        check(None, &["192.0.2.7:80"], "192.0.2.8:80", true);
    }

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in [
            "192.0.2.7",
            "192.0.2.0/24:80-443",
            "[2001:db8::]/32",
            "[::1]:25",
            "*",
            "*:25",
            "0.0.0.0/0",
            "10.0.0.0/8:1-65535",
        ] {
            assert_eq!(
                text.parse::<Addresses>().map(|a| a.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!(
            "192.0.2.7/32:5-5".parse(),
            "192.0.2.7:5".parse::<Addresses>()
        );
    }

    #[test]
    fn what_names_no_addresses_is_told_apart() {
        let check = |text: &str, error| assert_eq!(text.parse::<Addresses>(), Err(error), "{text}");
        for text in [
            "",
            "host",
            "::1",
            "[::1",
            "[1.2.3.4]",
            "1.2.3",
            "[::1]x",
            " *",
            "**",
        ] {
            check(text, AddressError::Address);
        }
        for text in [
            "1.2.3.4/33",
            "1.2.3.4/",
            "1.2.3.4/+8",
            "[::]/129",
            "*/0",
            "*/",
        ] {
            check(text, AddressError::Length);
        }
        check("192.0.2.7/24", AddressError::Bits);
        check("[2001:db8::1]/32", AddressError::Bits);
        for text in [
            "*:0", "*:", "*:65536", "*:+1", "*:2-1", "*:1-", "*:1-2-3", "*:x",
        ] {
            check(text, AddressError::Ports);
        }
    }

    #[test]
    fn rules_cover_what_they_say_and_nothing_beside() {
        let check = |rule: &str, address: &str, covered: bool| {
            let rule: Addresses = rule.parse().unwrap();
            assert_eq!(
                rule.covers(address.parse().unwrap()),
                covered,
                "{rule} {address}"
            );
        };
        check("192.0.2.0/24:80-443", "192.0.2.255:80", true);
        check("192.0.2.0/24:80-443", "192.0.2.255:443", true);
        check("192.0.2.0/24:80-443", "192.0.2.255:444", false);
        check("192.0.2.0/24:80-443", "192.0.3.0:80", false);
        check("192.0.2.0/24", "[::ffff:192.0.2.9]:1", true);
        check("0.0.0.0/0", "[2001:db8::1]:1", false);
        check("[::]/0", "1.2.3.4:1", false);
        check("[2001:db8::]/32", "[2001:db8:ffff::]:0", true);
        check("[2001:db8::]/32", "[2001:db9::]:0", false);
        check("*:25", "[::1]:25", true);
        check("*", "1.2.3.4:0", true);
        // Where the kernel takes nobody for itself.
        check("127.0.0.0/8", "0.0.0.0:25", true);
        check("[::1]", "[::]:25", true);
        check("127.0.0.1", "[::ffff:0.0.0.0]:25", true);
    }

    #[test]
    fn every_layer_has_to_admit_an_address() {
        let layer = |allow: Option<&[&str]>, deny: &[&str]| {
            let read = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
            let origin = Origin {
                source: "here".to_owned(),
                line: 1,
            };
            Reach {
                allow: allow.map(read),
                deny: read(deny),
                origin,
                lines: BTreeMap::new(),
            }
        };
        let site = layer(None, &["127.0.0.0/8"]);
        let job = layer(Some(&["10.0.0.0/8", "127.0.0.1:80"]), &["10.1.0.0/16"]);
        let layers = [site, job];
        let check = |address: &str, reached: bool, by: &str| {
            let got = reaches(&layers, address.parse().unwrap());
            assert_eq!(got.reached, reached, "{address}");
            assert_eq!(
                got.by.map(|(rule, _)| rule),
                Some(by.to_owned()),
                "{address}"
            );
        };
        check("10.2.0.1:1", true, "allow 10.0.0.0/8");
        check("10.1.0.1:1", false, "deny 10.1.0.0/16");
        check("127.0.0.1:80", false, "deny 127.0.0.0/8");
        check("192.0.2.1:80", false, "not among what is allowed");
        assert!(reaches(&[], "1.2.3.4:5".parse().unwrap()).reached);
        let nothing = layer(Some(&[]), &[]);
        assert!(!reaches(&[nothing], "1.2.3.4:5".parse().unwrap()).reached);
    }
}

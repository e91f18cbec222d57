//! Registrations in the manner of MDS 2 (GRRP; spec/info, G1 to G4): an LDAP add of `Mds-Vo-Op-name=register` below the
//! index's suffix, repeated before it ends. Pure. Not here: whether it is believed, and the asking that it allows.

use crate::dn::Dn;
use crate::ldap::Add;
use crate::source::{Kind, TTL_LEAST_MS, TTL_MOST_MS};

/// Where MDS says nothing: its own values.
const TTL_MS: u64 = 1_200_000;
const EVERY_MS: u64 = 30_000;
const TIMEOUT_MS: u64 = 20_000;
/// It is not asked more often than the registrant's host would change.
const EVERY_LEAST_MS: u64 = 1_000;
/// An answer that takes longer is none.
const TIMEOUT_MOST_MS: u64 = 60_000;

/// What a registration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grrp {
    pub host: String,
    pub port: u16,
    /// Where its entries are, there.
    pub suffix: Dn,
    /// As `source::Hello` has them.
    pub name: String,
    pub kind: Kind,
    /// For how long it holds, whatever the registrant's clock says.
    pub ttl_ms: u64,
    pub every_ms: u64,
    pub timeout_ms: u64,
}

/// Why an add is no registration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrrpError {
    #[error("what is added must be named Mds-Vo-Op-name=register, {suffix}")]
    Name { suffix: String },
    #[error("{attribute} is missing, or not of the kind that MDS 2 has there")]
    Attribute { attribute: &'static str },
    #[error("the registration is over before it begins: Mds-validto is not after Mds-validfrom")]
    Over,
}

/// Reads a registration at the index of this suffix. `time` reads generalized time as Unix time in ms.
///
/// # Errors
/// `GrrpError`.
pub fn read(
    add: &Add,
    own_suffix: &Dn,
    time: impl Fn(&str) -> Option<u64>,
) -> Result<Grrp, GrrpError> {
    let wrong_name = || GrrpError::Name {
        suffix: own_suffix.to_string(),
    };
    let expected = own_suffix.child("Mds-Vo-Op-name", "register");
    let named = Dn::parse(&add.dn).map_err(|_| wrong_name())?;
    if named.key() != expected.key() {
        return Err(wrong_name());
    }
    let value = |name: &str| {
        let found = add
            .attributes
            .iter()
            .find(|a| a.name.eq_ignore_ascii_case(name));
        found.and_then(|a| a.values.first()).map(|v| v.trim())
    };
    let needed = |attribute| value(attribute).ok_or(GrrpError::Attribute { attribute });
    let attribute = "Mds-Service-type";
    if !needed(attribute)?.eq_ignore_ascii_case("ldap") {
        return Err(GrrpError::Attribute { attribute });
    }
    let host = needed("Mds-Service-hn")?.to_owned();
    let attribute = "Mds-Service-port";
    let port = needed(attribute)?.parse().ok().filter(|p| *p != 0);
    let port = port.ok_or(GrrpError::Attribute { attribute })?;
    let attribute = "Mds-Service-Ldap-suffix";
    let suffix = Dn::parse(needed(attribute)?).map_err(|_| GrrpError::Attribute { attribute })?;
    let vo = suffix.own().map_or(&[][..], |rdn| rdn.pairs());
    let vo = vo
        .iter()
        .find(|(kind, _)| kind.eq_ignore_ascii_case("Mds-Vo-name"));
    // Each host's GRIS is called local; what is called otherwise is an index.
    let (name, kind) = match vo {
        Some((_, vo)) if !vo.eq_ignore_ascii_case("local") => (vo.clone(), Kind::Index),
        _ => (format!("{host}:{port}"), Kind::Leaf),
    };
    let times = value("Mds-validfrom").zip(value("Mds-validto"));
    let ttl_ms = match times.and_then(|(from, to)| time(from).zip(time(to))) {
        Some((from, to)) => to
            .checked_sub(from)
            .filter(|t| *t > 0)
            .ok_or(GrrpError::Over)?,
        None => TTL_MS,
    };
    let seconds = |name: &str, usual: u64| {
        let told = value(name).and_then(|v| v.parse::<u64>().ok());
        told.map_or(usual, |s| s.saturating_mul(1000))
    };
    let ttl_ms = ttl_ms.clamp(TTL_LEAST_MS, TTL_MOST_MS);
    let every_ms = seconds("Mds-Service-Ldap-cachettl", EVERY_MS);
    let timeout_ms = seconds("Mds-Service-Ldap-timeout", TIMEOUT_MS);
    Ok(Grrp {
        host,
        port,
        suffix,
        name,
        kind,
        ttl_ms,
        every_ms: every_ms.clamp(EVERY_LEAST_MS, ttl_ms.max(EVERY_LEAST_MS)),
        timeout_ms: timeout_ms.clamp(EVERY_LEAST_MS, TIMEOUT_MOST_MS),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::entry::Entry;

    fn registration(changes: &[(&str, &str)]) -> Result<Grrp, GrrpError> {
        let dn = "Mds-Vo-Op-name=register, mds-vo-name=Site, o=Grid";
        let mut entry = Entry::new(Dn::parse(dn).unwrap());
        for (name, value) in [
            ("Mds-Service-type", "ldap"),
            ("Mds-Service-hn", "a.example"),
            ("Mds-Service-port", "2135"),
            ("Mds-Service-Ldap-suffix", "Mds-Vo-name=local, o=grid"),
            ("Mds-Service-Ldap-cachettl", "15"),
            ("Mds-validfrom", "1000"),
            ("Mds-validto", "61000"),
        ] {
            entry.add(name, [value]);
        }
        for (name, value) in changes {
            entry.attributes.retain(|a| a.name != *name);
            entry.add(name, [value].iter().filter(|v| !v.is_empty()));
        }
        let add = Add {
            dn: entry.dn.to_string(),
            attributes: entry.attributes,
        };
        let suffix = Dn::parse("Mds-Vo-name=site, o=grid").unwrap();
        read(&add, &suffix, |text| text.parse().ok())
    }

    #[test]
    fn a_registration_of_mds_is_read() {
        let read = registration(&[]).unwrap();
        assert_eq!((read.host.as_str(), read.port), ("a.example", 2135));
        assert_eq!(
            (read.name.as_str(), read.kind),
            ("a.example:2135", Kind::Leaf)
        );
        assert_eq!(
            (read.ttl_ms, read.every_ms, read.timeout_ms),
            (60_000, 15_000, 20_000)
        );
        let index = registration(&[("Mds-Service-Ldap-suffix", "Mds-Vo-name=x, o=grid")]).unwrap();
        assert_eq!((index.name.as_str(), index.kind), ("x", Kind::Index));
    }

    #[test]
    fn what_it_says_of_time_is_bounded() {
        for (name, value, expected) in [
            ("Mds-validto", "1001", (TTL_LEAST_MS, EVERY_LEAST_MS)),
            ("Mds-validto", "99999999999999", (TTL_MOST_MS, 15_000)),
            ("Mds-validto", "never", (TTL_MS, 15_000)),
            ("Mds-Service-Ldap-cachettl", "0", (60_000, EVERY_LEAST_MS)),
            (
                "Mds-Service-Ldap-cachettl",
                "18446744073709551615",
                (60_000, 60_000),
            ),
        ] {
            let read = registration(&[(name, value)]).unwrap();
            assert_eq!((read.ttl_ms, read.every_ms), expected, "{name}: {value}");
        }
        assert_eq!(
            registration(&[("Mds-validto", "1000")]),
            Err(GrrpError::Over)
        );
    }

    #[test]
    fn what_is_none_is_refused_by_the_attribute() {
        for (attribute, value) in [
            ("Mds-Service-type", "gram"),
            ("Mds-Service-hn", ""),
            ("Mds-Service-port", "0"),
            ("Mds-Service-port", "65536"),
            ("Mds-Service-Ldap-suffix", "nonsense"),
        ] {
            let refused = registration(&[(attribute, value)]);
            assert_eq!(refused, Err(GrrpError::Attribute { attribute }), "{value}");
        }
    }
}

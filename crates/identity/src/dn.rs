//! Distinguished names, compared as structure (spec/identity, clauses N1 to N6).
//!
//! The text form is that of OpenSSL's `X509_NAME_oneline`, which the grid uses everywhere; where that form would be
//! ambiguous we escape, so that reading what was written always gives the same name. No glob patterns here.

use std::fmt;

use crate::der::{self, DerError, Element, Reader};

/// Object identifier, the name we print, other names that are read. From RFC 4519, PKCS #9 and the grid's own usage.
const TYPES: &[(&str, &str, &[&str])] = &[
    ("2.5.4.3", "CN", &["commonName"]),
    ("2.5.4.4", "SN", &["surname"]),
    ("2.5.4.5", "serialNumber", &[]),
    ("2.5.4.6", "C", &["countryName"]),
    ("2.5.4.7", "L", &["localityName"]),
    ("2.5.4.8", "ST", &["SP", "stateOrProvinceName"]),
    ("2.5.4.9", "street", &["streetAddress"]),
    ("2.5.4.10", "O", &["organizationName"]),
    ("2.5.4.11", "OU", &["organizationalUnitName"]),
    ("2.5.4.12", "title", &[]),
    ("2.5.4.13", "description", &[]),
    ("2.5.4.15", "businessCategory", &[]),
    ("2.5.4.17", "postalCode", &[]),
    ("2.5.4.41", "name", &[]),
    ("2.5.4.42", "GN", &["givenName"]),
    ("2.5.4.43", "initials", &[]),
    ("2.5.4.44", "generationQualifier", &[]),
    ("2.5.4.46", "dnQualifier", &[]),
    ("2.5.4.65", "pseudonym", &[]),
    ("0.9.2342.19200300.100.1.1", "UID", &["USERID", "userId"]),
    ("0.9.2342.19200300.100.1.25", "DC", &["domainComponent"]),
    ("1.2.840.113549.1.9.1", "emailAddress", &["E", "Email"]),
    ("1.2.840.113549.1.9.2", "unstructuredName", &[]),
];

/// Longest name that is read, in bytes of text: ten times the longest seen in the grid's CAs.
pub const MAX_TEXT_BYTES: usize = 4096;
const MAX_ATTRIBUTES: usize = 64;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DnError {
    /// The text does not begin with `/TYPE=`.
    #[error("a name begins with /TYPE=, as in /O=Grid/CN=Alice; got {text:?}")]
    NoType { text: String },
    /// An attribute without a value.
    #[error("attribute {attribute} has no value in {text:?}")]
    EmptyValue { attribute: String, text: String },
    /// Longer than `MAX_TEXT_BYTES`, or more than 64 attributes.
    #[error(
        "name too long: {bytes} bytes of text, at most {MAX_TEXT_BYTES} and {MAX_ATTRIBUTES} attributes are read"
    )]
    TooLong { bytes: usize },
    /// Escapes that do not give UTF-8.
    #[error("value of {attribute} is not UTF-8 once its \\x escapes are read")]
    NotUtf8 { attribute: String },
}

/// One attribute: the printed type (or dotted OID) and the value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Attribute {
    kind: String,
    value: String,
}

/// A distinguished name: attributes in order. Types compare by meaning (`E` = `emailAddress`), values exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Dn(Vec<Attribute>);

fn canonical_type(text: &str) -> Option<&'static str> {
    TYPES
        .iter()
        .find(|(oid, name, others)| {
            *oid == text
                || name.eq_ignore_ascii_case(text)
                || others.iter().any(|o| o.eq_ignore_ascii_case(text))
        })
        .map(|(_, name, _)| *name)
}

fn is_dotted_oid(text: &str) -> bool {
    text.contains('.')
        && text.split('.').all(|arc| {
            !arc.is_empty() && arc.len() <= 20 && arc.bytes().all(|b| b.is_ascii_digit())
        })
}

/// If `text` (after a slash) begins an attribute: its canonical type and the length of `TYPE=`.
fn begins_attribute(text: &str) -> Option<(String, usize)> {
    let (kind, _) = text.split_once('=')?;
    if let Some(name) = canonical_type(kind) {
        return Some((name.to_owned(), kind.len() + 1));
    }
    is_dotted_oid(kind).then(|| (kind.to_owned(), kind.len() + 1))
}

/// `text` with each `/TYPE=` written in its canonical spelling; for patterns, which may hold anything else.
pub(crate) fn canonical_types(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(slash) = rest.find('/') {
        let (before, after) = rest.split_at(slash);
        out.push_str(before);
        out.push('/');
        rest = &after[1..];
        if let Some((kind, skip)) = begins_attribute(rest) {
            out.push_str(&kind);
            out.push('=');
            rest = &rest[skip..];
        }
    }
    out.push_str(rest);
    out
}

fn unescape(attribute: &str, raw: &str) -> Result<String, DnError> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = match rest {
            [b'\\', b'x', high, low, ..] => (*high as char)
                .to_digit(16)
                .zip((*low as char).to_digit(16))
                .map(|(h, l)| (h * 16 + l) as u8),
            _ => None,
        };
        if let Some(byte) = hex {
            bytes.push(byte);
            rest = &rest[4..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_err(|_| DnError::NotUtf8 {
        attribute: attribute.to_owned(),
    })
}

impl Dn {
    /// Reads the form `/O=Grid/CN=Alice`. A slash begins an attribute only before a known type or a dotted OID, so
    /// `/CN=host/vm` has one attribute. `\xHH` stands for a byte.
    pub fn parse(text: &str) -> Result<Dn, DnError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(DnError::TooLong { bytes: text.len() });
        }
        let mut attributes = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let Some((kind, skip)) = rest.strip_prefix('/').and_then(begins_attribute) else {
                return Err(DnError::NoType {
                    text: text.to_owned(),
                });
            };
            let after = &rest[1 + skip..];
            let end = after
                .match_indices('/')
                .map(|(at, _)| at)
                .find(|at| begins_attribute(&after[at + 1..]).is_some())
                .unwrap_or(after.len());
            let (raw, tail) = after.split_at(end);
            if raw.is_empty() {
                return Err(DnError::EmptyValue {
                    attribute: kind,
                    text: text.to_owned(),
                });
            }
            let value = unescape(&kind, raw)?;
            attributes.push(Attribute { kind, value });
            rest = tail;
        }
        if attributes.is_empty() {
            return Err(DnError::NoType {
                text: text.to_owned(),
            });
        }
        if attributes.len() > MAX_ATTRIBUTES {
            return Err(DnError::TooLong { bytes: text.len() });
        }
        Ok(Dn(attributes))
    }

    /// Reads the contents of a DER `Name` (RFC 5280, section 4.1.2.4). May be empty.
    pub(crate) fn from_name(name: &Element<'_>) -> Result<Dn, DerError> {
        let mut attributes = Vec::new();
        let mut relative_names = name.reader();
        while !relative_names.is_empty() {
            let set = relative_names.expect(der::SET, "a name is a sequence of sets")?;
            let mut members = set.reader();
            if members.is_empty() {
                return Err(set.error("a part of a name is empty"));
            }
            while !members.is_empty() {
                let mut pair = members
                    .expect(der::SEQUENCE, "a part of a name is a pair")?
                    .reader();
                let oid = der::oid(&pair.next()?)?;
                let value = text(&pair.next()?)?;
                pair.finish("a part of a name has more than two fields")?;
                let kind = canonical_type(&oid).map_or(oid, str::to_owned);
                attributes.push(Attribute { kind, value });
            }
        }
        Ok(Dn(attributes))
    }

    /// Reads a whole DER `Name`.
    pub fn from_der(bytes: &[u8]) -> Result<Dn, DerError> {
        let mut reader = Reader::new(bytes);
        let name = reader.expect(der::SEQUENCE, "a name is a sequence of sets")?;
        reader.finish("bytes after the name")?;
        Dn::from_name(&name)
    }

    /// Type and value of each attribute, in order.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|a| (a.kind.as_str(), a.value.as_str()))
    }

    /// The last common name, as in `host/vm` or `Alice`.
    pub fn common_name(&self) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|a| a.kind == "CN")
            .map(|a| a.value.as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This name with one more attribute; `kind` is any name that is read.
    pub fn with(&self, kind: &str, value: &str) -> Dn {
        let mut name = self.clone();
        let kind = canonical_type(kind).map_or_else(|| kind.to_owned(), str::to_owned);
        name.0.push(Attribute {
            kind,
            value: value.to_owned(),
        });
        name
    }

    /// This name without its last attribute: the name space of a CA.
    pub fn parent(&self) -> Dn {
        let keep = self.0.len().saturating_sub(1);
        Dn(self.0[..keep].to_vec())
    }

    /// Whether this name is `issuer` with exactly one common name added (RFC 3820, section 3.4).
    pub fn is_one_cn_below(&self, issuer: &Dn) -> bool {
        self.0.len() == issuer.0.len() + 1
            && self.0.starts_with(&issuer.0)
            && self.0.last().is_some_and(|a| a.kind == "CN")
    }

    /// Dotted OID and value of each attribute, for encoders.
    pub(crate) fn encoded_parts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|a| {
            let oid = TYPES
                .iter()
                .find(|(_, name, _)| *name == a.kind)
                .map_or(a.kind.as_str(), |(oid, _, _)| *oid);
            (oid, a.value.as_str())
        })
    }
}

impl fmt::Display for Dn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for a in &self.0 {
            write!(f, "/{}=", a.kind)?;
            for (at, c) in a.value.char_indices() {
                let ambiguous = c == '/' && begins_attribute(&a.value[at + 1..]).is_some();
                if (' '..='~').contains(&c) && c != '\\' && !ambiguous {
                    write!(f, "{c}")?;
                } else {
                    let mut utf8 = [0; 4];
                    for byte in c.encode_utf8(&mut utf8).bytes() {
                        write!(f, "\\x{byte:02X}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Dn {
    type Err = DnError;
    fn from_str(text: &str) -> Result<Dn, DnError> {
        Dn::parse(text)
    }
}

/// The text of a DirectoryString or IA5String (RFC 5280, appendix A). T61String is read as Latin-1, as all do.
pub(crate) fn text(element: &Element<'_>) -> Result<String, DerError> {
    let bytes = element.contents;
    let wide = |size: usize| -> Option<String> {
        if bytes.len() % size != 0 {
            return None;
        }
        bytes
            .chunks_exact(size)
            .map(|c| char::from_u32(c.iter().fold(0, |n, b| (n << 8) | u32::from(*b))))
            .collect()
    };
    let text = match element.tag {
        0x0c => String::from_utf8(bytes.to_vec()).ok(),
        0x12 | 0x13 | 0x16 | 0x1a => bytes
            .is_ascii()
            .then(|| bytes.iter().map(|b| char::from(*b)).collect()),
        0x14 => Some(bytes.iter().map(|b| char::from(*b)).collect()),
        0x1e => wide(2),
        0x1c => wide(4),
        _ => return Err(element.error("a value of a name is not a string")),
    };
    text.ok_or_else(|| element.error("a string of a name does not follow its own encoding"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_as_structure() {
        let rows = [
            ("/O=Grid/CN=Alice", "/o=Grid/cn=Alice", true),
            ("/O=Grid/USERID=al", "/O=Grid/UID=al", true),
            ("/O=Grid/E=a@b", "/O=Grid/emailAddress=a@b", true),
            ("/O=Grid/Email=a@b", "/O=Grid/emailAddress=a@b", true),
            ("/O=Grid/2.5.4.3=Alice", "/O=Grid/CN=Alice", true),
            ("/O=Grid/CN=Alice", "/O=Grid/CN=alice", false),
            ("/O=Grid/CN=Alice", "/CN=Alice/O=Grid", false),
            ("/CN=a/CN=b", "/CN=a\\x2FCN=b", false),
        ];
        for (a, b, equal) in rows {
            assert_eq!(Dn::parse(a) == Dn::parse(b), equal, "{a} and {b}");
        }
    }

    #[test]
    fn a_slash_inside_a_value_stays_there() {
        let name = Dn::parse("/O=Grid/CN=host/vm.example").unwrap();
        assert_eq!(name.common_name(), Some("host/vm.example"));
        assert_eq!(name.to_string(), "/O=Grid/CN=host/vm.example");
    }

    #[test]
    fn what_was_written_reads_back_as_the_same_name() {
        let start = Dn::default().with("O", "Grid");
        for value in [
            "a/CN=b",
            "back\\slash",
            "\\x41",
            "Jürgen",
            "new\nline",
            "a//CN=b",
            "/",
            "日本",
        ] {
            let name = start.with("CN", value);
            assert_eq!(Dn::parse(&name.to_string()).unwrap(), name, "{value:?}");
        }
    }

    #[test]
    fn a_proxy_stands_one_common_name_below_its_issuer() {
        let alice = Dn::parse("/O=Grid/CN=Alice").unwrap();
        assert!(alice.with("CN", "123").is_one_cn_below(&alice));
        assert!(!alice.with("OU", "123").is_one_cn_below(&alice));
        assert!(
            !alice
                .with("CN", "1")
                .with("CN", "2")
                .is_one_cn_below(&alice)
        );
        assert!(!alice.is_one_cn_below(&alice));
    }

    #[test]
    fn texts_that_are_no_names_are_refused() {
        for text in [
            "",
            "/",
            "Alice",
            "O=Grid",
            "/Grid",
            "/O=",
            "/O=Grid/CN=",
            "/O=\\xFF",
        ] {
            assert!(Dn::parse(text).is_err(), "{text:?}");
        }
    }
}

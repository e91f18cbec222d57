//! Distinguished names of directory entries (RFC 4514, spec/info N1 and N2), read tolerantly: odd case, blanks and
//! quotes are the habit of MDS tools. Not here: subjects of certificates; those are `identity`'s.

use crate::value::{NAME_MOST_BYTES, VALUE_MOST_BYTES, normal};
use std::fmt;

/// Levels of a name; MDS has at most five below an index, and each index adds one.
pub const DEPTH_MOST: usize = 64;
/// The longest text of a name: all levels of a deep tree with generous values.
pub const DN_MOST_BYTES: usize = 8192;

/// One level of a name.
#[derive(Clone, Debug)]
pub struct Rdn {
    /// As given: attribute types and values, unescaped. More than one only in names such as `a=1+b=2`.
    pairs: Vec<(String, String)>,
}

/// A name, the entry's own level first. Names are equal if their normal forms are.
#[derive(Clone, Debug, Default)]
pub struct Dn {
    rdns: Vec<Rdn>,
}

/// Why a text is no name; whoever wrote it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name {text:?} cannot be used: {problem}")]
pub struct DnError {
    /// At most the first 200 characters.
    pub text: String,
    pub problem: DnProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnProblem {
    #[error("it is longer than {DN_MOST_BYTES} bytes")]
    TooLong,
    #[error("it has more than {DEPTH_MOST} levels")]
    TooDeep,
    #[error("level {level} has no \"=\"")]
    NoEquals { level: usize },
    #[error("level {level} has no usable attribute type before \"=\"")]
    Type { level: usize },
    #[error("level {level} has an empty or too long value")]
    Value { level: usize },
    #[error("a \"\\\" at its end escapes nothing, or the escaped bytes are not UTF-8")]
    Escape,
    #[error("a quote is not closed")]
    Quote,
}

impl Dn {
    /// # Errors
    /// `DnError`: what is wrong with the text.
    pub fn parse(text: &str) -> Result<Dn, DnError> {
        read(text).map_err(|problem| DnError {
            text: text.chars().take(200).collect(),
            problem,
        })
    }

    /// The name of one more level below this one.
    pub fn child(&self, kind: &str, value: &str) -> Dn {
        let mut rdns = Vec::with_capacity(self.rdns.len() + 1);
        rdns.push(Rdn {
            pairs: vec![(kind.to_owned(), value.to_owned())],
        });
        rdns.extend(self.rdns.iter().cloned());
        Dn { rdns }
    }

    /// This name, which is relative to `base`, in full.
    pub fn below(&self, base: &Dn) -> Dn {
        Dn {
            rdns: self.rdns.iter().chain(&base.rdns).cloned().collect(),
        }
    }

    /// Without its own level; None for the root.
    pub fn parent(&self) -> Option<Dn> {
        let (_, rest) = self.rdns.split_first()?;
        Some(Dn {
            rdns: rest.to_vec(),
        })
    }

    /// What is left of this name above `base`; None if it does not lie below it or at it.
    pub fn relative_to(&self, base: &Dn) -> Option<Dn> {
        let own = self.rdns.len().checked_sub(base.rdns.len())?;
        let (first, last) = self.rdns.split_at_checked(own)?;
        let same = last.iter().zip(&base.rdns).all(|(a, b)| a.key() == b.key());
        same.then(|| Dn {
            rdns: first.to_vec(),
        })
    }

    pub fn depth(&self) -> usize {
        self.rdns.len()
    }

    pub fn is_root(&self) -> bool {
        self.rdns.is_empty()
    }

    /// The entry's own level; None for the root.
    pub fn own(&self) -> Option<&Rdn> {
        self.rdns.first()
    }

    /// The normal form: what two spellings of one name have in common.
    pub fn key(&self) -> String {
        let mut key = String::new();
        for (index, rdn) in self.rdns.iter().enumerate() {
            if index > 0 {
                key.push(',');
            }
            key.push_str(&rdn.key());
        }
        key
    }
}

impl Rdn {
    /// Attribute types and values as given.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    fn key(&self) -> String {
        let mut parts: Vec<String> = self
            .pairs
            .iter()
            .map(|(kind, value)| {
                let mut part = kind.to_ascii_lowercase();
                part.push('=');
                escape(&normal(value), &mut part);
                part
            })
            .collect();
        parts.sort_unstable();
        parts.join("+")
    }
}

impl PartialEq for Dn {
    fn eq(&self, other: &Dn) -> bool {
        self.rdns.len() == other.rdns.len() && self.key() == other.key()
    }
}

impl Eq for Dn {}

impl fmt::Display for Dn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (index, rdn) in self.rdns.iter().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            for (index, (kind, value)) in rdn.pairs.iter().enumerate() {
                if index > 0 {
                    text.push('+');
                }
                text.push_str(kind);
                text.push('=');
                escape(value, &mut text);
            }
        }
        f.write_str(&text)
    }
}

/// RFC 4514, section 2.4.
fn escape(value: &str, out: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (index, c) in value.chars().enumerate() {
        match c {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => {
                out.push('\\');
                out.push(c);
            }
            ' ' | '#' if index == 0 => {
                out.push('\\');
                out.push(c);
            }
            ' ' if index == last => out.push_str("\\ "),
            c if c.is_ascii_control() => {
                out.push_str(&format!("\\{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
}

fn read(text: &str) -> Result<Dn, DnProblem> {
    if text.len() > DN_MOST_BYTES {
        return Err(DnProblem::TooLong);
    }
    if text.trim().is_empty() {
        return Ok(Dn::default());
    }
    let mut rdns = Vec::new();
    let mut rest = text;
    loop {
        let level = rdns.len() + 1;
        if level > DEPTH_MOST {
            return Err(DnProblem::TooDeep);
        }
        let mut pairs = Vec::new();
        let ended = loop {
            let (kind, after) = rest.split_once('=').ok_or(DnProblem::NoEquals { level })?;
            let kind = kind.trim();
            if !is_type(kind) {
                return Err(DnProblem::Type { level });
            }
            let (value, ended, after) = read_value(after)?;
            if normal(&value).is_empty() || value.len() > VALUE_MOST_BYTES {
                return Err(DnProblem::Value { level });
            }
            pairs.push((kind.to_owned(), value));
            rest = after;
            if ended != Some('+') {
                break ended;
            }
        };
        rdns.push(Rdn { pairs });
        if ended.is_none() {
            return Ok(Dn { rdns });
        }
    }
}

/// An attribute's name or object identifier, without options.
pub fn is_type(kind: &str) -> bool {
    !kind.is_empty()
        && kind.len() <= NAME_MOST_BYTES
        && kind
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
}

/// A value, what ended it (`,` `;` `+` or the end), and the rest.
fn read_value(text: &str) -> Result<(String, Option<char>, &str), DnProblem> {
    let text = text.trim_start();
    let mut bytes = Vec::new();
    // Blanks at the end are no part of the value unless they were escaped or quoted.
    let mut kept = 0;
    let mut quoted = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                kept = bytes.len();
            }
            '\\' => {
                let (_, escaped) = chars.next().ok_or(DnProblem::Escape)?;
                match escaped.to_digit(16) {
                    Some(high) => {
                        let low = chars
                            .next()
                            .and_then(|(_, c)| c.to_digit(16))
                            .ok_or(DnProblem::Escape)?;
                        bytes.push((high * 16 + low) as u8);
                    }
                    None => push(&mut bytes, escaped),
                }
                kept = bytes.len();
            }
            ',' | ';' | '+' if !quoted => {
                let rest = text.get(at + 1..).unwrap_or_default();
                bytes.truncate(kept);
                let value = String::from_utf8(bytes).map_err(|_| DnProblem::Escape)?;
                return Ok((value, Some(c), rest));
            }
            c => {
                push(&mut bytes, c);
                if quoted || !c.is_whitespace() {
                    kept = bytes.len();
                }
            }
        }
    }
    if quoted {
        return Err(DnProblem::Quote);
    }
    bytes.truncate(kept);
    let value = String::from_utf8(bytes).map_err(|_| DnProblem::Escape)?;
    Ok((value, None, ""))
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_are_equal() {
        let dn = Dn::parse("Mds-Host-hn=a.b.c, Mds-Vo-name=local, o=grid").unwrap();
        for other in [
            "mds-host-hn=A.B.C,mds-vo-name=LOCAL,O=Grid",
            "  Mds-Host-hn = a.b.c ;Mds-Vo-name= local  ,  o=grid ",
            "Mds-Host-hn=\"a.b.c\",Mds-Vo-name=local,o=grid",
            r"Mds-Host-hn=a\2eb.c,Mds-Vo-name=local,o=grid",
        ] {
            assert_eq!(Dn::parse(other).unwrap(), dn, "{other}");
        }
        for other in [
            "Mds-Host-hn=a.b.c, Mds-Vo-name=local",
            "Mds-Host-hn=a.b.d, Mds-Vo-name=local, o=grid",
        ] {
            assert_ne!(Dn::parse(other).unwrap(), dn, "{other}");
        }
        assert_eq!(
            Dn::parse("a=1+b=2").unwrap(),
            Dn::parse("B=2 + A=1").unwrap()
        );
        assert!(Dn::parse("  ").unwrap().is_root());
    }

    #[test]
    fn a_name_survives_being_printed_and_read() {
        for value in [
            "plain",
            " blanks ",
            "a,b+c=d;e",
            "#x",
            "q\"q\\",
            "naïve",
            "tab\there",
        ] {
            let dn = Dn::default().child("o", "grid").child("cn", value);
            let again = Dn::parse(&dn.to_string()).unwrap();
            assert_eq!(again.own().unwrap().pairs()[0].1, value, "{dn}");
            assert_eq!(again, dn);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for (text, problem) in [
            ("grid", DnProblem::NoEquals { level: 1 }),
            ("o=grid,", DnProblem::NoEquals { level: 2 }),
            ("=x", DnProblem::Type { level: 1 }),
            ("a b=x", DnProblem::Type { level: 1 }),
            ("o=", DnProblem::Value { level: 1 }),
            ("o=,o=grid", DnProblem::Value { level: 1 }),
            ("o=a\\", DnProblem::Escape),
            ("o=\\ff", DnProblem::Escape),
            ("o=\"a", DnProblem::Quote),
        ] {
            assert_eq!(Dn::parse(text).unwrap_err().problem, problem, "{text}");
        }
        let deep = vec!["a=b"; DEPTH_MOST + 1].join(",");
        assert_eq!(Dn::parse(&deep).unwrap_err().problem, DnProblem::TooDeep);
    }

    #[test]
    fn names_are_taken_apart_and_put_together() {
        let base = Dn::parse("Mds-Vo-name=local,o=grid").unwrap();
        let host = base.child("Mds-Host-hn", "a");
        assert_eq!(host.parent().unwrap(), base);
        let relative = host.relative_to(&base).unwrap();
        assert_eq!(relative.to_string(), "Mds-Host-hn=a");
        assert_eq!(relative.below(&base), host);
        assert!(base.relative_to(&host).is_none());
        assert!(base.relative_to(&base).unwrap().is_root());
    }
}

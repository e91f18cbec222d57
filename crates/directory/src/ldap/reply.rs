//! The other side of LDAP: a search of everything below a name, and what a server answers to it, read from its bytes. For
//! registrants of the old kind, which are asked and do not tell. Not here: referrals, which are not followed.

use super::request::{self, LdapError};
use super::{SEARCH_ENTRY, answer};
use crate::ber::{self, BerError, Reader};
use crate::dn::Dn;
use crate::entry::Entry;

/// An entry is bounded as everywhere (spec/info, N6); with its tags and controls no message is twice as long.
pub const REPLY_MOST_BYTES: usize = 512 * 1024;

/// One message of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Entry(Entry),
    /// The end of an operation, with its result (`super::code`) and words.
    Done {
        tag: u8,
        code: i64,
        message: String,
    },
    /// A reference, or an intermediate response: of no use here.
    Other,
}

/// An anonymous bind and a search of all entries at and below `base`, numbered 1 and 2.
pub fn ask_for_all(base: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bind = Vec::new();
    ber::integer(&mut bind, ber::INTEGER, 3);
    ber::element(&mut bind, ber::OCTETS, b"");
    ber::element(&mut bind, 0x80, b"");
    answer::message(&mut out, 1, 0x60, &bind, &[]);
    let mut search = Vec::new();
    ber::element(&mut search, ber::OCTETS, base.as_bytes());
    ber::integer(&mut search, ber::ENUMERATED, 2);
    ber::integer(&mut search, ber::ENUMERATED, 0);
    ber::integer(&mut search, ber::INTEGER, 0);
    ber::integer(&mut search, ber::INTEGER, 0);
    ber::element(&mut search, ber::BOOLEAN, &[0]);
    ber::element(&mut search, 0x87, b"objectClass");
    ber::nested(&mut search, ber::SEQUENCE, |out| {
        // What makes a value's time is operational at some servers.
        for name in ["*", "Mds-validfrom", "Mds-validto"] {
            ber::element(out, ber::OCTETS, name.as_bytes());
        }
    });
    answer::message(&mut out, 2, 0x63, &search, &[]);
    out
}

/// The first message in `bytes` and its length; None while it is not complete. An entry whose name is none is `Other`.
///
/// # Errors
/// `LdapError`; nothing that follows can be read either.
pub fn read_reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, LdapError> {
    if let Some(&found) = bytes.first().filter(|first| **first != ber::SEQUENCE) {
        let expected = "a sequence";
        return Err(BerError::Tag { found, expected }.into());
    }
    let Some(length) = ber::element_bytes(bytes)? else {
        return Ok(None);
    };
    if length > REPLY_MOST_BYTES {
        return Err(LdapError::TooLong { bytes: length });
    }
    let Some(message) = bytes.get(..length) else {
        return Ok(None);
    };
    let mut fields = Reader::new(message).sequence()?;
    fields.number()?;
    let (tag, content) = fields.any()?;
    let mut fields = Reader::new(content);
    let reply = match tag {
        SEARCH_ENTRY => {
            let added = request::add(fields)?;
            match Dn::parse(&added.dn) {
                Ok(dn) => Reply::Entry(Entry {
                    dn,
                    attributes: added.attributes,
                }),
                Err(_) => Reply::Other,
            }
        }
        0x61 | 0x65 => {
            let code = fields.enumerated()?;
            fields.octets()?;
            let message = request::lossy(fields.octets()?);
            Reply::Done { tag, code, message }
        }
        _ => Reply::Other,
    };
    Ok(Some((reply, length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ldap::{Answer, Request, code};

    #[test]
    fn what_is_asked_is_understood_by_a_server_and_its_answers_by_us() {
        let asked = ask_for_all("Mds-Vo-name=local, o=grid");
        let (bind, length) = crate::ldap::read(&asked).unwrap().unwrap();
        assert!(matches!(bind.request, Request::Bind(_)));
        let (search, rest) = crate::ldap::read(&asked[length..]).unwrap().unwrap();
        assert_eq!(length + rest, asked.len());
        assert!(
            matches!(search.request, Request::Search(s) if s.base == "Mds-Vo-name=local, o=grid")
        );
        let dn = Dn::default().child("Mds-Host-hn", "a");
        let entry = Entry::new(dn)
            .with("Mds-Host-hn", ["a"])
            .with("many", [1, 2]);
        let mut bytes = Vec::new();
        crate::ldap::entry(&mut bytes, 2, &entry.dn.to_string(), &entry.attributes, &[]);
        crate::ldap::done(&mut bytes, 2, 0x65, &Answer::new(code::BUSY, "later"), &[]);
        let (first, length) = read_reply(&bytes).unwrap().unwrap();
        assert_eq!(first, Reply::Entry(entry));
        let (last, _) = read_reply(&bytes[length..]).unwrap().unwrap();
        let (tag, message) = (0x65, "later".to_owned());
        assert_eq!(
            last,
            Reply::Done {
                tag,
                code: code::BUSY,
                message
            }
        );
        for cut in 0..length {
            assert_eq!(read_reply(&bytes[..cut]), Ok(None), "{cut}");
        }
    }
}

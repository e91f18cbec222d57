//! Answers, written as bytes.

use super::{SEARCH_ENTRY, oid};
use crate::ber;
use crate::entry::Attribute;

/// What an operation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// See `super::code`.
    pub code: i64,
    pub matched: String,
    pub message: String,
}

impl Answer {
    pub fn ok() -> Answer {
        Answer::new(super::code::SUCCESS, "")
    }

    pub fn new(code: i64, message: impl Into<String>) -> Answer {
        Answer {
            code,
            matched: String::new(),
            message: message.into(),
        }
    }
}

pub(super) fn message(out: &mut Vec<u8>, id: i64, tag: u8, content: &[u8], controls: &[u8]) {
    ber::nested(out, ber::SEQUENCE, |out| {
        ber::integer(out, ber::INTEGER, id);
        ber::element(out, tag, content);
        out.extend_from_slice(controls);
    });
}

fn result(answer: &Answer) -> Vec<u8> {
    let mut content = Vec::new();
    ber::integer(&mut content, ber::ENUMERATED, answer.code);
    ber::element(&mut content, ber::OCTETS, answer.matched.as_bytes());
    ber::element(&mut content, ber::OCTETS, answer.message.as_bytes());
    content
}

/// The end of an operation whose answer has this tag. `controls` come from [`control`].
pub fn done(out: &mut Vec<u8>, id: i64, tag: u8, answer: &Answer, controls: &[u8]) {
    message(out, id, tag, &result(answer), controls);
}

/// An ExtendedResponse.
pub fn extended(out: &mut Vec<u8>, id: i64, answer: &Answer, name: &str, value: Option<&[u8]>) {
    let mut content = result(answer);
    if !name.is_empty() {
        ber::element(&mut content, 0x8a, name.as_bytes());
    }
    if let Some(value) = value {
        ber::element(&mut content, 0x8b, value);
    }
    message(out, id, 0x78, &content, &[]);
}

/// Entries that are in no directory: the root DSE, the schema, entries that are gone.
pub fn entry(out: &mut Vec<u8>, id: i64, dn: &str, attributes: &[Attribute], controls: &[u8]) {
    let mut content = Vec::new();
    ber::element(&mut content, ber::OCTETS, dn.as_bytes());
    ber::nested(&mut content, ber::SEQUENCE, |out| {
        for attribute in attributes {
            ber::nested(out, ber::SEQUENCE, |out| {
                ber::element(out, ber::OCTETS, attribute.name.as_bytes());
                ber::nested(out, ber::SET, |out| {
                    for value in &attribute.values {
                        ber::element(out, ber::OCTETS, value.as_bytes());
                    }
                });
            });
        }
    });
    message(out, id, SEARCH_ENTRY, &content, controls);
}

/// One control of an answer, in the list that answers take.
pub fn control(name: &str, value: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut list = Vec::new();
    ber::nested(&mut list, 0xa0, |out| {
        ber::nested(out, ber::SEQUENCE, |out| {
            ber::element(out, ber::OCTETS, name.as_bytes());
            ber::nested(out, ber::OCTETS, |out| {
                ber::nested(out, ber::SEQUENCE, value)
            });
        });
    });
    list
}

/// The entry change notification (draft-ietf-ldapext-psearch-03, section 5).
pub fn change(kind: i64) -> Vec<u8> {
    control(oid::ENTRY_CHANGE, |out| {
        ber::integer(out, ber::ENUMERATED, kind)
    })
}

/// The paged results control of an answer (RFC 2696).
pub fn page(total: usize, cookie: &[u8]) -> Vec<u8> {
    control(oid::PAGED_RESULTS, |out| {
        ber::integer(out, ber::INTEGER, i64::try_from(total).unwrap_or(i64::MAX));
        ber::element(out, ber::OCTETS, cookie);
    })
}

//! Requests, read from their bytes. Whatever comes, the answer is a request or a named error; nothing is allocated
//! beyond the bytes that are there.

use super::filter;
use super::{CONTROLS_MOST, REQUEST_MOST_BYTES, SELECTION_MOST, oid};
use crate::ber::{self, BerError, Reader};
use crate::entry::{Attribute, Stamp};
use crate::filter::Filter;
use crate::rows::{ATTRIBUTES_MOST, VALUES_MOST};
use crate::search::Scope;

/// Why bytes are no request; the peer is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LdapError {
    #[error("this is no LDAP message: {0}")]
    Ber(#[from] BerError),
    #[error("a message of {bytes} bytes; the most is {REQUEST_MOST_BYTES}")]
    TooLong { bytes: usize },
    #[error("the message number {0} is negative or above 2147483647")]
    MessageId(i64),
    #[error("operation {tag:#04x} is no request of LDAPv3")]
    Operation { tag: u8 },
    #[error("{what} {value} is none of those that LDAP has")]
    Value { what: &'static str, value: i64 },
    #[error("the filter is nested too deep or has too many items")]
    FilterTooLarge,
    #[error("the filter has an element {tag:#04x} that is none")]
    Filter { tag: u8 },
    #[error("an attribute name cannot be used")]
    Attribute,
    #[error("more {what} than {most}")]
    TooMany { what: &'static str, most: usize },
}

/// A request with its number and controls.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestMessage {
    pub id: i64,
    pub request: Request,
    pub controls: Vec<Control>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Bind(Bind),
    Unbind,
    Search(Search),
    Compare(Compare),
    Add(Add),
    /// The number of the operation to be given up.
    Abandon(i64),
    Extended(Extended),
    /// Modify, delete, modify DN: never carried out here, so not looked into. The tag of the answer.
    Write {
        answer: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    pub version: i64,
    pub name: String,
    pub credentials: Credentials,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Whether there was a password; what it is nobody needs.
    Simple {
        password: bool,
    },
    Sasl {
        mechanism: String,
    },
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    pub base: String,
    pub scope: Scope,
    /// 0: no limit asked for.
    pub size_limit: usize,
    /// Seconds; 0: no limit asked for.
    pub time_limit_s: u64,
    pub types_only: bool,
    pub filter: Filter,
    pub attributes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    pub dn: String,
    pub attribute: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Add {
    pub dn: String,
    pub attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    pub name: String,
    pub value: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// RFC 2696.
    Paged {
        size: usize,
        cookie: Vec<u8>,
    },
    Persistent(PersistentSearch),
    ManageDsaIt,
    Other {
        name: String,
        critical: bool,
    },
}

/// draft-ietf-ldapext-psearch-03, section 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentSearch {
    /// 1 add, 2 delete, 4 modify, 8 modify DN.
    pub change_types: i64,
    pub changes_only: bool,
    pub return_controls: bool,
}

/// The first request in `bytes` and its length; None while it is not complete.
///
/// # Errors
/// `LdapError`; the connection cannot go on (RFC 4511, section 5.3).
pub fn read(bytes: &[u8]) -> Result<Option<(RequestMessage, usize)>, LdapError> {
    match bytes.first() {
        None => return Ok(None),
        Some(&ber::SEQUENCE) => {}
        Some(&found) => {
            let expected = "a sequence";
            return Err(BerError::Tag { found, expected }.into());
        }
    }
    let Some(length) = ber::element_bytes(bytes)? else {
        return Ok(None);
    };
    if length > REQUEST_MOST_BYTES {
        return Err(LdapError::TooLong { bytes: length });
    }
    let Some(message) = bytes.get(..length) else {
        return Ok(None);
    };
    let mut fields = Reader::new(message).sequence()?;
    let id = fields.number()?;
    if !(0..=i64::from(i32::MAX)).contains(&id) {
        return Err(LdapError::MessageId(id));
    }
    let (tag, content) = fields.any()?;
    let request = request(tag, content)?;
    let controls = match fields.peek() {
        Some(0xa0) => controls(fields.any()?.1)?,
        _ => Vec::new(),
    };
    // What may follow (RFC 4511, section 4: extensibility) is of no concern.
    let message = RequestMessage {
        id,
        request,
        controls,
    };
    Ok(Some((message, length)))
}

fn request(tag: u8, content: &[u8]) -> Result<Request, LdapError> {
    let mut fields = Reader::new(content);
    Ok(match tag {
        0x60 => Request::Bind(bind(fields)?),
        0x42 => Request::Unbind,
        0x63 => Request::Search(search(fields)?),
        0x66 => Request::Write { answer: 0x67 },
        0x68 => Request::Add(add(fields)?),
        0x4a => Request::Write { answer: 0x6b },
        0x6c => Request::Write { answer: 0x6d },
        0x6e => {
            let dn = fields.text()?.to_owned();
            let mut assertion = fields.sequence()?;
            Request::Compare(Compare {
                dn,
                attribute: assertion.text()?.to_owned(),
                value: lossy(assertion.octets()?),
            })
        }
        0x50 => Request::Abandon(ber::number(content)?),
        0x77 => Request::Extended(Extended {
            name: ber::text(fields.expect(0x80, "a name")?)?.to_owned(),
            value: match fields.peek() {
                Some(0x81) => Some(fields.any()?.1.to_vec()),
                _ => None,
            },
        }),
        tag => return Err(LdapError::Operation { tag }),
    })
}

fn bind(mut fields: Reader<'_>) -> Result<Bind, LdapError> {
    let version = fields.number()?;
    let name = fields.text()?.to_owned();
    let (tag, content) = fields.any()?;
    let credentials = match tag {
        0x80 => Credentials::Simple {
            password: !content.is_empty(),
        },
        0xa3 => Credentials::Sasl {
            mechanism: Reader::new(content).text()?.to_owned(),
        },
        _ => Credentials::Other,
    };
    Ok(Bind {
        version,
        name,
        credentials,
    })
}

fn search(mut fields: Reader<'_>) -> Result<Search, LdapError> {
    let base = fields.text()?.to_owned();
    let scope = match fields.enumerated()? {
        0 => Scope::Base,
        1 => Scope::One,
        2 => Scope::Subtree,
        3 => Scope::Below, // draft-sermersheim-ldap-subordinate-scope, as OpenLDAP has it
        value => {
            return Err(LdapError::Value {
                what: "scope",
                value,
            });
        }
    };
    let aliases = fields.enumerated()?;
    if !(0..=3).contains(&aliases) {
        let (what, value) = ("alias dereferencing", aliases);
        return Err(LdapError::Value { what, value });
    }
    let limit = |what, value: i64| {
        usize::try_from(value)
            .ok()
            .filter(|_| value <= i64::from(i32::MAX))
            .ok_or(LdapError::Value { what, value })
    };
    let size_limit = limit("size limit", fields.number()?)?;
    let time_limit_s = limit("time limit", fields.number()?)? as u64;
    let types_only = fields.boolean()?;
    let filter = filter::read(&mut fields)?;
    let mut names = fields.sequence()?;
    let mut attributes = Vec::new();
    while !names.is_empty() {
        if attributes.len() >= SELECTION_MOST {
            let (what, most) = ("attributes asked for", SELECTION_MOST);
            return Err(LdapError::TooMany { what, most });
        }
        attributes.push(names.text()?.to_owned());
    }
    Ok(Search {
        base,
        scope,
        size_limit,
        time_limit_s,
        types_only,
        filter,
        attributes,
    })
}

pub(super) fn add(mut fields: Reader<'_>) -> Result<Add, LdapError> {
    let dn = fields.text()?.to_owned();
    let mut list = fields.sequence()?;
    let mut attributes = Vec::new();
    while !list.is_empty() {
        if attributes.len() >= ATTRIBUTES_MOST {
            let (what, most) = ("attributes", ATTRIBUTES_MOST);
            return Err(LdapError::TooMany { what, most });
        }
        let mut attribute = list.sequence()?;
        let name = attribute.text()?.to_owned();
        let mut set = Reader::new(attribute.expect(ber::SET, "a set")?);
        let mut values = Vec::new();
        while !set.is_empty() {
            if values.len() >= VALUES_MOST {
                let (what, most) = ("values", VALUES_MOST);
                return Err(LdapError::TooMany { what, most });
            }
            values.push(lossy(set.octets()?));
        }
        attributes.push(Attribute {
            name,
            values,
            stamp: Stamp::default(),
        });
    }
    Ok(Add { dn, attributes })
}

fn controls(content: &[u8]) -> Result<Vec<Control>, LdapError> {
    let mut list = Reader::new(content);
    let mut controls = Vec::new();
    while !list.is_empty() {
        if controls.len() >= CONTROLS_MOST {
            let (what, most) = ("controls", CONTROLS_MOST);
            return Err(LdapError::TooMany { what, most });
        }
        let mut fields = list.sequence()?;
        let name = fields.text()?;
        let critical = match fields.peek() {
            Some(ber::BOOLEAN) => fields.boolean()?,
            _ => false,
        };
        let value = match fields.peek() {
            Some(ber::OCTETS) => fields.octets()?,
            _ => &[],
        };
        controls.push(match name {
            oid::PAGED_RESULTS => {
                let mut fields = Reader::new(value).sequence()?;
                let size = fields.number()?;
                let what = "page size";
                Control::Paged {
                    size: usize::try_from(size)
                        .map_err(|_| LdapError::Value { what, value: size })?,
                    cookie: fields.octets()?.to_vec(),
                }
            }
            oid::PERSISTENT_SEARCH => {
                let mut fields = Reader::new(value).sequence()?;
                Control::Persistent(PersistentSearch {
                    change_types: fields.number()?,
                    changes_only: fields.boolean()?,
                    return_controls: fields.boolean()?,
                })
            }
            oid::MANAGE_DSA_IT => Control::ManageDsaIt,
            name => Control::Other {
                name: name.to_owned(),
                critical,
            },
        });
    }
    Ok(controls)
}

/// Values are texts here; what is none is equal to nothing that is kept.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

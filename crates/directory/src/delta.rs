//! What a registrant tells an index, as bytes (spec/info, R5 to R9): changes, snapshots, heartbeats. The same bytes
//! are the file from which an index starts warm. Not here: registration itself, which is JSON (`ask`).

use crate::dn::{Dn, DnError};
use crate::entry::{Attribute, Entry, Op, Stamp};

/// Kinds of messages on a registration's stream.
pub mod kind {
    /// Number reached, then operations.
    pub const OPS: u8 = 0x30;
    /// Number at which the snapshot begins.
    pub const SNAPSHOT: u8 = 0x31;
    /// Operations of the snapshot, `Put` only.
    pub const SNAPSHOT_OPS: u8 = 0x32;
    /// Nothing follows: what was not told is gone.
    pub const SNAPSHOT_END: u8 = 0x33;
    /// The registrant's clock (ms), and the number reached.
    pub const HEARTBEAT: u8 = 0x34;
    /// JSON: the identities of all servers below the registrant.
    pub const BELOW: u8 = 0x35;
}

/// Operations of one message; a few hundred kilobytes.
pub const OPS_MOST: usize = 8192;
/// A message whole; entries are bounded at a quarter of it.
pub const MESSAGE_MOST_BYTES: usize = 4 << 20;

/// Why bytes are no delta; the registrant is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    #[error("it ends in the middle of {what}")]
    Short { what: &'static str },
    #[error("a number has more than 64 bits")]
    Number,
    #[error("{what} is not UTF-8")]
    Utf8 { what: &'static str },
    #[error("operation {0:#04x} is none")]
    Operation(u8),
    #[error("{0}")]
    Name(#[from] DnError),
    #[error("more than {OPS_MOST} operations, or {MESSAGE_MOST_BYTES} bytes")]
    TooLong,
    #[error("bytes follow the message")]
    Rest,
}

const PUT: u8 = 1;
const SET: u8 = 2;
const REMOVE: u8 = 3;

/// Appends one operation.
pub fn write(out: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Put(entry) => {
            out.push(PUT);
            write_text(out, &entry.dn.to_string());
            write_number(out, entry.attributes.len() as u64);
            for attribute in &entry.attributes {
                write_attribute(out, attribute);
            }
        }
        Op::Set { dn, attribute } => {
            out.push(SET);
            write_text(out, &dn.to_string());
            write_attribute(out, attribute);
        }
        Op::Remove { dn } => {
            out.push(REMOVE);
            write_text(out, &dn.to_string());
        }
    }
}

fn write_attribute(out: &mut Vec<u8>, attribute: &Attribute) {
    write_text(out, &attribute.name);
    write_number(out, attribute.stamp.measured_ms);
    write_number(out, u64::from(attribute.stamp.holds_ms));
    write_number(out, attribute.values.len() as u64);
    for value in &attribute.values {
        write_text(out, value);
    }
}

/// Seven bits a byte, the low ones first.
pub fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// A message of kind OPS.
pub fn write_ops(reached: u64, ops: &[Op]) -> Vec<u8> {
    let mut out = Vec::new();
    write_number(&mut out, reached);
    ops.iter().for_each(|op| write(&mut out, op));
    out
}

/// Reads a message of kind OPS: the number reached, and the operations.
///
/// # Errors
/// `DeltaError`.
pub fn read_ops(bytes: &[u8]) -> Result<(u64, Vec<Op>), DeltaError> {
    let mut reader = Reader { rest: bytes };
    let reached = reader.number("the number reached")?;
    Ok((reached, reader.ops()?))
}

/// Reads a message of kind SNAPSHOT_OPS.
///
/// # Errors
/// `DeltaError`.
pub fn read_snapshot(bytes: &[u8]) -> Result<Vec<Op>, DeltaError> {
    Reader { rest: bytes }.ops()
}

/// Reads two numbers and nothing else: a heartbeat.
///
/// # Errors
/// `DeltaError`.
pub fn read_heartbeat(bytes: &[u8]) -> Result<(u64, u64), DeltaError> {
    let mut reader = Reader { rest: bytes };
    let pair = (reader.number("the clock")?, reader.number("the number")?);
    reader.end()?;
    Ok(pair)
}

/// Reads one number and nothing else.
///
/// # Errors
/// `DeltaError`.
pub fn read_number(bytes: &[u8]) -> Result<u64, DeltaError> {
    let mut reader = Reader { rest: bytes };
    let number = reader.number("the number")?;
    reader.end()?;
    Ok(number)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self, what: &'static str) -> Result<u8, DeltaError> {
        let (first, rest) = self.rest.split_first().ok_or(DeltaError::Short { what })?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self, what: &'static str) -> Result<u64, DeltaError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let digits = u64::from(byte & 0x7f);
            if shift == 63 && digits > 1 {
                return Err(DeltaError::Number);
            }
            number |= digits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DeltaError::Number)
    }

    fn text(&mut self, what: &'static str) -> Result<&'a str, DeltaError> {
        let length = self.number(what)?;
        let length = usize::try_from(length).map_err(|_| DeltaError::Short { what })?;
        let (text, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(DeltaError::Short { what })?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| DeltaError::Utf8 { what })
    }

    fn ops(&mut self) -> Result<Vec<Op>, DeltaError> {
        if self.rest.len() > MESSAGE_MOST_BYTES {
            return Err(DeltaError::TooLong);
        }
        let mut ops = Vec::new();
        while !self.rest.is_empty() {
            if ops.len() >= OPS_MOST {
                return Err(DeltaError::TooLong);
            }
            let op = self.byte("an operation")?;
            let dn = Dn::parse(self.text("a name")?)?;
            ops.push(match op {
                PUT => {
                    let mut entry = Entry::new(dn);
                    for _ in 0..self.number("the attributes")? {
                        entry.attributes.push(self.attribute()?);
                    }
                    Op::Put(entry)
                }
                SET => Op::Set {
                    dn,
                    attribute: self.attribute()?,
                },
                REMOVE => Op::Remove { dn },
                op => return Err(DeltaError::Operation(op)),
            });
        }
        Ok(ops)
    }

    fn attribute(&mut self) -> Result<Attribute, DeltaError> {
        let name = self.text("an attribute")?.to_owned();
        let measured_ms = self.number("a time")?;
        let holds_ms = self.number("a time")?;
        let stamp = Stamp {
            measured_ms,
            holds_ms: u32::try_from(holds_ms).map_err(|_| DeltaError::Number)?,
        };
        let mut values = Vec::new();
        for _ in 0..self.number("the values")? {
            values.push(self.text("a value")?.to_owned());
        }
        Ok(Attribute {
            name,
            values,
            stamp,
        })
    }

    fn end(self) -> Result<(), DeltaError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DeltaError::Rest)
        }
    }
}

//! What a site wishes of a ferry (spec/jobs/pilots.md, PL43), as bytes. Pure.

use bytes::Bytes;

/// What the name of a pilot's place begins with.
const PILOT: &str = "pilot-";
const NUMBER_BYTES: usize = 4;

/// To be connected to the socket in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// By which the answer is known.
    pub number: u32,
    /// The place's name.
    pub name: String,
}

impl Wish {
    pub fn encode(&self) -> Bytes {
        let number = self.number.to_le_bytes();
        [&number, self.name.as_bytes()].concat().into()
    }

    /// None: it is none.
    pub fn decode(bytes: &[u8]) -> Option<Wish> {
        let (number, name) = bytes.split_at_checked(NUMBER_BYTES)?;
        let name = std::str::from_utf8(name).ok()?;
        is_place(name).then(|| Wish {
            number: u32::from_le_bytes([number[0], number[1], number[2], number[3]]),
            name: name.to_owned(),
        })
    }
}

/// The number alone, as an answer has it.
pub fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}

/// Whether this is the name of a pilot's place, or of an attempt's spool: so it leads nowhere else.
pub fn is_place(name: &str) -> bool {
    is_pilot(name) || is_attempt(name)
}

/// A job's number, and the attempt's (R1).
pub fn is_attempt(name: &str) -> bool {
    name.split_once('.')
        .is_some_and(|(job, epoch)| is_number(job) && is_number(epoch))
}

pub fn is_pilot(name: &str) -> bool {
    name.strip_prefix(PILOT).is_some_and(is_number)
}

/// As it is printed.
fn is_number(text: &str) -> bool {
    let read: Option<u64> = text.parse().ok();
    read.is_some_and(|read| read.to_string() == text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_wish_comes_back_as_it_was() {
        for name in ["7.1", "pilot-3"] {
            let name = name.to_owned();
            let wish = Wish { number: 513, name };
            assert_eq!(Wish::decode(&wish.encode()).unwrap(), wish);
        }
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_wish() {
        let names = [
            "", "..", "7", "7.1/..", "../7.1", "07.1", "pilot-", "pilot-03", "pilot-+3",
            "pilot-3/", "landing", "7.1\0",
        ];
        for name in names {
            let bytes = [&[1, 0, 0, 0], name.as_bytes()].concat();
            assert_eq!(Wish::decode(&bytes), None, "{name:?}");
        }
        assert_eq!(Wish::decode(&[1, 0, 0]), None);
        assert_eq!(number(&[1, 0, 0]), None);
    }
}

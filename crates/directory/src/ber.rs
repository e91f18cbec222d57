//! BER as LDAP uses it (RFC 4511, section 5.1): definite lengths, tags of one byte. Reads borrowed slices, allocates
//! nothing. Not here: the messages (`ldap`).

/// Why bytes are no BER; the peer is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BerError {
    #[error("an element ends after its container")]
    Short,
    #[error("a length is of a form that LDAP does not use")]
    Length,
    #[error("tag {found:#04x} stands where {expected} belongs")]
    Tag { found: u8, expected: &'static str },
    #[error("a number is empty or too large")]
    Number,
    #[error("a text is not UTF-8")]
    Utf8,
    #[error("something follows the last element of a sequence")]
    Rest,
}

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const OCTETS: u8 = 0x04;
pub const ENUMERATED: u8 = 0x0a;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// The length of the element at the beginning of `bytes`, header included; None while the header is not complete.
///
/// # Errors
/// `Length`: what cannot become one however many bytes follow.
pub fn element_bytes(bytes: &[u8]) -> Result<Option<usize>, BerError> {
    let Some(first) = bytes.get(1) else {
        return Ok(None);
    };
    if *first < 0x80 {
        return Ok(Some(2 + usize::from(*first)));
    }
    let count = usize::from(first & 0x7f);
    // 0x80 is the indefinite form, which LDAP excludes; four bytes are 4 GiB already.
    if count == 0 || count > 4 {
        return Err(BerError::Length);
    }
    let Some(digits) = bytes.get(2..2 + count) else {
        return Ok(None);
    };
    let length = digits.iter().fold(0, |n, d| (n << 8) | usize::from(*d));
    Ok(Some(2 + count + length))
}

/// Elements one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The tag of the next element.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next element, whatever it is: tag and content.
    pub fn any(&mut self) -> Result<(u8, &'a [u8]), BerError> {
        let tag = self.peek().ok_or(BerError::Short)?;
        let length = element_bytes(self.rest)?.ok_or(BerError::Short)?;
        let (element, rest) = self.rest.split_at_checked(length).ok_or(BerError::Short)?;
        let header = match element.get(1) {
            Some(first) if *first >= 0x80 => 2 + usize::from(first & 0x7f),
            _ => 2,
        };
        self.rest = rest;
        Ok((tag, element.get(header..).unwrap_or_default()))
    }

    /// The content of the next element, which must have this tag.
    pub fn expect(&mut self, tag: u8, expected: &'static str) -> Result<&'a [u8], BerError> {
        match self.peek() {
            Some(found) if found != tag => Err(BerError::Tag { found, expected }),
            _ => Ok(self.any()?.1),
        }
    }

    pub fn sequence(&mut self) -> Result<Reader<'a>, BerError> {
        Ok(Reader::new(self.expect(SEQUENCE, "a sequence")?))
    }

    pub fn octets(&mut self) -> Result<&'a [u8], BerError> {
        self.expect(OCTETS, "an octet string")
    }

    pub fn text(&mut self) -> Result<&'a str, BerError> {
        text(self.octets()?)
    }

    pub fn number(&mut self) -> Result<i64, BerError> {
        number(self.expect(INTEGER, "a number")?)
    }

    pub fn enumerated(&mut self) -> Result<i64, BerError> {
        number(self.expect(ENUMERATED, "an enumeration")?)
    }

    pub fn boolean(&mut self) -> Result<bool, BerError> {
        boolean(self.expect(BOOLEAN, "a truth value")?)
    }

    /// Nothing may follow.
    pub fn end(self) -> Result<(), BerError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(BerError::Rest)
        }
    }
}

pub fn text(bytes: &[u8]) -> Result<&str, BerError> {
    std::str::from_utf8(bytes).map_err(|_| BerError::Utf8)
}

pub fn number(bytes: &[u8]) -> Result<i64, BerError> {
    let (first, rest) = bytes.split_first().ok_or(BerError::Number)?;
    if bytes.len() > 8 {
        return Err(BerError::Number);
    }
    let first = i64::from(*first as i8);
    Ok(rest.iter().fold(first, |n, d| (n << 8) | i64::from(*d)))
}

pub fn boolean(bytes: &[u8]) -> Result<bool, BerError> {
    match bytes {
        [byte] => Ok(*byte != 0),
        _ => Err(BerError::Number),
    }
}

/// How many bytes tag and length of an element with so much content have.
pub fn header_bytes(content: usize) -> usize {
    match content {
        0..0x80 => 2,
        0x80..0x100 => 3,
        0x100..0x1_0000 => 4,
        0x1_0000..0x100_0000 => 5,
        _ => 6,
    }
}

/// Writes tag and length.
pub fn header(out: &mut Vec<u8>, tag: u8, content: usize) {
    out.push(tag);
    if content < 0x80 {
        out.push(content as u8);
        return;
    }
    let bytes = header_bytes(content) - 2;
    out.push(0x80 | bytes as u8);
    for index in (0..bytes).rev() {
        out.push((content >> (8 * index)) as u8);
    }
}

/// Writes an element.
pub fn element(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    header(out, tag, content.len());
    out.extend_from_slice(content);
}

/// Writes a number (tag INTEGER or ENUMERATED) in as few bytes as it needs.
pub fn integer(out: &mut Vec<u8>, tag: u8, number: i64) {
    let bytes = number.to_be_bytes();
    let mut from = 0;
    while let (Some(first), Some(second)) = (bytes.get(from), bytes.get(from + 1)) {
        let needless = (*first == 0 && *second < 0x80) || (*first == 0xff && *second >= 0x80);
        if !needless {
            break;
        }
        from += 1;
    }
    element(out, tag, bytes.get(from..).unwrap_or_default());
}

/// Writes an element whose content `write` appends: the length is put in afterwards.
pub fn nested(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    write(&mut content);
    element(out, tag, &content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read() {
        for (number, bytes) in [
            (0, &[2, 1, 0][..]),
            (127, &[2, 1, 127]),
            (128, &[2, 2, 0, 128]),
            (-1, &[2, 1, 255]),
            (-129, &[2, 2, 255, 127]),
            (i64::MAX, &[2, 8, 127, 255, 255, 255, 255, 255, 255, 255]),
        ] {
            let mut out = Vec::new();
            integer(&mut out, INTEGER, number);
            assert_eq!(out, bytes);
            assert_eq!(Reader::new(&out).number(), Ok(number));
        }
    }

    #[test]
    fn lengths_of_every_form_are_written_and_read() {
        for length in [0, 1, 127, 128, 255, 256, 65535, 65536] {
            let content = vec![7; length];
            let mut out = Vec::new();
            element(&mut out, OCTETS, &content);
            assert_eq!(out.len(), header_bytes(length) + length);
            assert_eq!(element_bytes(&out), Ok(Some(out.len())));
            assert_eq!(Reader::new(&out).octets(), Ok(&content[..]));
        }
    }

    #[test]
    fn what_is_no_ber_is_refused() {
        for (bytes, error) in [
            (&[][..], BerError::Short),
            (&[4], BerError::Short),
            (&[4, 2, 1], BerError::Short),
            (&[4, 0x80, 0, 0], BerError::Length),
            (&[4, 0x85, 0, 0, 0, 0, 1, 1], BerError::Length),
            (&[4, 0x84, 255, 255, 255, 255, 1], BerError::Short),
            (
                &[2, 1, 1],
                BerError::Tag {
                    found: 2,
                    expected: "an octet string",
                },
            ),
        ] {
            assert_eq!(Reader::new(bytes).octets(), Err(error), "{bytes:?}");
        }
        assert_eq!(number(&[0; 9]), Err(BerError::Number));
        assert_eq!(element_bytes(&[0x30, 0x82, 1]), Ok(None));
    }
}

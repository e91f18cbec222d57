//! A strict reader for the DER that we look into ourselves (X.690, section 10), and the few writers we need.
//!
//! Only definite lengths, one-byte tags and minimal lengths are accepted. No certificates here: see `fields`.

/// What was wrong, and at which byte of the encoding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid DER at byte {offset}: {reason}")]
pub struct DerError {
    /// Offset into the outermost encoding, in bytes.
    pub offset: usize,
    /// Which rule was broken.
    pub reason: &'static str,
}

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// A cursor over one level of an encoding; `base` keeps the offsets of errors absolute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    base: usize,
}

/// One element: its tag and its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    pub tag: u8,
    pub contents: &'a [u8],
    /// Where the contents begin.
    pub base: usize,
}

impl<'a> Element<'a> {
    pub fn reader(&self) -> Reader<'a> {
        Reader {
            rest: self.contents,
            base: self.base,
        }
    }

    pub fn error(&self, reason: &'static str) -> DerError {
        DerError {
            offset: self.base,
            reason,
        }
    }
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader {
            rest: bytes,
            base: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn error(&self, reason: &'static str) -> DerError {
        DerError {
            offset: self.base,
            reason,
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DerError> {
        match self.rest.split_at_checked(count) {
            Some((head, tail)) => {
                self.rest = tail;
                self.base += count;
                Ok(head)
            }
            None => Err(self.error("ends too early")),
        }
    }

    fn byte(&mut self) -> Result<u8, DerError> {
        match self.take(1)? {
            [byte] => Ok(*byte),
            _ => Err(self.error("ends too early")),
        }
    }

    /// The tag of the next element, if there is one.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub fn next(&mut self) -> Result<Element<'a>, DerError> {
        let tag = self.byte()?;
        if tag & 0x1f == 0x1f {
            return Err(self.error("tag of more than one byte"));
        }
        let first = self.byte()?;
        let length = if first < 0x80 {
            usize::from(first)
        } else {
            let count = usize::from(first & 0x7f);
            // Four bytes of length reach 4 GiB, far beyond any certificate.
            if count == 0 || count > 4 {
                return Err(self.error("indefinite or oversized length"));
            }
            let bytes = self.take(count)?;
            let length = bytes.iter().fold(0usize, |n, b| (n << 8) | usize::from(*b));
            if length < 0x80 || bytes.first() == Some(&0) {
                return Err(self.error("length not in its shortest form"));
            }
            length
        };
        let base = self.base;
        let contents = self.take(length)?;
        Ok(Element {
            tag,
            contents,
            base,
        })
    }

    pub fn expect(&mut self, tag: u8, reason: &'static str) -> Result<Element<'a>, DerError> {
        if self.peek() == Some(tag) {
            self.next()
        } else {
            Err(self.error(reason))
        }
    }

    /// The next element if it has this tag; for OPTIONAL and DEFAULT fields.
    pub fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, DerError> {
        if self.peek() == Some(tag) {
            self.next().map(Some)
        } else {
            Ok(None)
        }
    }

    pub fn finish(&self, reason: &'static str) -> Result<(), DerError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.error(reason))
        }
    }
}

/// Object identifier in dotted form.
pub(crate) fn oid(element: &Element<'_>) -> Result<String, DerError> {
    if element.tag != OID || element.contents.is_empty() {
        return Err(element.error("expected an object identifier"));
    }
    let mut arcs: Vec<u64> = Vec::new();
    let mut value: u64 = 0;
    let mut open = false;
    for byte in element.contents {
        if !open && *byte == 0x80 {
            return Err(element.error("object identifier not in its shortest form"));
        }
        if value >> 57 != 0 {
            return Err(element.error("object identifier with an arc beyond 64 bits"));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        open = byte & 0x80 != 0;
        if !open {
            if arcs.is_empty() {
                let top = (value / 40).min(2);
                arcs.push(top);
                value -= top * 40;
            }
            arcs.push(value);
            value = 0;
        }
    }
    if open {
        return Err(element.error("object identifier ends too early"));
    }
    Ok(arcs
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join("."))
}

/// A non-negative integer that fits 32 bits.
pub(crate) fn small_unsigned(element: &Element<'_>) -> Result<u32, DerError> {
    let bytes = match element.contents {
        [] => return Err(element.error("integer without bytes")),
        [first, ..] if first & 0x80 != 0 => return Err(element.error("negative integer")),
        [0, rest @ ..] => {
            if rest.first().is_some_and(|b| b & 0x80 == 0) {
                return Err(element.error("integer not in its shortest form"));
            }
            rest
        }
        all => all,
    };
    if bytes.len() > 4 {
        return Err(element.error("integer beyond 32 bits"));
    }
    Ok(bytes.iter().fold(0, |n, b| (n << 8) | u32::from(*b)))
}

/// One element from a tag and its contents.
pub(crate) fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = contents.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let skip = bytes.iter().take_while(|b| **b == 0).count();
        let bytes = &bytes[skip..];
        out.push(0x80 | bytes.len() as u8);
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(contents);
    out
}

/// An object identifier from its dotted form; our own constants only, so wrong ones are left out by the tests.
pub(crate) fn write_oid(dotted: &str) -> Vec<u8> {
    let arcs: Vec<u64> = dotted.split('.').filter_map(|a| a.parse().ok()).collect();
    let mut contents = Vec::new();
    let mut push = |mut value: u64| {
        let mut bytes = vec![(value & 0x7f) as u8];
        value >>= 7;
        while value != 0 {
            bytes.push(0x80 | (value & 0x7f) as u8);
            value >>= 7;
        }
        bytes.reverse();
        contents.extend_from_slice(&bytes);
    };
    if let [first, second, rest @ ..] = arcs.as_slice() {
        push(first * 40 + second);
        rest.iter().for_each(|arc| push(*arc));
    }
    element(OID, &contents)
}

/// A non-negative integer.
pub(crate) fn write_unsigned(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let skip = bytes.iter().take_while(|b| **b == 0).count().min(7);
    let mut contents = bytes[skip..].to_vec();
    if contents.first().is_some_and(|b| b & 0x80 != 0) {
        contents.insert(0, 0);
    }
    element(INTEGER, &contents)
}

/// How many bytes the first element of `bytes` takes, for encodings that stand one after another.
pub(crate) fn first_element_bytes(bytes: &[u8]) -> Result<usize, DerError> {
    let mut reader = Reader::new(bytes);
    reader.next()?;
    Ok(reader.base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_identifiers_survive_the_way_there_and_back() {
        for dotted in [
            "1.3.6.1.4.1.3536.1.1.1.9",
            "2.5.4.3",
            "2.999.1",
            "1.2.840.113549.1.9.1",
        ] {
            let bytes = write_oid(dotted);
            let element = Reader::new(&bytes).next().unwrap();
            assert_eq!(oid(&element).unwrap(), dotted);
        }
    }

    #[test]
    fn integers_survive_the_way_there_and_back() {
        for value in [0u32, 1, 127, 128, 255, 256, 65_535, u32::MAX] {
            let bytes = write_unsigned(u64::from(value));
            let element = Reader::new(&bytes).next().unwrap();
            assert_eq!(small_unsigned(&element).unwrap(), value);
        }
    }

    #[test]
    fn what_is_not_strict_der_is_refused() {
        let rows: &[(&[u8], &str)] = &[
            (&[0x30], "ends too early"),
            (&[0x30, 0x80, 0, 0], "indefinite or oversized length"),
            (&[0x30, 0x81, 0x01, 0], "length not in its shortest form"),
            (&[0x3f, 0x81, 0x01, 0], "tag of more than one byte"),
            (&[0x04, 0x05, 1, 2], "ends too early"),
        ];
        for (bytes, reason) in rows {
            assert_eq!(Reader::new(bytes).next().unwrap_err().reason, *reason);
        }
    }
}

//! Tokens of GSI (spec/gram G1 to G3): records of TLS, with or without a length before each flight of them. The clients of
//! the Globus Toolkit put one before what they send until the context stands; others do not. Here it is taken off.

/// A length is below this (tokens_f.c of gss_assist: the first byte must be zero).
pub const MAX_TOKEN_BYTES: u32 = 1 << 24;

const RECORD_HEADER_BYTES: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("what came is neither a TLS record nor the length of a GSI token: {header:02x?}")]
    NoToken { header: [u8; 4] },
    #[error("a GSI token of {bytes} bytes; at most {MAX_TOKEN_BYTES} are taken")]
    TooLong { bytes: u32 },
    #[error("a GSI token of no bytes")]
    Empty,
}

/// Takes the lengths out of a stream of tokens. What is left are TLS's own bytes.
#[derive(Debug, Default)]
pub struct Tokens {
    /// The first bytes of a header that has not come whole yet.
    held: Vec<u8>,
    /// Of the record or the token that is being passed on.
    left: usize,
}

impl Tokens {
    /// In the middle of a record, a token or a header.
    pub fn is_within(&self) -> bool {
        self.left > 0 || !self.held.is_empty()
    }

    /// Passes on what of `bytes` is TLS's own. A header that is not whole is held until more comes.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TokenError> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (now, rest) = bytes.split_at(self.left.min(bytes.len()));
                out.extend_from_slice(now);
                self.left -= now.len();
                bytes = rest;
                continue;
            }
            let wanted = if is_record(&self.held) {
                RECORD_HEADER_BYTES
            } else {
                4
            };
            // `settle` leaves fewer than are wanted.
            let missing = wanted.saturating_sub(self.held.len());
            let (now, rest) = bytes.split_at(missing.min(bytes.len()));
            self.held.extend_from_slice(now);
            bytes = rest;
            self.settle(out)?;
        }
        Ok(())
    }

    /// Acts on a header that is whole.
    fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), TokenError> {
        let &[a, b, c, d, ref more @ ..] = self.held.as_slice() else {
            return Ok(());
        };
        if is_record(&self.held) {
            if let [e, ..] = more {
                self.left = usize::from(u16::from_be_bytes([d, *e]));
                out.append(&mut self.held);
            }
            return Ok(());
        }
        let bytes = u32::from_be_bytes([a, b, c, d]);
        if a >= 20 {
            let header = [a, b, c, d];
            return Err(TokenError::NoToken { header });
        }
        if bytes >= MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong { bytes });
        }
        if bytes == 0 {
            return Err(TokenError::Empty);
        }
        self.held.clear();
        self.left = usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(())
    }
}

/// Content types of TLS are 20 to 26, and its versions begin with 3 (RFC 8446, section 5.1).
fn is_record(header: &[u8]) -> bool {
    matches!(header, [20..=26, 3, ..])
}

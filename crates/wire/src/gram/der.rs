//! How long a certificate is, by its first bytes (X.690 8.1.3): in GRAM's streams certificates follow each other without
//! lengths of their own (spec/gram G4). Not here: what is in one (kumiko-identity).

/// The bytes begin no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came begins no certificate in DER")]
pub struct NoCertificate;

/// Sequence, constructed: what every certificate begins with.
const SEQUENCE: u8 = 0x30;

/// Of the certificate at the beginning, with its header; None: the header has not come whole.
pub fn certificate_length(bytes: &[u8]) -> Result<Option<usize>, NoCertificate> {
    match bytes {
        [] | [SEQUENCE] => Ok(None),
        [SEQUENCE, short @ 0..=0x7f, ..] => Ok(Some(2 + usize::from(*short))),
        [SEQUENCE, 0x81, rest @ ..] => Ok(rest.first().map(|a| 3 + usize::from(*a))),
        [SEQUENCE, 0x82, rest @ ..] => match rest {
            [a, b, ..] => Ok(Some(4 + usize::from(u16::from_be_bytes([*a, *b])))),
            _ => Ok(None),
        },
        [SEQUENCE, 0x83, rest @ ..] => match rest {
            [a, b, c, ..] => {
                let length = u32::from_be_bytes([0, *a, *b, *c]);
                let length = usize::try_from(length).map_err(|_| NoCertificate)?;
                Ok(Some(5 + length))
            }
            _ => Ok(None),
        },
        _ => Err(NoCertificate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_known_once_its_header_is_whole() {
        type Row<'a> = (&'a [u8], Result<Option<usize>, NoCertificate>);
        let rows: &[Row<'_>] = &[
            (b"", Ok(None)),
            (b"\x30", Ok(None)),
            (b"\x30\x05", Ok(Some(7))),
            (b"\x30\x81", Ok(None)),
            (b"\x30\x81\xf0", Ok(Some(243))),
            (b"\x30\x82\x03", Ok(None)),
            (b"\x30\x82\x03\x70", Ok(Some(884))),
            (b"\x30\x83\x01\x00\x00", Ok(Some(65541))),
            (b"\x30\x80", Err(NoCertificate)),
            (b"\x30\x84\x00\x00\x00\x01", Err(NoCertificate)),
            (b"POST /", Err(NoCertificate)),
            (b"\0", Err(NoCertificate)),
        ];
        for (bytes, length) in rows {
            assert_eq!(certificate_length(bytes), *length, "{bytes:?}");
        }
    }
}

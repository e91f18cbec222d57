//! What the site says among the answers to a host's kernel, as messages that no kernel would be sent: of the chunks of a big file, before
//! they are read, their digests, by which the host may have them already (spec/jobs/pilots.md, PL57); and that what is not used is to be
//! forgotten (PL54), which is a head and nothing else.

use sha2::{Digest, Sha256};

/// Files that are smaller are read from the site.
pub const CHUNK_BYTES: u64 = 1 << 20;
pub const DIGEST_BYTES: usize = 32;
/// Of one notice.
pub const MOST_CHUNKS: usize = 16;

/// In the place of a notification's number (linux/fuse.h, `fuse_notify_code`).
const CODE: u32 = 0x6b75_6d69;
const HEAD_BYTES: usize = 48;
/// That the kernel is to forget what it does not use.
pub const FORGET: [u8; 16] = {
    let (length, code) = (16_u32.to_ne_bytes(), CODE.to_ne_bytes());
    let [l0, l1, l2, l3] = length;
    let [c0, c1, c2, c3] = code;
    [l0, l1, l2, l3, c0, c1, c2, c3, 0, 0, 0, 0, 0, 0, 0, 0]
};

pub type Sum = [u8; DIGEST_BYTES];

pub fn sum(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}

/// Of a file that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub handle: u64,
    /// The number of its node.
    pub node: u64,
    /// Of the whole file, in bytes.
    pub size: u64,
    /// Which chunk the first digest is of.
    pub first: u64,
    pub sums: Vec<Sum>,
}

impl Notice {
    /// None: it is an answer, or a notice that is wrong.
    pub fn read(message: &[u8]) -> Option<Notice> {
        if !is_notice(message) {
            return None;
        }
        let sums = message.get(HEAD_BYTES..)?.chunks_exact(DIGEST_BYTES);
        let rest = sums.remainder();
        let sums: Vec<Sum> = sums.filter_map(|sum| sum.try_into().ok()).collect();
        let right = rest.is_empty() && sums.len() <= MOST_CHUNKS;
        let notice = Notice {
            handle: word(message, 16)?,
            node: word(message, 24)?,
            size: word(message, 32)?,
            first: word(message, 40)?,
            sums,
        };
        let length = usize::try_from(half(message, 0)?).ok()?;
        let last = notice.first.checked_add(notice.sums.len() as u64)?;
        let fits = last <= notice.size.div_ceil(CHUNK_BYTES);
        (right && fits && length == message.len()).then_some(notice)
    }

    pub fn write(&self) -> Vec<u8> {
        let length = HEAD_BYTES + self.sums.len() * DIGEST_BYTES;
        let mut message = Vec::with_capacity(length);
        // No notice is as long as that.
        message.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
        message.extend(CODE.to_ne_bytes());
        for word in [0, self.handle, self.node, self.size, self.first] {
            message.extend(word.to_ne_bytes());
        }
        message.extend(self.sums.as_flattened());
        message
    }
}

/// Whether this is not for the kernel.
pub fn is_notice(message: &[u8]) -> bool {
    half(message, 4) == Some(CODE) && word(message, 8) == Some(0)
}

/// A kernel's words are in its machine's order.
pub fn word(message: &[u8], at: usize) -> Option<u64> {
    let bytes = message.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_ne_bytes(bytes))
}

pub fn half(message: &[u8], at: usize) -> Option<u32> {
    let bytes = message.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    fn notice() -> Notice {
        Notice {
            handle: 7,
            node: 8,
            size: 2 * CHUNK_BYTES + 5,
            first: 1,
            sums: vec![sum(b"one"), sum(b"other")],
        }
    }

    #[test]
    fn a_notice_comes_back_as_it_was() {
        assert_eq!(Notice::read(&notice().write()), Some(notice()));
    }

    #[test]
    fn what_is_no_notice_or_one_of_no_file_is_none() {
        let right = notice().write();
        for length in 0..right.len() {
            assert_eq!(Notice::read(&right[..length]), None, "{length}");
        }
        assert!(is_notice(&FORGET));
        assert_eq!(Notice::read(&FORGET), None);
        let longer = [right.as_slice(), &[0]].concat();
        assert_eq!(Notice::read(&longer), None);
        // An answer, and a notification of a kernel's own.
        assert!(!is_notice(&[
            16, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0
        ]));
        assert!(!is_notice(&[
            16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        ]));
        for wrong in [
            Notice {
                first: 2,
                ..notice()
            },
            Notice {
                first: u64::MAX,
                ..notice()
            },
            Notice {
                size: CHUNK_BYTES,
                ..notice()
            },
            Notice {
                size: u64::MAX,
                first: 0,
                sums: vec![sum(b""); MOST_CHUNKS + 1],
                ..notice()
            },
        ] {
            assert_eq!(Notice::read(&wrong.write()), None, "{wrong:?}");
        }
    }
}

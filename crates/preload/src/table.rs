//! The places of a view as a guest looks them up: two indices of the same slots, by place and by path on the host. Made
//! by the supervisor, read in guests, which cannot change it. Not in it: links and `..`, which are asked for.
//!
//! A slot is found by the 64-bit hash of its path, never compared: the maker sees to it that no two of its own collide.
//! Paths have no zero byte in them.

use core::ops::Range;

/// Asked for: the supervisor alone knows what stands there.
pub const ASK: u32 = 1;
pub const WRITABLE: u32 = 2;
/// It may hold devices that are not to be opened (no `nodev`).
pub const DEVICES: u32 = 4;
/// Its path on the host is that of another place too.
pub const AMBIGUOUS: u32 = 8;
/// What lies there is not executed.
pub const NOT_EXECUTED: u32 = 16;

/// Odd, with bits everywhere (of the golden ratio): words are mixed into a hash by multiplication.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const BASIS: u64 = FACTOR;

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(FACTOR).rotate_left(29)
}

/// Hashes a path without `//`, `/.` and closing slash: its words of eight bytes, and what is left, filled up with
/// zeros.
struct Hasher {
    hash: u64,
    word: u64,
    bits: u32,
}

impl Hasher {
    fn new() -> Hasher {
        Hasher {
            hash: BASIS,
            word: 0,
            bits: 0,
        }
    }

    fn push(&mut self, byte: u8) {
        self.word |= u64::from(byte) << self.bits;
        self.bits += 8;
        if self.bits == u64::BITS {
            *self = Hasher {
                hash: mix(self.hash, self.word),
                ..Hasher::new()
            };
        }
    }

    /// Of what came so far.
    fn told(&self) -> u64 {
        mix(self.hash, self.word)
    }
}

/// The high bits of the bytes that are this one.
#[inline]
fn places_of(byte: u8, word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    let apart = word ^ u64::from_ne_bytes([byte; 8]);
    !(((apart & LOW) + LOW) | apart | LOW)
}

/// Words of 32 bits at the begin: bits of the first index, where it lies, longest path in it; the same of the second.
const HALF_HEAD_BYTES: usize = 12;
const SLOT_BYTES: usize = 32;
const SLOT_REAL: usize = 8;
const SLOT_PLACE: usize = 16;
const SLOT_FLAGS: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    Place,
    Real,
}

/// A mount: what it is, and where the table says the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub flags: u32,
    begin: usize,
}

/// The slot that a path is in, how many bytes of the path name it, and the hash of all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub slot: Slot,
    pub named: usize,
    pub hash: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Table<'a>(&'a [u8]);

impl<'a> Table<'a> {
    pub fn new(bytes: &'a [u8]) -> Table<'a> {
        Table(bytes)
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    #[inline]
    fn number(&self, at: usize) -> Option<usize> {
        self.word(at).map(|word| word as usize)
    }

    /// Where a text of the slot stands.
    #[inline]
    fn range(&self, slot: &Slot, which: usize) -> Option<Range<usize>> {
        let begin = self.number(slot.begin + which)?;
        Some(begin..begin.checked_add(self.number(slot.begin + which + 4)?)?)
    }

    /// The path on the host; of the root it is empty.
    #[inline(always)]
    pub fn real(&self, slot: &Slot) -> Option<&'a [u8]> {
        self.0.get(self.range(slot, SLOT_REAL)?)
    }

    /// The place; of the root it is empty.
    pub fn place(&self, slot: &Slot) -> Option<&'a [u8]> {
        self.0.get(self.range(slot, SLOT_PLACE)?)
    }

    /// Are both the same mount, by whichever index?
    pub fn is_same(&self, one: &Slot, other: &Slot) -> bool {
        let place = self.range(one, SLOT_PLACE);
        place.is_some() && place == self.range(other, SLOT_PLACE)
    }

    #[inline]
    fn slots(&self, index: Index) -> Option<Slots<'a>> {
        let head = match index {
            Index::Place => 0,
            Index::Real => HALF_HEAD_BYTES,
        };
        let head = Table(self.0.get(head..head + HALF_HEAD_BYTES)?);
        let bits = head.word(0).filter(|bits| (1..32).contains(bits))?;
        let (begin, longest) = (head.number(4)?, head.number(8)?);
        let bytes = self.0.get(begin..begin + (SLOT_BYTES << bits))?;
        Some(Slots {
            bytes,
            begin,
            bits,
            longest,
        })
    }

    /// The slot of the longest path in the index that an absolute path begins with. None: there is none, or the path
    /// has a `..` in it.
    #[inline]
    pub fn deepest(&self, index: Index, path: &[u8]) -> Option<Found> {
        if path.first() != Some(&b'/') {
            return None;
        }
        let slots = self.slots(index)?;
        slots
            .deepest(path)
            .unwrap_or_else(|| slots.deepest_of(path))
    }
}

/// One index.
struct Slots<'a> {
    bytes: &'a [u8],
    /// Where they begin in the table.
    begin: usize,
    bits: u32,
    /// Bytes of the longest path.
    longest: usize,
}

impl Slots<'_> {
    #[inline]
    fn find(&self, hash: u64) -> Option<Slot> {
        let mut index = first(hash, self.bits);
        loop {
            let begin = index * SLOT_BYTES;
            let slot = self.bytes.get(begin..begin + SLOT_BYTES)?;
            let found = u64::from_le_bytes(slot.get(..8)?.try_into().ok()?);
            // Before the comparison: a guest may have a path whose hash is that of an empty slot.
            if found == 0 {
                return None;
            }
            if found == hash {
                let flags = slot.get(SLOT_FLAGS..SLOT_FLAGS + 4)?;
                return Some(Slot {
                    flags: u32::from_le_bytes(flags.try_into().ok()?),
                    begin: self.begin + begin,
                });
            }
            index = (index + 1) & ((1 << self.bits) - 1);
        }
    }

    fn root(&self) -> Option<(Slot, usize)> {
        self.find(Hasher::new().told()).map(|slot| (slot, 0))
    }

    /// Eight bytes at a time, as the path was copied a moment ago: to be read in other pieces, it would have to reach memory
    /// first. None: the path is not written as [`Hasher`] needs it.
    #[inline]
    fn deepest(&self, path: &[u8]) -> Option<Option<Found>> {
        let mut words = path.chunks_exact(8);
        let rest = words.remainder();
        let fold = |word, byte: &u8| (word << 8) | u64::from(*byte);
        let last = rest.iter().rev().fold(0, fold);
        let mut best = None;
        let (mut hash, mut at, mut after_slash) = (BASIS, 0, 0);
        // No name ends at the first slash.
        let mut first = 0x80;
        loop {
            let (word, end) = match words.next() {
                Some(eight) => (u64::from_le_bytes(eight.try_into().ok()?), 0),
                None => (last, 0x80 << (8 * rest.len())),
            };
            // Where names end: at a slash, and at the end.
            let mut ends = places_of(b'/', word) | end;
            let begins = (ends << 8) | after_slash;
            if begins & (ends | places_of(b'.', word)) != 0 {
                return None;
            }
            after_slash = ends >> 56;
            ends ^= first;
            first = 0;
            while ends != 0 {
                let bits = ends.trailing_zeros() & !7;
                ends &= ends - 1;
                let named = at + bits as usize / 8;
                let hash = mix(hash, word & ((1 << bits) - 1));
                if named <= self.longest {
                    best = self.find(hash).map(|slot| (slot, named)).or(best);
                }
                if ends == 0 && end != 0 {
                    let best = best.or_else(|| self.root());
                    return Some(best.map(|(slot, named)| Found { slot, named, hash }));
                }
            }
            hash = mix(hash, word);
            at += 8;
        }
    }

    /// Name by name, however they are written.
    #[inline(never)]
    fn deepest_of(&self, path: &[u8]) -> Option<Found> {
        let mut hasher = Hasher::new();
        let mut best = self.root();
        let mut at = 0;
        while let Some(byte) = path.get(at) {
            if *byte == b'/' {
                at += 1;
                continue;
            }
            let rest = path.get(at..)?;
            let count = rest.iter().position(|byte| *byte == b'/');
            let name = rest.get(..count.unwrap_or(rest.len()))?;
            at += name.len();
            match name {
                b"." => continue,
                b".." => return None,
                _ => {}
            }
            hasher.push(b'/');
            for byte in name {
                hasher.push(*byte);
            }
            best = self.find(hasher.told()).map(|slot| (slot, at)).or(best);
        }
        let hash = hasher.told();
        best.map(|(slot, named)| Found { slot, named, hash })
    }
}

/// Where the search for a hash begins.
#[inline]
fn first(hash: u64, bits: u32) -> usize {
    (hash >> (u64::BITS - bits)) as usize
}

#[cfg(not(kumiko_guest))]
mod make {
    use super::{AMBIGUOUS, HALF_HEAD_BYTES, Hasher, SLOT_BYTES, first};

    /// A mount of a view. Paths are absolute, without links, `.`, `..` and closing slash.
    #[derive(Clone, Debug)]
    pub struct Mount {
        pub place: Vec<u8>,
        pub real: Vec<u8>,
        pub flags: u32,
    }

    fn hash(path: &[u8]) -> u64 {
        let mut hasher = Hasher::new();
        for byte in path {
            hasher.push(*byte);
        }
        hasher.told()
    }

    /// The table of these mounts; None where two paths cannot be told apart by their hashes.
    pub fn make(mounts: &[Mount]) -> Option<Vec<u8>> {
        let root = |path: &[u8]| -> Vec<u8> {
            if path == b"/" {
                Vec::new()
            } else {
                path.to_vec()
            }
        };
        let mounts: Vec<Mount> = mounts
            .iter()
            .map(|mount| Mount {
                place: root(&mount.place),
                real: root(&mount.real),
                flags: mount.flags,
            })
            .collect();
        let bits = (mounts.len() * 2 + 1)
            .next_power_of_two()
            .max(2)
            .trailing_zeros();
        let index_bytes = SLOT_BYTES << bits;
        let head = 2 * HALF_HEAD_BYTES;
        let mut bytes = vec![0; head + 2 * index_bytes];
        let mut slots = Vec::new();
        for mount in &mounts {
            let put = |bytes: &mut Vec<u8>, path: &[u8]| {
                let at = bytes.len();
                bytes.extend(path);
                [at as u32, path.len() as u32]
            };
            let (real, place) = (put(&mut bytes, &mount.real), put(&mut bytes, &mount.place));
            slots.push([real, place]);
        }
        let indices: [fn(&Mount) -> &Vec<u8>; 2] = [|mount| &mount.place, |mount| &mount.real];
        for (which, path) in indices.into_iter().enumerate() {
            let at = head + which * index_bytes;
            let longest = mounts.iter().map(|mount| path(mount).len()).max();
            let words = [bits, at as u32, longest.unwrap_or(0) as u32];
            for (number, word) in words.into_iter().enumerate() {
                let begin = which * HALF_HEAD_BYTES + number * 4;
                bytes
                    .get_mut(begin..begin + 4)?
                    .copy_from_slice(&word.to_le_bytes());
            }
            let hashes: Vec<u64> = mounts.iter().map(|mount| hash(path(mount))).collect();
            for ((mount, slot), hash) in mounts.iter().zip(&slots).zip(&hashes) {
                let equal = mounts.iter().zip(&hashes);
                let equal = equal.filter(|(_, other)| *other == hash);
                let (same, others): (Vec<_>, Vec<_>) =
                    equal.partition(|(other, _)| path(other) == path(mount));
                if *hash == 0 || !others.is_empty() {
                    return None;
                }
                let flags = mount.flags | if same.len() > 1 { AMBIGUOUS } else { 0 };
                let mut index = first(*hash, bits);
                let free = loop {
                    let begin = at + index * SLOT_BYTES;
                    let there = bytes.get(begin..begin + 8)?;
                    if there == [0; 8] || there == hash.to_le_bytes() {
                        break begin;
                    }
                    index = (index + 1) & ((1 << bits) - 1);
                };
                let words = slot.iter().flatten().copied().chain([flags, 0]);
                let row: Vec<u8> = hash
                    .to_le_bytes()
                    .into_iter()
                    .chain(words.flat_map(u32::to_le_bytes))
                    .collect();
                bytes
                    .get_mut(free..free + SLOT_BYTES)?
                    .copy_from_slice(&row);
            }
        }
        Some(bytes)
    }
}
#[cfg(not(kumiko_guest))]
pub use make::{Mount, make};

#[cfg(all(test, not(kumiko_guest)))]
mod tests {
    use super::*;

    #[test]
    fn a_path_whose_hash_is_that_of_an_empty_slot_is_in_none() {
        let bytes = make(&[]).expect("nothing collides");
        let slots = Table::new(&bytes).slots(Index::Place).expect("an index");
        assert_eq!(slots.find(0), None);
    }

    #[test]
    fn by_words_or_by_names_the_same_is_found() {
        let mount = |place: &[u8]| Mount {
            place: place.to_vec(),
            real: place.to_vec(),
            flags: 0,
        };
        let places: [&[u8]; 6] = [
            b"/",
            b"/a",
            b"/a/a",
            b"/aaaaaaa",
            b"/a.a/a..aa",
            b"/aaaaaa/a/a",
        ];
        let bytes = make(&places.map(mount)).expect("their hashes differ");
        let slots = Table::new(&bytes).slots(Index::Place).expect("an index");
        let check = |path: &[u8]| {
            let plain = !path.windows(2).any(|two| two == b"//" || two == b"/.");
            let by_words = slots.deepest(path);
            let text = String::from_utf8_lossy(path);
            assert_eq!(by_words.is_some(), plain && !path.ends_with(b"/"), "{text}");
            let by_names = slots.deepest_of(path);
            assert_eq!(by_words.unwrap_or(by_names), by_names, "{text}");
        };
        // All paths of nine bytes and fewer, and with some before them.
        for count in 1..=8 {
            for number in 0..3_usize.pow(count) {
                let byte = |place| *b"/.a".get(number / 3_usize.pow(place) % 3).unwrap_or(&0);
                let path: Vec<u8> = (0..count).map(byte).collect();
                for begin in ["/", "/a", "/aaaaa", "/a/a/a", "/aaaaaa/", "/a.a/a..a"] {
                    check(&[begin.as_bytes(), &path].concat());
                }
            }
        }
    }
}

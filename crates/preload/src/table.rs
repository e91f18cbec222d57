//! The places of a view as a guest looks them up: two indices of the same slots, by place and by path on the host. Made
//! by the supervisor, read in guests, which cannot change it. Not in it: links and `..`, which are asked for.
//!
//! A slot is found by the 64-bit hash of its path, never compared: the maker sees to it that no two of its own collide.
//! Paths have no zero byte in them.

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

/// One name of a path: where it ends, its hash on top of what was before it, and its last word of eight bytes or less.
struct Name {
    end: usize,
    hash: u64,
    last: u64,
}

/// The name that begins there, eight bytes at a time.
#[inline]
fn name(path: &[u8], begin: usize, before: u64) -> Name {
    const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let mut hash = before.wrapping_add(SLASHES);
    let mut end = begin;
    loop {
        let eight = path
            .get(end..end + 8)
            .and_then(|eight| eight.try_into().ok());
        let word = match eight {
            Some(eight) => u64::from_le_bytes(eight),
            // The rest, and a slash behind it.
            None => {
                let rest = path.get(end..).unwrap_or_default();
                let slash = u64::from(b'/') << (8 * rest.len());
                rest.iter()
                    .rev()
                    .fold(0, |word, byte| (word << 8) | u64::from(*byte))
                    | slash
            }
        };
        // The lowest byte that is a slash has its high bit set here; what is above it does not matter.
        let apart = word ^ SLASHES;
        let found = apart.wrapping_sub(ONES) & !apart & HIGH;
        if found == 0 {
            hash = mix(hash, word);
            end += 8;
            continue;
        }
        let bits = found.trailing_zeros() & !7;
        let last = word & ((1 << bits) - 1);
        return Name {
            end: end + bits as usize / 8,
            hash: mix(hash, last),
            last,
        };
    }
}

/// Words of 32 bits at the begin: bits of the first index, where it lies, longest path in it; the same of the second.
const HALF_HEAD_BYTES: usize = 12;
const SLOT_BYTES: usize = 32;
const SLOT_HASH: usize = 0;
const SLOT_REAL: usize = 8;
const SLOT_PLACE: usize = 16;
const SLOT_FLAGS: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    Place,
    Real,
}

/// A mount: where its paths stand in the table, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub flags: u32,
    real: (usize, usize),
    place: (usize, usize),
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

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    fn number(&self, at: usize) -> Option<usize> {
        self.word(at).map(|word| word as usize)
    }

    /// The path on the host; of the root it is empty.
    pub fn real(&self, slot: &Slot) -> Option<&'a [u8]> {
        self.0
            .get(slot.real.0..slot.real.0.checked_add(slot.real.1)?)
    }

    /// The place; of the root it is empty.
    pub fn place(&self, slot: &Slot) -> Option<&'a [u8]> {
        self.0
            .get(slot.place.0..slot.place.0.checked_add(slot.place.1)?)
    }

    /// The slot of the longest path in the index that an absolute path begins with. None: there is none, or the path
    /// has a `..` in it.
    #[inline]
    pub fn deepest(&self, index: Index, path: &[u8]) -> Option<Found> {
        let head = match index {
            Index::Place => 0,
            Index::Real => HALF_HEAD_BYTES,
        };
        let (bits, at, longest) = (
            self.word(head)?,
            self.number(head + 4)?,
            self.number(head + 8)?,
        );
        if path.first() != Some(&b'/') {
            return None;
        }
        let mut hash = BASIS;
        let mut best = self.find(bits, at, hash).map(|slot| (slot, 0));
        let (mut count, mut next) = (0, 0);
        while let Some(byte) = path.get(next) {
            if *byte == b'/' {
                next += 1;
                continue;
            }
            let begin = next;
            let name = name(path, begin, hash);
            next = name.end;
            match (next - begin, name.last) {
                (1, DOT) => continue,
                (2, TWO_DOTS) => return None,
                _ => {}
            }
            hash = name.hash;
            count += 1 + next - begin;
            if count <= longest {
                if let Some(slot) = self.find(bits, at, hash) {
                    best = Some((slot, next));
                }
            }
        }
        best.map(|(slot, named)| Found { slot, named, hash })
    }

    #[inline]
    fn find(&self, bits: u32, at: usize, hash: u64) -> Option<Slot> {
        let count = 1usize.checked_shl(bits)?;
        let mut index = first(hash, bits);
        loop {
            let begin = at.checked_add(index.checked_mul(SLOT_BYTES)?)?;
            let slot = self.0.get(begin..begin.checked_add(SLOT_BYTES)?)?;
            let found = u64::from_le_bytes(slot.get(SLOT_HASH..SLOT_HASH + 8)?.try_into().ok()?);
            if found == hash {
                let pair = |offset: usize| {
                    Some((
                        self.number(begin + offset)?,
                        self.number(begin + offset + 4)?,
                    ))
                };
                return Some(Slot {
                    flags: self.word(begin + SLOT_FLAGS)?,
                    real: pair(SLOT_REAL)?,
                    place: pair(SLOT_PLACE)?,
                });
            }
            if found == 0 {
                return None;
            }
            index = (index + 1) & (count - 1);
        }
    }
}

const DOT: u64 = b'.' as u64;
const TWO_DOTS: u64 = (DOT << 8) | DOT;

/// Where the search for a hash begins.
#[inline]
fn first(hash: u64, bits: u32) -> usize {
    hash.checked_shr(64 - bits).unwrap_or(0) as usize
}

#[cfg(not(kumiko_guest))]
mod make {
    use super::{AMBIGUOUS, BASIS, HALF_HEAD_BYTES, SLOT_BYTES, first, name};

    /// A mount of a view. Paths are absolute, without links, `.`, `..` and closing slash.
    #[derive(Clone, Debug)]
    pub struct Mount {
        pub place: Vec<u8>,
        pub real: Vec<u8>,
        pub flags: u32,
    }

    fn hash(path: &[u8]) -> u64 {
        let (mut hash, mut at) = (BASIS, 0);
        while at < path.len() {
            let name = name(path, at + 1, hash);
            (hash, at) = (name.hash, name.end);
        }
        hash
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
            for (mount, slot) in mounts.iter().zip(&slots) {
                let same: Vec<&Mount> = mounts
                    .iter()
                    .filter(|other| path(other) == path(mount))
                    .collect();
                let hash = hash(path(mount));
                let collides = mounts
                    .iter()
                    .any(|other| path(other) != path(mount) && self::hash(path(other)) == hash);
                if hash == 0 || collides {
                    return None;
                }
                let flags = mount.flags | if same.len() > 1 { AMBIGUOUS } else { 0 };
                let mut index = first(hash, bits);
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

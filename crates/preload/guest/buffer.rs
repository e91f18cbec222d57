//! A path as it is put together on the stack: the guest's words, and before them what they become on the host. Bytes
//! that nobody has written are never read, so that nothing has to be cleared at every call.

use core::mem::MaybeUninit;
use core::ops::Range;

/// For most paths, as stacks of threads and signal handlers are small.
pub const SMALL: usize = 768;
/// PATH_MAX, and what is before it.
pub const LARGE: usize = 4096 + FRONT;
/// Where a path begins at first: before it is room for what the host's path is longer by.
pub const FRONT: usize = 256;

pub type Room<const BYTES: usize> = MaybeUninit<[u8; BYTES]>;

/// A room, and which bytes of it were written.
pub struct Buffer {
    start: *mut u8,
    bytes: usize,
    written: Range<usize>,
}

impl Buffer {
    pub fn new<const BYTES: usize>(room: &mut Room<BYTES>) -> Buffer {
        Buffer {
            start: room.as_mut_ptr().cast(),
            bytes: BYTES,
            written: FRONT..FRONT,
        }
    }

    pub fn is_full(&self) -> bool {
        self.written.end == self.bytes
    }

    /// The next byte of the path; None: it is full.
    #[inline]
    pub fn push(&mut self, byte: u8) -> Option<()> {
        if self.is_full() {
            return None;
        }
        // SAFETY: within the room.
        unsafe { self.start.add(self.written.end).write(byte) };
        self.written.end += 1;
        Some(())
    }

    /// As many bytes of a word, as memory has them.
    #[inline]
    pub fn push_word(&mut self, word: u64, count: usize) -> Option<()> {
        if self.bytes - self.written.end < size_of::<u64>() {
            return None;
        }
        // SAFETY: within the room.
        unsafe {
            self.start
                .add(self.written.end)
                .cast::<u64>()
                .write_unaligned(word)
        };
        self.written.end += count;
        Some(())
    }

    /// The path from there, without its zero.
    #[inline]
    pub fn path(&self, begin: usize) -> Option<&[u8]> {
        self.get(begin..self.written.end.checked_sub(1)?)
    }

    /// What is written there, if all of it is.
    #[inline]
    pub fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        let within = self.written.start <= range.start
            && range.start <= range.end
            && range.end <= self.written.end;
        // SAFETY: written, and lent as long as `self` is.
        within.then(|| unsafe {
            core::slice::from_raw_parts(self.start.add(range.start), range.end - range.start)
        })
    }

    /// Writes before or over what is there, so that all after `at` is written. None: it would leave a gap.
    #[inline(always)]
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        let end = at.checked_add(bytes.len())?;
        if end < self.written.start || end > self.written.end {
            return None;
        }
        let words = bytes.chunks_exact(size_of::<u64>());
        let rest = words.remainder();
        // SAFETY: all of it is before the end of what is written.
        unsafe {
            let mut to = self.start.add(at);
            for word in words {
                let word = word.as_ptr().cast::<u64>().read_unaligned();
                to.cast::<u64>().write_unaligned(word);
                to = to.add(size_of::<u64>());
            }
            for byte in rest {
                to.write(*byte);
                to = to.add(1);
            }
        }
        self.written.start = self.written.start.min(at);
        Some(())
    }

    pub fn address(&self, at: usize) -> u64 {
        self.start as u64 + at as u64
    }
}

//! Words of the guest: read once, and only where there is something to read. A page is tried by a call that reads it and
//! does nothing (rt_sigprocmask(2) with a `how` that there is not), once; which pages were seen is kept.

use crate::buffer::Buffer;
use crate::gate::{call, nr};
use crate::layout::{PAGE_BYTES, SEEN, SEEN_COUNT};

/// The lower half of addresses.
const END: u64 = 0x7fff_ffff_f000;
const EFAULT: i64 = -14;

/// Puts a zero-terminated text into the buffer, with its zero. None: it is longer, or cannot be read.
#[inline]
pub fn text(from: u64, buffer: &mut Buffer) -> Option<()> {
    let mut at = from;
    loop {
        if !is_readable(at) {
            return None;
        }
        let until = at - at % PAGE_BYTES + PAGE_BYTES;
        while at + WORD <= until {
            // SAFETY: as below.
            let word = unsafe { (at as *const u64).read_unaligned() };
            let zeros = word.wrapping_sub(ONES) & !word & HIGH;
            let count = match zeros {
                0 => WORD,
                _ => u64::from(zeros.trailing_zeros()) / 8 + 1,
            };
            if buffer.push_word(word, count as usize).is_none() {
                break; // its last bytes
            }
            if zeros != 0 {
                return Some(());
            }
            at += WORD;
        }
        while at < until {
            // SAFETY: its page was seen to be readable. Another thread may take it away; natively that is the program's
            // own fault as well.
            let byte = unsafe { (at as *const u8).read_volatile() };
            buffer.push(byte)?;
            if byte == 0 {
                return Some(());
            }
            at += 1;
        }
    }
}

const WORD: u64 = 8;
const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// Is the first byte at this address a zero that can be read?
pub fn is_empty(at: u64) -> bool {
    // SAFETY: as above.
    is_readable(at) && unsafe { (at as *const u8).read_volatile() } == 0
}

fn is_readable(at: u64) -> bool {
    const SEEN_PAGES: Kept = Kept(SEEN, SEEN_COUNT);
    let page = at / PAGE_BYTES;
    if page == 0 || at >= END {
        return false;
    }
    if SEEN_PAGES.has(page) {
        return true;
    }
    const NO_HOW: u64 = u64::MAX;
    const SET_BYTES: u64 = 8;
    // A set is read whole, and must not reach over the page's end.
    let set = (at & !(SET_BYTES - 1)).min(page * PAGE_BYTES + PAGE_BYTES - SET_BYTES);
    // SAFETY: nothing is changed: there is no such `how`.
    let tried = unsafe { call(nr::RT_SIGPROCMASK, [NO_HOW, set, 0, SET_BYTES, 0, 0]) };
    if tried == EFAULT {
        return false;
    }
    SEEN_PAGES.keep(page);
    true
}

/// A few numbers that are known, each in the one place where it could be: where, and how many.
pub struct Kept(pub u64, pub u64);

impl Kept {
    fn place(&self, number: u64) -> *mut u64 {
        (self.0 + number % self.1 * 8) as *mut u64
    }

    pub fn has(&self, number: u64) -> bool {
        // SAFETY: within the page of data, aligned; a word is read and written whole.
        unsafe { self.place(number).read_volatile() == number }
    }

    pub fn keep(&self, number: u64) {
        // SAFETY: as above.
        unsafe { self.place(number).write_volatile(number) };
    }
}

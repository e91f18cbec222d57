//! Turning a library's calls to us: the `mov` before a `syscall` becomes a near jump to a few instructions beside the
//! library. Only what has just been mapped is changed, before anybody can execute it. What is not in a place to be
//! reached, too large or of another form is left: it goes to the supervisor.

use crate::gate::{ASK, Call, Done, call, kumiko_gate, nr, told};
use crate::layout::{ARRIVAL_SHARED, DATA, PAGE_BYTES};
use crate::sites::{MOV_BYTES, XOR_BYTES, has_xor, mov_before, room_near, sites};

pub const READ: u64 = 1;
pub const WRITE: u64 = 2;
pub const EXECUTE: u64 = 4;
const SHARED_OR_PRIVATE: u64 = 0xf;
const PRIVATE: u64 = 2;
pub const ANONYMOUS: u64 = 0x20;
pub const FIXED: u64 = 0x10;
const FIXED_NOREPLACE: u64 = 0x10_0000;

/// C libraries have less; to look through all of a larger one takes longer than what it would save.
const MOST_BYTES: u64 = 2 << 20;

/// Calls that are turned to us: those that map libraries in a loader alone, those that name files, and where a rate is kept
/// those that move data of sockets (data.rs).
const NUMBERS: [u32; 24] = [
    9, 2, 257, 4, 6, 262, 332, 21, 269, 439, 89, 267, 0, 19, 45, 47, 299, 1, 20, 44, 46, 307, 40,
    275,
];
const NAMES: usize = 1;
const MOVES: usize = 12;

fn numbers(from: usize) -> &'static [u32] {
    // SAFETY: an arrival was written before the program began.
    let shared = unsafe { ((DATA + ARRIVAL_SHARED as u64) as *const u64).read() };
    let end = if shared == u64::MAX { MOVES } else { NUMBERS.len() };
    NUMBERS.get(from..end).unwrap_or_default()
}

/// Most sites of one library: their instructions are one page.
const MOST_SITES: usize = 128;
const STEP: usize = 24;
/// The first words of that page: where we are.
const FIRST: usize = 8;
/// A near jump reaches so far, with room for the page and the library.
const REACH: u64 = 0x7000_0000;

/// mmap(2) of a loader.
pub fn map(asked: &Call) -> Done {
    let (length, protection, flags) = (asked.rsi, asked.rdx, asked.r10);
    let library = protection == READ | EXECUTE
        && flags & ANONYMOUS == 0
        && flags & SHARED_OR_PRIVATE == PRIVATE
        && length <= MOST_BYTES;
    if !library {
        return ASK;
    }
    // SAFETY: what the guest wants, as it wants it.
    let at = unsafe {
        call(
            nr::MMAP,
            [asked.rdi, length, protection, flags, asked.r8, asked.r9],
        )
    };
    if at > 0 {
        let there = within_file(asked.r8, asked.r9, length);
        patch(at as u64, there, protection, numbers(NAMES));
    }
    told(at)
}

/// How much of a mapping is in the file: behind its end nothing can be read.
fn within_file(fd: u64, offset: u64, length: u64) -> u64 {
    const STAT_WORDS: usize = 18;
    const SIZE_WORD: usize = 6;
    let mut stat = [0u64; STAT_WORDS];
    // SAFETY: the kernel fills in its 144 bytes.
    let done = unsafe { call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    let size = if done == 0 {
        stat.get(SIZE_WORD).copied().unwrap_or(0)
    } else {
        0
    };
    size.saturating_sub(offset).min(length)
}

/// The loader, before its first instruction.
pub fn patch_loader(begin: u64, length: u64) {
    if length <= MOST_BYTES {
        patch(begin, length, READ | EXECUTE, numbers(0));
    }
}

fn patch(begin: u64, length: u64, protection: u64, numbers: &[u32]) {
    // SAFETY: mapped, readable, and not written to by anybody else while we are here.
    let code = unsafe { core::slice::from_raw_parts(begin as *const u8, length as usize) };
    let mut found = [(0u32, 0u32); MOST_SITES];
    let mut count = 0;
    sites(code, numbers, |at, number| {
        if let Some(place) = found.get_mut(count) {
            *place = (at as u32, number);
            count += 1;
        }
        count < MOST_SITES
    });
    if count == 0 {
        return;
    }
    let Some(page) = page_near(begin) else {
        return;
    };
    let pages = length.next_multiple_of(PAGE_BYTES);
    // SAFETY: the new page is ours; the library's pages are made writable for us, and what they were again after.
    unsafe {
        if call(nr::MPROTECT, [begin, pages, READ | WRITE, 0, 0, 0]) != 0 {
            call(nr::MUNMAP, [page, PAGE_BYTES, 0, 0, 0, 0]);
            return;
        }
        (page as *mut u64).write(kumiko_gate as *const () as u64);
        for (index, (at, number)) in found.iter().take(count).enumerate() {
            let step = page + (FIRST + index * STEP) as u64;
            let syscall = begin + u64::from(*at);
            write_step(step, *number, syscall, page);
            turn(begin, length, *at as usize, step);
        }
        call(nr::MPROTECT, [page, PAGE_BYTES, READ | EXECUTE, 0, 0, 0]);
        call(nr::MPROTECT, [begin, pages, protection, 0, 0, 0]);
    }
}

/// What stands before a `syscall` becomes a jump to its step: a near one, at last, or a short one to where that has room.
///
/// # Safety
/// They can be written to.
unsafe fn turn(begin: u64, length: u64, syscall: usize, step: u64) {
    const JUMP: u8 = 0xe9;
    const SHORT: u8 = 0xeb;
    // SAFETY: the caller's.
    unsafe {
        // As it is by now: what has been turned is no room any more.
        let code = core::slice::from_raw_parts(begin as *const u8, length as usize);
        if let Some(mov) = mov_before(code, syscall).filter(|_| !has_xor(code, syscall)) {
            let (mov, jump) = (begin + mov as u64, begin + (syscall - MOV_BYTES) as u64);
            for at in mov..jump {
                (at as *mut u8).write(((at + MOV_BYTES as u64) as *const u8).read());
            }
            (jump as *mut u8).write(JUMP);
            relative((jump + 1) as *mut u8, step);
        } else if let Some((at, bytes)) = room_near(code, syscall) {
            let (xor, room) = (begin + (syscall - XOR_BYTES) as u64, begin + at as u64);
            // Who comes to it as to what it was goes over it.
            (room as *mut u8).write(SHORT);
            ((room + 1) as *mut u8).write(bytes as u8 - 2);
            ((room + 2) as *mut u8).write(JUMP);
            relative((room + 3) as *mut u8, step);
            (xor as *mut u8).write(SHORT);
            ((xor + 1) as *mut u8).write((room + 2).wrapping_sub(xor + 2) as u8);
        }
    }
}

/// `mov $number,%eax; lea syscall(%rip),%rcx; jmp *page(%rip)`.
///
/// # Safety
/// The step can be written to.
unsafe fn write_step(step: u64, number: u32, syscall: u64, page: u64) {
    // SAFETY: the caller's.
    unsafe {
        let at = step as *mut u8;
        at.write(0xb8);
        at.add(1).cast::<u32>().write_unaligned(number);
        bytes(at.add(5), [0x48, 0x8d, 0x0d]);
        relative(at.add(8), syscall);
        bytes(at.add(12), [0xff, 0x25, 0]);
        relative(at.add(14), page);
    }
}

/// # Safety
/// They can be written to.
unsafe fn bytes(at: *mut u8, three: [u8; 3]) {
    let [first, second, third] = three;
    // SAFETY: the caller's.
    unsafe {
        at.write(first);
        at.add(1).write(second);
        at.add(2).write(third);
    }
}

/// A distance of 32 bits, from behind it.
///
/// # Safety
/// Four bytes can be written to.
unsafe fn relative(at: *mut u8, to: u64) {
    let distance = to.wrapping_sub(at as u64 + 4) as u32;
    // SAFETY: the caller's.
    unsafe { at.cast::<u32>().write_unaligned(distance) };
}

/// An empty page that a near jump reaches.
fn page_near(begin: u64) -> Option<u64> {
    const TRIES: u64 = 16;
    const APART: u64 = 16 << 20;
    for attempt in 0..=TRIES {
        // First where the kernel likes, which is beside the last library.
        let (hint, fixed) = match attempt {
            0 => (0, 0),
            _ => (
                begin.saturating_sub(attempt * APART) & !(PAGE_BYTES - 1),
                FIXED_NOREPLACE,
            ),
        };
        if attempt > 0 && hint == 0 {
            return None;
        }
        // SAFETY: nothing that is there is replaced.
        let page = unsafe {
            call(
                nr::MMAP,
                [
                    hint,
                    PAGE_BYTES,
                    READ | WRITE,
                    PRIVATE | ANONYMOUS | fixed,
                    u64::MAX,
                    0,
                ],
            )
        };
        let Ok(page) = u64::try_from(page) else {
            continue;
        };
        if page.abs_diff(begin) < REACH {
            return Some(page);
        }
        // SAFETY: mapped a moment ago.
        unsafe { call(nr::MUNMAP, [page, PAGE_BYTES, 0, 0, 0, 0]) };
    }
    None
}

//! Numbers that a process and its copies share: what a supervisor counts, whoever has its room reads while it runs.
//! Not in it: what is counted.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many there are.
pub const COUNTERS: usize = 8;

/// Shared with every process that is forked from here on, and with no program that one of them executes.
#[derive(Debug)]
pub struct Counters(NonNull<[AtomicU64; COUNTERS]>);

// SAFETY: what it points to lives as long as it does, and is atomic.
unsafe impl Send for Counters {}
// SAFETY: as above.
unsafe impl Sync for Counters {}

const BYTES: usize = size_of::<[AtomicU64; COUNTERS]>();

impl Counters {
    /// All of them 0.
    pub fn new() -> io::Result<Counters> {
        // SAFETY: memory of its own, at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast())
            .map(Counters)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn all(&self) -> &[AtomicU64; COUNTERS] {
        // SAFETY: mapped by `new` until drop, in pages of their own, and zeros are valid atomics.
        unsafe { self.0.as_ref() }
    }

    /// Returns what it was before. A number that there is not counts nothing.
    pub fn add(&self, which: usize, amount: u64) -> u64 {
        let counter = self.all().get(which);
        counter.map_or(0, |counter| counter.fetch_add(amount, Ordering::Relaxed))
    }

    pub fn get(&self, which: usize) -> u64 {
        let counter = self.all().get(which);
        counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody of this process has it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_counts_is_read_here() {
        let counters = Counters::new().unwrap();
        assert_eq!(counters.add(1, 5), 0);
        // SAFETY: the copy makes no call but the one by which it ends.
        let copy = unsafe { libc::fork() };
        if copy == 0 {
            counters.add(1, 7);
            // SAFETY: ends the copy.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: a live local.
        let waited = unsafe { libc::waitpid(copy, &raw mut status, 0) };
        assert_eq!((waited, status), (copy, 0));
        assert_eq!(counters.get(1), 12);
        assert_eq!(counters.get(0), 0);
        assert_eq!(counters.add(COUNTERS, 1), 0);
        assert_eq!(counters.get(COUNTERS), 0);
    }
}

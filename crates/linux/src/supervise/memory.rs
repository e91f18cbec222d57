//! Memory of a guest's thread (process_vm_readv(2)): read once, written once. What a guest's other threads do with it
//! meanwhile is theirs; nothing is believed that was read twice.

use super::errno::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// PATH_MAX with its closing zero (limits.h).
pub const PATH_BYTES: usize = 4096;
const PAGE: u64 = 4096;
/// Read at first: most paths are shorter.
const FIRST_BYTES: usize = 256;
/// Of memory that are read in one call: a path lies on two pages at most. What is longer takes more calls.
const MOST_PARTS: usize = 2;

/// Fills the buffer, or fails with EFAULT.
pub fn read(tid: i32, address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let (ours, theirs) = both(buffer.as_mut_ptr(), address, buffer.len());
    // SAFETY: our side is a live slice with its length; the other is of another process, which the kernel checks.
    let got = unsafe { libc::process_vm_readv(tid, &raw const ours, 1, &raw const theirs, 1, 0) };
    whole(got, buffer.len())
}

/// Writes all of it, or fails with EFAULT.
pub fn write(tid: i32, address: u64, bytes: &[u8]) -> Result<(), Errno> {
    let (ours, theirs) = both(bytes.as_ptr().cast_mut(), address, bytes.len());
    // SAFETY: as above; our side is only read.
    let put = unsafe { libc::process_vm_writev(tid, &raw const ours, 1, &raw const theirs, 1, 0) };
    whole(put, bytes.len())
}

/// As [`replace_code`], over what need not be kept.
pub(super) fn put_code(tid: i32, address: u64, bytes: &[u8]) -> Result<(), Errno> {
    Over::of(tid)?.put(address, bytes)
}

/// A way to write where a program itself cannot (proc_pid_mem(5), ptrace(2)). For a thread that is traced and stopped.
#[derive(Debug)]
pub(super) struct Over {
    tid: i32,
    /// None: in another sandbox /proc may be read-only.
    memory: Option<File>,
}

impl Over {
    pub(super) fn of(tid: i32) -> Result<Over, Errno> {
        let memory = File::options().write(true).open(of_thread(tid));
        let memory = match memory {
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => None,
            memory => Some(memory?),
        };
        Ok(Over { tid, memory })
    }

    pub(super) fn put(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        match &self.memory {
            Some(memory) => Ok(memory.write_all_at(bytes, address)?),
            None => poke_over(self.tid, address, bytes),
        }
    }
}

fn of_thread(tid: i32) -> String {
    format!("/proc/{tid}/mem")
}

/// By words where they begin as words do, so that none lies on two pages.
fn poke_over(tid: i32, address: u64, bytes: &[u8]) -> Result<(), Errno> {
    const WORD: usize = 8;
    let memory = File::open(of_thread(tid))?;
    let (mut at, mut rest) = (address, bytes);
    while !rest.is_empty() {
        let before = (at % WORD as u64) as usize;
        let begin = at - before as u64;
        let (part, after) = rest.split_at(rest.len().min(WORD - before));
        let mut word = [0; WORD];
        memory.read_exact_at(&mut word, begin)?;
        let place = word.get_mut(before..before + part.len());
        place.ok_or(Errno::EFAULT)?.copy_from_slice(part);
        super::tracee::poke(tid, begin, u64::from_ne_bytes(word))?;
        at += part.len() as u64;
        rest = after;
    }
    Ok(())
}

/// Puts bytes over a program's code, in a copy of that page that is its own, and gives what stood there. For a thread
/// that is traced and stopped.
pub fn replace_code(tid: i32, address: u64, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut before = vec![0; bytes.len()];
    File::open(of_thread(tid))?.read_exact_at(&mut before, address)?;
    put_code(tid, address, bytes)?;
    Ok(before)
}

fn both(at: *mut u8, address: u64, count: usize) -> (libc::iovec, libc::iovec) {
    let ours = libc::iovec {
        iov_base: at.cast(),
        iov_len: count,
    };
    let theirs = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: count,
    };
    (ours, theirs)
}

fn whole(done: isize, count: usize) -> Result<(), Errno> {
    match super::errno::check(done as libc::c_long)? {
        done if done as usize == count => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// A zero-terminated string of at most `most` bytes, without its zero; ENAMETOOLONG.
pub fn read_string(tid: i32, address: u64, most: usize) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    let mut step = FIRST_BYTES;
    while text.len() < most {
        let at = address
            .checked_add(text.len() as u64)
            .ok_or(Errno::EFAULT)?;
        let begin = text.len();
        text.resize(begin + step.min(most - begin), 0);
        let place = text.get_mut(begin..).unwrap_or_default();
        let got = read_some(tid, at, place)?;
        text.truncate(begin + got);
        let new = text.get(begin..).unwrap_or_default();
        if let Ok(found) = CStr::from_bytes_until_nul(new) {
            text.truncate(begin + found.count_bytes());
            return Ok(text);
        }
        step = MOST_PARTS * PAGE as usize;
    }
    Err(Errno::ENAMETOOLONG)
}

/// As much of the buffer as is there, which is at least the rest of the first page, or EFAULT.
fn read_some(tid: i32, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    // The kernel gives whole parts: no part goes over the end of a page, since the next one may be missing.
    let mut parts = [both(std::ptr::null_mut(), 0, 0).1; MOST_PARTS];
    let (mut count, mut at, mut left) = (0, address, buffer.len() as u64);
    for part in &mut parts {
        let length = (PAGE - at % PAGE).min(left);
        *part = both(std::ptr::null_mut(), at, length as usize).1;
        at = at.wrapping_add(length);
        left -= length;
        count += libc::c_ulong::from(length > 0);
    }
    let ours = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: our side is a live slice with its length; the parts are of another process, which the kernel checks.
    let got = unsafe { libc::process_vm_readv(tid, &raw const ours, 1, parts.as_ptr(), count, 0) };
    super::errno::check(got as libc::c_long).map(|got| got as usize)
}

/// A path.
pub fn read_path(tid: i32, address: u64) -> Result<Vec<u8>, Errno> {
    read_string(tid, address, PATH_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], most: usize, expected: Result<usize, Errno>) {
        let me = std::process::id() as i32;
        let got = read_string(me, text.as_ptr() as u64, most);
        assert_eq!(got.map(|read| read.len()), expected, "{}", text.len());
    }

    #[test]
    fn a_string_is_read_to_its_zero_wherever_it_lies() {
        for length in [0, 1, 255, 256, 257, 4_000, 4_095] {
            for before in [0, 1, 300, 4_000] {
                let mut bytes = vec![b'a'; before + length];
                bytes.push(0);
                bytes.extend([b'b'; 9_000]);
                check(&bytes[before..], PATH_BYTES, Ok(length));
            }
        }
        let mut bytes = vec![b'a'; 100_000];
        check(&bytes, PATH_BYTES, Err(Errno::ENAMETOOLONG));
        bytes.push(0);
        check(&bytes, 1 << 20, Ok(100_000));
    }

    #[test]
    fn a_string_that_ends_where_no_more_memory_is_mapped_is_read() {
        // SAFETY: a new mapping of two pages, of which the second is made unreadable.
        let at = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(at, libc::MAP_FAILED);
            let second = at.byte_add(PAGE as usize);
            assert_eq!(libc::mprotect(second, PAGE as usize, libc::PROT_NONE), 0);
            libc::memset(at, i32::from(b'a'), PAGE as usize - 1);
            at as u64
        };
        let me = std::process::id() as i32;
        for before in [0, 1, 3_000, 4_090, 4_095] {
            let got = read_string(me, at + before, PATH_BYTES);
            assert_eq!(got.map(|read| read.len() as u64), Ok(PAGE - 1 - before));
        }
        assert_eq!(read_string(me, at + PAGE, 9), Err(Errno::EFAULT));
        // SAFETY: the mapping from above.
        unsafe {
            libc::memset(at as *mut libc::c_void, i32::from(b'a'), PAGE as usize);
            assert_eq!(read_string(me, at + 1, PATH_BYTES), Err(Errno::EFAULT));
            libc::munmap(at as *mut libc::c_void, 2 * PAGE as usize);
        }
    }
}

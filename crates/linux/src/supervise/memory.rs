//! Memory of a guest's thread (process_vm_readv(2)): read once, written once. What a guest's other threads do with it
//! meanwhile is theirs; nothing is believed that was read twice.

use super::errno::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// PATH_MAX with its closing zero (limits.h).
pub const PATH_BYTES: usize = 4096;
const PAGE: u64 = 4096;
/// Read at first: most paths are shorter.
const FIRST_BYTES: u64 = 256;

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

/// Puts bytes over a program's code, in a copy of that page that is its own, and gives what stood there. For a thread
/// that is traced and stopped.
pub fn replace_code(tid: i32, address: u64, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    // The one way to write where the program itself cannot (proc_pid_mem(5)).
    let memory = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{tid}/mem"))?;
    let mut before = vec![0; bytes.len()];
    memory.read_exact_at(&mut before, address)?;
    memory.write_all_at(bytes, address)?;
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
        // Never over the end of a page: the next one may be missing.
        let count = (PAGE - at % PAGE).min(step).min((most - text.len()) as u64) as usize;
        let begin = text.len();
        text.resize(begin + count, 0);
        let place = text.get_mut(begin..).unwrap_or_default();
        read(tid, at, place)?;
        if let Some(end) = place.iter().position(|byte| *byte == 0) {
            text.truncate(begin + end);
            return Ok(text);
        }
        step = PAGE;
    }
    Err(Errno::ENAMETOOLONG)
}

/// A path.
pub fn read_path(tid: i32, address: u64) -> Result<Vec<u8>, Errno> {
    read_string(tid, address, PATH_BYTES)
}

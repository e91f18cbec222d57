//! Which pages of this process's own memory were written since they were last asked for: userfaultfd(2) write protection that the
//! kernel resolves itself (UFFD_FEATURE_WP_ASYNC), read by PAGEMAP_SCAN (ioctl_pagemap_scan(2)); Linux 6.7, no privileges. Not
//! here: what is done with them. Nothing here changes what the program sees of its memory, so any range may be given.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages are told in runs; so many at a time.
const RUNS: usize = 1024;

// linux/userfaultfd.h and linux/fs.h; libc has none of it.
const USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xaa;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_UNREGISTER: libc::c_ulong = 0x8010_aa01;
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const SCAN_WP_MATCHING: u64 = 1;
const SCAN_CHECK_WPASYNC: u64 = 2;
const PAGE_IS_WRITTEN: u64 = 1 << 1;

#[repr(C)]
struct UffdApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdRegister {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_most: u64,
    pages_most: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    told: u64,
}

/// Forgets all of it when it is dropped.
#[derive(Debug)]
pub struct Written {
    faults: OwnedFd,
    pages: File,
}

/// Bytes of a page.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Of whole pages.
fn rounded(range: &Range<usize>) -> Range<u64> {
    let page = page_bytes();
    let start = range.start / page * page;
    let end = range.end.div_ceil(page).saturating_mul(page);
    start as u64..end as u64
}

impl Written {
    /// # Errors
    /// The kernel is too old, or a sandbox refuses.
    pub fn open() -> io::Result<Written> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: userfaultfd(2) takes flags alone and reads no memory.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made it, and nothing else has it.
        let faults = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut api = UffdApi {
            api: API,
            features: WP_UNPOPULATED | WP_ASYNC,
            ioctls: 0,
        };
        // SAFETY: `api` has the layout of struct uffdio_api and outlives the call.
        let done = unsafe { libc::ioctl(faults.as_raw_fd(), UFFDIO_API, &raw mut api) };
        told(done)?;
        let pages = File::open("/proc/self/pagemap")?;
        Ok(Written { faults, pages })
    }

    /// Begins to watch the pages that hold this range, which must be the program's own writable memory, not a mapped file. All of
    /// it counts as written until [`Written::take`] is first asked.
    ///
    /// # Errors
    /// The kernel cannot watch memory of this kind, or somebody else does.
    pub fn watch(&self, range: &Range<usize>) -> io::Result<()> {
        let Range { start, end } = rounded(range);
        let mut register = UffdRegister {
            start,
            bytes: end - start,
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: `register` has the layout of struct uffdio_register and outlives the call. With WP_ASYNC the kernel answers
        // every fault itself, so no access to the range changes its meaning.
        let done =
            unsafe { libc::ioctl(self.faults.as_raw_fd(), UFFDIO_REGISTER, &raw mut register) };
        told(done)?;
        Ok(())
    }

    /// Ends what [`Written::watch`] began; the memory may be gone already.
    pub fn forget(&self, range: &Range<usize>) {
        let Range { start, end } = rounded(range);
        let range = [start, end - start];
        // SAFETY: `range` has the layout of struct uffdio_range and outlives the call.
        unsafe { libc::ioctl(self.faults.as_raw_fd(), UFFDIO_UNREGISTER, range.as_ptr()) };
    }

    /// The pages that were written since this was asked before, as runs in order; from now on they count as not written. Who writes
    /// meanwhile is told the next time.
    ///
    /// # Errors
    /// The range is not watched.
    pub fn take(&self, range: &Range<usize>) -> io::Result<Vec<Range<usize>>> {
        let Range { mut start, end } = rounded(range);
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut regions = vec![Region::default(); RUNS];
        while start < end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                flags: SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC,
                start,
                end,
                regions: regions.as_mut_ptr() as u64,
                regions_most: regions.len() as u64,
                mask: PAGE_IS_WRITTEN,
                told: PAGE_IS_WRITTEN,
                ..Scan::default()
            };
            // SAFETY: `scan` has the layout of struct pm_scan_arg; it names `regions`, which has the length that it says, and both
            // outlive the call.
            let count = unsafe { libc::ioctl(self.pages.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
            let count = told(count)?;
            for region in regions.iter().take(count) {
                let address = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                let run = address(region.start)..address(region.end);
                match found.last_mut() {
                    Some(last) if last.end == run.start => last.end = run.end,
                    _ => found.push(run),
                }
            }
            if scan.walk_end <= start {
                return Err(io::ErrorKind::InvalidData.into());
            }
            start = scan.walk_end;
        }
        Ok(found)
    }
}

fn told(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A number in a file that is there when the process that counted has died: a shared mapping of its first eight bytes,
/// little-endian.
#[derive(Debug)]
pub struct Count {
    at: NonNull<AtomicU64>,
}

// SAFETY: the mapping is of this value alone, and the number is atomic.
unsafe impl Send for Count {}

impl Count {
    /// Sets it to 0. The file must not become shorter meanwhile: a process that shortens its own file ends by SIGBUS.
    ///
    /// # Errors
    /// The file cannot be written to or mapped.
    pub fn new(file: &File) -> io::Result<Count> {
        // Written, not only made longer: so that the disk has room when it is counted.
        file.write_all_at(&[0; 8], 0)?;
        let flags = rustix::mm::MapFlags::SHARED;
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice takes nobody's memory.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), 8, access, flags, file, 0)? };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Count { at })
    }

    pub fn set(&self, value: u64) {
        // SAFETY: the mapping is aligned to a page, has eight bytes of a file, and lives as long as `self`.
        unsafe { self.at.as_ref() }.store(value.to_le(), Ordering::Relaxed);
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping of eight bytes, and no reference to it is left.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// `None`: said that this kernel cannot.
    fn open() -> Option<Written> {
        match Written::open() {
            Ok(written) => Some(written),
            Err(error) => {
                eprintln!("SKIP dirty pages: missing write protection by userfaultfd ({error})");
                None
            }
        }
    }

    #[test]
    fn exactly_the_pages_that_were_written_are_told_by_whoever_wrote_them() {
        let Some(written) = open() else { return };
        let page = page_bytes();
        let mut memory = vec![0u8; 64 * page + 1];
        let base = memory.as_ptr() as usize;
        let inside = base.div_ceil(page) * page;
        let at = |number: usize| inside - base + number * page;
        let range = inside..inside + 60 * page;
        written.watch(&range).unwrap();
        written.take(&range).unwrap();
        assert_eq!(written.take(&range).unwrap(), []);
        memory[at(3)] = 1;
        memory[at(4) + 7] = 1;
        memory[at(50)] = 1;
        let pages = |from, to| inside + from * page..inside + to * page;
        assert_eq!(written.take(&range).unwrap(), [pages(3, 5), pages(50, 51)]);
        assert_eq!(written.take(&range).unwrap(), []);
        // The kernel writes for the process too, in read(2).
        let mut zeros = File::open("/dev/zero").unwrap();
        zeros.read_exact(&mut memory[at(10)..at(12)]).unwrap();
        assert_eq!(written.take(&range).unwrap(), [pages(10, 12)]);
        written.forget(&range);
        assert!(written.take(&range).is_err());
    }

    #[test]
    fn a_count_is_in_its_file() {
        let file = rustix::fs::memfd_create("count", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(file);
        let count = Count::new(&file).unwrap();
        count.set(513);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 513);
    }
}

//! Does the kernel take the arguments of a call, wherever its path leads? It looks at them before it looks for a file:
//! asked about a file of no name, it tells what is wrong with them, else that there is none (ENOENT). So each kernel's
//! own rules hold. Not in it: what the calls do (calls.rs).

use super::errno::{Errno, check};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

const NOWHERE: &CStr = c"";

fn taken(done: libc::c_long) -> Result<(), Errno> {
    match check(done) {
        Ok(_) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

pub fn of_open(flags: i32, mode: u32) -> Result<(), Errno> {
    // SAFETY: a zero-terminated string and numbers, as below where nothing else is said. Nothing is opened.
    taken(unsafe { libc::open(NOWHERE.as_ptr(), flags, mode) }.into())
}

/// `how`: struct open_how, as long as the caller says that it is.
pub fn of_open_how(how: &[u8]) -> Result<(), Errno> {
    // SAFETY: a zero-terminated string and a live buffer with its length.
    taken(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            NOWHERE.as_ptr(),
            how.as_ptr(),
            how.len(),
        )
    })
}

pub fn of_rename(flags: u32) -> Result<(), Errno> {
    let (at, path) = (libc::AT_FDCWD, NOWHERE.as_ptr());
    // SAFETY: as above.
    taken(unsafe { libc::syscall(libc::SYS_renameat2, at, path, at, path, flags) })
}

pub fn of_node(mode: u32, device: u64) -> Result<(), Errno> {
    // SAFETY: as above.
    taken(unsafe { libc::mknod(NOWHERE.as_ptr(), mode, device) }.into())
}

pub fn of_truncate(length: i64) -> Result<(), Errno> {
    // SAFETY: as above.
    taken(unsafe { libc::truncate(NOWHERE.as_ptr(), length) }.into())
}

/// Of an attribute that is set; its value is another matter.
pub fn of_attribute(name: &CStr, flags: i32) -> Result<(), Errno> {
    let (path, value) = (NOWHERE.as_ptr(), std::ptr::null());
    // SAFETY: as above; of no value nothing is read.
    taken(unsafe { libc::setxattr(path, name.as_ptr(), value, 0, flags) }.into())
}

/// Of an attribute that is read.
pub fn of_attribute_name(name: &CStr) -> Result<(), Errno> {
    let (path, value) = (NOWHERE.as_ptr(), std::ptr::null_mut());
    // SAFETY: as above; nothing is written where the size is asked for.
    taken(unsafe { libc::getxattr(path, name.as_ptr(), value, 0) } as libc::c_long)
}

/// `watches`: None for a descriptor that is not there.
pub fn of_watch(watches: Option<BorrowedFd<'_>>, mask: u32) -> Result<(), Errno> {
    let watches = watches.map_or(-1, |fd| fd.as_raw_fd());
    // SAFETY: as above.
    taken(unsafe { libc::inotify_add_watch(watches, NOWHERE.as_ptr(), mask) }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_arguments_is_told_and_nothing_else() {
        let bad = Err(Errno::EINVAL);
        assert_eq!(of_open(libc::O_CREAT | libc::O_RDWR, 0o600), Ok(()));
        assert_eq!(of_open(libc::O_TMPFILE, 0o600), bad);
        assert_eq!(of_open_how(&[0; 24]), Ok(()));
        assert_eq!(of_open_how(&[0; 16]), bad);
        assert_eq!(of_open_how(&[0xff; 24]), bad);
        assert_eq!(of_rename(libc::RENAME_NOREPLACE), Ok(()));
        assert_eq!(of_rename(8), bad);
        assert_eq!(of_node(libc::S_IFIFO, 0), Ok(()));
        assert_eq!(of_node(libc::S_IFDIR, 0), Err(Errno::EPERM));
        assert_eq!(of_node(libc::S_IFMT, 0), bad);
        assert_eq!(of_truncate(0), Ok(()));
        assert_eq!(of_truncate(-1), bad);
        assert_eq!(of_attribute(c"user.a", 0), Ok(()));
        assert_eq!(of_attribute(c"", 0), Err(Errno::ERANGE));
        assert_eq!(of_attribute(c"user.a", 4), bad);
        assert_eq!(of_attribute_name(c"user.a"), Ok(()));
        assert_eq!(of_watch(None, libc::IN_MODIFY), Err(Errno::EBADF));
        assert_eq!(of_watch(None, 0), bad);
    }
}

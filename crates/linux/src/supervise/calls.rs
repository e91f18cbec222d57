//! Calls on files that are made in a guest's place: by descriptor and name as resolved, with the guest's own flags and
//! words. Everything is done with this process's rights, which are a guest's own.

use super::errno::{Errno, check};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// struct stat of this architecture, as the kernel writes it.
pub type StatBytes = [u8; size_of::<libc::stat>()];
/// struct statx.
pub type StatxBytes = [u8; 256];
/// struct statfs.
pub type StatfsBytes = [u8; size_of::<libc::statfs>()];

/// What a file is, as far as decisions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub device: u64,
    pub inode: u64,
    pub mode: u32,
    /// Of a device.
    pub number: u64,
}

/// Kinds of files in [`About::kind`] (inode(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Directory,
    Link,
    Pipe,
    Device,
    Socket,
}

impl About {
    pub fn kind(&self) -> FileKind {
        match self.mode & libc::S_IFMT {
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Link,
            libc::S_IFIFO => FileKind::Pipe,
            libc::S_IFCHR | libc::S_IFBLK => FileKind::Device,
            libc::S_IFSOCK => FileKind::Socket,
            _ => FileKind::Regular,
        }
    }
}

#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Opens `path` ("" or relative) at or beneath `root`, through no link (openat2(2)). Close-on-exec.
pub fn open_beneath(
    root: BorrowedFd<'_>,
    path: &CStr,
    flags: i32,
    mode: u32,
) -> Result<OwnedFd, Errno> {
    const BENEATH: u64 =
        libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    let path = if path.is_empty() { c"." } else { path };
    let how = How {
        flags: (flags | libc::O_CLOEXEC) as u32 as u64,
        mode: mode.into(),
        resolve: BENEATH,
    };
    // SAFETY: a zero-terminated string and a live structure whose size is told.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<How>(),
        )
    };
    owned(fd)
}

/// As the kernel itself resolves `path` with `root` as its root (RESOLVE_IN_ROOT): what is held against it in tests.
pub fn open_in_root(root: BorrowedFd<'_>, path: &CStr, follow: bool) -> Result<OwnedFd, Errno> {
    let follow = if follow { 0 } else { libc::O_NOFOLLOW };
    let how = How {
        flags: (libc::O_PATH | libc::O_CLOEXEC | follow) as u64,
        mode: 0,
        resolve: libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS,
    };
    loop {
        // SAFETY: a zero-terminated string and a live structure whose size is told.
        let opened = owned(unsafe {
            libc::syscall(
                libc::SYS_openat2,
                root.as_raw_fd(),
                path.as_ptr(),
                &raw const how,
                size_of::<How>(),
            )
        });
        // Something was renamed somewhere on the machine while a `..` was followed (openat2(2)).
        if !matches!(opened, Err(Errno::EAGAIN)) {
            return opened;
        }
    }
}

/// Opens what a descriptor stands for once more, with other flags.
pub fn reopen(fd: BorrowedFd<'_>, flags: i32) -> Result<OwnedFd, Errno> {
    open_host(&own_path(fd), flags)
}

/// Opens a path of the host, following links.
pub fn open_host(path: &CStr, flags: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: a zero-terminated string.
    owned(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) }.into())
}

/// As [`open_host`], with the mode of what may be made.
pub fn open_host_with(path: &CStr, flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: a zero-terminated string.
    owned(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) }.into())
}

/// As [`open_host`], relative to a directory.
pub fn open_host_at(directory: BorrowedFd<'_>, path: &CStr, flags: i32) -> Result<OwnedFd, Errno> {
    owned(
        // SAFETY: a zero-terminated string.
        unsafe {
            libc::openat(
                directory.as_raw_fd(),
                path.as_ptr(),
                flags | libc::O_CLOEXEC,
            )
        }
        .into(),
    )
}

fn owned(fd: libc::c_long) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel has just made this descriptor for us.
    check(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The path by which this process reaches a descriptor of its own.
pub fn own_path(fd: BorrowedFd<'_>) -> CString {
    CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default()
}

/// As [`own_path`], for a name in that directory.
pub fn own_path_of(fd: BorrowedFd<'_>, name: &CStr) -> CString {
    let mut path = own_path(fd).into_bytes();
    path.push(b'/');
    path.extend(name.to_bytes());
    CString::new(path).unwrap_or_default()
}

/// What a descriptor stands for.
pub fn about(fd: BorrowedFd<'_>) -> Result<About, Errno> {
    // SAFETY: `to` is live and of the type that is filled in.
    filled(|to| unsafe { libc::fstat(fd.as_raw_fd(), to) })
}

/// What stands at a path now. Links on its way are followed, wherever they lead: what is opened there is looked at again.
pub fn about_at(directory: BorrowedFd<'_>, path: &CStr) -> Result<About, Errno> {
    // SAFETY: a zero-terminated string; `to` as above.
    filled(|to| unsafe {
        libc::fstatat(
            directory.as_raw_fd(),
            path.as_ptr(),
            to,
            libc::AT_SYMLINK_NOFOLLOW,
        )
    })
}

fn filled(fill: impl FnOnce(*mut libc::stat) -> libc::c_int) -> Result<About, Errno> {
    // SAFETY: all zeros is a valid stat, which the kernel overwrites.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    check(fill(&raw mut stat).into())?;
    Ok(About {
        device: stat.st_dev,
        inode: stat.st_ino,
        mode: stat.st_mode,
        number: stat.st_rdev,
    })
}

/// struct stat as a guest gets it.
pub fn stat(fd: BorrowedFd<'_>) -> Result<StatBytes, Errno> {
    let mut bytes = [0; size_of::<libc::stat>()];
    // SAFETY: the buffer has the size of what the kernel fills in, and that structure has no room for pointers.
    let done = unsafe {
        libc::syscall(
            libc::SYS_newfstatat,
            fd.as_raw_fd(),
            c"".as_ptr(),
            bytes.as_mut_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    check(done).map(|_| bytes)
}

/// As [`stat`] of a path of the host, following links.
pub fn stat_host(path: &CStr) -> Result<StatBytes, Errno> {
    let mut bytes = [0; size_of::<libc::stat>()];
    // SAFETY: as above.
    let done = unsafe {
        libc::syscall(
            libc::SYS_newfstatat,
            libc::AT_FDCWD,
            path.as_ptr(),
            bytes.as_mut_ptr(),
            0,
        )
    };
    check(done).map(|_| bytes)
}

/// struct statx; `flags` without those that say how a path is read.
pub fn statx(fd: BorrowedFd<'_>, flags: i32, mask: u32) -> Result<StatxBytes, Errno> {
    let mut bytes = [0; 256];
    // SAFETY: the buffer has the size of struct statx.
    let done = unsafe {
        libc::syscall(
            libc::SYS_statx,
            fd.as_raw_fd(),
            c"".as_ptr(),
            flags | libc::AT_EMPTY_PATH,
            mask,
            bytes.as_mut_ptr(),
        )
    };
    check(done).map(|_| bytes)
}

pub fn statfs(fd: BorrowedFd<'_>) -> Result<StatfsBytes, Errno> {
    let mut bytes = [0; size_of::<libc::statfs>()];
    // SAFETY: the buffer has the size of what the kernel fills in.
    check(unsafe { libc::syscall(libc::SYS_fstatfs, fd.as_raw_fd(), bytes.as_mut_ptr()) })
        .map(|_| bytes)
}

/// Flags of the mount that a descriptor is in (statvfs(3)).
pub fn mount_flags(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    // SAFETY: all zeros is a valid one, which is overwritten.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a live local of the type that is filled in.
    check(unsafe { libc::fstatvfs(fd.as_raw_fd(), &raw mut stat) }.into())?;
    Ok(stat.f_flag)
}

/// What a link says; `path` "": the link that the descriptor stands for.
pub fn read_link_at(fd: BorrowedFd<'_>, path: &CStr) -> Result<Vec<u8>, Errno> {
    link_words(fd.as_raw_fd(), path)
}

/// What a link of the host says.
pub fn read_link(path: &CStr) -> Result<Vec<u8>, Errno> {
    link_words(libc::AT_FDCWD, path)
}

fn link_words(at: i32, path: &CStr) -> Result<Vec<u8>, Errno> {
    let mut words = vec![0u8; super::memory::PATH_BYTES];
    // SAFETY: a zero-terminated string and a live buffer with its length.
    let got =
        unsafe { libc::readlinkat(at, path.as_ptr(), words.as_mut_ptr().cast(), words.len()) };
    words.truncate(check(got as libc::c_long)? as usize);
    Ok(words)
}

pub fn access(fd: BorrowedFd<'_>, mode: i32, flags: i32) -> Result<i64, Errno> {
    // SAFETY: a zero-terminated string and numbers.
    check(unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            fd.as_raw_fd(),
            c"".as_ptr(),
            mode,
            flags | libc::AT_EMPTY_PATH,
        )
    })
}

pub fn make_directory(parent: BorrowedFd<'_>, name: &CStr, mode: u32) -> Result<i64, Errno> {
    // SAFETY: a zero-terminated string and numbers, as in the calls below.
    check(unsafe { libc::mkdirat(parent.as_raw_fd(), name.as_ptr(), mode) }.into())
}

pub fn make_node(
    parent: BorrowedFd<'_>,
    name: &CStr,
    mode: u32,
    device: u64,
) -> Result<i64, Errno> {
    // SAFETY: as above.
    check(unsafe { libc::mknodat(parent.as_raw_fd(), name.as_ptr(), mode, device) }.into())
}

/// `flags`: AT_REMOVEDIR or 0.
pub fn unlink(parent: BorrowedFd<'_>, name: &CStr, flags: i32) -> Result<i64, Errno> {
    // SAFETY: as above.
    check(unsafe { libc::unlinkat(parent.as_raw_fd(), name.as_ptr(), flags) }.into())
}

pub fn rename(
    from: (BorrowedFd<'_>, &CStr),
    to: (BorrowedFd<'_>, &CStr),
    flags: u32,
) -> Result<i64, Errno> {
    // SAFETY: as above.
    check(unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            from.0.as_raw_fd(),
            from.1.as_ptr(),
            to.0.as_raw_fd(),
            to.1.as_ptr(),
            flags,
        )
    })
}

pub fn make_link(words: &CStr, parent: BorrowedFd<'_>, name: &CStr) -> Result<i64, Errno> {
    // SAFETY: as above.
    check(unsafe { libc::symlinkat(words.as_ptr(), parent.as_raw_fd(), name.as_ptr()) }.into())
}

/// A further name of what the first descriptor stands for; a link itself is not followed.
pub fn link(from: BorrowedFd<'_>, parent: BorrowedFd<'_>, name: &CStr) -> Result<i64, Errno> {
    let path = own_path(from);
    let follow = libc::AT_SYMLINK_FOLLOW; // the link of /proc, not one that it leads to
    check(
        // SAFETY: as above.
        unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                path.as_ptr(),
                parent.as_raw_fd(),
                name.as_ptr(),
                follow,
            )
        }
        .into(),
    )
}

pub fn change_mode(fd: BorrowedFd<'_>, mode: u32) -> Result<i64, Errno> {
    // SAFETY: as above.
    check(unsafe { libc::chmod(own_path(fd).as_ptr(), mode) }.into())
}

pub fn change_owner(fd: BorrowedFd<'_>, user: u32, group: u32) -> Result<i64, Errno> {
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: as above.
    check(unsafe { libc::fchownat(fd.as_raw_fd(), c"".as_ptr(), user, group, flags) }.into())
}

/// Two struct timespec; None: now.
pub fn change_times(fd: BorrowedFd<'_>, times: Option<[i64; 4]>) -> Result<i64, Errno> {
    let at = times
        .as_ref()
        .map_or(std::ptr::null(), |times| times.as_ptr());
    // SAFETY: null or two live structures of two words each.
    check(unsafe {
        libc::syscall(
            libc::SYS_utimensat,
            fd.as_raw_fd(),
            c"".as_ptr(),
            at,
            libc::AT_EMPTY_PATH,
        )
    })
}

pub fn truncate(fd: BorrowedFd<'_>, length: i64) -> Result<i64, Errno> {
    // SAFETY: a zero-terminated string and a number.
    check(unsafe { libc::truncate(own_path(fd).as_ptr(), length) }.into())
}

/// Attributes go by a path of this process ([`own_path`]), which is followed.
pub fn set_attribute(path: &CStr, name: &CStr, value: &[u8], flags: i32) -> Result<i64, Errno> {
    // SAFETY: zero-terminated strings, and a live buffer with its length.
    let done = unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            flags,
        )
    };
    check(done.into())
}

pub fn get_attribute(path: &CStr, name: &CStr, most: usize) -> Result<(i64, Vec<u8>), Errno> {
    let mut value = vec![0; most];
    // SAFETY: zero-terminated strings, and a live buffer with its length.
    let got = check(unsafe {
        libc::getxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            most,
        )
    } as libc::c_long)?;
    value.truncate(got as usize);
    Ok((got, value))
}

pub fn list_attributes(path: &CStr, most: usize) -> Result<(i64, Vec<u8>), Errno> {
    let mut names = vec![0u8; most];
    let got = check(
        // SAFETY: a zero-terminated string, and a live buffer with its length.
        unsafe { libc::listxattr(path.as_ptr(), names.as_mut_ptr().cast(), most) } as libc::c_long,
    )?;
    names.truncate(got as usize);
    Ok((got, names))
}

pub fn remove_attribute(path: &CStr, name: &CStr) -> Result<i64, Errno> {
    // SAFETY: zero-terminated strings.
    check(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) }.into())
}

/// Takes back O_NONBLOCK of a file that was opened with these flags and that one: only the opening needed it.
pub fn now_blocking(fd: BorrowedFd<'_>, flags: i32) -> Result<(), Errno> {
    // SAFETY: plain numbers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) }.into())
        .map(drop)
}

/// Was it opened for its path alone?
pub fn is_path_only(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    // SAFETY: plain numbers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) }.into())?;
    Ok(flags & i64::from(libc::O_PATH) != 0)
}

/// A descriptor of a guest, shared with it: its sockets, its watches.
pub fn descriptor_of(tid: i32, number: i32) -> Result<OwnedFd, Errno> {
    const THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint; // PIDFD_THREAD, Linux 6.9
    // SAFETY: plain numbers.
    let thread = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, tid, THREAD) })?;
    // SAFETY: plain numbers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, thread.as_raw_fd(), number, 0) })
}

pub fn add_watch(watches: BorrowedFd<'_>, fd: BorrowedFd<'_>, mask: u32) -> Result<i64, Errno> {
    check(
        // SAFETY: a zero-terminated string and numbers.
        unsafe { libc::inotify_add_watch(watches.as_raw_fd(), own_path(fd).as_ptr(), mask) }.into(),
    )
}

/// A file of memory with this content, to be read.
pub fn file_of(name: &CStr, content: &[u8]) -> Result<OwnedFd, Errno> {
    let file = owned(
        // SAFETY: a zero-terminated string and a number.
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) }
            .into(),
    )?;
    let mut file = std::fs::File::from(file);
    std::io::Write::write_all(&mut file, content).map_err(Errno::from)?;
    reopen(std::os::fd::AsFd::as_fd(&file), libc::O_RDONLY)
}

/// The number of a new terminal's slave, for its master (TIOCGPTN).
pub fn terminal_number(master: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut number: libc::c_uint = 0;
    // SAFETY: a live local of the type that the kernel fills in.
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number) }.into())
        .map(|_| number)
}

//! The kernel's error numbers as values, for those who answer in the kernel's place. Not in it: words for people.

/// An error number of errno(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

macro_rules! names {
    ($($name:ident),*) => {
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)*
        }
    };
}

names!(
    E2BIG,
    EACCES,
    EAFNOSUPPORT,
    EAGAIN,
    EBADF,
    EBUSY,
    EEXIST,
    EFAULT,
    EINTR,
    EINVAL,
    EIO,
    EISDIR,
    ELOOP,
    EMFILE,
    EMSGSIZE,
    ENAMETOOLONG,
    ENOBUFS,
    ENODEV,
    ENOENT,
    ENOEXEC,
    ENOSYS,
    ENOTDIR,
    ENOTEMPTY,
    ENOTSOCK,
    ENXIO,
    EOPNOTSUPP,
    EPERM,
    EPIPE,
    EPROTONOSUPPORT,
    ERANGE,
    EROFS,
    ESRCH,
    EXDEV
);

impl Errno {
    /// ERESTARTSYS, which the kernel keeps to itself: EINTR where a signal's handler wants that, else the call is made
    /// again. Only for a thread that is about to stop or to be signalled.
    pub const BROKEN_OFF: Errno = Errno(512);

    /// Of the last call of this thread.
    pub(super) fn last() -> Errno {
        Errno(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        )
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        std::io::Error::from_raw_os_error(errno.0)
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

pub(super) fn check(result: libc::c_long) -> Result<i64, Errno> {
    if result < 0 {
        Err(Errno::last())
    } else {
        Ok(result)
    }
}

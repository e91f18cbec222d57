//! A started guest: its process, its end. Not here: its output (kumiko-runner).

use kumiko_linux::process::{self, End};
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
    pid: i32,
    pidfd: OwnedFd,
    terminal: Option<OwnedFd>,
    ended: Option<Ended>,
}

impl Guest {
    pub(crate) fn new(pid: i32, pidfd: OwnedFd, terminal: Option<OwnedFd>) -> Guest {
        Guest {
            pid,
            pidfd,
            terminal,
            ended: None,
        }
    }

    /// For poll/epoll.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// On the host.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The master of its terminal, if it was started with one; None when it was taken before.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Sends a signal to the guest's process group. No error when it has ended.
    pub fn signal(&self, signal: i32) {
        if self.ended.is_none() {
            // Not waited for yet, so the number is still its own. The account may signal what it started.
            let _ = process::signal_group(self.pid, signal);
        }
    }

    /// None while it runs. Does not wait; may be asked again.
    pub fn try_wait(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            self.ended = match process::reap(self.pidfd.as_fd()) {
                Ok(None) => None,
                Ok(Some(End::Exited(status))) => Some(Ended::Exited(status)),
                Ok(Some(End::Signalled(signal))) => Some(Ended::Signalled(signal)),
                // Somebody waited for our child in our place: its status is lost, and it did end.
                Err(_) => Some(Ended::Signalled(SIGKILL)),
            };
        }
        self.ended
    }
}

/// signal(7).
const SIGKILL: i32 = 9;

//! A process that the monitor has started as an account, and the line to it.

use kumiko_linux::accounts::Account;
use kumiko_linux::packets::Packets;
use kumiko_linux::privileges::{Terms, become_account};
use kumiko_linux::process::{self, End};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// From the end of a process's line to its own: it says why, and is gone.
const END_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Child {
    pub line: Packets,
    pub process: OwnedFd,
    pub begun: Instant,
    pub pid: u32,
    /// It has closed its line, and is to have ended by then.
    pub end_by: Option<Instant>,
}

impl Child {
    /// Starts `command` with the other end of the line as its standard input.
    pub fn start(mut command: Command, account: &Account, terms: Terms) -> io::Result<Child> {
        let (line, theirs) = Packets::pair()?;
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        become_account(&mut command, account, terms);
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Child {
            line,
            // Nobody else waits for it, so the number is still its own.
            process: process::pidfd(pid)?,
            begun: Instant::now(),
            pid: child.id(),
            end_by: None,
        })
    }

    /// It has closed its line, which it does when it ends.
    pub fn hung_up(&mut self) {
        self.end_by = Some(Instant::now() + END_WITHIN);
    }

    /// How it ended, once; None: it runs.
    pub fn ended(&self) -> Option<End> {
        match process::reap(self.process.as_fd()) {
            Ok(end) => end,
            Err(cause) => {
                tracing::error!(pid = self.pid, %cause, "a process cannot be waited for");
                None
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        if let Err(cause) = process::signal(self.process.as_fd(), signal) {
            tracing::error!(pid = self.pid, signal, %cause, "a process cannot be signalled");
        }
    }
}

//! Terminals: their size, and raw mode, restored when done. Not here: how a guest's is made ([`crate::cell`]).

use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcsetattr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Raw mode (termios(3), cfmakeraw) until dropped: each key goes to the program at the other end.
#[derive(Debug)]
pub struct RawTerminal {
    terminal: OwnedFd,
    before: Termios,
}

impl RawTerminal {
    /// # Errors
    /// ENOTTY if it is no terminal.
    pub fn enter(terminal: impl AsFd) -> io::Result<RawTerminal> {
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(RawTerminal { terminal, before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Sets the window size of a terminal, by either end; its foreground process group gets SIGWINCH.
pub fn set_size(terminal: impl AsFd, rows: u16, columns: u16) -> io::Result<()> {
    Ok(rustix::termios::tcsetwinsize(
        terminal,
        window(rows, columns),
    )?)
}

/// A new terminal of the host of this size: master and slave.
pub fn open(rows: u16, columns: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    set_size(&slave, rows, columns)?;
    Ok((master, slave))
}

/// (rows, columns).
pub fn size(terminal: impl AsFd) -> io::Result<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(terminal)?;
    Ok((size.ws_row, size.ws_col))
}

pub(crate) fn window(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

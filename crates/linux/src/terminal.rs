//! Pseudo-terminals (pty(7)).

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Opens a pair: the master, which does not block, and the slave; neither becomes this process's own terminal, and
/// both close on exec. The slave is taken from the master itself, so it needs no name in this process's /dev/pts.
pub fn open_terminal(rows: u16, columns: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    set_window(&master, rows, columns)?;
    crate::spooling::set_nonblocking(&master, true)?;
    Ok((master, slave))
}

/// Sets the size; the foreground processes of the terminal get SIGWINCH.
pub fn set_window(terminal: impl AsFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

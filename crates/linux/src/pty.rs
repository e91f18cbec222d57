//! Pseudo-terminals (pty(7)).

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Opens a pair, master first; both close on exec, neither becomes a controlling terminal here.
pub fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, Mode::empty())?;
    Ok((master, slave))
}

/// Sets the window size of a terminal, by either end; its foreground process group gets SIGWINCH.
pub fn set_size(terminal: impl AsFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

/// (rows, columns).
pub fn size(terminal: impl AsFd) -> io::Result<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(terminal)?;
    Ok((size.ws_row, size.ws_col))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_pair_is_one_terminal_with_one_size() {
        let (master, slave) = super::open().unwrap();
        super::set_size(&master, 33, 101).unwrap();
        assert_eq!(super::size(&slave).unwrap(), (33, 101));
    }
}

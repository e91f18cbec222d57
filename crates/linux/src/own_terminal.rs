//! The terminal this process was started from: its raw mode, restored when done. Signals by name beside it.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
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

/// The number of a signal named without SIG (signal(7)); None if there is none such.
pub fn signal_number(name: &str) -> Option<i32> {
    let number = match name {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ABRT" => libc::SIGABRT,
        "KILL" => libc::SIGKILL,
        "USR1" => libc::SIGUSR1,
        "USR2" => libc::SIGUSR2,
        "ALRM" => libc::SIGALRM,
        "TERM" => libc::SIGTERM,
        "CONT" => libc::SIGCONT,
        "STOP" => libc::SIGSTOP,
        "TSTP" => libc::SIGTSTP,
        "TTIN" => libc::SIGTTIN,
        "TTOU" => libc::SIGTTOU,
        "WINCH" => libc::SIGWINCH,
        _ => return None,
    };
    Some(number)
}

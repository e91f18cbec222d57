//! Signals as something to read (signalfd(2)): no handler, nothing to interrupt.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Signals that a program between a person and a guest passes on.
pub const PASSED_ON: [i32; 6] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

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

/// Told to those who run on a terminal when its size changes.
pub const WINDOW_CHANGED: i32 = libc::SIGWINCH;

/// Signals that this thread holds back and reads instead; let go when dropped. To be made by the first thread before
/// there are others, which inherit it.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    pub fn hold(signals: &[i32]) -> io::Result<Signals> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset fills `set` in before it is used, pthread_sigmask fills in `before`; a number that is no
        // signal is refused by sigaddset.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = OwnedFd::from_raw_fd(fd);
            match libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) {
                0 => Ok(Signals {
                    fd,
                    before: before.assume_init(),
                }),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }

    /// The next one that came, if any.
    pub fn next(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as long as told, and read only when the kernel has filled all of it.
        unsafe {
            let got = libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size);
            (got == size as isize).then(|| info.assume_init().ssi_signo as i32)
        }
    }
}

impl Signals {
    /// In a copy of the process that holds them: they reach the copy as they would have reached that process before.
    pub fn let_go(&self) {
        // SAFETY: `before` was filled in by the kernel in `hold`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Lets this process end as most programs do when it writes to a pipe that nobody reads (SIGPIPE, signal(7)); Rust's start
/// code has it ignored.
pub fn end_with_closed_pipes() {
    // SAFETY: no handler of ours is replaced, and the default action runs no code of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Has the program that this command starts get errors, and not a signal, where it writes to what nobody reads.
pub fn ignore_closed_pipes(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let ignore = || {
        // SAFETY: one system call, as a child may make before exec (fork(2)); no handler runs.
        match unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: `ignore` takes no lock and no memory, which is what is asked of a child of a process with several threads.
    unsafe { command.pre_exec(ignore) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_can_be_told_of_closed_pipes_by_errors() {
        let ends = |ignored: bool| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", "kill -PIPE $$; exit 7"]);
            if ignored {
                ignore_closed_pipes(&mut shell);
            }
            shell.status().unwrap().code()
        };
        assert_eq!((ends(false), ends(true)), (None, Some(7)));
    }

    #[test]
    fn a_held_signal_is_read() {
        let signals = Signals::hold(&[libc::SIGUSR1]).unwrap();
        assert_eq!(signals.next(), None);
        // SAFETY: a signal to this thread, which holds it back.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert_eq!(signals.next(), Some(libc::SIGUSR1));
    }
}

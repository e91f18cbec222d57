//! From a copy of our process to the program: descriptors, session, terminal, directory; then every right is given up,
//! in an order in which each step can still be taken; then exec.

use super::report::{Failure, Message, Reports, Stage, above_standard, errno};
use super::seccomp::Filter;
use rustix::io::Errno;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};

/// What to execute, all of it in the form that the kernel takes.
#[derive(Debug)]
pub struct Program<'a> {
    /// Tried in order; the first that is there is executed.
    pub candidates: Vec<CString>,
    /// With the program's name first.
    pub arguments: Vec<CString>,
    /// NAME=VALUE.
    pub environment: Vec<CString>,
    pub directory: CString,
    /// stdin, stdout, stderr.
    pub standard: [BorrowedFd<'a>; 3],
    /// stdin is a terminal's slave and becomes the controlling terminal.
    pub terminal: bool,
    pub filter: &'a Filter,
    /// What the program's new files lack (umask(2)).
    pub umask: u32,
}

/// Arrays for execve(2), made before the fork.
pub(super) struct Pointers<'a> {
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    /// The pointers point into it.
    _program: std::marker::PhantomData<&'a Program<'a>>,
}

impl Program<'_> {
    pub(super) fn pointers(&self) -> Pointers<'_> {
        let pointers = |strings: &[CString]| {
            strings
                .iter()
                .map(|string| string.as_ptr())
                .chain([std::ptr::null()])
                .collect()
        };
        Pointers {
            arguments: pointers(&self.arguments),
            environment: pointers(&self.environment),
            _program: std::marker::PhantomData,
        }
    }
}

pub(super) fn run(program: &Program<'_>, pointers: &Pointers<'_>, reports: BorrowedFd<'_>) {
    let failure = match set_up(program) {
        Ok(()) => execute(program, pointers),
        Err(failure) => failure,
    };
    Reports::tell(reports, &Message::failed(&failure));
    // SAFETY: ends this copy without the handlers and buffers of the process it was copied from.
    unsafe { libc::_exit(127) }
}

fn set_up(program: &Program<'_>) -> Result<(), Failure> {
    standard(&program.standard).map_err(Failure::at(Stage::Descriptors))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(program.umask));
    // A fresh process leads no group, so this cannot fail; the session is what kills and terminals go by.
    rustix::process::setsid().map_err(Failure::at(Stage::Descriptors))?;
    if program.terminal {
        // SAFETY: descriptor 0 was set above and stays open.
        let stdin = unsafe { BorrowedFd::borrow_raw(0) };
        rustix::process::ioctl_tiocsctty(stdin).map_err(Failure::at(Stage::Terminal))?;
    }
    give_up_rights().map_err(Failure::at(Stage::Privileges))?;
    rustix::process::chdir(program.directory.as_c_str()).map_err(Failure::at(Stage::Directory))?;
    default_signals();
    program.filter.install().map_err(Failure::at(Stage::Filter))
}

/// Puts the three in their places; all others close on exec, whoever opened them.
fn standard(wanted: &[BorrowedFd<'_>; 3]) -> Result<(), Errno> {
    // Each may sit in another's place: first all of them out of the way.
    let [stdin, stdout, stderr] = wanted;
    let moved = [
        above_standard(*stdin)?,
        above_standard(*stdout)?,
        above_standard(*stderr)?,
    ];
    for (number, from) in moved.iter().enumerate() {
        // SAFETY: this copy uses none of the descriptors 0 to 2 but through what is put there now.
        if unsafe { libc::dup2(from.as_raw_fd(), number as libc::c_int) } < 0 {
            return Err(errno());
        }
    }
    // SAFETY: plain numbers; nothing is closed before exec.
    let result = unsafe {
        libc::close_range(
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_int,
        )
    };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

fn give_up_rights() -> Result<(), Errno> {
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(locked)?;
    for capability in 0..64 {
        // SAFETY: plain numbers. EINVAL: the kernel has no more.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            match errno() {
                Errno::INVAL => break,
                other => return Err(other),
            }
        }
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)?;
    rustix::thread::set_no_new_privs(true)
}

/// Ignored signals and the blocked set outlive exec, and are ours (std ignores SIGPIPE), not the guest's. By the bare
/// calls: the C library keeps two signals to itself.
fn default_signals() {
    /// Longer than any architecture's kernel form of struct sigaction; all zeros is SIG_DFL.
    const DEFAULT: [u64; 8] = [0; 8];
    /// Bytes of the kernel's sigset_t.
    const SET_BYTES: usize = 8;
    for signal in 1..=64 {
        // SAFETY: the kernel only reads the array; no handler of ours can run here any more.
        unsafe {
            let nothing = std::ptr::null_mut::<u64>();
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                nothing,
                SET_BYTES,
            );
        }
    }
    let none = 0u64;
    // SAFETY: the kernel only reads the empty set.
    unsafe {
        let nothing = std::ptr::null_mut::<u64>();
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            nothing,
            SET_BYTES,
        );
    }
}

/// Returns only when nothing could be executed. As execvp(3): a candidate without permission is told only when no later
/// one is there.
fn execute(program: &Program<'_>, pointers: &Pointers<'_>) -> Failure {
    let mut told = Failure {
        stage: Stage::Execute,
        index: 0,
        errno: libc::ENOENT,
    };
    for (index, candidate) in program.candidates.iter().enumerate() {
        // SAFETY: zero-terminated strings and null-terminated arrays that live in `program`.
        unsafe {
            libc::execve(
                candidate.as_ptr(),
                pointers.arguments.as_ptr(),
                pointers.environment.as_ptr(),
            )
        };
        let errno = errno();
        let failure = Failure::step(Stage::Execute, index)(errno);
        match errno {
            Errno::NOENT if is_there(candidate) => {
                return Failure {
                    stage: Stage::Interpreter,
                    ..failure
                };
            }
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => told = failure,
            _ => return failure,
        }
    }
    told
}

fn is_there(path: &CStr) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS).is_ok()
}

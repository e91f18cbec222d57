//! From a process like ours to the program: every right is given up, then come descriptors, terminal and directory, as a
//! guest could have them itself, then exec.

use super::report::{Failure, Message, Reports, Stage, above, errno};
use super::seccomp::Filter;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

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
    pub streams: Streams<'a>,
    pub role: Role<'a>,
    /// What the program's new files lack (umask(2)).
    pub umask: u32,
}

/// Whose program it is.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// It gives up every right, and has this filter of system calls. None: it is to be dumped, and has a keyring of its own
    /// in place of the filter that would keep it from the account's.
    Guest { filter: Option<&'a Filter> },
    /// Ours: it keeps what rights the cell's namespaces give, executes this file of the host (no candidate), and has these
    /// descriptors, from 3 on. Its loader and libraries are those of the view.
    Helper {
        file: BorrowedFd<'a>,
        descriptors: &'a [BorrowedFd<'a>],
    },
}

/// Most descriptors of a helper.
const DESCRIPTORS: usize = 8;

/// What stdin, stdout and stderr are.
#[derive(Clone, Copy, Debug)]
pub enum Streams<'a> {
    Given([BorrowedFd<'a>; 3]),
    /// All three a new terminal of the cell's own /dev/pts, which is the controlling one; its master comes back with the
    /// [`Child`](super::Child).
    Terminal {
        rows: u16,
        columns: u16,
    },
}

/// A program and all that its process needs until exec, made before the first fork.
pub(super) struct Ready<'a> {
    program: &'a Program<'a>,
    /// Arrays for execve(2), which point into `program`.
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    stack: Vec<MaybeUninit<u8>>,
}

/// The process uses a few hundred bytes of it; no page of it is touched in our own memory.
const STACK_BYTES: usize = 64 * 1024;
/// As the architectures' calling conventions want it.
const STACK_ALIGNMENT: usize = 16;

impl Program<'_> {
    pub(super) fn ready(&self) -> Ready<'_> {
        let pointers = |strings: &[CString]| {
            let strings = strings.iter().map(|string| string.as_ptr());
            strings.chain([std::ptr::null()]).collect()
        };
        let mut stack = Vec::with_capacity(STACK_BYTES);
        stack.resize(STACK_BYTES, MaybeUninit::uninit());
        Ready {
            program: self,
            arguments: pointers(&self.arguments),
            environment: pointers(&self.environment),
            stack,
        }
    }
}

impl Ready<'_> {
    /// Starts the process as a sibling of this one, and returns when it has executed or ended. As with vfork(2) it uses
    /// our memory until then, which spares copying it.
    pub(super) fn start(&mut self, reports: BorrowedFd<'_>) -> Result<i32, Errno> {
        let top = self.stack.as_mut_ptr_range().end;
        // SAFETY: within the stack, which is longer than that.
        let top = unsafe { top.sub(top.addr() % STACK_ALIGNMENT) };
        let mut job = (&*self, reports);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD;
        // SAFETY: the stack is the process's alone, and `job` lives on: this process, which has one thread, stands still
        // until the other has executed or ended (CLONE_VFORK). What the other changes here is its stack and errno.
        let pid = unsafe { libc::clone(run, top.cast(), flags, (&raw mut job).cast()) };
        if pid < 0 { Err(errno()) } else { Ok(pid) }
    }
}

impl Ready<'_> {
    /// Becomes the program, in a process that was started for it before the cell was ready. Returns only when nothing was
    /// executed, which is told.
    pub(super) fn become_program(&self, reports: BorrowedFd<'_>, go: BorrowedFd<'_>) {
        let failure = match confine(self.program) {
            Ok(()) if Reports::told_to_go(go) => self.execute_furnished(reports),
            // The maker says why, if it still could.
            Ok(()) => Failure::LOST,
            Err(failure) => failure,
        };
        Reports::tell(reports, &Message::failed(&failure));
    }

    fn execute_furnished(&self, reports: BorrowedFd<'_>) -> Failure {
        match furnish(self.program, reports) {
            Ok(()) => {
                default_signals();
                execute(self)
            }
            Err(failure) => failure,
        }
    }
}

extern "C" fn run(job: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `Ready::start` gives exactly this, and keeps it.
    let (ready, reports) = unsafe { &*job.cast::<(&Ready<'_>, BorrowedFd<'_>)>() };
    let failure = match confine(ready.program) {
        Ok(()) => ready.execute_furnished(*reports),
        Err(failure) => failure,
    };
    Reports::tell(*reports, &Message::failed(&failure));
    // SAFETY: ends this process without the handlers and buffers of the one whose memory it uses.
    unsafe { libc::_exit(127) }
}

/// No way back to any right, and no call that the filter refuses. Needs nothing of the cell, and takes longest.
fn confine(program: &Program<'_>) -> Result<(), Failure> {
    // A fresh process leads no group, so this cannot fail; the session is what kills and terminals go by.
    rustix::process::setsid().map_err(Failure::at(Stage::Descriptors))?;
    let filter = match program.role {
        Role::Guest { filter } => filter,
        Role::Helper { .. } => return keep_rights().map_err(Failure::at(Stage::Privileges)),
    };
    give_up_rights().map_err(Failure::at(Stage::Privileges))?;
    match filter {
        Some(filter) => filter.install().map_err(Failure::at(Stage::Filter)),
        None => own_keyring().map_err(Failure::at(Stage::Privileges)),
    }
}

/// A session keyring of its own, where the kernel has any (keyctl(2)).
fn own_keyring() -> Result<(), Errno> {
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    let nameless = std::ptr::null::<libc::c_char>();
    // SAFETY: plain numbers, and no name.
    let made = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, nameless) };
    match made < 0 {
        true if errno() != Errno::NOSYS => Err(errno()),
        _ => Ok(()),
    }
}

/// What an account that is not root loses when it executes is handed on (capabilities(7), "ambient").
fn keep_rights() -> Result<(), Errno> {
    let sets = rustix::thread::capabilities(None)?;
    let inheritable = sets.permitted;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            inheritable,
            ..sets
        },
    )?;
    for capability in inheritable.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// What the program is given of the cell, by calls that it could make itself.
fn furnish(program: &Program<'_>, reports: BorrowedFd<'_>) -> Result<(), Failure> {
    match &program.streams {
        Streams::Given(three) => match program.role {
            Role::Guest { .. } => standard(three),
            Role::Helper { descriptors, .. } => all_of(three, descriptors),
        },
        Streams::Terminal { rows, columns } => {
            let slave =
                open_terminal(*rows, *columns, reports).map_err(Failure::at(Stage::Terminal))?;
            standard(&[slave.as_fd(); 3])
        }
    }
    .map_err(Failure::at(Stage::Descriptors))?;
    rustix::process::umask(Mode::from_raw_mode(program.umask));
    if let Streams::Terminal { .. } = program.streams {
        // SAFETY: descriptor 0 was set above and stays open.
        let stdin = unsafe { BorrowedFd::borrow_raw(0) };
        rustix::process::ioctl_tiocsctty(stdin).map_err(Failure::at(Stage::Terminal))?;
    }
    rustix::process::chdir(program.directory.as_c_str()).map_err(Failure::at(Stage::Directory))
}

/// Opens a terminal of this cell and hands its master over. The slave is opened through the master (TIOCGPTPEER,
/// ioctl_tty(2)): no name is looked up that another program of the cell might have changed.
fn open_terminal(rows: u16, columns: u16, reports: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open(c"/dev/pts/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&master)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    rustix::termios::tcsetwinsize(&slave, crate::terminal::window(rows, columns))?;
    Reports::tell_fd(reports, master.as_fd())?;
    Ok(slave)
}

/// Puts the three in their places; all others close on exec, whoever opened them.
pub(crate) fn standard(wanted: &[BorrowedFd<'_>; 3]) -> Result<(), Errno> {
    all_of(wanted, &[])
}

/// As [`standard`], with further ones behind them.
fn all_of(standard: &[BorrowedFd<'_>; 3], further: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    // Each may sit in another's place: first all of them out of the way.
    let mut moved = [const { None }; 3 + DESCRIPTORS];
    let count = standard.len() + further.len();
    let all = standard.iter().chain(further);
    if count > moved.len() {
        return Err(Errno::MFILE);
    }
    for (number, (fd, to)) in all.zip(&mut moved).enumerate() {
        *to = Some(match number {
            0..3 => own(*fd, count)?,
            _ => above(*fd, count)?,
        });
    }
    for (number, from) in moved.iter().flatten().enumerate() {
        // SAFETY: this copy uses none of these descriptors but through what is put there now.
        if unsafe { libc::dup2(from.as_raw_fd(), number as libc::c_int) } < 0 {
            return Err(errno());
        }
    }
    // SAFETY: plain numbers; nothing is closed before exec.
    let result = unsafe {
        libc::close_range(
            count as libc::c_uint,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_int,
        )
    };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// A second descriptor with a number from `least` on: of the same thing, but of the cell's own /dev/null for the host's, whose
/// mode an account that is root could change through it.
fn own(fd: BorrowedFd<'_>, least: usize) -> Result<OwnedFd, Errno> {
    let stat = rustix::fs::fstat(fd)?;
    let is_null = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        ) == NULL_DEVICE;
    if !is_null {
        return above(fd, least);
    }
    let flags = (rustix::fs::fcntl_getfl(fd)? & OFlags::RWMODE) | OFlags::CLOEXEC;
    let null = rustix::fs::open(c"/dev/null", flags, Mode::empty())?;
    above(null.as_fd(), least)
}

/// Major and minor number of /dev/null (null(4)).
const NULL_DEVICE: (u32, u32) = (1, 3);

/// As [`give_up_rights`] where there may be no right to give up: an ordinary account outside a user namespace has no
/// capability to lock them with, and gains none by executing (no_new_privs).
pub(crate) fn give_up_what_there_is() -> Result<(), Errno> {
    match give_up_rights() {
        Err(Errno::PERM) => {
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            };
            rustix::thread::set_capabilities(None, none)?;
            rustix::thread::set_no_new_privs(true)
        }
        done => done,
    }
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
pub(crate) fn default_signals() {
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
fn execute(ready: &Ready<'_>) -> Failure {
    if let Role::Helper { file, .. } = ready.program.role {
        // SAFETY: an empty string and null-terminated arrays that live in `program`.
        unsafe {
            libc::execveat(
                file.as_raw_fd(),
                c"".as_ptr(),
                ready.arguments.as_ptr().cast(),
                ready.environment.as_ptr().cast(),
                libc::AT_EMPTY_PATH,
            )
        };
        return Failure::at(Stage::Execute)(errno());
    }
    let mut told = Failure {
        stage: Stage::Execute,
        index: 0,
        errno: libc::ENOENT,
    };
    for (index, candidate) in ready.program.candidates.iter().enumerate() {
        let errno = until_written(|| {
            // SAFETY: zero-terminated strings and null-terminated arrays that live in `program`.
            unsafe {
                libc::execve(
                    candidate.as_ptr(),
                    ready.arguments.as_ptr(),
                    ready.environment.as_ptr(),
                )
            };
        });
        let failure = Failure::step(Stage::Execute, index)(errno);
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => {
                if is_there(candidate) {
                    return Failure {
                        stage: Stage::Interpreter,
                        ..failure
                    };
                }
            }
            Errno::ACCESS => told = failure,
            _ => return failure,
        }
    }
    told
}

/// Why nothing was executed. Whoever wrote the program may have forked while it wrote: until that copy executes it has the file open
/// as well, and nobody may execute it (ETXTBSY). That is a moment, which is waited for.
pub(crate) fn until_written(execute: impl Fn()) -> Errno {
    const TRIES: u32 = 1000;
    static PAUSE: libc::timespec = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    for _ in 0..TRIES {
        execute();
        let errno = errno();
        if errno != Errno::TXTBSY {
            return errno;
        }
        // SAFETY: a constant is read, and what is left of it asked for by nobody.
        unsafe { libc::nanosleep(&raw const PAUSE, std::ptr::null_mut()) };
    }
    Errno::TXTBSY
}

fn is_there(path: &CStr) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS).is_ok()
}

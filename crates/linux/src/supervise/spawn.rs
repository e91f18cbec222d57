//! The processes of a room without namespaces, three kinds:
//!
//! * the *supervisor*, a copy of the process that has the room, which answers for the guests;
//! * the *warden*, which ends the room when the supervisor is gone, however it went;
//! * *guests*, started by the supervisor as its siblings: children of the process that has the room.
//!
//! Guest and warden allocate nothing before they execute or end; the supervisor may, since it is made by fork(3), whose
//! C library sees to its own locks. Not in it: what they answer.

use super::domain;
use super::errno::Errno;
use crate::cell::{self, Filter, Reports, report};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How long a supervisor has for what it does at its end (removing files), after who has the room told it to, or went.
const AT_THE_END_MS: libc::c_int = 10_000;

/// Runs `supervisor` in a copy of this process that has given up all rights, leads a session of its own, is behind the
/// walls of a room, and has no descriptor but `keep`. Returns its process number.
///
/// `supervisor` must not panic through, nor use what other threads of this process may hold locked: standard streams,
/// the environment.
pub fn supervisor(keep: &[BorrowedFd<'_>], supervisor: impl FnOnce(OpenFiles)) -> io::Result<i32> {
    // SAFETY: fork(3): the C library keeps its own state usable in the copy; the rest is promised above.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _end = cell::EndOfCopy;
            if let Ok(files) = settle(keep) {
                supervisor(files);
            }
            Ok(0) // never told: the copy ends here
        }
        pid => Ok(pid),
    }
}

fn settle(keep: &[BorrowedFd<'_>]) -> io::Result<OpenFiles> {
    rustix::process::setsid()?;
    // A mount of the view is a descriptor.
    let files = rustix::process::getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: files.maximum,
        maximum: files.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, most)?;
    // SAFETY: signals are blocked and ignored for this process alone; the set is a live local.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::prctl(libc::PR_SET_NAME, c"kumiko-guard".as_ptr());
    }
    let null = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, Mode::empty())?;
    for number in 0..3 {
        // SAFETY: this copy does not use its standard streams.
        unsafe { libc::dup2(null.as_raw_fd(), number) };
    }
    std::mem::forget(null);
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut from = 3;
    for number in kept.into_iter().chain([u32::MAX]) {
        if number > from {
            // SAFETY: whatever had these numbers in the original is not used in this copy, nor closed by it.
            unsafe { libc::close_range(from, number - 1, 0) };
        }
        from = from.max(number.saturating_add(1));
    }
    cell::program::give_up_what_there_is()?;
    rustix::process::umask(Mode::empty());
    domain::enter_room()?;
    // What guests of other rooms may not look into.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(OpenFiles(files))
}

/// Starts the warden of the room that this process, which has one thread, supervises. `owner` hangs up when who has the
/// room is gone. The pipe that comes back is to be kept as long as there is something to supervise.
pub fn warden(owner: BorrowedFd<'_>) -> io::Result<(i32, OwnedFd)> {
    let (here, there) = crate::spooling::pipe()?;
    let (owner, here, kept) = (owner.as_raw_fd(), here.as_raw_fd(), there.as_raw_fd());
    // SAFETY: the child makes system calls alone.
    let warden = unsafe {
        cell::fork(0, || {
            libc::close(kept);
            let hangs_up = |fd| libc::pollfd {
                fd,
                events: 0,
                revents: 0,
            };
            let mut both = [hangs_up(owner), hangs_up(here)];
            while libc::poll(both.as_mut_ptr(), 2, -1) < 0 {}
            let mut supervisor = [hangs_up(here)];
            libc::poll(supervisor.as_mut_ptr(), 1, AT_THE_END_MS);
            let _ = domain::end_room();
        })
    }?;
    Ok((warden, there))
}

/// The limit on open files that guests get, which is not the supervisor's own.
#[derive(Debug)]
pub struct OpenFiles(Rlimit);

/// How a guest's calls are reached.
#[derive(Debug)]
pub enum Reach {
    /// The listener of its filter is taken from it.
    Notify,
    /// It executes nothing until it is traced.
    Trace,
}

/// A guest to be started: all as the kernel takes it.
#[derive(Debug)]
pub struct GuestProgram<'a> {
    /// On the host, as are those that follow.
    pub path: CString,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    pub directory: BorrowedFd<'a>,
    pub streams: [BorrowedFd<'a>; 3],
    /// The streams are a terminal, and the guest's controlling one.
    pub terminal: bool,
    pub umask: u32,
    pub files: &'a OpenFiles,
    pub domain: BorrowedFd<'a>,
    pub filter: &'a Filter,
    pub reach: Reach,
}

/// A guest on its way to its program.
#[derive(Debug)]
pub struct Starting {
    pub pid: i32,
    pub listener: Option<OwnedFd>,
    reports: Reports,
}

impl Starting {
    /// Lets a traced guest go on.
    pub fn go(&self) {
        Reports::tell(self.reports.end(), &report::Message::go());
    }

    /// Waits until it has executed, or tells why not. Whoever answers its calls must do so meanwhile.
    pub fn executed(self) -> Result<(), cell::Failure> {
        self.reports.collect().failure.map_or(Ok(()), Err)
    }
}

/// Starts a guest as a sibling of this process.
///
/// # Errors
/// Why, and the number of the child that is left to be reaped by the parent, or 0.
pub fn guest(program: &GuestProgram<'_>) -> Result<Starting, (i32, cell::Failure)> {
    let starting = |error: io::Error| (0, cell::Failure::new(cell::Stage::Program, &error));
    let (reports, theirs) = report::pair().map_err(starting)?;
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings
            .iter()
            .map(|string| string.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (arguments, environment) = (pointers(&program.arguments), pointers(&program.environment));
    let ours = reports.end().as_raw_fd();
    // SAFETY: the child allocates nothing and takes no lock.
    let pid = unsafe {
        cell::fork(libc::CLONE_PARENT, || {
            libc::close(ours);
            let failure = become_guest(program, &arguments, &environment, theirs.as_fd());
            Reports::tell(theirs.as_fd(), &report::Message::failed(&failure));
            libc::_exit(127)
        })
    }
    .map_err(starting)?;
    drop(theirs);
    let listener = match program.reach {
        Reach::Trace => {
            reports
                .ready_or_failure()
                .map_err(|failure| (pid, failure))?;
            None
        }
        Reach::Notify => {
            let told = reports.descriptor_or_failure();
            let number = told.map_err(|failure| (pid, failure))?;
            let taken = super::calls::descriptor_of(pid, number);
            let lost = |Errno(errno)| cell::Failure {
                stage: cell::Stage::Filter,
                index: 0,
                errno,
            };
            Some(taken.map_err(|errno| (pid, lost(errno)))?)
        }
    };
    Ok(Starting {
        pid,
        listener,
        reports,
    })
}

/// Returns only when nothing was executed.
fn become_guest(
    program: &GuestProgram<'_>,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    reports: BorrowedFd<'_>,
) -> cell::Failure {
    let prepared = prepare(program, reports);
    if let Err(failure) = prepared {
        return failure;
    }
    cell::program::default_signals();
    let path: &CStr = &program.path;
    let errno = cell::program::until_written(|| {
        // SAFETY: a zero-terminated string and null-terminated arrays of such, which live in the caller.
        unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    });
    cell::Failure::at(cell::Stage::Execute)(errno)
}

fn prepare(program: &GuestProgram<'_>, reports: BorrowedFd<'_>) -> Result<(), cell::Failure> {
    use cell::{Failure, Stage};
    // What it is made of is its account's own, which may look into it.
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    if let Reach::Trace = program.reach {
        // Who traces it gets there while it goes on with this.
        Reports::tell(reports, &report::Message::go());
    }
    rustix::process::setsid().map_err(Failure::at(Stage::Descriptors))?;
    rustix::process::fchdir(program.directory).map_err(Failure::at(Stage::Directory))?;
    cell::program::standard(&program.streams).map_err(Failure::at(Stage::Descriptors))?;
    rustix::process::umask(Mode::from_raw_mode(program.umask));
    rustix::process::setrlimit(Resource::Nofile, program.files.0)
        .map_err(Failure::at(Stage::Descriptors))?;
    if program.terminal {
        // SAFETY: descriptor 0 was set above and stays open.
        let stdin = unsafe { BorrowedFd::borrow_raw(0) };
        rustix::process::ioctl_tiocsctty(stdin).map_err(Failure::at(Stage::Terminal))?;
    }
    // SAFETY: plain numbers.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::syscall(
                libc::SYS_landlock_restrict_self,
                program.domain.as_raw_fd(),
                0,
            ) != 0
        {
            return Err(Failure::at(Stage::Privileges)(report::errno()));
        }
    }
    match program.reach {
        Reach::Notify => {
            let listener = program
                .filter
                .install_with_listener()
                .map_err(Failure::at(Stage::Filter))?;
            // Handing it over may be a call that is asked about. It is closed when the program is executed, which is one.
            Reports::tell(reports, &report::Message::descriptor(listener.as_raw_fd()));
            std::mem::forget(listener);
        }
        Reach::Trace => {
            program
                .filter
                .install()
                .map_err(Failure::at(Stage::Filter))?;
            if !Reports::told_to_go(reports) {
                return Err(Failure::LOST);
            }
        }
    }
    Ok(())
}

/// Ends this process at once, with no handlers.
pub fn end() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

/// Waits for a child that ends by itself.
pub fn reap(pid: i32) {
    cell::reap_helper(pid);
}

/// Lets a supervisor, a child that is not waited for yet, do what it was told, should somebody have stopped it.
pub fn go_on(supervisor: i32) {
    // SAFETY: plain numbers.
    unsafe { libc::kill(supervisor.max(2), libc::SIGCONT) };
}

/// Waits for a supervisor that was told to end. One that does not is killed, and its warden ends the room.
pub fn reap_supervisor(supervisor: i32) {
    go_on(supervisor);
    // Without a descriptor there is only waiting.
    let within = Duration::from_millis(AT_THE_END_MS as u64);
    let ends = crate::process::pidfd(supervisor).map_or(Ok(true), |pidfd| {
        crate::process::ends_within(pidfd.as_fd(), within)
    });
    if !ends.unwrap_or(false) {
        let _ = kill(supervisor);
    }
    cell::reap_helper(supervisor);
}

/// Ends a thread that is no member any more; see [`domain::end_room`] for all.
pub fn kill(pid: i32) -> Result<(), Errno> {
    // SAFETY: plain numbers.
    super::errno::check(unsafe { libc::kill(pid.max(2), libc::SIGKILL) }.into()).map(drop)
}

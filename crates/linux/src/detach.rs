//! How a process that outlives its parent sets itself apart at its start.

use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Programs that use select(2) break with descriptors from here up, so this is what they are started with everywhere.
const OPEN_FILES: u64 = 1024;

/// Writing past a limit on file sizes fails then (SIGXFSZ, EFBIG). The others tell every process that the machine or a
/// session of the account goes down: the programs that this process stands beside heed them or not, and it is to see how
/// they end.
const IGNORED: [libc::c_int; 4] = [libc::SIGXFSZ, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Makes this process the leader of a session of its own, in `/`, with no descriptor above 2, which nobody of its
/// account may trace or read (PR_SET_DUMPABLE, prctl(2)), which no limit on file sizes and no request to end kills, and
/// which hands on the usual limit of descriptors and not what its parent may have raised it to.
///
/// To be called first thing, with one thread and nothing open: every descriptor from 3 up is closed.
pub fn detach() -> io::Result<()> {
    // SAFETY: the caller promises that nothing above 2 is open in this process, so nobody's descriptor is closed.
    if unsafe { libc::close_range(3, libc::c_uint::MAX, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for signal in IGNORED {
        // SAFETY: this process has no handler that could be lost.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // A leader of a process group already (started from a shell) cannot make a session, and needs none.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/")?;
    guard()?;
    let mut files = getrlimit(Resource::Nofile);
    if files.current.is_none_or(|soft| soft > OPEN_FILES) {
        files.current = Some(OPEN_FILES);
        setrlimit(Resource::Nofile, files)?;
    }
    // SAFETY: PR_SET_CHILD_SUBREAPER takes plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Nobody of the same account may trace this process or read its memory, environment or descriptors.
pub fn guard() -> io::Result<()> {
    let no = rustix::process::DumpableBehavior::NotDumpable;
    Ok(rustix::process::set_dumpable_behavior(no)?)
}

/// Takes over descriptor 0 under a number above 2 that closes on exec, and leaves /dev/null in its place.
pub fn take_stdin() -> io::Result<OwnedFd> {
    let taken = std::io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(&std::fs::File::open("/dev/null")?)?;
    Ok(taken)
}

/// Puts something else in the place of descriptors 0 and 1.
pub fn put_stdin_and_stdout(fd: impl AsFd) -> io::Result<()> {
    rustix::stdio::dup2_stdin(&fd)?;
    Ok(rustix::stdio::dup2_stdout(&fd)?)
}

/// As `take_stdin`, of descriptors 1 and 2.
pub fn take_stdout_and_stderr() -> io::Result<[OwnedFd; 2]> {
    let taken = [
        std::io::stdout().as_fd().try_clone_to_owned()?,
        std::io::stderr().as_fd().try_clone_to_owned()?,
    ];
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(taken)
}

/// As [`take_stdin`], of descriptor 1.
pub fn take_stdout() -> io::Result<OwnedFd> {
    let taken = std::io::stdout().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(taken)
}

//! Processes by descriptor (pidfd_open(2)), their signals and ends.

use rustix::process::{Pid, PidfdFlags, WaitIdOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Signalled(i32),
}

/// A descriptor of a process; readable for poll(2) once it has ended. Only for a child that is not yet waited for is it
/// sure that `pid` is not another's by now.
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// As [`pidfd`], of any thread: to reach its descriptors (PIDFD_THREAD, Linux 6.9).
pub fn threadfd(tid: i32) -> io::Result<OwnedFd> {
    let tid = Pid::from_raw(tid).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
    Ok(rustix::process::pidfd_open(tid, flags)?)
}

/// Takes the end of a child; None: it runs. The zombie is gone afterwards.
pub fn reap(pidfd: BorrowedFd<'_>) -> io::Result<Option<End>> {
    take(pidfd, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
}

/// As [`reap`], and waits for it.
pub fn wait(pidfd: BorrowedFd<'_>) -> io::Result<End> {
    loop {
        match take(pidfd, WaitIdOptions::EXITED) {
            Ok(Some(end)) => return Ok(end),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn take(pidfd: BorrowedFd<'_>, options: WaitIdOptions) -> io::Result<Option<End>> {
    let status = rustix::process::waitid(rustix::process::WaitId::PidFd(pidfd), options)?;
    Ok(status.and_then(|status| {
        let signal = status.terminating_signal().map(End::Signalled);
        signal.or(status.exit_status().map(End::Exited))
    }))
}

/// Waits until this process, which need not be a child, has ended (pidfd_open(2): it is readable then).
pub fn until_ended(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(
        pidfd,
        rustix::event::PollFlags::IN,
    )];
    loop {
        match rustix::event::poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done.map(|_| ())?),
        }
    }
}

/// As [`until_ended`], for no longer than this: has it ended?
pub fn ends_within(pidfd: BorrowedFd<'_>, within: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        let left = within.saturating_sub(begun.elapsed());
        let left = rustix::event::Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(
            pidfd,
            rustix::event::PollFlags::IN,
        )];
        match rustix::event::poll(&mut fds, Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done? > 0),
        }
    }
}

/// A copy of descriptor `number` of that process (pidfd_getfd(2)), for whoever may trace it: so root sees a process's
/// sockets as it does itself.
pub fn descriptor_of(pidfd: BorrowedFd<'_>, number: i32) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = rustix::process::PidfdGetfdFlags::empty();
    Ok(rustix::process::pidfd_getfd(pidfd, number, flags)?)
}

/// The program that this command starts gets SIGTERM when the thread that started it ends, and so when this process is
/// killed (PR_SET_PDEATHSIG, prctl(2)). Not from threads that come and go.
pub fn end_with_parent(command: &mut std::process::Command) {
    signalled_with_parent(command, rustix::process::Signal::TERM);
}

/// As [`end_with_parent`], and is killed.
pub fn die_with_parent(command: &mut std::process::Command) {
    signalled_with_parent(command, rustix::process::Signal::KILL);
}

fn signalled_with_parent(command: &mut std::process::Command, signal: rustix::process::Signal) {
    use std::os::unix::process::CommandExt;
    let parent = rustix::process::getpid();
    let set = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // It may have died before it was set.
        match rustix::process::getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: `set` makes two system calls and takes no lock and no memory, which is what a child of a process with
    // several threads may do before exec (fork(2)).
    unsafe { command.pre_exec(set) };
}

/// Starts a thread that has none of this process's descriptors but the standard ones, nor shares its own with it. So it does not keep them
/// open when this process ends, though it waits for what only these could tell: an answer of a file system that this process answers for.
/// `work` brings no descriptor with it, and wakes nobody who waits by one, as tokio does.
pub fn thread_apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<std::thread::JoinHandle<io::Result<T>>> {
    std::thread::Builder::new().spawn(|| {
        let (first, flags) = (3, libc::CLOSE_RANGE_UNSHARE as libc::c_int);
        // SAFETY: this thread has descriptors of its own by this, and has had none so far that it would use.
        if unsafe { libc::close_range(first, libc::c_uint::MAX, flags) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(work())
    })
}

/// Starts a copy of this process that does `work`, ends with what it returns, and is killed when this process ends
/// (PR_SET_PDEATHSIG, prctl(2)). Returns its process number. For processes of one thread.
///
/// The copy has all descriptors that this process has, and drops none of the values that own them.
pub fn copy(work: impl FnOnce() -> u8) -> io::Result<i32> {
    let parent = rustix::process::getpid();
    // SAFETY: fork(3) of a process that has one thread: nobody else holds a lock, so the copy may do what it likes.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _end = crate::cell::EndOfCopy;
            let with_parent = rustix::process::set_parent_process_death_signal(Some(
                rustix::process::Signal::KILL,
            ));
            // It may have died before that was set.
            if with_parent.is_ok() && rustix::process::getppid() == Some(parent) {
                let status = work();
                // SAFETY: ends the copy, without the handlers and buffers of the process it was copied from.
                unsafe { libc::_exit(i32::from(status)) };
            }
            Ok(0) // never told: the copy ends here
        }
        pid => Ok(pid),
    }
}

/// The processes that are seen now of that process's own namespace of processes: their numbers here, and there.
pub fn in_namespace_of(pid: i32) -> io::Result<Vec<(i32, i32)>> {
    let space = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid"));
    let wanted = space(pid)?;
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(here) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Of others it is not told, and one may be gone by now.
        if space(here).is_ok_and(|found| found == wanted) {
            all.extend(number_within(here)?.map(|there| (here, there)));
        }
    }
    Ok(all)
}

/// Its number in the innermost namespace that it has one in; None: it is gone.
fn number_within(pid: i32) -> io::Result<Option<i32>> {
    let status = match std::fs::read_to_string(format!("/proc/{pid}/status")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        status => status?,
    };
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    Ok(line.and_then(|line| line.split_whitespace().last()?.parse().ok()))
}

/// Takes the end of any child that has ended, and tells its process number.
pub fn reap_any() -> Option<i32> {
    let ended = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
    ended
        .ok()
        .flatten()
        .map(|(pid, _)| pid.as_raw_nonzero().get())
}

/// Sends a signal to exactly the process of this descriptor; no error when it has ended.
pub fn signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: no pointers but a null siginfo, which the kernel fills in itself (pidfd_send_signal(2)).
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_fd().as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    ended_is_fine(result == 0)
}

/// Sends a signal to a process group, named by its leader; no error when it has ended.
pub fn signal_group(leader: i32, signal: i32) -> io::Result<()> {
    if leader <= 1 {
        return Err(io::ErrorKind::InvalidInput.into()); // kill(-1) would reach everything of the account
    }
    // SAFETY: plain numbers.
    let result = unsafe { libc::kill(-leader, signal) };
    ended_is_fine(result == 0)
}

fn ended_is_fine(done: bool) -> io::Result<()> {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if done => Ok(()),
        Some(libc::ESRCH) => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::zombie_processes)] // `wait` under test is what reaps
    fn ends_are_told_apart() {
        let check = |script: &str, expected: End| {
            let child = std::process::Command::new("sh")
                .args(["-c", script])
                .spawn()
                .unwrap();
            let fd = pidfd(child.id() as i32).unwrap();
            assert_eq!(wait(fd.as_fd()).unwrap(), expected, "{script}");
            signal(fd.as_fd(), libc::SIGTERM).unwrap();
        };
        check("exit 0", End::Exited(0));
        check("exit 255", End::Exited(255));
        check("kill -9 $$", End::Signalled(9));
    }

    #[test]
    fn a_descriptor_of_a_process_can_be_shared_by_whoever_may_trace_it() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let this = pidfd(std::process::id() as i32).unwrap();
        let copy = descriptor_of(this.as_fd(), theirs.as_raw_fd()).unwrap();
        drop(theirs);
        std::io::Write::write_all(&mut std::os::unix::net::UnixStream::from(copy), b"x").unwrap();
        let mut heard = [0];
        std::io::Read::read_exact(&mut &ours, &mut heard).unwrap();
        assert_eq!(&heard, b"x");
        for number in [-1, i32::MAX] {
            assert!(descriptor_of(this.as_fd(), number).is_err());
        }
    }

    #[test]
    fn no_group_signal_reaches_everything() {
        for leader in [-1, 0, 1] {
            assert!(signal_group(leader, 0).is_err());
        }
    }
}

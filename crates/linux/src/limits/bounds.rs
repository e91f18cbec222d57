//! Bounds of one process that the kernel keeps (prlimit(2)), set from outside. What it starts later has them too, and it
//! cannot raise them again. Not here: bounds of a whole job.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::io;

/// Files that the process may have open at once. One that has a lower bound keeps it.
pub fn open_files(pid: i32, most: u64) -> io::Result<()> {
    lower(pid, Resource::Nofile, most)
}

/// Processes and threads that the account may have at once, in the process's user namespace and below (since Linux 5.14;
/// not of the account root, which no such bound holds).
pub fn processes(pid: i32, most: u64) -> io::Result<()> {
    lower(pid, Resource::Nproc, most)
}

fn lower(pid: i32, resource: Resource, most: u64) -> io::Result<()> {
    let target = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let now = prlimit_get(target, resource)?;
    let lower = |bound: Option<u64>| Some(bound.map_or(most, |bound| bound.min(most)));
    let (current, maximum) = (lower(now.current), lower(now.maximum));
    if (current, maximum) != (now.current, now.maximum) {
        prlimit(Some(target), resource, Rlimit { current, maximum })?;
    }
    Ok(())
}

/// rustix asks and sets in one; there is no bound of a process that is not ours to be set to itself by a race, since
/// only we and the process lower it.
fn prlimit_get(target: Pid, resource: Resource) -> io::Result<Rlimit> {
    let number = match resource {
        Resource::Nofile => libc::RLIMIT_NOFILE,
        _ => libc::RLIMIT_NPROC,
    };
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the old bound is written to the live local `now`; no new one is given.
    let result = unsafe {
        libc::prlimit(
            target.as_raw_nonzero().get(),
            number,
            std::ptr::null(),
            &raw mut now,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let bound = |value| (value != libc::RLIM_INFINITY).then_some(value);
    Ok(Rlimit {
        current: bound(now.rlim_cur),
        maximum: bound(now.rlim_max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_running_process_is_bounded_and_does_not_rise_again() {
        let mut child = Command::new("sh")
            .args(["-c", "read x; ulimit -n 512 2>/dev/null; ulimit -n"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        open_files(child.id() as i32, 40).unwrap();
        open_files(child.id() as i32, 60).unwrap();
        let now = prlimit_get(Pid::from_raw(child.id() as i32).unwrap(), Resource::Nofile).unwrap();
        assert_eq!((now.current, now.maximum), (Some(40), Some(40)));
        drop(child.stdin.take());
        let said = child.wait_with_output().unwrap();
        // Root of the host may raise it; nobody else.
        if !crate::is_root() {
            assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "40");
        }
        assert!(open_files(i32::MAX, 5).is_err());
    }
}

//! Becoming somebody else: what a process of root gives up before it runs a program as an account. Once done there is no
//! way back. Not here: who may become whom.

use crate::accounts::Account;
use rustix::process::{Resource, Rlimit};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What the program is given besides the account.
#[derive(Debug, Default)]
pub struct Terms {
    /// Processes and threads of the account at most (RLIMIT_NPROC, getrlimit(2)); None: as here.
    pub processes: Option<u64>,
    /// Descriptors that it may open at most; None: as here.
    pub open_files: Option<u64>,
    /// `cgroup.procs` of the control group that it begins in, open for writing.
    pub group: Option<OwnedFd>,
}

/// Has `command` run as `account`: its groups and no others, no capabilities and no way to any (no_new_privs,
/// prctl(2)), a session of its own, files private to it (umask 077), no core dumps, and of this process's descriptors
/// only standard input, output and error. The environment and the directory are the caller's to set.
pub fn become_account(command: &mut Command, account: &Account, terms: Terms) {
    let (uid, gid) = (account.uid, account.gid);
    let groups: Vec<libc::gid_t> = account.groups.clone();
    let become_it = move || {
        // All by system calls that are safe after fork(2): this is the child, before execve(2).
        if let Some(group) = &terms.group {
            // cgroups(7): 0 is whoever writes it.
            // SAFETY: the descriptor is owned by `terms`, the buffer is a constant.
            if unsafe { libc::write(group.as_raw_fd(), b"0".as_ptr().cast(), 1) } != 1 {
                return Err(io::Error::last_os_error());
            }
        }
        // What this process holds back (`Signals`) is not held back there; exec keeps the mask (signal(7)).
        // SAFETY: `none` is filled in by sigemptyset before it is used, and the old mask is not asked for.
        unsafe {
            let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            check(libc::sigprocmask(
                libc::SIG_SETMASK,
                none.as_ptr(),
                std::ptr::null_mut(),
            ))?;
        }
        rustix::process::setsid()?;
        limit(Resource::Core, Some(0))?;
        limit(Resource::Nproc, terms.processes)?;
        limit(Resource::Nofile, terms.open_files)?;
        // SAFETY: plain numbers; it only marks descriptors of this process.
        check(unsafe {
            libc::close_range(
                3,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC as libc::c_int,
            )
        })?;
        // The system calls themselves: glibc's wrappers talk to threads that are not there in a child.
        // SAFETY: a pointer to `groups` with its length, then plain numbers.
        unsafe {
            check_long(libc::syscall(
                libc::SYS_setgroups,
                groups.len(),
                groups.as_ptr(),
            ))?;
            check_long(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
            check_long(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
        }
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        Ok(())
    };
    // SAFETY: the closure makes system calls only: no allocation, no lock, nothing of another thread (pre_exec).
    unsafe { command.pre_exec(become_it) };
}

/// Gives a file to an account.
pub fn give(file: impl std::os::fd::AsFd, account: &Account) -> io::Result<()> {
    let (uid, gid) = (Some(account.uid), Some(account.gid));
    std::os::unix::fs::fchown(file, uid, gid)
}

/// What this process makes from now on is for all to read and for it alone to write (umask(2)).
pub fn make_readable_files() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
}

fn limit(resource: Resource, most: Option<u64>) -> io::Result<()> {
    if most.is_some() {
        let both = Rlimit {
            current: most,
            maximum: most,
        };
        rustix::process::setrlimit(resource, both)?;
    }
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    check_long(libc::c_long::from(result))
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// What the program sees of itself; needs root, as becoming somebody does.
    #[test]
    fn a_program_is_the_account_and_nothing_more() {
        if !crate::is_root() {
            eprintln!("SKIP a_program_is_the_account_and_nothing_more: missing root");
            return;
        }
        let account = Account {
            name: "somebody".to_owned(),
            uid: 41_001,
            gid: 41_002,
            groups: vec![41_002, 41_003],
            home: "/".into(),
        };
        let held = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
        let mut command = Command::new("/bin/sh");
        command
            .env_clear()
            .args([
                "-c",
                "grep -E '^(Uid|Gid|Groups|NoNewPrivs|SigBlk|Cap(Eff|Prm)):' /proc/self/status; umask; ulimit -c; \
                 ls /proc/self/fd | wc -l; test $(cut -d' ' -f6 /proc/self/stat) != 0 && ls -d /root/. 2>&1",
            ])
            .current_dir("/")
            .stdin(Stdio::null());
        become_account(
            &mut command,
            &account,
            Terms {
                processes: Some(1000),
                open_files: Some(256),
                group: None,
            },
        );
        let signals = crate::signals::Signals::hold(&[15]).unwrap();
        let output = command.output().unwrap();
        drop(signals);
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |name: &str| {
            let found = text.lines().find(|line| line.starts_with(name));
            let words = found.unwrap_or_default().split_whitespace().skip(1);
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("Uid:"), "41001 41001 41001 41001", "{text}");
        assert_eq!(line("Gid:"), "41002 41002 41002 41002");
        assert_eq!(line("Groups:"), "41002 41003");
        assert_eq!(line("NoNewPrivs:"), "1");
        assert_eq!(line("SigBlk:"), "0000000000000000");
        assert_eq!(line("CapEff:"), "0000000000000000");
        assert_eq!(line("CapPrm:"), "0000000000000000");
        // After them: umask, core size, descriptors (0, 1, 2 and the listing's own), and no way into /root.
        let rest: Vec<&str> = text.lines().skip_while(|l| l.contains(':')).collect();
        assert_eq!(rest.get(..3), Some(["0077", "0", "4"].as_slice()), "{text}");
        drop(held);
    }
}

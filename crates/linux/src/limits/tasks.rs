//! The processes below a process, and what can be seen of their being stopped (proc(5)).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most processes that are looked at: above any limit that is useful here, below what would take a second.
pub const MOST_TASKS: usize = 20_000;

/// The children of a process, of all its threads. Empty when it has ended.
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(place(pid).join("task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut all = Vec::new();
    for list in lists {
        all.extend(
            list.split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    all
}

/// All processes below `root`, parents before their children; `root` itself is not among them.
pub fn below(root: i32) -> Vec<i32> {
    let mut all = children(root);
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        next += 1;
        if all.len() >= MOST_TASKS {
            break;
        }
        all.extend(children(pid));
    }
    all
}

/// What program a process executes: the file's device and number.
///
/// # Errors
/// It has ended, or is not to be looked at.
pub fn program(pid: i32) -> io::Result<(u64, u64)> {
    let file = fs::metadata(place(pid).join("exe"))?;
    Ok((file.dev(), file.ino()))
}

/// Has this process a handler for that signal? No, if it has ended.
pub fn catches(pid: i32, signal: i32) -> bool {
    let status = fs::read_to_string(place(pid).join("status")).unwrap_or_default();
    has(&status, "SigCgt:", signal)
}

/// Does a process go on that was sent SIGSTOP? Not if a thread of it is stopped, as all are to be soon, nor if the signal
/// waits for it to leave a system call.
pub fn goes_on(pid: i32) -> bool {
    let status = fs::read_to_string(place(pid).join("status")).unwrap_or_default();
    let waits = ["SigPnd:", "ShdPnd:"].map(|set| has(&status, set, libc::SIGSTOP));
    if waits.contains(&true) {
        return false;
    }
    let threads = fs::read_dir(place(pid).join("task"));
    let states = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
            stat.rsplit_once(") ")?.1.chars().next()
        });
    let mut states = states
        .filter(|state| !matches!(state, 'Z' | 'X'))
        .peekable();
    states.peek().is_some() && states.all(|state| !matches!(state, 'T' | 't'))
}

/// Is a signal in one of a process's sets (proc_pid_status(5))?
fn has(status: &str, set: &str, signal: i32) -> bool {
    let digits = status.lines().find_map(|line| line.strip_prefix(set));
    let digits = digits.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    digits.is_some_and(|digits| digits & (1 << (signal - 1)) != 0)
}

pub(super) fn place(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// A thread that lives, of a process whose first has ended: at that one's place it tells what the process does, which is
/// not told at its own any more (and to root alone).
pub(super) fn survivor(pid: i32) -> Option<i32> {
    let has_ended = |tid: i32| state(&place(tid)).is_none_or(|state| matches!(state, 'Z' | 'X'));
    if !has_ended(pid) {
        return None;
    }
    let threads = fs::read_dir(place(pid).join("task")).ok()?.flatten();
    let mut numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    numbers.find(|tid| !has_ended(*tid))
}

/// Of a thread (proc_pid_stat(5)).
fn state(thread: &Path) -> Option<char> {
    let stat = fs::read_to_string(thread.join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_below_one_come_after_their_parents() {
        // Each says that it is there, and waits until our pipe ends (what is put behind has another stdin).
        let script = "exec 3<&0; sh -c 'sh -c \"echo in; read x <&3\" & echo in; read x <&3' & echo in; read x";
        let mut top = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 9];
        top.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let pid = top.id() as i32;
        let all = below(pid);
        assert_eq!(children(pid), all[..1]);
        assert_eq!(children(all[0]), all[1..]);
        assert_eq!(program(all[0]).unwrap(), program(pid).unwrap());
        assert_ne!(
            program(pid).unwrap(),
            program(std::process::id() as i32).unwrap()
        );
        drop(top.stdin.take());
        top.wait().unwrap();
        assert_eq!(below(pid), [] as [i32; 0]);
    }

    #[test]
    fn a_process_that_goes_on_is_told_from_one_that_is_stopped() {
        let mut shell = Command::new("sh")
            .args(["-c", "trap : CONT; echo in; while :; do :; done"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 3];
        let mut stdout = shell.stdout.take().unwrap();
        stdout.read_exact(&mut said).unwrap();
        let pid = shell.id() as i32;
        assert!(catches(pid, libc::SIGCONT) && !catches(pid, libc::SIGTERM));
        let pidfd = crate::process::pidfd(pid).unwrap();
        for (signal, goes) in [(libc::SIGSTOP, false), (libc::SIGCONT, true)] {
            crate::process::signal(pidfd.as_fd(), signal).unwrap();
            let begun = std::time::Instant::now();
            while goes_on(pid) != goes {
                assert!(begun.elapsed().as_secs() < 60, "{signal}");
            }
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(!goes_on(pid) && !catches(pid, libc::SIGCONT));
    }
}

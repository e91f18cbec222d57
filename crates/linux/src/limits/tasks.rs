//! The processes below a process, and stopping them (proc(5): /proc/PID/task/TID/children).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

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

pub(super) fn place(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
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
}

//! A control group of one job, in which the kernel counts its processes (cgroups(7), controller `pids`): of version 2
//! where a group above this process's own has been left to this account (delegation), else of version 1.
//! Not here: the groups of accounts ([`crate::groups`]), other controllers.

use crate::groups::directory;
use rustix::fs::{Access, access};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Stands before the number of the process that made the group.
const PREFIX: &str = "kumiko-job-";

/// Where this account may make groups that count processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    base: PathBuf,
    /// This process's own group, where processes go back to.
    home: PathBuf,
}

impl Place {
    /// None: it may make none on this machine.
    pub fn find() -> Option<Place> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let may_write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
        let of_two = directory(&mounts, &own, None).and_then(|home| {
            let counts = |base: &&Path| {
                let on = fs::read_to_string(base.join("cgroup.subtree_control"));
                on.is_ok_and(|on| on.split_whitespace().any(|name| name == "pids"))
            };
            // Who moves a process writes to the lists of both groups and of what is above both.
            let may_move = |base: &&Path| may_write(base) && may_write(&base.join("cgroup.procs"));
            let mut above = home.ancestors();
            let base = above.find(|base| counts(base) && may_move(base))?;
            Some(Place {
                base: base.to_owned(),
                home: home.clone(),
            })
        });
        of_two.or_else(|| {
            let home = directory(&mounts, &own, Some("pids"))?;
            may_write(&home).then(|| Place {
                base: home.clone(),
                home,
            })
        })
    }

    /// A new group, with nothing in it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn make(&self) -> io::Result<Group> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.sweep();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let path = self.base.join(name);
        fs::create_dir(&path)?;
        Ok(Group {
            path,
            home: self.home.clone(),
        })
    }

    /// Groups whose makers were killed; those that something lives in stay.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.base).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let maker = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'))
                .and_then(|(maker, _)| maker.parse::<u32>().ok());
            if maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists()) {
                let _ = fs::remove_dir(entry.path()); // somebody else may have been first
            }
        }
    }
}

/// Removed when it is dropped; what lives in it still goes back to this process's own group.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    home: PathBuf,
}

impl Group {
    /// Processes and threads that there may be at once: one more is refused (EAGAIN). Fewer than there are end none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bound(&self, most: u64) -> io::Result<()> {
        fs::write(self.path.join("pids.max"), most.to_string())
    }

    /// Puts a process with all its threads into the group; what it starts from now on is in it too.
    ///
    /// # Errors
    /// It has ended, or is of another account.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let left = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in left.lines() {
            let _ = fs::write(self.home.join("cgroup.procs"), pid); // it may have ended
        }
        let _ = fs::remove_dir(&self.path); // left: the next one who makes a group sweeps it up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_group_counts_what_is_put_into_it_and_goes_when_it_is_dropped() {
        let Some(place) = Place::find() else {
            eprintln!(
                "SKIP a_group_counts_what_is_put_into_it_and_goes_when_it_is_dropped: missing a control group that counts processes"
            );
            return;
        };
        let group = place.make().unwrap();
        let path = group.path.clone();
        group.bound(1).unwrap();
        // It is told when it is in the group, and goes on when its stdin ends.
        let mut child = Command::new("sh")
            .args(["-c", "read x; exec perl -e 'print defined fork ? 1 : 0'"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        group.add(child.id() as i32).unwrap();
        drop(child.stdin.take());
        let said = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "0");
        let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
        group.add(sleeper.id() as i32).unwrap();
        drop(group);
        assert!(!path.exists());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(place.make().unwrap().add(i32::MAX).is_err());
    }
}

//! Control groups of version 2 (cgroups(7)): one for each account, beneath the group that this process is in, so that
//! what an account runs can be seen, bounded and ended as one. Where there is no version 2, or nothing can be made in
//! it, there are none.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Stands before the account's name.
const PREFIX: &str = "kumiko-";

/// Where groups are made.
#[derive(Clone, Debug)]
pub struct Groups {
    base: PathBuf,
    /// Processes can be counted in them.
    pids: bool,
}

impl Groups {
    /// Beneath this process's own group; None: this machine has no groups of version 2.
    ///
    /// # Errors
    /// What the kernel says of itself cannot be read.
    pub fn own() -> io::Result<Option<Groups>> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        let own = std::fs::read_to_string("/proc/self/cgroup")?;
        let Some(base) = own_directory(&mounts, &own) else {
            return Ok(None);
        };
        // Refused while this process is in the group itself, but for the root's (cgroups(7), no internal processes).
        let pids = std::fs::write(base.join("cgroup.subtree_control"), "+pids").is_ok();
        Ok(Some(Groups { base, pids }))
    }

    /// Makes the group of an account if need be; gives what a process that is to be in it writes 0 to.
    ///
    /// # Errors
    /// It cannot be made, or the number of its processes not be bounded.
    pub fn of(&self, account: &str, processes: Option<u64>) -> io::Result<OwnedFd> {
        let path = self.path(account);
        match std::fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        if let (Some(processes), true) = (processes, self.pids) {
            std::fs::write(path.join("pids.max"), processes.to_string())?;
        }
        let procs = File::options()
            .write(true)
            .open(path.join("cgroup.procs"))?;
        Ok(procs.into())
    }

    /// Removes the group of an account if nothing is in it.
    pub fn remove(&self, account: &str) {
        // Whatever lives there stays, in its group.
        let _ = std::fs::remove_dir(self.path(account));
    }

    fn path(&self, account: &str) -> PathBuf {
        self.base.join(format!("{PREFIX}{account}"))
    }
}

/// The directory of this process's group, from mountinfo and cgroup of proc(5).
fn own_directory(mounts: &str, own: &str) -> Option<PathBuf> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (after.starts_with("cgroup2 ")).then_some((root, point))
    })?;
    let (root, point) = mount;
    // In a container the mount may begin further down than the kernel's tree.
    let below = match root {
        "/" => group,
        root => group.strip_prefix(root)?,
    };
    // Of a process that was left outside of what this namespace shows.
    let outside = Path::new(below).components().any(|c| c.as_os_str() == "..");
    (!outside).then(|| Path::new(point).join(below.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_wherever_version_2_is_mounted() {
        let check = |mount: &str, own: &str, expected: Option<&str>| {
            let mounts = format!(
                "22 1 0:20 / /sys rw shared:7 - sysfs sysfs rw\n30 22 0:26 {mount} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
            );
            let found = own_directory(&mounts, own);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{mount} {own}");
        };
        let own = "12:pids:/x\n0::/system.slice/kumiko.service\n";
        let there = "/sys/fs/cgroup/system.slice/kumiko.service";
        check("/ /sys/fs/cgroup", own, Some(there));
        check("/system.slice /mnt", own, Some("/mnt/kumiko.service"));
        check(
            "/ /sys/fs/cgroup/unified",
            "0::/\n",
            Some("/sys/fs/cgroup/unified"),
        );
        check("/other /mnt", own, None);
        check("/ /sys/fs/cgroup", "12:pids:/x\n", None);
        check("/ /sys/fs/cgroup", "0::/../../user.slice\n", None);
        assert_eq!(own_directory("", own), None);
    }
}

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
        let Some(base) = directory(&mounts, &own, None) else {
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

/// The directory of this process's group, from mountinfo and cgroup of proc(5): of version 2, or in the hierarchy of a
/// controller of version 1.
pub(crate) fn directory(mounts: &str, own: &str, controller: Option<&str>) -> Option<PathBuf> {
    let is_of = |names: &str| match controller {
        None => names.is_empty(),
        Some(controller) => names.split(',').any(|name| name == controller),
    };
    let group = own.lines().find_map(|line| {
        let (names, group) = line.split_once(':')?.1.split_once(':')?;
        is_of(names).then_some(group)
    })?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1).unwrap_or_default());
        let found = match controller {
            None => kind == "cgroup2",
            Some(_) => kind == "cgroup" && is_of(options),
        };
        found.then_some((root, point))
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
            let found = directory(&mounts, own, None);
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
        assert_eq!(directory("", own, None), None);
    }

    #[test]
    fn the_own_group_of_a_controller_of_version_1_is_found_in_its_hierarchy() {
        let mounts = "31 22 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 22 0:28 /a /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                      33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "12:pids:/a/b\n4:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n";
        let check = |controller: Option<&str>, expected: Option<&str>| {
            let found = directory(mounts, own, controller);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{controller:?}");
        };
        check(Some("pids"), Some("/sys/fs/cgroup/pids/b"));
        check(Some("cpuacct"), Some("/sys/fs/cgroup/cpu,cpuacct"));
        check(Some("memory"), None);
        check(None, Some("/sys/fs/cgroup/unified"));
    }
}

//! Control groups of one job, in which the kernel counts its processes, bounds their share of processors, their memory and
//! their rates of disks (cgroups(7), controllers `pids`, `cpu`, `memory`, `io`): of version 2 where a group above this
//! process's own has been left to this account (delegation), else of version 1, where each controller has a hierarchy of
//! its own. Not here: the groups of accounts ([`crate::groups`]).

use crate::groups::directory;
use rustix::fs::{Access, access};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Stands before the number of the process that made the group.
const PREFIX: &str = "kumiko-job-";
/// A share of processors is given out so often: long enough for the least share to be the least that the kernel takes
/// (1 ms), and short enough for a job that has used its own to stand still unnoticed.
const PERIOD_US: u64 = 20_000;
const LONG_PERIOD_US: u64 = 100_000;
/// Of one processor, per cent: from here on the short period.
const SHORT_FROM_PERCENT: u64 = 5;

const READ_OF_ONE: &str = "blkio.throttle.read_bps_device";
const WRITE_OF_ONE: &str = "blkio.throttle.write_bps_device";

/// What a group bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Processes,
    Cpu,
    Memory,
    /// Each disk by itself. What is written through memory, version 1 does not see (kernel documentation, "Block IO
    /// Controller").
    Disk,
}

impl Controller {
    pub const ALL: [Controller; 4] = [Self::Processes, Self::Cpu, Self::Memory, Self::Disk];

    fn name(self) -> &'static str {
        match self {
            Self::Processes => "pids",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "io",
        }
    }

    fn name_of_one(self) -> &'static str {
        match self {
            Self::Disk => "blkio",
            _ => self.name(),
        }
    }

    /// The files by which it is told, of version 2 and of version 1.
    fn files(self) -> [&'static str; 2] {
        match self {
            Self::Processes => ["pids.max", "pids.max"],
            Self::Cpu => ["cpu.max", "cpu.cfs_quota_us"],
            Self::Memory => ["memory.max", "memory.limit_in_bytes"],
            Self::Disk => ["io.max", READ_OF_ONE],
        }
    }
}

/// Where this account may make groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    base: PathBuf,
    /// This process's own group, where processes go back to.
    home: PathBuf,
}

impl Place {
    /// None: it may make none on this machine that have this.
    pub fn find(controller: Controller) -> Option<Place> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let may_write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
        let of_two = directory(&mounts, &own, None).and_then(|home| {
            let has = |base: &&Path| {
                let on = fs::read_to_string(base.join("cgroup.subtree_control"));
                on.is_ok_and(|on| on.split_whitespace().any(|name| name == controller.name()))
            };
            // Who moves a process writes to the lists of both groups and of what is above both.
            let may_move = |base: &&Path| may_write(base) && may_write(&base.join("cgroup.procs"));
            let mut above = home.ancestors();
            let base = above.find(|base| has(base) && may_move(base))?;
            Some(Place {
                base: base.to_owned(),
                home: home.clone(),
            })
        });
        of_two.or_else(|| {
            let home = directory(&mounts, &own, Some(controller.name_of_one()))?;
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
    /// Is it one that bounds this? (Of version 2, all that is delegated there.)
    pub fn has(&self, controller: Controller) -> bool {
        let files = controller.files();
        files.iter().any(|file| self.path.join(file).exists())
    }

    /// Of version 2, where a process is in one group for all controllers.
    pub fn is_of_two(&self) -> bool {
        self.path.join("cgroup.events").exists()
    }

    /// Bounds processes and threads that there may be at once, of which one more is refused (EAGAIN), and fewer than there
    /// are end none; processors, in per cent of one; memory, in bytes, with what the kernel keeps of files for them; what is
    /// read from and written to each disk that there is now, in bytes a second. None: no bound.
    ///
    /// # Errors
    /// The kernel's, which does not bound memory below what is used and cannot be given back; there is no disk.
    pub fn bound(&self, controller: Controller, most: Option<u64>) -> io::Result<()> {
        let [two, one] = controller.files();
        let file = match self.path.join(two).exists() {
            true => two,
            false => one,
        };
        let write = |file: &str, value: String| fs::write(self.path.join(file), value);
        if controller == Controller::Disk {
            let disks = disks()?;
            // Nothing is none in version 1.
            let of_one = |disk: &str| format!("{disk} {}", most.unwrap_or(0));
            for disk in &disks {
                if file == one {
                    write(READ_OF_ONE, of_one(disk))?;
                    write(WRITE_OF_ONE, of_one(disk))?;
                } else {
                    let rate = most.map_or("max".to_owned(), |most| most.to_string());
                    write(file, format!("{disk} rbps={rate} wbps={rate}"))?;
                }
            }
            return match disks.is_empty() {
                true => Err(io::ErrorKind::NotFound.into()),
                false => Ok(()),
            };
        }
        let (none, value) = match controller {
            Controller::Cpu => {
                let period = match most {
                    Some(percent) if percent >= SHORT_FROM_PERCENT => PERIOD_US,
                    _ => LONG_PERIOD_US,
                };
                let quota = most.map(|percent| percent.saturating_mul(period) / 100);
                if file == two {
                    let quota = quota.map_or("max".to_owned(), |quota| quota.to_string());
                    return write(file, format!("{quota} {period}"));
                }
                // One at a time: between the two there is no bound, and none that the kernel would refuse.
                write(file, "-1".to_owned())?;
                write("cpu.cfs_period_us", period.to_string())?;
                ("-1", quota)
            }
            Controller::Memory if file == one => ("-1", most),
            Controller::Memory | Controller::Processes | Controller::Disk => ("max", most),
        };
        write(
            file,
            value.map_or(none.to_owned(), |value| value.to_string()),
        )
    }

    /// How many of its processes the kernel has ended for want of memory.
    pub fn ended_for_memory(&self) -> u64 {
        let of = |file: &str| {
            let text = fs::read_to_string(self.path.join(file)).ok()?;
            text.lines()
                .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
        };
        of("memory.events")
            .or_else(|| of("memory.oom_control"))
            .unwrap_or(0)
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

/// The numbers of disks that something can be kept on; those in memory and parts of disks are none.
fn disks() -> io::Result<Vec<String>> {
    const IN_MEMORY: [&str; 3] = ["ram", "zram", "loop"];
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let (number, sectors) = (read("dev"), read("size"));
        if !IN_MEMORY.iter().any(|kind| name.starts_with(kind)) && sectors.trim() != "0" {
            found.push(number.trim().to_owned());
        }
    }
    found.retain(|number| !number.is_empty());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn disks_are_bounded_each_in_the_words_of_either_version() {
        let disks = disks().unwrap();
        let Some(disk) = disks.last() else {
            return eprintln!(
                "SKIP disks_are_bounded_each_in_the_words_of_either_version: missing a disk"
            );
        };
        let check = |files: &[&str], most: Option<u64>, expected: String| {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                fs::write(folder.path().join(file), "").unwrap();
            }
            let group = Group {
                path: folder.path().join("."),
                home: folder.path().to_owned(),
            };
            assert!(group.has(Controller::Disk));
            group.bound(Controller::Disk, most).unwrap();
            for file in files {
                let got = fs::read_to_string(folder.path().join(file)).unwrap();
                assert_eq!(got, expected, "{file} {most:?}");
            }
        };
        let (one, two) = ([READ_OF_ONE, WRITE_OF_ONE], ["io.max"]);
        check(&one, Some(5_000), format!("{disk} 5000"));
        check(&one, None, format!("{disk} 0"));
        check(&two, Some(5_000), format!("{disk} rbps=5000 wbps=5000"));
        check(&two, None, format!("{disk} rbps=max wbps=max"));
    }

    #[test]
    fn a_group_counts_what_is_put_into_it_and_goes_when_it_is_dropped() {
        let Some(place) = Place::find(Controller::Processes) else {
            eprintln!(
                "SKIP a_group_counts_what_is_put_into_it_and_goes_when_it_is_dropped: missing a control group that counts processes"
            );
            return;
        };
        let group = place.make().unwrap();
        let path = group.path.clone();
        group.bound(Controller::Processes, Some(1)).unwrap();
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

    #[test]
    fn what_is_bounded_is_told_in_the_words_of_either_version() {
        let check = |files: &[&str], controller, most: Option<u64>, expected: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                fs::write(folder.path().join(file), "").unwrap();
            }
            let group = Group {
                path: folder.path().join("."),
                home: folder.path().to_owned(),
            };
            assert!(group.has(controller));
            group.bound(controller, most).unwrap();
            for (file, text) in expected {
                let got = fs::read_to_string(folder.path().join(file)).unwrap();
                assert_eq!(got, *text, "{controller:?} {most:?}: {file}");
            }
        };
        let (cpu, memory) = (Controller::Cpu, Controller::Memory);
        check(&["cpu.max"], cpu, Some(150), &[("cpu.max", "30000 20000")]);
        check(&["cpu.max"], cpu, Some(1), &[("cpu.max", "1000 100000")]);
        check(&["cpu.max"], cpu, None, &[("cpu.max", "max 100000")]);
        let one = ["cpu.cfs_quota_us", "cpu.cfs_period_us"];
        let half = [
            ("cpu.cfs_quota_us", "10000"),
            ("cpu.cfs_period_us", "20000"),
        ];
        check(&one, cpu, Some(50), &half);
        check(&one, cpu, None, &[("cpu.cfs_quota_us", "-1")]);
        check(
            &["memory.max"],
            memory,
            Some(4096),
            &[("memory.max", "4096")],
        );
        check(&["memory.max"], memory, None, &[("memory.max", "max")]);
        let one = "memory.limit_in_bytes";
        check(&[one], memory, None, &[(one, "-1")]);
        let pids = Controller::Processes;
        check(&["pids.max"], pids, Some(7), &[("pids.max", "7")]);
    }

    #[test]
    fn the_kernel_keeps_what_a_group_is_bounded_to() {
        for controller in Controller::ALL {
            let Some(place) = Place::find(controller) else {
                let name = controller.name();
                eprintln!(
                    "SKIP the_kernel_keeps_what_a_group_is_bounded_to: missing a control group of {name}"
                );
                continue;
            };
            let group = place.make().unwrap();
            assert!(group.has(controller), "{controller:?}");
            let most = match controller {
                Controller::Memory | Controller::Disk => 1 << 26,
                Controller::Cpu | Controller::Processes => 250,
            };
            for most in [Some(most), Some(most / 125), None] {
                group.bound(controller, most).unwrap();
            }
            assert_eq!(group.ended_for_memory(), 0);
        }
    }
}

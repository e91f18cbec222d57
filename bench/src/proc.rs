//! Processes of this host as proc(5) shows them, and what memory is theirs alone. Not here: any but reading.

use crate::fail::{Failure, While};
use crate::wait;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// taskset(1) does its work at once.
const PINNED_WITHIN: Duration = Duration::from_secs(10);

/// "No such process", errno(3).
const ESRCH: i32 = 3;

/// One process; only what a measurement looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
}

/// All processes that are there now.
///
/// # Errors
/// /proc cannot be listed.
pub fn all() -> Result<Vec<Process>, Failure> {
    let entries = fs::read_dir("/proc").doing(|| "listing /proc")?;
    Ok(entries
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            // Gone in the meantime: not there.
            parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
        })
        .collect())
}

/// One that has this file open.
pub fn holding(file: &Path) -> Option<u32> {
    let holds = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut open = open.into_iter().flatten().flatten();
        open.any(|fd| fs::read_link(fd.path()).is_ok_and(|path| path == file))
    };
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.find(holds)
}

/// "7 (some name) S 1 ...": the name may hold blanks and brackets.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (head, tail) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1.to_owned();
    Some(Process {
        pid,
        parent: tail.split(' ').nth(1)?.parse().ok()?,
        name,
    })
}

/// Of processor times in /proc (proc(5), USER_HZ; the same on every architecture of ours).
const TICKS_A_SECOND: f64 = 100.0;

/// Seconds of processor time that a process and what it has reaped took.
///
/// # Errors
/// It is gone.
pub fn processor_s(pid: u32) -> Result<f64, Failure> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).doing(|| format!("reading {path}"))?;
    ticks(&stat)
        .map(|ticks| ticks / TICKS_A_SECOND)
        .ok_or_else(|| Failure::unexpected(format!("{path} is not understood")))
}

/// The core that is measured on where one is enough: the first has the machine's interrupts. For who is not pinned yet.
pub fn last_core() -> usize {
    std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1)
}

/// Keeps all threads that a process has on the last core.
pub fn pin(pid: u32) -> Result<(), Failure> {
    onto_last_core(&["--all-tasks"], &pid.to_string())
}

/// The same of the calling thread.
pub fn pin_thread() -> Result<(), Failure> {
    let path = "/proc/thread-self";
    let thread = fs::read_link(path).doing(|| format!("reading {path}"))?;
    let id = thread.file_name().unwrap_or_default().to_string_lossy();
    onto_last_core(&[], &id)
}

fn onto_last_core(more: &[&str], id: &str) -> Result<(), Failure> {
    let mut taskset = Command::new("taskset");
    taskset
        .args(more)
        .args(["--cpu-list", "--pid", &last_core().to_string(), id]);
    wait::output(&mut taskset, PINNED_WITHIN).map(|_| ())
}

/// Processor seconds that all of the machine has spent since it started.
pub fn machine_s() -> Result<f64, Failure> {
    let stat = fs::read_to_string("/proc/stat").doing(|| "reading /proc/stat")?;
    busy(&stat)
        .map(|ticks| ticks / TICKS_A_SECOND)
        .ok_or_else(|| Failure::unexpected("/proc/stat is not understood".to_owned()))
}

/// user, nice, system, irq and softirq of all processors: idle, iowait and steal are nobody's work (proc_stat(5)).
fn busy(stat: &str) -> Option<f64> {
    let fields = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace();
    let fields: Vec<f64> = fields.map_while(|f| f.parse().ok()).collect();
    Some(fields.get(..3)?.iter().sum::<f64>() + fields.get(5..7)?.iter().sum::<f64>())
}

/// utime, stime, cutime and cstime: fields 14 to 17, of which two stand before the name's end.
fn ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let times = fields.get(11..15)?;
    times
        .iter()
        .try_fold(0.0, |sum, field| Some(sum + field.parse::<f64>().ok()?))
}

/// Bytes of a process: what it alone has in memory, and its share of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Private_Clean + Private_Dirty.
    pub private_bytes: u64,
    /// Pss: shared pages divided by their users.
    pub share_bytes: u64,
}

/// None: it is gone.
///
/// # Errors
/// It is not ours to look at (a runner lets no ordinary user look into it).
pub fn memory(pid: u32) -> Result<Option<Memory>, Failure> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = match fs::read_to_string(&path) {
        // ESRCH: it ends just now, and has no memory any more.
        Err(e) if e.kind() == ErrorKind::NotFound || e.raw_os_error() == Some(ESRCH) => {
            return Ok(None);
        }
        other => other.doing(|| format!("reading {path}"))?,
    };
    let memory =
        rollup(&text).ok_or_else(|| Failure::unexpected(format!("{path} is not understood")))?;
    Ok(Some(memory))
}

fn rollup(text: &str) -> Option<Memory> {
    let bytes = |name| bytes_of(text, name);
    Some(Memory {
        private_bytes: bytes("Private_Clean")? + bytes("Private_Dirty")?,
        share_bytes: bytes("Pss")?,
    })
}

/// Of a line as "VmHWM:     1234 kB".
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    let number = line.trim().strip_suffix(" kB")?.trim();
    Some(number.parse::<u64>().ok()? * 1024)
}

/// What a process had in memory at most, so far.
///
/// # Errors
/// It is gone.
pub fn peak_bytes(pid: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).doing(|| format!("reading {path}"))?;
    bytes_of(&text, "VmHWM").ok_or_else(|| Failure::unexpected(format!("{path} is not understood")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let process = |pid, parent, name: &str| Process {
            pid,
            parent,
            name: name.to_owned(),
        };
        assert_eq!(
            parse(7, "7 (a (b) c) S 3 7 7 0"),
            Some(process(7, 3, "a (b) c"))
        );
        assert_eq!(parse(7, "7 nothing"), None);
    }

    #[test]
    fn processor_time_is_its_own_and_its_childrens() {
        let stat = "7 (a (b) c) S 3 7 7 0 -1 0 1 2 3 4 100 20 3 1 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(124.0));
        assert_eq!(ticks("7 (a) S 3"), None);
        assert!(processor_s(std::process::id()).unwrap() >= 0.0);
    }

    #[test]
    fn work_of_the_machine_is_neither_idle_nor_stolen() {
        let text = "cpu  10 20 30 1000 400 5 6 900 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy(text), Some(71.0));
        assert_eq!(busy("cpu  10 20\n"), None);
        assert!(machine_s().unwrap() > 0.0);
    }

    #[test]
    fn own_memory_is_read() {
        assert!(all().unwrap().iter().any(|p| p.pid == std::process::id()));
        let own = memory(std::process::id()).unwrap().unwrap();
        assert!(
            own.private_bytes > 0 && own.share_bytes >= own.private_bytes,
            "{own:?}"
        );
        let text = "56-7f ---p 00000000 00:00 0  [rollup]\nPss:  10 kB\nPss_Dirty: 4 kB\nPrivate_Clean: 1 kB\nPrivate_Dirty: 2 kB\n";
        assert_eq!(
            rollup(text),
            Some(Memory {
                private_bytes: 3072,
                share_bytes: 10240
            })
        );
        assert_eq!(rollup("Pss: 10 kB\n"), None);
        assert!(peak_bytes(std::process::id()).unwrap() > 0);
    }
}

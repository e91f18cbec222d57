//! What a process has used: processors, memory, block devices (proc(5), clock_getcpuclockid(3)).
//! Not here: adding up what comes and goes.

use super::tasks::{place, survivor};
use std::fs;
use std::io;
use std::time::Duration;

/// CPU time of one process, and of the children that it has waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    pub own: Duration,
    /// In steps of a clock tick, as the kernel tells it.
    pub waited_for: Duration,
    /// It was stopped by a signal when this was read.
    pub stopped: bool,
    /// It waited, and a signal would have ended that.
    pub sleeps: bool,
    /// It has ended, with all its threads.
    pub zombie: bool,
}

/// Bytes to and from block devices, of the process and of the children that it has waited for. Memory maps, sendfile,
/// splice and copy_file_range are in it; tmpfs, FUSE and NFS are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    pub read_bytes: u64,
    /// Less what was truncated before it was written.
    pub written_bytes: u64,
}

pub fn cpu(pid: i32) -> io::Result<Cpu> {
    let stat = fs::read_to_string(place(pid).join("stat"))?;
    let Stat {
        state,
        waited_for,
        threads,
    } = parse_stat(&stat).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Cpu {
        own: cpu_clock(pid)?,
        waited_for,
        stopped: state == 'T',
        sleeps: state == 'S',
        // Of a process whose first thread has ended, others may go on.
        zombie: matches!(state, 'Z' | 'X') && threads <= 1,
    })
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// Of the first thread.
    state: char,
    /// cutime + cstime.
    waited_for: Duration,
    threads: u64,
}

/// The name of the program stands in parentheses and may have any character in it.
fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Fields are counted from 1, and this was the third (proc_pid_stat(5)).
    let mut numbers = fields.skip(16 - 4).map(|number| number.parse::<u64>().ok());
    let ticks = numbers.next()??.checked_add(numbers.next()??)?;
    Some(Stat {
        state,
        waited_for: Duration::from_millis(ticks.checked_mul(1000)? / TICKS_A_SECOND),
        // The nineteenth may be negative.
        threads: numbers.nth(20 - 18)??,
    })
}

/// USER_HZ, which is 100 for programs of all architectures that we build for (times(2)).
const TICKS_A_SECOND: u64 = 100;

/// The process's own CPU time to the nanosecond, of all its threads, ended ones too.
fn cpu_clock(pid: i32) -> io::Result<Duration> {
    // clock_getcpuclockid(3) makes the number so: the complement of the process, and CPUCLOCK_SCHED.
    let clock = (!pid << 3) | 2;
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to the live local `at`; any number is a clock or refused.
    let result = unsafe { libc::clock_gettime(clock, &raw mut at) };
    match result {
        0 => Ok(Duration::new(
            u64::try_from(at.tv_sec).unwrap_or(0),
            u32::try_from(at.tv_nsec).unwrap_or(0),
        )),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Memory that is the process's own or shared with others, each shared page divided by how many share it (PSS).
///
/// # Errors
/// It has ended, or is not to be looked at.
pub fn memory_bytes(pid: i32) -> io::Result<u64> {
    let rollup = told(pid, "smaps_rollup")?;
    field(&rollup, "Pss:", 1024).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Memory that is there for the process, pages that it shares counted whole: quick, and never less than
/// [`memory_bytes`].
pub fn resident_bytes(pid: i32) -> io::Result<u64> {
    let resident = |pid| io::Result::Ok(field(&told(pid, "status")?, "VmRSS:", 1024));
    // A process that ends has none any more.
    let Some(bytes) = resident(pid)? else {
        let thread = survivor(pid).map_or(Ok(None), resident);
        return Ok(thread?.unwrap_or(0));
    };
    Ok(bytes)
}

pub fn blocks(pid: i32) -> io::Result<Blocks> {
    let io = told(pid, "io")?;
    let number = |name| field(&io, name, 1).ok_or(io::ErrorKind::InvalidData);
    let cancelled = number("cancelled_write_bytes:")?;
    Ok(Blocks {
        read_bytes: number("read_bytes:")?,
        written_bytes: number("write_bytes:")?.saturating_sub(cancelled),
    })
}

/// What a process tells of itself in this file.
fn told(pid: i32, file: &str) -> io::Result<String> {
    let told = |pid| fs::read_to_string(place(pid).join(file));
    told(pid).or_else(|error| told(survivor(pid).ok_or(error)?))
}

/// `NAME NUMBER ...` on a line of its own.
fn field(text: &str, name: &str, unit: u64) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_do_not_confuse_the_fields() {
        let check = |stat: &str, expected: Option<(char, u64, u64)>| {
            let told = parse_stat(stat);
            let told =
                told.map(|told| (told.state, told.waited_for.as_millis() as u64, told.threads));
            assert_eq!(told, expected, "{stat}");
        };
        let rest = "1 1 1 0 -1 4194560 1 2 0 0 7 8 150 25 20 -5 3 0 5";
        check(&format!("17 (sh) S {rest}"), Some(('S', 1750, 3)));
        check(&format!("17 (a) R (b) T {rest}"), Some(('T', 1750, 3)));
        check("17 (sh) S 1 1", None);
        check("17 (sh", None);
        check("", None);
    }

    #[test]
    fn this_process_uses_something() {
        let pid = std::process::id() as i32;
        let before = cpu(pid).unwrap().own;
        // As long as it takes to be seen: the clock counts nanoseconds.
        while cpu(pid).unwrap().own == before {}
        let (own, resident) = (memory_bytes(pid).unwrap(), resident_bytes(pid).unwrap());
        assert!(own > 100_000 && resident > 100_000, "{own} {resident}");
        blocks(pid).unwrap();
        assert!(!cpu(pid).unwrap().stopped);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_tells_what_it_uses() {
        use std::process::{Command, Stdio};
        // _exit(2) of one thread; the other waits until our pipe ends.
        let script = "use threads; async { readline STDIN; kill KILL => $$ }; syscall 60, 0";
        let mut perl = Command::new("perl")
            .args(["-e", script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = perl.id() as i32;
        let begun = std::time::Instant::now();
        while survivor(pid).is_none() {
            assert!(begun.elapsed().as_secs() < 60);
        }
        let (own, resident) = (memory_bytes(pid).unwrap(), resident_bytes(pid).unwrap());
        assert!(own > 100_000 && resident > 100_000, "{own} {resident}");
        blocks(pid).unwrap();
        assert!(!cpu(pid).unwrap().zombie);
        drop(perl.stdin.take());
        perl.wait().unwrap();
        assert_eq!(survivor(pid), None);
    }

    #[test]
    fn nobody_uses_nothing() {
        assert!(cpu(i32::MAX).is_err());
        assert!(blocks(i32::MAX).is_err());
        assert!(memory_bytes(i32::MAX).is_err() && resident_bytes(i32::MAX).is_err());
    }
}

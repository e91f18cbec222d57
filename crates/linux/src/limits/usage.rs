//! What a process has used: processors, memory, block devices (proc(5), clock_getcpuclockid(3)).
//! Not here: adding up what comes and goes.

use super::tasks::place;
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
    let (state, waited_for) = parse_stat(&stat).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Cpu {
        own: cpu_clock(pid)?,
        waited_for,
        stopped: state == 'T',
        zombie: matches!(state, 'Z' | 'X'),
    })
}

/// The state and cutime + cstime. The name of the program stands in parentheses and may have any character in it.
fn parse_stat(stat: &str) -> Option<(char, Duration)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Fields are counted from 1, and this was the third (proc_pid_stat(5)).
    let mut waited = fields.skip(16 - 4).map(|ticks| ticks.parse::<u64>().ok());
    let ticks = waited.next()??.checked_add(waited.next()??)?;
    Some((
        state,
        Duration::from_millis(ticks.checked_mul(1000)? / TICKS_A_SECOND),
    ))
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
    let rollup = fs::read_to_string(place(pid).join("smaps_rollup"))?;
    field(&rollup, "Pss:", 1024).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Memory that is there for the process, pages that it shares counted whole: quick, and never less than
/// [`memory_bytes`].
pub fn resident_bytes(pid: i32) -> io::Result<u64> {
    let status = fs::read_to_string(place(pid).join("status"))?;
    // A process that ends has none any more.
    Ok(field(&status, "VmRSS:", 1024).unwrap_or(0))
}

pub fn blocks(pid: i32) -> io::Result<Blocks> {
    let io = fs::read_to_string(place(pid).join("io"))?;
    let number = |name| field(&io, name, 1).ok_or(io::ErrorKind::InvalidData);
    let cancelled = number("cancelled_write_bytes:")?;
    Ok(Blocks {
        read_bytes: number("read_bytes:")?,
        written_bytes: number("write_bytes:")?.saturating_sub(cancelled),
    })
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
        let check = |stat: &str, expected: Option<(char, u64)>| {
            let told = parse_stat(stat).map(|(state, time)| (state, time.as_millis() as u64));
            assert_eq!(told, expected, "{stat}");
        };
        let rest = "1 1 1 0 -1 4194560 1 2 0 0 7 8 150 25 20 0 1 0 5";
        check(&format!("17 (sh) S {rest}"), Some(('S', 1750)));
        check(&format!("17 (a) R (b) T {rest}"), Some(('T', 1750)));
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
    fn nobody_uses_nothing() {
        assert!(cpu(i32::MAX).is_err());
        assert!(blocks(i32::MAX).is_err());
        assert!(memory_bytes(i32::MAX).is_err() && resident_bytes(i32::MAX).is_err());
    }
}

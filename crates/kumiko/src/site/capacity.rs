//! What jobs can reserve of this host (spec/policy, P71): what the site's owner says, else what the host has.
//! Not here: who gets it (kumiko-job's admission).

use crate::fail::{Failure, While};
use crate::site::settings::Settings;
use kumiko_batch::chosen::Name;
use kumiko_job::admission::Capacity;
use kumiko_policy::Limits;
use serde::Deserialize;

/// The host's memory in kB (proc_meminfo(5)).
const MEMINFO: &str = "/proc/meminfo";
/// What the cgroup that a container sees as its whole gives it, of version 2 and 1: bytes, or a word for no limit.
const CGROUP_MEMORY: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];

/// `capacity` of site.toml.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reservable {
    cpu_percent: Option<u64>,
    memory_mib: Option<u64>,
    network_kbyte_s: Option<u64>,
    disk_kbyte_s: Option<u64>,
    processes: Option<u64>,
}

/// What a site with these settings has.
pub fn of(settings: &Settings) -> Result<Capacity, Failure> {
    if settings.batch != Name::Fork {
        return Ok(Capacity::UNBOUNDED);
    }
    let said = settings.capacity;
    let mut limits = Limits {
        cpu_percent: said.cpu_percent,
        memory_mib: said.memory_mib,
        network_kbyte_s: said.network_kbyte_s,
        disk_kbyte_s: said.disk_kbyte_s,
        processes: said.processes,
        ..Limits::default()
    };
    // Agents do not know of each other: each giving away the whole host, it would be given away many times.
    if settings.accounts.is_none() {
        limits.cpu_percent = limits.cpu_percent.or_else(processors_percent);
        if limits.memory_mib.is_none() {
            let text = std::fs::read_to_string(MEMINFO).doing(|| format!("reading {MEMINFO}"))?;
            let cgroups = CGROUP_MEMORY.map(|path| std::fs::read_to_string(path).ok());
            limits.memory_mib = memory_mib(&text, cgroups.iter().flatten());
        }
    }
    Ok(Capacity::new(&limits))
}

/// Processors on which fork can run jobs: what the site's owner gives, else what the host has; part of one is none.
pub fn slots(settings: &Settings) -> u64 {
    let percent = settings.capacity.cpu_percent.or_else(processors_percent);
    percent.unwrap_or_default() / 100
}

/// Those that this process may use: its affinity and its cgroup's quota count.
fn processors_percent() -> Option<u64> {
    let processors = std::thread::available_parallelism().ok()?;
    Some(processors.get() as u64 * 100)
}

fn memory_mib<'a>(meminfo: &str, cgroups: impl Iterator<Item = &'a String>) -> Option<u64> {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total_kb: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let bounds = cgroups.filter_map(|text| text.trim().parse::<u64>().ok());
    let bytes = bounds.chain([total_kb.saturating_mul(1024)]).min()?;
    Some(bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_the_least_of_what_the_host_has_and_the_cgroup_gives() {
        let host = "MemFree: 1 kB\nMemTotal:       4194304 kB\n";
        let check = |cgroups: &[&str], expected: u64| {
            let cgroups: Vec<String> = cgroups.iter().map(|&text| text.to_owned()).collect();
            assert_eq!(
                memory_mib(host, cgroups.iter()),
                Some(expected),
                "{cgroups:?}"
            );
        };
        check(&[], 4096);
        check(&["max\n"], 4096);
        check(&["9223372036854771712\n"], 4096);
        check(&["max\n", "1073741824\n"], 1024);
        assert_eq!(memory_mib("", [].iter()), None);
    }
}

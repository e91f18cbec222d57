//! The host itself (spec/info, P8): read from /proc, /sys and the kernel, in a fraction of a millisecond. Things that do
//! not change while a host runs are read once; the rest at each reading, and published when it has changed.

use crate::time::millis;
use kumiko_directory::provider::{Provider, ReadError, Reading};
use kumiko_directory::{Dn, Entry, Stamp};
use kumiko_linux::facts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, fs};

/// The kernel changes its load every 5 s, its memory at any time.
const EVERY: Duration = Duration::from_secs(1);
/// A reading asks local files only; a file system whose server is gone may hang in it.
const LIMIT: Duration = Duration::from_secs(5);
/// File systems on disks and over networks; all others are the kernel's own.
const DISKS: [&str; 16] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "vfat", "nfs", "nfs4", "cifs",
    "lustre", "beegfs", "overlay", "virtiofs",
];
/// Devices of one kind that are told; more are counted only.
const DEVICES_MOST: usize = 64;

/// Attributes of the host's entry, with their values.
pub type HostFacts = Vec<(String, Vec<String>)>;

/// Tells about the host that it runs on.
#[derive(Clone)]
pub struct HostProvider {
    name: String,
    /// What the program around knows (site, mechanisms), asked for at each reading.
    more: Arc<dyn Fn() -> HostFacts + Send + Sync>,
    proc: PathBuf,
}

impl fmt::Debug for HostProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostProvider")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl HostProvider {
    pub fn new(name: String) -> HostProvider {
        HostProvider {
            name,
            more: Arc::new(Vec::new),
            proc: "/proc".into(),
        }
    }

    /// What else is known of the host, in place of what it says of itself.
    pub fn with(self, more: impl Fn() -> HostFacts + Send + Sync + 'static) -> HostProvider {
        HostProvider {
            more: Arc::new(more),
            ..self
        }
    }

    fn file(&self, name: &str) -> Result<String, ReadError> {
        let path = self.proc.join(name);
        fs::read_to_string(&path).map_err(|cause| ReadError::Io {
            what: format!("reading {}", path.display()),
            cause,
        })
    }

    fn entries(&self) -> Result<Vec<Entry>, ReadError> {
        let host = Dn::default().child("Mds-Host-hn", &self.name);
        let cpu = cpu(&self.file("cpuinfo")?);
        let memory = memory(&self.file("meminfo")?);
        let loads = loads(&self.file("loadavg")?);
        let disks = disks(&self.file("self/mounts")?);
        let networks = facts::addresses().unwrap_or_default();
        let group = |name: &str, class: &[&str]| {
            Entry::new(host.child("Mds-Device-Group-name", name))
                .with("objectClass", ["top", "Mds", "MdsDeviceGroup"])
                .with("objectClass", class)
                .with("Mds-Device-Group-name", [name])
        };
        let device = |group: &Entry, name: &str, class: &[&str]| {
            Entry::new(group.dn.child("Mds-Device-name", name))
                .with("objectClass", ["top", "Mds", "MdsDevice"])
                .with("objectClass", class)
                .with("Mds-Device-name", [name])
        };

        let mut processors = group(
            "processors",
            &[
                "MdsCpu",
                "MdsCpuSmp",
                "MdsCpuCache",
                "MdsCpuFree",
                "MdsCpuTotal",
                "MdsCpuTotalFree",
            ],
        );
        cpu.tell(&mut processors);
        let count = cpu.count;
        for (minutes, load) in [(1, loads[0]), (5, loads[1]), (15, loads[2])] {
            let free = ((count as f64 - load).max(0.0) * 100.0).round();
            processors.add(&format!("Mds-Cpu-Free-{minutes}minX100"), [free]);
            processors.add(&format!("Mds-Cpu-Total-Free-{minutes}minX100"), [free]);
        }

        let mut all = group(
            "memory",
            &[
                "MdsMemoryRam",
                "MdsMemoryRamTotal",
                "MdsMemoryVm",
                "MdsMemoryVmTotal",
            ],
        );
        let mut ram = device(&all, "physical memory", &["MdsMemoryRam"]);
        let mut swap = device(&all, "virtual memory", &["MdsMemoryVm"]);
        for (kind, one, size, free) in [
            ("Ram", &mut ram, memory.size_mib, memory.free_mib),
            ("Vm", &mut swap, memory.swap_mib, memory.swap_free_mib),
        ] {
            for (what, value) in [("size", size), ("free", free)] {
                one.add(&format!("Mds-Memory-{kind}-{what}MB"), [value]);
                all.add(&format!("Mds-Memory-{kind}-{what}MB"), [value]);
                all.add(&format!("Mds-Memory-{kind}-Total-{what}MB"), [value]);
            }
        }

        let mut filesystems = group("filesystems", &["MdsFs", "MdsFsTotal"]);
        let mut devices = Vec::new();
        let (mut size, mut free) = (0, 0);
        for disk in &disks {
            size += disk.size_mib;
            free += disk.free_mib;
            if devices.len() < DEVICES_MOST {
                let mut one = device(&filesystems, &disk.mount, &["MdsFs"]);
                for entry in [&mut one, &mut filesystems] {
                    entry.add("Mds-Fs-mount", [&disk.mount]);
                    entry.add("Mds-Fs-sizeMB", [disk.size_mib]);
                    entry.add("Mds-Fs-freeMB", [disk.free_mib]);
                }
                devices.push(one);
            }
        }
        filesystems.add("Mds-Fs-Total-count", [disks.len()]);
        filesystems.add("Mds-Fs-Total-sizeMB", [size]);
        filesystems.add("Mds-Fs-Total-freeMB", [free]);

        let mut interfaces = group("networks", &["MdsNet", "MdsNetTotal"]);
        let mut by_name: BTreeMap<&str, Entry> = BTreeMap::new();
        for one in &networks {
            if by_name.len() >= DEVICES_MOST {
                break;
            }
            let net = by_name
                .entry(&one.interface)
                .or_insert_with(|| device(&interfaces, &one.interface, &["MdsNet"]));
            let mtu = fs::read_to_string(format!("/sys/class/net/{}/mtu", one.interface));
            for entry in [net, &mut interfaces] {
                entry.add("Mds-Net-name", [&one.interface]);
                entry.add("Mds-Net-addr", [one.address]);
                entry.add("Mds-Net-netaddr", [network(one)]);
                entry.add("Mds-Net-mtuB", mtu.iter().map(|m| m.trim()));
            }
        }
        interfaces.add("Mds-Net-Total-count", [by_name.len()]);

        let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let software = Entry::new(host.child("Mds-Software-deployment", "operating system"))
            .with("objectClass", ["top", "Mds", "MdsSoftware", "MdsOs"])
            .with("Mds-Software-deployment", ["operating system"])
            .with("Mds-Os-name", ["Linux"])
            .with(
                "Mds-Os-release",
                [kumiko_linux::this_process::kernel_release()],
            )
            .with("Mds-Os-version", os_version(&os));

        let mut merged = Entry::new(host.clone())
            .with(
                "objectClass",
                ["top", "Mds", "MdsHost", "MdsComputer", "MdsComputerTotal"],
            )
            .with("Mds-Host-hn", [&self.name])
            .with("Mds-Computer-isa", [std::env::consts::ARCH])
            .with("Mds-Computer-platform", [std::env::consts::ARCH])
            .with("Mds-Computer-Total-nodeCount", [1])
            .with("kumiko-load-1min", [loads[0]])
            .with("kumiko-load-5min", [loads[1]])
            .with("kumiko-load-15min", [loads[2]])
            .with("kumiko-boot-seconds", boot(&self.file("stat")?));
        let gpus = gpus(&self.proc);
        merged.add("kumiko-gpu-count", [gpus.len()]);
        merged.add("kumiko-gpu", gpus.iter().filter(|g| !g.is_empty()));
        for (name, values) in (self.more)() {
            merged.attributes.retain(|a| a.name != name);
            merged.add(&name, values);
        }
        // Values are merged upward (MDS 2.2), but for what only names the part.
        for part in [&processors, &all, &filesystems, &interfaces, &software] {
            for attribute in &part.attributes {
                let own = [
                    "Mds-Device-Group-name",
                    "Mds-Software-deployment",
                    "objectClass",
                ];
                if !own.contains(&attribute.name.as_str()) {
                    merged.add(&attribute.name, &attribute.values);
                }
            }
            let classes = part.get("objectClass").map_or(&[][..], |c| &c.values);
            let auxiliary = classes
                .iter()
                .filter(|c| !["MdsDeviceGroup", "MdsSoftware"].contains(&c.as_str()));
            merged.add("objectClass", auxiliary);
        }
        let mut entries = vec![merged, processors, all, ram, swap, filesystems];
        entries.extend(devices);
        entries.push(interfaces);
        entries.extend(by_name.into_values());
        entries.push(software);
        entries.retain_mut(|e| {
            e.attributes.retain(|a| !a.values.is_empty());
            true
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let stamp = Stamp {
            measured_ms: millis(now.unwrap_or_default()),
            holds_ms: 0,
        };
        Ok(entries.into_iter().map(|e| e.stamped(stamp)).collect())
    }
}

impl Provider for HostProvider {
    fn name(&self) -> &str {
        "host"
    }

    fn every(&self) -> Duration {
        EVERY
    }

    fn limit(&self) -> Duration {
        LIMIT
    }

    fn read(&mut self) -> Reading<'_> {
        let own = self.clone();
        // A mount whose server is gone holds its thread, and nothing else.
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || own.entries()).await;
            read.unwrap_or_else(|e| {
                Err(ReadError::Io {
                    what: "reading the host".to_owned(),
                    cause: std::io::Error::other(e),
                })
            })
        })
    }
}

#[derive(Debug, Default, PartialEq)]
struct Cpu {
    count: usize,
    vendor: Option<String>,
    model: Option<String>,
    version: Option<String>,
    features: Option<String>,
    mhz: Option<u64>,
    cache_kib: Option<u64>,
}

impl Cpu {
    fn tell(&self, entry: &mut Entry) {
        entry.add("Mds-Cpu-Total-count", [self.count]);
        entry.add("Mds-Cpu-Smp-size", [self.count]);
        for (name, value) in [
            ("Mds-Cpu-vendor", &self.vendor),
            ("Mds-Cpu-model", &self.model),
            ("Mds-Cpu-version", &self.version),
            ("Mds-Cpu-features", &self.features),
        ] {
            entry.add(name, value);
        }
        entry.add("Mds-Cpu-speedMHz", self.mhz);
        entry.add("Mds-Cpu-Cache-l2kB", self.cache_kib);
    }
}

/// /proc/cpuinfo of x86 and of others, which tell less.
fn cpu(text: &str) -> Cpu {
    let mut cpu = Cpu::default();
    let mut version = [None, None, None];
    let mut mhz = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match name.trim() {
            "processor" => cpu.count += 1,
            "vendor_id" | "CPU implementer" => cpu.vendor = Some(value.to_owned()),
            "model name" => cpu.model = Some(value.to_owned()),
            "cpu family" => version[0] = Some(value),
            "model" => version[1] = Some(value),
            "stepping" => version[2] = Some(value),
            "flags" | "Features" => {
                let most = kumiko_directory::VALUE_MOST_BYTES;
                cpu.features = Some(value.chars().take(most).collect());
            }
            "cpu MHz" => mhz.extend(value.parse::<f64>()),
            "cache size" => cpu.cache_kib = value.split(' ').next().and_then(|v| v.parse().ok()),
            _ => {}
        }
    }
    if let [Some(family), Some(model), Some(stepping)] = version {
        cpu.version = Some(format!("{family}.{model}.{stepping}"));
    }
    // Clocks breathe; hundreds of MHz say what the CPU is.
    let top = mhz.into_iter().fold(0.0, f64::max);
    cpu.mhz = (top > 0.0).then(|| (top / 100.0).round() as u64 * 100);
    cpu
}

#[derive(Debug, Default, PartialEq)]
struct Memory {
    size_mib: u64,
    free_mib: u64,
    swap_mib: u64,
    swap_free_mib: u64,
}

fn memory(text: &str) -> Memory {
    let mut memory = Memory::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (name, kib) = (
            words.next(),
            words.next().and_then(|v| v.parse::<u64>().ok()),
        );
        let mib = kib.unwrap_or(0) / 1024;
        match name {
            Some("MemTotal:") => memory.size_mib = mib,
            Some("MemAvailable:") => memory.free_mib = mib,
            Some("SwapTotal:") => memory.swap_mib = mib,
            Some("SwapFree:") => memory.swap_free_mib = mib,
            _ => {}
        }
    }
    memory
}

fn loads(text: &str) -> [f64; 3] {
    let mut words = text.split_whitespace().map(|w| w.parse().unwrap_or(0.0));
    [(); 3].map(|()| words.next().unwrap_or(0.0))
}

fn boot(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|l| l.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[derive(Debug)]
struct Disk {
    mount: String,
    size_mib: u64,
    free_mib: u64,
}

fn disks(mounts: &str) -> Vec<Disk> {
    let mut disks: Vec<Disk> = Vec::new();
    let mut seen = Vec::new();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(device), Some(mount), Some(kind)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        // One file system may be seen at many places (bind mounts); its first place stands for it.
        if !DISKS.contains(&kind) || (kind != "overlay" && seen.contains(&device)) {
            continue;
        }
        seen.push(device);
        // /proc/self/mounts escapes blanks (fstab(5)).
        let mount = mount
            .replace("\\040", " ")
            .replace("\\011", "\t")
            .replace("\\134", "\\");
        let Ok(room) = facts::room(Path::new(&mount)) else {
            continue;
        };
        if room.size_bytes > 0 {
            disks.push(Disk {
                mount,
                size_mib: room.size_bytes >> 20,
                free_mib: room.free_bytes >> 20,
            });
        }
    }
    disks
}

fn network(one: &facts::Address) -> String {
    use std::net::IpAddr;
    let cut = |bits: u32| bits.saturating_sub(u32::from(one.prefix));
    let network: IpAddr = match one.address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(cut(32)).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(cut(128)).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    };
    format!("{network}/{}", one.prefix)
}

fn os_version(os_release: &str) -> Option<String> {
    let line = os_release
        .lines()
        .find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

/// NVIDIA's driver tells models; of others there is what the PCI bus says.
fn gpus(proc: &Path) -> Vec<String> {
    let nvidia = fs::read_dir(proc.join("driver/nvidia/gpus"))
        .into_iter()
        .flatten()
        .flatten();
    let mut gpus: Vec<String> = nvidia
        .filter_map(|gpu| fs::read_to_string(gpu.path().join("information")).ok())
        .filter_map(|text| {
            Some(
                text.lines()
                    .find_map(|l| l.strip_prefix("Model:"))?
                    .trim()
                    .to_owned(),
            )
        })
        .collect();
    if gpus.is_empty() {
        let render = fs::read_dir("/sys/class/drm")
            .into_iter()
            .flatten()
            .flatten();
        gpus = render
            .filter(|card| card.file_name().to_string_lossy().starts_with("renderD"))
            .filter_map(|card| {
                let id = |what| fs::read_to_string(card.path().join("device").join(what)).ok();
                Some(format!("{}:{}", id("vendor")?.trim(), id("device")?.trim()))
            })
            .collect();
    }
    gpus
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_kernel_are_understood() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Xeon\nstepping\t: 7\ncpu MHz\t\t: 2793.4\ncache size\t: 1024 KB\nflags\t\t: fpu vme\n\nprocessor\t: 1\n";
        let cpu = cpu(text);
        assert_eq!(
            (cpu.count, cpu.mhz, cpu.cache_kib),
            (2, Some(2800), Some(1024))
        );
        assert_eq!(cpu.version.as_deref(), Some("6.85.7"));
        let memory = memory("MemTotal: 2048000 kB\nMemAvailable: 1024000 kB\nSwapTotal: 0 kB\n");
        assert_eq!((memory.size_mib, memory.free_mib), (2000, 1000));
        assert_eq!(loads("0.52 0.61 0.70 1/200 4242\n"), [0.52, 0.61, 0.7]);
        assert_eq!(loads("garbage"), [0.0; 3]);
        assert_eq!(boot("cpu 1\nbtime 1700000000\n"), Some(1_700_000_000));
    }

    #[test]
    fn networks_are_cut_from_addresses() {
        for (address, prefix, expected) in [
            ("10.1.2.3", 8, "10.0.0.0/8"),
            ("10.1.2.3", 32, "10.1.2.3/32"),
            ("10.1.2.3", 0, "0.0.0.0/0"),
            ("fd00::1:2", 64, "fd00::/64"),
        ] {
            let one = facts::Address {
                interface: "x".into(),
                address: address.parse().unwrap(),
                prefix,
            };
            assert_eq!(network(&one), expected);
        }
    }

    #[test]
    fn this_host_has_a_tree_as_mds_has_it() {
        let entries = HostProvider::new("here".into()).entries().unwrap();
        let names: Vec<String> = entries.iter().map(|e| e.dn.to_string()).collect();
        for expected in [
            "Mds-Host-hn=here",
            "Mds-Device-Group-name=processors, Mds-Host-hn=here",
            "Mds-Device-name=physical memory, Mds-Device-Group-name=memory, Mds-Host-hn=here",
            "Mds-Software-deployment=operating system, Mds-Host-hn=here",
        ] {
            assert!(
                names.iter().any(|n| n == expected),
                "{expected} in {names:?}"
            );
        }
        let host = &entries[0];
        for name in [
            "Mds-Cpu-Total-count",
            "Mds-Memory-Ram-Total-freeMB",
            "kumiko-load-1min",
            "Mds-Os-release",
        ] {
            assert_eq!(host.get(name).unwrap().values.len(), 1, "{name}");
        }
        for entry in &entries {
            for attribute in &entry.attributes {
                let declared = kumiko_directory::schema::attribute(&attribute.name);
                assert!(
                    declared.is_some(),
                    "{} is not in the schema",
                    attribute.name
                );
            }
        }
    }
}

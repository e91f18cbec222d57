//! The values of a policy (spec/policy, "Meaning"). Serde's form of these is what a runner is told; people write TOML.

use crate::path::GuestPath;
use crate::reach::Reach;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Most path rules in one policy: each may cost a mount, and 1,000 binds take 8 ms to set up.
pub const MAX_RULES: usize = 1_000;
/// Longest policy text read, bytes: far above [`MAX_RULES`] lines of ordinary length, far below what would hurt.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Largest rate, KByte/s: 4 TByte/s, above any machine's memory.
pub(crate) const MAX_RATE: u64 = 4_000_000_000;
/// 1,000 processors.
const MAX_CPU_PERCENT: u64 = 100_000;
/// 1 EiB.
pub(crate) const MAX_MIB: u64 = 1 << 40;
/// PID_MAX_LIMIT of 64-bit Linux.
const MAX_PROCESSES: u64 = 1 << 22;
/// The highest that fs.nr_open can be.
const MAX_OPEN_FILES: u64 = 1 << 30;
/// 100 years.
const MAX_SECONDS: u64 = 100 * 366 * 24 * 3600;

/// A policy, parsed and checked. What is not said is `None`/empty, and is then as the policy above has it (P6).
/// `Policy::default()` is the default policy (P20), [`Policy::empty`] says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub mechanism: MechanismKind,
    /// Sorted by guest path, one rule a path. The rule with the longest matching path decides (P5).
    pub paths: Vec<Rule>,
    pub network: Option<Network>,
    /// Which addresses may be connected to, a layer each; every one has to admit them (P60).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach: Vec<Reach>,
    /// May the guest start further processes (threads are always allowed)? `trace_fork` of the paper (P9).
    pub further_processes: Option<bool>,
    pub limits: Limits,
    /// Refuse to start when something asked for cannot be enforced (P14).
    pub strict: bool,
    /// Is a wall asked for, where the mechanism is left to us (P88)? `Some(false)`: a fence will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    /// Who keeps the network's rate (P92).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<NetworkLimiter>,
    /// May guests that could be dumped by CRIU do without the filter of system calls that prevents it (P94)?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dump: Option<bool>,
    /// The virtual organisation that it speaks for, or under whose policy it asks to be put (P43).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vo: Option<String>,
    /// Where each setting that is no path comes from, by its key in the TOML notation (P41). None: the default policy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<String, Origin>,
    /// The texts that were laid over each other, the highest first (P40).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
}

/// How system calls are reached. The paper's `type:` numbers in [`MechanismKind::from_number`] (P3).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MechanismKind {
    /// The cheapest that carries out the policy.
    #[default]
    Auto,
    Ptrace,
    Notify,
    Library,
    Namespace,
}

impl MechanismKind {
    pub const ALL: [MechanismKind; 5] = [
        Self::Auto,
        Self::Ptrace,
        Self::Notify,
        Self::Library,
        Self::Namespace,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ptrace => "ptrace",
            Self::Notify => "notify",
            Self::Library => "library",
            Self::Namespace => "namespace",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// 0 auto, 1 ptrace, 2 notify (the paper's mod_janus), 3 library (its DyninstAPI), 4 namespace.
    pub fn from_number(number: u32) -> Option<Self> {
        usize::try_from(number)
            .ok()
            .and_then(|at| Self::ALL.get(at).copied())
    }
}

/// One line of the path map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// As the guest names it.
    pub path: GuestPath,
    pub access: Access,
    /// May what lies there be executed? More than read, less than all that can be done with what is read (P23).
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub execute: bool,
    /// Where it says so.
    pub origin: Origin,
}

fn yes() -> bool {
    true
}

fn is_yes(yes: &bool) -> bool {
    *yes
}

/// What the guest finds at a path and below it, unless a longer path says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Access {
    Read {
        real: Real,
        /// Absent on this machine: then the rule is passed over, else an error.
        #[serde(default)]
        optional: bool,
    },
    Write {
        real: Real,
        #[serde(default)]
        optional: bool,
    },
    /// Is there, and cannot be opened (EACCES).
    Denied,
    /// Looks absent, or empty where the directory above is a real one.
    Hidden,
    /// An empty, private, writable place that goes with the job. `None`: the default size.
    Temporary { size_mib: Option<u64> },
}

/// Where a shown path really is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Real {
    /// `root` was named by a policy that is trusted to name host paths: symbolic links in it are followed. `beneath`
    /// (may be empty) came from below: no symbolic link in it is followed (P8).
    Host { root: GuestPath, beneath: String },
    /// In the job's own directory; `beneath` (may be empty) as above.
    Job { beneath: String },
}

/// May the guest use the network of the host?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    Host,
    /// Its own loopback only.
    None,
}

/// Who keeps the rate of the network (P92).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkLimiter {
    /// The kernel, and who stands by the job.
    #[default]
    Outside,
    /// The library in the guest, by deadlines.
    Deadline,
    /// The library in the guest, by the 2003 paper's formula (its section 4.2).
    Paper,
}

impl NetworkLimiter {
    pub const ALL: [NetworkLimiter; 3] = [Self::Outside, Self::Deadline, Self::Paper];

    pub fn name(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::Deadline => "deadline",
            Self::Paper => "paper",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limiter| limiter.name() == name)
    }
}

/// Limits of the whole job, not of each process (P12, P50). 1 KByte is 1,000 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_kbyte_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_kbyte_s: Option<u64>,
    /// Of one processor: 250 is two and a half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Processes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Of processors, of all processes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time_s: Option<u64>,
    /// From the start of the first guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_time_s: Option<u64>,
    /// Bytes that the job has written to block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_mib: Option<u64>,
}

/// One limit: what it is of, in words and as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limited {
    Disk,
    Network,
    Cpu,
    Memory,
    Processes,
    OpenFiles,
    CpuTime,
    WallTime,
    Written,
}

impl Limited {
    pub const ALL: [Limited; 9] = [
        Self::Disk,
        Self::Network,
        Self::Cpu,
        Self::Memory,
        Self::Processes,
        Self::OpenFiles,
        Self::CpuTime,
        Self::WallTime,
        Self::Written,
    ];

    /// In the table `[limits]`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Disk => "disk_kbyte_s",
            Self::Network => "network_kbyte_s",
            Self::Cpu => "cpu_percent",
            Self::Memory => "memory_mib",
            Self::Processes => "processes",
            Self::OpenFiles => "open_files",
            Self::CpuTime => "cpu_time_s",
            Self::WallTime => "wall_time_s",
            Self::Written => "written_mib",
        }
    }

    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limited| limited.key() == key)
    }

    /// The key in the whole text, as [`Policy::origin`] takes it.
    pub fn full_key(self) -> String {
        format!("limits.{}", self.key())
    }

    /// The largest that can be said. The least is 1: a limit of nothing is no limit but a refusal.
    pub fn most(self) -> u64 {
        match self {
            Self::Disk | Self::Network => MAX_RATE,
            Self::Cpu => MAX_CPU_PERCENT,
            Self::Memory | Self::Written => MAX_MIB,
            Self::Processes => MAX_PROCESSES,
            Self::OpenFiles => MAX_OPEN_FILES,
            Self::CpuTime | Self::WallTime => MAX_SECONDS,
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Disk => ("disk", "KByte/s"),
            Self::Network => ("network", "KByte/s"),
            Self::Cpu => ("cpu", "% of one processor"),
            Self::Memory => ("memory", "MiB"),
            Self::Processes => ("process", "at once"),
            Self::OpenFiles => ("open file", "in each process"),
            Self::CpuTime => ("cpu time", "s"),
            Self::WallTime => ("wall time", "s"),
            Self::Written => ("written", "MiB"),
        }
    }
}

impl Limits {
    pub fn get(&self, limited: Limited) -> Option<u64> {
        match limited {
            Limited::Disk => self.disk_kbyte_s,
            Limited::Network => self.network_kbyte_s,
            Limited::Cpu => self.cpu_percent,
            Limited::Memory => self.memory_mib,
            Limited::Processes => self.processes,
            Limited::OpenFiles => self.open_files,
            Limited::CpuTime => self.cpu_time_s,
            Limited::WallTime => self.wall_time_s,
            Limited::Written => self.written_mib,
        }
    }

    pub fn set(&mut self, limited: Limited, value: Option<u64>) {
        *match limited {
            Limited::Disk => &mut self.disk_kbyte_s,
            Limited::Network => &mut self.network_kbyte_s,
            Limited::Cpu => &mut self.cpu_percent,
            Limited::Memory => &mut self.memory_mib,
            Limited::Processes => &mut self.processes,
            Limited::OpenFiles => &mut self.open_files,
            Limited::CpuTime => &mut self.cpu_time_s,
            Limited::WallTime => &mut self.wall_time_s,
            Limited::Written => &mut self.written_mib,
        } = value;
    }

    /// The limits that are set.
    pub fn each(&self) -> impl Iterator<Item = (Limited, u64)> + '_ {
        let all = Limited::ALL.into_iter();
        all.filter_map(|limited| self.get(limited).map(|value| (limited, value)))
    }

    /// One limit, in words.
    pub fn words(limited: Limited, value: u64) -> String {
        let (what, unit) = limited.words();
        format!("{what} limit of {value} {unit}")
    }

    /// Each limit that is set, in words.
    pub fn in_words(&self) -> Vec<String> {
        self.each()
            .map(|(of, value)| Self::words(of, value))
            .collect()
    }
}

/// Which text, and which line of it (0: no line), a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub source: String,
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.source),
            line => write!(f, "{} line {line}", self.source),
        }
    }
}

impl Policy {
    /// Says nothing: everything is as the policy above has it. Standing alone, the guest sees only what every guest has
    /// (P10: /proc, /dev, its own directory).
    pub fn empty() -> Policy {
        Policy {
            mechanism: MechanismKind::Auto,
            paths: Vec::new(),
            network: None,
            reach: Vec::new(),
            further_processes: None,
            limits: Limits::default(),
            strict: false,
            complete: None,
            limiter: None,
            dump: None,
            vo: None,
            origins: BTreeMap::new(),
            layers: Vec::new(),
        }
    }

    /// Where a setting comes from, by its key (`network`, `limits.memory_mib`).
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or_else(|| Origin {
            source: "default policy".to_owned(),
            line: 0,
        })
    }

    /// What holds for the network when nothing was said (P11).
    pub fn network(&self) -> Network {
        self.network.unwrap_or(Network::Host)
    }

    /// What holds when nothing was said: a wall.
    pub fn complete(&self) -> bool {
        self.complete.unwrap_or(true)
    }

    /// What holds when nothing was said: the job is held from outside.
    pub fn limiter(&self) -> NetworkLimiter {
        self.limiter.unwrap_or_default()
    }

    /// What holds when nothing was said: every guest has its filter.
    pub fn dump(&self) -> bool {
        self.dump.unwrap_or(false)
    }

    /// What holds for further processes when nothing was said.
    pub fn further_processes(&self) -> bool {
        self.further_processes.unwrap_or(true)
    }
}

//! The values of a policy (spec/policy, "Meaning"). Serde's form of these is what a runner is told; people write TOML.

use crate::path::GuestPath;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most path rules in one policy: each may cost a mount, and 1,000 binds take 8 ms to set up.
pub const MAX_RULES: usize = 1_000;
/// Longest policy text read, bytes: far above [`MAX_RULES`] lines of ordinary length, far below what would hurt.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// A policy, parsed and checked. What is not said is `None`/empty, and is then as the policy above has it (P6).
/// `Policy::default()` is the default policy (P20), [`Policy::empty`] says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub mechanism: MechanismKind,
    /// Sorted by guest path, one rule a path. The rule with the longest matching path decides (P5).
    pub paths: Vec<Rule>,
    pub network: Option<Network>,
    /// May the guest start further processes (threads are always allowed)? `trace_fork` of the paper (P9).
    pub further_processes: Option<bool>,
    pub limits: Limits,
    /// Refuse to start when something asked for cannot be enforced (P14).
    pub strict: bool,
}

/// How system calls are reached. The paper's `type:` numbers in [`MechanismKind::from_number`] (P3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// Where it says so.
    pub origin: Origin,
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

/// Limits are carried from the first; a mechanism that does not enforce one says so (P14). 1 KByte is 1,000 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub disk_kbyte_s: Option<u64>,
    pub network_kbyte_s: Option<u64>,
    /// Of one processor: 250 is two and a half.
    pub cpu_percent: Option<u64>,
    pub memory_mib: Option<u64>,
}

impl Limits {
    /// Each limit that is set, in words.
    pub fn in_words(&self) -> Vec<String> {
        [
            ("disk", self.disk_kbyte_s, "KByte/s"),
            ("network", self.network_kbyte_s, "KByte/s"),
            ("cpu", self.cpu_percent, "% of one processor"),
            ("memory", self.memory_mib, "MiB"),
        ]
        .into_iter()
        .filter_map(|(what, value, unit)| {
            value.map(|value| format!("{what} limit of {value} {unit}"))
        })
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
            further_processes: None,
            limits: Limits::default(),
            strict: false,
        }
    }

    /// What holds for the network when nothing was said (P11).
    pub fn network(&self) -> Network {
        self.network.unwrap_or(Network::Host)
    }

    /// What holds for further processes when nothing was said.
    pub fn further_processes(&self) -> bool {
        self.further_processes.unwrap_or(true)
    }
}

//! What a user asked for (spec/jobs, "Description"). The JSON form is serde's of these types.

use crate::placement::Placement;
use crate::together::Together;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The description of a job, as submitted. Unknown fields are refused, so that a misspelt limit is never ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobDescription {
    /// A path in the guest's view, a bare name looked up in the guest's PATH, or a URL to fetch it from.
    pub executable: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Reaches the guest only, never the runner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Working directory in the guest's view; default: the job's own directory (its HOME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// A folder uploaded before; it becomes the job's own directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// A credential delegated before; the guest finds it by X509_USER_PROXY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    #[serde(default)]
    pub stdin: Stdin,
    /// Files fetched before an attempt is planned, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_in: Vec<StageIn>,
    /// As `stage_in`, but fetched once for all jobs of the account that name the same URL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_in_shared: Vec<StageIn>,
    /// Files sent when the program has ended, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_out: Vec<StageOut>,
    /// Files or directories below the job's own directory that are removed when all is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clean_up: Vec<String>,
    /// A directory below the job's own, made before staging and removed when all is sent; the guest finds its path in
    /// SCRATCH_DIRECTORY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<String>,
    /// A directory below the job's own: the entries of the cache that it names are there, and not in the account's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Where stdout is sent to while the job runs, besides being kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stdout: Vec<Destination>,
    /// Where stderr is sent to while the job runs, besides being kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<Destination>,
    #[serde(default)]
    pub output: OutputMode,
    /// Run under a pseudo-terminal of this size; stdout and stderr are then one stream (stdout).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<WindowSize>,
    /// How many instances are started together (their number is in KUMIKO_RANK, KUMIKO_COUNT).
    #[serde(default = "one")]
    pub count: u32,
    /// The instances are the ranks of one MPI program, started by a launcher of its library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<Mpi>,
    /// Wall-clock limit, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// What a cluster's engine is asked for.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// Cancel the job once nobody has been attached to it for so long, seconds; default: it needs nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attended_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Text of a policy (TOML, or the paper's format) that narrows the site's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Names the mechanism, over what the policy's `type` says: "namespace", ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// Between SIGTERM and SIGKILL on cancel, milliseconds; default: the site's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// How its submitter chose this site; told again by `explain`, and otherwise of no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
    /// It is started together with others, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Box<Together>>,
    /// It may run again from its start.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rerun: bool,
}

fn one() -> u32 {
    1
}

impl JobDescription {
    /// A program with its arguments, and nothing else said.
    pub fn new(executable: &str, arguments: &[String]) -> JobDescription {
        JobDescription {
            executable: executable.to_owned(),
            arguments: arguments.to_vec(),
            environment: BTreeMap::new(),
            directory: None,
            input: None,
            credential: None,
            stdin: Stdin::Empty,
            stage_in: Vec::new(),
            stage_in_shared: Vec::new(),
            stage_out: Vec::new(),
            clean_up: Vec::new(),
            scratch: None,
            cache: None,
            stdout: Vec::new(),
            stderr: Vec::new(),
            output: OutputMode::Keep,
            terminal: None,
            count: one(),
            mpi: None,
            time_limit_s: None,
            resources: Resources::default(),
            attended_s: None,
            name: None,
            policy: None,
            mechanism: None,
            grace_ms: None,
            placement: None,
            together: None,
            rerun: false,
        }
    }
}

/// Of which MPI library a launcher is taken (spec/jobs/mpi.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mpi {
    /// Of the one that the program is linked with; where its file does not tell, of the first that is found.
    Auto,
    Mpich,
    Openmpi,
    /// The launcher is elsewhere: the program is MPICH's proxy for it, and their connection stdin and stdout.
    Proxy,
}

/// What a cluster's engine is asked for. What a batch system cannot give is refused, and never ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Processors, for each instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// For all instances together, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Of one processor, for all instances together; instead of `cpus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u64>,
    /// Of what the job sends, for all instances together; 1 KByte is 1,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_kbyte_s: Option<u64>,
    /// Reading and writing each, for all instances together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_kbyte_s: Option<u64>,
    /// At once, of all instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// For all instances together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_count: Option<u32>,
    /// Of Slurm, the partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Whose share it counts against: the account of Slurm, the accounting group of HTCondor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Nobody else's jobs on the host.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
}

impl Resources {
    pub fn is_empty(&self) -> bool {
        *self == Resources::default()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Where the guest's standard input comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// Empty.
    #[default]
    Empty,
    /// A file, relative to the job's own directory.
    File(String),
    /// From whoever attaches.
    Live,
    /// Fetched before the attempt is planned.
    Url(String),
}

/// A file to fetch (file_stage_in in RSL's words).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageIn {
    /// A URL (spec/staging U1).
    pub from: String,
    /// Below the job's own directory; directories on the way are made.
    pub to: String,
    /// What it has to have, else the transfer fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// As `bytes`: 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A file to send (file_stage_out).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageOut {
    /// Below the job's own directory.
    pub from: String,
    /// A URL.
    pub to: String,
}

/// Where an output stream is sent to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// A URL, or a path below the job's own directory.
    pub to: String,
    /// The tag of an entry in the cache (`x-gass-cache:` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The bytes below this are there already and are not sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub position: u64,
}

impl Destination {
    /// The whole stream, without a tag.
    pub fn new(to: &str) -> Destination {
        Destination {
            to: to.to_owned(),
            tag: None,
            position: 0,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What becomes of stdout and stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// All of it is kept in the spool until the job is removed (up to the site's quota).
    #[default]
    Keep,
    /// Only what the attached reader has not consumed yet is kept; the guest waits when that is too much (exec).
    Flow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    pub rows: u16,
    pub columns: u16,
}

//! One attempt: what a runner is told, what it reports. Spoken over its control socket (spec/jobs, "Runner").

use crate::description::{Mpi, OutputMode, Resources, Stdin, WindowSize};
use crate::id::AttemptId;
use crate::staging::Item;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use kumiko_policy::{Limited, Limits, Policy};

/// All that a runner needs, written as `attempt.json` into the spool before it is started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptSpec {
    pub id: AttemptId,
    pub executable: String,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// Working directory in the guest's view; None: the job's own directory.
    pub directory: Option<String>,
    /// The job's own directory on the host; writable by the guest.
    pub job_directory: PathBuf,
    pub stdin: Stdin,
    pub output: OutputMode,
    pub terminal: Option<WindowSize>,
    pub count: u32,
    /// The instances are the ranks of one program, which one guest starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<Mpi>,
    pub time_limit_ms: Option<u64>,
    /// What an engine is asked for; the runner has no use for it.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    pub grace_ms: u64,
    /// Most bytes that stdout and stderr may take in the spool, each.
    pub output_quota_bytes: u64,
    /// The effective policy.
    pub policy: kumiko_policy::Policy,
    pub mechanism: Option<String>,
    /// The program is executed only when `Release` comes, and not at all once no site has been connected for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ms: Option<u64>,
    /// With no site for so long, what the guests wait for from one does not come: it is done without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_ms: Option<u64>,
    /// Its runner reports `Beat` so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beat_ms: Option<u64>,
    /// None: its guest is not dumped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dumps: Option<Dumps>,
    /// One of `BatchSystem::hosts`, on which it begins if it still can; the runner has no use for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_on: Option<String>,
}

/// A guest that CRIU may dump, if its policy and all else admits it (spec/checkpoint, K52).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dumps {
    /// Where dumps lie, of this and earlier attempts of the job.
    pub folder: PathBuf,
    /// Where criu is looked for: the site's PATH.
    pub path: String,
    #[serde(default)]
    pub guest: Dumped,
}

/// How the reason begins that tells whether a guest is dumped (spec/checkpoint K52).
pub const DUMPED: &str = "it is dumped by CRIU";
pub const NOT_DUMPED: &str = "it is not dumped by CRIU";
/// And how it ends of a program that links the library of checkpoints.
pub const LINKS_LIBRARY: &str = "its program makes checkpoints itself";

/// [`Dumped::AskedRoutine`] found nothing to go on from: a row of spec/errors.toml.
pub const NO_DUMP: &str = "no_dump";

/// What it is that is dumped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dumped {
    /// A job's program; it goes on from a dump if there is one.
    #[default]
    Job,
    /// A routine's process, which is asked by its stdin and answers by its stdout (spec/rpc P60 to P62): dumped is what it does in
    /// between. It begins at its start.
    Routine,
    /// One that goes on in the midst of that, or does not start.
    AskedRoutine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// What a runner reports. Each may be repeated after a reconnection; the last `Output` per stream counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptReport {
    /// All is ready but for the execution of the program, which waits for `Release`.
    Held,
    /// The runner lives, whatever its guests do.
    Beat,
    /// It obeys `Vacate`. Before `Started`.
    Vacates,
    Started {
        /// The runner's own, on the host.
        pid: u32,
        mechanism: String,
        /// What the policy asks and this mechanism does not carry out, in words.
        not_enforced: Vec<String>,
        /// Why this mechanism and not another, by what the limits are kept, and under which policies, in words.
        why: Vec<String>,
    },
    /// The spool file of this stream now holds all bytes below `length` (a total since the start, never falling).
    Output {
        stream: OutputStream,
        length: u64,
    },
    /// All stdin bytes below `offset` were handed to the guest.
    StdinTaken {
        offset: u64,
    },
    /// The guest has closed its stdin or has ended: more stdin is useless.
    StdinClosed,
    /// A changed policy was followed, but for this, in words.
    Followed {
        not: Vec<String>,
    },
    Suspended,
    Resumed,
    /// What its sandbox cost; before `Ended`, if a guest ran.
    Cost(Cost),
    Ended(Outcome),
}

/// What a sandbox cost an attempt, beside its guests' own work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// From the attempt's description to its last guest's start.
    pub start_us: u64,
    /// Time of processors that answering for the guests took; 0 where nobody answers.
    pub answering_us: u64,
    /// Calls that were answered.
    pub answered: u64,
}

impl Cost {
    /// For people.
    pub fn words(&self) -> String {
        let ms = |us: u64| format!("{}.{} ms", us / 1_000, us % 1_000 / 100);
        let start = ms(self.start_us);
        match self.answered {
            0 => format!("its sandbox took {start} to start"),
            calls => format!(
                "its sandbox took {start} to start, and {} of processors to answer {calls} calls",
                ms(self.answering_us)
            ),
        }
    }
}

/// The `NeverStarted` code of an attempt that provably never began and, being fenced, never will: the one outcome that
/// is worth another attempt (spec/jobs J30).
pub const NOT_BEGUN: &str = "attempt_not_begun";

/// How an attempt ended; kept apart because they are not worth the same retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Exit status of the guest (with count > 1: the first that is not 0, by rank).
    Exited {
        status: i32,
    },
    /// Killed by a signal that nobody here sent.
    Signalled {
        signal: i32,
    },
    /// Ended on our `Cancel`.
    Cancelled,
    TimeLimit,
    /// stdout or stderr outgrew its quota.
    OutputQuota {
        stream: OutputStream,
    },
    /// The guest never ran: no such executable, refused policy, ... `code` is one of spec/errors.toml.
    NeverStarted {
        code: String,
        message: String,
    },
    /// The spool could not be written (full disk, ...): output is incomplete.
    SpoolFailed {
        message: String,
    },
    /// Runner and guest are gone without a word (killed, host lost).
    Lost {
        message: String,
    },
    /// The batch system's engine ended it, or let go of it, for reasons of its own.
    EngineEnded {
        cause: EngineCause,
        /// In the engine's words.
        message: String,
    },
    /// The job's files could not be moved: before it ran (then no attempt was made), or after. Of jobs, not of attempts.
    StagingFailed {
        item: Item,
        code: String,
        message: String,
    },
}

/// Why an engine ended an attempt that nobody here had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineCause {
    /// It used more than the engine gave it: time, memory, disk.
    Limit,
    /// Another job was worth more.
    Preempted,
    /// The engine put it on hold, and would not run it again.
    Held,
    /// Its slot was taken back.
    Evicted,
    /// The host failed, or the engine lost sight of it.
    HostLost,
    /// Somebody removed it at the engine.
    Removed,
}

impl EngineCause {
    /// For people, after "the engine ended it: ".
    pub fn words(self) -> &'static str {
        match self {
            EngineCause::Limit => "it was over a limit",
            EngineCause::Preempted => "it was preempted",
            EngineCause::Held => "it was put on hold",
            EngineCause::Evicted => "it was evicted",
            EngineCause::HostLost => "its host was lost",
            EngineCause::Removed => "it was removed there",
        }
    }
}

/// What engines end jobs by (signal(7)).
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// Of a process that writes to another, which an engine told first.
const SIGPIPE: i32 = 13;
/// As a shell, or a launcher of MPI, says by which signal ended what it waited for.
const SIGNALLED: i32 = 128;

impl Outcome {
    /// Whether an engine that takes its slot back may have brought it about, where nobody else did: it may tell all processes of a job to end,
    /// in any order.
    pub fn may_be_an_engines(&self) -> bool {
        let signal = match self {
            Outcome::Signalled { signal } => *signal,
            Outcome::Exited { status } => status.saturating_sub(SIGNALLED),
            _ => return false,
        };
        matches!(signal, SIGTERM | SIGKILL | SIGPIPE)
    }

    /// See [`NOT_BEGUN`].
    pub fn not_begun(message: String) -> Outcome {
        Outcome::NeverStarted {
            code: "attempt_not_begun".to_owned(),
            message,
        }
    }
}

/// Nobody sends stdin beyond the last `StdinTaken` (at first 0) and this many bytes; a runner can hold as many.
/// So stdin that a guest does not read never stands before a signal or a `Consumed` on the same link.
pub const STDIN_WINDOW_BYTES: u64 = 128 * 1024;

/// What a runner is told while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptCommand {
    /// A signal to the guest's process group.
    Signal {
        signal: i32,
    },
    /// SIGTERM, then SIGKILL after the grace.
    Cancel {
        grace_ms: u64,
    },
    /// A dump of the guest, if it has some, and then as `Cancel` without a grace; else as `Cancel`. Told only to a runner that has
    /// reported `Vacates`.
    Vacate {
        grace_ms: u64,
    },
    /// Bytes of stdin that begin at `offset`; what was taken before is skipped.
    Stdin {
        offset: u64,
        data: Bytes,
    },
    /// No more stdin after `offset` bytes.
    StdinEnd {
        offset: u64,
    },
    Window(WindowSize),
    /// These limits hold from now on, in the place of those that they name.
    Limits(Limits),
    /// `Flow` only: all bytes below `offset` are consumed and may be freed.
    Consumed {
        stream: OutputStream,
        offset: u64,
    },
    /// What is held may begin. Told only to a runner that has reported `Held`.
    Release,
    /// The end is recorded: the runner may go.
    Settled,
}

//! The contract that every mechanism keeps; tests/contract.rs holds each of them to it, duty by duty.

use crate::criu::Usable;
use crate::error::SandboxError;
use crate::guest::Guest;
use crate::limits::Inside;
use kumiko_policy::Policy;
use kumiko_policy::choice::Profile;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

/// A way to stand between guests and the kernel.
///
/// 1. The guest sees exactly the paths the policy shows, at the paths where it shows them; what is not listed is absent.
/// 2. Nothing shown read-only can be changed, by whatever call; what is denied cannot be opened; what is hidden cannot be
///    seen.
/// 3. The guest cannot see, signal, trace or read any process outside its room, its runner least of all.
/// 4. The guest holds no capability and can gain none (set-user-ID programs run without their rights).
/// 5. The guest cannot change its view: no mounting, no new namespaces, no way back to the host's root.
/// 6. The guest inherits three descriptors and the environment given, and nothing else of the runner's.
/// 7. When the room is killed, or the process that prepared it dies however it dies, no process of the room is left.
/// 8. Exit status and signals are the guest's own; its exit is seen as it happens.
/// 9. A terminal is one of the room's own /dev/pts and the guest's controlling one; no terminal of the host is named there.
/// 10. A room follows a policy that was changed, as far as [`Room::follow`] says: what it takes away is gone from guests that
///     run, and nothing that they did not begin with is shown.
/// 11. What the policy asks and the mechanism does not carry out stands in [`crate::Choice::not_enforced`].
/// 12. What is not executed is told by the one rule of P22 ([`SandboxError::exit_status`]).
pub trait Mechanism: Send + Sync {
    fn name(&self) -> &'static str;
    /// Checks the policy against this machine. `job_directory` appears as [`kumiko_policy::JOB_DIRECTORY`], writable.
    fn prepare(&self, policy: &Policy, job_directory: &Path)
    -> Result<Box<dyn Room>, SandboxError>;
}

/// A place for the guests of one attempt: they see each other, and no others. Dropping it kills and reaps what is left.
pub trait Room: Send {
    /// Returns when the program runs, or says why it does not.
    fn start(&mut self, launch: &Launch<'_>) -> Result<Guest, SandboxError>;
    /// The policy is this one by now: decisions that guests ask for from then on are made by it (P78), within milliseconds.
    /// Tells what they do not follow, in words. Waits for nobody's guest.
    fn follow(&mut self, now: &Policy) -> Result<Vec<String>, SandboxError>;
    /// Where the network's rate is kept by the guests themselves (P92), once one was started.
    fn inside(&self) -> Option<Inside> {
        None
    }
    /// What the mechanism has done so far. Where nobody stands by the guests, nothing is known.
    fn cost(&self) -> Cost {
        Cost::default()
    }
    /// Where it was made for that (`prepare_for_dumps`).
    fn dumps(&mut self) -> Option<&mut dyn Dumps> {
        None
    }
    /// Kills every process of the room; returns at once. Guests are then reported ended by their own `try_wait`.
    fn kill_all(&mut self);
}

/// How the guest of a room is dumped by CRIU, and goes on in another one (spec/checkpoint, K52 to K57). A room of one guest.
pub trait Dumps {
    /// CRIU begins to write the guest, and all that it started, into a directory; told is its process. Once that has exited with 0,
    /// all stand still, until [`Dumps::go_on`].
    fn dump(
        &mut self,
        criu: &Usable,
        guest: &Guest,
        images: BorrowedFd<'_>,
    ) -> Result<Guest, SandboxError>;
    /// What a dump does not hold, of a guest that stands still.
    fn still(&mut self, guest: &Guest) -> Result<Still, SandboxError>;
    fn go_on(&mut self);
    /// In place of [`Room::start`]: the guest is there again, and runs. `still`: with the highest number that a process or thread of it
    /// has. `pipes`: stand in the place of those that had these numbers (st_ino). `wait`: until that process has ended; false, it is not
    /// waited for any longer. After an error the room is of no use.
    fn restore(
        &mut self,
        criu: &Usable,
        images: BorrowedFd<'_>,
        still: (&Still, i32),
        pipes: &[(BorrowedFd<'_>, u64)],
        wait: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<bool>,
    ) -> Result<Guest, SandboxError>;
}

/// Of a guest that was dumped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Still {
    /// The guest's number in its room.
    pub number: i32,
    /// Those of all in the room; a dump holds what comes from the guest.
    pub processes: Vec<i32>,
    pub files: Vec<Open>,
    /// Why it could not go on from a dump: what would not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

/// A file below the job's own directory that is open to write to, or mapped so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    pub path: String,
    pub bytes: u64,
    /// It is some process's memory (shared, to be written to): what it holds is in no image.
    #[serde(default)]
    pub mapped: bool,
}

/// What a mechanism has done for the guests of a room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time of processors that its supervisor took.
    pub supervisor_cpu: Option<Duration>,
    /// Calls that it answered.
    pub answered: Option<u64>,
    /// The guests' work, where all of it was seen.
    pub profile: Option<Profile>,
}

/// What to start. HOME, PATH and TMPDIR are added to `environment` where it does not name them.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// A path in the guest's view (relative to `directory`), or a bare name looked up in the guest's PATH.
    pub program: &'a str,
    /// Without the program's own name.
    pub arguments: &'a [String],
    pub environment: &'a [(String, String)],
    /// In the guest's view; None: the job's own directory. Relative: below the job's own directory.
    pub directory: Option<&'a str>,
    pub streams: Streams<'a>,
}

/// What a guest's stdin, stdout and stderr are.
#[derive(Clone, Copy, Debug)]
pub enum Streams<'a> {
    Given {
        stdin: BorrowedFd<'a>,
        stdout: BorrowedFd<'a>,
        stderr: BorrowedFd<'a>,
    },
    /// One terminal of this size for all three, the room's own; [`Guest::take_terminal`] gives its other end.
    Terminal { rows: u16, columns: u16 },
}

//! Which mechanisms this machine admits, why not the others, and what each leaves open (`kumiko sandbox probe`).

use crate::machine::{Machine, Obstacle};
use kumiko_policy::MechanismKind;

/// One mechanism, here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    pub name: &'static str,
    /// Why not, and what to try.
    pub admitted: Result<(), Obstacle>,
    /// What it does not stop, or does without.
    pub leaves_open: &'static [&'static str],
}

/// Of every mechanism: limits are kept from outside of it ([`crate::kept`]).
const RATES: &str = "of a network limit: what is not TCP";

/// The same, where processes are not counted by account.
const COUNTED: &str = "where this account may make no control group: a limit of processes";

const NAMESPACE: &[&str] = &[
    RATES,
    "of a network limit: what a connection sends in its first 20 ms",
    "where the account is root, and may make no control group: a limit of processes",
];

const NOTIFY: &[&str] = &[
    RATES,
    COUNTED,
    "sizes of temporary places",
    "signals, traces and shared memory between several guests of one job fail",
    "no UNIX datagrams, no System V IPC, no message queues, no Landlock and no listeners of a guest's own",
    "a guest that changes its words while it is answered may learn what O_PATH tells of a hidden name",
    "a signal that comes before a call is looked at may break it off (EINTR)",
];

const LIBRARY: &[&str] = &[
    "a fence for guests that do not attack their own process: one that does may read, and learn of, every file that its \
     account may; what is written, made, removed or executed stays the supervisor's to allow",
    "where the account is not root: device files in shown trees that its own rights open",
    RATES,
    COUNTED,
    "sizes of temporary places",
    "signals, traces and shared memory between several guests of one job fail; no programs of 32 bits, no \
     debuggers",
    "no UNIX datagrams, no System V IPC, no message queues, no Landlock and no listeners of a guest's own",
    "a signal that comes before a call is looked at may break it off (EINTR)",
];

const PTRACE: &[&str] = &[
    RATES,
    COUNTED,
    "sizes of temporary places",
    "signals, traces and shared memory between several guests of one job fail; no debuggers, no further terminals",
    "no UNIX datagrams, no System V IPC, no message queues, no Landlock and no listeners of a guest's own",
    "a guest that changes its words while it is answered may learn what /proc tells everybody of other processes, and \
     what O_PATH tells of a hidden name",
    "a connect that waits holds up the guest's other calls",
];

/// All of them, the cheapest first.
pub fn admissions(machine: &Machine) -> Vec<Admission> {
    let all: [(MechanismKind, &'static [&'static str]); 4] = [
        (MechanismKind::Namespace, NAMESPACE),
        (MechanismKind::Library, LIBRARY),
        (MechanismKind::Notify, NOTIFY),
        (MechanismKind::Ptrace, PTRACE),
    ];
    all.into_iter()
        .map(|(kind, leaves_open)| Admission {
            name: kind.name(),
            admitted: machine.admits(kind),
            leaves_open,
        })
        .collect()
}

//! By what each limit is kept here, and what of it is not (P14, P54): for the record of a job, and for `probe`.

use kumiko_linux::limits::group::{Controller, Place};
use kumiko_policy::{Limited, Limits, MechanismKind, Network, NetworkLimiter, Policy};

/// In words, a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub by: Vec<String>,
    pub not: Vec<String>,
}

/// What becomes of the policy's limits under a mechanism, on this machine.
pub fn kept(policy: &Policy, kind: MechanismKind) -> Kept {
    let mut kept = Kept::default();
    let has = |controller| Place::find(controller).is_some();
    let inside = match policy.limiter() {
        NetworkLimiter::Outside => None,
        NetworkLimiter::Deadline => {
            Some("each call waits in the guest, until an absolute deadline")
        }
        NetworkLimiter::Paper => Some(
            "each call waits in the guest, by what was moved in the last 100 ms (the 2003 paper's formula)",
        ),
    };
    for (limited, value) in policy.limits.each() {
        let words = Limits::words(limited, value);
        let mut by = |what: &str| kept.by.push(format!("{words}: {what}"));
        match limited {
            Limited::Network if policy.network() == Network::None => {
                by("there is no network to send to");
            }
            Limited::Network if kind == MechanismKind::Library && inside.is_some() => {
                by(inside.unwrap_or_default());
                kept.not.push(format!(
                    "of the {words}: what is sent and received by other than a C library's own calls (programs without a \
                     loader, glibc from 2.41 on), and by a guest that attacks its own process"
                ));
            }
            Limited::Network => {
                by(
                    "TCP sockets paced by the kernel, the rate divided among them; the job is stopped while more comes to them",
                );
                let begin = match kind {
                    // Nobody is asked before it is connected.
                    MechanismKind::Namespace => ", what a connection sends in its first 20 ms",
                    _ => "",
                };
                kept.not
                    .push(format!("of the {words}: what is not TCP{begin}"));
            }
            Limited::Disk if has(Controller::Disk) => by(
                "the kernel's rate for a control group, of each disk; the job is stopped while it is over in all or writes through memory (/proc)",
            ),
            Limited::Disk => by("the job is stopped while it is over (block devices; /proc)"),
            Limited::Cpu if has(Controller::Cpu) => by("the kernel's quota for a control group"),
            Limited::Cpu => by("the job is stopped while it is over"),
            Limited::Memory if has(Controller::Memory) => by(
                "the kernel's bound for a control group, and looked at each 100 ms; the job ends when it is over",
            ),
            Limited::Memory => by("looked at each 100 ms; the job ends when it is over"),
            Limited::CpuTime | Limited::WallTime | Limited::Written => {
                by("the job ends when it is over");
            }
            Limited::OpenFiles => by("RLIMIT_NOFILE of each process"),
            Limited::Processes => match (kind, kumiko_linux::is_root()) {
                (MechanismKind::Namespace, false) => {
                    by("RLIMIT_NPROC in the job's own user namespace (threads count)");
                }
                _ if has(Controller::Processes) => {
                    by("pids.max of a control group (threads count)");
                }
                (_, true) => kept.not.push(format!("{words} (of the account root)")),
                _ => kept
                    .not
                    .push(format!("{words} (no user namespace of its own)")),
            },
        }
    }
    kept
}

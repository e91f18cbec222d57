//! What this kernel and this account allow.

use crate::error::SandboxError;
use kumiko_policy::MechanismKind;
use serde::{Deserialize, Serialize};
use std::io;

/// Probed once a process; see [`Machine::probe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Ok: filters of system calls are taken, which every mechanism needs.
    pub filters: Result<(), Obstacle>,
    /// Ok: a user namespace with a mount namespace can be made. Else why not, and what to look at.
    pub user_namespaces: Result<(), Obstacle>,
    /// Ok: guests can be supervised without namespaces.
    pub supervision: Result<(), Obstacle>,
    /// Not to be used, whatever the machine admits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<MechanismKind>,
}

/// What stands in the way, and what to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    pub why: String,
    pub remedy: String,
}

impl Machine {
    /// Tries it (a child process makes the namespaces and ends): about half a millisecond.
    pub fn probe() -> Machine {
        let tried = kumiko_linux::cell::try_namespaces();
        Machine {
            filters: filters(),
            user_namespaces: tried.map_err(|error| Obstacle::from_errno(&error)),
            supervision: supervision(),
            left_out: Vec::new(),
        }
    }

    /// Looks at the kernel's switches alone: what it refuses for another reason is then told by `start`. For a start that
    /// should cost next to nothing extra.
    pub fn glance() -> Machine {
        // The account root is bound by none but the number of namespaces, which `start` tells of.
        let closed = closed_switch().filter(|_| !kumiko_linux::is_root());
        let closed = closed.map(|(file, value, remedy)| Obstacle {
            why: format!("{file} is {value}"),
            remedy: remedy.to_owned(),
        });
        Machine {
            filters: filters(),
            user_namespaces: closed.map_or(Ok(()), Err),
            supervision: supervision(),
            left_out: Vec::new(),
        }
    }

    /// Learns from a start that failed. Was it news, and may another mechanism do?
    pub fn learn(&mut self, error: &SandboxError) -> bool {
        match error {
            SandboxError::UserNamespaces { why, remedy } if self.user_namespaces.is_ok() => {
                self.user_namespaces = Err(Obstacle {
                    why: why.clone(),
                    remedy: remedy.clone(),
                });
                true
            }
            _ => false,
        }
    }

    /// As a machine that does not admit this one.
    pub fn without(mut self, kind: MechanismKind) -> Machine {
        self.left_out.push(kind);
        self
    }

    /// Tries nothing: what is missing is then told by `start`. For a start that should cost nothing extra.
    pub fn assume() -> Machine {
        Machine {
            filters: Ok(()),
            user_namespaces: Ok(()),
            supervision: Ok(()),
            left_out: Vec::new(),
        }
    }

    /// The error of who asks for this mechanism where it cannot be used.
    pub(crate) fn refuses(&self, kind: MechanismKind) -> Option<SandboxError> {
        let obstacle = self.admits(kind).err()?;
        Some(match (&self.filters, kind) {
            (Ok(()), MechanismKind::Auto | MechanismKind::Namespace) => obstacle.into(),
            (_, kind) => SandboxError::Machine {
                mechanism: kind.name().to_owned(),
                why: format!("{}; {}", obstacle.why, obstacle.remedy),
            },
        })
    }

    /// Can this mechanism be used here?
    pub fn admits(&self, kind: MechanismKind) -> Result<(), Obstacle> {
        // What a library does not answer comes by a listener.
        let needs_listener = kind == MechanismKind::Library;
        let left_out = |kind| self.left_out.contains(&kind);
        if left_out(kind) || (needs_listener && left_out(MechanismKind::Notify)) {
            return Err(Obstacle::left_out());
        }
        self.filters.clone()?;
        match kind {
            MechanismKind::Notify | MechanismKind::Ptrace | MechanismKind::Library => {
                self.supervision.clone()
            }
            MechanismKind::Auto | MechanismKind::Namespace => self.user_namespaces.clone(),
        }
    }
}

fn filters() -> Result<(), Obstacle> {
    kumiko_linux::cell::takes_filters().map_err(|error| Obstacle {
        why: format!("the kernel takes no filter of system calls here: {error}"),
        remedy: match is_filtered() {
            true => INSIDE.to_owned(),
            false => "use a kernel with CONFIG_SECCOMP_FILTER".to_owned(),
        },
    })
}

/// What notify and ptrace have in common: walls by Landlock, and a supervisor that may look into its guests.
#[cfg(target_arch = "x86_64")]
fn supervision() -> Result<(), Obstacle> {
    use kumiko_linux::supervise::domain;
    let version = match domain::is_enough() {
        true => Ok(()),
        false => Err(domain::version()),
    };
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    match supervision_with(version, scope.as_deref().ok().map(str::trim)) {
        // Another kernel would not help.
        Err(Obstacle { why, .. }) if is_filtered() => Err(Obstacle {
            why,
            remedy: INSIDE.to_owned(),
        }),
        told => told,
    }
}

/// `landlock`: is there enough of it, or which version? `scope`: what Yama says, where there is Yama.
#[cfg(target_arch = "x86_64")]
fn supervision_with(landlock: Result<(), i64>, scope: Option<&str>) -> Result<(), Obstacle> {
    let obstacle = |why: String, remedy: &str| {
        Err(Obstacle {
            why,
            remedy: remedy.to_owned(),
        })
    };
    match (landlock, scope) {
        (Err(version), _) => obstacle(
            format!("Landlock {version}, and 6 is needed to keep signals in a room"),
            "use Linux 6.12 or newer with Landlock among its security modules",
        ),
        (Ok(()), Some(scope)) if scope != "0" => obstacle(
            format!("/proc/sys/kernel/yama/ptrace_scope is {scope}"),
            "ask the administrator for `sysctl kernel.yama.ptrace_scope=0`",
        ),
        (Ok(()), _) => Ok(()),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn supervision() -> Result<(), Obstacle> {
    Err(Obstacle {
        why: "not written for this processor yet".to_owned(),
        remedy: "use the mechanism namespace".to_owned(),
    })
}

/// What can be had in a guest (spec/policy, P93).
const INSIDE: &str = "a filter of system calls is in force here, so this is in a sandbox (or a container) already: within \
                      namespace there can be notify, ptrace and library; within notify, ptrace and library there is none";

/// Is there a filter that this process did not choose, and cannot take off (seccomp(2))?
fn is_filtered() -> bool {
    const FILTERED: &str = "2";
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == FILTERED)
}

/// Switches that keep accounts from making user namespaces: (file, value that does so, what to try).
const SWITCHES: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "ask the administrator for `sysctl kernel.unprivileged_userns_clone=1`",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "ask the administrator for an AppArmor profile with `userns,` for kumiko-run, or for \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "ask the administrator for `sysctl user.max_user_namespaces=10000`",
    ),
];

/// The first of them that keeps this account from making user namespaces, as it stands.
fn closed_switch() -> Option<(&'static str, &'static str, &'static str)> {
    let mut all = SWITCHES.into_iter();
    all.find(|(file, closed, _)| {
        std::fs::read_to_string(file).is_ok_and(|value| value.trim() == *closed)
    })
}

impl Obstacle {
    fn left_out() -> Obstacle {
        Obstacle {
            why: "it was left out".to_owned(),
            remedy: "name another mechanism, or leave none out".to_owned(),
        }
    }

    /// Why the kernel refused, as far as its switches tell.
    pub(crate) fn from_errno(error: &io::Error) -> Obstacle {
        if let Some((file, closed, remedy)) = closed_switch() {
            return Obstacle {
                why: format!("{error}; {file} is {closed}"),
                remedy: remedy.to_owned(),
            };
        }
        if is_filtered() {
            return Obstacle {
                why: error.to_string(),
                remedy: INSIDE.to_owned(),
            };
        }
        let remedy = "look whether this is a container or a chroot whose own rules forbid it, or whether \
                      /proc/sys/user/max_user_namespaces is reached";
        Obstacle {
            why: error.to_string(),
            remedy: remedy.to_owned(),
        }
    }
}

impl From<Obstacle> for SandboxError {
    fn from(obstacle: Obstacle) -> SandboxError {
        SandboxError::UserNamespaces {
            why: obstacle.why,
            remedy: obstacle.remedy,
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn without_a_wall_behind_it_a_supervisor_is_not_admitted() {
        let check = |landlock, scope, expected: Option<&str>| {
            let why = supervision_with(landlock, scope)
                .err()
                .map(|obstacle| obstacle.why);
            assert_eq!(why.as_deref(), expected);
        };
        check(Ok(()), None, None);
        check(Ok(()), Some("0"), None);
        let none = "Landlock 0, and 6 is needed to keep signals in a room";
        check(Err(0), None, Some(none));
        let older = "Landlock 5, and 6 is needed to keep signals in a room";
        check(Err(5), Some("1"), Some(older));
        let scope = "/proc/sys/kernel/yama/ptrace_scope is 1";
        check(Ok(()), Some("1"), Some(scope));
    }
}

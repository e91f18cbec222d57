//! What this kernel and this account allow.

use crate::error::SandboxError;
use kumiko_policy::MechanismKind;
use serde::{Deserialize, Serialize};
use std::io;

/// Probed once a process; see [`Machine::probe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Ok: a user namespace with a mount namespace can be made. Else why not, and what to look at.
    pub user_namespaces: Result<(), Obstacle>,
    /// Ok: guests can be supervised without namespaces.
    pub supervision: Result<(), Obstacle>,
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
            user_namespaces: tried.map_err(|error| Obstacle::from_errno(&error)),
            supervision: supervision(),
        }
    }

    /// Tries nothing: what is missing is then told by `start`. For a start that should cost nothing extra.
    pub fn assume() -> Machine {
        Machine {
            user_namespaces: Ok(()),
            supervision: Ok(()),
        }
    }

    /// Can this mechanism be used here?
    pub fn admits(&self, kind: MechanismKind) -> Result<(), Obstacle> {
        match kind {
            MechanismKind::Notify | MechanismKind::Ptrace | MechanismKind::Library => {
                self.supervision.clone()
            }
            MechanismKind::Auto | MechanismKind::Namespace => self.user_namespaces.clone(),
        }
    }
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
    supervision_with(version, scope.as_deref().ok().map(str::trim))
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

impl Obstacle {
    /// Why the kernel refused, as far as its switches tell.
    pub(crate) fn from_errno(error: &io::Error) -> Obstacle {
        for (file, closed, remedy) in SWITCHES {
            if std::fs::read_to_string(file).is_ok_and(|value| value.trim() == closed) {
                return Obstacle {
                    why: format!("{error}; {file} is {closed}"),
                    remedy: remedy.to_owned(),
                };
            }
        }
        let remedy = "look whether this is a container or a chroot whose own rules forbid it, or whether \
                      /proc/sys/user/max_user_namespaces is reached";
        Obstacle {
            why: error.to_string(),
            remedy: remedy.to_owned(),
        }
    }
}

impl Obstacle {
    /// As the error of who asked for this mechanism.
    pub(crate) fn of(self, kind: MechanismKind) -> SandboxError {
        match kind {
            MechanismKind::Auto | MechanismKind::Namespace => self.into(),
            kind => SandboxError::Machine {
                mechanism: kind.name().to_owned(),
                why: format!("{}; {}", self.why, self.remedy),
            },
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

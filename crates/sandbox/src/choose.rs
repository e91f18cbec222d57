//! Which mechanism carries out a policy, and why not another.

use crate::contract::Mechanism;
use crate::error::SandboxError;
use crate::machine::Machine;
use crate::namespace::Namespace;
#[cfg(target_arch = "x86_64")]
use crate::supervised::{By, Supervised};
use kumiko_policy::{Access, MechanismKind, Network, Policy};

/// The mechanism chosen, what of the policy it does not carry out, and why the others were not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub mechanism: &'static str,
    pub not_enforced: Vec<String>,
    /// (mechanism, reason).
    pub why_not: Vec<(String, String)>,
}

/// From the cheapest for the guest to the dearest. `library` is none of them: it is no wall, and taken where it is asked
/// for alone.
const BY_COST: [MechanismKind; 3] = [
    MechanismKind::Namespace,
    MechanismKind::Notify,
    MechanismKind::Ptrace,
];

/// `wanted` goes over what the policy's `type` says; "auto" and None leave it to the policy.
pub fn choose(
    policy: &Policy,
    wanted: Option<&str>,
    machine: &Machine,
) -> Result<Choice, SandboxError> {
    let kind = match wanted {
        None => policy.mechanism,
        Some(name) => match MechanismKind::from_name(name) {
            None => {
                return Err(SandboxError::NoSuchMechanism {
                    name: name.to_owned(),
                });
            }
            Some(MechanismKind::Auto) => policy.mechanism,
            Some(kind) => kind,
        },
    };
    let kind = match kind {
        MechanismKind::Auto => {
            let admitted = BY_COST
                .into_iter()
                .find(|kind| carries_out(policy, *kind) && machine.admits(*kind).is_ok());
            // None at all: told is what stands in the way of the best.
            admitted.unwrap_or(MechanismKind::Namespace)
        }
        kind => kind,
    };
    if let Err(obstacle) = machine.admits(kind) {
        return Err(obstacle.of(kind));
    }
    if !carries_out(policy, kind) {
        return Err(SandboxError::Addresses {
            mechanism: kind.name(),
        });
    }
    let not_enforced = not_enforced(policy, kind);
    if policy.strict && !not_enforced.is_empty() {
        return Err(SandboxError::Strict {
            mechanism: kind.name().to_owned(),
            what: not_enforced,
        });
    }
    Ok(Choice {
        mechanism: kind.name(),
        not_enforced,
        why_not: why_not(policy, kind, machine),
    })
}

fn not_enforced(policy: &Policy, kind: MechanismKind) -> Vec<String> {
    let mut what = crate::limits::kept(policy, kind).not;
    if kind == MechanismKind::Namespace {
        return what;
    }
    let sized = policy.paths.iter().filter_map(|rule| match rule.access {
        Access::Temporary {
            size_mib: Some(size),
        } => Some((&rule.path, size)),
        _ => None,
    });
    what.extend(sized.map(|(path, size)| format!("size of {size} MiB of the temporary {path}")));
    if kind == MechanismKind::Library {
        what.push("reading, against a guest that attacks its own process".to_owned());
    }
    if policy.network() == Network::None {
        what.push("a loopback of its own (there is no network at all)".to_owned());
    }
    what
}

/// What a policy asks for, and is not to run without, this mechanism has: a network namespace knows no addresses.
pub(crate) fn carries_out(policy: &Policy, kind: MechanismKind) -> bool {
    let addresses = policy.network() == Network::Host && !policy.reach.is_empty();
    !(addresses && kind == MechanismKind::Namespace)
}

fn why_not(policy: &Policy, chosen: MechanismKind, machine: &Machine) -> Vec<(String, String)> {
    let others = [
        MechanismKind::Namespace,
        MechanismKind::Library,
        MechanismKind::Notify,
        MechanismKind::Ptrace,
    ];
    let others = others.into_iter().filter(|kind| *kind != chosen);
    others
        .map(|kind| {
            let reason = match (kind, machine.admits(kind)) {
                (_, Err(obstacle)) => obstacle.why,
                (kind, Ok(())) if !carries_out(policy, kind) => {
                    "does not hold guests to addresses".to_owned()
                }
                (MechanismKind::Library, _) => {
                    "a fence, no wall: taken where it is asked for".to_owned()
                }
                (_, Ok(())) => {
                    let at = |kind| BY_COST.iter().position(|other| *other == kind);
                    match at(kind) > at(chosen) {
                        true => "slower for the guest".to_owned(),
                        false => "another was asked for".to_owned(),
                    }
                }
            };
            (kind.name().to_owned(), reason)
        })
        .collect()
}

/// The mechanism of a choice.
pub fn open(choice: &Choice) -> Box<dyn Mechanism> {
    match choice.mechanism {
        #[cfg(target_arch = "x86_64")]
        "notify" => Box::new(Supervised(By::Listener)),
        #[cfg(target_arch = "x86_64")]
        "ptrace" => Box::new(Supervised(By::Tracer)),
        #[cfg(target_arch = "x86_64")]
        "library" => Box::new(Supervised(By::Library)),
        _ => Box::new(Namespace),
    }
}

//! Which mechanism carries out a policy. With one built, the choice is short; the reasons are said all the same.

use crate::contract::Mechanism;
use crate::error::SandboxError;
use crate::machine::Machine;
use crate::namespace::Namespace;
use kumiko_policy::{MechanismKind, Policy};

/// The mechanism chosen, what of the policy it does not carry out, and why the others were not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub mechanism: &'static str,
    pub not_enforced: Vec<String>,
    /// (mechanism, reason).
    pub why_not: Vec<(String, String)>,
}

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
    if !matches!(kind, MechanismKind::Auto | MechanismKind::Namespace) {
        return Err(SandboxError::NotBuilt {
            name: kind.name().to_owned(),
        });
    }
    if let Err(obstacle) = &machine.user_namespaces {
        return Err(SandboxError::UserNamespaces {
            why: obstacle.why.clone(),
            remedy: obstacle.remedy.clone(),
        });
    }
    let not_enforced = policy.limits.in_words();
    if policy.strict && !not_enforced.is_empty() {
        return Err(SandboxError::Strict {
            mechanism: "namespace".to_owned(),
            what: not_enforced,
        });
    }
    let why_not = ["library", "notify", "ptrace"]
        .map(|name| (name.to_owned(), "not built yet".to_owned()))
        .to_vec();
    Ok(Choice {
        mechanism: "namespace",
        not_enforced,
        why_not,
    })
}

/// The mechanism of a choice.
pub fn open(choice: &Choice) -> Box<dyn Mechanism> {
    let Choice { mechanism: _, .. } = choice; // there is one
    Box::new(Namespace)
}

//! Which mechanism carries out a policy, and why not another.

use crate::contract::Mechanism;
use crate::error::SandboxError;
use crate::machine::Machine;
use crate::namespace::Namespace;
use crate::profile::{Evidence, Nothing};
#[cfg(target_arch = "x86_64")]
use crate::supervised::{By, Supervised};
use kumiko_policy::choice::{
    self, Calibration, Candidate, Costs, Hindrance, Known, Profile, Requirement, Row,
};
use kumiko_policy::{Access, MechanismKind, Network, NetworkLimiter, Policy};

/// The mechanism chosen, what of the policy it does not carry out, and why the others were not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub mechanism: &'static str,
    pub not_enforced: Vec<String>,
    /// (mechanism, reason).
    pub why_not: Vec<(String, String)>,
    /// Where it was left to us, and more than one could have been taken.
    pub predicted: Option<Predicted>,
}

/// What the choice was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// What the mechanism was predicted to cost the program, over the kernel alone.
    pub overhead_us: u64,
    pub known: Known,
    /// By what was measured on this machine, and not by the defaults.
    pub measured: bool,
}

const ALL: [MechanismKind; 4] = [
    MechanismKind::Namespace,
    MechanismKind::Library,
    MechanismKind::Notify,
    MechanismKind::Ptrace,
];

/// As [`choose_by`], with nothing known of machine and program.
pub fn choose(
    policy: &Policy,
    wanted: Option<&str>,
    machine: &Machine,
) -> Result<Choice, SandboxError> {
    choose_by(policy, wanted, machine, &Nothing)
}

/// `wanted` goes over what the policy's `type` says; "auto" and None leave it to the policy. Where that leaves it to us,
/// the admissible mechanism with the least predicted overhead is taken.
pub fn choose_by(
    policy: &Policy,
    wanted: Option<&str>,
    machine: &Machine,
    evidence: &dyn Evidence,
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
    let (mut predicted, mut rows) = (None, Vec::new());
    let kind = match kind {
        MechanismKind::Auto => {
            let calibration = evidence.calibration();
            let profile = match is_plain(policy, machine, &calibration) {
                true => Nothing.profile(),
                false => evidence.profile(),
            };
            rows = rows_of(policy, machine, &profile, &calibration);
            let pick = rows.first().filter(|row| row.is_admissible());
            predicted = pick.map(|row| Predicted {
                overhead_us: row.overhead_us,
                known: profile.known,
                measured: !calibration.is_default(),
            });
            // None at all: told is what stands in the way of the best.
            pick.map_or(MechanismKind::Namespace, |row| row.mechanism)
        }
        kind => kind,
    };
    if let Some(error) = machine.refuses(kind) {
        return Err(error);
    }
    if !carries_out(policy, kind) {
        return Err(SandboxError::Addresses {
            mechanism: kind.name(),
        });
    }
    if !limits_as_asked(policy, kind) {
        return Err(SandboxError::Limiter {
            mechanism: kind.name(),
            limiter: policy.limiter().name(),
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
        why_not: why_not(policy, kind, machine, &rows),
        predicted,
    })
}

/// Every mechanism for a policy and a program on a machine: the admissible ones first, the cheapest of them at the top.
pub fn table(policy: &Policy, machine: &Machine, evidence: &dyn Evidence) -> Vec<Row> {
    rows_of(
        policy,
        machine,
        &evidence.profile(),
        &evidence.calibration(),
    )
}

fn rows_of(
    policy: &Policy,
    machine: &Machine,
    profile: &Profile,
    calibration: &Calibration,
) -> Vec<Row> {
    let candidates = ALL.map(|kind| Candidate {
        kind,
        hindrances: hindrances(policy, kind, machine),
    });
    choice::table(&candidates, profile, calibration)
}

/// Is the pick the same whatever the program does? Then nobody need look at it.
fn is_plain(policy: &Policy, machine: &Machine, calibration: &Calibration) -> bool {
    let admissible = ALL
        .into_iter()
        .filter(|kind| hindrances(policy, *kind, machine).is_empty());
    let costs: Vec<_> = admissible.map(|kind| calibration.costs(kind)).collect();
    let least = |one: &Costs| costs.iter().all(|other| one.at_most(other));
    costs.iter().any(least)
}

/// What of the policy, or of the machine, a mechanism does not meet.
fn hindrances(policy: &Policy, kind: MechanismKind, machine: &Machine) -> Vec<Hindrance> {
    let lacks = |requirement, why: String| Hindrance { requirement, why };
    let obstacle = machine.admits(kind).err();
    let strict = match policy.strict {
        true => not_enforced(policy, kind),
        false => Vec::new(),
    };
    let fence = kind == MechanismKind::Library && policy.complete();
    let all = [
        obstacle.map(|obstacle| lacks(Requirement::Machine, obstacle.why)),
        fence.then(|| {
            let why = "a fence, no wall: taken where it is asked for, or where a fence will do";
            lacks(Requirement::Complete, why.to_owned())
        }),
        (!carries_out(policy, kind)).then(|| {
            lacks(
                Requirement::Addresses,
                "does not hold guests to addresses".to_owned(),
            )
        }),
        (!limits_as_asked(policy, kind)).then(|| {
            let limiter = policy.limiter().name();
            lacks(
                Requirement::Limiter,
                format!("does not have the limiter \"{limiter}\""),
            )
        }),
        (!strict.is_empty()).then(|| {
            let why = format!(
                "the policy is strict, and it leaves open: {}",
                strict.join("; ")
            );
            lacks(Requirement::Strict, why)
        }),
    ];
    all.into_iter().flatten().collect()
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
    !(policy.has_address_rules() && kind == MechanismKind::Namespace)
}

/// The library alone keeps a rate in the guest.
fn limits_as_asked(policy: &Policy, kind: MechanismKind) -> bool {
    kind == MechanismKind::Library || policy.limiter() == NetworkLimiter::Outside
}

fn why_not(
    policy: &Policy,
    chosen: MechanismKind,
    machine: &Machine,
    rows: &[Row],
) -> Vec<(String, String)> {
    let others = ALL.into_iter().filter(|kind| *kind != chosen);
    others
        .map(|kind| {
            let row = rows.iter().find(|row| row.mechanism == kind);
            let hindrances = hindrances(policy, kind, machine);
            let reason = match (hindrances.into_iter().next(), row) {
                (Some(hindrance), _) => hindrance.why,
                (None, Some(row)) => format!("predicted to cost {}", in_ms(row.overhead_us)),
                (None, None) => "another was asked for".to_owned(),
            };
            (kind.name().to_owned(), reason)
        })
        .collect()
}

/// For people.
pub(crate) fn in_ms(us: u64) -> String {
    format!("{}.{} ms", us / 1_000, us % 1_000 / 100)
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

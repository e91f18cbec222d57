//! Laying a lower policy over a higher one (P6 to P8). The lower one's real paths are paths of the view that the higher
//! one gives, so that nothing can be reached through it that could not be reached without it.

use crate::error::NarrowError;
use crate::path::GuestPath;
use crate::reach::{MAX_ADDRESSES, Reach};
use crate::types::{
    Access, MAX_RULES, MechanismKind, Network, NetworkLimiter, Origin, Policy, Real, Rule,
};
use std::collections::BTreeMap;

/// The default policy as a site's owner changes it: they may show any path of the host, and their rules take the place of
/// the default's at and below their paths.
pub(crate) fn over_default(default: &Policy, site: &Policy) -> Result<Policy, NarrowError> {
    // What is no path is narrowed as everywhere: the default gives all of it.
    let mut changed = narrow(
        default,
        &Policy {
            paths: Vec::new(),
            limiter: None,
            ..site.clone()
        },
    )?;
    if site.complete.is_some() {
        changed.complete = site.complete;
        take_origin(&mut changed.origins, site, "complete");
    }
    if site.dump.is_some() {
        changed.dump = site.dump;
        take_origin(&mut changed.origins, site, "dump");
    }
    if site.limiter.is_some() {
        changed.limiter = site.limiter;
        take_origin(&mut changed.origins, site, "limiter");
    }
    for rule in &site.paths {
        changed
            .paths
            .retain(|old| old.path.below(&rule.path).is_none());
    }
    changed.paths.extend(site.paths.iter().cloned());
    changed.paths.sort_by(|a, b| a.path.cmp(&b.path));
    match changed.paths.len() > MAX_RULES {
        true => Err(NarrowError::TooManyRules),
        false => Ok(changed),
    }
}

/// The policy under which both hold: `base` (complete, such as the default or a site's) narrowed by `below`.
///
/// # Errors
/// What `below` asks for and `base` does not give; limits are never an error, the lower one holds.
pub fn narrow(base: &Policy, below: &Policy) -> Result<Policy, NarrowError> {
    let mut paths = base.paths.clone();
    for rule in &below.paths {
        let laid = lay(base, rule)?;
        // What `base` has at and below the path gives way; what it has where the new rule leads comes along.
        paths.retain(|old| old.path.below(&rule.path).is_none());
        paths.extend(laid);
    }
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    if paths.len() > MAX_RULES {
        return Err(NarrowError::TooManyRules);
    }
    let network = match (base.network, below.network) {
        (Some(Network::None), Some(Network::Host)) => return Err(NarrowError::Network),
        (above, asked) => asked.or(above),
    };
    let reach: Vec<Reach> = base.reach.iter().chain(&below.reach).cloned().collect();
    if addresses(&reach) > MAX_ADDRESSES {
        return Err(NarrowError::TooManyAddresses);
    }
    let further_processes = match (base.further_processes, below.further_processes) {
        (Some(false), Some(true)) => return Err(NarrowError::FurtherProcesses),
        (above, asked) => asked.or(above),
    };
    let mut origins = base.origins.clone();
    let mut limits = base.limits.clone();
    for (limited, asked) in below.limits.each() {
        // What asks for as much or more changes nothing, and is not where the limit comes from.
        if limits.get(limited).is_none_or(|above| asked < above) {
            limits.set(limited, Some(asked));
            take_origin(&mut origins, below, &limited.full_key());
        }
    }
    let mechanism = mechanism(base.mechanism, below.mechanism)?;
    // A wall stays once it is asked for, and it is where nobody says otherwise: asking for less changes nothing.
    let complete = match (base.complete, below.complete) {
        (above, Some(false) | None) => above,
        (_, Some(true)) => Some(true),
    };
    let limiter = limiter(base, below)?;
    // So with the filter: only a site gives it up, and it is back once it is asked for.
    let dump = match (base.dump, below.dump) {
        (above, Some(true) | None) => above,
        (_, Some(false)) => Some(false),
    };
    for (key, changed) in [
        ("mechanism", mechanism != base.mechanism),
        ("network", network != base.network),
        (
            "further_processes",
            further_processes != base.further_processes,
        ),
        ("strict", below.strict && !base.strict),
        ("complete", complete != base.complete),
        ("limiter", limiter != base.limiter),
        ("dump", dump != base.dump),
    ] {
        if changed {
            take_origin(&mut origins, below, key);
        }
    }
    Ok(Policy {
        mechanism,
        paths,
        network,
        reach,
        further_processes,
        limits,
        strict: base.strict || below.strict,
        complete,
        limiter,
        dump,
        vo: below.vo.clone().or_else(|| base.vo.clone()),
        origins,
        layers: base.layers.iter().chain(&below.layers).cloned().collect(),
    })
}

pub(crate) fn take_origin(origins: &mut BTreeMap<String, Origin>, below: &Policy, key: &str) {
    if let Some(origin) = below.origins.get(key) {
        origins.insert(key.to_owned(), origin.clone());
    }
}

fn addresses(reach: &[Reach]) -> usize {
    let of = |layer: &Reach| layer.deny.len() + layer.allow.as_ref().map_or(0, Vec::len);
    reach.iter().map(of).sum()
}

/// All mechanisms but the library are walls, and one wall may stand for another.
fn mechanism(above: MechanismKind, asked: MechanismKind) -> Result<MechanismKind, NarrowError> {
    match (above, asked) {
        (above, MechanismKind::Auto) => Ok(above),
        (MechanismKind::Auto | MechanismKind::Library, asked) => Ok(asked),
        (above, MechanismKind::Library) => Err(NarrowError::Mechanism {
            above: above.name(),
        }),
        (_, asked) => Ok(asked),
    }
}

/// What stands in the guest is a fence: a lower policy may only have it taken away.
fn limiter(base: &Policy, below: &Policy) -> Result<Option<NetworkLimiter>, NarrowError> {
    match below.limiter {
        None => Ok(base.limiter),
        Some(asked) if asked == NetworkLimiter::Outside || asked == base.limiter() => {
            Ok(Some(asked))
        }
        Some(asked) => Err(NarrowError::Limiter {
            asked: asked.name(),
            above: base.limiter().name(),
        }),
    }
}

/// One rule of the lower policy, and what the higher one has below the place that it shows.
fn lay(base: &Policy, rule: &Rule) -> Result<Vec<Rule>, NarrowError> {
    let (asked, optional, write) = match &rule.access {
        Access::Read { real, optional } => (real, *optional, false),
        Access::Write { real, optional } => (real, *optional, true),
        Access::Denied | Access::Hidden | Access::Temporary { .. } => {
            return Ok(vec![Rule {
                execute: rule.execute && executes(base, &rule.path),
                ..rule.clone()
            }]);
        }
    };
    let asked = in_view(asked);
    let origin = || rule.origin.to_string();
    let not_visible = || NarrowError::NotVisible {
        path: rule.path.clone(),
        real: asked.clone(),
        origin: origin(),
    };
    let given = base.explain(&asked);
    let access = match given.seen {
        crate::Seen::Shown {
            writable: false, ..
        } if write => {
            return Err(NarrowError::NotWritable {
                path: rule.path.clone(),
                real: asked,
                origin: origin(),
            });
        }
        crate::Seen::Shown { real, .. } if write => Access::Write { real, optional },
        crate::Seen::Shown { real, .. } => Access::Read { real, optional },
        crate::Seen::Temporary => {
            return Err(NarrowError::Temporary {
                path: rule.path.clone(),
                real: asked,
                origin: origin(),
            });
        }
        _ => return Err(not_visible()),
    };
    let mut laid = vec![Rule {
        path: rule.path.clone(),
        access,
        execute: rule.execute && given.execute,
        origin: rule.origin.clone(),
    }];
    for above in base.paths.iter().filter(|above| above.path != asked) {
        let Some(rest) = above.path.below(&asked) else {
            continue;
        };
        let access = match &above.access {
            Access::Write { real, optional } if !write => Access::Read {
                real: real.clone(),
                optional: *optional,
            },
            other => other.clone(),
        };
        let path = rule.path.join(rest);
        let is_file = matches!(access, Access::Read { .. } | Access::Write { .. });
        laid.push(Rule {
            execute: rule.execute && above.execute && (is_file || executes(base, &path)),
            path,
            access,
            origin: above.origin.clone(),
        });
    }
    Ok(laid)
}

/// May what lies there, and what any rule has below it, be executed? So may what is made in a place of nobody's there.
fn executes(base: &Policy, path: &GuestPath) -> bool {
    let mut below = base
        .paths
        .iter()
        .filter(|above| above.path.below(path).is_some());
    base.explain(path).execute && below.all(|above| above.execute)
}

/// What a policy's text calls a real path is, for a lower policy, a path of the view above it.
fn in_view(real: &Real) -> GuestPath {
    match real {
        Real::Host { root, beneath } => root.join(beneath),
        Real::Job { beneath } => GuestPath::root()
            .join(&crate::JOB_DIRECTORY[1..])
            .join(beneath),
    }
}

//! What becomes of a running guest's view and addresses when the policies change (P78): its paths are narrowed to what both
//! the policy that it began with and the one that holds now show, its addresses are those of now. Pure.
//! Not here: how a mechanism brings that about (kumiko-sandbox).

use crate::explain::Seen;
use crate::path::GuestPath;
use crate::reach::Reach;
use crate::types::{Access, MechanismKind, Network, Origin, Policy, Real};
use std::collections::BTreeSet;

/// What holds at a path and below it, up to the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// As the guest began.
    AsBegun,
    /// As it began, but not to be written to any more.
    ReadOnly,
    /// As it began, but not to be executed any more.
    NotExecuted,
    /// Neither written to nor executed any more.
    ReadAlone,
    /// There, and cannot be opened.
    Denied,
    /// An empty directory or file.
    Hidden,
}

impl Now {
    pub fn is_closed(self) -> bool {
        matches!(self, Now::Denied | Now::Hidden)
    }

    /// May what could be written to be written to?
    pub fn writes(self) -> bool {
        matches!(self, Now::AsBegun | Now::NotExecuted)
    }

    /// May what could be executed be executed?
    pub fn executes(self) -> bool {
        matches!(self, Now::AsBegun | Now::ReadOnly)
    }
}

/// What is other by now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// By path, those above before those below.
    pub paths: Vec<(GuestPath, Now)>,
    /// The address rules, all of them.
    pub reach: Vec<Reach>,
    /// What no running guest follows, whatever the mechanism, in words; [`unfollowed`] has what one of them does not.
    pub not: Vec<String>,
}

impl Followed {
    /// What holds at a path.
    pub fn at(&self, path: &GuestPath) -> Now {
        let above = self
            .paths
            .iter()
            .filter(|(at, _)| path.below(at).is_some())
            .max_by_key(|(at, _)| at.as_str().len());
        above.map_or(Now::AsBegun, |(_, now)| *now)
    }
}

/// From the policy that a guest began with, and the one that holds now.
pub fn follow(began: &Policy, now: &Policy) -> Followed {
    let mut paths: Vec<(GuestPath, Now)> = Vec::new();
    for path in places(began, now) {
        let (holds, is_begun) = (at(began, now, &path), is_begun(began, &path));
        let above = paths
            .iter()
            .rev()
            .find(|(above, _)| path.below(above).is_some());
        let above = above.map_or(Now::AsBegun, |(_, now)| *now);
        // A rule that it began with is something of its own below a closed path, and closed by itself.
        if holds != above || (is_begun && holds != Now::AsBegun) {
            paths.push((path, holds));
        }
    }
    Followed {
        paths,
        reach: reach(now),
        not: not_followed(began, now),
    }
}

fn is_begun(began: &Policy, path: &GuestPath) -> bool {
    began.paths.iter().any(|rule| rule.path == *path)
}

/// Where what holds may begin to be another: at the rules of both, and where what the new ones speak of is shown.
fn places(began: &Policy, now: &Policy) -> BTreeSet<GuestPath> {
    let rules = began.paths.iter().chain(&now.paths);
    let mut places: BTreeSet<GuestPath> = rules.map(|rule| rule.path.clone()).collect();
    let mut images = Vec::new();
    for rule in &now.paths {
        images.extend(host(&rule.access));
        // The file of that name in the tree that the rule lies over.
        let above = now
            .paths
            .iter()
            .filter(|above| above.path != rule.path && rule.path.below(&above.path).is_some())
            .max_by_key(|above| above.path.as_str().len());
        if let Some(above) = above {
            let rest = rule.path.below(&above.path).unwrap_or_default();
            images.extend(host(&above.access).map(|real| real.join(rest)));
        }
    }
    for rule in &began.paths {
        let Some(real) = host(&rule.access) else {
            continue;
        };
        let below = images.iter().filter_map(|image| image.below(&real));
        places.extend(below.map(|rest| rule.path.join(rest)));
    }
    places
}

/// The path of the host that is shown.
fn host(access: &Access) -> Option<GuestPath> {
    match access {
        Access::Read { real, .. } | Access::Write { real, .. } => host_path(real),
        Access::Denied | Access::Hidden | Access::Temporary { .. } => None,
    }
}

fn host_path(real: &Real) -> Option<GuestPath> {
    match real {
        Real::Host { root, beneath } => Some(root.join(beneath)),
        Real::Job { .. } => None,
    }
}

fn at(began: &Policy, now: &Policy, path: &GuestPath) -> Now {
    let begun = began.explain(path);
    let (real, writable) = match begun.seen {
        Seen::Shown { real, writable } => (Some(real), writable),
        Seen::Temporary => (None, true),
        // Nothing to be narrowed.
        Seen::Denied | Seen::Hidden | Seen::Absent | Seen::Made => return Now::AsBegun,
    };
    let given = now.explain(path);
    let rights = |writable| Rights {
        writable,
        execute: given.execute,
    };
    let shown = match (given.seen, &real) {
        (Seen::Denied, _) => return Now::Denied,
        (Seen::Hidden, _) => return Now::Hidden,
        // The job's own, or nobody's.
        (_, None | Some(Real::Job { .. })) => Some(rights(true)),
        (Seen::Shown { real, writable }, Some(begun)) if real.is_same(begun) => {
            Some(rights(writable))
        }
        (_, Some(begun)) => elsewhere(now, begun),
    };
    let Some(shown) = shown else {
        return Now::Hidden;
    };
    match (writable && !shown.writable, begun.execute && !shown.execute) {
        (false, false) => Now::AsBegun,
        (true, false) => Now::ReadOnly,
        (false, true) => Now::NotExecuted,
        (true, true) => Now::ReadAlone,
    }
}

struct Rights {
    writable: bool,
    execute: bool,
}

/// Is the file shown by any name, writable by one, and executed by one? What its own name is was for the job to say.
fn elsewhere(now: &Policy, real: &Real) -> Option<Rights> {
    let path = host_path(real)?;
    let names = now.paths.iter().filter_map(|rule| {
        let rest = path.below(&host(&rule.access)?)?.to_owned();
        let decision = now.explain(&rule.path.join(&rest));
        match decision.seen {
            Seen::Shown {
                real: shown,
                writable,
            } if shown.is_same(real) => Some(Rights {
                writable,
                execute: decision.execute,
            }),
            _ => None,
        }
    });
    names.reduce(|one, other| Rights {
        writable: one.writable || other.writable,
        execute: one.execute || other.execute,
    })
}

fn reach(now: &Policy) -> Vec<Reach> {
    if now.network() == Network::Host {
        return now.reach.clone();
    }
    vec![Reach {
        allow: Some(Vec::new()),
        deny: Vec::new(),
        origin: Origin {
            source: "no network any more".to_owned(),
            line: 0,
        },
        lines: std::collections::BTreeMap::new(),
    }]
}

fn not_followed(began: &Policy, now: &Policy) -> Vec<String> {
    let network = began.network() == Network::None && now.network() == Network::Host;
    let processes = began.further_processes() != now.further_processes();
    let strict = now.strict && !began.strict;
    let all = [
        network.then_some("the network of the host: the guest began without"),
        processes.then_some("whether there are further processes"),
        strict.then_some("strict"),
        (began.limiter() != now.limiter()).then_some("who keeps the network's rate"),
    ];
    all.into_iter().flatten().map(str::to_owned).collect()
}

/// What a guest that runs under this mechanism does not follow, in words.
pub fn unfollowed(began: &Policy, now: &Policy, mechanism: MechanismKind) -> Vec<String> {
    let mut not = not_followed(began, now);
    let addresses = began.network() == Network::Host && !reach(now).is_empty();
    if addresses && mechanism == MechanismKind::Namespace {
        not.push("network and addresses".to_owned());
    } else if addresses && began.reach.is_empty() {
        // Its filter does not ask about them.
        not.push("addresses, of datagrams that are sent without connecting".to_owned());
    }
    not
}

/// The policy that an attempt begins with of which `planned` was written down before, when `now` holds: its network is the
/// one of now, which no mechanism could follow as well later.
pub fn begin(planned: Policy, now: &Policy) -> Policy {
    match planned.network() {
        Network::None => planned,
        Network::Host => Policy {
            network: now.network,
            reach: now.reach.clone(),
            ..planned
        },
    }
}

impl Policy {
    /// Does it say something of the network that is a mechanism's to hold guests to?
    pub fn has_address_rules(&self) -> bool {
        self.network() == Network::Host && !self.reach.is_empty()
    }
}

//! What a policy decides for a path, and why (`kumiko sandbox check`). Lexical: symbolic links the guest may follow are
//! not looked at, so ask for the path they lead to.

use crate::JOB_DIRECTORY;
use crate::path::GuestPath;
use crate::types::{Access, Origin, Policy, Real, Rule};

/// The decision for one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub seen: Seen,
    /// May what is shown there be executed (P23)?
    pub execute: bool,
    /// The path of the rule that decided.
    pub by: GuestPath,
    pub origin: Origin,
}

/// What the guest finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// This real path. `writable`: as far as the account may.
    Shown {
        real: Real,
        writable: bool,
    },
    Temporary,
    Denied,
    Hidden,
    /// No rule covers it.
    Absent,
    /// Made by the sandbox for each guest: /proc, /dev (P10).
    Made,
}

impl Policy {
    /// The rule with the longest path that covers `path` (P5).
    pub fn rule_for(&self, path: &GuestPath) -> Option<&Rule> {
        self.paths
            .iter()
            .filter(|rule| path.below(&rule.path).is_some())
            .max_by_key(|rule| rule.path.as_str().len())
    }

    pub fn explain(&self, path: &GuestPath) -> Decision {
        let rule = self.rule_for(path);
        // "/" covers all that has no rule of its own, but never what every guest has.
        let built_in = built_in(path)
            .filter(|made| rule.is_none_or(|rule| rule.path.below(&made.by).is_none()));
        if let Some(decision) = built_in {
            return decision;
        }
        let Some(rule) = rule else {
            return Decision {
                seen: Seen::Absent,
                execute: true,
                by: root(),
                origin: always("not listed"),
            };
        };
        let rest = path.below(&rule.path).unwrap_or_default();
        let seen = match &rule.access {
            Access::Read { real, .. } => Seen::Shown {
                real: real.join(rest),
                writable: false,
            },
            Access::Write { real, .. } => Seen::Shown {
                real: real.join(rest),
                writable: true,
            },
            Access::Denied => Seen::Denied,
            Access::Hidden => Seen::Hidden,
            Access::Temporary { .. } => Seen::Temporary,
        };
        Decision {
            seen,
            execute: rule.execute,
            by: rule.path.clone(),
            origin: rule.origin.clone(),
        }
    }
}

impl Real {
    /// `rest` is relative and normal; it came from below, so it counts as not to be followed through links.
    pub fn join(&self, rest: &str) -> Real {
        let glue = |beneath: &str| match (beneath, rest) {
            ("", rest) => rest.to_owned(),
            (beneath, "") => beneath.to_owned(),
            (beneath, rest) => format!("{beneath}/{rest}"),
        };
        match self {
            Real::Host { root, beneath } => Real::Host {
                root: root.clone(),
                beneath: glue(beneath),
            },
            Real::Job { beneath } => Real::Job {
                beneath: glue(beneath),
            },
        }
    }
}

impl Real {
    /// Do both lead to the same path?
    pub fn is_same(&self, other: &Real) -> bool {
        match (self, other) {
            (
                Real::Host { root, beneath },
                Real::Host {
                    root: other,
                    beneath: rest,
                },
            ) => root.join(beneath) == other.join(rest),
            (Real::Job { beneath }, Real::Job { beneath: other }) => beneath == other,
            _ => false,
        }
    }
}

fn built_in(path: &GuestPath) -> Option<Decision> {
    let at = |top: &str| {
        path.as_str() == top
            || path
                .as_str()
                .strip_prefix(top)
                .is_some_and(|r| r.starts_with('/'))
    };
    if at(JOB_DIRECTORY) {
        let beneath = path.as_str()[JOB_DIRECTORY.len()..]
            .trim_start_matches('/')
            .to_owned();
        return Some(Decision {
            seen: Seen::Shown {
                real: Real::Job { beneath },
                writable: true,
            },
            execute: true,
            by: root().join(&JOB_DIRECTORY[1..]),
            origin: always("every guest's own directory"),
        });
    }
    let top = ["/proc", "/dev"].into_iter().find(|top| at(top))?;
    Some(Decision {
        seen: Seen::Made,
        execute: true,
        by: root().join(&top[1..]),
        origin: always("made for every guest"),
    })
}

fn root() -> GuestPath {
    GuestPath::root()
}

fn always(why: &str) -> Origin {
    Origin {
        source: why.to_owned(),
        line: 0,
    }
}

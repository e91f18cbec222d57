//! What the owner of a running program asks for after its start (P89, P90): paths and addresses, as words or as a text, and
//! what then holds. It only narrows. Pure. Not here: limits (`amount`), what a guest that runs sees of it (`follow`).

use crate::amount::{AmountError, parse_limit};
use crate::error::{NarrowError, PolicyError};
use crate::follow::unfollowed;
use crate::narrow::narrow;
use crate::path::GuestPath;
use crate::reach::Addresses;
use crate::types::{Access, Limited, Limits, MechanismKind, Network, Policy};
use std::fmt::Write;

/// Longest text that changes what runs: it is recorded with the job, each time.
pub const MAX_CHANGE_BYTES: usize = 64 << 10;

/// One thing to change, as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `net=10MB/s`
    Limit(Limited, u64),
    /// `/data=hidden`
    Path(GuestPath, &'static str),
    /// `allow=192.0.2.0/24:443`
    Allow(Addresses),
    /// `deny=*:25`
    Deny(Addresses),
    /// `network=none`
    Network(Network),
}

/// What was typed changes nothing that can be changed; who typed it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("{0}; or write /PATH=ACCESS, allow=ADDRESS, deny=ADDRESS, network=none")]
    Limit(#[from] AmountError),
    #[error("\"{}\" names no path: write /PATH=ACCESS", .found.escape_debug())]
    Path { found: String },
    #[error("\"{found}\" is none of {ACCESSES}: a temporary place is made when a program starts")]
    Access { found: String },
    #[error("\"{found}\" is no address: write 192.0.2.7:443, 192.0.2.0/24, [2001:db8::7] or *")]
    Address { found: String },
    #[error("\"{found}\" is neither host nor none")]
    Network { found: String },
}

const ACCESSES: &str = "read, write, denied, hidden";

/// Reads one word.
pub fn parse_change(word: &str) -> Result<Change, ChangeError> {
    if word.starts_with('/') {
        // A path may have the sign in it; no access has.
        let (path, access) = word.rsplit_once('=').unwrap_or((word, ""));
        let found = || word.to_owned();
        let path = GuestPath::new(path).map_err(|_| ChangeError::Path { found: found() })?;
        let known = ACCESSES.split(", ").find(|known| *known == access);
        let found = || access.to_owned();
        let access = known.ok_or_else(|| ChangeError::Access { found: found() })?;
        return Ok(Change::Path(path, access));
    }
    let address = |text: &str| {
        let found = || text.to_owned();
        text.parse()
            .map_err(|_| ChangeError::Address { found: found() })
    };
    match word.split_once('=') {
        Some(("allow", text)) => Ok(Change::Allow(address(text)?)),
        Some(("deny", text)) => Ok(Change::Deny(address(text)?)),
        Some(("network", "host")) => Ok(Change::Network(Network::Host)),
        Some(("network", "none")) => Ok(Change::Network(Network::None)),
        Some(("network", found)) => Err(ChangeError::Network {
            found: found.to_owned(),
        }),
        _ => {
            let (limited, amount) = parse_limit(word)?;
            Ok(Change::Limit(limited, amount))
        }
    }
}

/// The limits among changes.
pub fn limits_of(changes: &[Change]) -> Limits {
    let mut limits = Limits::default();
    for change in changes {
        if let Change::Limit(limited, amount) = change {
            limits.set(*limited, Some(*amount));
        }
    }
    limits
}

/// The rest of them as a text of P1; None: there is no more.
pub fn text_of(changes: &[Change]) -> Option<String> {
    let list = |of: fn(&Change) -> Option<&Addresses>| {
        let quoted = changes.iter().filter_map(of).map(|a| format!("\"{a}\""));
        quoted.collect::<Vec<_>>().join(", ")
    };
    let allow = list(|change| match change {
        Change::Allow(addresses) => Some(addresses),
        _ => None,
    });
    let deny = list(|change| match change {
        Change::Deny(addresses) => Some(addresses),
        _ => None,
    });
    let network = changes.iter().rev().find_map(|change| match change {
        Change::Network(Network::Host) => Some("access = \"host\""),
        Change::Network(Network::None) => Some("access = \"none\""),
        _ => None,
    });
    let mut keys: Vec<String> = network.map(str::to_owned).into_iter().collect();
    for (name, list) in [("allow", allow), ("deny", deny)] {
        if !list.is_empty() {
            keys.push(format!("{name} = [{list}]"));
        }
    }
    let mut text = String::new();
    if !keys.is_empty() {
        let _ = writeln!(text, "network = {{ {} }}", keys.join(", "));
    }
    for change in changes {
        if let Change::Path(path, access) = change {
            let path = path.as_str().replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(text, "paths.\"{path}\" = \"{access}\"");
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Why a text does not change what runs; whoever wrote it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmendError {
    #[error(transparent)]
    Text(#[from] PolicyError),
    #[error("the text is longer than {MAX_CHANGE_BYTES} bytes")]
    TooLong,
    #[error("{what} when a program starts: of one that runs, paths and the network are changed")]
    Settled { what: &'static str },
    #[error("it changes nothing: name a path or addresses")]
    Nothing,
    #[error(transparent)]
    TooMuch(#[from] NarrowError),
    #[error(
        "what {mechanism} lets a program reach is settled when it starts: cancel it, and start it with these rules or under \
         notify, ptrace or library, which follow them"
    )]
    Unfollowed { mechanism: &'static str },
}

impl AmendError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &'static str {
        match self {
            AmendError::TooMuch(problem) => problem.code(),
            AmendError::Unfollowed { .. } => "not_followed",
            _ => "bad_policy",
        }
    }
}

/// Reads a text that is to change what runs.
pub fn parse_amendment(text: &str, source: &str) -> Result<Policy, AmendError> {
    if text.len() > MAX_CHANGE_BYTES {
        return Err(AmendError::TooLong);
    }
    let policy = crate::parse(text, source)?;
    let temporary = |rule: &crate::Rule| matches!(rule.access, Access::Temporary { .. });
    let empty = Policy::empty();
    let settled = [
        (
            policy.mechanism != empty.mechanism,
            "the mechanism is chosen",
        ),
        (
            policy.further_processes.is_some(),
            "whether there are further processes is settled",
        ),
        (
            policy.strict || policy.complete.is_some(),
            "what the mechanism must do is settled",
        ),
        (
            policy.limiter.is_some(),
            "who keeps the network's rate is settled",
        ),
        (policy.dump.is_some(), "whether it is dumped is settled"),
        (policy.vo.is_some(), "the organisation is settled"),
        (
            policy.limits != empty.limits,
            "(limits are changed by their names, such as net=10MB/s) all else is settled",
        ),
        (
            policy.paths.iter().any(temporary),
            "temporary places are made",
        ),
    ];
    if let Some((_, what)) = settled.into_iter().find(|(said, _)| *said) {
        return Err(AmendError::Settled { what });
    }
    if policy.paths.is_empty() && !policy.is_about_network() {
        return Err(AmendError::Nothing);
    }
    Ok(policy)
}

/// What was asked for until now, with what is asked for besides: a path takes the place of what was said of it and below it,
/// address rules that of those before.
pub fn amend(before: Option<&Policy>, asked: &Policy) -> Policy {
    let mut all = before.cloned().unwrap_or_else(Policy::empty);
    for rule in &asked.paths {
        all.paths.retain(|old| old.path.below(&rule.path).is_none());
    }
    all.paths.extend(asked.paths.iter().cloned());
    all.paths.sort_by(|a, b| a.path.cmp(&b.path));
    all.network = asked.network.or(all.network);
    if !asked.reach.is_empty() {
        all.reach = asked.reach.clone();
    }
    all.origins.extend(asked.origins.clone());
    all.layers = asked.layers.clone();
    all
}

/// The policy under which a program runs of which that was asked. It never fails, since what is above may be less by now than
/// when it was asked: a path that is not given any more is hidden.
pub fn amended(above: &Policy, asked: &Policy) -> Policy {
    if let Ok(both) = narrow(above, asked) {
        return both;
    }
    let mut asked = asked.clone();
    asked.network = asked.network.filter(|network| *network == Network::None);
    for rule in &mut asked.paths {
        let alone = Policy {
            paths: vec![rule.clone()],
            ..Policy::empty()
        };
        if narrow(above, &alone).is_err() {
            rule.access = Access::Hidden;
        }
    }
    // More rules together than there may be: nothing is shown, rather than all of it.
    narrow(above, &asked).unwrap_or_else(|_| Policy {
        paths: Vec::new(),
        network: Some(Network::None),
        ..above.clone()
    })
}

/// What a program that began with one policy does not follow of the one that holds once `asked` was asked for, in words.
///
/// # Errors
/// It follows nothing of what is asked of the network.
pub fn heeded(
    began: &Policy,
    asked: &Policy,
    now: &Policy,
    mechanism: MechanismKind,
) -> Result<Vec<String>, AmendError> {
    let holds = began.network() == Network::None
        || (now.network() == Network::Host && now.reach.is_empty());
    if mechanism == MechanismKind::Namespace && asked.is_about_network() && !holds {
        return Err(AmendError::Unfollowed {
            mechanism: mechanism.name(),
        });
    }
    Ok(unfollowed(began, now, mechanism))
}

impl Policy {
    /// Does it say anything of what is reached?
    pub fn is_about_network(&self) -> bool {
        self.network.is_some() || !self.reach.is_empty()
    }

    /// Its paths and addresses in a line.
    pub fn in_words(&self) -> String {
        let paths = self.paths.iter().map(|rule| {
            let access = match &rule.access {
                Access::Read { .. } => "read",
                Access::Write { .. } => "write",
                Access::Denied => "denied",
                Access::Hidden => "hidden",
                Access::Temporary { .. } => "temporary",
            };
            let not = if rule.execute { "" } else { ", not executed" };
            format!("{} {access}{not}", rule.path)
        });
        let network = self.network.map(|network| match network {
            Network::Host => "network host".to_owned(),
            Network::None => "network none".to_owned(),
        });
        let reach = self.reach.iter().flat_map(|reach| {
            let allow = reach.allow.iter().flatten().map(|a| format!("allow {a}"));
            let deny = reach.deny.iter().map(|a| format!("deny {a}"));
            allow.chain(deny)
        });
        let all: Vec<String> = paths.chain(network).chain(reach).collect();
        all.join(", ")
    }
}

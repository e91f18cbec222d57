//! `kumiko sandbox check`: the effective policy with where each line of it comes from, and what it decides.

use crate::args::{Format, Under};
use crate::fail::{Failure, While};
use crate::output::{self, Show, say};
use kumiko_entry::sandbox;
use kumiko_identity::{TrustStore, places::Places, signed};
use kumiko_policy::{Decision, GuestPath, Limits, Network, Policy, Real, Seen, parse_vo};
use kumiko_sandbox::{Machine, choose};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::SystemTime;

/// Without anything asked the whole effective policy.
pub fn check(
    under: &Under,
    vo: Option<&Path>,
    what: &[String],
    format: Format,
) -> Result<u8, Failure> {
    let vo = vo.map(organisation).transpose()?;
    let policy = sandbox::effective(&under.said(), vo.as_ref())?;
    let choice = choose(&policy, under.mechanism.as_deref(), &Machine::assume())?;
    let rows = match what.is_empty() {
        true => whole(&policy),
        false => what
            .iter()
            .map(|what| decide(&policy, what))
            .collect::<Result<_, _>>()?,
    };
    output::many(format, &rows)?;
    if format == Format::Human && what.is_empty() {
        say!("layers, the highest first: {}", policy.layers.join("; "))?;
        for what in &choice.not_enforced {
            say!("not enforced by {}: {what}", choice.mechanism)?;
        }
    }
    Ok(0)
}

/// A signed policy, if its signer is trusted by this machine or person. Whether they may sign for the organisation is
/// for each site to say.
fn organisation(path: &Path) -> Result<Policy, Failure> {
    let directory = Places::of_this_process()?.trust_dir(Path::is_dir);
    let trust = TrustStore::load(&directory)?;
    let pem = std::fs::read(path).doing(|| format!("reading {}", path.display()))?;
    let (text, signer) = signed::open(&pem, &trust, SystemTime::now())
        .doing(|| format!("believing {}", path.display()))?;
    let source = format!("{}, signed by {}", path.display(), signer.identity);
    let vo = parse_vo(&String::from_utf8(text)?, &source)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    if now.map_or(0, |now| now.as_secs()) >= vo.expires_s {
        eprintln!("kumiko: {} has expired: sites refuse it", path.display());
    }
    Ok(vo.policy)
}

#[derive(Serialize)]
struct Decided {
    what: String,
    decision: String,
    /// The line that decides: a path or a key.
    by: String,
    origin: String,
}

impl Show for Decided {
    fn human(&self) -> String {
        format!(
            "{:<30} {:<40} by {} ({})",
            self.what, self.decision, self.by, self.origin
        )
    }
}

fn whole(policy: &Policy) -> Vec<Decided> {
    let paths = policy.paths.iter().map(|rule| path(policy, &rule.path));
    let setting = |key: &str, decision: String| Decided {
        what: key.to_owned(),
        decision,
        by: key.to_owned(),
        origin: policy.origin(key).to_string(),
    };
    let words = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let settings = [
        setting("mechanism", policy.mechanism.name().to_owned()),
        setting("network", network(policy).to_owned()),
        setting("further_processes", words(policy.further_processes())),
        setting("strict", words(policy.strict)),
        setting("dump", words(policy.dump())),
    ];
    let limits = policy.limits.each();
    let limits =
        limits.map(|(limited, value)| setting(&limited.full_key(), Limits::words(limited, value)));
    paths.chain(settings).chain(limits).collect()
}

fn decide(policy: &Policy, what: &str) -> Result<Decided, Failure> {
    if what.starts_with('/') {
        let asked = GuestPath::new(what).map_err(|e| Failure::misuse(format!("{what} {e}")))?;
        return Ok(path(policy, &asked));
    }
    let address = what.parse::<SocketAddr>();
    let address = address.or_else(|_| what.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0)));
    let address = address.map_err(|_| {
        Failure::misuse(format!(
            "\"{what}\" is neither an absolute path nor an address such as 192.0.2.1:443 or [2001:db8::1]:443"
        ))
    })?;
    let reached = policy.reaches(address);
    if let (Network::Host, Some((rule, origin))) = (policy.network(), reached.by) {
        let decision = match reached.reached {
            true => "reached from the host's network",
            false => "not reached",
        };
        return Ok(Decided {
            what: what.to_owned(),
            decision: decision.to_owned(),
            by: rule,
            origin: origin.to_string(),
        });
    }
    let decision = match policy.network() {
        Network::Host => "reached from the host's network",
        Network::None if address.ip().is_loopback() => "the guest's own loopback",
        Network::None => "not reached",
    };
    Ok(Decided {
        what: what.to_owned(),
        decision: decision.to_owned(),
        by: "network".to_owned(),
        origin: policy.origin("network").to_string(),
    })
}

fn path(policy: &Policy, path: &GuestPath) -> Decided {
    let decision = policy.explain(path);
    Decided {
        what: path.as_str().to_owned(),
        decision: words(&decision),
        by: decision.by.as_str().to_owned(),
        origin: decision.origin.to_string(),
    }
}

fn network(policy: &Policy) -> &'static str {
    match policy.network() {
        Network::Host if !policy.reach.is_empty() => "host, held to addresses",
        Network::Host => "host",
        Network::None => "none",
    }
}

fn words(decision: &Decision) -> String {
    let not = if decision.execute {
        ""
    } else {
        ", not executed"
    };
    match &decision.seen {
        Seen::Shown { real, writable } => {
            let real = match real {
                Real::Host { root, beneath } => root.join(beneath).as_str().to_owned(),
                Real::Job { beneath } => GuestPath::root().join(beneath).as_str().replacen(
                    '/',
                    "the job's directory/",
                    1,
                ),
            };
            let access = if *writable { "read and write" } else { "read" };
            format!("{access} {real}{not}")
        }
        Seen::Temporary => format!("an empty, private, writable place{not}"),
        Seen::Denied => "denied".to_owned(),
        Seen::Hidden => "hidden".to_owned(),
        Seen::Absent => "absent".to_owned(),
        Seen::Made => "made by the sandbox".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_executed_is_told() {
        let text = "[paths]\n'/d' = {access='read', execute=false}\n'/d/bin' = 'write'\n\
                    '/t' = {access='temporary', execute=false}";
        let policy = kumiko_policy::parse(text, "text").unwrap();
        let check = |at: &str, told: &str| {
            assert_eq!(path(&policy, &GuestPath::new(at).unwrap()).decision, told);
        };
        check("/d/x", "read /d/x, not executed");
        check("/d/bin/x", "read and write /d/bin/x");
        check("/t/x", "an empty, private, writable place, not executed");
    }
}

//! Where the site's batch systems listen for ferries (spec/jobs/pilots.md, PL40): what runs jobs at the address in site.toml, what runs
//! routines at the next port. Wiring only.

use crate::fail::{Failure, While};
use crate::site::serve::program;
use crate::site::settings::Settings;
use kumiko_batch::LandingAddress;
use kumiko_batch::chosen::Prepared;
use std::path::{Path, PathBuf};

/// What hosts need of the account's state to run jobs.
const OF_JOBS: [&str; 3] = ["spool", "jobs", "cache"];
/// And to run routines, of what calls have there.
const OF_CALLS: [&str; 6] = [
    "spool",
    "arguments",
    "results",
    "checkpoints",
    "callbacks",
    "workers",
];
/// What answers for the folders of jobs listens so many ports after their landing, and that of calls so after theirs.
const FILES_AFTER: u16 = 2;
/// And of where routines are registered.
const OF_ROUTINES: [&str; 2] = ["programs", "routines"];

/// What runs jobs, whose `state` that is.
pub fn of_jobs(batch: Prepared, settings: &Settings, state: &Path) -> Result<Prepared, Failure> {
    let folders = OF_JOBS.map(|name| state.join(name)).into();
    landed(batch, settings, read(&settings.landing)?, folders, "jobs")
}

/// What runs routines; `state` is of calls, `registry` where the routines are.
pub fn of_calls(
    batch: Prepared,
    settings: &Settings,
    state: &Path,
    registry: &Path,
) -> Result<Prepared, Failure> {
    let at = read(&settings.landing)?
        .map(|at| after(at, 1))
        .transpose()?;
    let of_calls = OF_CALLS.map(|name| state.join(name)).into_iter();
    let routines = OF_ROUTINES.map(|name| registry.join(name)).into_iter();
    let folders = of_calls.chain(routines).collect();
    landed(batch, settings, at, folders, "calls")
}

/// Each account of a site for many has a batch system, which listens by itself.
pub fn is_for_many(settings: &Settings) -> Result<(), Failure> {
    match read(&settings.landing)? {
        Some(LandingAddress { host, port }) if port != 0 => Err(Failure::misuse(format!(
            "landing: port {port} can be one account's only, and each listens by itself: in site.toml give {host:?} without a port"
        ))),
        _ => Ok(()),
    }
}

/// That many ports further; a port that is any stays so.
fn after(mut at: LandingAddress, ports: u16) -> Result<LandingAddress, Failure> {
    if at.port != 0 {
        at.port = at.port.checked_add(ports).ok_or_else(|| {
            Failure::misuse(format!(
                "landing: the {ports} ports after it are needed too, and there are none: give a lower one"
            ))
        })?;
    }
    Ok(at)
}

fn read(at: &str) -> Result<Option<LandingAddress>, Failure> {
    let read = || {
        at.parse()
            .map_err(|error| Failure::misuse(format!("landing: {error}")))
    };
    (!at.is_empty()).then(read).transpose()
}

fn landed(
    batch: Prepared,
    settings: &Settings,
    at: Option<LandingAddress>,
    folders: Vec<PathBuf>,
    what: &str,
) -> Result<Prepared, Failure> {
    let Some(at) = at else {
        return match settings.carry {
            true => Err(Failure::misuse(
                "carry: hosts without the site's folders call it to have them: say where by `landing`".to_owned(),
            )),
            false => Ok(batch),
        };
    };
    let landed = batch
        .landing(&at, program("kumiko-ferry", "KUMIKO_FERRY")?)
        .doing(|| format!("making a landing for {what}"))?;
    match settings.carry {
        true => landed
            .carrying(&after(at, FILES_AFTER)?, folders)
            .doing(|| format!("having the folders of {what} carried to hosts without them")),
        false => Ok(landed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn calls_have_the_port_after_that_of_jobs() {
        let of_calls = |at: &str| Some(after(read(at).unwrap()?, 1).ok()?.to_string());
        assert_eq!(of_calls("").as_deref(), None);
        assert_eq!(of_calls("head:2200").as_deref(), Some("head:2201"));
        assert_eq!(of_calls("[fd00::1]").as_deref(), Some("[fd00::1]:0"));
        assert_eq!(of_calls("head:65535").as_deref(), None);
    }

    #[test]
    fn a_port_is_for_one_account() {
        let of_many = |at: &str| {
            is_for_many(&Settings {
                landing: at.to_owned(),
                ..Settings::default()
            })
            .is_ok()
        };
        assert_eq!(["", "head", "head:2200"].map(of_many), [true, true, false]);
    }
}

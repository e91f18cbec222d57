//! Where the site's batch systems listen for ferries (spec/jobs/pilots.md, PL40): what runs jobs at the address in site.toml, what runs
//! routines at the next port. Wiring only.

use crate::fail::{Failure, While};
use crate::site::serve::program;
use crate::site::settings::Settings;
use kumiko_batch::LandingAddress;
use kumiko_batch::chosen::Prepared;

/// What runs jobs.
pub fn of_jobs(batch: Prepared, settings: &Settings) -> Result<Prepared, Failure> {
    landed(batch, read(&settings.landing)?, "jobs")
}

/// What runs routines.
pub fn of_calls(batch: Prepared, settings: &Settings) -> Result<Prepared, Failure> {
    let at = read(&settings.landing)?.map(next).transpose()?;
    landed(batch, at, "calls")
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

fn next(mut at: LandingAddress) -> Result<LandingAddress, Failure> {
    if at.port != 0 {
        at.port = at.port.checked_add(1).ok_or_else(|| {
            Failure::misuse(
                "landing: calls have the port after it, and there is none: give a lower one",
            )
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

fn landed(batch: Prepared, at: Option<LandingAddress>, what: &str) -> Result<Prepared, Failure> {
    let Some(at) = at else {
        return Ok(batch);
    };
    batch
        .landing(&at, program("kumiko-ferry", "KUMIKO_FERRY")?)
        .doing(|| format!("making a landing for {what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn calls_have_the_port_after_that_of_jobs() {
        let of_calls = |at: &str| Some(next(read(at).unwrap()?).ok()?.to_string());
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

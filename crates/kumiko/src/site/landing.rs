//! Where the site's batch systems listen for ferries (spec/jobs/pilots.md, PL40): what runs jobs at the address in site.toml, what runs
//! routines at the next port. Wiring only.

use crate::fail::{Failure, While};
use crate::site::serve::program;
use crate::site::settings::Settings;
use kumiko_batch::LandingAddress;
use kumiko_batch::chosen::Prepared;

/// What runs jobs.
pub fn of_jobs(batch: Prepared, settings: &Settings) -> Result<Prepared, Failure> {
    landed(batch, read(settings)?)
}

/// What runs routines.
pub fn of_calls(batch: Prepared, settings: &Settings) -> Result<Prepared, Failure> {
    let next = |mut at: LandingAddress| {
        if at.port != 0 {
            at.port = at.port.checked_add(1).ok_or_else(|| {
                Failure::misuse(
                    "landing: routines have the next port, and there is none".to_owned(),
                )
            })?;
        }
        Ok::<_, Failure>(at)
    };
    landed(batch, read(settings)?.map(next).transpose()?)
}

fn read(settings: &Settings) -> Result<Option<LandingAddress>, Failure> {
    let at = settings.landing.as_str();
    let read = || {
        at.parse()
            .map_err(|error| Failure::misuse(format!("landing: {error}")))
    };
    (!at.is_empty()).then(read).transpose()
}

fn landed(batch: Prepared, at: Option<LandingAddress>) -> Result<Prepared, Failure> {
    let Some(at) = at else {
        return Ok(batch);
    };
    batch
        .landing(&at, program("kumiko-ferry", "KUMIKO_FERRY")?)
        .doing(|| "making a landing".to_owned())
}

//! Policies laid over each other, the highest first (P40): site over virtual organisation over user over job.
//! Not here: whose policy is whose, and whether a signature holds (kumiko-identity).

use crate::error::NarrowError;
use crate::narrow::{narrow, over_default, take_origin};
use crate::types::{MechanismKind, Policy};
use std::fmt;

/// Who says something. What a higher one gives, a lower one can only narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    Site,
    Vo,
    User,
    Job,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Site => "the site's policy",
            Layer::Vo => "the virtual organisation's policy",
            Layer::User => "the user's policy",
            Layer::Job => "the job's policy",
        })
    }
}

/// One layer asks for more than those above it give; whoever wrote it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer} asks for more than it has: {problem}")]
pub struct NestError {
    pub layer: Layer,
    pub problem: NarrowError,
}

/// The effective policy: the default one, as the site changes it, narrowed by each layer below in turn. Its `layers` name
/// all of them.
///
/// # Errors
/// The first layer that asks for more than those above it give.
pub fn nest<'a>(
    layers: impl IntoIterator<Item = (Layer, &'a Policy)>,
) -> Result<Policy, NestError> {
    let mut effective = Policy {
        layers: vec!["default policy".to_owned()],
        ..Policy::default()
    };
    let mut of_site = false;
    for (layer, policy) in layers {
        if !of_site && layer != Layer::Site && effective.limiter.is_none() {
            // As below, and told where it comes from.
            effective.limiter = policy.limiter;
            take_origin(&mut effective.origins, policy, "limiter");
        }
        let laid = match layer {
            Layer::Site => {
                of_site = true;
                over_default(&effective, policy)
            }
            // Whatever wall a site leaves us to choose is one.
            Layer::Vo | Layer::User | Layer::Job
                if of_site && !effective.may_be_under(policy.mechanism) =>
            {
                Err(NarrowError::Mechanism {
                    above: effective.mechanism.name(),
                })
            }
            Layer::Vo | Layer::User | Layer::Job => narrow(&effective, policy),
        };
        effective = laid.map_err(|problem| NestError { layer, problem })?;
        if !of_site && effective.complete.is_none() {
            // At no site: whose machine it is says so.
            effective.complete = policy.complete;
        }
        if !of_site && effective.dump.is_none() {
            effective.dump = policy.dump;
        }
    }
    Ok(effective)
}

impl Policy {
    /// May a job be under this mechanism at a site whose policy this is? `library` is no wall: only where the site says
    /// so itself, or that a fence will do.
    pub fn may_be_under(&self, mechanism: MechanismKind) -> bool {
        mechanism != MechanismKind::Library
            || self.mechanism == MechanismKind::Library
            || (self.mechanism == MechanismKind::Auto && !self.complete())
    }
}

impl NestError {
    /// The row of spec/errors.toml: a user is not at fault for what the site's or the organisation's policy asks.
    pub fn code(&self) -> &'static str {
        match self.layer {
            Layer::Site => "site_policy",
            Layer::Vo => "vo_policy",
            Layer::User | Layer::Job => self.problem.code(),
        }
    }
}

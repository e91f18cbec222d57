//! What is asked of an engine, in no engine's words. Pure.

use kumiko_job::attempt::AttemptSpec;
use kumiko_job::description::Resources;
use kumiko_job::id::AttemptId;
use std::path::{Path, PathBuf};

/// Beyond the attempt's own limit, which the runner keeps, so that it is the runner who ends it and says so.
const LIMIT_SPARE_MS: u64 = 60_000;

/// One attempt to be run: a runner in a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// By which the engine is asked for it. Letters, digits, `-` and `.`.
    pub tag: String,
    /// The part of it that all of a site have.
    pub site: String,
    pub runner: PathBuf,
    pub spool: PathBuf,
    /// On one host.
    pub cpus: u32,
    pub time_limit_ms: Option<u64>,
    pub resources: Resources,
}

impl Order {
    pub fn new(site: &str, spec: &AttemptSpec, runner: &Path, spool: PathBuf) -> Order {
        Order {
            tag: tag(site, spec.id),
            site: site.to_owned(),
            runner: runner.to_owned(),
            spool,
            cpus: spec.resources.cpus.unwrap_or(1).saturating_mul(spec.count),
            time_limit_ms: spec.time_limit_ms.map(|limit| {
                limit
                    .saturating_add(spec.grace_ms)
                    .saturating_add(LIMIT_SPARE_MS)
            }),
            resources: spec.resources.clone(),
        }
    }
}

/// What all tags of a site begin with.
pub fn prefix(site: &str) -> String {
    format!("kumiko-{site}-")
}

pub fn tag(site: &str, id: AttemptId) -> String {
    format!("{}{id}", prefix(site))
}

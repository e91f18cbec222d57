//! What is asked of an engine, in no engine's words.

use super::Trouble;
use super::program::Program;
use kumiko_ferry::files::Others;
use kumiko_job::attempt::AttemptSpec;
use kumiko_job::description::Resources;
use kumiko_job::id::AttemptId;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Beyond the attempt's own limit, which the runner keeps, so that it is the runner who ends it and says so.
const LIMIT_SPARE_MS: u64 = 60_000;

/// In a spool: what an engine carries to its host.
const SCRIPT: &str = "script";

/// One attempt to be run: a runner in a spool; or a pilot in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// By which the engine is asked for it. Letters, digits, `-` and `.`.
    pub tag: String,
    /// The part of it that all of a site have.
    pub site: String,
    pub runner: Program,
    /// What the runner is told before `spool`: that it is a pilot.
    pub option: Option<&'static str>,
    pub spool: PathBuf,
    /// Each has a runner.
    pub hosts: u32,
    /// On each host.
    pub cpus: u32,
    pub time_limit_ms: Option<u64>,
    pub resources: Resources,
    /// Hosts that it is not to run on.
    pub avoids: Vec<String>,
    /// The host whose pilot is to have it, if it still can.
    pub wanted_on: Option<String>,
}

impl Order {
    pub fn new(site: &str, spec: &AttemptSpec, runner: &Program, spool: PathBuf) -> Order {
        Order {
            tag: tag(site, spec.id),
            site: site.to_owned(),
            runner: runner.clone(),
            option: None,
            spool,
            hosts: hosts(spec),
            cpus: cpus(spec),
            time_limit_ms: time_limit_ms(spec),
            resources: spec.resources.clone(),
            avoids: Vec::new(),
            wanted_on: spec.wanted_on.clone(),
        }
    }

    pub fn is_pilot(&self) -> bool {
        self.option.is_some()
    }

    /// The words by which a host starts it.
    pub fn line(&self) -> Vec<String> {
        let spool = self.spool.to_string_lossy().into_owned();
        let option = self.option.map(str::to_owned).into_iter();
        let arguments: Vec<_> = option.chain([spool]).collect();
        self.runner.line_in(&self.spool, &arguments)
    }

    /// Sees to what it finds there, as it is handed over.
    pub fn prepare(&self) -> Result<(), Trouble> {
        let ticket = self.runner.tickets(&self.spool, self.hosts);
        ticket.map_err(|error| Trouble::unreachable("preparing it", error.to_string()))
    }

    /// As [`Program::script`], once it is prepared.
    pub fn script(&self, others: Option<&Others>) -> Result<Option<String>, Trouble> {
        let script = self.runner.script(&self.spool, &self.line(), others);
        script.map_err(|error| Trouble::unreachable("preparing it", error.to_string()))
    }

    /// Puts a script where an engine takes it from, in the spool.
    pub fn put_script(&self, text: &str) -> Result<PathBuf, Trouble> {
        let path = self.spool.join(SCRIPT);
        let put = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o700);
            options.open(&path)?.write_all(text.as_bytes())
        };
        put().map_err(|error| Trouble::unreachable("preparing it", error.to_string()))?;
        Ok(path)
    }
}

/// What an engine is to give it.
pub fn time_limit_ms(spec: &AttemptSpec) -> Option<u64> {
    let limit = spec.time_limit_ms?;
    Some(
        limit
            .saturating_add(spec.grace_ms)
            .saturating_add(LIMIT_SPARE_MS),
    )
}

pub fn hosts(spec: &AttemptSpec) -> u32 {
    spec.resources.host_count.unwrap_or(1).max(1)
}

/// Processors of all its processes on one host together.
pub fn cpus(spec: &AttemptSpec) -> u32 {
    let each = spec.resources.cpus.unwrap_or(1);
    each.saturating_mul(spec.count.div_ceil(hosts(spec)))
}

/// An order for a pilot.
pub fn pilot(
    site: &str,
    runner: &Program,
    place: PathBuf,
    number: u64,
    time_limit_ms: Option<u64>,
    resources: &Resources,
) -> Order {
    Order {
        tag: format!("{}{PILOT}{number}", prefix(site)),
        site: site.to_owned(),
        runner: runner.clone(),
        option: Some("--pilot"),
        spool: place,
        hosts: 1,
        cpus: resources.cpus.unwrap_or(1),
        time_limit_ms,
        resources: resources.clone(),
        avoids: Vec::new(),
        wanted_on: None,
    }
}

/// What the name of a pilot begins with, in its tag and among the spools.
pub const PILOT: &str = "pilot-";

/// What all tags of a site begin with.
pub fn prefix(site: &str) -> String {
    format!("kumiko-{site}-")
}

pub fn tag(site: &str, id: AttemptId) -> String {
    format!("{}{id}", prefix(site))
}

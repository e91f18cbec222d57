//! A real engine that is brought up on this machine (testbeds/), and a site on it. Not here: what is measured.

use crate::bench::Bench;
use crate::fail::Failure;
use crate::site::{Place, Site};
use crate::wait;
use kumiko_client::Client;
use kumiko_testkit::engine::Engine;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(120);

/// One that runs, with no site.
pub struct Own(Engine);

impl Own {
    /// With variables of the testbed's.
    pub fn up(name: &'static str, testbed: &[(&str, &str)]) -> Result<Own, Failure> {
        Engine::own(name, testbed, "bench")
            .map(Own)
            .ok_or_else(|| Failure::unexpected(format!("{name} cannot be brought up here")))
    }

    /// What its commands need.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.0.environment()
    }

    /// A file of its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.directory.path().join(name)
    }

    /// What one of the engine's commands printed.
    pub fn asked(&self, name: &str, arguments: &[&str]) -> Result<String, Failure> {
        let output = wait::output(self.0.command(name).args(arguments), WITHIN)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// One, a site on it, and one session with the site.
pub struct OnEngine {
    pub client: Client,
    _site: Site,
    pub engine: Own,
}

impl OnEngine {
    /// With variables of the testbed's, and options of `kumiko site start`.
    pub fn up(
        bench: &Bench,
        name: &'static str,
        testbed: &[(&str, &str)],
        options: &[&str],
    ) -> Result<OnEngine, Failure> {
        let engine = Own::up(name, testbed)?;
        let mut start = vec!["--batch", name];
        start.extend(options);
        let place = Place {
            start: &start,
            environment: &engine.environment(),
            ..Place::default()
        };
        let site = Site::at(bench, &place)?;
        let client = bench.runtime.block_on(site.connect())?;
        Ok(OnEngine {
            client,
            _site: site,
            engine,
        })
    }
}

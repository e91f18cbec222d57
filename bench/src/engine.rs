//! A real engine that is brought up on this machine (testbeds/), and a site on it. Not here: what is measured.

use crate::bench::Bench;
use crate::fail::Failure;
use crate::site::{Place, Site};
use crate::wait;
use kumiko_client::Client;
use kumiko_testkit::engine::Engine;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(120);

/// Both, and one session with the site.
pub struct OnEngine {
    pub client: Client,
    _site: Site,
    engine: Engine,
}

impl OnEngine {
    /// With variables of the testbed's, and options of `kumiko site start`.
    pub fn up(
        bench: &Bench,
        name: &'static str,
        testbed: &[(&str, &str)],
        options: &[&str],
    ) -> Result<OnEngine, Failure> {
        let engine = Engine::own(name, testbed, "bench")
            .ok_or_else(|| Failure::unexpected(format!("{name} cannot be brought up here")))?;
        let mut start = vec!["--batch", name];
        start.extend(options);
        let place = Place {
            before: &[],
            start: &start,
            environment: &engine.environment(),
        };
        let site = Site::at(bench, &place)?;
        let client = bench.runtime.block_on(site.connect())?;
        Ok(OnEngine {
            client,
            _site: site,
            engine,
        })
    }

    /// What one of the engine's commands printed.
    pub fn asked(&self, name: &str, arguments: &[&str]) -> Result<String, Failure> {
        let output = wait::output(self.engine.command(name).args(arguments), WITHIN)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

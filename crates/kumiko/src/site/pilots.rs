//! `pilots` of site.toml, and `--pilots` (spec/jobs/pilots.md): how many pilots stand before the site's engine, and what each
//! asks of it. Not here: what they do (kumiko-batch).

use crate::fail::Failure;
use crate::site::settings::Settings;
use kumiko_batch::chosen::Name;
use kumiko_batch::pilots::{Pilots, Size};
use kumiko_job::description::Resources;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// As in site.toml.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PilotSettings {
    least: u32,
    most: u32,
    cpus: u32,
    memory_mib: Option<u64>,
    queue: Option<String>,
    project: Option<String>,
    time_limit_s: Option<u64>,
}

impl Default for PilotSettings {
    fn default() -> Self {
        PilotSettings {
            least: 0,
            most: 0,
            cpus: 1,
            memory_mib: None,
            queue: None,
            project: None,
            time_limit_s: None,
        }
    }
}

/// LEAST..MOST, or MOST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    least: u32,
    most: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no number of pilots: write LEAST..MOST, as 0..4, or MOST")]
pub struct NoRange(String);

impl FromStr for Range {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<Range, NoRange> {
        let (least, most) = text.split_once("..").unwrap_or(("0", text));
        let read = || {
            let (least, most) = (least.parse().ok()?, most.parse().ok()?);
            (least <= most).then_some(Range { least, most })
        };
        read().ok_or_else(|| NoRange(text.to_owned()))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.least, self.most)
    }
}

impl PilotSettings {
    pub fn set(&mut self, range: Range) {
        (self.least, self.most) = (range.least, range.most);
    }
}

/// What a site with these settings has for its calls: as many as for its jobs, and only while there are calls.
///
/// # Errors
/// As of [`of`].
pub fn of_calls(settings: &Settings) -> Result<Pilots, Failure> {
    let mut pilots = of(settings)?;
    pilots.size.least = 0;
    Ok(pilots)
}

/// What a site with these settings has for its jobs.
///
/// # Errors
/// What makes no sense together.
pub fn of(settings: &Settings) -> Result<Pilots, Failure> {
    let said = &settings.pilots;
    let refused = |why: &str| Err(Failure::misuse(format!("pilots: {why}")));
    if said.least > said.most {
        return refused("least is more than most");
    }
    if said.cpus == 0 {
        return refused("cpus: a pilot without a processor has nothing to give");
    }
    if said.time_limit_s == Some(0) {
        return refused("time_limit_s: a pilot without time has nothing to give");
    }
    let engines = [settings.batch, settings.runs_calls()];
    if said.most > 0 && engines == [Name::Fork; 2] {
        return refused(
            "there is no engine to hold a slot of: they are for batch = \"slurm\" or \"condor\"",
        );
    }
    if engines.contains(&Name::Condor) && said.queue.is_some() {
        return refused("queue: HTCondor has no queues");
    }
    Ok(Pilots {
        size: Size {
            least: said.least,
            most: said.most,
            cpus: said.cpus,
            time_ms: said.time_limit_s.map(|limit| limit.saturating_mul(1000)),
        },
        resources: Resources {
            cpus: Some(said.cpus),
            memory_mib: said.memory_mib,
            queue: said.queue.clone(),
            project: said.project.clone(),
            ..Resources::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_it_says() {
        for (text, expected) in [
            ("4", Some("0..4")),
            ("1..4", Some("1..4")),
            ("0..0", Some("0..0")),
            ("4..1", None),
            ("", None),
            ("1..", None),
            ("-1..2", None),
        ] {
            let read = text.parse::<Range>().ok().map(|range| range.to_string());
            assert_eq!(read.as_deref(), expected, "{text:?}");
        }
    }
}

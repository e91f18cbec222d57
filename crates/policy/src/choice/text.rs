//! The texts in which calibrations and profiles are kept between runs (spec/policy, P83, P84): TOML, bounded. Not in it:
//! where they are kept.

use super::costs::{Calibration, Costs};
use super::profile::Profile;
use crate::types::MechanismKind;

/// Longest text: four times what the longest that we write takes.
pub const MAX_MEASURED_BYTES: usize = 16 * 1024;
/// No single cost is above this, 1,000 s: what takes longer was not measured but hung.
const MAX_NS: u64 = 1_000_000_000_000;
/// Above what any run comes to.
const MAX_COUNT: u64 = 1 << 53;
/// A kernel's release and version (uname(2): 64 bytes each), and a digest.
const MAX_NAME_BYTES: usize = 256;

/// Why a kept text is of no use. Nobody is harmed: it is as if nothing had been measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasuredError {
    #[error("it is longer than {MAX_MEASURED_BYTES} bytes")]
    TooLong,
    #[error("it is not in its form: {0}")]
    Form(String),
    #[error("its {0} is out of range")]
    Range(&'static str),
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, MeasuredError> {
    if text.len() > MAX_MEASURED_BYTES {
        return Err(MeasuredError::TooLong);
    }
    toml::from_str(text).map_err(|error| MeasuredError::Form(error.message().to_owned()))
}

fn written<T: serde::Serialize>(value: &T) -> String {
    // Tables of whole numbers and short texts: nothing that TOML has no form for.
    toml::to_string(value).unwrap_or_default()
}

fn within(ok: bool, what: &'static str) -> Result<(), MeasuredError> {
    ok.then_some(()).ok_or(MeasuredError::Range(what))
}

impl Calibration {
    pub fn to_text(&self) -> String {
        written(self)
    }

    /// # Errors
    /// It is too long, or no text of ours.
    pub fn from_text(text: &str) -> Result<Calibration, MeasuredError> {
        let read: Calibration = read(text)?;
        let named = |name: &str| !name.is_empty() && name.len() <= MAX_NAME_BYTES;
        within(named(&read.kernel), "kernel")?;
        within(named(&read.program), "program")?;
        within(read.others_percent <= 100, "others_percent")?;
        within(read.measured_s <= MAX_COUNT, "measured_s")?;
        within((1..=MAX_COUNT).contains(&read.rounds), "rounds")?;
        let known = |kind: &MechanismKind| *kind != MechanismKind::Auto;
        within(read.mechanisms.keys().all(known), "mechanisms")?;
        read.mechanisms
            .values()
            .chain([&read.native])
            .try_for_each(check)?;
        Ok(read)
    }
}

fn check(costs: &Costs) -> Result<(), MeasuredError> {
    let all = [
        (costs.start_ns, "start_ns"),
        (costs.open_ns, "open_ns"),
        (costs.look_ns, "look_ns"),
        (costs.answer_ns, "answer_ns"),
        (costs.pass_ns, "pass_ns"),
        (costs.process_ns, "process_ns"),
        (costs.exec_ns, "exec_ns"),
        (costs.crowd_ns, "crowd_ns"),
        (costs.spread_percent, "spread_percent"),
    ];
    all.into_iter()
        .try_for_each(|(value, what)| within(value <= MAX_NS, what))
}

impl Profile {
    pub fn to_text(&self) -> String {
        written(self)
    }

    /// # Errors
    /// It is too long, or no text of ours.
    pub fn from_text(text: &str) -> Result<Profile, MeasuredError> {
        let read: Profile = read(text)?;
        let all = [
            (Some(read.opens), "opens"),
            (Some(read.looks), "looks"),
            (Some(read.answers), "answers"),
            (read.passed, "passed"),
            (Some(read.processes), "processes"),
            (Some(read.execs), "execs"),
            (Some(read.at_once), "at_once"),
            (read.wall_us, "wall_us"),
            (read.user_us, "user_us"),
        ];
        for (value, what) in all {
            within(value.is_none_or(|value| value <= MAX_COUNT), what)?;
        }
        within(read.under != Some(MechanismKind::Auto), "under")?;
        Ok(read)
    }
}

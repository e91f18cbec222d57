//! `kumiko sandbox probe --calibrate`: what each mechanism costs on this machine (spec/policy, P80, P83).

use crate::args::Format;
use crate::fail::{Failure, While};
use crate::output::{self, Show};
use kumiko_entry::sandbox;
use kumiko_policy::choice::{Calibration, Costs};
use kumiko_sandbox::{CALIBRATION_TIME, Machine};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Above this, what others did meanwhile is told as a reason to measure again.
const BUSY_PERCENT: u64 = 20;
/// So is a middle half that is wider than this.
const WIDE_PERCENT: u64 = 30;

pub fn calibrate(format: Format, home: Option<&Path>) -> Result<u8, Failure> {
    let measured = sandbox::measured(home)
        .ok_or_else(|| Failure::misuse("neither HOME nor KUMIKO_HOME is set: say --home DIR"))?;
    let folder = sandbox::Throwaway::new()?;
    let told = std::io::stderr().is_terminal();
    let share = |share: f64| {
        if told {
            eprint!("\rmeasuring: {:.0} %", share * 100.0);
            let _ = std::io::stderr().flush();
        }
    };
    let calibration =
        kumiko_sandbox::calibrate(&Machine::probe(), folder.path(), CALIBRATION_TIME, share);
    if told {
        eprintln!();
    }
    let calibration = calibration?;
    let kept = measured.keep_calibration(&calibration);
    let kept = kept.doing(|| "keeping what was measured".to_owned())?;
    output::one(format, &Calibrated { calibration, kept })?;
    Ok(0)
}

#[derive(Serialize)]
struct Calibrated {
    #[serde(flatten)]
    calibration: Calibration,
    /// Where it is kept.
    kept: PathBuf,
}

impl Show for Calibrated {
    fn human(&self) -> String {
        let header = [
            "MECHANISM",
            "START",
            "OPEN",
            "LOOK",
            "OTHER",
            "NO NAME",
            "PROCESS",
            "PROGRAM",
            "OPEN OF 16",
            "SPREAD",
        ];
        let row = |name: String, costs: &Costs| {
            let mut row = vec![name];
            row.extend(columns(costs));
            row.push(format!("{} %", costs.spread_percent));
            row
        };
        let mut rows = vec![row("(none)".to_owned(), &self.calibration.native)];
        let mechanisms = self.calibration.mechanisms.iter();
        rows.extend(mechanisms.map(|(kind, costs)| row(format!("+ {}", kind.name()), costs)));
        let mut text = output::table(&header, &rows);
        text.push_str(&format!(
            "\nwithout a sandbox, and what each mechanism adds; lower quartiles of {} rounds; the middle half of some work lies within SPREAD\n\
             others used {} % of the processors meanwhile\nkept in {}\n",
            self.calibration.rounds,
            self.calibration.others_percent,
            self.kept.display()
        ));
        let wide = self.calibration.mechanisms.values();
        let wide = wide.map(|costs| costs.spread_percent).max().unwrap_or(0);
        if self.calibration.others_percent > BUSY_PERCENT || wide > WIDE_PERCENT {
            text.push_str("the machine was not quiet: measure again when it is\n");
        }
        text
    }
}

/// All but the spread, for people.
pub fn columns(costs: &Costs) -> [String; 8] {
    let all = [
        costs.start_ns,
        costs.open_ns,
        costs.look_ns,
        costs.answer_ns,
        costs.pass_ns,
        costs.process_ns,
        costs.exec_ns,
        costs.crowd_ns,
    ];
    all.map(time)
}

/// A time of three digits or so.
fn time(ns: u64) -> String {
    let tenths = |all: u64, unit: u64| format!("{}.{}", all / unit, all % unit * 10 / unit);
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", tenths(ns, 1_000)),
        _ => format!("{} ms", tenths(ns, 1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_a_fitting_unit() {
        let check = |ns: u64, told: &str| assert_eq!(time(ns), told);
        check(0, "0 ns");
        check(999, "999 ns");
        check(1_000, "1.0 us");
        check(12_345, "12.3 us");
        check(2_950_000, "2.9 ms");
    }
}

//! What mechanisms cost on one machine: over the kernel alone, by what a program does (spec/policy, P80). Pure.

use super::profile::Profile;
use crate::types::MechanismKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many processes at once [`Costs::crowd_ns`] is measured with: as many as figure 6 of the paper ends with.
pub const CROWD: u64 = 16;

/// What a mechanism adds, in nanoseconds of wall time. Of the kernel alone: what the same takes there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// From nothing to the guest's first instruction, and its end.
    pub start_ns: u64,
    /// A file opened to be read.
    pub open_ns: u64,
    /// A file looked at by its name.
    pub look_ns: u64,
    /// Any other call that names things.
    pub answer_ns: u64,
    /// Any other call.
    pub pass_ns: u64,
    /// A process made, and its end.
    pub process_ns: u64,
    /// A program executed, apart from the files that it opens.
    pub exec_ns: u64,
    /// A file opened to be read while [`CROWD`] processes do nothing else: time of all / opens of all.
    pub crowd_ns: u64,
    /// Half of the measured times lie within this many percent of each other.
    pub spread_percent: u64,
}

/// The costs of a machine's mechanisms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Release and version of the kernel. Empty: nothing was measured, these are the defaults.
    pub kernel: String,
    /// The digest of the sandbox that was measured.
    pub program: String,
    /// When, Unix time.
    pub measured_s: u64,
    /// Rounds, of which medians were taken.
    pub rounds: u64,
    /// Share of the machine's processors that others used meanwhile.
    pub others_percent: u64,
    pub native: Costs,
    pub mechanisms: BTreeMap<MechanismKind, Costs>,
}

impl Calibration {
    /// Nothing was measured on this machine.
    pub fn is_default(&self) -> bool {
        self.kernel.is_empty()
    }

    /// Whose costs are not known costs as much as the dearest that is.
    pub fn costs(&self, kind: MechanismKind) -> Costs {
        let dearest = || self.mechanisms.values().max_by_key(|costs| costs.open_ns);
        let costs = self.mechanisms.get(&kind).or_else(dearest);
        costs.copied().unwrap_or_default()
    }
}

impl Default for Calibration {
    /// As measured on a virtual machine of two processors with Linux 6.18, when it was quiet.
    fn default() -> Calibration {
        let costs = |row: [u64; 8]| {
            let [start, open, look, answer, pass, process, exec, crowd] = row;
            Costs {
                start_ns: start * 1_000,
                open_ns: open,
                look_ns: look,
                answer_ns: answer,
                pass_ns: pass,
                process_ns: process * 1_000,
                exec_ns: exec * 1_000,
                crowd_ns: crowd,
                spread_percent: 0,
            }
        };
        let mechanisms = [
            (
                MechanismKind::Namespace,
                costs([1_000, 40, 20, 40, 15, 5, 5, 30]),
            ),
            (
                MechanismKind::Library,
                costs([3_000, 200, 800, 9_000, 25, 20, 400, 150]),
            ),
            (
                MechanismKind::Notify,
                costs([2_800, 8_000, 8_000, 9_000, 25, 15, 60, 12_000]),
            ),
            (
                MechanismKind::Ptrace,
                costs([4_500, 12_000, 14_000, 15_000, 25, 60, 120, 15_000]),
            ),
        ];
        Calibration {
            kernel: String::new(),
            program: String::new(),
            measured_s: 0,
            rounds: 0,
            others_percent: 0,
            native: costs([900, 1_000, 700, 1_500, 100, 150, 600, 600]),
            mechanisms: mechanisms.into(),
        }
    }
}

impl Costs {
    /// Are no works of these dearer than of those?
    pub fn at_most(&self, other: &Costs) -> bool {
        let all = |costs: &Costs| {
            [
                costs.start_ns,
                costs.open_ns,
                costs.look_ns,
                costs.answer_ns,
                costs.pass_ns,
                costs.process_ns,
                costs.exec_ns,
                costs.crowd_ns,
            ]
        };
        all(self).iter().zip(all(other)).all(|(a, b)| *a <= b)
    }

    /// What a program's work costs more than without the mechanism, ns (P82).
    pub fn of(&self, profile: &Profile) -> u64 {
        // From one process to a crowd by the logarithm of their number.
        let crowd = (profile.at_once.max(1) as f64).ln() / (CROWD as f64).ln();
        let grown = self.crowd_ns.max(1) as f64 / self.open_ns.max(1) as f64;
        let in_crowd = grown.powf(crowd.min(1.0));
        let calls = [
            (profile.opens, self.open_ns),
            (profile.looks, self.look_ns),
            (profile.answers, self.answer_ns),
        ];
        let calls: f64 = calls.iter().map(|(n, ns)| *n as f64 * *ns as f64).sum();
        let others = [
            (1, self.start_ns),
            (profile.passed.unwrap_or(0), self.pass_ns),
            (profile.processes, self.process_ns),
            (profile.execs, self.exec_ns),
        ];
        let others: f64 = others.iter().map(|(n, ns)| *n as f64 * *ns as f64).sum();
        // A float beyond the integers becomes the largest of them.
        (calls * in_crowd + others) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_by_its_kind_and_by_the_crowd() {
        let costs = Costs {
            start_ns: 1_000_000,
            open_ns: 10,
            look_ns: 20,
            answer_ns: 30,
            pass_ns: 1,
            process_ns: 1_000,
            exec_ns: 10_000,
            crowd_ns: 40,
            spread_percent: 0,
        };
        let check = |profile: Profile, ns: u64| assert_eq!(costs.of(&profile), ns, "{profile:?}");
        check(Profile::default(), 1_000_000);
        let calls = Profile {
            opens: 100,
            looks: 10,
            answers: 1,
            ..Profile::default()
        };
        check(calls.clone(), 1_001_230);
        let crowd = |at_once| Profile {
            at_once,
            ..calls.clone()
        };
        check(crowd(16), 1_004_920);
        check(crowd(4), 1_002_460); // half way by the logarithm: twice
        check(crowd(1_000), 1_004_920);
        let program = Profile {
            processes: 3,
            execs: 2,
            passed: Some(500),
            ..Profile::default()
        };
        check(program, 1_023_500);
    }

    #[test]
    fn costs_and_numbers_of_any_size_add_up() {
        let most = Costs {
            start_ns: u64::MAX,
            open_ns: u64::MAX,
            crowd_ns: u64::MAX,
            ..Costs::default()
        };
        let profile = Profile {
            opens: u64::MAX,
            at_once: u64::MAX,
            ..Profile::default()
        };
        assert_eq!(most.of(&profile), u64::MAX);
    }
}

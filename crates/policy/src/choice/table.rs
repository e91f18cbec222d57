//! The table of mechanisms for one policy, one program and one machine: who is admissible, or what stands in the way, and
//! at what predicted cost (spec/policy, P85, P86). Pure.

use super::costs::{Calibration, Costs};
use super::profile::Profile;
use crate::types::MechanismKind;
use serde::Serialize;
use std::fmt;

/// What a policy, or the machine, may ask that not every mechanism has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// This machine admits it, without root.
    Machine,
    /// It is a wall: the paper's complete virtualisation.
    Complete,
    /// It holds guests to addresses.
    Addresses,
    /// Nothing of a strict policy is left open.
    Strict,
    /// Its library keeps the network's rate.
    Limiter,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Requirement::Machine => "no root",
            Requirement::Complete => "complete",
            Requirement::Addresses => "addresses",
            Requirement::Strict => "strict",
            Requirement::Limiter => "limiter",
        })
    }
}

/// A requirement that a mechanism does not meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hindrance {
    pub requirement: Requirement,
    pub why: String,
}

/// A mechanism, and all that stands in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub kind: MechanismKind,
    pub hindrances: Vec<Hindrance>,
}

/// To one of the paper's questions, for one mechanism on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Yes,
    No,
}

/// One mechanism of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub mechanism: MechanismKind,
    /// Empty: it is admissible.
    pub hindrances: Vec<Hindrance>,
    /// What it is predicted to cost the program, over the kernel alone, us.
    pub overhead_us: u64,
    /// In thousandths of the run without any, where that is known.
    pub overhead_permille: Option<u64>,
    /// The paper's third and fourth question: is it for frequent calls, for many processes?
    pub frequent_calls: Answer,
    pub many_processes: Answer,
    pub costs: Costs,
}

impl Row {
    pub fn is_admissible(&self) -> bool {
        self.hindrances.is_empty()
    }
}

/// The order of equals: as they cost their guests in general, and a wall before a fence.
const ORDER: [MechanismKind; 4] = [
    MechanismKind::Namespace,
    MechanismKind::Notify,
    MechanismKind::Library,
    MechanismKind::Ptrace,
];

/// A mechanism is for frequent calls if it makes a file's opening at most twice as long, and for many processes if making
/// one takes at most half as long again and a crowd's calls at most twice as long.
const FREQUENT: u64 = 2;

/// All candidates, the admissible ones first, each by its predicted overhead: the first row is the pick, if it is
/// admissible.
pub fn table(candidates: &[Candidate], profile: &Profile, calibration: &Calibration) -> Vec<Row> {
    let mut rows: Vec<Row> = candidates
        .iter()
        .map(|candidate| row(candidate, profile, calibration))
        .collect();
    rows.sort_by_key(|row| {
        let place = ORDER.iter().position(|kind| *kind == row.mechanism);
        (!row.is_admissible(), row.overhead_us, place)
    });
    rows
}

fn row(candidate: &Candidate, profile: &Profile, calibration: &Calibration) -> Row {
    let costs = of_program(candidate.kind, profile, calibration);
    let native = &calibration.native;
    let overhead_us = costs.of(profile) / 1_000;
    let alone_us = alone_us(profile, calibration);
    let yes = |yes: bool| if yes { Answer::Yes } else { Answer::No };
    let times = |ns: u64, native: u64| ns.saturating_add(native) <= native.saturating_mul(FREQUENT);
    Row {
        mechanism: candidate.kind,
        hindrances: candidate.hindrances.clone(),
        overhead_us,
        overhead_permille: alone_us.map(|alone| overhead_us.saturating_mul(1_000) / alone.max(1)),
        frequent_calls: yes(times(costs.open_ns, native.open_ns)),
        many_processes: yes(
            costs.process_ns <= native.process_ns / 2 && times(costs.crowd_ns, native.crowd_ns)
        ),
        costs,
    }
}

/// What no library in the guest answers goes the way that it goes under a listener, which is the same or longer: where it
/// was measured to be less, that is the machine's unrest.
fn of_program(kind: MechanismKind, profile: &Profile, calibration: &Calibration) -> Costs {
    let costs = calibration.costs(kind);
    if kind != MechanismKind::Library {
        return costs;
    }
    let asked = calibration.costs(MechanismKind::Notify);
    let inside = |costs: u64, asked: u64| match profile.by_library {
        true => costs,
        false => costs.max(asked),
    };
    Costs {
        start_ns: costs.start_ns.max(asked.start_ns),
        open_ns: inside(costs.open_ns, asked.open_ns),
        look_ns: inside(costs.look_ns, asked.look_ns),
        answer_ns: costs.answer_ns.max(asked.answer_ns),
        pass_ns: costs.pass_ns.max(asked.pass_ns),
        process_ns: costs.process_ns.max(asked.process_ns),
        exec_ns: costs.exec_ns.max(asked.exec_ns),
        crowd_ns: inside(costs.crowd_ns, asked.crowd_ns),
        spread_percent: costs.spread_percent,
    }
}

/// The run that was counted, less what counting it took.
fn alone_us(profile: &Profile, calibration: &Calibration) -> Option<u64> {
    let wall = profile.wall_us?;
    let taken = profile.under.map_or(0, |kind| {
        of_program(kind, profile, calibration).of(profile) / 1_000
    });
    // It took no less than its own processors' time in user mode on one of them, as far as that is known.
    let least = profile.user_us.unwrap_or(0) / profile.at_once.max(1);
    Some(wall.saturating_sub(taken).max(least).min(wall))
}

#[cfg(test)]
mod tests {
    use super::super::profile::Known;
    use super::*;
    use proptest::prelude::*;

    fn candidate(kind: MechanismKind, hindered: bool) -> Candidate {
        let hindrance = Hindrance {
            requirement: Requirement::Machine,
            why: String::new(),
        };
        Candidate {
            kind,
            hindrances: hindered.then_some(hindrance).into_iter().collect(),
        }
    }

    fn pick(admissible: &[MechanismKind], profile: &Profile) -> MechanismKind {
        let all = ORDER.map(|kind| candidate(kind, !admissible.contains(&kind)));
        table(&all, profile, &Calibration::default())[0].mechanism
    }

    #[test]
    fn the_pick_follows_what_is_admissible_and_what_the_program_does() {
        use MechanismKind::{Library, Namespace, Notify, Ptrace};
        let opening = Profile {
            opens: 100_000,
            ..Profile::default()
        };
        let raw = Profile {
            by_library: false,
            ..opening.clone()
        };
        let check = |admissible: &[MechanismKind], profile: &Profile, expected| {
            assert_eq!(
                pick(admissible, profile),
                expected,
                "{admissible:?} {profile:?}"
            );
        };
        check(&ORDER, &opening, Namespace);
        check(&[Library, Notify, Ptrace], &opening, Library);
        check(&[Library, Notify, Ptrace], &raw, Notify);
        check(&[Notify, Ptrace], &opening, Notify);
        check(&[Ptrace], &opening, Ptrace);
        // Of what it does not answer nothing is cheaper under a library, whatever was measured.
        let unrest = Calibration {
            mechanisms: ORDER
                .into_iter()
                .map(|kind| {
                    let more = if kind == Library { 0 } else { 1_000 };
                    let all = Costs {
                        start_ns: more,
                        answer_ns: more,
                        ..Costs::default()
                    };
                    (kind, all)
                })
                .collect(),
            ..Calibration::default()
        };
        let rows = table(
            &[Library, Notify].map(|kind| candidate(kind, false)),
            &Profile {
                answers: 1_000,
                ..Profile::default()
            },
            &unrest,
        );
        assert_eq!(rows[0].mechanism, Notify);
        // What a library costs each program that is executed, and gives back when that opens files.
        let executing = Profile {
            execs: 1_000,
            ..Profile::default()
        };
        check(&[Library, Notify], &executing, Notify);
    }

    #[test]
    fn overhead_is_told_of_the_run_without_what_counting_it_took() {
        let calibration = Calibration::default();
        let profile = Profile {
            known: Known::Counted,
            opens: 1_000,
            under: Some(MechanismKind::Ptrace),
            wall_us: Some(116_500), // 16.5 ms of them ptrace's
            ..Profile::default()
        };
        let rows = table(
            &[candidate(MechanismKind::Notify, false)],
            &profile,
            &calibration,
        );
        assert_eq!(rows[0].overhead_us, 10_800);
        assert_eq!(rows[0].overhead_permille, Some(108));
    }

    fn costs() -> impl Strategy<Value = Costs> {
        prop::array::uniform8(0u64..1_000_000).prop_map(|n| Costs {
            start_ns: n[0],
            open_ns: n[1],
            look_ns: n[2],
            answer_ns: n[3],
            pass_ns: n[4],
            process_ns: n[5],
            exec_ns: n[6],
            crowd_ns: n[7],
            spread_percent: 0,
        })
    }

    fn profile() -> impl Strategy<Value = Profile> {
        let counts = prop::array::uniform6(0u64..100_000);
        (counts, any::<bool>(), any::<bool>()).prop_map(|(n, by_library, wall)| Profile {
            known: Known::Counted,
            opens: n[0],
            looks: n[1],
            answers: n[2],
            passed: Some(n[3]),
            processes: n[4],
            execs: n[5],
            at_once: n[5] % 40,
            by_library,
            under: wall.then_some(MechanismKind::Ptrace),
            wall_us: wall.then_some(n[0]),
            user_us: None,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_pick_is_admissible_if_any_is_and_none_is_cheaper(
            hindered in prop::array::uniform4(any::<bool>()),
            each in prop::array::uniform4(costs()),
            profile in profile(),
        ) {
            let calibration = Calibration {
                mechanisms: ORDER.into_iter().zip(each).collect(),
                ..Calibration::default()
            };
            let all: Vec<Candidate> = ORDER.into_iter().zip(hindered)
                .map(|(kind, hindered)| candidate(kind, hindered))
                .collect();
            let rows = table(&all, &profile, &calibration);
            prop_assert_eq!(rows.len(), ORDER.len());
            prop_assert_eq!(rows[0].is_admissible(), hindered.contains(&false));
            for row in rows.iter().filter(|row| row.is_admissible()) {
                prop_assert!(rows[0].overhead_us <= row.overhead_us);
            }
        }

        #[test]
        fn who_costs_no_more_for_any_work_costs_no_more_for_a_program(
            one in costs(), other in costs(), profile in profile(),
        ) {
            // A crowd's calls are dearer in proportion to what one's cost.
            let alike = |costs: Costs| Costs { crowd_ns: costs.open_ns, ..costs };
            let (one, other) = (alike(one), alike(other));
            if one.at_most(&other) {
                prop_assert!(one.of(&profile) <= other.of(&profile));
            }
        }
    }
}

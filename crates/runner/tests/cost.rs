//! What the mechanism of an attempt cost is told with its end, and what it was chosen by with its start (spec/policy, P86;
//! spec/jobs/runner.md, R22).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Attempt, script};
use kumiko_job::attempt::{AttemptReport, AttemptSpec, Cost, Outcome};
use kumiko_policy::MechanismKind;
use kumiko_sandbox::Machine;

const OPENS: u64 = 40;

fn opening(mechanism: Option<&str>) -> AttemptSpec {
    let text = format!("i=0; while [ $i -lt {OPENS} ]; do : </etc/passwd; i=$((i+1)); done");
    AttemptSpec {
        mechanism: mechanism.map(str::to_owned),
        ..script(&text)
    }
}

/// All that was reported of an attempt that ends well.
fn told(spec: AttemptSpec) -> Vec<AttemptReport> {
    let mut attempt = Attempt::start(spec);
    assert_eq!(attempt.end(), Outcome::Exited { status: 0 });
    std::mem::take(&mut attempt.site.heard)
}

fn cost(reports: &[AttemptReport]) -> Cost {
    let costs: Vec<Cost> = reports
        .iter()
        .filter_map(|report| match report {
            AttemptReport::Cost(cost) => Some(*cost),
            _ => None,
        })
        .collect();
    let before_the_end = reports.get(reports.len() - 2);
    assert!(
        matches!(before_the_end, Some(AttemptReport::Cost(_))),
        "{reports:?}"
    );
    assert_eq!(costs.len(), 1);
    costs[0]
}

#[test]
fn what_was_answered_is_told_with_the_end() {
    let machine = Machine::probe();
    for (kind, answers) in [
        (MechanismKind::Namespace, false),
        (MechanismKind::Notify, true),
        (MechanismKind::Ptrace, true),
    ] {
        if let Err(obstacle) = machine.admits(kind) {
            let name = kind.name();
            eprintln!(
                "SKIP what_was_answered_is_told_with_the_end: missing {name} ({})",
                obstacle.why
            );
            continue;
        }
        let cost = cost(&told(opening(Some(kind.name()))));
        assert!(cost.start_us > 0, "{cost:?}");
        assert_eq!(cost.answered >= OPENS, answers, "{kind:?} {cost:?}");
        assert_eq!(cost.answering_us > 0, answers, "{kind:?} {cost:?}");
    }
}

#[test]
fn the_start_says_what_the_choice_was_made_by() {
    let why = |spec: AttemptSpec| match told(spec).into_iter().next() {
        Some(AttemptReport::Started { why, mechanism, .. }) => (why.join("\n"), mechanism),
        other => panic!("{other:?}"),
    };
    let (chosen, mechanism) = why(opening(None));
    assert!(chosen.contains("predicted to cost"), "{chosen}");
    assert!(chosen.contains("this machine was not measured"), "{chosen}");
    let (named, _) = why(opening(Some(&mechanism)));
    assert!(!named.contains("predicted to cost"), "{named}");
}

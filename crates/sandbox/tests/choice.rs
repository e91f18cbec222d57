//! The choice by measurement (spec/policy, P80 to P87), on this machine: what a supervisor counts of a real program, and
//! what each mechanism is found to cost. No test says how long anything takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use kumiko_policy::choice::{Calibration, Known, Profile};
use kumiko_policy::{MechanismKind, Policy};
use kumiko_sandbox::{
    Evidence, Machine, Measured, OfProgram, Program, calibrate, choose_by, table,
};
use std::path::Path;
use std::time::Duration;

/// Runs a script of `sh` to its end, and says what was counted of it.
fn counted(mechanism: &str, job: &Path, script: &str) -> Option<Profile> {
    let mut room = room_under(mechanism, &Policy::default(), job).unwrap();
    let outcome = run(&mut *room, "/bin/sh", &["-c", script], &[]).unwrap();
    assert_eq!(
        outcome.ended,
        kumiko_sandbox::Ended::Exited(0),
        "{}",
        outcome.stderr
    );
    let cost = room.cost();
    let answered = cost.answered.unwrap_or(0);
    let all = cost.profile.as_ref().map_or(0, |p| p.named() + p.execs);
    assert!(cost.profile.is_none() || all == answered, "{cost:?}");
    assert_eq!(cost.supervisor_cpu.is_some(), mechanism != "namespace");
    cost.profile
}

#[test]
fn what_a_program_asks_for_is_counted_as_it_asks() {
    for mechanism in ["ptrace", "notify"] {
        if machine_for("what_a_program_asks_for_is_counted_as_it_asks", mechanism).is_none() {
            continue;
        }
        let job = Scratch::new();
        std::fs::write(job.0.join("f"), "").unwrap();
        let again = |what: &str| format!("i=0; while [ $i -lt 50 ]; do {what}; i=$((i+1)); done");
        let of = |script: &str| counted(mechanism, &job.0, script).unwrap();
        let nothing = of("i=0; while [ $i -lt 50 ]; do i=$((i+1)); done");
        let check = |what: &str, number: fn(&Profile) -> u64, expected: u64| {
            let more = number(&of(&again(what))) - number(&nothing);
            assert_eq!(more, expected, "{mechanism}: {what}");
        };
        check(": </job/f", |p| p.opens, 50);
        check("[ -e /job/f ]", |p| p.looks, 50);
        check(": >>/job/f", |p| p.answers, 50);
        check("/bin/true", |p| p.execs, 50);
        check("kill -0 $$", Profile::named, 0);
        if mechanism == "ptrace" {
            check("(:)", |p| p.processes, 50);
            check("/bin/true", |p| p.processes, 50);
        }
        assert_eq!(nothing.under.map(MechanismKind::name), Some(mechanism));
        assert_eq!(nothing.at_once, 1);
    }
}

#[test]
fn where_nobody_stands_by_the_guest_nothing_is_counted() {
    for mechanism in ["namespace", "library"] {
        if machine_for(
            "where_nobody_stands_by_the_guest_nothing_is_counted",
            mechanism,
        )
        .is_some()
        {
            let job = Scratch::new();
            assert_eq!(counted(mechanism, &job.0, ":"), None);
        }
    }
}

#[test]
fn each_admitted_mechanism_is_measured_and_what_is_kept_is_gone_by() {
    let machine = Machine::probe();
    let admitted: Vec<MechanismKind> = MechanismKind::ALL
        .into_iter()
        .filter(|kind| *kind != MechanismKind::Auto && machine.admits(*kind).is_ok())
        .collect();
    let job = Scratch::new();
    if admitted.is_empty() {
        eprintln!(
            "SKIP each_admitted_mechanism_is_measured_and_what_is_kept_is_gone_by: missing any mechanism"
        );
        return;
    }
    // No time: as few rounds as there may be.
    let calibration = calibrate(&machine, &job.0, Duration::ZERO, |_| ()).unwrap();
    if std::env::var_os("KUMIKO_SHOW").is_some() {
        eprintln!("{}", calibration.to_text());
    }
    let measured: Vec<MechanismKind> = calibration.mechanisms.keys().copied().collect();
    let mut expected = admitted.clone();
    expected.sort();
    assert_eq!(measured, expected);
    assert!(
        calibration.native.open_ns > 0 && calibration.native.exec_ns > 0,
        "{calibration:?}"
    );
    let kept = Measured::at(job.0.join("kept"));
    kept.keep_calibration(&calibration).unwrap();
    assert_eq!(kept.calibration().unwrap(), calibration);
    let policy = Policy::default();
    let evidence = OfProgram {
        measured: Some(&kept),
        program: Program {
            policy: &policy,
            job_directory: &job.0,
            program: "sh",
            arguments: &[],
            path: None,
        },
    };
    let rows = table(&policy, &machine, &evidence);
    let choice = choose_by(&policy, None, &machine, &evidence).unwrap();
    assert_eq!(choice.mechanism, rows[0].mechanism.name());
    let words = choice.why(&policy, None).join("\n");
    assert!(words.contains("as measured on this machine"), "{words}");
}

struct Given(Calibration, Profile);

impl Evidence for Given {
    fn calibration(&self) -> Calibration {
        self.0.clone()
    }

    fn profile(&self) -> Profile {
        self.1.clone()
    }
}

#[test]
fn an_earlier_run_of_a_program_decides_for_the_next() {
    let job = Scratch::new();
    let kept = Measured::at(job.0.join("kept"));
    let program = job.0.join("own");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    let policy = Policy {
        complete: Some(false),
        ..Policy::default()
    };
    let machine = Machine::assume().without(MechanismKind::Namespace);
    let arguments = ["x".to_owned()];
    let evidence = OfProgram {
        measured: Some(&kept),
        program: Program {
            policy: &policy,
            job_directory: &job.0,
            program: "./own",
            arguments: &arguments,
            path: None,
        },
    };
    let chosen = || choose_by(&policy, None, &machine, &evidence).unwrap();
    let check = |known: Known, mechanism: &str| {
        let choice = chosen();
        assert_eq!(choice.mechanism, mechanism);
        assert_eq!(choice.predicted.unwrap().known, known);
    };
    check(Known::Looked, "library");
    let run = |opens, execs| Profile {
        known: Known::Counted,
        opens,
        execs,
        ..Profile::default()
    };
    // The library is put into each program anew.
    kept.keep_profile(&program, &arguments, &run(10, 5_000))
        .unwrap();
    check(Known::Past, "notify");
    kept.keep_profile(&program, &arguments, &run(900_000, 5_000))
        .unwrap();
    check(Known::Past, "library");
    // Whatever is known, what the policy asks for is kept.
    let strict = Policy {
        complete: None,
        ..policy.clone()
    };
    let opening = Given(Calibration::default(), run(900_000, 0));
    let choice = choose_by(&strict, None, &machine, &opening).unwrap();
    assert_eq!(choice.mechanism, "notify");
}

//! A call with checkpoints whose host is lost: it goes on elsewhere from its last checkpoint, and nobody sees it in the result.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;
mod runners;
mod steps;

use kumiko_e2e::{kill, until};
use routines::Caller;
use serde_json::Value;
use std::path::PathBuf;
use steps::{AT, STEPS, begin, right};

fn caller(test: &str) -> Option<Caller> {
    let person = engines::user("slurm", test)?;
    person.ok(engines::start("slurm").into_iter().chain(["--pilots", "2"]));
    let mut caller = Caller { person };
    caller.make_with_checkpoints(&["steps"]);
    Some(caller)
}

fn started(caller: &Caller, attempts: i64) {
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") == attempts
    });
}

#[test]
fn a_call_whose_runner_and_guest_are_killed_goes_on_elsewhere_and_loses_one_step_at_most() {
    let test =
        "a_call_whose_runner_and_guest_are_killed_goes_on_elsewhere_and_loses_one_step_at_most";
    let Some(caller) = caller(test) else {
        return;
    };
    let call = begin(&caller, "2");
    caller.checkpoints(AT + 1);
    started(&caller, 1);
    // Pilots too: nothing of the host is left.
    let (mut host, runners) = runners::pilots_and_runners(&caller.person);
    host.extend(runners);
    host.push(caller.routine_pid(&[]));
    // None ends another before it is killed itself; without its pilot, Slurm would.
    host.iter().for_each(|pid| kill(*pid, "STOP"));
    host.iter().rev().for_each(|pid| kill(*pid, "KILL"));
    let (last, checkpoint) = right(&caller, call);
    // The one at that step may not have been on the disk yet.
    assert!([AT, AT + 1].contains(&checkpoint), "{checkpoint}");
    assert_eq!(last, STEPS as u64 - (checkpoint - 1));
    assert_eq!(caller.count_in_log("\"planned\""), 2);
    caller.nothing_is_left();
}

/// The folder of a process, away from where its site looks for it.
fn out_of_reach(caller: &Caller) -> PathBuf {
    let (folder, _) = caller.checkpoints(1);
    let away = folder.parent().unwrap().with_file_name("away");
    std::fs::rename(folder, &away).unwrap();
    away
}

#[test]
fn a_call_that_is_lost_with_all_that_its_process_has_goes_on_from_what_it_was_given() {
    const STEPS: [&str; 3] = ["steps/walk", "300", "10000"];
    let test = "a_call_that_is_lost_with_all_that_its_process_has_goes_on_from_what_it_was_given";
    let Some(caller) = caller(test) else {
        return;
    };
    let undisturbed = caller.call(&STEPS);
    let call = caller.begin(&STEPS);
    caller.checkpoints(60);
    started(&caller, 2);
    let first = caller.routine_pid(&[]);
    kill(first, "KILL");
    let second = caller.routine_pid(&[first]);
    started(&caller, 3);
    let (_, mut host) = runners::pilots_and_runners(&caller.person);
    host.push(second);
    host.iter().for_each(|pid| kill(*pid, "STOP"));
    let away = out_of_reach(&caller);
    until("its host is lost", || {
        caller.count_in_log("\"host_lost\"") == 1
    });
    let result = caller.end(call);
    let bits = |result: &Value| result["pi"][0].as_f64().unwrap().to_bits();
    assert_eq!(bits(&result), bits(&undisturbed));
    let told: [u64; 2] = serde_json::from_value(result["told"].clone()).unwrap();
    // As the second began, so does the third.
    let resumed = format!("\"planned\":%\"checkpoint\":%\"number\":{}}}", told[1]);
    assert!(told[0] < 300 && told[1] > 0, "{told:?}");
    assert_eq!(caller.count_in_log(&resumed), 2, "{told:?}");
    assert_eq!(caller.count_in_log("\"bad_checkpoint\""), 0);
    host.iter().rev().for_each(|pid| kill(*pid, "KILL"));
    until("the older process's folder goes", || !away.exists());
    caller.nothing_is_left();
}

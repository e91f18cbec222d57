//! A routine that is half-way when it dies: with the checkpoint library it goes on from there, whatever else dies, and without it from
//! the beginning. How much was lost is counted in steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;
mod steps;

use kumiko_e2e::{dead, until};
use routines::{Caller, lines_are_numbered_once};
use std::path::Path;
use steps::{AT, STEPS, begin, right};

#[test]
fn a_routine_that_is_killed_half_way_goes_on_from_its_last_checkpoint() {
    let caller = Caller::with_checkpoints(&["steps"]);
    let listed = caller.person.ok(["rpc", "list"]);
    assert!(listed.contains("[checkpoint]"), "{listed}");
    let call = begin(&caller, "2");
    caller.checkpoints(AT + 1);
    dead(caller.routine_pid(&[]));
    let (last, checkpoint) = right(&caller, call);
    // At the step where it died it was safe, and it may have died before that was on the disk.
    assert!([AT, AT + 1].contains(&checkpoint), "{checkpoint}");
    assert_eq!(last, STEPS as u64 - (checkpoint - 1));
    let resumed = format!("\"planned\":%\"checkpoint\":{{\"epoch\":1,\"number\":{checkpoint}}}");
    assert_eq!(caller.count_in_log(&resumed), 1);
    caller.nothing_is_left();
}

#[test]
fn files_of_a_routine_go_on_where_they_were() {
    let caller = Caller::with_checkpoints(&["steps"]);
    lines_are_numbered_once(&caller, "steps/number", "50000");
}

#[test]
fn a_routine_that_is_killed_while_there_is_no_site_goes_on_from_its_last_checkpoint() {
    let caller = Caller::with_checkpoints(&["steps"]);
    let call = begin(&caller, "2");
    caller.checkpoints(AT + 1);
    let pid = caller.routine_pid(&[]);
    until("the call is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    caller.kill_and_start_again_after(|| dead(pid));
    let (last, checkpoint) = right(&caller, call);
    assert!([AT, AT + 1].contains(&checkpoint), "{checkpoint}");
    assert_eq!(last, STEPS as u64 - (checkpoint - 1));
    caller.nothing_is_left();
}

#[test]
fn a_torn_checkpoint_is_told_and_the_one_before_is_taken() {
    let caller = Caller::with_checkpoints(&["steps"]);
    let call = begin(&caller, "2");
    let (folder, _) = caller.checkpoints(AT + 1);
    let pid = caller.routine_pid(&[]);
    let mut torn = 0;
    caller.kill_and_start_again_after(|| {
        dead(pid);
        let entries = std::fs::read_dir(&folder).unwrap().flatten();
        let number = |path: &Path| path.file_stem()?.to_str()?.parse::<u64>().ok();
        let paths: Vec<_> = entries.map(|one| one.path()).collect();
        torn = paths.iter().filter_map(|path| number(path)).max().unwrap();
        for path in paths.iter().filter(|path| number(path) == Some(torn)) {
            let bytes = std::fs::read(path).unwrap();
            std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        }
    });
    let (_, checkpoint) = right(&caller, call);
    assert_eq!(checkpoint, torn - 1);
    assert_eq!(caller.count_in_log("\"bad_checkpoint\""), 1);
    caller.nothing_is_left();
}

#[test]
fn a_routine_that_crashes_at_one_point_twice_is_not_tried_for_ever() {
    let caller = Caller::with_checkpoints(&["steps"]);
    let call = begin(&caller, "1");
    let output = call.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("crashed twice alike"), "{said}");
    // The second attempt began at a checkpoint, and came as far.
    assert_eq!(caller.count_in_log("\"planned\""), 2);
    assert_eq!(caller.count_in_log("\"planned\":%\"checkpoint\":"), 1);
    let point = format!("\"crashed\":%\"point\":{}", AT + 1);
    assert_eq!(caller.count_in_log(&point), 2);
    caller.nothing_is_left();
}

#[test]
fn without_the_library_a_routine_begins_anew_from_the_kept_arguments() {
    let caller = Caller::with(&["steps"]);
    let listed = caller.person.ok(["rpc", "list"]);
    assert!(listed.contains("[restart]"), "{listed}");
    // It hangs wherever it begins: the second one is not needed any more.
    let mut call = begin(&caller, "2");
    let first = caller.routine_pid(&[]);
    until("the call is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    dead(first);
    caller.routine_pid(&[first]);
    until("it is planned anew", || {
        caller.count_in_log("\"planned\"") == 2
    });
    assert_eq!(caller.count_in_log("\"checkpoint\""), 0);
    call.kill().unwrap();
    call.wait().unwrap();
}

#[test]
fn a_call_whose_process_and_whose_site_are_killed_has_one_result_and_its_record_tells() {
    const STEPS: u64 = 400;
    let caller = Caller::with_checkpoints(&["steps"]);
    let call = caller.begin(&["steps/walk", &STEPS.to_string(), "10000"]);
    caller.checkpoints(30);
    let first = caller.routine_pid(&[]);
    until("the first is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    let id = caller.open_call();
    dead(first);
    let second = caller.routine_pid(&[first]);
    until("the second is recorded as started", || {
        caller.count_in_log("\"started\"") == 2
    });
    caller.kill_and_start_again();
    let result = caller.end(call);
    let pi = result["pi"][0].as_f64().unwrap();
    assert!((pi - std::f64::consts::PI).abs() < 1e-9, "{pi}");
    let told: [u64; 2] = serde_json::from_value(result["told"].clone()).unwrap();
    let [last, checkpoint] = told;
    // It went on where it was, in the process that the killed site had started.
    assert!(last < STEPS && checkpoint > 0, "{told:?}");
    assert!(!Path::new(&format!("/proc/{first}")).exists() && first != second);
    let record = caller.person.ok(["--output", "json", "rpc", "show", &id]);
    let record: Vec<serde_json::Value> = serde_json::from_str(&record).unwrap();
    let named = |one: &serde_json::Value| match &one["event"] {
        serde_json::Value::String(name) => name.clone(),
        other => other.as_object().unwrap().keys().next().unwrap().clone(),
    };
    let mut names: Vec<String> = record.iter().map(named).collect();
    names.dedup();
    let expected = [
        "invoked",
        "received",
        "planned",
        "started",
        "checkpointed",
        "attempt_ended",
        "planned",
        "started",
        "attempt_ended",
        "acknowledged",
    ];
    assert_eq!(names, expected, "{record:?}");
    let resumed = record.iter().rfind(|one| named(one) == "planned").unwrap();
    let number = &resumed["event"]["planned"]["checkpoint"]["number"];
    assert_eq!(number, checkpoint);
    assert!(record.iter().all(|one| one["at_ms"].is_u64()));
    let text = caller.person.ok(["rpc", "show", &id]);
    let from = format!("from checkpoint {checkpoint} of attempt 1");
    assert!(
        text.contains(&from) && text.contains("was killed: signal 9"),
        "{text}"
    );
    caller.nothing_is_left();
}

#[test]
fn a_routine_that_was_registered_anew_meanwhile_does_not_begin_at_a_state_of_the_old_one() {
    let caller = Caller::with_checkpoints(&["steps"]);
    let call = caller.begin(&["steps/walk", "300", "10000"]);
    caller.checkpoints(30);
    let pid = caller.routine_pid(&[]);
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    let id = caller.open_call();
    caller.kill_and_start_again_after(|| {
        dead(pid);
        let idl = caller.person.home.path().join("steps.idl");
        let text = std::fs::read_to_string(&idl).unwrap();
        let another = text.replace("usleep((unsigned)step_us)", "usleep((unsigned)step_us / 2)");
        assert_ne!(another, text);
        std::fs::write(&idl, another).unwrap();
        caller.gen_and_register("steps", &["--checkpoint"]);
    });
    let result = caller.end(call);
    assert_eq!(result["told"], serde_json::json!([300, 0]));
    let record = caller.person.ok(["rpc", "show", &id]);
    let last = record
        .lines()
        .rfind(|line| line.contains("goes to"))
        .unwrap();
    assert!(last.contains("from the beginning"), "{record}");
    assert!(
        record.contains("could not begin at its checkpoint"),
        "{record}"
    );
}

//! Calls with checkpoints that go on elsewhere because their caller asks for it, and lose nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;
mod runners;
mod steps;

use kumiko_e2e::{alive, kill, until};
use routines::Caller;
use steps::{AT, STEPS, begin, right};

/// A call that hangs at a step, if it is the first that computes it; and its number, and its process.
fn hanging(caller: &Caller) -> (std::process::Child, String, u32) {
    let call = begin(caller, "2");
    caller.checkpoints(AT + 1);
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    (call, caller.open_call(), caller.routine_pid(&[]))
}

/// It went on from its last checkpoint, in one other attempt.
#[track_caller]
fn went_on(caller: &Caller, call: std::process::Child) {
    let (last, checkpoint) = right(caller, call);
    assert!([AT, AT + 1].contains(&checkpoint), "{checkpoint}");
    assert_eq!(last, STEPS as u64 - (checkpoint - 1));
    assert_eq!(caller.count_in_log("\"end\":\"preempted\""), 1);
    assert_eq!(caller.count_in_log("\"planned\""), 2);
}

fn refused(caller: &Caller, id: &str, expected: &str) {
    let output = caller.person.run(["rpc", "migrate", id]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_call_that_migrates_goes_on_from_its_last_checkpoint_in_another_process() {
    let caller = Caller::with_checkpoints(&["steps"]);
    let (call, id, pid) = hanging(&caller);
    let said = caller.person.ok(["rpc", "migrate", &id]);
    assert!(
        said.starts_with(&format!("attempt 1 of call {id} ends")),
        "{said}"
    );
    went_on(&caller, call);
    assert!(!alive(pid));
    let record = caller.person.ok(["rpc", "show", &id]);
    assert!(
        record.contains("attempt 1 is to go on elsewhere, as its caller asked"),
        "{record}"
    );
    refused(&caller, &id, "is not computing");
    caller.nothing_is_left();
}

#[test]
fn a_site_that_is_killed_while_a_call_migrates_has_it_go_on_all_the_same() {
    let caller = Caller::with_checkpoints(&["steps"]);
    let (call, id, pid) = hanging(&caller);
    let (_, runners) = runners::pilots_and_runners(&caller.person);
    // Nothing of it ends before the site does.
    runners.iter().for_each(|pid| kill(*pid, "STOP"));
    caller.person.ok(["rpc", "migrate", &id]);
    assert_eq!(caller.count_in_log("\"migrate_requested\""), 1);
    assert_eq!(caller.count_in_log("\"attempt_ended\""), 0);
    caller.kill_and_start_again_after(|| {
        assert!(alive(pid));
        for pid in runners.iter().map(u32::to_string) {
            // A runner that waits for an attempt goes with its site.
            let goes_on = std::process::Command::new("kill")
                .args(["-CONT", &pid])
                .output();
            goes_on.unwrap();
        }
    });
    went_on(&caller, call);
    until("the older process has ended", || !alive(pid));
    caller.nothing_is_left();
}

#[test]
fn a_call_without_checkpoints_is_left_where_it_is_and_its_caller_hears_why() {
    let caller = Caller::with(&["steps"]);
    let mut call = begin(&caller, "2");
    let pid = caller.routine_pid(&[]);
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    let id = caller.open_call();
    refused(&caller, &id, "makes no checkpoints");
    let (client, _) = id.split_once('-').unwrap();
    refused(&caller, &format!("{client}-99"), "never invoked");
    assert_eq!(caller.count_in_log("\"migrate_requested\""), 0);
    assert!(alive(pid));
    call.kill().unwrap();
    call.wait().unwrap();
}

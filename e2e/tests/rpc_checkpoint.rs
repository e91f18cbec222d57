//! A routine that is half-way when it dies: with the checkpoint library it goes on from there, whatever else dies, and without it from
//! the beginning. How much was lost is counted in steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{kill, until};
use routines::{Caller, npy};
use std::path::Path;
use std::process::Child;

const STEPS: usize = 100;
/// Forty pages, of which a step writes to two: checkpoints are parts, and are made one now and then.
const ELEMENTS: usize = 20_000;
/// Here it dies. Each safe point is a checkpoint, and the first one is at step 0.
const AT: u64 = 40;

fn start() -> Vec<f64> {
    (0u32..)
        .take(ELEMENTS)
        .map(|i| f64::from(i * i % 17))
        .collect()
}

/// What the routine computes.
fn expected() -> Vec<f64> {
    let mut x = start();
    for i in 0..STEPS {
        let from = i * 400 % (ELEMENTS - 400);
        for j in from + 1..from + 400 {
            x[j] = (x[j - 1] + 2.0 * x[j] + x[j + 1]) / 4.0;
        }
    }
    x
}

/// Steps of the process that ended it, and the checkpoint that it began at.
#[track_caller]
fn right(caller: &Caller, call: Child) -> (u64, u64) {
    let result = caller.end(call);
    let back = std::fs::read(caller.person.home.path().join("back.npy")).unwrap();
    let x: Vec<u8> = expected().into_iter().flat_map(f64::to_le_bytes).collect();
    assert!(back.ends_with(&x), "the result is another");
    let told: [u64; 3] = serde_json::from_value(result["told"].clone()).unwrap();
    assert_eq!(told[0], STEPS as u64);
    (told[1], told[2])
}

fn begin(caller: &Caller, how: &str) -> Child {
    let x = caller.file("x.npy", &npy(&[ELEMENTS as u64], &start()));
    let (steps, at) = (STEPS.to_string(), AT.to_string());
    caller.begin(&["steps/relax", &steps, &at, how, &x, "--out", "x=back.npy"])
}

fn dead(pid: u32) {
    kill(pid, "KILL");
    until("it is dead", || {
        !Path::new(&format!("/proc/{pid}")).exists()
    });
}

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

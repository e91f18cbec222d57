//! A call whose result finds no room on its site's disk waits until there is some.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;

use kumiko_e2e::{Person, kill, skip, until};
use routines::{Caller, numpy_is_here};
use serde_json::Value;
use std::fs::{File, remove_file};
use std::time::{Duration, Instant};

/// As much as a site leaves to others (spec/errors.toml, `rpc_no_room`), and what calls need.
const DISK: &str = "size=160m,mode=700";
/// For processes of routines and the log, and not for the result.
const LITTLE_BYTES: u64 = 1 << 20;
/// Bytes of the result are more than that.
const MANY: u32 = 400_000;
/// So often it finds none, and a quarter of a second later that is recorded, then a half, then a whole one (spec/rpc P64).
const TIMES: i64 = 3;
const PAUSES: Duration = Duration::from_millis(250 + 500 + 1000);

/// Behind a result's other bytes, as files are.
const LINES: &str = r#"
import kumiko
from kumiko import Array

@kumiko.routine
def lines(n: int) -> Array[str, "n"]:
    return [f"{i:07}" for i in range(n)]
"#;

const WIDE: &str = "
Module full;
Define wide(IN int n, OUT double x[n])
{
    for (int i = 0; i < n; i++) x[i] = i;
}
";

/// At a site of fork.
fn fork(test: &str) -> Option<Caller> {
    let mut person = Person::new();
    if !person.with_disk(DISK) {
        skip(test, "the right to mount (run as root)");
        return None;
    }
    person.start_site();
    Some(Caller { person })
}

/// What comes back once there is room, by a routine of this file that gives so many.
fn waits_for_room(caller: &Caller, file: &str, source: &str, routine: &str) -> Value {
    caller.person.file(file, source);
    caller.gen_and_register("full", &[]);
    // A process that waits for a call has it before the disk is full, and looks for room when it goes on.
    caller.call(&[routine, "1"]);
    let planned = caller.count_in_log("\"planned\"");
    let pid = caller.routine_pid(&[]);
    kill(pid, "STOP");
    let call = caller.begin(&[routine, &MANY.to_string()]);
    until("the call is planned", || {
        caller.count_in_log("\"planned\"") == planned + 1
    });
    let filler = caller.person.fill_disk();
    let filled = File::options().write(true).open(&filler).unwrap();
    let bytes = filled.metadata().unwrap().len();
    filled.set_len(bytes - LITTLE_BYTES).unwrap();
    // As long as it is open it has what it has.
    drop(filled);
    let begun = Instant::now();
    kill(pid, "CONT");
    until("it finds no room", || {
        caller.count_in_log("\"end\":\"no_space\"") >= TIMES
    });
    let took = begun.elapsed();
    assert!(took >= PAUSES, "after {took:?}");
    remove_file(filler).unwrap();
    let said: Value = serde_json::from_str(&caller.end_text(call)).unwrap();
    assert_eq!(caller.count_in_log("crashed"), 0);
    caller.nothing_is_left();
    said
}

fn is_all_of_wide(said: &Value) {
    let x: Vec<f64> = serde_json::from_value(said["x"].clone()).unwrap();
    assert!((0..MANY).map(f64::from).eq(x), "another result");
}

#[test]
fn a_routine_with_no_room_for_its_result_has_not_crashed_and_is_tried_again_until_there_is() {
    let test =
        "a_routine_with_no_room_for_its_result_has_not_crashed_and_is_tried_again_until_there_is";
    let Some(caller) = fork(test) else {
        return;
    };
    is_all_of_wide(&waits_for_room(&caller, "full.idl", WIDE, "full/wide"));
}

#[test]
fn one_on_a_host_that_has_nothing_of_the_site_neither() {
    let test = "one_on_a_host_that_has_nothing_of_the_site_neither";
    let Some((engine, mut person)) = engines::apart(test) else {
        return;
    };
    assert!(person.with_disk(DISK));
    let carried = ["--landing", "127.0.0.1", "--carry", "--pilots", "1"];
    person.ok(engines::start("slurm").into_iter().chain(carried));
    engines::absent(&engine, &person);
    let caller = Caller { person };
    is_all_of_wide(&waits_for_room(&caller, "full.idl", WIDE, "full/wide"));
}

#[test]
fn one_in_python_with_no_room_for_what_stands_behind_its_result_neither() {
    let test = "one_in_python_with_no_room_for_what_stands_behind_its_result_neither";
    if !numpy_is_here(test) {
        return;
    }
    let Some(caller) = fork(test) else {
        return;
    };
    let said = waits_for_room(&caller, "full.py", LINES, "full/lines");
    let lines: Vec<String> = serde_json::from_value(said["result"].clone()).unwrap();
    let expected = (0..MANY).map(|i| format!("{i:07}"));
    assert!(expected.eq(lines), "another result");
}

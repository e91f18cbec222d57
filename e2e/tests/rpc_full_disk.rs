//! A call whose result finds no room on its site's disk waits until there is some.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{Person, kill, skip, until};
use routines::Caller;
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

const WIDE: &str = "
Module full;
Define wide(IN int n, OUT double x[n])
{
    for (int i = 0; i < n; i++) x[i] = i;
}
";

#[test]
fn a_routine_with_no_room_for_its_result_has_not_crashed_and_is_tried_again_until_there_is() {
    let test =
        "a_routine_with_no_room_for_its_result_has_not_crashed_and_is_tried_again_until_there_is";
    let mut person = Person::new();
    if !person.with_disk(DISK) {
        return skip(test, "the right to mount (run as root)");
    }
    person.start_site();
    let caller = Caller { person };
    caller.person.file("full.idl", WIDE);
    caller.gen_and_register("full", &[]);
    // A process that waits for a call has it before the disk is full, and looks for room when it goes on.
    caller.call(&["full/wide", "1"]);
    let pid = caller.routine_pid(&[]);
    kill(pid, "STOP");
    let call = caller.begin(&["full/wide", &MANY.to_string()]);
    until("the call is planned", || {
        caller.count_in_log("\"planned\"") == 1
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
    let x: Vec<f64> = serde_json::from_value(said["x"].clone()).unwrap();
    assert!((0..MANY).map(f64::from).eq(x), "another result");
    assert_eq!(caller.count_in_log("crashed"), 0);
    caller.nothing_is_left();
}

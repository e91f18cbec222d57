//! C programs that use the interface of the GridRPC standard: the examples of bindings/c are compiled, linked and run. One that fails
//! says on which line, and what the library had to say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compiled;
mod routines;

use kumiko_e2e::{alive, collect, finish, told, until};
use routines::{Caller, library};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Compiles and runs it, and gives what it prints.
#[track_caller]
fn run(caller: &Caller, example: &str) -> String {
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let library = library("libgridrpc.a", "kumiko-capi");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(bindings.join("kumiko"))
        .arg(bindings.join(format!("examples/{example}.c")))
        .arg("-L")
        .arg(&library)
        .args(kumiko_e2e::GRIDRPC_LIBRARIES)
        .args(["-o", example])
        .current_dir(caller.person.home.path());
    let output = finish(&mut cc);
    assert!(output.status.success(), "{}", told(&output));
    let program = format!("./{example}");
    let output = finish(&mut caller.person.program(&program, [""; 0]));
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_example_of_the_c_interface_solves_waits_cancels_and_is_told_its_errors() {
    let caller = Caller::with(&["linpack", "pi", "samples"]);
    let said = run(&caller, "dgesv");
    for line in [
        "dgesv: info 0, x 1.000 2.000 3.000\n",
        "measure: 6 k\n",
        "NULL: -1\n",
        "measure_all: -1 2 -1 -1\n",
        "pi: 3.1",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn a_farm_by_arrays_of_handles_attributes_stacks_and_threads_has_the_same_results() {
    let caller = Caller::with(&["pi", "samples", "callback"]);
    let said = run(&caller, "farm");
    for line in [
        "one line: 42\n",
        "its port, sum 3\n",
        "stages: as long as it slept, asked 5 times\n",
        "limits: 152 steps, the session took too long\n",
        "threads: the same\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
    caller.nothing_is_left();
}

/// A program that is here, by its name.
#[track_caller]
fn here(caller: &Caller, name: &str, words: &[&str]) -> Command {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled");
    compiled::compile(caller, &here.join(format!("{name}.c")), name);
    caller.person.program(&format!("./{name}"), words)
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn run_here(caller: &Caller, name: &str, words: &[&str]) -> String {
    printed(&finish(&mut here(caller, name, words)))
}

/// With the routines of `compiled/fill.idl`.
fn with_fill(names: &[&str]) -> Caller {
    let caller = Caller::with(names);
    let idl = include_str!("compiled/fill.idl");
    caller.person.file("fill.idl", idl);
    caller.gen_and_register("fill", &[]);
    caller
}

#[test]
fn older_spellings_mean_the_same_and_what_is_not_built_is_refused_by_name() {
    let caller = Caller::with(&["samples"]);
    let said = run_here(&caller, "older", &[]);
    assert_eq!(said, "older: all the same\n");
}

#[test]
fn a_handler_of_signals_calls_the_library_and_what_was_there_before_comes_back() {
    let caller = Caller::with(&["samples"]);
    let said = run_here(&caller, "signals", &[]);
    assert_eq!(said, "signals: cancelled, and as before\n");
}

#[test]
fn arguments_and_results_that_stand_still_fail_their_session_by_a_timeout() {
    let caller = with_fill(&["samples"]);
    let site = caller.person.site_pid().to_string();
    let said = run_here(&caller, "transfers", &[&site]);
    assert_eq!(said, "transfers: too long, and told so\n");
    caller.nothing_is_left();
}

#[test]
fn big_results_need_no_room_besides_their_arrays_and_never_touch_what_goes_in() {
    let caller = with_fill(&[]);
    let said = run_here(&caller, "outputs", &[]);
    assert_eq!(said, "outputs: where they belong, and once\n");
    caller.nothing_is_left();
}

#[test]
fn a_routine_that_asks_is_told_that_its_call_was_cancelled_and_ends_when_it_returns() {
    let caller = with_fill(&[]);
    caller.has_all_recorded();
    let mut program = here(&caller, "cancelled", &[]);
    let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = program.spawn().unwrap();
    let take = |name| {
        let mut note = None;
        until(name, || {
            note = caller.in_a_worker(name);
            note.is_some()
        });
        std::fs::remove_file(note.unwrap()).unwrap();
    };
    let let_it_return = || {
        take("asked");
        let pid = caller.routine_pids(1, &[]);
        caller.file("computes", b"");
        take("told");
        pid
    };
    let pid = let_it_return();
    let_it_return(); // of one that is waited for while another thread cancels it
    assert_eq!(
        printed(&collect(program)),
        "cancelled: and another is not\n"
    );
    assert_eq!(
        caller.count_in_log("\"finished\""),
        2,
        "the cancelled ones have no result"
    );
    assert!(!alive(pid[0]));
    caller.nothing_is_left();
}

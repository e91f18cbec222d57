//! C programs that use the interface of the GridRPC standard: the examples of bindings/c are compiled, linked and run. One that fails
//! says on which line, and what the library had to say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{finish, told};
use routines::{Caller, library};
use std::path::Path;
use std::process::Command;

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
        .args(["-lgridrpc", "-lssl", "-lcrypto", "-lpthread", "-ldl", "-lm"])
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

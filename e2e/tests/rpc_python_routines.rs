//! Routines in Python, with numpy: made, registered, called from the command line and from Python, and their errors. Not here: routines
//! of C, and what is alike for both (rpc.rs).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{told, until};
use routines::{Caller, npy, numpy_is_here, python};
use serde_json::json;
use std::path::Path;

#[test]
fn functions_of_python_are_routines_as_others_and_their_process_stays() {
    if !numpy_is_here("functions_of_python_are_routines_as_others_and_their_process_stays") {
        return;
    }
    let caller = Caller::with(&["matrices"]);
    let person = &caller.person;
    let listed = person.ok(["rpc", "list"]);
    let solve = "matrices/solve(IN long n, IN double a[n][n], IN double b[n], OUT double x[n], OUT double rest[1])";
    assert!(listed.contains(solve), "{listed}");
    assert!(listed.contains("Solves a x = b, and says"), "{listed}");

    let a = caller.file("a.npy", &npy(&[2, 2], &[2.0, 0.0, 0.0, 4.0]));
    let b = caller.file("b.npy", &npy(&[2], &[2.0, 2.0]));
    let solved = caller.call(&["matrices/solve", &a, &b]);
    assert_eq!(solved["x"], json!([1.0, 0.5]));
    until("a process has its second call", || {
        caller.call(&["matrices/wait", "0"])["result"][0].as_u64() >= Some(2)
    });
    std::fs::write(person.home.path().join("more.txt"), "Abba").unwrap();
    let counted = caller.call(&["matrices/letters", "bacca", "more.txt"]);
    assert_eq!(counted["result"], json!([9]));
    let counts: Vec<_> = counted["counts"].as_array().unwrap()[..3].to_vec();
    assert_eq!(json!(counts), json!([4, 3, 2]));

    // What it raises: its name and where, and the process has the next call all the same.
    let zeros = caller.file("zeros.npy", &npy(&[2, 2], &[0.0; 4]));
    let failed = person.run(["rpc", "call", "matrices/solve", &zeros, &b]);
    assert_eq!(failed.status.code(), Some(1), "{}", told(&failed));
    let said = String::from_utf8(failed.stderr).unwrap();
    for part in [
        "ended by numpy.linalg.LinAlgError: Singular matrix",
        "in solve: x = numpy.linalg.solve(a, b)",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(caller.call(&["matrices/solve", &a, &b]), solved);
    caller.nothing_is_left();
}

#[test]
fn python_calls_what_is_written_in_python() {
    if !numpy_is_here("python_calls_what_is_written_in_python") {
        return;
    }
    let caller = Caller::with(&["matrices"]);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/python/tests/routines.py");
    let output = python(&caller, &[tests.to_str().unwrap(), "-v"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", told(&output));
    caller.nothing_is_left();
}

#[test]
fn a_site_that_dies_finds_a_routine_in_python_again() {
    if !numpy_is_here("a_site_that_dies_finds_a_routine_in_python_again") {
        return;
    }
    let caller = Caller::with(&["matrices"]);
    let call = caller.begin(&["matrices/wait", "3"]);
    until("the call is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    caller.kill_and_start_again();
    assert_eq!(caller.end(call)["result"], json!([1]));
    assert_eq!(caller.count_in_log("\"planned\""), 1);
    caller.nothing_is_left();
}

#[test]
fn a_function_that_cannot_be_a_routine_is_refused_by_its_argument() {
    let person = kumiko_e2e::Person::new();
    let rows = [
        ("def f(x): pass", "f, x: it has no annotation"),
        ("def f(*x: int): pass", "f, x: a routine takes as many"),
        ("def f(x: list): pass", "f, x: no routine takes list"),
        ("def f() -> str: pass", "f, result: no routine returns str"),
        ("def f(IN: int): pass", "the signature of a routine"),
        ("import nowhere\ndef f(): pass", "No module named 'nowhere'"),
    ];
    for (function, says) in rows {
        let (before, function) = function.rsplit_once('\n').unwrap_or(("", function));
        let text = format!("import kumiko\n{before}\n@kumiko.routine\n{function}\n");
        person.file("wrong.py", &text);
        let failed = person.run(["rpc", "gen", "wrong.py"]);
        let said = told(&failed);
        assert_eq!(failed.status.code(), Some(1), "{said}");
        assert!(said.contains(says), "{function}: {said}");
        assert!(!person.home.path().join("wrong.f").exists());
    }
    person.file("none.py", "def f(): pass\n");
    let failed = told(&person.run(["rpc", "gen", "none.py"]));
    assert!(failed.contains("none.py has no routines"), "{failed}");
}

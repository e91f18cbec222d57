//! Routines in Python, with numpy: made, registered, called from the command line and from Python, and their errors. Not here: routines
//! of C, and what is alike for both (rpc.rs).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{kill, told, until};
use routines::{Caller, npy, numpy_is_here, python};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

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

const STEPS: usize = 100;

/// What walks/relax makes of this.
fn relaxed(mut x: Vec<f64>) -> Vec<f64> {
    for i in 0..STEPS {
        let start = i * 40 % (x.len() - 40);
        let before = x.clone();
        for j in start + 1..start + 40 {
            x[j] = (before[j - 1] + 2.0 * before[j] + before[j + 1]) / 4.0;
        }
    }
    x
}

#[test]
fn a_routine_in_python_that_is_killed_half_way_goes_on_from_its_last_checkpoint() {
    if !numpy_is_here(
        "a_routine_in_python_that_is_killed_half_way_goes_on_from_its_last_checkpoint",
    ) {
        return;
    }
    let caller = Caller::with_checkpoints(&["walks"]);
    let listed = caller.person.ok(["rpc", "list"]);
    assert_eq!(listed.matches("[checkpoint]").count(), 6, "{listed}");
    let start: Vec<f64> = (0u32..400).map(|i| f64::from(i * i % 17)).collect();
    let x = caller.file("x.npy", &npy(&[400], &start));
    let steps = STEPS.to_string();
    let call = caller.begin(&["walks/relax", &x, &steps, "0.05", "--out", "x=back.npy"]);
    caller.checkpoints(20);
    kill(caller.routine_pid(&[]), "KILL");
    let result = caller.end(call);
    let back = std::fs::read(caller.person.home.path().join("back.npy")).unwrap();
    let expected: Vec<u8> = relaxed(start)
        .into_iter()
        .flat_map(f64::to_le_bytes)
        .collect();
    assert!(back.ends_with(&expected), "the result is another");
    let told = |name: &str| result[name][0].as_u64().unwrap();
    assert_eq!(told("passed"), STEPS as u64);
    assert!(told("began_at") >= 19, "{result}");
    // The first safe point is before the first step, and the one of a checkpoint is not passed again.
    assert_eq!(told("of_the_last"), STEPS as u64 - (told("began_at") - 1));
    assert_eq!(caller.count_in_log("\"planned\":%\"checkpoint\":"), 1);
    caller.nothing_is_left();

    // Files that it reads and writes go on where they were.
    routines::lines_are_numbered_once(&caller, "walks/number", "0.05");
}

#[test]
fn a_routine_in_python_takes_files_and_gives_some_back() {
    if !numpy_is_here("a_routine_in_python_takes_files_and_gives_some_back") {
        return;
    }
    let caller = Caller::with(&["walks"]);
    let home = caller.person.home.path();
    let mut log = String::new();
    std::fs::write(home.join("log"), &log).unwrap();
    for (times, durability) in [(0, "full"), (1, "none"), (1, "record"), (100_000, "full")] {
        let content = "what goes in, ".repeat(times);
        std::fs::write(home.join("in.txt"), &content).unwrap();
        let words = [
            "walks/upper",
            "in.txt",
            "log",
            "--out",
            "to=out.txt",
            "--durability",
            durability,
        ];
        let result = caller.call(&words);
        assert_eq!(
            result["result"],
            json!([content.len()]),
            "{times} {durability}"
        );
        let came = std::fs::read_to_string(home.join("out.txt")).unwrap();
        assert!(came == content.to_uppercase(), "{times} {durability}");
        log.push_str(&format!("{}\n", content.len()));
        assert_eq!(std::fs::read_to_string(home.join("log")).unwrap(), log);
    }
    caller.nothing_is_left();
}

#[test]
fn a_routine_in_python_asks_its_caller_once_whatever_dies() {
    if !numpy_is_here("a_routine_in_python_asks_its_caller_once_whatever_dies") {
        return;
    }
    for with_checkpoints in [false, true] {
        let caller = match with_checkpoints {
            false => Caller::with(&["walks"]),
            true => Caller::with_checkpoints(&["walks"]),
        };
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/python/tests/walks.py");
        let tests = tests.to_str().unwrap();
        let output = python(&caller, &[tests, "-v"]).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));

        let counting = python(&caller, &[tests, "count"])
            .stdout(Stdio::piped())
            .spawn();
        let mut counting = counting.unwrap();
        let mut lines = BufReader::new(counting.stdout.take().unwrap()).lines();
        let mut tells = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                assert_eq!(lines.next().unwrap().unwrap(), format!("tell {number}"));
            }
        };
        tells(0..15);
        kill(caller.routine_pid(&[]), "KILL");
        tells(15..30);
        caller.kill_and_start_again();
        tells(30..50);
        assert_eq!(lines.next().unwrap().unwrap(), "sum 1275");
        assert!(counting.wait().unwrap().success());
        let resumed = caller.count_in_log("\"planned\":%\"checkpoint\":");
        assert_eq!(resumed > 0, with_checkpoints);
        caller.nothing_is_left();
    }
}

#[test]
fn a_function_that_cannot_be_a_routine_is_refused_by_its_argument() {
    let person = kumiko_e2e::Person::new();
    let rows = [
        ("def f(x): pass", "f, x: it has no annotation"),
        ("def f(*x: int): pass", "f, x: a routine takes as many"),
        ("def f(x: list): pass", "f, x: no routine takes list"),
        (
            "def f() -> bytes: pass",
            "f, result: no routine returns bytes",
        ),
        ("def f(IN: int): pass", "the signature of a routine"),
        (
            "from typing import Callable\ndef f(g: Callable): pass",
            "f, g: what the function takes has to be said",
        ),
        (
            "from typing import Callable\ndef f(g: Callable[[kumiko.Array[__import__(\"pathlib\").Path, \"n\"]], int]): pass",
            "f, g: a function of the caller's takes numbers, arrays, texts and files, and gives",
        ),
        (
            "def f() -> kumiko.Out[__import__(\"pathlib\").Path]: pass",
            "f, result: no routine returns",
        ),
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

//! Python calls routines: numpy's arrays in and out, futures, asyncio, exceptions; a program that dies leaves a result to the next.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{finish, kumiko, skip, told};
use routines::Caller;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian's own, whose packages ./x installs.
const PYTHON: &str = "/usr/bin/python3";

/// The folder of the package: named by KUMIKO_PYTHON, else beside the programs under test.
fn package() -> PathBuf {
    let named = std::env::var_os("KUMIKO_PYTHON").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| kumiko().parent().unwrap().join("python"));
    assert!(
        folder.join("kumiko/_kumiko.abi3.so").exists(),
        "{} has no package kumiko: ./x build --dev",
        folder.display()
    );
    folder
}

/// False: said, and skipped.
fn here(test: &str) -> bool {
    let numpy = Command::new(PYTHON).args(["-c", "import numpy"]).output();
    if numpy.is_ok_and(|output| output.status.success()) {
        return true;
    }
    skip(test, "numpy (Debian package python3-numpy)");
    false
}

fn python(caller: &Caller, arguments: &[&str]) -> Command {
    let mut command = caller.person.program(PYTHON, arguments);
    command
        .env("PYTHONPATH", package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    command
}

#[test]
fn arrays_go_in_and_come_back_and_whatever_is_wrong_is_an_exception() {
    if !here("arrays_go_in_and_come_back_and_whatever_is_wrong_is_an_exception") {
        return;
    }
    let caller = Caller::with(&["linpack", "pi", "samples"]);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/python/tests/calls.py");
    let output = finish(&mut python(&caller, &[tests.to_str().unwrap(), "-v"]));
    assert!(output.status.success(), "{}", told(&output));
    caller.nothing_is_left();
}

#[test]
fn a_python_program_that_is_killed_leaves_its_result_to_the_next() {
    if !here("a_python_program_that_is_killed_leaves_its_result_to_the_next") {
        return;
    }
    let caller = Caller::with(&["samples"]);
    let begin = "import kumiko, numpy\n\
                 kumiko.rpc('samples/slow')(100, 10000, numpy.array([5]))";
    let mut program = python(&caller, &["-c", begin]).spawn().unwrap();
    caller.routine_pid(&[]);
    program.kill().unwrap();
    program.wait().unwrap();
    let attach = "import kumiko\n\
                  call, = kumiko.connect().open_calls()\n\
                  print(kumiko.attach(call).result(60).tolist())";
    let output = finish(&mut python(&caller, &["-c", attach]));
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "[105]\n");
    caller.nothing_is_left();
}

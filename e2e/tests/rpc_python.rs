//! Python calls routines: numpy's arrays in and out, futures, asyncio, exceptions. Not here: a client that dies (rpc.rs).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{kumiko, skip, told};
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
    let caller = Caller::with(&["linpack", "pi", "samples", "callback", "files"]);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/python/tests/calls.py");
    // It has a deadline of its own, and says where it hangs.
    let output = python(&caller, &[tests.to_str().unwrap(), "-v"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", told(&output));
    caller.nothing_is_left();
}

//! The package for Python as a wheel: built by maturin, installed where nothing of this tree is in reach, and used. It fetches maturin,
//! so it is for `./x test --all`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{skip, told};
use routines::{Caller, PYTHON, numpy_is_here};
use std::path::Path;
use std::process::{Command, Stdio};

const TEST: &str = "a_wheel_is_built_installed_and_calls";

#[track_caller]
fn done(command: &mut Command) {
    // Without a deadline: it compiles.
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", told(&output));
}

#[test]
#[ignore = "fetches maturin from PyPI, and compiles the package once more"]
fn a_wheel_is_built_installed_and_calls() {
    let ensurepip = Command::new(PYTHON)
        .args(["-c", "import ensurepip"])
        .output();
    if !ensurepip.is_ok_and(|output| output.status.success()) {
        return skip(TEST, "ensurepip (Debian package python3-venv)");
    }
    if !numpy_is_here(TEST) {
        return;
    }
    let caller = Caller::with(&["matrices"]);
    let home = caller.person.home.path();
    let (tools, venv) = (home.join("tools"), home.join("venv"));
    done(Command::new(PYTHON).args(["-m", "venv"]).arg(&tools));
    let maturin = ["install", "-q", "maturin>=1.7,<2"];
    done(Command::new(tools.join("bin/pip")).args(maturin));
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/python");
    done(
        Command::new(tools.join("bin/maturin"))
            .args(["build", "-q", "--profile", "dev", "--interpreter", PYTHON])
            .arg("--out")
            .arg(home.join("wheels"))
            .current_dir(&package),
    );
    let wheels: Vec<_> = std::fs::read_dir(home.join("wheels"))
        .unwrap()
        .map(|one| one.unwrap().path())
        .collect();
    assert_eq!(wheels.len(), 1, "{wheels:?}");
    let name = wheels[0].file_name().unwrap().to_str().unwrap();
    assert!(
        name.contains("-cp311-abi3-") && name.ends_with(".whl"),
        "{name}"
    );

    // numpy is the system's, kumiko its own.
    let options = ["-m", "venv", "--system-site-packages"];
    done(Command::new(PYTHON).args(options).arg(&venv));
    let install = ["install", "-q", "--no-index", "--no-deps"];
    done(
        Command::new(venv.join("bin/pip"))
            .args(install)
            .arg(&wheels[0]),
    );
    let tests = package.join("tests/routines.py");
    let python = venv.join("bin/python");
    let mut run = caller.person.program(python.to_str().unwrap(), [""; 0]);
    done(run.arg(tests).arg("-v"));
    caller.nothing_is_left();
}

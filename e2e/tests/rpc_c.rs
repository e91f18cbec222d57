//! A C program that uses the interface of the GridRPC standard: the example of bindings/c is compiled, linked and run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{finish, told};
use routines::{Caller, library};
use std::path::Path;
use std::process::Command;

#[test]
fn the_example_of_the_c_interface_solves_waits_cancels_and_is_told_its_errors() {
    let caller = Caller::with(&["linpack", "pi", "samples"]);
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let library = library("libgridrpc.a", "kumiko-capi");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(bindings.join("kumiko"))
        .arg(bindings.join("examples/dgesv.c"))
        .arg("-L")
        .arg(&library)
        .args([
            "-lgridrpc",
            "-lssl",
            "-lcrypto",
            "-lpthread",
            "-ldl",
            "-lm",
            "-o",
            "dgesv",
        ])
        .current_dir(caller.person.home.path());
    let output = finish(&mut cc);
    assert!(output.status.success(), "{}", told(&output));
    let output = finish(&mut caller.person.program("./dgesv", [""; 0]));
    assert!(output.status.success(), "{}", told(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("dgesv: info 0, x 1.000 2.000 3.000\n"),
        "{said}"
    );
    assert!(
        said.contains("measure: 6 k\n") && said.contains("NULL: -1\n"),
        "{said}"
    );
    assert!(said.contains("pi: 3.1"), "{said}");
}

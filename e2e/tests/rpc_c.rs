//! A C program that uses the interface of the GridRPC standard: the example of bindings/c is compiled, linked and run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{finish, kumiko, told};
use routines::Caller;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of libgridrpc.a: named by KUMIKO_LIB, else that of the programs under test.
fn library() -> PathBuf {
    let named = std::env::var_os("KUMIKO_LIB").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| kumiko().parent().unwrap().to_path_buf());
    assert!(
        folder.join("libgridrpc.a").exists(),
        "{} has no libgridrpc.a: cargo build -p kumiko-capi",
        folder.display()
    );
    folder
}

#[test]
fn the_example_of_the_c_interface_solves_waits_cancels_and_is_told_its_errors() {
    let caller = Caller::with(&["linpack", "pi", "samples"]);
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let library = library();
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

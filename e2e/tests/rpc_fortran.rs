//! A Fortran program that calls routines: the example of bindings/fortran is compiled, linked and run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{finish, kumiko, skip, told};
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
fn a_fortran_program_solves_and_farms_out_tasks() {
    if Command::new("gfortran").arg("--version").output().is_err() {
        return skip("a_fortran_program_solves_and_farms_out_tasks", "gfortran");
    }
    let caller = Caller::with(&["linpack", "pi", "samples"]);
    let fortran = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/fortran");
    let mut compiler = Command::new("gfortran");
    compiler
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .arg(fortran.join("gridrpc.f90"))
        .arg(fortran.join("examples/dgesv.f90"))
        .arg("-L")
        .arg(library())
        .args(kumiko_e2e::GRIDRPC_LIBRARIES)
        .args(["-o", "dgesv"])
        .current_dir(caller.person.home.path());
    let output = finish(&mut compiler);
    assert!(output.status.success(), "{}", told(&output));
    let output = finish(&mut caller.person.program("./dgesv", [""; 0]));
    assert!(output.status.success(), "{}", told(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("dgesv: info 0, x  1.000  2.000  3.000\n"),
        "{said}"
    );
    let widths = "widths:          -1.0        -300.0       70000.0  5000000000.0  0.50 -2.25\n";
    assert!(said.contains(widths), "{said}");
    assert!(said.contains("pi: 3.1"), "{said}");
}

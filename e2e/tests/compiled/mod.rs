//! Programs in C that call routines, compiled in their caller's folder. Not here: what they do.
#![allow(dead_code)] // each scenario uses a part

use crate::routines::{Caller, library};
use kumiko_e2e::{finish, told};
use std::path::Path;
use std::process::Command;

/// An example of bindings/c, by its name.
pub fn example(caller: &Caller, name: &str) {
    let file = format!("{name}.c");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c/examples");
    compile(caller, &examples.join(file), name);
}

/// The example whose functions do some of the work of `callback/*`, which are registered.
#[track_caller]
pub fn calls_back(caller: &Caller) {
    example(caller, "callback");
    let output = finish(&mut caller.person.program("./callback", [""; 0]));
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "roots 1.414214 1.732051 2.000000, as often as said\nword 0: to\nword 1: be\nword 2: none\n4 letters\n"
    );
}

#[track_caller]
pub fn compile(caller: &Caller, source: &Path, name: &str) {
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(bindings.join("kumiko"))
        .arg(source)
        .arg("-L")
        .arg(library("libgridrpc.a", "kumiko-capi"))
        .args(kumiko_e2e::GRIDRPC_LIBRARIES)
        .args(["-o", name])
        .current_dir(caller.person.home.path());
    let output = finish(&mut cc);
    assert!(output.status.success(), "{}", told(&output));
}

//! Fortran: a program that calls routines (the example of bindings/fortran), and a routine that goes on from its checkpoints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{finish, kill, skip, told};
use routines::{Caller, library, npy};
use std::path::Path;
use std::process::Command;

fn fortran_is_here(test: &str) -> bool {
    let here = Command::new("gfortran").arg("--version").output().is_ok();
    if !here {
        skip(test, "gfortran");
    }
    here
}

/// An example, compiled behind what it uses, and registered.
fn routine(caller: &Caller, name: &str, uses: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let home = caller.person.home.path();
    let idl = format!("{name}.idl");
    std::fs::copy(root.join("examples/rpc").join(&idl), home.join(&idl)).unwrap();
    let mut compiler = Command::new("gfortran");
    compiler
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-c"])
        .args(uses.iter().map(|file| root.join(file)))
        .arg(root.join(format!("examples/rpc/{name}.f90")));
    let output = finish(compiler.current_dir(home));
    assert!(output.status.success(), "{}", told(&output));
    caller.gen_and_register(name, &[]);
}

#[test]
fn a_routine_in_fortran_has_functions_of_its_caller_do_some_of_the_work() {
    if !fortran_is_here("a_routine_in_fortran_has_functions_of_its_caller_do_some_of_the_work") {
        return;
    }
    let caller = Caller::with(&[]);
    routine(&caller, "area", &[]);
    // Exact for a polynomial of the third degree.
    let script = "import kumiko\nprint(kumiko.rpc('area/simpson')(0, 2, 3, lambda x: x**3 + 1, lambda text: print(repr(text))))";
    let output = finish(&mut routines::python_of(&caller.person, &["-c", script]));
    let said = told(&output);
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let (text, area) = printed.trim_end().split_once('\n').unwrap();
    assert_eq!(text, "'3 panels, 7 values'");
    let area: f64 = area.parse().unwrap();
    assert!((area - 6.0).abs() < 1e-12, "{said}");
}

#[test]
fn a_routine_in_fortran_that_is_killed_half_way_goes_on_where_it_and_its_file_were() {
    if !fortran_is_here(
        "a_routine_in_fortran_that_is_killed_half_way_goes_on_where_it_and_its_file_were",
    ) {
        return;
    }
    let caller = Caller::with_checkpoints(&[]);
    routine(&caller, "heat", &["bindings/fortran/kumiko_ckpt.f90"]);
    let home = caller.person.home.path();
    let mut expected: Vec<f64> = (0u32..2000).map(|i| f64::from(i * i % 17)).collect();
    let u = caller.file("u.npy", &npy(&[2000], &expected));
    let call = caller.begin(&["heat/heat", "60", "50000", &u, "--out", "u=back.npy"]);
    caller.checkpoints(20);
    kill(caller.routine_pid(&[]), "KILL");
    let result = caller.end(call);
    let [steps, last, began_at]: [u64; 3] = serde_json::from_value(result["told"].clone()).unwrap();
    assert!(steps == 60 && began_at >= 19, "{result}");
    assert_eq!(last, 60 - (began_at - 1));
    for step in 0..60 {
        let from = step * 400 % 1600;
        for j in from + 1..from + 400 {
            expected[j] = (expected[j - 1] + 2.0 * expected[j] + expected[j + 1]) / 4.0;
        }
    }
    let back = std::fs::read(home.join("back.npy")).unwrap();
    let expected: Vec<u8> = expected.into_iter().flat_map(f64::to_le_bytes).collect();
    assert!(back.ends_with(&expected), "the result is another");
    caller.nothing_is_left();
}

/// An example, compiled and run; what it prints.
fn example(caller: &Caller, name: &str) -> String {
    let fortran = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/fortran");
    let mut compiler = Command::new("gfortran");
    compiler
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .arg(fortran.join("gridrpc.f90"))
        .arg(fortran.join(format!("examples/{name}.f90")))
        .arg("-L")
        .arg(library("libgridrpc.a", "kumiko-capi"))
        .args(kumiko_e2e::GRIDRPC_LIBRARIES)
        .args(["-o", name])
        .current_dir(caller.person.home.path());
    let output = finish(&mut compiler);
    assert!(output.status.success(), "{}", told(&output));
    let output = finish(&mut caller.person.program(&format!("./{name}"), [""; 0]));
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_fortran_program_solves_and_farms_out_tasks() {
    if !fortran_is_here("a_fortran_program_solves_and_farms_out_tasks") {
        return;
    }
    let said = example(&Caller::with(&["linpack", "pi", "samples"]), "dgesv");
    for words in [
        "no routine linpack/none is registered here; ",
        "dgesv: info 0, x  1.000  2.000  3.000\n",
        "widths:          -1.0        -300.0       70000.0  5000000000.0  0.50 -2.25\n",
        "pi: 3.1",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
}

#[test]
fn functions_of_a_fortran_program_do_some_of_the_work() {
    if !fortran_is_here("functions_of_a_fortran_program_do_some_of_the_work") {
        return;
    }
    let said = example(&Caller::with(&["callback"]), "callback");
    assert_eq!(
        said,
        "roots 1.414214 1.732051 2.000000, as often as said: T\nword 0 has 2 letters\nword 1 has 2 letters\n4 letters\n"
    );
}

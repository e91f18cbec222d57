//! The iterative solver among the examples: it solves, tells its caller how far it is, and refuses by name what is no matrix. Not here:
//! what happens when it dies (rpc_checkpoint.rs).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::told;
use routines::{Caller, npy, npy_of_whole, numpy_is_here, python};
use serde_json::json;
use std::path::Path;

/// (-1 2 -1) of so many rows, by rows, and what it makes of 1, 2, 3, ...: zeros, but for the last.
fn line(n: i64) -> (Vec<i64>, Vec<i64>, Vec<f64>, Vec<f64>) {
    let (mut first, mut column, mut value) = (vec![0], Vec::new(), Vec::new());
    for i in 0..n {
        for k in (i - 1).max(0)..=(i + 1).min(n - 1) {
            column.push(k);
            value.push(if k == i { 2. } else { -1. });
        }
        first.push(column.len() as i64);
    }
    let mut b = vec![0.; n as usize];
    b[n as usize - 1] = n as f64 + 1.;
    (first, column, value, b)
}

#[test]
fn conjugate_gradients_solve_and_what_is_no_matrix_is_refused_by_name() {
    let caller = Caller::with(&["solver"]);
    let n = 50;
    let (first, column, value, b) = line(n);
    let whole = |name, data: &[i64]| caller.file(name, &npy_of_whole(&[data.len() as u64], data));
    let real = |name, data: &[f64]| caller.file(name, &npy(&[data.len() as u64], data));
    let first_file = whole("first.npy", &first);
    let column_file = whole("column.npy", &column);
    let value_file = real("value.npy", &value);
    let b_file = real("b.npy", &b);
    let x_file = real("x.npy", &vec![0.; n as usize]);
    let mut words = vec!["solver/cg", &first_file, &column_file, &value_file, &b_file];
    words.extend([x_file.as_str(), "1e-12", "1000"]);
    let solved = caller.call(&words);
    let x = solved["x"].as_array().unwrap();
    for (i, found) in x.iter().enumerate() {
        let expected = i as f64 + 1.;
        assert!(
            (found.as_f64().unwrap() - expected).abs() < 1e-8,
            "{solved}"
        );
    }
    // In exact arithmetic in as many steps as there are rows.
    assert!(solved["steps"][0].as_i64().unwrap() <= n + 1, "{solved}");

    let mut beyond = column.clone();
    beyond[7] = n;
    let beyond_file = whole("beyond.npy", &beyond);
    let downhill: Vec<f64> = value.iter().map(|one| -one).collect();
    let downhill_file = real("downhill.npy", &downhill);
    for (column, value, says) in [
        (
            &beyond_file,
            &value_file,
            "ended by BadMatrix: row 2 has an element in column 50 of 50",
        ),
        (
            &column_file,
            &downhill_file,
            "ended by NotPositiveDefinite: a direction",
        ),
    ] {
        let mut words = vec![
            "rpc",
            "call",
            "solver/cg",
            &first_file,
            column,
            value,
            &b_file,
        ];
        words.extend([x_file.as_str(), "1e-12", "1000"]);
        let failed = told(&caller.person.run(words));
        assert!(failed.contains(says), "{failed}");
    }
    // Its process is there for the next.
    assert_eq!(caller.call(&words)["steps"], solved["steps"]);
    assert_eq!(json!(x.len()), json!(n));
    caller.nothing_is_left();
}

#[test]
fn a_solver_tells_its_caller_how_far_it_is() {
    if !numpy_is_here("a_solver_tells_its_caller_how_far_it_is") {
        return;
    }
    let caller = Caller::with(&["solver"]);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/python/tests/solver.py");
    let output = python(&caller, &[tests.to_str().unwrap(), "-v"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", told(&output));
    caller.nothing_is_left();
}

//! Python calls routines: numpy's arrays in and out, futures, asyncio, exceptions. Not here: a client that dies (rpc.rs).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::told;
use routines::{Caller, numpy_is_here, python};
use std::path::Path;

#[test]
fn arrays_go_in_and_come_back_and_whatever_is_wrong_is_an_exception() {
    if !numpy_is_here("arrays_go_in_and_come_back_and_whatever_is_wrong_is_an_exception") {
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

#[test]
fn a_call_that_lasts_tells_a_terminal_how_far_it_is() {
    if !numpy_is_here("a_call_that_lasts_tells_a_terminal_how_far_it_is") {
        return;
    }
    let caller = Caller::with(&["samples"]);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/python/tests/progress.py");
    let output = python(&caller, &[tests.to_str().unwrap(), "-v"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", told(&output));
    caller.nothing_is_left();
}

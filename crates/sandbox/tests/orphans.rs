//! Guests whose supervisor is killed. A program of its own: it kills every supervisor that it has.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use std::process::Command;

#[test]
fn no_guest_outlives_its_supervisor() {
    for mechanism in ["notify", "ptrace", "library"] {
        if machine_for("no_guest_outlives_its_supervisor", mechanism).is_none() {
            continue;
        }
        let scratch = Scratch::new();
        let (mut out, room) = bomb(mechanism, &scratch.0);
        let supervisors = guards();
        assert_eq!(supervisors.len(), 1, "{mechanism}");
        let killed = Command::new("kill")
            .args(["-9", &supervisors[0].to_string()])
            .status();
        assert!(killed.unwrap().success());
        ends(&mut out, mechanism);
        drop(room);
    }
}

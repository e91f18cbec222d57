//! What tests share: a throw-away CA, guarded processes, deadlines, links that fail, and how a test says that it cannot run here.
//!
//! Used by tests only, so it panics where a test would.
#![allow(clippy::expect_used, clippy::panic)]

mod ca;
mod deadline;
pub mod engine;
mod process;
pub mod proxy;
mod records;

pub use ca::Ca;
pub use deadline::{DEADLINE, deadline, until};
pub use process::{Process, run};

/// Says that a test cannot run here and why, in the one form that the house collects. Then the test returns.
pub fn skip(test: &str, missing: &str) {
    eprintln!("SKIP {test}: missing {missing}");
}

/// Whether a program is in PATH.
pub fn has_program(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

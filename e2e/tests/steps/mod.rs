//! `steps/relax` of the examples, begun, and what it gives whatever died in between: a checkpoint at each step. What scenarios share.

use crate::routines::{Caller, npy};
use std::process::Child;

pub const STEPS: usize = 100;
/// Forty pages, of which a step writes to two: checkpoints are parts, and are made one now and then.
const ELEMENTS: usize = 20_000;
/// Here it dies. Each safe point is a checkpoint, and the first one is at step 0.
pub const AT: u64 = 40;

fn start() -> Vec<f64> {
    (0u32..)
        .take(ELEMENTS)
        .map(|i| f64::from(i * i % 17))
        .collect()
}

/// What the routine computes.
fn expected() -> Vec<f64> {
    let mut x = start();
    for i in 0..STEPS {
        let from = i * 400 % (ELEMENTS - 400);
        for j in from + 1..from + 400 {
            x[j] = (x[j - 1] + 2.0 * x[j] + x[j + 1]) / 4.0;
        }
    }
    x
}

/// Steps of the process that ended it, and the checkpoint that it began at.
#[track_caller]
pub fn right(caller: &Caller, call: Child) -> (u64, u64) {
    let result = caller.end(call);
    let back = std::fs::read(caller.person.home.path().join("back.npy")).unwrap();
    let x: Vec<u8> = expected().into_iter().flat_map(f64::to_le_bytes).collect();
    assert!(back.ends_with(&x), "the result is another");
    let told: [u64; 3] = serde_json::from_value(result["told"].clone()).unwrap();
    assert_eq!(told[0], STEPS as u64);
    (told[1], told[2])
}

pub fn begin(caller: &Caller, how: &str) -> Child {
    let x = caller.file("x.npy", &npy(&[ELEMENTS as u64], &start()));
    let (steps, at) = (STEPS.to_string(), AT.to_string());
    caller.begin(&["steps/relax", &steps, &at, how, &x, "--out", "x=back.npy"])
}

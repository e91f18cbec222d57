//! Whole lives of calls in a seeded world of failing clients, network, server, disk and hosts: whatever happens, each call has
//! exactly one outcome, it is the right one, and there is an end. `KUMIKO_HISTORIES=n` runs more of them,
//! `KUMIKO_SEED=n` one again, with what happened.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clients;
mod hosts;
mod net;
mod random;
mod server;
mod world;

use std::collections::BTreeMap;
use world::World;

/// In the default run: seconds; 10⁵ take minutes.
const HISTORIES: u64 = 10_000;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_call_has_exactly_one_right_outcome_in_all_histories() {
    if let Some(seed) = variable("KUMIKO_SEED") {
        let world = World::run(seed);
        world.told.iter().for_each(|line| eprintln!("{line}"));
        return;
    }
    let histories = variable("KUMIKO_HISTORIES").unwrap_or(HISTORIES);
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..histories {
        for (what, count) in World::run(seed).counted {
            *counted.entry(what).or_default() += count;
        }
    }
    eprintln!("{histories} histories: {counted:?}");
    // A world in which nothing goes wrong would prove nothing.
    for what in [
        "results",
        "crashes told",
        "cancelled",
        "expired",
        "server died",
        "client died",
        "host died",
        "host silent",
        "message lost",
        "message twice",
        "disk full",
        "fenced",
        "resumed from a checkpoint",
        "bad checkpoint",
        "false alarm",
        "forgotten in memory",
        "recorded after a while",
        "begun anew",
    ] {
        assert!(counted.contains_key(what), "{what} never happened");
    }
}

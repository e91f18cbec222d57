//! A site with a landing has calls computed on hosts of Slurm to which none of its sockets leads (spec/jobs/pilots.md, PL40 to PL45).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;

use kumiko_e2e::until;
use routines::{Caller, npy, npy_of_whole};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;

#[test]
fn calls_are_computed_on_hosts_of_another_kernel_though_the_site_is_killed() {
    let test = "calls_are_computed_on_hosts_of_another_kernel_though_the_site_is_killed";
    let Some((engine, person)) = engines::apart(test) else {
        return;
    };
    let start = engines::start("slurm");
    let further = ["--pilots", "0..1", "--landing", "127.0.0.1"];
    person.ok(start.into_iter().chain(further));
    engines::overlay(&engine, &person, "rpc");
    let caller = Caller { person };
    caller.make(&["samples"], &[]);
    let few = caller.file("few.npy", &npy(&[3], &[1., 2., 3.]));
    assert_eq!(caller.call(&["samples/sum", &few]), json!({"s": [6.0]}));
    let control = caller
        .person
        .kumiko_home()
        .join("state/rpc/spool/pilot-1/control");
    let connected = UnixStream::connect(&control).map_err(|error| error.kind());
    let refused = Some(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(connected.err(), refused);
    // In files.
    let many: Vec<f64> = (0..100_000).map(f64::from).collect();
    let many = caller.file("many.npy", &npy(&[100_000], &many));
    let back = caller.call(&["samples/every_other", &many]);
    let back: Vec<f64> = serde_json::from_value(back["x"].clone()).unwrap();
    assert_eq!((back.len(), back[49_999]), (50_000, 199_998.0));
    // It computes on while there is no site.
    let done = caller.file("done.npy", &npy_of_whole(&[1], &[100]));
    let started = caller.count_in_log("\"started\"");
    let call = caller.begin(&["samples/slow", "300", "10000", &done]);
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") > started
    });
    let planned = caller.count_in_log("\"planned\"");
    let run = caller.person.kumiko_home().join("run/site.json");
    let run: Value = serde_json::from_str(&std::fs::read_to_string(run).unwrap()).unwrap();
    caller.person.kill_site();
    let mut start = engines::start("slurm");
    start[3] = run["address"].as_str().unwrap();
    caller.person.ok(start.into_iter().chain(further));
    engines::forget();
    assert_eq!(caller.end(call), json!({"done": [400]}));
    assert_eq!(caller.count_in_log("\"planned\""), planned);
    caller.nothing_is_left();
}

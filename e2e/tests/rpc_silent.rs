//! Runners that stand still while their site has more to say to them than their sockets take: nobody waits for them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compiled;
#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;
mod runners;

use kumiko_e2e::{go_on_to_the_end, kill, until};
use routines::Caller;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/silent")
        .join(file)
}

#[test]
fn a_big_answer_to_a_host_that_falls_silent_is_given_to_the_next_and_asked_for_once() {
    let test = "a_big_answer_to_a_host_that_falls_silent_is_given_to_the_next_and_asked_for_once";
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    person.ok(engines::start("slurm").into_iter().chain(["--pilots", "2"]));
    let caller = Caller { person };
    let home = caller.person.home.path();
    std::fs::copy(here("big.idl"), home.join("big.idl")).unwrap();
    caller.gen_and_register("big", &[]);
    compiled::compile(&caller, &here("big.c"), "big");
    let mut program = caller.person.program("./big", [""; 0]);
    let program = program.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut call = program.spawn().unwrap();
    let mut lines = BufReader::new(call.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "asked\n");
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    let (_, mut host) = runners::pilots_and_runners(&caller.person);
    host.push(caller.routine_pid(&[]));
    host.iter().for_each(|pid| kill(*pid, "STOP"));
    // Eight times what a runner is told before it has taken some.
    std::fs::write(home.join("go"), "").unwrap();
    until("its host is suspect", || {
        caller.count_in_log("\"suspected\"") == 1
    });
    until("it is computed elsewhere", || {
        caller.count_in_log("\"epoch\":2,\"host\"") == 1
    });
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let sum = 131_000u64 * 130_999 / 2;
    assert_eq!(rest, format!("sum {sum}, asked 1 times\n"));
    assert!(call.wait().unwrap().success());
    go_on_to_the_end(&host);
    caller.nothing_is_left();
}

//! Many calls at once, and calls that are not wanted any more while they begin: the site hears of each that it is over.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compiled;
mod routines;

use kumiko_e2e::{finish, told, until, wait};
use routines::Caller;
use std::path::Path;
use std::process::Stdio;

/// Calls of samples.idl are made by the program, and all of them are over at the site. Meanwhile something is done.
#[track_caller]
fn check(what: &str, count: i64, meanwhile: impl FnOnce(&Caller)) -> Caller {
    let caller = Caller::with(&["samples"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/many/many.c");
    compiled::compile(&caller, &source, "many");
    caller.has_all_recorded();
    let contact = caller.person.kumiko_home().join("contact.toml");
    let contact = contact.to_str().unwrap();
    let mut program = caller
        .person
        .program("./many", [contact, what, &count.to_string()]);
    let mut program = program.stdin(Stdio::piped()).spawn().unwrap();
    meanwhile(&caller);
    let mut ended = false;
    until("the site has heard that all calls are over", || {
        ended = program.try_wait().unwrap().is_some();
        ended || caller.count_in_log("\"acknowledged\"") == count
    });
    assert!(!ended, "it waits for the end of its stdin");
    drop(program.stdin.take());
    assert!(wait(&mut program).success());
    assert_eq!(caller.count_in_log("\"invoked\""), count);
    caller.nothing_is_left();
    caller
}

/// One of which it does not hear stays, and after some thousands there is no room for others.
#[test]
fn of_many_calls_at_once_the_site_hears_of_each_that_its_result_was_taken() {
    check("null", 900, |_| {});
}

/// Those that it may not forget yet, since one before them is not over, have no room at the site.
#[test]
fn more_calls_at_once_than_a_site_takes_of_a_client_wait_for_one_another() {
    let caller = Caller::with(&["samples"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/many/many.c");
    compiled::compile(&caller, &source, "many");
    let contact = caller.person.kumiko_home().join("contact.toml");
    let contact = std::fs::read_to_string(contact).unwrap();
    let contact = format!("durability = \"none\"\n{contact}");
    caller.person.file("none.toml", &contact);
    let words = ["none.toml", "flood", "20000"];
    let flood = finish(&mut caller.person.program("./many", words));
    assert!(flood.status.success(), "{}", told(&flood));
    caller.nothing_is_left();
}

#[test]
fn a_call_that_is_cancelled_while_its_process_begins_ends() {
    let caller = check("cancel", 40, |_| {});
    assert!(caller.count_in_log("\"planned\"") > 0);
}

#[test]
fn a_site_that_is_killed_with_a_thousand_calls_in_flight_loses_none() {
    check("sums", 1000, |caller| {
        for done in [50, 300, 600] {
            until("some calls are over", || {
                caller.count_in_log("\"acknowledged\"") >= done
            });
            caller.kill_and_start_again();
        }
    });
}

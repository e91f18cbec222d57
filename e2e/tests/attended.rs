//! `exec` whose client vanishes: its program is ended, but not at once, and not if it is to be kept.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, kill, until};
use std::process::{Child, Stdio};

/// A program that would never end, running with its client.
fn exec(person: &Person, flags: &[&str]) -> Child {
    let mut args = vec!["exec"];
    args.extend(flags);
    args.extend(["local", "--", "sh", "-c", "trap 'exit 0' TERM; sleep 1000"]);
    let client = person
        .kumiko(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the program runs", || {
        person.ok(["job", "list"]).contains("active")
    });
    client
}

fn vanish(mut client: Child) {
    kill(client.id(), "KILL");
    client.wait().unwrap();
}

fn until_cancelled(person: &Person) {
    until("its job is cancelled", || {
        person.ok(["job", "list"]).contains("cancelled")
    });
    let story = person.ok(["job", "explain", "last"]);
    assert!(
        story.contains("nobody was attached to it for 1 s"),
        "{story}"
    );
}

#[test]
fn a_program_whose_client_vanished_is_ended_when_its_session_is_over() {
    let person = Person::with_site();
    vanish(exec(&person, &["--unattended", "1s"]));
    until_cancelled(&person);
}

#[test]
fn a_site_started_anew_counts_anew_and_ends_what_nobody_came_back_to() {
    let person = Person::with_site();
    let kept = Person::with_site();
    for (person, flags) in [
        (&person, &["--unattended", "1s"][..]),
        (&kept, &["--keep"][..]),
    ] {
        let client = exec(person, flags);
        person.kill_site();
        vanish(client);
        person.start_site();
    }
    until_cancelled(&person);
    assert!(kept.ok(["job", "list"]).contains("active"));
}

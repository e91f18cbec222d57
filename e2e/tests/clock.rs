//! A wall clock that jumps under a running site: it goes on serving, says what it refuses, and ends no job by it.
//! The clock is moved for the site alone, by libfaketime; the clock that only runs (CLOCK_MONOTONIC) stays true.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::clock::Clock;
use kumiko_e2e::{Person, finish, told, until};
use std::process::Stdio;

/// Runs until told.
const WAITS: &str = "until test -e go; do sleep 0.02; done; echo went";

/// A person whose site has a wall clock of its own.
struct Jumper {
    // Dropped first, so that the site lets in who ends it.
    clock: Clock,
    person: Person,
}

impl Jumper {
    /// None, and said so, without libfaketime.
    fn new(test: &str) -> Option<Jumper> {
        let person = Person::new();
        let Some(clock) = Clock::new(&person) else {
            kumiko_e2e::skip(test, "faketime");
            return None;
        };
        let jumper = Jumper { clock, person };
        jumper.start();
        Some(jumper)
    }

    fn start(&self) {
        let started = finish(
            self.person
                .kumiko(["site", "start", "--listen", "127.0.0.1:0"])
                .envs(self.clock.variables())
                .stdin(Stdio::null()),
        );
        assert!(started.status.success(), "{}", told(&started));
    }

    /// The site's wall clock, set against ours.
    fn jump(&self, offset: &str) {
        self.clock.jump(offset);
    }

    fn submit(&self, options: &[&str]) -> String {
        let arguments = [&["job", "submit"], options, &["--", "sh", "-c", WAITS]].concat();
        self.person.ok(arguments).trim().to_owned()
    }

    fn told_to_go(&self, job: &str) {
        let directory = self.person.kumiko_home().join("state/jobs").join(job);
        std::fs::write(directory.join("go"), "").unwrap();
    }
}

#[test]
fn a_job_keeps_its_time_limit_over_leaps_of_the_wall_clock() {
    let Some(jumper) = Jumper::new("a_job_keeps_its_time_limit_over_leaps_of_the_wall_clock")
    else {
        return;
    };
    let person = &jumper.person;
    let job = jumper.submit(&["--time", "50"]);
    until("it runs", || person.ok(["job", "list"]).contains("active"));
    // Within the year that the certificates hold, then back to where they do hold as well.
    for offset in ["+40d", "+1h", "+0"] {
        jumper.jump(offset);
        assert!(
            person.ok(["job", "show", &job]).contains("active"),
            "{offset}"
        );
    }
    jumper.told_to_go(&job);
    let waited = person.run(["job", "wait", &job]);
    assert_eq!(waited.status.code(), Some(0), "{}", told(&waited));
    // An ended job is kept for seven days of running time, whatever the wall says.
    jumper.jump("+40d");
    assert_eq!(person.ok(["job", "log", &job]), "went\n");
    assert_eq!(person.ok(["job", "run", "--", "echo", "later"]), "later\n");
}

#[test]
fn a_clock_outside_of_the_certificates_is_named_and_the_site_serves_again_when_it_is_set_right() {
    let Some(jumper) = Jumper::new(
        "a_clock_outside_of_the_certificates_is_named_and_the_site_serves_again_when_it_is_set_right",
    ) else {
        return;
    };
    let person = &jumper.person;
    let job = jumper.submit(&[]);
    until("it runs", || person.ok(["job", "list"]).contains("active"));
    for (offset, word) in [
        ("+9000d", "expired"),
        ("-30d", "not valid yet by its clock"),
    ] {
        jumper.jump(offset);
        let refused = person.run(["job", "list"]);
        assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
        assert!(
            String::from_utf8_lossy(&refused.stderr).contains(word),
            "{offset}: {}",
            told(&refused)
        );
    }
    jumper.jump("+0");
    jumper.told_to_go(&job);
    let waited = person.run(["job", "wait", &job]);
    assert_eq!(waited.status.code(), Some(0), "{}", told(&waited));
    assert_eq!(person.ok(["job", "log", &job]), "went\n");
}

#[test]
fn events_recorded_before_and_after_a_leap_are_replayed_in_their_order() {
    let Some(jumper) =
        Jumper::new("events_recorded_before_and_after_a_leap_are_replayed_in_their_order")
    else {
        return;
    };
    let person = &jumper.person;
    jumper.jump("+40d");
    let job = jumper.submit(&[]);
    until("it runs", || person.ok(["job", "list"]).contains("active"));
    person.kill_site();
    // The next site lives before the events that it replays.
    jumper.jump("+0");
    jumper.start();
    assert!(person.ok(["job", "show", &job]).contains("active"));
    jumper.told_to_go(&job);
    let waited = person.run(["job", "wait", &job]);
    assert_eq!(waited.status.code(), Some(0), "{}", told(&waited));
    assert_eq!(person.ok(["job", "log", &job]), "went\n");
}

//! What may follow what (spec/jobs J11), as a table, and what is told of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod lives;

use kumiko_job::attempt::{AttemptReport, Outcome};
use kumiko_job::contract::{Caller, JobState};
use kumiko_job::decide::{Action, decide};
use kumiko_job::description::JobDescription;
use kumiko_job::event::{Event, LimitsBy};
use kumiko_job::id::AttemptId;
use kumiko_job::limits;
use kumiko_job::respond::{self, Here, MAX_ATTEMPTS, OutputBytes};
use kumiko_job::state::{Job, replay};
use kumiko_policy::Limits;
use lives::{DONE, HERE, ID, ended, planned, records, started};
use std::sync::Arc;

fn submitted() -> Event {
    let events = respond::submit(
        &Caller {
            subject: "/CN=A".into(),
            account: "a".into(),
        },
        None,
        Arc::new(JobDescription::new("/bin/true", &[])),
        None,
        HERE,
    );
    events[0].clone()
}

/// Of a job that needs somebody to be attached.
fn submitted_attended() -> Event {
    let Event::Submitted {
        caller,
        key,
        description,
    } = submitted()
    else {
        panic!("it is a submission")
    };
    let mut description = JobDescription::clone(&description);
    description.attended_s = Some(60);
    Event::Submitted {
        caller,
        key,
        description: Arc::new(description),
    }
}

const LEFT: Event = Event::Unattended { after_s: 60 };

fn cancel(grace_ms: u64) -> Event {
    Event::CancelRequested { grace_ms }
}

/// 0: of nothing.
fn limits_set(memory_mib: u64) -> Event {
    Event::LimitsSet {
        by: LimitsBy::Owner,
        limits: Limits {
            memory_mib: (memory_mib > 0).then_some(memory_mib),
            ..Limits::default()
        },
    }
}

const ENDS_MS: u64 = 1_790_000_000_000;
const ENDING: Event = Event::CredentialEnding {
    not_after_ms: ENDS_MS,
};

fn given(name: &str) -> Event {
    Event::CredentialGiven {
        name: name.into(),
        not_after_ms: ENDS_MS,
    }
}

const REMOVED: Event = Event::Removed { expired: false };

fn job(events: Vec<Event>) -> Job {
    replay(ID, &records(&events)).unwrap().unwrap()
}

#[test]
fn lives_that_are_legal_lead_to_their_state() {
    let rows = [
        (vec![submitted()], JobState::Pending),
        (vec![submitted(), cancel(5)], JobState::Cancelled),
        (vec![submitted(), Event::Queued {}], JobState::Pending),
        (
            vec![submitted(), Event::Queued {}, planned(1), started(1)],
            JobState::Active,
        ),
        (
            vec![submitted(), Event::Queued {}, limits_set(1), planned(1)],
            JobState::Pending,
        ),
        (
            vec![submitted(), Event::Queued {}, cancel(5)],
            JobState::Cancelled,
        ),
        (
            vec![submitted(), planned(1), cancel(5), cancel(4)],
            JobState::Pending,
        ),
        (vec![submitted(), planned(1), started(1)], JobState::Active),
        (
            vec![submitted_attended(), planned(1), LEFT, cancel(5)],
            JobState::Pending,
        ),
        (
            vec![
                submitted(),
                planned(1),
                started(1),
                Event::Suspended { epoch: 1 },
            ],
            JobState::Suspended,
        ),
        (
            vec![submitted(), planned(1), started(1), ended(1, DONE, false)],
            JobState::Done,
        ),
        (
            vec![
                submitted(),
                planned(1),
                started(1),
                ended(1, Outcome::Exited { status: 3 }, false),
            ],
            JobState::Failed,
        ),
        (
            vec![submitted(), planned(1), ended(1, Outcome::Cancelled, false)],
            JobState::Cancelled,
        ),
        (
            vec![submitted(), planned(1), ended(1, DONE, true), planned(2)],
            JobState::Pending,
        ),
    ];
    for (events, state) in rows {
        assert_eq!(job(events.clone()).state(), state, "{events:?}");
    }
}

#[test]
fn what_cannot_follow_is_illegal() {
    let rows = [
        (vec![planned(1)], "a job begins with"),
        (vec![submitted(), submitted()], "no attempt in the stage"),
        (vec![submitted(), planned(2)], "epochs count"),
        (
            vec![submitted(), planned(1), Event::Queued {}],
            "no attempt in the stage",
        ),
        (vec![submitted(), started(1)], "no attempt in the stage"),
        (vec![submitted(), limits_set(0)], "it changes nothing"),
        (
            vec![submitted(), cancel(5), limits_set(1)],
            "the job has ended",
        ),
        (
            vec![submitted(), planned(1), planned(2)],
            "no attempt in the stage",
        ),
        (vec![submitted(), planned(1), started(2)], "another epoch"),
        (
            vec![submitted(), planned(1), ended(2, DONE, false)],
            "another epoch",
        ),
        (
            vec![submitted(), planned(1), started(1), ended(1, DONE, true)],
            "a guest that began",
        ),
        (
            vec![
                submitted(),
                planned(1),
                started(1),
                Event::Resumed { epoch: 1 },
            ],
            "changes nothing",
        ),
        (
            vec![submitted(), planned(1), cancel(5), cancel(5)],
            "no shorter grace",
        ),
        (vec![submitted(), planned(1), LEFT], "needs nobody"),
        (vec![submitted(), planned(1), ENDING], "no such credential"),
        (
            vec![submitted(), given("a"), planned(1), ENDING, ENDING],
            "told already",
        ),
        (
            vec![
                submitted(),
                given("a"),
                planned(1),
                ended(1, DONE, false),
                given("b"),
            ],
            "has ended",
        ),
        (
            vec![submitted_attended(), planned(1), cancel(5), LEFT],
            "a cancel stands",
        ),
        (
            vec![submitted(), planned(1), REMOVED],
            "no attempt in the stage",
        ),
        (
            vec![submitted(), planned(1), ended(1, DONE, false), cancel(1)],
            "has ended",
        ),
        (
            vec![
                submitted(),
                planned(1),
                ended(1, DONE, false),
                REMOVED,
                REMOVED,
            ],
            "was removed",
        ),
    ];
    for (events, why) in rows {
        let error = replay(ID, &records(&events)).expect_err(&format!("{events:?}"));
        assert!(error.to_string().contains(why), "{error} for {events:?}");
    }
    let mut gap = records(&[submitted(), planned(1)]);
    gap[1].number = 3;
    assert!(
        replay(ID, &gap)
            .unwrap_err()
            .to_string()
            .contains("without gaps")
    );
}

#[test]
fn each_state_asks_for_its_actions() {
    let attempt = AttemptId { job: ID, epoch: 1 };
    let rows = [
        (vec![submitted()], vec![]),
        (vec![submitted(), planned(1)], vec![Action::Run(attempt)]),
        (
            vec![submitted(), planned(1), started(1), cancel(5)],
            vec![
                Action::Run(attempt),
                Action::Cancel {
                    attempt,
                    grace_ms: 5,
                },
            ],
        ),
        (
            vec![submitted(), planned(1), ended(1, DONE, false)],
            vec![Action::Settle(attempt)],
        ),
        (
            vec![submitted(), planned(1), ended(1, DONE, false), REMOVED],
            vec![Action::Erase {
                job: ID,
                last_epoch: 1,
            }],
        ),
    ];
    for (events, actions) in rows {
        assert_eq!(decide(&job(events.clone())), actions, "{events:?}");
    }
}

#[test]
fn only_what_never_began_is_tried_again_and_not_for_ever() {
    let not_begun = || Outcome::not_begun("no trace".into());
    let lost = || Outcome::Lost {
        message: "gone".into(),
    };
    let retried = |events: Vec<Event>, outcome: Outcome, boot: &str| {
        let job = job(events);
        let here = Here {
            batch: "fork",
            boot,
            has_room: true,
        };
        let report = AttemptReport::Ended(outcome);
        let events = respond::report(&job, job.last_epoch(), report, OutputBytes::default(), here);
        matches!(
            events[..],
            [
                Event::AttemptEnded { retry: true, .. },
                Event::Planned { .. }
            ]
        )
    };
    let begun = || vec![submitted(), planned(1), started(1)];
    let fresh = || vec![submitted(), planned(1)];
    assert!(retried(fresh(), not_begun(), "b"));
    assert!(!retried(fresh(), not_begun(), "another boot"));
    assert!(!retried(fresh(), lost(), "b"));
    assert!(!retried(begun(), not_begun(), "b"));
    assert!(!retried(begun(), lost(), "b"));
    assert!(!retried(
        vec![submitted(), planned(1), cancel(1)],
        not_begun(),
        "b"
    ));
    let mut often = vec![submitted()];
    for epoch in 1..MAX_ATTEMPTS {
        often.extend([planned(epoch), ended(epoch, not_begun(), true)]);
    }
    often.push(planned(MAX_ATTEMPTS));
    assert!(!retried(often, not_begun(), "b"));
}

#[test]
fn a_job_is_explained_from_its_log() {
    let lost = Outcome::Lost {
        message: "the runner was killed".into(),
    };
    let events = vec![submitted(), planned(1), started(1), ended(1, lost, false)];
    let words = kumiko_job::explain::job(&job(events.clone()), &records(&events));
    assert_eq!(
        words,
        [
            "       0 ms  submitted by /CN=A to run /bin/true",
            "      10 ms  attempt 1 goes to fork",
            "      20 ms  attempt 1 runs under mechanism namespace, its runner is process 1",
            "      30 ms  attempt 1: runner and program are gone without a word: the runner was killed",
            "It failed: runner and program are gone without a word: the runner was killed. It had begun, so it is not run \
             again: submit it anew if that does no harm.",
        ]
    );
}

#[test]
fn a_job_that_nobody_attends_is_cancelled_once_and_says_why() {
    let begun = vec![submitted_attended(), planned(1), started(1)];
    let countdown = Action::Attend {
        job: ID,
        after_s: 60,
    };
    assert!(decide(&job(begun.clone())).contains(&countdown));
    let left = respond::unattended(&job(begun.clone()), 60, 9);
    assert_eq!(left, [LEFT, cancel(9)]);
    let mut cancelled = begun;
    cancelled.extend(left);
    assert!(!decide(&job(cancelled.clone())).contains(&countdown));
    assert_eq!(respond::unattended(&job(cancelled.clone()), 60, 9), []);
    cancelled.push(ended(1, Outcome::Cancelled, false));
    assert_eq!(respond::unattended(&job(cancelled.clone()), 60, 9), []);
    let story = kumiko_job::explain::job(&job(cancelled.clone()), &records(&cancelled));
    assert!(
        story[3].contains("nobody has been attached for 60 s"),
        "{story:?}"
    );
    assert_eq!(
        story.last().unwrap(),
        "It ended: cancelled, since nobody was attached to it for 60 s."
    );
    // Others need nobody.
    let plain = job(vec![submitted(), planned(1)]);
    assert!(!decide(&plain).contains(&countdown));
    assert_eq!(respond::unattended(&plain, 60, 9), []);
}

#[test]
fn a_credential_is_given_again_told_of_once_and_is_nothing_to_an_ended_job() {
    let first = job(vec![submitted(), given("a"), planned(1), started(1)]);
    let told = respond::credential_ending(&first, 2);
    assert_eq!(told, [ENDING]);
    assert_eq!(first.view(0, 0).credential_ends_ms, Some(ENDS_MS));
    let told = job(vec![submitted(), given("a"), planned(1), ENDING]);
    assert!(respond::credential_ending(&told, 2).is_empty());
    assert!(!decide(&told).contains(&Action::Remind { job: ID, number: 2 }));

    let renewed = job(vec![
        submitted(),
        given("a"),
        planned(1),
        ENDING,
        given("b"),
    ]);
    assert!(respond::credential_ending(&renewed, 2).is_empty());
    assert_eq!(respond::credential_ending(&renewed, 5), [ENDING]);
    for action in [
        Action::Place { job: ID, number: 5 },
        Action::Remind { job: ID, number: 5 },
    ] {
        assert!(decide(&renewed).contains(&action), "{action:?}");
    }

    let over = job(vec![
        submitted(),
        given("a"),
        planned(1),
        ended(1, DONE, false),
    ]);
    assert!(respond::credential_ending(&over, 2).is_empty());
    assert_eq!(
        respond::renew(&over, "b".into(), ENDS_MS),
        Err(respond::NoRenewal::Ended)
    );
    assert_eq!(over.view(0, 0).credential_ends_ms, None);
    assert!(decide(&over).contains(&Action::Discard { job: ID }));
}

#[test]
fn limits_of_policies_give_way_to_nothing_and_what_the_owner_asked_for_is_remembered() {
    let memory = |memory_mib| Limits {
        memory_mib: Some(memory_mib),
        ..Limits::default()
    };
    let set = |by, memory_mib| Event::LimitsSet {
        by,
        limits: memory(memory_mib),
    };
    let events = vec![
        submitted(),
        planned(1),
        set(LimitsBy::Owner, 512),
        set(LimitsBy::Policies, 256),
    ];
    let job = job(events);
    assert_eq!(job.limits.asked.memory_mib, Some(512));
    assert_eq!(job.limits.hold.memory_mib, Some(256));
    let number = 4;
    let attempt = AttemptId { job: ID, epoch: 1 };
    assert!(decide(&job).contains(&Action::Limit { attempt, number }));
    let again = |by, mib| limits::set(&job, by, &memory(mib)).unwrap();
    assert_eq!(again(LimitsBy::Policies, 256), []);
    assert_eq!(
        again(LimitsBy::Owner, 256),
        [set(LimitsBy::Owner, 256)],
        "they want no more when the policies give it back"
    );
    assert_eq!(
        limits::set(&job, LimitsBy::Owner, &Limits::default()).unwrap(),
        []
    );
}

#[test]
fn what_an_attempt_does_not_follow_is_an_event_each_time_that_it_is_another() {
    let told = |job: &Job, not: &[&str]| {
        let not = not.iter().map(|what| (*what).to_owned()).collect();
        let report = AttemptReport::Followed { not };
        respond::report(job, 1, report, OutputBytes::default(), HERE)
    };
    let event = |not: &[&str]| Event::Unfollowed {
        epoch: 1,
        not: not.iter().map(|what| (*what).to_owned()).collect(),
    };
    let runs = || vec![submitted(), planned(1), started(1)];
    let job_of = |more: &[Event]| job(runs().into_iter().chain(more.iter().cloned()).collect());
    let (before, after) = (job_of(&[]), job_of(&[event(&["addresses"])]));
    assert_eq!(told(&before, &[]), []);
    assert_eq!(told(&before, &["addresses"]), [event(&["addresses"])]);
    assert_eq!(told(&after, &["addresses"]), []);
    assert_eq!(told(&after, &[]), [event(&[])]);
    let twice = runs().into_iter().chain([event(&["a"]), event(&["a"])]);
    assert!(replay(ID, &records(&twice.collect::<Vec<_>>())).is_err());
}

//! Jobs that may run again from their start (spec/jobs, J37 to J39): after which ends they do, and that nothing else does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod lives;

use kumiko_job::attempt::{AttemptReport, EngineCause, NOT_BEGUN, Outcome};
use kumiko_job::contract::{Caller, JobState};
use kumiko_job::decide::{Action, decide, new_actions};
use kumiko_job::description::{Destination, JobDescription, OutputMode, Stdin, WindowSize};
use kumiko_job::event::Event;
use kumiko_job::id::AttemptId;
use kumiko_job::rerun::{self, NoMigration};
use kumiko_job::respond::{self, Here, MAX_ATTEMPTS, NoRedirect, OutputBytes};
use kumiko_job::state::{Job, replay};
use lives::{DONE, HERE, ID, ended, planned, records, started};
use std::sync::Arc;

fn submitted(rerun: bool) -> Event {
    let caller = Caller {
        subject: "/CN=A".into(),
        account: "a".into(),
    };
    let mut description = JobDescription::new("/bin/true", &[]);
    description.rerun = rerun;
    respond::submit(&caller, None, Arc::new(description), None, HERE).swap_remove(0)
}

fn requeued(epoch: u32) -> Event {
    let host = Some("n1".to_owned());
    let to = None;
    Event::Requeued { epoch, host, to }
}

fn asked(epoch: u32, to: Option<&str>) -> Event {
    let (host, to) = (None, to.map(str::to_owned));
    Event::Requeued { epoch, host, to }
}

fn try_job(events: &[Event]) -> Result<Job, String> {
    let replayed = replay(ID, &records(events)).map_err(|illegal| illegal.to_string())?;
    Ok(replayed.unwrap())
}

fn runs(rerun: bool, more: &[Event]) -> Job {
    let mut all = vec![submitted(rerun), planned(1), started(1)];
    all.extend_from_slice(more);
    try_job(&all).unwrap()
}

fn after(job: &Job, outcome: Outcome) -> Vec<Event> {
    let report = AttemptReport::Ended(outcome);
    respond::report(job, job.last_epoch(), report, OutputBytes::default(), HERE)
}

fn runs_again(events: &[Event]) -> bool {
    matches!(
        events,
        [
            Event::AttemptEnded { retry: true, .. },
            Event::Planned { .. }
        ]
    )
}

fn lost() -> Outcome {
    Outcome::Lost {
        message: "gone".into(),
    }
}

fn by_engine(cause: EngineCause) -> Outcome {
    Outcome::EngineEnded {
        cause,
        message: "it says so".into(),
    }
}

#[test]
fn a_job_runs_again_after_what_is_its_hosts_and_with_leave_only() {
    let not_begun = Outcome::NeverStarted {
        code: NOT_BEGUN.into(),
        message: "no trace".into(),
    };
    let rows = [
        (lost(), true),
        (by_engine(EngineCause::HostLost), true),
        (by_engine(EngineCause::Preempted), true),
        (by_engine(EngineCause::Evicted), true),
        // Of one that began: its traces went with the machine.
        (not_begun, true),
        (by_engine(EngineCause::Limit), false),
        (by_engine(EngineCause::Held), false),
        (by_engine(EngineCause::Removed), false),
        (Outcome::Exited { status: 1 }, false),
        (Outcome::Signalled { signal: 9 }, false),
        (Outcome::Cancelled, false),
        (Outcome::TimeLimit, false),
    ];
    let cancel = Event::CancelRequested { grace_ms: 1 };
    for (outcome, again) in rows {
        let of = |job: &Job| runs_again(&after(job, outcome.clone()));
        assert_eq!(of(&runs(true, &[])), again, "{outcome:?}");
        assert!(!of(&runs(false, &[])), "{outcome:?} without leave");
        assert!(
            !of(&runs(true, std::slice::from_ref(&cancel))),
            "{outcome:?} cancelled"
        );
    }
    let mut often = vec![submitted(true)];
    for epoch in 1..MAX_ATTEMPTS {
        often.extend([planned(epoch), started(epoch), ended(epoch, lost(), true)]);
    }
    often.extend([planned(MAX_ATTEMPTS), started(MAX_ATTEMPTS)]);
    let last = try_job(&often).unwrap();
    assert!(!runs_again(&after(&last, lost())), "not for ever");
    assert_eq!(rerun::requeue(&last, MAX_ATTEMPTS, "n1"), []);
    assert!(!rerun::leaves(&last));
}

#[test]
fn a_job_migrates_where_it_runs_and_may_run_again_and_no_oftener_than_that() {
    let before = runs(true, &[]);
    assert_eq!(rerun::migrate(&before, None), Ok(vec![asked(1, None)]));
    let leaving = runs(true, &[asked(1, None)]);
    assert_eq!(rerun::migrate(&leaving, Some("n2")), Ok(Vec::new()));
    assert!(runs_again(&after(&leaving, Outcome::Cancelled)));
    let mut last = vec![submitted(true)];
    for epoch in 1..MAX_ATTEMPTS {
        last.extend([planned(epoch), started(epoch), ended(epoch, lost(), true)]);
    }
    last.extend([planned(MAX_ATTEMPTS), started(MAX_ATTEMPTS)]);
    let cancel = Event::CancelRequested { grace_ms: 1 };
    for (job, expected) in [
        (runs(false, &[]), NoMigration::NotRerun),
        (runs(true, &[cancel]), NoMigration::Ended),
        (
            try_job(&[submitted(true), planned(1)]).unwrap(),
            NoMigration::NotRunning,
        ),
        (try_job(&last).unwrap(), NoMigration::Spent),
    ] {
        assert_eq!(rerun::migrate(&job, Some("n2")), Err(expected));
    }
}

#[test]
fn where_a_job_migrates_to_is_wanted_of_its_next_attempt_alone() {
    let leaving = asked(1, Some("n2"));
    assert_eq!(
        rerun::migrate(&runs(true, &[]), Some("n2")),
        Ok(vec![leaving.clone()])
    );
    let again = [ended(1, Outcome::Cancelled, true), planned(2)];
    let mut all = vec![leaving];
    all.extend(again);
    let job = runs(true, &all);
    let wanted = |job: &Job| {
        (1..=4)
            .map(|epoch| job.wanted_on(epoch).is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(job.wanted_on(2), Some("n2"));
    assert_eq!(wanted(&job), [false, true, false, false]);
    all.extend([started(2), ended(2, lost(), true), planned(3)]);
    assert_eq!(runs(true, &all).wanted_on(3), None);
    // Nor of one that leaves for another reason.
    all.extend([
        started(3),
        requeued(3),
        ended(3, Outcome::Cancelled, true),
        planned(4),
    ]);
    assert_eq!(wanted(&runs(true, &all)), [false; 4]);
}

#[test]
fn an_attempt_leaves_its_host_once_and_its_job_goes_on_elsewhere() {
    let attempt = |epoch| AttemptId { job: ID, epoch };
    let before = runs(true, &[]);
    assert_eq!(rerun::requeue(&before, 1, "n1"), [requeued(1)]);
    assert_eq!(rerun::requeue(&before, 2, "n1"), []);
    assert_eq!(rerun::requeue(&runs(false, &[]), 1, "n1"), []);
    let leaving = runs(true, &[requeued(1)]);
    assert!(rerun::leaves(&before) && rerun::leaves(&leaving));
    assert_eq!(rerun::requeue(&leaving, 1, "n1"), []);
    // Also of a site that starts again.
    assert!(decide(&leaving).contains(&Action::Requeue(attempt(1))));
    let events = after(&leaving, Outcome::Cancelled);
    assert!(runs_again(&events));
    let mut all = vec![submitted(true), planned(1), started(1), requeued(1)];
    all.extend(events);
    let waiting = try_job(&all[..5]).unwrap();
    let settled = new_actions(Some(&leaving), &waiting);
    assert!(settled.contains(&Action::Settle(attempt(1))), "{settled:?}");
    let again = try_job(&all).unwrap();
    assert_eq!(again.state(), JobState::Pending);
    assert_eq!(
        new_actions(Some(&waiting), &again),
        [Action::Run(attempt(2))]
    );
    // What it was doing anyway counts, and what its owner says.
    assert!(!runs_again(&after(&leaving, DONE)));
    let cancelled = runs(true, &[requeued(1), Event::CancelRequested { grace_ms: 1 }]);
    assert!(!runs_again(&after(&cancelled, Outcome::Cancelled)));
}

#[test]
fn what_cannot_follow_is_illegal() {
    let cancel = Event::CancelRequested { grace_ms: 1 };
    let begun = |rerun| vec![submitted(rerun), planned(1), started(1)];
    let with = |rerun, more: &[Event]| [begun(rerun), more.to_vec()].concat();
    let rows = [
        (with(false, &[requeued(1)]), "may not run again"),
        (with(false, &[ended(1, lost(), true)]), "a guest that began"),
        (with(true, &[requeued(2)]), "another epoch"),
        (with(true, &[requeued(1), requeued(1)]), "leave already"),
        (with(true, &[cancel, requeued(1)]), "a cancel stands"),
        (
            vec![submitted(true), planned(1), requeued(1)],
            "no attempt in the stage",
        ),
    ];
    for (events, why) in rows {
        let error = try_job(&events).expect_err(why);
        assert!(error.contains(why), "{error} for {events:?}");
    }
}

#[test]
fn what_somebody_has_of_a_job_while_it_runs_is_not_for_one_that_begins_anew() {
    type Change = fn(&mut JobDescription);
    let rows: [(&str, Change); 6] = [
        ("stdin live", |job| job.stdin = Stdin::Live),
        ("output flow", |job| job.output = OutputMode::Flow),
        ("terminal", |job| {
            job.terminal = Some(WindowSize {
                rows: 24,
                columns: 80,
            });
        }),
        ("attended_s", |job| job.attended_s = Some(60)),
        ("stdout", |job| job.stdout = vec![Destination::new("out")]),
        ("stderr", |job| job.stderr = vec![Destination::new("err")]),
    ];
    for (field, change) in rows {
        let mut description = JobDescription::new("/bin/true", &[]);
        change(&mut description);
        description.validate().unwrap();
        description.rerun = true;
        let error = description.validate().expect_err(field).to_string();
        assert!(error.contains(&format!("rerun and {field}")), "{error}");
    }
    let to = Some(vec![Destination::new("out")]);
    let redirected = respond::redirect(&runs(true, &[]), to, None);
    assert_eq!(redirected, Err(NoRedirect::Rerun));
}

#[test]
fn its_story_says_that_it_may_run_again_and_why_it_did() {
    let mut events = vec![submitted(true), planned(1), started(1), requeued(1)];
    let leaving = try_job(&events).unwrap();
    let told = kumiko_job::explain::job(&leaving, &records(&events));
    assert_eq!(told[1].trim(), "it may run again from its start");
    assert!(
        told[4].contains("is to leave n1, which is drained"),
        "{told:?}"
    );
    let here = Here {
        batch: "slurm",
        ..HERE
    };
    let ended = AttemptReport::Ended(Outcome::Cancelled);
    events.extend(respond::report(
        &leaving,
        1,
        ended,
        OutputBytes::default(),
        here,
    ));
    let told = kumiko_job::explain::job(&try_job(&events).unwrap(), &records(&events));
    assert!(
        told[5].ends_with("the job runs again, from its start"),
        "{told:?}"
    );
    assert_eq!(
        told.last().unwrap(),
        "It waits for slurm to begin attempt 2."
    );
}

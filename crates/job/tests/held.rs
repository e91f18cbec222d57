//! Jobs that are held until they are released (spec/jobs/together.md, T20 to T25): what may follow what, and what is done.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod lives;

use kumiko_job::attempt::{AttemptReport, Outcome};
use kumiko_job::contract::{Caller, JobState};
use kumiko_job::decide::{Action, decide};
use kumiko_job::description::JobDescription;
use kumiko_job::event::Event;
use kumiko_job::id::AttemptId;
use kumiko_job::respond::{self, NoRelease, OutputBytes};
use kumiko_job::state::{Job, replay};
use kumiko_job::together::Together;
use lives::{DONE, HERE, ID, ended, planned, records, started};
use std::sync::Arc;

const RELEASED: Event = Event::Released {};

fn submitted(hold_s: Option<u64>) -> Event {
    let caller = Caller {
        subject: "/CN=A".into(),
        account: "a".into(),
    };
    let mut description = JobDescription::new("/bin/true", &[]);
    description.attended_s = Some(60);
    description.together = Some(Box::new(Together {
        request: "r".into(),
        subjob: 1,
        sites: vec!["a:1".into(), "b:1".into()],
        label: None,
        hold_s,
    }));
    respond::submit(&caller, None, Arc::new(description), None, HERE).swap_remove(0)
}

fn held(epoch: u32) -> Event {
    Event::Held { epoch }
}

fn try_job(events: &[Event]) -> Result<Job, String> {
    let replayed = replay(ID, &records(events)).map_err(|illegal| illegal.to_string())?;
    Ok(replayed.unwrap())
}

/// One that is to be held for 30 s at a time.
fn job(events: &[Event]) -> Job {
    let mut all = vec![submitted(Some(30))];
    all.extend_from_slice(events);
    try_job(&all).unwrap()
}

fn attempt(epoch: u32) -> AttemptId {
    AttemptId { job: ID, epoch }
}

#[test]
fn it_is_told_to_begin_only_when_it_is_held_and_released() {
    let check = |events: &[Event], is_held: bool, told: bool| {
        let job = job(events);
        assert_eq!(job.is_held(), is_held, "{events:?}");
        let epoch = job.last_epoch();
        let tells = decide(&job).contains(&Action::Release(attempt(epoch)));
        assert_eq!(tells, told, "{events:?}");
        assert_eq!(job.view(0, 0).held, is_held);
    };
    check(&[planned(1)], false, false);
    check(&[planned(1), held(1)], true, false);
    check(&[planned(1), held(1), RELEASED], false, true);
    check(&[RELEASED, planned(1)], false, false);
    check(&[planned(1), RELEASED, held(1)], false, true);
    let again = ended(1, Outcome::not_begun(String::new()), true);
    check(
        &[planned(1), held(1), again.clone(), planned(2)],
        false,
        false,
    );
    check(
        &[planned(1), held(1), again, planned(2), held(2)],
        true,
        false,
    );
}

#[test]
fn what_cannot_follow_of_a_held_job_is_illegal() {
    let check = |hold_s: Option<u64>, events: &[Event], why: &str| {
        let mut all = vec![submitted(hold_s)];
        all.extend_from_slice(events);
        let error = try_job(&all).unwrap_err();
        assert!(error.contains(why), "{events:?}: {error}");
    };
    let hold = Some(30);
    check(None, &[planned(1), held(1)], "does not wait");
    check(None, &[planned(1), RELEASED], "does not wait");
    check(hold, &[planned(1), held(2)], "another epoch");
    check(hold, &[planned(1), held(1), held(1)], "held already");
    check(hold, &[planned(1), RELEASED, RELEASED], "does not wait");
    check(
        hold,
        &[planned(1), started(1), held(1)],
        "no attempt in the stage",
    );
    let over = [planned(1), ended(1, DONE, false), RELEASED];
    check(hold, &over, "the job has ended");
}

#[test]
fn what_is_said_twice_makes_one_event() {
    let report = |job: &Job, epoch| {
        let bytes = OutputBytes::default();
        respond::report(job, epoch, AttemptReport::Held, bytes, HERE)
    };
    let waiting = job(&[planned(1)]);
    assert_eq!(report(&waiting, 1), [held(1)]);
    assert_eq!(report(&waiting, 2), []);
    assert_eq!(report(&job(&[planned(1), held(1)]), 1), []);
    assert_eq!(
        report(&job(&[planned(1), held(1), RELEASED, started(1)]), 1),
        []
    );

    assert_eq!(respond::release(&waiting), Ok(vec![RELEASED]));
    assert_eq!(respond::release(&job(&[planned(1), RELEASED])), Ok(vec![]));
    let cancelled = job(&[planned(1), Event::CancelRequested { grace_ms: 0 }]);
    assert_eq!(respond::release(&cancelled), Err(NoRelease::Ended));
    let over = job(&[planned(1), ended(1, Outcome::Cancelled, false)]);
    assert_eq!(respond::release(&over), Err(NoRelease::Ended));
    let at_once = try_job(&[submitted(None), planned(1)]).unwrap();
    assert_eq!(respond::release(&at_once), Err(NoRelease::NotHeld));
}

#[test]
fn one_that_nobody_holds_on_is_cancelled_and_after_its_release_is_as_any_other() {
    let countdown = |after_s| Action::Attend { job: ID, after_s };
    let waiting = job(&[planned(1), held(1)]);
    assert!(decide(&waiting).contains(&countdown(30)));
    let left = respond::unattended(&waiting, 30, 9);
    let cancel = Event::CancelRequested { grace_ms: 9 };
    assert_eq!(left, [Event::Unattended { after_s: 30 }, cancel]);

    let mut events = vec![submitted(Some(30)), planned(1), held(1)];
    events.extend(left);
    events.push(ended(1, Outcome::Cancelled, false));
    let over = try_job(&events).unwrap();
    assert_eq!(over.state(), JobState::Cancelled);
    let story = kumiko_job::explain::job(&over, &records(&events));
    assert!(
        story.last().unwrap().contains("was heard of for 30 s"),
        "{story:?}"
    );
    assert!(
        story[1].contains("subjob 1 of 2 of the request r"),
        "{story:?}"
    );

    // A countdown that was under way when it was released comes to nothing.
    let released = job(&[planned(1), held(1), RELEASED]);
    assert_eq!(respond::unattended(&released, 30, 9), []);
    assert!(decide(&released).contains(&countdown(60)));
}

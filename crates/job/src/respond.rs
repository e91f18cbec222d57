//! Which events follow from what clients and runners say (spec/jobs, "Idempotence"). Pure; said twice, nothing follows the
//! second time. Not here: recording (manager), meaning of events (`state`).

use crate::attempt::{AttemptReport, Cost, NOT_BEGUN, Outcome, OutputStream};
use crate::contract::{Caller, Refusal};
use crate::description::{Destination, JobDescription, OutputMode};
use crate::event::{Event, Record};
use crate::staging::{self, Item};
use crate::state::{Attempt, Job, Stage, apply};
use std::sync::Arc;

/// Attempts of one job, all together. An attempt that never began costs nothing, but a site that dies each time before it
/// can start one must not go on for ever, nor a job that is the death of each host that it runs on.
pub const MAX_ATTEMPTS: u32 = 5;

/// A person needs some minutes to make a new proxy and renew (as `kumiko` says it of a caller's own).
pub const CREDENTIAL_WARNING_MS: u64 = 30 * 60 * 1000;

/// The events of a submission. Recorded together: a job that was acknowledged has its first attempt planned, or waits for
/// its files or for what it reserves.
/// `credential_ends_ms` is there if the description names a credential.
pub fn submit(
    caller: &Caller,
    key: Option<String>,
    description: Arc<JobDescription>,
    credential_ends_ms: Option<u64>,
    here: Here<'_>,
) -> Vec<Event> {
    let given = description.credential.clone().zip(credential_ends_ms);
    let files = staging::items_in(&description).len();
    let mut events = vec![Event::Submitted {
        caller: caller.clone(),
        key,
        description,
    }];
    events.extend(given.map(|(name, not_after_ms)| Event::CredentialGiven { name, not_after_ms }));
    events.push(match files {
        0 => first(here),
        files => Event::StagingIn {
            files: u32::try_from(files).unwrap_or(u32::MAX),
        },
    });
    events
}

/// What follows when nothing is left to fetch.
fn first(here: Here<'_>) -> Event {
    match here.has_room {
        true => planned(1, here),
        false => Event::Queued {},
    }
}

/// What a waiting job reserves is left; none, if it does not wait.
pub fn admit(job: &Job, here: Here<'_>) -> Vec<Event> {
    match job.stage {
        Stage::Waiting { last_epoch: 0 } => vec![planned(1, here)],
        _ => Vec::new(),
    }
}

fn planned(epoch: u32, here: Here<'_>) -> Event {
    Event::Planned {
        epoch,
        batch: here.batch.to_owned(),
        boot: here.boot.to_owned(),
    }
}

/// Staging has done `item`, or cannot. None, if it was said before or is of no use any more. `given`: of a stream, the
/// event that gave its destination.
pub fn moved(
    job: &Job,
    item: Item,
    given: Option<u64>,
    how: Result<u64, Refusal>,
    here: Here<'_>,
) -> Vec<Event> {
    let left = job.to_move();
    let is_current = match (staging::destination(job, item), given) {
        (Some((stream, _)), Some(given)) => job.destinations(stream).0 == given,
        _ => true,
    };
    if !left.contains(&item) || !is_current {
        return Vec::new();
    }
    let is_last = left.len() == 1;
    let mut failure = None;
    let event = match how {
        Ok(bytes) => Event::Transferred { item, bytes },
        Err(Refusal { code, message }) => {
            failure = Some((item, Refusal::new(&code, message.clone())));
            Event::TransferFailed {
                item,
                code,
                message,
            }
        }
    };
    let mut events = vec![event];
    match &job.stage {
        Stage::StagingIn(_) if is_last && failure.is_none() => events.push(first(here)),
        Stage::StagingOut(end, moved) if is_last => events.push(Event::StagedOut {
            outcome: outcome_after(&end.outcome, moved.failure.clone().or(failure)),
        }),
        _ => {}
    }
    events
}

/// A program that came to its end, but whose files did not: the job failed. Any other end says more.
fn outcome_after(outcome: &Outcome, failure: Option<(Item, Refusal)>) -> Outcome {
    match (outcome, failure) {
        (Outcome::Exited { status }, Some((item, Refusal { code, message }))) => {
            Outcome::StagingFailed {
                item,
                code,
                message: format!("{message} (the program ended with status {status})"),
            }
        }
        _ => outcome.clone(),
    }
}

/// Why the streams of a job cannot be redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRedirect {
    #[error("the job has ended")]
    Ended,
    #[error("its output is not kept but flows to whoever attached")]
    Flows,
    #[error("it may run again from its start, and its output with it")]
    Rerun,
}

/// The events of a new destination for one or both streams; none, if nothing changes.
pub fn redirect(
    job: &Job,
    stdout: Option<Vec<Destination>>,
    stderr: Option<Vec<Destination>>,
) -> Result<Vec<Event>, NoRedirect> {
    if !job.is_live() {
        return Err(NoRedirect::Ended);
    }
    if job.description.output == OutputMode::Flow {
        return Err(NoRedirect::Flows);
    }
    if job.description.rerun {
        return Err(NoRedirect::Rerun);
    }
    let same = |stream, list: &Option<Vec<Destination>>| {
        list.as_deref()
            .is_none_or(|list| list == job.destinations(stream).1)
    };
    if same(OutputStream::Stdout, &stdout) && same(OutputStream::Stderr, &stderr) {
        return Ok(Vec::new());
    }
    let event = Event::Redirected { stdout, stderr };
    let mut events = vec![event.clone()];
    // With nowhere to send to nothing may be left to do, and nobody would say so.
    if let Stage::StagingOut(end, moved) = &job.stage {
        let record = Record {
            number: job.last_event + 1,
            at_ms: 0,
            event,
        };
        let nothing_left =
            apply(job.id, Some(job), &record).is_ok_and(|after| after.to_move().is_empty());
        events.extend(nothing_left.then(|| Event::StagedOut {
            outcome: outcome_after(&end.outcome, moved.failure.clone()),
        }));
    }
    Ok(events)
}

/// Why a job's credential cannot be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRenewal {
    #[error("the job has ended")]
    Ended,
    #[error("the job was submitted without a credential")]
    NoCredential,
}

/// The events of a renewal.
pub fn renew(job: &Job, name: String, not_after_ms: u64) -> Result<Vec<Event>, NoRenewal> {
    if !job.is_live() {
        Err(NoRenewal::Ended)
    } else if job.credential.is_none() {
        Err(NoRenewal::NoCredential)
    } else {
        Ok(vec![Event::CredentialGiven { name, not_after_ms }])
    }
}

/// The time to warn of the credential of event `number` has come; none, if it was told, renewed, or is of no use any more.
pub fn credential_ending(job: &Job, number: u64) -> Vec<Event> {
    let current = job
        .credential
        .iter()
        .filter(|credential| job.is_live() && credential.number == number && !credential.told);
    current
        .map(|credential| Event::CredentialEnding {
            not_after_ms: credential.not_after_ms,
        })
        .collect()
}

/// The events that a runner's report makes. None, if the report is of a fenced epoch, a repetition, or not worth an event.
pub fn report(
    job: &Job,
    epoch: u32,
    report: AttemptReport,
    output: OutputBytes,
    here: Here<'_>,
) -> Vec<Event> {
    let (Stage::Planned(attempt) | Stage::Running(attempt, _)) = &job.stage else {
        return Vec::new();
    };
    if attempt.epoch != epoch {
        return Vec::new();
    }
    let run = match &job.stage {
        Stage::Running(_, run) => Some(run),
        _ => None,
    };
    let suspended = run.map(|run| run.suspended);
    match report {
        AttemptReport::Held
            if suspended.is_none() && job.hold_s().is_some() && job.hold.epoch != epoch =>
        {
            vec![Event::Held { epoch }]
        }
        AttemptReport::Started {
            pid,
            mechanism,
            not_enforced,
            why,
        } if suspended.is_none() => {
            vec![Event::Started {
                epoch,
                pid,
                mechanism,
                not_enforced,
                why,
            }]
        }
        AttemptReport::Followed { not } if run.is_some_and(|run| run.unfollowed != not) => {
            vec![Event::Unfollowed { epoch, not }]
        }
        AttemptReport::Suspended if suspended == Some(false) => vec![Event::Suspended { epoch }],
        AttemptReport::Resumed if suspended == Some(true) => vec![Event::Resumed { epoch }],
        AttemptReport::Ended(outcome) => ended(job, attempt, outcome, output, here),
        AttemptReport::Held
        | AttemptReport::Beat
        | AttemptReport::Vacates
        | AttemptReport::Started { .. }
        | AttemptReport::Cost(_)
        | AttemptReport::Followed { .. }
        | AttemptReport::Suspended
        | AttemptReport::Resumed
        | AttemptReport::Output { .. }
        | AttemptReport::StdinTaken { .. }
        | AttemptReport::StdinClosed => Vec::new(),
    }
}

/// Where an attempt is planned.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    pub batch: &'a str,
    /// Names the machine's present run, from boot to going down (/proc/sys/kernel/random/boot_id, random(4)).
    pub boot: &'a str,
    /// What the job reserves is left for it (`admission`).
    pub has_room: bool,
}

/// What an attempt leaves, beside its outcome: bytes in the spool, and what its sandbox cost, if that was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBytes {
    pub stdout: u64,
    pub stderr: u64,
    pub cost: Option<Cost>,
}

fn ended(
    job: &Job,
    attempt: &Attempt,
    outcome: Outcome,
    output: OutputBytes,
    here: Here<'_>,
) -> Vec<Event> {
    let epoch = attempt.epoch;
    let not_begun = matches!(&outcome, Outcome::NeverStarted { code, .. } if code == NOT_BEGUN);
    // That there is no trace of a guest proves nothing once the machine went down: what a runner wrote and did not sync
    // went with it.
    let not_begun_indeed =
        not_begun && matches!(job.stage, Stage::Planned(_)) && attempt.boot == here.boot;
    let cancelled = job.cancel_grace_ms.is_some();
    let outcome = match outcome {
        // What never began and was to be ended has been ended, as asked.
        _ if not_begun_indeed && cancelled => Outcome::Cancelled,
        Outcome::NeverStarted { message, .. } if not_begun && !not_begun_indeed => Outcome::Lost {
            message: format!(
                "nothing is left of the attempt, which may have begun before the machine went down ({message})"
            ),
        },
        outcome => outcome,
    };
    let again = not_begun_indeed || job.runs_again_after(&outcome);
    let retry = again && !cancelled && epoch < MAX_ATTEMPTS;
    let staging_out = !retry && !staging::items_out(job, &outcome).is_empty();
    let mut events = vec![Event::AttemptEnded {
        epoch,
        outcome,
        retry,
        stdout_bytes: output.stdout,
        stderr_bytes: output.stderr,
        staging_out,
        cost: output.cost,
    }];
    if retry {
        events.push(planned(epoch + 1, here));
    }
    events
}

/// The events of a cancel; none, if the job has ended or a cancel at least as hasty stands.
pub fn cancel(job: &Job, grace_ms: u64) -> Vec<Event> {
    let hastier = job.cancel_grace_ms.is_none_or(|before| grace_ms < before);
    if job.is_live() && hastier {
        vec![Event::CancelRequested { grace_ms }]
    } else {
        Vec::new()
    }
}

/// Nobody has been attached, or has held it on, for `after_s`; no events, if it does without for longer now, has ended, or a
/// cancel stands.
pub fn unattended(job: &Job, after_s: u64, grace_ms: u64) -> Vec<Event> {
    let is_due = job.needs_somebody_s() == Some(after_s);
    match is_due && job.is_live() && job.cancel_grace_ms.is_none() {
        true => vec![
            Event::Unattended { after_s },
            Event::CancelRequested { grace_ms },
        ],
        false => Vec::new(),
    }
}

/// Why a job cannot be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRelease {
    #[error("it has ended, or is told to end")]
    Ended,
    #[error("it was submitted to begin at once")]
    NotHeld,
}

/// The events of a release; none, if it was released before.
pub fn release(job: &Job) -> Result<Vec<Event>, NoRelease> {
    if job.hold_s().is_none() {
        Err(NoRelease::NotHeld)
    } else if job.hold.released {
        Ok(Vec::new())
    } else if job.program_is_over() || job.cancel_grace_ms.is_some() {
        Err(NoRelease::Ended)
    } else {
        Ok(vec![Event::Released {}])
    }
}

/// Why a job cannot be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the job has not ended")]
pub struct StillLive;

/// The events of a removal; none, if it is removed already.
pub fn remove(job: &Job, expired: bool) -> Result<Vec<Event>, StillLive> {
    match job.stage {
        Stage::Removed { .. } => Ok(Vec::new()),
        Stage::Ended(_) => Ok(vec![Event::Removed { expired }]),
        _ => Err(StillLive),
    }
}

//! States of a job and the one way from one to the next: `apply` (spec/jobs, "States").
//! Each stage's type holds what is known in that stage only. Not here: which stage follows which (`next`), who causes events
//! (`respond`), what follows (`decide`).

mod next;

pub(crate) use next::FENCED;

use crate::attempt::{Outcome, OutputStream};
use crate::contract::{Caller, EventView, JobState, JobView, Refusal, StagingView};
use crate::description::{Destination, JobDescription};
use crate::event::{Event, Record};
use crate::hold::Hold;
use crate::id::{AttemptId, JobId};
use crate::limits::{self, ChangedLimits};
use crate::rerun;
use crate::staging::{self, Item};
use kumiko_policy::Policy;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A job as replay of its events makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub caller: Caller,
    pub key: Option<String>,
    pub description: Arc<JobDescription>,
    pub submitted_ms: u64,
    /// The shortest grace that a cancel asked for.
    pub cancel_grace_ms: Option<u64>,
    /// The last one given.
    pub credential: Option<GivenCredential>,
    /// Where the output streams go, if it was changed since the submission.
    pub redirected: Option<Redirected>,
    /// Limits that were changed since the submission.
    pub limits: ChangedLimits,
    /// What its owner narrowed since, all of it.
    pub narrowed: Option<Arc<Policy>>,
    pub hold: Hold,
    /// Which attempt its owner wants where.
    pub wanted: Option<(u32, String)>,
    /// Number of the last event.
    pub last_event: u64,
    pub stage: Stage,
}

/// Destinations given after the submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirected {
    /// For each stream, the number of the event that gave them.
    pub stdout: Option<(u64, Vec<Destination>)>,
    pub stderr: Option<(u64, Vec<Destination>)>,
}

/// A credential that a job has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenCredential {
    pub name: String,
    /// Number of the event that gave it.
    pub number: u64,
    pub not_after_ms: u64,
    /// Its end was told of.
    pub told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Files are fetched; no attempt was ever planned.
    StagingIn(Moved),
    /// No attempt is planned: it waits until what it reserves is left. `last_epoch` is 0 before the first; with another
    /// one it is never seen alone, since the next attempt is planned in the same transaction.
    Waiting {
        last_epoch: u32,
    },
    /// An attempt may exist; its guest is not known to have begun.
    Planned(Attempt),
    Running(Attempt, Run),
    /// The attempt is over; files and streams are sent. The end has the outcome of the attempt.
    StagingOut(End, Moved),
    Ended(End),
    /// Nothing is kept but the number of attempts whose spools must go.
    Removed {
        last_epoch: u32,
    },
}

/// What staging has behind it, in the present stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Done, or given up.
    pub settled: BTreeSet<Item>,
    pub bytes: u64,
    /// The first that could not be done.
    pub failure: Option<(Item, Refusal)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub epoch: u32,
    pub batch: String,
    pub boot: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub started_ms: u64,
    pub pid: u32,
    pub mechanism: String,
    pub not_enforced: Vec<String>,
    /// What it does not follow of the policies that hold by now.
    pub unfollowed: Vec<String>,
    pub suspended: bool,
    /// It is to end, for its job runs again.
    pub leaves: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub outcome: Outcome,
    pub ended_ms: u64,
    /// None: cancelled while no attempt was planned.
    pub attempt: Option<Attempt>,
    pub run: Option<Run>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// An event that cannot follow: the log is damaged, or this is a bug. Never the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {number} ({kind}) of job {job} cannot follow in state {stage}: {why}")]
pub struct Illegal {
    pub job: JobId,
    pub number: u64,
    pub kind: &'static str,
    pub stage: &'static str,
    pub why: &'static str,
}

impl Stage {
    fn name(&self) -> &'static str {
        match self {
            Stage::StagingIn(_) => "staging_in",
            Stage::StagingOut(..) => "staging_out",
            Stage::Waiting { .. } => "waiting",
            Stage::Planned(_) => "planned",
            Stage::Running(..) => "running",
            Stage::Ended(_) => "ended",
            Stage::Removed { .. } => "removed",
        }
    }
}

impl Job {
    /// The attempt that may be alive.
    pub fn attempt(&self) -> Option<AttemptId> {
        match &self.stage {
            Stage::Planned(attempt) | Stage::Running(attempt, _) => {
                Some(self.attempt_id(attempt.epoch))
            }
            Stage::StagingIn(_)
            | Stage::Waiting { .. }
            | Stage::StagingOut(..)
            | Stage::Ended(_)
            | Stage::Removed { .. } => None,
        }
    }

    /// The attempt whose spool holds the job's output: the last one.
    pub fn last_attempt(&self) -> Option<AttemptId> {
        match self.last_epoch() {
            0 => None,
            epoch => Some(self.attempt_id(epoch)),
        }
    }

    pub fn last_epoch(&self) -> u32 {
        match &self.stage {
            Stage::StagingIn(_) => 0,
            Stage::Waiting { last_epoch } | Stage::Removed { last_epoch } => *last_epoch,
            Stage::Planned(attempt) | Stage::Running(attempt, _) => attempt.epoch,
            Stage::StagingOut(end, _) | Stage::Ended(end) => {
                end.attempt.as_ref().map_or(0, |attempt| attempt.epoch)
            }
        }
    }

    pub fn attempt_id(&self, epoch: u32) -> AttemptId {
        AttemptId {
            job: self.id,
            epoch,
        }
    }

    /// Its program has ended, or never will begin; files may still be on their way.
    pub fn program_is_over(&self) -> bool {
        matches!(self.stage, Stage::StagingOut(..)) || !self.is_live()
    }

    /// Neither ended nor removed.
    pub fn is_live(&self) -> bool {
        !matches!(self.stage, Stage::Ended(_) | Stage::Removed { .. })
    }

    /// The number of the event that gave the destinations of a stream (1: the description), and the destinations.
    pub fn destinations(&self, stream: OutputStream) -> (u64, &[Destination]) {
        let (changed, first) = match stream {
            OutputStream::Stdout => (
                self.redirected.as_ref().and_then(|to| to.stdout.as_ref()),
                &self.description.stdout,
            ),
            OutputStream::Stderr => (
                self.redirected.as_ref().and_then(|to| to.stderr.as_ref()),
                &self.description.stderr,
            ),
        };
        changed.map_or((1, first), |(number, list)| (*number, list))
    }

    /// What staging has still to do in this stage, in order.
    pub fn to_move(&self) -> Vec<Item> {
        let (mut items, moved) = match &self.stage {
            Stage::StagingIn(moved) => (staging::items_in(&self.description), moved),
            Stage::StagingOut(end, moved) => (staging::items_out(self, &end.outcome), moved),
            _ => return Vec::new(),
        };
        items.retain(|item| !moved.settled.contains(item));
        items
    }

    fn staging_view(&self) -> Option<StagingView> {
        let (Stage::StagingIn(moved) | Stage::StagingOut(_, moved)) = &self.stage else {
            return None;
        };
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Some(StagingView {
            files_done: count(moved.settled.len()),
            files: count(moved.settled.len() + self.to_move().len()),
            bytes_done: moved.bytes,
        })
    }

    /// The word that clients see (spec/jobs J12).
    pub fn state(&self) -> JobState {
        match &self.stage {
            Stage::StagingIn(_) => JobState::StagingIn,
            Stage::Waiting { .. } | Stage::Planned(_) => JobState::Pending,
            Stage::StagingOut(..) => JobState::StagingOut,
            Stage::Running(_, run) if run.suspended => JobState::Suspended,
            Stage::Running(..) => JobState::Active,
            Stage::Ended(end) => match end.outcome {
                Outcome::Exited { status: 0 } => JobState::Done,
                Outcome::Cancelled => JobState::Cancelled,
                _ => JobState::Failed,
            },
            // Only ended jobs are removed; how it ended is forgotten with it.
            Stage::Removed { .. } => JobState::Done,
        }
    }

    /// As told to clients. The lengths are those of a living attempt; an ended one's are in its event.
    pub fn view(&self, stdout_bytes: u64, stderr_bytes: u64) -> JobView {
        let (attempt, run, end) = match &self.stage {
            Stage::Planned(attempt) => (Some(attempt), None, None),
            Stage::Running(attempt, run) => (Some(attempt), Some(run), None),
            Stage::StagingOut(end, _) => (end.attempt.as_ref(), end.run.as_ref(), None),
            Stage::Ended(end) => (end.attempt.as_ref(), end.run.as_ref(), Some(end)),
            Stage::StagingIn(_) | Stage::Waiting { .. } | Stage::Removed { .. } => {
                (None, None, None)
            }
        };
        let output = match &self.stage {
            Stage::StagingOut(end, _) | Stage::Ended(end) => Some(end),
            _ => None,
        };
        JobView {
            id: self.id,
            key: self.key.clone(),
            state: self.state(),
            name: self.description.name.clone(),
            executable: self.description.executable.clone(),
            arguments: self.description.arguments.clone(),
            subject: self.caller.subject.clone(),
            account: self.caller.account.clone(),
            batch: attempt.map(|attempt| attempt.batch.clone()),
            mechanism: run.map(|run| run.mechanism.clone()),
            not_enforced: run.map(|run| run.not_enforced.clone()).unwrap_or_default(),
            epoch: self.last_epoch(),
            submitted_ms: self.submitted_ms,
            started_ms: run.map(|run| run.started_ms),
            ended_ms: end.map(|end| end.ended_ms),
            outcome: end.map(|end| end.outcome.clone()),
            stdout_bytes: output.map_or(stdout_bytes, |end| end.stdout_bytes),
            stderr_bytes: output.map_or(stderr_bytes, |end| end.stderr_bytes),
            credential_ends_ms: self
                .credential
                .as_ref()
                .filter(|_| self.is_live())
                .map(|credential| credential.not_after_ms),
            staging: self.staging_view(),
            together: self.description.together.clone(),
            held: self.is_held(),
            last_event: self.last_event,
        }
    }
}

/// The state after `record`; `job` is None before the first event. Pure, and total over what may legally follow.
pub fn apply(id: JobId, job: Option<&Job>, record: &Record) -> Result<Job, Illegal> {
    let illegal = |why| Illegal {
        job: id,
        number: record.number,
        kind: record.event.kind(),
        stage: job.map_or("none", |job| job.stage.name()),
        why,
    };
    let Some(job) = job else {
        return match &record.event {
            Event::Submitted {
                caller,
                key,
                description,
            } if record.number == 1 => Ok(Job {
                id,
                caller: caller.clone(),
                key: key.clone(),
                description: Arc::clone(description),
                submitted_ms: record.at_ms,
                cancel_grace_ms: None,
                credential: None,
                redirected: None,
                limits: ChangedLimits::default(),
                narrowed: None,
                hold: Hold::default(),
                wanted: None,
                last_event: 1,
                stage: Stage::Waiting { last_epoch: 0 },
            }),
            _ => Err(illegal("a job begins with event 1, submitted")),
        };
    };
    if record.number != job.last_event + 1 {
        return Err(illegal("numbers count without gaps"));
    }
    let stage = next::stage(job, record).map_err(illegal)?;
    let cancel_grace_ms = match record.event {
        Event::CancelRequested { grace_ms } => Some(grace_ms),
        _ => job.cancel_grace_ms,
    };
    let credential = match &record.event {
        Event::CredentialGiven { name, not_after_ms } => Some(GivenCredential {
            name: name.clone(),
            number: record.number,
            not_after_ms: *not_after_ms,
            told: false,
        }),
        Event::CredentialEnding { .. } => {
            job.credential.clone().map(|credential| GivenCredential {
                told: true,
                ..credential
            })
        }
        _ => job.credential.clone(),
    };
    let redirected = match &record.event {
        Event::Redirected { stdout, stderr } => Some(redirect(job, record.number, stdout, stderr)),
        _ => job.redirected.clone(),
    };
    Ok(Job {
        last_event: record.number,
        hold: job.hold.after(&record.event),
        wanted: rerun::wanted_after(job, &record.event),
        limits: job.limits.after(record),
        narrowed: limits::narrowed_after(job, &record.event),
        stage,
        cancel_grace_ms,
        credential,
        redirected,
        ..job.clone()
    })
}

fn redirect(
    job: &Job,
    number: u64,
    stdout: &Option<Vec<Destination>>,
    stderr: &Option<Vec<Destination>>,
) -> Redirected {
    let before = job.redirected.clone();
    let (old_stdout, old_stderr) = before.map_or((None, None), |to| (to.stdout, to.stderr));
    let new = |list: &Option<Vec<Destination>>| list.clone().map(|list| (number, list));
    Redirected {
        stdout: new(stdout).or(old_stdout),
        stderr: new(stderr).or(old_stderr),
    }
}

/// Replays a whole log of one job.
pub fn replay<'a>(
    id: JobId,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<Option<Job>, Illegal> {
    let mut job = None;
    for record in records {
        job = Some(apply(id, job.as_ref(), record)?);
    }
    Ok(job)
}

/// The records as told to watchers, each with the state that it led to; up to the first that is illegal.
pub fn views(id: JobId, records: &[Record]) -> Vec<EventView> {
    let mut views = Vec::with_capacity(records.len());
    let mut job: Option<Job> = None;
    for record in records {
        let Ok(after) = apply(id, job.as_ref(), record) else {
            break;
        };
        views.push(record.view(id, after.state()));
        job = Some(after);
    }
    views
}

//! Which stage follows which (spec/jobs J11), event by event. Pure. Not here: what else of a job changes (`state`).

use super::{Attempt, End, Job, Moved, Run, Stage};
use crate::attempt::Outcome;
use crate::contract::Refusal;
use crate::event::{Event, Record};
use crate::limits;
use crate::staging::{self, Item};

pub(crate) const FENCED: &str = "it is of another epoch than the attempt that lives";
const NO_CHANGE: &str = "it changes nothing";
const NOTHING_TO_MOVE: &str = "staging has no such thing to do";

/// A job that ended before any attempt was planned.
fn no_attempt(outcome: Outcome, record: &Record) -> End {
    End {
        outcome,
        ended_ms: record.at_ms,
        attempt: None,
        run: None,
        stdout_bytes: 0,
        stderr_bytes: 0,
    }
}

fn settle(
    job: &Job,
    moved: &Moved,
    item: Item,
    bytes: u64,
    failure: Option<Refusal>,
) -> Result<Moved, &'static str> {
    if !job.to_move().contains(&item) {
        return Err(NOTHING_TO_MOVE);
    }
    let mut moved = moved.clone();
    moved.settled.insert(item);
    moved.bytes = moved.bytes.saturating_add(bytes);
    moved.failure = moved
        .failure
        .or_else(|| failure.map(|refusal| (item, refusal)));
    Ok(moved)
}

pub(super) fn stage(job: &Job, record: &Record) -> Result<Stage, &'static str> {
    match (&job.stage, &record.event) {
        (Stage::Waiting { last_epoch }, Event::Planned { epoch, batch, boot }) => {
            if *epoch != last_epoch + 1 {
                return Err("epochs count without gaps");
            }
            Ok(Stage::Planned(Attempt {
                epoch: *epoch,
                batch: batch.clone(),
                boot: boot.clone(),
            }))
        }
        (
            Stage::StagingIn(_)
            | Stage::Waiting { .. }
            | Stage::Planned(_)
            | Stage::Running(..)
            | Stage::StagingOut(..),
            Event::CredentialGiven { .. },
        ) => Ok(job.stage.clone()),
        (
            Stage::StagingIn(_)
            | Stage::Waiting { .. }
            | Stage::Planned(_)
            | Stage::Running(..)
            | Stage::StagingOut(..),
            Event::CredentialEnding { not_after_ms },
        ) => match &job.credential {
            Some(credential) if credential.told => Err("it was told already"),
            Some(credential) if credential.not_after_ms == *not_after_ms => Ok(job.stage.clone()),
            _ => Err("the job has no such credential"),
        },
        (
            Stage::StagingIn(_)
            | Stage::Waiting { .. }
            | Stage::Planned(_)
            | Stage::Running(..)
            | Stage::StagingOut(..),
            Event::Unattended { .. },
        ) => {
            if job.needs_somebody_s().is_none() {
                return Err("the job needs nobody");
            }
            if job.cancel_grace_ms.is_some() {
                return Err("a cancel stands already");
            }
            Ok(job.stage.clone())
        }
        (Stage::StagingIn(_) | Stage::Waiting { .. }, Event::CancelRequested { .. }) => {
            Ok(Stage::Ended(no_attempt(Outcome::Cancelled, record)))
        }
        // What is not sent yet is given up, and a grace has no meaning any more.
        (Stage::StagingOut(end, _), Event::CancelRequested { .. }) => Ok(Stage::Ended(End {
            outcome: Outcome::Cancelled,
            ended_ms: record.at_ms,
            ..end.clone()
        })),
        (
            Stage::StagingIn(_) | Stage::Waiting { .. } | Stage::Planned(_) | Stage::Running(..),
            Event::LimitsSet { limits, .. },
        ) => limits::check(limits).map(|()| job.stage.clone()),
        (
            Stage::StagingIn(_) | Stage::Waiting { .. } | Stage::Planned(_) | Stage::Running(..),
            Event::Narrowed { .. },
        ) => Ok(job.stage.clone()),
        (Stage::Waiting { last_epoch: 0 }, Event::Queued {}) => Ok(job.stage.clone()),
        (Stage::StagingIn(_), Event::Queued {}) => match job.to_move().is_empty() {
            true => Ok(Stage::Waiting { last_epoch: 0 }),
            false => Err("not all files are there"),
        },
        (Stage::Waiting { last_epoch: 0 }, Event::StagingIn { files }) => {
            let known = staging::items_in(&job.description).len();
            if usize::try_from(*files) != Ok(known) {
                return Err("the description has another number of files");
            }
            Ok(Stage::StagingIn(Moved::default()))
        }
        (Stage::StagingIn(moved), Event::Transferred { item, bytes }) => {
            Ok(Stage::StagingIn(settle(job, moved, *item, *bytes, None)?))
        }
        (
            Stage::StagingIn(_),
            Event::TransferFailed {
                item,
                code,
                message,
            },
        ) => {
            if !job.to_move().contains(item) {
                return Err(NOTHING_TO_MOVE);
            }
            let outcome = Outcome::StagingFailed {
                item: *item,
                code: code.clone(),
                message: message.clone(),
            };
            Ok(Stage::Ended(no_attempt(outcome, record)))
        }
        (Stage::StagingIn(_), Event::Planned { epoch, batch, boot }) => {
            if *epoch != 1 {
                return Err("epochs count without gaps");
            }
            if !job.to_move().is_empty() {
                return Err("not all files are there");
            }
            Ok(Stage::Planned(Attempt {
                epoch: *epoch,
                batch: batch.clone(),
                boot: boot.clone(),
            }))
        }
        (Stage::StagingOut(end, moved), Event::Transferred { item, bytes }) => {
            let moved = settle(job, moved, *item, *bytes, None)?;
            Ok(Stage::StagingOut(end.clone(), moved))
        }
        (
            Stage::StagingOut(end, moved),
            Event::TransferFailed {
                item,
                code,
                message,
            },
        ) => {
            let refusal = Refusal::new(code, message.clone());
            let moved = settle(job, moved, *item, 0, Some(refusal))?;
            Ok(Stage::StagingOut(end.clone(), moved))
        }
        (Stage::StagingOut(end, _), Event::StagedOut { outcome }) => {
            if !job.to_move().is_empty() {
                return Err("not all is sent");
            }
            Ok(Stage::Ended(End {
                outcome: outcome.clone(),
                ended_ms: record.at_ms,
                ..end.clone()
            }))
        }
        // A stream that was sent to its end is sent anew to the new place.
        (Stage::StagingOut(end, moved), Event::Redirected { stdout, stderr }) => {
            let mut moved = moved.clone();
            moved.settled.retain(|item| match item {
                Item::Stdout(_) => stdout.is_none(),
                Item::Stderr(_) => stderr.is_none(),
                _ => true,
            });
            Ok(Stage::StagingOut(end.clone(), moved))
        }
        (
            Stage::StagingIn(_) | Stage::Waiting { .. } | Stage::Planned(_) | Stage::Running(..),
            Event::Redirected { .. },
        ) => Ok(job.stage.clone()),
        (
            Stage::Planned(attempt),
            Event::Started {
                epoch,
                pid,
                mechanism,
                not_enforced,
                ..
            },
        ) => {
            if *epoch != attempt.epoch {
                return Err(FENCED);
            }
            let run = Run {
                started_ms: record.at_ms,
                pid: *pid,
                mechanism: mechanism.clone(),
                not_enforced: not_enforced.clone(),
                unfollowed: Vec::new(),
                suspended: false,
                leaves: false,
            };
            Ok(Stage::Running(attempt.clone(), run))
        }
        (Stage::Planned(attempt), Event::Held { epoch }) => {
            job.may_be_held(attempt, *epoch).map(|()| job.stage.clone())
        }
        (
            Stage::StagingIn(_) | Stage::Waiting { .. } | Stage::Planned(_) | Stage::Running(..),
            Event::Released {},
        ) => job.may_be_released().map(|()| job.stage.clone()),
        (Stage::Running(attempt, run), Event::Unfollowed { epoch, not }) => {
            if *epoch != attempt.epoch {
                return Err(FENCED);
            }
            if run.unfollowed == *not {
                return Err(NO_CHANGE);
            }
            let mut run = run.clone();
            run.unfollowed.clone_from(not);
            Ok(Stage::Running(attempt.clone(), run))
        }
        (Stage::Running(attempt, run), Event::Requeued { epoch, .. }) => {
            job.may_be_requeued(attempt, run, *epoch)?;
            let leaves = true;
            Ok(Stage::Running(
                attempt.clone(),
                Run {
                    leaves,
                    ..run.clone()
                },
            ))
        }
        (Stage::Running(attempt, run), Event::Suspended { epoch } | Event::Resumed { epoch }) => {
            let suspended = matches!(record.event, Event::Suspended { .. });
            if *epoch != attempt.epoch {
                return Err(FENCED);
            }
            if run.suspended == suspended {
                return Err(NO_CHANGE);
            }
            Ok(Stage::Running(
                attempt.clone(),
                Run {
                    suspended,
                    ..run.clone()
                },
            ))
        }
        (Stage::Planned(_) | Stage::Running(..), Event::CancelRequested { grace_ms }) => {
            if job
                .cancel_grace_ms
                .is_some_and(|before| before <= *grace_ms)
            {
                return Err("a cancel with no shorter grace stands already");
            }
            Ok(job.stage.clone())
        }
        (
            Stage::Planned(attempt) | Stage::Running(attempt, _),
            Event::AttemptEnded {
                epoch,
                outcome,
                retry,
                stdout_bytes,
                stderr_bytes,
                staging_out,
                ..
            },
        ) => {
            if *epoch != attempt.epoch {
                return Err(FENCED);
            }
            let run = match &job.stage {
                Stage::Running(_, run) => Some(run.clone()),
                _ => None,
            };
            if *retry && run.is_some() && !job.description.rerun {
                return Err("a guest that began is not tried again");
            }
            if *retry {
                return Ok(Stage::Waiting { last_epoch: *epoch });
            }
            let end = End {
                outcome: outcome.clone(),
                ended_ms: record.at_ms,
                attempt: Some(attempt.clone()),
                run,
                stdout_bytes: *stdout_bytes,
                stderr_bytes: *stderr_bytes,
            };
            Ok(if *staging_out {
                Stage::StagingOut(end, Moved::default())
            } else {
                Stage::Ended(end)
            })
        }
        (Stage::Ended(_), Event::Removed { .. }) => Ok(Stage::Removed {
            last_epoch: job.last_epoch(),
        }),
        (Stage::Ended(_), _) => Err("the job has ended"),
        (Stage::Removed { .. }, _) => Err("the job was removed"),
        _ => Err("there is no attempt in the stage that it speaks of"),
    }
}

//! What a state asks to be done (spec/jobs, "Actions"). Every action is idempotent, so that doing the list again after a
//! crash is recovery, and there is no other recovery path. Not here: how an action is done (manager).

use crate::attempt::OutputStream;
use crate::id::{AttemptId, JobId};
use crate::staging;
use crate::state::{Job, Stage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// This attempt shall live: start it if this very process planned it, else adopt it.
    Run(AttemptId),
    /// Let the job find the credential that event `number` gave it in place of an earlier one. The first is put there
    /// before an attempt runs.
    Place { job: JobId, number: u64 },
    /// Let the limits hold that event `number` changed last.
    Limit { attempt: AttemptId, number: u64 },
    /// Tell in time that the credential of event `number` ends.
    Remind { job: JobId, number: u64 },
    /// Tell in time that nobody has been attached to the job, or has held it on, for `after_s`.
    Attend { job: JobId, after_s: u64 },
    /// Fetch the job's files that are not there yet.
    StageIn { job: JobId },
    /// Send this stream to the destinations that event `given` gave it, while it grows and to its end.
    Stream {
        job: JobId,
        stream: OutputStream,
        given: u64,
    },
    /// Send the files that are not sent yet, and clean up.
    StageOut { job: JobId },
    /// The job has ended: what staging keeps for it may go.
    Unstage { job: JobId },
    /// The job has ended: no credential of it is kept.
    Discard { job: JobId },
    /// Tell the attempt, which is held, to begin.
    Release(AttemptId),
    /// Tell the attempt to end, as its description says, for its job is to run again elsewhere.
    Requeue(AttemptId),
    /// Tell the attempt to end.
    Cancel { attempt: AttemptId, grace_ms: u64 },
    /// The attempt's end is recorded: its runner may go.
    Settle(AttemptId),
    /// Remove what is left of the job: the spools of epochs 1 to `last_epoch`, its directory, then its log.
    Erase { job: JobId, last_epoch: u32 },
}

/// All that `job` asks for now.
pub fn decide(job: &Job) -> Vec<Action> {
    match &job.stage {
        Stage::StagingIn(_) => {
            let mut actions = vec![Action::StageIn { job: job.id }];
            actions.extend(attended(job));
            actions.extend(reminder(job));
            actions
        }
        Stage::StagingOut(end, _) => {
            let mut actions: Vec<Action> = streams(job).collect();
            actions.push(Action::StageOut { job: job.id });
            actions.extend(reminder(job));
            actions.extend(attended(job));
            let attempt = end.attempt.iter();
            actions.extend(attempt.map(|of| Action::Settle(job.attempt_id(of.epoch))));
            actions
        }
        // Its first attempt is planned by whoever knows what is left (`admission`).
        Stage::Waiting { last_epoch } => {
            let again = job.description.rerun && *last_epoch > 0;
            let over = again.then(|| Action::Settle(job.attempt_id(*last_epoch)));
            let others = attended(job).into_iter().chain(reminder(job));
            over.into_iter().chain(others).collect()
        }
        Stage::Planned(attempt) | Stage::Running(attempt, _) => {
            let attempt = job.attempt_id(attempt.epoch);
            let mut actions = vec![Action::Run(attempt)];
            actions.extend(
                job.cancel_grace_ms
                    .map(|grace_ms| Action::Cancel { attempt, grace_ms }),
            );
            let leaves = matches!(&job.stage, Stage::Running(_, run) if run.leaves);
            actions.extend(leaves.then_some(Action::Requeue(attempt)));
            let released = job.hold.released && job.hold.epoch == attempt.epoch;
            actions.extend(released.then_some(Action::Release(attempt)));
            let number = job.limits.number;
            actions.extend((number > 0).then_some(Action::Limit { attempt, number }));
            actions.extend(streams(job));
            actions.extend(attended(job));
            if let Some(credential) = &job.credential {
                if job.description.credential.as_ref() != Some(&credential.name) {
                    actions.push(Action::Place {
                        job: job.id,
                        number: credential.number,
                    });
                }
            }
            actions.extend(reminder(job));
            actions
        }
        Stage::Ended(end) => {
            let settle = end
                .attempt
                .iter()
                .map(|attempt| Action::Settle(job.attempt_id(attempt.epoch)));
            let discard = job
                .credential
                .iter()
                .map(|_| Action::Discard { job: job.id });
            let unstage = staging::moves_files(job).then_some(Action::Unstage { job: job.id });
            settle.chain(discard).chain(unstage).collect()
        }
        Stage::Removed { last_epoch } => vec![Action::Erase {
            job: job.id,
            last_epoch: *last_epoch,
        }],
    }
}

fn streams(job: &Job) -> impl Iterator<Item = Action> {
    [OutputStream::Stdout, OutputStream::Stderr]
        .into_iter()
        .filter_map(|stream| {
            let (given, list) = job.destinations(stream);
            (!list.is_empty()).then_some(Action::Stream {
                job: job.id,
                stream,
                given,
            })
        })
}

fn attended(job: &Job) -> Option<Action> {
    let after_s = job
        .needs_somebody_s()
        .filter(|_| job.cancel_grace_ms.is_none())?;
    Some(Action::Attend {
        job: job.id,
        after_s,
    })
}

fn reminder(job: &Job) -> Option<Action> {
    let credential = job.credential.as_ref().filter(|one| !one.told)?;
    Some(Action::Remind {
        job: job.id,
        number: credential.number,
    })
}

/// What `after` asks for and `before` did not: the actions of the events between them.
pub fn new_actions(before: Option<&Job>, after: &Job) -> Vec<Action> {
    let done = before.map(decide).unwrap_or_default();
    let mut actions = decide(after);
    actions.retain(|action| !done.contains(action));
    actions
}

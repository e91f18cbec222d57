//! What a state asks to be done (spec/jobs, "Actions"). Every action is idempotent, so that doing the list again after a
//! crash is recovery, and there is no other recovery path. Not here: how an action is done (manager).

use crate::id::{AttemptId, JobId};
use crate::state::{Job, Stage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// This attempt shall live: start it if this very process planned it, else adopt it.
    Run(AttemptId),
    /// Let the job find the credential that event `number` gave it in place of an earlier one. The first is put there
    /// before an attempt runs.
    Place { job: JobId, number: u64 },
    /// Tell in time that the credential of event `number` ends.
    Remind { job: JobId, number: u64 },
    /// Tell in time that nobody has been attached to the job for `after_s`.
    Attend { job: JobId, after_s: u64 },
    /// The job has ended: no credential of it is kept.
    Discard { job: JobId },
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
        // The two are recorded in one transaction (spec/jobs J42): a waiting job is never seen alone.
        Stage::Waiting { .. } => Vec::new(),
        Stage::Planned(attempt) | Stage::Running(attempt, _) => {
            let attempt = job.attempt_id(attempt.epoch);
            let mut actions = vec![Action::Run(attempt)];
            actions.extend(
                job.cancel_grace_ms
                    .map(|grace_ms| Action::Cancel { attempt, grace_ms }),
            );
            if let (Some(after_s), None) = (job.description.attended_s, job.cancel_grace_ms) {
                actions.push(Action::Attend {
                    job: job.id,
                    after_s,
                });
            }
            if let Some(credential) = &job.credential {
                let (job_id, number) = (job.id, credential.number);
                if job.description.credential.as_ref() != Some(&credential.name) {
                    actions.push(Action::Place {
                        job: job_id,
                        number,
                    });
                }
                if !credential.told {
                    actions.push(Action::Remind {
                        job: job_id,
                        number,
                    });
                }
            }
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
            settle.chain(discard).collect()
        }
        Stage::Removed { last_epoch } => vec![Action::Erase {
            job: job.id,
            last_epoch: *last_epoch,
        }],
    }
}

/// What `after` asks for and `before` did not: the actions of the events between them.
pub fn new_actions(before: Option<&Job>, after: &Job) -> Vec<Action> {
    let done = before.map(decide).unwrap_or_default();
    let mut actions = decide(after);
    actions.retain(|action| !done.contains(action));
    actions
}

//! Limits of jobs that run: what their owners may ask for, and what follows when the policies above them are changed
//! (spec/policy, P56, P76 and P77). Not here: what is recorded then (kumiko-job), keeping them (the runner).

use crate::Manager;
use crate::act::Actor;
use crate::jobs::blocking;
use crate::keeper::Ask;
use kumiko_job::attempt::AttemptSpec;
use kumiko_job::contract::{BatchSystem, Caller, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_job::limits::Given;
use kumiko_job::state::Job;
use kumiko_policy::Limits;
use std::io::Read;
use std::sync::Arc;

/// What an attempt was begun with, in its spool, and the most that is read of it (spec/jobs/runner.md R2).
const ATTEMPT: &str = "attempt.json";
const ATTEMPT_MOST_BYTES: u64 = 4 << 20;

impl<B: BatchSystem> Manager<B> {
    /// Policies were changed: jobs that run get the limits that they give now. One for which they cannot be computed keeps
    /// what it has.
    pub async fn policies_changed(&self) {
        // Whoever was submitted under the old ones and is not recorded yet is so after this.
        let barrier = self.ask(|reply| Ask::Waits {
            job: JobId(0),
            reply,
        });
        if barrier.await.is_err() {
            return;
        }
        for cell in self.cells.all() {
            let Some(attempt) = cell.job().attempt() else {
                continue;
            };
            let actor = Arc::clone(&self.actor);
            let ready = cell.look().ready;
            match ready {
                true => drop(blocking(move || actor.reconsider(&cell.job())).await),
                // Its spool may not be written yet.
                false => drop(self.actor.runtime.spawn(async move {
                    if actor.is_known(attempt, &cell).await {
                        drop(blocking(move || actor.reconsider(&cell.job())).await);
                    }
                })),
            }
        }
    }

    /// What was asked for with the job its owner may change; what the policies above the job's give they may not pass.
    pub(crate) fn within(
        &self,
        caller: &Caller,
        description: &JobDescription,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let above = self.actor.above(caller, description)?;
        for (limited, asked) in limits.each() {
            if !(1..=limited.most()).contains(&asked) {
                let message = format!("{asked} is out of range for {}", limited.key());
                return Err(Refusal::new("bad_policy", message));
            }
            if let Some(most) = above.get(limited).filter(|most| asked > *most) {
                let most = Limits::words(limited, most);
                let message =
                    format!("{asked} is asked for, and the policies above the job's have a {most}");
                return Err(Refusal::new("policy_asks_more", message));
            }
        }
        Ok(())
    }
}

impl<B: BatchSystem> Actor<B> {
    /// The limits that the policies above the job's own give.
    pub fn above(&self, caller: &Caller, description: &JobDescription) -> Result<Limits, Refusal> {
        let without = JobDescription {
            policy: None,
            ..description.clone()
        };
        Ok((self.effective)(caller, &without)?.limits)
    }

    /// Policies were changed: has what they give this job recorded, if that is another. Blocks.
    pub fn reconsider(&self, job: &Job) {
        match self.given(job) {
            Ok(Some(given)) => {
                let (job, given) = (job.id, Box::new(given));
                // The keeper is gone only when the site goes down: the next one looks again.
                let _ = self.asks.send(Ask::PoliciesChanged { job, given });
            }
            Ok(None) => {}
            Err(refusal) => {
                tracing::error!(job = %job.id, %refusal, "a job keeps its limits, although policies were changed");
            }
        }
    }

    /// None: there is no such attempt any more.
    fn given(&self, job: &Job) -> Result<Option<Given>, Refusal> {
        let Some(attempt) = job.attempt() else {
            return Ok(None);
        };
        let path = self.batch.spool(attempt).join(ATTEMPT);
        let unreadable = |error: &dyn std::fmt::Display| {
            let path = path.display();
            Refusal::new(
                "spool_unreadable",
                format!("{path} cannot be read: {error}"),
            )
        };
        let file = std::fs::File::open(&path).map_err(|error| unreadable(&error))?;
        let spec: AttemptSpec = serde_json::from_reader(file.take(ATTEMPT_MOST_BYTES))
            .map_err(|error| unreadable(&error))?;
        let above = self.above(&job.caller, &job.description)?;
        let now = (self.effective)(&job.caller, &job.description);
        Ok(Some(Given {
            // A job whose own policy asks for more than those above give by now has what they give.
            now: now.map_or_else(|_| above.clone(), |policy| policy.limits),
            at_first: spec.policy.limits,
            above,
        }))
    }
}

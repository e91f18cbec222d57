//! Limits of jobs that run: what their owners may ask for, and what follows, for limits and for what a guest may see and
//! reach, when the policies above them are changed (spec/policy, P56, P76 to P78). Not here: what is recorded then
//! (kumiko-job), keeping it (the runner).

use crate::Manager;
use crate::act::Actor;
use crate::jobs::blocking;
use crate::keeper::Ask;
use kumiko_job::attempt::{AttemptCommand, AttemptSpec};
use kumiko_job::contract::{BatchSystem, Caller, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_job::limits::Given;
use kumiko_job::state::Job;
use kumiko_policy::{Limits, Policy, follow};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// What an attempt was begun with, in its spool, and the most that is read of it (spec/jobs/runner.md R2).
const ATTEMPT: &str = "attempt.json";
/// The policy that it is to follow by now, beside that.
const POLICY: &str = "policy.json";
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

    /// Policies were changed: has what they give this job recorded, if that is another, and the runner follow the rest.
    /// Blocks.
    pub fn reconsider(self: &Arc<Self>, job: &Job) {
        match self.given(job) {
            Ok(Some(changed)) => {
                self.tell_policy(job, &changed);
                let (job, given) = (job.id, Box::new(changed.given));
                // The keeper is gone only when the site goes down: the next one looks again.
                let _ = self.asks.send(Ask::PoliciesChanged { job, given });
            }
            Ok(None) => {}
            Err(refusal) => {
                tracing::error!(job = %job.id, %refusal, "a job keeps its limits, although policies were changed");
            }
        }
    }

    /// Lays the policy of now beside the attempt, if its decisions are others, and has the runner look (R2, R24).
    fn tell_policy(self: &Arc<Self>, job: &Job, changed: &Changed) {
        let Some(attempt) = job.attempt() else {
            return;
        };
        let path = self.batch.spool(attempt).join(POLICY);
        let told = read::<Policy>(&path).unwrap_or_else(|_| changed.began.clone());
        let decisions = |now: &Policy| follow(&changed.began, now);
        if decisions(&told) == decisions(&changed.now) {
            return;
        }
        if let Err(error) = write(&path, &changed.now) {
            let path = path.display();
            tracing::error!(job = %job.id, %path, %error, "a job keeps its view, although policies were changed");
            return;
        }
        tracing::info!(job = %job.id, "a job that runs follows changed policies");
        let actor = Arc::clone(self);
        self.runtime.spawn(async move {
            let look = AttemptCommand::Limits(Limits::default());
            actor.batch.command(attempt, look).await;
        });
    }

    /// None: there is no such attempt any more.
    fn given(&self, job: &Job) -> Result<Option<Changed>, Refusal> {
        let Some(attempt) = job.attempt() else {
            return Ok(None);
        };
        let path = self.batch.spool(attempt).join(ATTEMPT);
        let spec: AttemptSpec = read(&path).map_err(|error| {
            let path = path.display();
            Refusal::new(
                "spool_unreadable",
                format!("{path} cannot be read: {error}"),
            )
        })?;
        let without = JobDescription {
            policy: None,
            ..JobDescription::clone(&job.description)
        };
        let above = (self.effective)(&job.caller, &without)?;
        let above_gives = above.limits.clone();
        // A job whose own policy asks for more than those above give by now has what they give, and its own addresses
        // no less than before.
        let now = (self.effective)(&job.caller, &job.description).unwrap_or_else(|_| {
            let mut above = above;
            above.reach.extend(spec.policy.reach.iter().cloned());
            above
        });
        Ok(Some(Changed {
            given: Given {
                now: now.limits.clone(),
                at_first: spec.policy.limits.clone(),
                above: above_gives,
            },
            began: spec.policy,
            now,
        }))
    }
}

/// What policies say by now of a job that runs.
struct Changed {
    given: Given,
    /// What its attempt began with.
    began: Policy,
    now: Policy,
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<T> {
    let file = std::fs::File::open(path)?;
    Ok(serde_json::from_reader(file.take(ATTEMPT_MOST_BYTES))?)
}

/// It is there whole or not at all.
fn write(path: &Path, policy: &Policy) -> io::Result<()> {
    let new = path.with_extension("new");
    let text = serde_json::to_vec(policy)?;
    let mut private = std::fs::OpenOptions::new();
    private.create(true).truncate(true).write(true).mode(0o600);
    private.open(&new)?.write_all(&text)?;
    std::fs::rename(&new, path)
}

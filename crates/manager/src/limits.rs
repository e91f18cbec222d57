//! Limits of jobs that run: what their owners may ask for, and what follows, for limits and for what a guest may see and
//! reach, when the policies above them are changed or their owners narrow them (spec/policy, P56, P76 to P78, P89). Not
//! here: what is recorded then (kumiko-job), keeping it (the runner).

use crate::Manager;
use crate::act::Actor;
use crate::cell::{Cell, Face};
use crate::jobs::blocking;
use crate::keeper::Ask;
use kumiko_job::attempt::{AttemptCommand, AttemptSpec};
use kumiko_job::contract::{BatchSystem, Caller, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_job::limits::Given;
use kumiko_job::state::{Job, Stage};
use kumiko_linux::spooling::replace_private;
use kumiko_policy::{
    AmendError, Limits, MechanismKind, Policy, amend, amended, follow, heeded, narrow,
    parse_amendment,
};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// What an attempt was begun with, in its spool, and the most that is read of it (spec/jobs/runner.md R2).
const ATTEMPT: &str = "attempt.json";
/// The policy that it is to follow by now, beside that.
const POLICY: &str = "policy.json";
const ATTEMPT_MOST_BYTES: u64 = 4 << 20;
/// One that a site starts itself has begun within this, on a machine that is busy.
const STARTS_SOON: Duration = Duration::from_secs(1);
/// Codes of a refusal for the organisation that a job names.
const NO_ORGANISATION: [&str; 2] = ["not_a_member", "unknown_vo"];
/// Whose lines those are that a job's owner laid over it while it ran.
const OWNER: &str = "its owner, while it ran";

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
            self.have_followed(cell).await;
        }
    }

    /// Has the runner of a job that runs follow what policies and owner say now.
    async fn have_followed(&self, cell: Arc<Cell>) {
        let Some(attempt) = cell.job().attempt() else {
            return;
        };
        let actor = Arc::clone(&self.actor);
        let ready = cell.look().ready;
        match ready {
            true => drop(blocking(move || actor.reconsider(&cell)).await),
            // Its spool may not be written yet.
            false => drop(self.actor.runtime.spawn(async move {
                if actor.is_known(attempt, &cell).await {
                    drop(blocking(move || actor.reconsider(&cell)).await);
                }
            })),
        }
    }

    /// Narrows what a job may see and reach (P89): recorded, then followed. What of it is not followed, in words.
    pub(crate) async fn narrowed(
        &self,
        caller: &Caller,
        cell: Arc<Cell>,
        text: &str,
    ) -> Result<Vec<String>, Refusal> {
        let asked = parse_amendment(text, OWNER).map_err(refused)?;
        if asked.is_about_network() {
            started(&cell).await;
        }
        let job = cell.job();
        let all = amend(job.narrowed.as_deref(), &asked);
        let given = (self.actor.effective)(caller, &job.description)?;
        let now = narrow(&given, &all).map_err(|error| refused(error.into()))?;
        let (actor, named) = (Arc::clone(&self.actor), asked.clone());
        let not_followed = blocking(move || actor.heeded(&job, &named, &now)).await??;
        let (job, policy) = (cell.job().id, Arc::new(asked));
        self.ask(|reply| Ask::Narrow { job, policy, reply }).await?;
        self.have_followed(cell).await;
        Ok(not_followed)
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
    /// What of `now`, once `asked` is asked for, its attempt does not follow, in words. Blocks.
    fn heeded(&self, job: &Job, asked: &Policy, now: &Policy) -> Result<Vec<String>, Refusal> {
        if let Stage::Running(_, run) = &job.stage {
            let mechanism = MechanismKind::from_name(&run.mechanism).unwrap_or(now.mechanism);
            let began = self
                .began(job)?
                .map_or_else(|| now.clone(), |spec| spec.policy);
            return heeded(&began, asked, now, mechanism).map_err(refused);
        }
        let named = job.description.mechanism.as_deref();
        let named = named.and_then(MechanismKind::from_name);
        let mechanism = named.filter(|kind| *kind != MechanismKind::Auto);
        let mechanism = mechanism.unwrap_or(now.mechanism);
        match mechanism == MechanismKind::Namespace && now.has_address_rules() {
            true => Err(refused(AmendError::Unfollowed {
                mechanism: mechanism.name(),
            })),
            false => Ok(Vec::new()),
        }
    }

    /// None: there is no such attempt any more.
    fn began(&self, job: &Job) -> Result<Option<AttemptSpec>, Refusal> {
        let Some(attempt) = job.attempt() else {
            return Ok(None);
        };
        let path = self.batch.spool(attempt).join(ATTEMPT);
        let spec = read(&path).map_err(|error| {
            let path = path.display();
            Refusal::new(
                "spool_unreadable",
                format!("{path} cannot be read: {error}"),
            )
        })?;
        Ok(Some(spec))
    }

    /// The limits that the policies above the job's own give.
    pub fn above(&self, caller: &Caller, description: &JobDescription) -> Result<Limits, Refusal> {
        Ok((self.effective)(caller, &without_its_own(description))?.limits)
    }

    /// Policies were changed: has what they give this job recorded, if that is another, and the runner follow the rest.
    /// Blocks.
    pub fn reconsider(self: &Arc<Self>, cell: &Cell) {
        // One after the other, so that what is told last is what was recorded last.
        let _turn = self
            .following
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let job = &*cell.job();
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
        let laid = serde_json::to_vec(&changed.now).map_err(io::Error::from);
        if let Err(error) = laid.and_then(|text| replace_private(&path, &text)) {
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
        let Some(spec) = self.began(job)? else {
            return Ok(None);
        };
        let above = (self.effective)(&job.caller, &without_its_own(&job.description))?;
        let above_gives = above.limits.clone();
        let now = match (self.effective)(&job.caller, &by_any_mechanism(&job.description)) {
            // Without the organisation that it names it would have more.
            Err(refusal) if NO_ORGANISATION.contains(&refusal.code.as_str()) => {
                return Err(refusal);
            }
            Ok(now) => now,
            // Its own policy asks for more than those above give by now: it has what they give, and its own addresses no
            // less than before.
            Err(_) => {
                let mut above = above;
                above.reach.extend(spec.policy.reach.iter().cloned());
                above
            }
        };
        let now = match &job.narrowed {
            Some(asked) => amended(&now, asked),
            None => now,
        };
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

/// Of one that runs the mechanism is chosen: what it does not follow is told, and keeps nothing else from it.
fn by_any_mechanism(description: &JobDescription) -> JobDescription {
    JobDescription {
        mechanism: None,
        ..description.clone()
    }
}

fn without_its_own(description: &JobDescription) -> JobDescription {
    JobDescription {
        policy: None,
        ..by_any_mechanism(description)
    }
}

/// Waits for an attempt that is being started, by whose mechanism it is known what it can follow.
async fn started(cell: &Cell) {
    let mut face = cell.watch();
    let is_starting = |face: &Face| {
        matches!(face.job.stage, Stage::Planned(_)) && !face.job.is_held() && !face.closing
    };
    let begun = face.wait_for(|face| !is_starting(face));
    // An engine may have it wait for days: then it begins with what holds by then.
    let _ = tokio::time::timeout(STARTS_SOON, begun).await;
}

fn refused(error: AmendError) -> Refusal {
    Refusal::new(error.code(), error.to_string())
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

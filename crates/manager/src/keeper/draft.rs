//! One transaction: what follows from each ask is worked out (kumiko-job) and written, but not yet told.

use super::ask::{Answer, Ask, Submission, damaged, full, no_such_job, unwritable};
use super::{Keeper, SWEEP};
use crate::log::ReadError;
use kumiko_job::attempt::{AttemptReport, OutputStream};
use kumiko_job::contract::{Caller, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::event::{Event, LimitsBy, Record};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::limits::{self, ProgramOver};
use kumiko_job::rerun::{self, NoMigration};
use kumiko_job::respond::{self, NoRedirect, NoRelease, NoRenewal, OutputBytes};
use kumiko_job::staging::Item;
use kumiko_job::state::{Job, Stage, apply};
use kumiko_policy::Policy;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

/// The open transaction.
#[derive(Default)]
pub struct Draft {
    pub steps: Vec<Step>,
    /// States after the steps.
    newest: HashMap<JobId, Arc<Job>>,
    /// Subjects of the jobs that it adds.
    fresh: Vec<String>,
    pub policies: HashMap<JobId, Policy>,
    /// Uploads that its jobs take.
    pub claimed: Vec<String>,
    /// Credentials that its jobs take.
    pub credentials: Vec<String>,
    pub erased: Vec<JobId>,
    pub answers: Vec<Answer>,
    /// What must not be lost, should the commit fail.
    pub keep: Vec<Ask>,
    pub close: Vec<oneshot::Sender<()>>,
    pub sweep_again: bool,
}

/// One event of it.
pub struct Step {
    pub record: Record,
    pub before: Option<Arc<Job>>,
    pub after: Arc<Job>,
}

/// Why nothing follows from an ask.
pub enum Stop {
    /// It is refused; the transaction goes on.
    Refused(Refusal),
    /// The transaction has failed, and with it all that was asked.
    Log(rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Stop {
        Stop::Log(error)
    }
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Stop {
        Stop::Refused(damaged(&error))
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

/// The answer to whoever asked, apart from what it means for the transaction.
fn answer<T>(done: Result<T, Stop>) -> (Result<T, Refusal>, rusqlite::Result<()>) {
    match done {
        Ok(value) => (Ok(value), Ok(())),
        Err(Stop::Refused(refusal)) => (Err(refusal), Ok(())),
        Err(Stop::Log(error)) => (Err(unwritable(&error)), Err(error)),
    }
}

impl Keeper {
    /// Adds what follows from `ask`. An error ends the transaction.
    pub(super) fn draft(&mut self, draft: &mut Draft, ask: Ask) -> rusqlite::Result<()> {
        match ask {
            Ask::Submit(submission) => {
                let Submission {
                    caller,
                    key,
                    description,
                    policy,
                    reply,
                } = *submission;
                let (id, failed) = answer(self.submit(draft, &caller, key, description, policy));
                draft.answers.push(Answer::Submit(reply, id));
                failed
            }
            Ask::Cancel {
                job,
                grace_ms,
                reply,
            } => {
                let done = self.change(draft, job, |job| Ok(respond::cancel(job, grace_ms)));
                let (done, failed) = answer(done);
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::Release { job, reply } => {
                let done = self.change(draft, job, |job| {
                    respond::release(job).map_err(|why| no_release(job.id, why))
                });
                let (done, failed) = answer(done);
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::Migrate { job, to, reply } => {
                let done = self.change(draft, job, |job| {
                    rerun::migrate(job, to.as_deref()).map_err(|why| no_migration(job.id, why))
                });
                let (done, failed) = answer(done);
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::Requeue { attempt, host } => {
                let done = self.change(draft, attempt.job, |job| {
                    Ok(rerun::requeue(job, attempt.epoch, &host))
                });
                let (done, failed) = answer(done);
                if let Err(refusal) = done {
                    tracing::error!(%attempt, %refusal, "an attempt that is to leave its host could not be requeued");
                }
                failed
            }
            Ask::Unattended { job, after_s } => {
                let site = self.limits.grace_ms;
                let done = self.change(draft, job, |job| {
                    let grace_ms = job.description.grace_ms.unwrap_or(site);
                    Ok(respond::unattended(job, after_s, grace_ms))
                });
                let (done, failed) = answer(done);
                if let Err(refusal) = done {
                    tracing::error!(%job, %refusal, "a job that nobody attends could not be ended");
                }
                draft.keep.push(Ask::Unattended { job, after_s });
                failed
            }
            Ask::Remove { job, reply } => {
                let done = self.change(draft, job, |job| {
                    respond::remove(job, false).map_err(|_| still_live(job.id))
                });
                let (done, failed) = answer(done);
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::Renew {
                job,
                name,
                not_after_ms,
                reply,
            } => {
                let done = self.change(draft, job, |job| {
                    respond::renew(job, name, not_after_ms).map_err(|why| no_renewal(job.id, why))
                });
                let (done, failed) = answer(done);
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::CredentialEnding { job, number } => {
                let done = self.change(draft, job, |job| {
                    Ok(respond::credential_ending(job, number))
                });
                let (done, failed) = answer(done);
                if let Err(refusal) = done {
                    tracing::error!(%job, %refusal, "the end of a credential could not be told");
                }
                draft.keep.push(Ask::CredentialEnding { job, number });
                failed
            }
            Ask::Redirect {
                job,
                stdout,
                stderr,
                reply,
            } => {
                let done = self.change(draft, job, |job| {
                    respond::redirect(job, stdout, stderr).map_err(|why| no_redirect(job.id, why))
                });
                let (done, failed) = answer(done);
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::SetLimits { job, limits, reply } => {
                let done = self.change(draft, job, |job| {
                    limits::set(job, LimitsBy::Owner, &limits).map_err(|why| no_limits(job.id, why))
                });
                let (done, failed) = answer(done);
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::Narrow { job, policy, reply } => {
                let done = self.change(draft, job, |job| {
                    limits::narrow(job, &policy).map_err(|why| no_limits(job.id, why))
                });
                let (done, failed) = answer(done);
                draft.answers.push(Answer::Done(reply, done));
                failed
            }
            Ask::PoliciesChanged { job, given } => {
                let done = self.change(draft, job, |job| Ok(limits::policies_changed(job, &given)));
                let (done, failed) = answer(done);
                if let Err(refusal) = done {
                    tracing::error!(%job, %refusal, "changed limits could not be recorded");
                }
                draft.keep.push(Ask::PoliciesChanged { job, given });
                failed
            }
            Ask::Moved {
                job,
                item,
                given,
                how,
            } => {
                let (done, failed) = answer(self.moved(draft, job, item, given, how.clone()));
                if let Err(refusal) = done {
                    tracing::error!(%job, %item, %refusal, "what became of a file could not be recorded");
                }
                draft.keep.push(Ask::Moved {
                    job,
                    item,
                    given,
                    how,
                });
                failed
            }
            Ask::Report { attempt, report } => {
                let (done, failed) = answer(self.report(draft, attempt, &report));
                if let Err(refusal) = done {
                    tracing::error!(%attempt, %refusal, "a report could not be recorded");
                }
                draft.keep.push(Ask::Report { attempt, report });
                failed
            }
            Ask::Erased { job } => {
                draft.keep.push(Ask::Erased { job });
                draft.erased.push(job);
                self.log.erase_job(job)
            }
            Ask::Sweep => self.sweep(draft),
            Ask::Load { job, reply } => {
                self.load(job, reply);
                Ok(())
            }
            Ask::Waits { job, reply } => {
                // Whoever asked may have gone.
                let _ = reply.send(Ok(self.ledger.waits(job)));
                Ok(())
            }
            Ask::Close { reply } => {
                draft.close.push(reply);
                Ok(())
            }
        }
    }

    fn submit(
        &mut self,
        draft: &mut Draft,
        caller: &Caller,
        key: Option<String>,
        description: Arc<JobDescription>,
        policy: Policy,
    ) -> Result<JobId, Stop> {
        if let Some(key) = &key {
            if let Some(id) = self.log.job_of_key(&caller.subject, key)? {
                let known = self.current(draft, id)?;
                if known.is_some_and(|job| same_request(&job.description, &description)) {
                    return Ok(id);
                }
                let message = format!(
                    "the key of this submission is that of job {id}, which has another description: use a new key"
                );
                return Err(Refusal::new("key_reused", message).into());
            }
        }
        self.admit(draft, caller)?;
        let credential_ends_ms = match &description.credential {
            Some(name) => Some(self.credentials.claim(name, &caller.subject)?),
            None => None,
        };
        draft.credentials.extend(description.credential.clone());
        if let Some(input) = &description.input {
            self.uploads.claim(input, &caller.subject)?;
            draft.claimed.push(input.clone());
        }
        let id = JobId(self.last_job + 1);
        let has_room = self.ledger.has_room(id, &description);
        let here = self.here(has_room);
        let events = respond::submit(caller, key, description, credential_ends_ms, here);
        self.write(draft, id, None, events)?;
        self.last_job = id.0;
        draft.fresh.push(caller.subject.clone());
        draft.policies.insert(id, policy);
        Ok(id)
    }

    /// Is there room for one more job?
    fn admit(&self, draft: &Draft, caller: &Caller) -> Result<(), Refusal> {
        if !self.log.has_room_for_jobs() {
            return Err(full());
        }
        let mine = self.counts.of(&caller.subject);
        let fresh = draft
            .fresh
            .iter()
            .filter(|subject| **subject == caller.subject)
            .count();
        let limits = &self.limits;
        if self.counts.all.live + draft.fresh.len() >= limits.live_jobs {
            let most = limits.live_jobs;
            let message = format!(
                "the site has {most} jobs that have not ended and takes no more: try later"
            );
            return Err(Refusal::new("site_full", message));
        }
        if mine.live + fresh >= limits.live_jobs_per_caller {
            let most = limits.live_jobs_per_caller;
            let message = format!(
                "you have {most} jobs that have not ended, the most this site allows: wait for some, or cancel them"
            );
            return Err(Refusal::new("too_many_live_jobs", message));
        }
        if mine.kept + fresh >= limits.kept_jobs_per_caller {
            let most = limits.kept_jobs_per_caller;
            let message = format!(
                "the site keeps {most} jobs of yours, the most it allows: remove ended ones"
            );
            return Err(Refusal::new("too_many_kept_jobs", message));
        }
        Ok(())
    }

    fn report(
        &mut self,
        draft: &mut Draft,
        attempt: AttemptId,
        report: &AttemptReport,
    ) -> Result<(), Stop> {
        let Some(job) = self.current(draft, attempt.job)? else {
            return Ok(());
        };
        let mut output = OutputBytes::default();
        if job.attempt() == Some(attempt) && matches!(report, AttemptReport::Ended(_)) {
            output = self.output_bytes(attempt);
        }
        let events = respond::report(&job, attempt.epoch, report.clone(), output, self.here(true));
        self.write(draft, attempt.job, Some(job), events)
    }

    fn moved(
        &mut self,
        draft: &mut Draft,
        id: JobId,
        item: Item,
        given: Option<u64>,
        how: Result<u64, Refusal>,
    ) -> Result<(), Stop> {
        let Some(job) = self.current(draft, id)? else {
            return Ok(());
        };
        let here = self.here(self.ledger.has_room(id, &job.description));
        let events = respond::moved(&job, item, given, how, here);
        self.write(draft, id, Some(job), events)
    }

    /// Plans the first attempts of those that wait and need not any more, whatever the reason.
    pub(super) fn admit_waiting(&mut self, draft: &mut Draft) -> rusqlite::Result<()> {
        for id in self.ledger.next() {
            let admitted = self.current(draft, id).map_err(Stop::from).and_then(|job| {
                let job = job.ok_or_else(|| no_such_job(id))?;
                let events = respond::admit(&job, self.here(true));
                self.write(draft, id, Some(job), events)
            });
            let (done, failed) = answer(admitted);
            failed?;
            if let Err(refusal) = done {
                tracing::error!(job = %id, %refusal, "a waiting job could not be planned");
            }
        }
        Ok(())
    }

    /// The last reported lengths, or what lies in the spool, if a site that died had heard more than this one.
    fn output_bytes(&self, attempt: AttemptId) -> OutputBytes {
        let spool = self.actor.spool(attempt);
        let size = |stream: OutputStream| {
            std::fs::metadata(spool.join(stream.name())).map_or(0, |file| file.len())
        };
        let told = self.cells.get(attempt.job).map_or((0, 0, None), |cell| {
            let face = cell.look();
            (face.stdout_bytes, face.stderr_bytes, face.cost)
        });
        OutputBytes {
            stdout: told.0.max(size(OutputStream::Stdout)),
            stderr: told.1.max(size(OutputStream::Stderr)),
            cost: told.2,
        }
    }

    fn sweep(&mut self, draft: &mut Draft) -> rusqlite::Result<()> {
        self.credentials.sweep(self.limits.upload_keep);
        let now = self.running_ms();
        self.log.set_run_ms(now)?;
        let keep_ms = u64::try_from(self.limits.keep.as_millis()).unwrap_or(u64::MAX);
        let expired = self.log.ended_before(now.saturating_sub(keep_ms), SWEEP)?;
        draft.sweep_again = expired.len() == SWEEP;
        for id in expired {
            let done = self.change(draft, id, |job| {
                respond::remove(job, true).map_err(|_| still_live(job.id))
            });
            let (done, failed) = answer(done);
            failed?;
            if let Err(refusal) = done {
                tracing::warn!(job = %id, %refusal, "an expired job stays");
            }
        }
        Ok(())
    }

    /// Records what follows for a job that exists.
    fn change(
        &mut self,
        draft: &mut Draft,
        id: JobId,
        respond: impl FnOnce(&Job) -> Result<Vec<Event>, Refusal>,
    ) -> Result<(), Stop> {
        let job = self.current(draft, id)?.ok_or_else(|| no_such_job(id))?;
        let events = respond(&job)?;
        self.write(draft, id, Some(job), events)
    }

    /// The job as this transaction leaves it so far.
    fn current(&self, draft: &Draft, id: JobId) -> Result<Option<Arc<Job>>, ReadError> {
        if let Some(job) = draft.newest.get(&id) {
            return Ok(Some(Arc::clone(job)));
        }
        if let Some(cell) = self.cells.get(id) {
            return Ok(Some(cell.job()));
        }
        Ok(self.log.read_job(id)?.map(|(job, _)| Arc::new(job)))
    }

    /// Applies all, then writes all: half of what follows from one ask is never recorded.
    fn write(
        &mut self,
        draft: &mut Draft,
        id: JobId,
        mut before: Option<Arc<Job>>,
        events: Vec<Event>,
    ) -> Result<(), Stop> {
        let mut steps = Vec::with_capacity(events.len());
        for event in events {
            let number = before.as_ref().map_or(0, |job| job.last_event) + 1;
            let record = Record {
                number,
                at_ms: now_ms(),
                event,
            };
            let after = apply(id, before.as_deref(), &record)
                .map(Arc::new)
                .map_err(|illegal| Refusal::new("bug", illegal.to_string()))?;
            steps.push(Step {
                record,
                before: before.replace(Arc::clone(&after)),
                after,
            });
        }
        for step in steps {
            if step.before.is_none() {
                self.log.add_job(&step.after)?;
            }
            self.log.append(id, &step.record)?;
            self.ledger.step(step.before.as_deref(), &step.after);
            match &step.after.stage {
                Stage::Ended(_) => self
                    .log
                    .end_job(&step.after.view(0, 0), self.running_ms())?,
                Stage::Removed { .. } => self.log.hide_job(id)?,
                Stage::StagingIn(_)
                | Stage::Waiting { .. }
                | Stage::Planned(_)
                | Stage::Running(..)
                | Stage::StagingOut(..) => {}
            }
            draft.newest.insert(id, Arc::clone(&step.after));
            draft.steps.push(step);
        }
        Ok(())
    }
}

impl Draft {
    /// An ask that came after the transaction had failed.
    pub fn give_back(&mut self, ask: Ask, refusal: Refusal) {
        match ask {
            Ask::Submit(submission) => self
                .answers
                .push(Answer::Submit(submission.reply, Err(refusal))),
            Ask::Cancel { reply, .. }
            | Ask::Release { reply, .. }
            | Ask::Migrate { reply, .. }
            | Ask::Remove { reply, .. }
            | Ask::Renew { reply, .. }
            | Ask::SetLimits { reply, .. }
            | Ask::Narrow { reply, .. }
            | Ask::Redirect { reply, .. } => {
                self.answers.push(Answer::Done(reply, Err(refusal)));
            }
            Ask::Report { .. }
            | Ask::Moved { .. }
            | Ask::CredentialEnding { .. }
            | Ask::PoliciesChanged { .. }
            | Ask::Unattended { .. }
            | Ask::Erased { .. }
            | Ask::Waits { .. }
            | Ask::Load { .. } => self.keep.push(ask),
            Ask::Close { reply } => self.close.push(reply),
            // Who asks for it looks again.
            Ask::Requeue { .. } | Ask::Sweep => {}
        }
    }
}

fn still_live(job: JobId) -> Refusal {
    let message =
        format!("job {job} has not ended and cannot be removed: cancel it first, or wait for it");
    Refusal::new("job_live", message)
}

fn no_release(job: JobId, why: NoRelease) -> Refusal {
    let message = format!("job {job} cannot be released: {why}");
    match why {
        NoRelease::Ended => Refusal::new("job_ended", message),
        NoRelease::NotHeld => Refusal::new("job_not_held", message),
    }
}

pub fn no_migration(job: JobId, why: NoMigration) -> Refusal {
    let message = format!("job {job} cannot migrate: {why}");
    match why {
        NoMigration::Ended => Refusal::new("job_ended", message),
        NoMigration::NotRerun => Refusal::new("job_not_rerun", message),
        NoMigration::NotRunning => Refusal::new("job_not_running", message),
        NoMigration::Spent => Refusal::new("job_reruns_spent", message),
    }
}

fn no_limits(job: JobId, why: ProgramOver) -> Refusal {
    let message = format!("the policy of job {job} cannot be changed: {why}");
    Refusal::new("job_ended", message)
}

fn no_renewal(job: JobId, why: NoRenewal) -> Refusal {
    let message = format!("the credential of job {job} cannot be renewed: {why}");
    match why {
        NoRenewal::Ended => Refusal::new("job_ended", message),
        NoRenewal::NoCredential => Refusal::new("job_without_credential", message),
    }
}

fn no_redirect(job: JobId, why: NoRedirect) -> Refusal {
    let message = format!("the output of job {job} cannot be sent elsewhere: {why}");
    match why {
        NoRedirect::Ended => Refusal::new("job_ended", message),
        NoRedirect::Flows => Refusal::new("output_flows", message),
        NoRedirect::Rerun => Refusal::new("output_anew", message),
    }
}

/// Is this the description again? A client that asks again after a crash has made its upload anew, under another name,
/// and delegated anew.
fn same_request(one: &JobDescription, other: &JobDescription) -> bool {
    let mut other = other.clone();
    // How its site was chosen is no part of what is asked for.
    other.placement.clone_from(&one.placement);
    if one.credential.is_some() && other.credential.is_some() {
        other.credential.clone_from(&one.credential);
    }
    if one.input.is_some() && other.input.is_some() {
        other.input.clone_from(&one.input);
    }
    *one == other
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

//! One job that was asked for over GRAM, in memory: its record, what was told of it last, and whom.

use super::hall::Hall;
use super::outcome::{Told, told};
use super::remote_io;
use super::store::{Record, Registered, Stage};
use super::tell;
use crate::desk::Desk;
use kumiko_job::contract::{EventStream, JobView, Jobs, Refusal};
use kumiko_job::id::JobId;
use kumiko_wire::gram::{GramCode, JobState};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Clients that are told of one job: a person, a portal, and a few that forgot to unregister.
const MOST_CALLBACKS: usize = 16;
/// How long a `cancel` waits for the end (G43).
const END_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Entry {
    record: Mutex<Record>,
    /// None: nothing is known yet.
    pub told: watch::Sender<Option<Told>>,
    tellers: Mutex<HashMap<String, AbortHandle>>,
    follower: Mutex<Option<AbortHandle>>,
    /// When an uncommitted job fails; changed by more time.
    pub deadline: watch::Sender<u64>,
    /// Held while it is decided whether the job is submitted: clients repeat a commit that was not answered in time.
    pub deciding: tokio::sync::Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    pub fn new(record: Record) -> Arc<Entry> {
        let until_ms = match record.stage {
            Stage::Uncommitted { until_ms, .. } => until_ms,
            _ => 0,
        };
        Arc::new(Entry {
            record: Mutex::new(record),
            told: watch::Sender::new(None),
            tellers: Mutex::default(),
            follower: Mutex::default(),
            deadline: watch::Sender::new(until_ms),
            deciding: tokio::sync::Mutex::default(),
        })
    }

    pub fn record(&self) -> Record {
        lock(&self.record).clone()
    }

    /// Changes the record, in memory; the caller keeps it.
    pub fn change(&self, change: impl FnOnce(&mut Record)) -> Record {
        let mut record = lock(&self.record);
        change(&mut record);
        record.clone()
    }

    pub fn is_uncommitted_of(&self, subject: &str) -> bool {
        let record = lock(&self.record);
        matches!(record.stage, Stage::Uncommitted { .. }) && record.caller.subject == subject
    }

    /// The job, once there is one.
    pub fn job(&self) -> Option<JobId> {
        match lock(&self.record).stage {
            Stage::Submitted { job } => Some(job),
            _ => None,
        }
    }

    /// The job finds another address in its file; the caller keeps the record.
    pub async fn change_remote_io<J: Jobs>(
        &self,
        desk: &Desk<J>,
        url: &str,
    ) -> Result<Record, GramCode> {
        // A commit makes the file of what the record says.
        let _deciding = self.deciding.lock().await;
        let record = self.record();
        if record.remote_io.is_none() {
            // The job was never told of a file.
            return Err(GramCode::RSL_REMOTE_IO_URL);
        }
        if let Stage::Submitted { job } = record.stage {
            remote_io::change(desk, &record.caller, job, url).await?;
        }
        Ok(self.change(|record| record.remote_io = Some(url.to_owned())))
    }

    /// What is the case now.
    pub async fn now<J: Jobs>(&self, desk: &Desk<J>) -> Result<(Told, Option<JobView>), Refusal> {
        let record = self.record();
        match record.stage {
            Stage::Uncommitted { .. } => Ok((Told::state(JobState::Unsubmitted), None)),
            Stage::Failed { code } => Ok((Told::failed(GramCode(code)), None)),
            Stage::Submitted { job } => {
                let view = desk.jobs.show(&record.caller, job).await?;
                let now = told(view.state, view.outcome.as_ref(), record.stages_out);
                Ok((now, Some(view)))
            }
        }
    }

    /// Waits for the end of the job, within bounds.
    pub async fn ended<J: Jobs>(&self, desk: &Desk<J>) {
        let (record, Some(job)) = (self.record(), self.job()) else {
            return;
        };
        let over = async {
            let Ok(mut events) = desk.jobs.watch(&record.caller, job, 0).await else {
                return;
            };
            while let Some(event) = events.next().await {
                if event.state.has_ended() {
                    return;
                }
            }
        };
        // Who asks is told the state as it then is.
        let _ = tokio::time::timeout(END_WITHIN, over).await;
    }

    /// Tells one more client from now on, or an old one with another mask.
    pub fn register(&self, registered: Registered) -> Result<Record, GramCode> {
        let mut record = lock(&self.record);
        record.callbacks.retain(|old| old.url != registered.url);
        if record.callbacks.len() >= MOST_CALLBACKS {
            return Err(GramCode::INSERTING_CLIENT_CONTACT);
        }
        record.callbacks.push(registered);
        Ok(record.clone())
    }

    /// None: it was not told.
    pub fn unregister(&self, url: &str) -> Option<Record> {
        if let Some(teller) = lock(&self.tellers).remove(url) {
            teller.abort();
        }
        let mut record = lock(&self.record);
        let before = record.callbacks.len();
        record.callbacks.retain(|old| old.url != url);
        (record.callbacks.len() < before).then(|| record.clone())
    }

    /// The client knows the end. (Its teller says so, and ends by itself.)
    pub fn unregister_told(&self, url: &str) -> Option<Record> {
        lock(&self.tellers).remove(url);
        self.unregister(url)
    }

    pub fn unregister_all(&self) -> Record {
        for (_, teller) in lock(&self.tellers).drain() {
            teller.abort();
        }
        self.change(|record| record.callbacks.clear())
    }

    /// Begins to tell whoever is registered and not told yet.
    pub fn tell<J: Jobs>(self: &Arc<Self>, desk: &Arc<Desk<J>>, hall: &Arc<Hall>) {
        let record = self.record();
        if record.callbacks.is_empty() {
            return;
        }
        self.follow(desk, &record);
        let mut tellers = lock(&self.tellers);
        tellers.retain(|_, teller| !teller.is_finished());
        for registered in record.callbacks {
            let url = registered.url.clone();
            tellers.entry(url).or_insert_with(|| {
                let teller = tell::tell(desk.clone(), hall.clone(), self.clone(), registered);
                tokio::spawn(teller).abort_handle()
            });
        }
    }

    /// Tells an old client anew, with what it asks for now.
    pub fn retell<J: Jobs>(self: &Arc<Self>, desk: &Arc<Desk<J>>, hall: &Arc<Hall>, url: &str) {
        if let Some(teller) = lock(&self.tellers).remove(url) {
            teller.abort();
        }
        self.tell(desk, hall);
    }

    /// Sees to it that `told` says what happens to the job.
    fn follow<J: Jobs>(self: &Arc<Self>, desk: &Arc<Desk<J>>, record: &Record) {
        let job = match record.stage {
            Stage::Uncommitted { .. } => return,
            Stage::Failed { code } => {
                self.told.send_replace(Some(Told::failed(GramCode(code))));
                return;
            }
            Stage::Submitted { job } => job,
        };
        let mut follower = lock(&self.follower);
        if follower.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (desk, entry, record) = (desk.clone(), self.clone(), record.clone());
        let task = async move {
            let Ok(mut events) = desk.jobs.watch(&record.caller, job, 0).await else {
                return;
            };
            while let Some(event) = events.next().await {
                let now = told(event.state, event.outcome.as_ref(), record.stages_out);
                // Who waits to see whether a state lasts is woken by another one only.
                entry.told.send_if_modified(|told| {
                    let other = *told != Some(now);
                    *told = Some(now);
                    other
                });
                if now.is_end() {
                    return;
                }
            }
        };
        *follower = Some(tokio::spawn(task).abort_handle());
    }

    /// Nothing of it runs any more.
    pub fn stop(&self) {
        for (_, teller) in lock(&self.tellers).drain() {
            teller.abort();
        }
        if let Some(follower) = lock(&self.follower).take() {
            follower.abort();
        }
    }
}

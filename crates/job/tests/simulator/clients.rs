//! What the clients of the simulated site ask for, and what they were promised.

use super::{ATTENDED, HELD, STAGED, TRUSTED, World, staging};
use kumiko_job::description::JobDescription;
use kumiko_job::id::JobId;
use kumiko_job::rerun;
use kumiko_job::respond::{self, Here, NoRelease, NoRenewal};
use kumiko_job::state::{Job, Stage};
use kumiko_job::together::Together;
use std::sync::Arc;

impl World {
    pub fn submit(&mut self, index: usize) {
        let key = self.clients[index].key.clone();
        let known = self.up().jobs.values().find_map(|job| {
            let same = job.key.as_ref() == Some(&key);
            (same && !matches!(job.stage, Stage::Removed { .. })).then_some(job.id)
        });
        let id = known.unwrap_or(JobId(self.disk.last_job + 1));
        let boot = self.boots.to_string();
        let here = Here {
            batch: "simulated",
            boot: &boot,
            has_room: true,
        };
        let mut description = if index == STAGED {
            staging::description(&self.description)
        } else {
            JobDescription::clone(&self.description)
        };
        description.attended_s = (index == ATTENDED).then_some(60);
        description.together = (index == HELD).then(|| {
            Box::new(Together {
                request: "r".to_owned(),
                subjob: 0,
                sites: vec!["localhost:2119".to_owned()],
                label: None,
                hold_s: Some(30),
            })
        });
        let trusted = index == TRUSTED;
        description.credential = trusted.then(|| "first".to_owned());
        description.rerun = trusted;
        let description = Arc::new(description);
        let ends_ms = trusted.then_some(self.now_ms);
        let events = match known {
            Some(_) => Vec::new(),
            None => respond::submit(&self.caller, Some(key), description, ends_ms, here),
        };
        let recorded = self.record(id, events);
        // The answer may be lost; the client asks again with the same key.
        if recorded && !self.dice.one_in(4) {
            let client = &mut self.clients[index];
            assert!(
                client.acknowledged.is_none_or(|before| before == id),
                "one key, two jobs"
            );
            client.acknowledged = Some(id);
        }
    }

    /// The host of its attempt is drained, and is to be left now.
    pub fn drain_host_of(&mut self, index: usize) {
        let Some(job) = self.job_of(index) else {
            return;
        };
        let events = rerun::requeue(&job, job.last_epoch(), "n1");
        self.record(job.id, events);
    }

    pub fn job_of(&mut self, index: usize) -> Option<Arc<Job>> {
        let id = self.clients[index].acknowledged?;
        self.up().jobs.get(&id).cloned()
    }

    pub fn cancel(&mut self, index: usize) {
        let Some(job) = self.job_of(index) else {
            return;
        };
        self.clients[index].cancel_asked = true;
        let grace_ms = self.dice.roll(3);
        let events = respond::cancel(&job, grace_ms);
        // One that came after the end promises nothing: there is nothing left that could be ended.
        let promised = !events.is_empty();
        let recorded = self.record(job.id, events);
        self.clients[index].cancel_acknowledged |= promised && recorded;
    }

    pub fn release(&mut self, index: usize) {
        let Some(job) = self.job_of(index) else {
            return;
        };
        match respond::release(&job) {
            Ok(events) => {
                self.clients[index].release_asked = true;
                self.record(job.id, events);
            }
            Err(NoRelease::Ended) => {
                assert!(job.program_is_over() || job.cancel_grace_ms.is_some());
            }
            Err(NoRelease::NotHeld) => assert_ne!(index, HELD),
        }
    }

    pub fn renew(&mut self, index: usize) {
        let Some(job) = self.job_of(index) else {
            return;
        };
        let name = format!("after {}", job.last_event);
        let events = match respond::renew(&job, name, self.now_ms) {
            Ok(events) => events,
            Err(NoRenewal::Ended) => return assert!(!job.is_live()),
            Err(NoRenewal::NoCredential) => return assert_ne!(index, TRUSTED),
        };
        if self.record(job.id, events) {
            self.clients[index].renewed = job.last_event + 1;
        }
    }

    pub fn remove(&mut self, index: usize) {
        let Some(job) = self.job_of(index) else {
            return;
        };
        if let Ok(events) = respond::remove(&job, self.dice.one_in(2)) {
            self.clients[index].remove_asked |= !self.disk.full;
            self.record(job.id, events);
        }
    }
}

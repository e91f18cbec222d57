//! A manager in memory, with a few "programs" of its own, that keeps the duties of `Jobs`:
//!
//! * `true`: ends at once; `false`: ends with 1; `say TEXT`: writes it and ends.
//! * `cat`: stdin to stdout until its end. `deaf`: reads no stdin and runs until it is cancelled.
//! * `flood N`: N bytes of a pattern, as fast as they are read; with `Flow` it waits for `Consumed`.

use bytes::Bytes;
use kumiko_job::attempt::{AttemptCommand, Outcome, OutputStream};
use kumiko_job::contract::{
    Caller, Delegated, EventStream, EventView, JobState, JobView, Jobs, OutputReader, Refusal,
    StdinTaken,
};
use kumiko_job::description::{Destination, JobDescription, OutputMode, WindowSize};
use kumiko_job::id::JobId;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::sync::watch;

/// What a `Flow` job may write beyond what is consumed.
pub const FLOW_WINDOW: u64 = 4 << 20;

pub struct Job {
    pub view: JobView,
    pub description: JobDescription,
    key: Option<String>,
    pub events: Vec<EventView>,
    out: [Vec<u8>; 2],
    flood: Option<u64>,
    pub consumed: [u64; 2],
    /// The highest offset that was read.
    pub read: [u64; 2],
    pub taken: u64,
    closed: bool,
    /// Only those who watch it see it still.
    removed: bool,
    pub signals: Vec<i32>,
    pub limits: Vec<kumiko_job::attempt::Limits>,
    pub policies: Vec<String>,
    pub moves: Vec<Option<String>>,
    pub windows: Vec<WindowSize>,
}

pub struct Fake {
    pub jobs: Arc<Mutex<BTreeMap<JobId, Job>>>,
    changed: watch::Sender<u64>,
    /// How many clients are attached to jobs.
    pub attached: Arc<watch::Sender<usize>>,
    /// Whose, and what, in the order of their coming.
    pub credentials: Mutex<Vec<(String, Delegated)>>,
    pub dir: TempDir,
}

/// Byte `i` of a flood.
pub fn pattern(i: u64) -> u8 {
    (i % 251) as u8
}

impl Fake {
    pub fn new() -> Fake {
        Fake {
            jobs: Arc::default(),
            changed: watch::channel(0).0,
            attached: Arc::new(watch::channel(0).0),
            credentials: Mutex::default(),
            dir: TempDir::with_prefix("kumiko-fake-").unwrap(),
        }
    }

    pub fn with<T>(&self, job: JobId, look: impl FnOnce(&mut Job) -> T) -> T {
        let result = look(self.jobs.lock().unwrap().get_mut(&job).expect("a job"));
        self.changed.send_modify(|n| *n += 1);
        result
    }

    /// Of jobs that are not removed.
    pub fn count(&self) -> usize {
        let jobs = self.jobs.lock().unwrap();
        jobs.values().filter(|job| !job.removed).count()
    }

    /// Waits until `look` is true of the job.
    pub async fn until(&self, job: JobId, what: &str, look: impl Fn(&Job) -> bool) {
        let mut changed = self.changed.subscribe();
        kumiko_testkit::deadline(what, async {
            while !look(&self.jobs.lock().unwrap()[&job]) {
                changed.changed().await.unwrap();
            }
        })
        .await;
    }

    /// Watchers, readers and askers that wait for something now.
    pub fn listeners(&self) -> usize {
        self.changed.receiver_count()
    }

    fn find<T>(
        &self,
        caller: &Caller,
        job: JobId,
        look: impl FnOnce(&mut Job) -> T,
    ) -> Result<T, Refusal> {
        let mut jobs = self.jobs.lock().unwrap();
        let found = jobs
            .get_mut(&job)
            .filter(|j| j.view.subject == caller.subject && !j.removed);
        let found =
            found.ok_or_else(|| Refusal::new("no_such_job", format!("there is no job {job}")))?;
        Ok(look(found))
    }

    fn tell(&self) {
        self.changed.send_modify(|n| *n += 1);
    }
}

impl Job {
    fn event(&mut self, kind: &str, state: JobState, outcome: Option<Outcome>) {
        let number = self.events.len() as u64 + 1;
        self.view.state = state;
        self.view.last_event = number;
        self.view.outcome = outcome.clone();
        self.events.push(EventView {
            job: self.view.id,
            number,
            at_ms: 1,
            kind: kind.to_owned(),
            state,
            outcome,
            text: kind.to_owned(),
        });
    }

    fn end(&mut self, state: JobState, outcome: Outcome) {
        if self.view.outcome.is_none() {
            self.closed = true;
            self.event("ended", state, Some(outcome));
        }
    }

    fn ended(&self) -> bool {
        self.view.outcome.is_some()
    }

    /// How many bytes of a stream there are now.
    fn length(&self, i: usize) -> u64 {
        match self.flood {
            Some(all) if i == 0 && self.description.output == OutputMode::Flow => {
                all.min(self.consumed[0] + FLOW_WINDOW)
            }
            Some(all) if i == 0 => all,
            _ => self.out[i].len() as u64,
        }
    }
}

pub struct Attendance(Arc<watch::Sender<usize>>);

impl Drop for Attendance {
    fn drop(&mut self) {
        self.0.send_modify(|clients| *clients -= 1);
    }
}

impl Jobs for Fake {
    async fn submit(
        &self,
        caller: &Caller,
        description: JobDescription,
        key: Option<String>,
    ) -> Result<JobId, Refusal> {
        description.validate()?;
        let mut jobs = self.jobs.lock().unwrap();
        let same = jobs
            .values()
            .find(|j| key.is_some() && j.key == key && j.view.subject == caller.subject);
        if let Some(same) = same {
            return Ok(same.view.id);
        }
        let id = JobId(jobs.len() as u64 + 1);
        let view = JobView {
            id,
            key: key.clone(),
            state: JobState::Pending,
            name: description.name.clone(),
            executable: description.executable.clone(),
            arguments: description.arguments.clone(),
            subject: caller.subject.clone(),
            account: caller.account.clone(),
            batch: Some("fake".to_owned()),
            mechanism: None,
            not_enforced: Vec::new(),
            epoch: 1,
            submitted_ms: 1,
            started_ms: None,
            ended_ms: None,
            outcome: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            credential_ends_ms: None,
            staging: None,
            together: None,
            held: false,
            last_event: 0,
        };
        let mut job = Job {
            view,
            key,
            events: Vec::new(),
            out: Default::default(),
            flood: None,
            consumed: [0; 2],
            read: [0; 2],
            taken: 0,
            closed: false,
            removed: false,
            signals: Vec::new(),
            limits: Vec::new(),
            policies: Vec::new(),
            moves: Vec::new(),
            windows: Vec::new(),
            description,
        };
        std::fs::create_dir_all(self.dir.path().join(format!("job-{id}"))).unwrap();
        if let Some(input) = &job.description.input {
            std::fs::remove_dir(self.dir.path().join(format!("job-{id}"))).unwrap();
            let from = self.dir.path().join(input);
            std::fs::rename(from, self.dir.path().join(format!("job-{id}"))).unwrap();
        }
        job.event("submitted", JobState::Pending, None);
        job.event("started", JobState::Active, None);
        let done = Outcome::Exited { status: 0 };
        match job.description.executable.as_str() {
            "true" => job.end(JobState::Done, done),
            "false" => job.end(JobState::Failed, Outcome::Exited { status: 1 }),
            "say" => {
                job.out[0] = job.description.arguments.join(" ").into_bytes();
                job.out[1] = b"said".to_vec();
                job.end(JobState::Done, done);
            }
            "flood" => job.flood = Some(job.description.arguments[0].parse().unwrap()),
            _ => {}
        }
        jobs.insert(id, job);
        drop(jobs);
        self.tell();
        Ok(id)
    }

    async fn migrate(
        &self,
        caller: &Caller,
        job: JobId,
        to: Option<String>,
    ) -> Result<(), Refusal> {
        self.find(caller, job, |j| j.moves.push(to))
    }

    async fn list(&self, caller: &Caller) -> Result<Vec<JobView>, Refusal> {
        let jobs = self.jobs.lock().unwrap();
        Ok(jobs
            .values()
            .filter(|j| j.view.subject == caller.subject && !j.removed)
            .map(|j| j.view.clone())
            .collect())
    }

    async fn show(&self, caller: &Caller, job: JobId) -> Result<JobView, Refusal> {
        self.find(caller, job, |j| j.view.clone())
    }

    async fn explain(&self, caller: &Caller, job: JobId) -> Result<Vec<String>, Refusal> {
        self.find(caller, job, |j| {
            j.events.iter().map(|e| e.text.clone()).collect()
        })
    }

    async fn watch(
        &self,
        caller: &Caller,
        job: JobId,
        after: u64,
    ) -> Result<impl EventStream + 'static, Refusal> {
        self.find(caller, job, |_| {})?;
        Ok(Events {
            jobs: self.jobs.clone(),
            changed: self.changed.subscribe(),
            job,
            after,
        })
    }

    async fn cancel(
        &self,
        caller: &Caller,
        job: JobId,
        _grace_ms: Option<u64>,
    ) -> Result<(), Refusal> {
        self.find(caller, job, |j| {
            j.end(JobState::Cancelled, Outcome::Cancelled)
        })?;
        self.tell();
        Ok(())
    }

    async fn command(
        &self,
        caller: &Caller,
        job: JobId,
        command: AttemptCommand,
    ) -> Result<(), Refusal> {
        self.find(caller, job, |j| match command {
            AttemptCommand::Signal { signal } => j.signals.push(signal),
            AttemptCommand::Window(size) => j.windows.push(size),
            AttemptCommand::Limits(limits) => j.limits.push(limits),
            AttemptCommand::Stdin { offset, data } if j.description.executable == "cat" => {
                let known = usize::try_from(j.taken.saturating_sub(offset))
                    .unwrap()
                    .min(data.len());
                assert!(offset <= j.taken, "a hole in stdin");
                j.out[0].extend_from_slice(&data[known..]);
                j.taken += (data.len() - known) as u64;
            }
            AttemptCommand::StdinEnd { offset } if j.description.executable == "cat" => {
                assert_eq!(offset, j.taken, "stdin ended before it came");
                j.end(JobState::Done, Outcome::Exited { status: 0 });
            }
            AttemptCommand::Consumed { stream, offset } => {
                j.consumed[usize::from(stream == OutputStream::Stderr)] = offset;
            }
            _ => {}
        })?;
        self.tell();
        Ok(())
    }

    /// What denies is not followed.
    async fn narrow(
        &self,
        caller: &Caller,
        job: JobId,
        policy: &str,
    ) -> Result<Vec<String>, Refusal> {
        self.find(caller, job, |j| j.policies.push(policy.to_owned()))?;
        let not = policy.contains("deny").then(|| "addresses".to_owned());
        Ok(not.into_iter().collect())
    }

    async fn attend(&self, caller: &Caller, job: JobId) -> Result<impl Send + 'static, Refusal> {
        self.find(caller, job, |_| ())?;
        self.attached.send_modify(|clients| *clients += 1);
        Ok(Attendance(Arc::clone(&self.attached)))
    }

    async fn stdin_taken(
        &self,
        caller: &Caller,
        job: JobId,
        above: Option<u64>,
    ) -> Result<StdinTaken, Refusal> {
        let mut changed = self.changed.subscribe();
        loop {
            let now = self.find(caller, job, |j| StdinTaken {
                offset: j.taken,
                closed: j.closed,
            })?;
            if now.closed || above.is_none_or(|above| now.offset > above) {
                return Ok(now);
            }
            changed.changed().await.unwrap();
        }
    }

    async fn redirect(
        &self,
        caller: &Caller,
        job: JobId,
        _stdout: Option<Vec<Destination>>,
        _stderr: Option<Vec<Destination>>,
    ) -> Result<(), Refusal> {
        self.find(caller, job, |_| ())
    }

    async fn remove(&self, caller: &Caller, job: JobId) -> Result<(), Refusal> {
        if !self.find(caller, job, |j| j.ended())? {
            return Err(Refusal::new(
                "job_live",
                "it has not ended: cancel it first",
            ));
        }
        self.find(caller, job, |j| {
            let state = j.view.state;
            j.event("removed", state, None);
            j.removed = true;
        })?;
        self.tell();
        Ok(())
    }

    async fn output(
        &self,
        caller: &Caller,
        job: JobId,
        stream: OutputStream,
        offset: u64,
    ) -> Result<impl OutputReader + 'static, Refusal> {
        self.find(caller, job, |_| {})?;
        let i = usize::from(stream == OutputStream::Stderr);
        Ok(Output {
            jobs: self.jobs.clone(),
            changed: self.changed.clone(),
            job,
            i,
            offset,
        })
    }

    async fn directory(&self, caller: &Caller, job: JobId) -> Result<PathBuf, Refusal> {
        self.find(caller, job, |_| {})?;
        Ok(self.dir.path().join(format!("job-{job}")))
    }

    async fn new_credential(
        &self,
        caller: &Caller,
        credential: Delegated,
    ) -> Result<String, Refusal> {
        let mut credentials = self.credentials.lock().unwrap();
        credentials.push((caller.subject.clone(), credential));
        Ok(format!("{:032x}", credentials.len()))
    }

    async fn renew(
        &self,
        caller: &Caller,
        job: JobId,
        credential: Delegated,
    ) -> Result<(), Refusal> {
        self.find(caller, job, |j| {
            j.view.credential_ends_ms = Some(credential.not_after_ms);
        })?;
        let mut credentials = self.credentials.lock().unwrap();
        credentials.push((caller.subject.clone(), credential));
        Ok(())
    }

    async fn new_upload(&self, _caller: &Caller) -> Result<(String, PathBuf), Refusal> {
        for n in 1.. {
            let id = format!("{n:032x}");
            let path = self.dir.path().join(&id);
            if std::fs::create_dir(&path).is_ok() {
                return Ok((id, path));
            }
        }
        unreachable!()
    }
}

struct Events {
    jobs: Arc<Mutex<BTreeMap<JobId, Job>>>,
    changed: watch::Receiver<u64>,
    job: JobId,
    after: u64,
}

impl EventStream for Events {
    async fn next(&mut self) -> Option<EventView> {
        loop {
            {
                let jobs = self.jobs.lock().unwrap();
                let job = jobs.get(&self.job)?;
                let next = job.events.get(usize::try_from(self.after).unwrap());
                if let Some(event) = next {
                    self.after = event.number;
                    return Some(event.clone());
                }
                if job.removed {
                    return None;
                }
            }
            self.changed.changed().await.ok()?;
        }
    }
}

struct Output {
    jobs: Arc<Mutex<BTreeMap<JobId, Job>>>,
    changed: watch::Sender<u64>,
    job: JobId,
    i: usize,
    offset: u64,
}

impl OutputReader for Output {
    async fn read(&mut self, most: usize) -> Result<Option<(u64, Bytes)>, Refusal> {
        let mut changed = self.changed.subscribe();
        loop {
            let read = {
                let mut jobs = self.jobs.lock().unwrap();
                let job = jobs
                    .get_mut(&self.job)
                    .filter(|job| !job.removed)
                    .ok_or_else(|| Refusal::new("no_such_job", "removed"))?;
                let end = job.length(self.i).min(self.offset + most as u64);
                let (from, i) = (self.offset, self.i);
                if from < job.consumed[i] && job.description.output == OutputMode::Flow {
                    return Err(Refusal::new("output_freed", "these bytes are gone"));
                }
                if end > from {
                    let data: Bytes = if job.flood.is_some() {
                        (from..end).map(pattern).collect::<Vec<u8>>().into()
                    } else {
                        Bytes::copy_from_slice(&job.out[i][from as usize..end as usize])
                    };
                    job.read[i] = job.read[i].max(end);
                    if job.flood == Some(end) {
                        job.end(JobState::Done, Outcome::Exited { status: 0 });
                    }
                    self.offset = end;
                    Some(Some((from, data)))
                } else if job.ended() {
                    Some(None)
                } else {
                    None
                }
            };
            match read {
                Some(result) => {
                    self.changed.send_modify(|n| *n += 1);
                    return Ok(result);
                }
                None => changed
                    .changed()
                    .await
                    .map_err(|_| Refusal::new("site_closing", "gone"))?,
            }
        }
    }
}

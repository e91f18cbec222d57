//! The duties of `Jobs` (kumiko-job, contract), kept alike by the manager with real runners and by the fake that the
//! other tests of this crate put in its place.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // the other tests use the rest
#[path = "common/fake.rs"]
mod fake;

use bytes::Bytes;
use fake::Fake;
use kumiko_batch::fork::Fork;
use kumiko_job::attempt::{AttemptCommand, Outcome, OutputStream};
use kumiko_job::contract::{
    Caller, EventStream, EventView, JobState, JobView, Jobs, OutputReader, Refusal,
};
use kumiko_job::description::{JobDescription, Stdin};
use kumiko_job::id::JobId;
use kumiko_manager::{Limits, Manager, Setup};
use kumiko_policy::Policy;
use kumiko_testkit::{deadline, skip};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

/// Who keeps the contract, and what stands there for a few programs.
trait Kept {
    type Jobs: Jobs;
    fn jobs(&self) -> &Self::Jobs;
    /// Ends at once, with this status.
    fn ends(&self, status: i32) -> JobDescription;
    /// Writes this, and ends.
    fn says(&self, text: &str) -> JobDescription;
    /// Copies its stdin to its stdout.
    fn copies(&self) -> JobDescription;
    /// Runs until it is killed.
    fn holds(&self) -> JobDescription;
}

impl Kept for Fake {
    type Jobs = Fake;

    fn jobs(&self) -> &Fake {
        self
    }

    fn ends(&self, status: i32) -> JobDescription {
        program(&[if status == 0 { "true" } else { "false" }])
    }

    fn says(&self, text: &str) -> JobDescription {
        program(&["say", text])
    }

    fn copies(&self) -> JobDescription {
        program(&["cat"])
    }

    fn holds(&self) -> JobDescription {
        program(&["deaf"])
    }
}

struct Real {
    manager: Arc<Manager<Fork>>,
    /// Removed after the manager is gone.
    _place: TempDir,
}

impl Real {
    /// None: it cannot run here (said on stderr).
    async fn open(test: &str) -> Option<Real> {
        let Some(runner) = runner() else {
            skip(test, "kumiko-run (cargo build -p kumiko-runner)");
            return None;
        };
        let place = tempfile::tempdir().unwrap();
        let setup = Setup {
            directory: place.path().join("state"),
            limits: Limits::default(),
            capacity: kumiko_job::admission::Capacity::UNBOUNDED,
            closed: Box::new(|| None),
            effective: Box::new(|_, _| Ok(Policy::default())),
            transfer: None,
            after_commit: None,
        };
        let spool = place.path().join("spool");
        let manager = Manager::open(setup, |sink| Fork::new(spool, runner, sink));
        Some(Real {
            manager: manager.await.unwrap(),
            _place: place,
        })
    }

    /// A runner waits until its site has heard it out: no job is left behind.
    async fn end(self) {
        for caller in [alice(), bob()] {
            for view in self.manager.list(caller).await.unwrap() {
                let mut events = self.manager.watch(caller, view.id, 0).await.unwrap();
                deadline("the end of a job", async {
                    while let Some(event) = events.next().await {
                        if event.state.has_ended() {
                            break;
                        }
                    }
                })
                .await;
                self.manager.remove(caller, view.id).await.unwrap();
            }
        }
        self.manager.close().await;
    }
}

impl Kept for Real {
    type Jobs = Manager<Fork>;

    fn jobs(&self) -> &Manager<Fork> {
        &self.manager
    }

    fn ends(&self, status: i32) -> JobDescription {
        program(&["/bin/sh", "-c", &format!("exit {status}")])
    }

    fn says(&self, text: &str) -> JobDescription {
        program(&["/bin/sh", "-c", &format!("printf %s '{text}'")])
    }

    fn copies(&self) -> JobDescription {
        program(&["/bin/cat"])
    }

    fn holds(&self) -> JobDescription {
        program(&["/bin/sleep", "3600"])
    }
}

/// The program: from KUMIKO_RUN, else beside this test's own directory.
fn runner() -> Option<PathBuf> {
    let beside = || {
        let test = std::env::current_exe().ok()?;
        Some(test.parent()?.parent()?.join("kumiko-run"))
    };
    let named = std::env::var_os("KUMIKO_RUN").map(PathBuf::from);
    named.or_else(beside).filter(|path| path.is_file())
}

fn program(words: &[&str]) -> JobDescription {
    let arguments: Vec<String> = words[1..].iter().map(|word| word.to_string()).collect();
    JobDescription::new(words[0], &arguments)
}

/// Each duty as a test of both.
macro_rules! duties {
    ($($duty:ident)*) => {
        mod the_manager {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $duty() {
                let name = concat!("the_manager::", stringify!($duty));
                if let Some(real) = super::Real::open(name).await {
                    super::$duty(&real).await;
                    real.end().await;
                }
            })*
        }
        mod the_fake {
            $(#[tokio::test]
            async fn $duty() {
                super::$duty(&super::Fake::new()).await;
            })*
        }
    };
}

duties! {
    the_same_key_is_the_same_job
    events_are_told_once_in_order_and_until_the_job_is_removed
    how_a_program_ended_is_told
    output_is_read_from_any_place_and_ends_with_the_job
    stdin_that_comes_twice_is_taken_once
    what_lives_is_not_removed_and_what_has_ended_takes_any_command
    a_stranger_finds_nothing
    an_upload_becomes_the_directory_of_its_job
    a_description_that_says_nothing_is_refused
}

fn alice() -> &'static Caller {
    static ALICE: LazyLock<Caller> = LazyLock::new(|| caller("/O=Grid/CN=Alice"));
    &ALICE
}

fn bob() -> &'static Caller {
    static BOB: LazyLock<Caller> = LazyLock::new(|| caller("/O=Grid/CN=Bob"));
    &BOB
}

fn caller(subject: &str) -> Caller {
    Caller {
        subject: subject.into(),
        account: "alice".into(),
    }
}

async fn submit(kept: &impl Kept, description: JobDescription) -> JobId {
    let submitted = kept.jobs().submit(alice(), description, None);
    submitted.await.unwrap()
}

async fn events(kept: &impl Kept, job: JobId, after: u64) -> Vec<EventView> {
    let mut stream = kept.jobs().watch(alice(), job, after).await.unwrap();
    let mut seen = Vec::new();
    deadline("the end of the job", async {
        while let Some(event) = stream.next().await {
            let ended = event.state.has_ended();
            seen.push(event);
            if ended {
                break;
            }
        }
    })
    .await;
    seen
}

async fn end(kept: &impl Kept, job: JobId) -> JobView {
    events(kept, job, 0).await;
    kept.jobs().show(alice(), job).await.unwrap()
}

/// All of a stream from an offset, in pieces of few bytes.
async fn output(kept: &impl Kept, job: JobId, stream: OutputStream, offset: u64) -> Vec<u8> {
    let mut reader = kept
        .jobs()
        .output(alice(), job, stream, offset)
        .await
        .unwrap();
    let mut all = Vec::new();
    deadline("the end of a stream", async {
        while let Some((at, data)) = reader.read(5).await.unwrap() {
            assert_eq!(at, offset + all.len() as u64);
            assert!((1..=5).contains(&data.len()), "{}", data.len());
            all.extend_from_slice(&data);
        }
    })
    .await;
    all
}

fn refused<T>(result: Result<T, Refusal>) -> String {
    match result {
        Ok(_) => "not refused".to_owned(),
        Err(refusal) => refusal.code,
    }
}

async fn the_same_key_is_the_same_job(kept: &impl Kept) {
    let key = || Some("a key".to_owned());
    let submit = async |caller: &Caller, key| {
        let submitted = kept.jobs().submit(caller, kept.ends(0), key);
        submitted.await.unwrap()
    };
    let first = submit(alice(), key()).await;
    end(kept, first).await;
    assert_eq!(submit(alice(), key()).await, first);
    assert_ne!(submit(alice(), None).await, first);
    assert_ne!(submit(bob(), key()).await, first);
}

async fn events_are_told_once_in_order_and_until_the_job_is_removed(kept: &impl Kept) {
    let job = submit(kept, kept.ends(0)).await;
    let told = events(kept, job, 0).await;
    let numbers: Vec<u64> = told.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(told.iter().all(|event| event.job == job));
    let last = kept.jobs().show(alice(), job).await.unwrap().last_event;
    assert_eq!(numbers.last(), Some(&last));
    assert_eq!(events(kept, job, last - 1).await, told[told.len() - 1..]);

    let mut waits = kept.jobs().watch(alice(), job, last).await.unwrap();
    kept.jobs().remove(alice(), job).await.unwrap();
    let told = deadline("the removal", waits.next()).await.unwrap();
    assert_eq!((told.kind.as_str(), told.number), ("removed", last + 1));
    let end = deadline("the end of the events", waits.next()).await;
    assert_eq!(end, None);
}

async fn how_a_program_ended_is_told(kept: &impl Kept) {
    for (status, state) in [(0, JobState::Done), (1, JobState::Failed)] {
        let job = submit(kept, kept.ends(status)).await;
        let view = end(kept, job).await;
        assert_eq!(view.state, state);
        assert_eq!(view.outcome, Some(Outcome::Exited { status }));
        assert!(!kept.jobs().explain(alice(), job).await.unwrap().is_empty());
    }
}

async fn output_is_read_from_any_place_and_ends_with_the_job(kept: &impl Kept) {
    let job = submit(kept, kept.says("twelve bytes")).await;
    for offset in [0, 7, 12] {
        let read = output(kept, job, OutputStream::Stdout, offset).await;
        assert_eq!(read, b"twelve bytes"[offset as usize..]);
    }
}

async fn stdin_that_comes_twice_is_taken_once(kept: &impl Kept) {
    let description = JobDescription {
        stdin: Stdin::Live,
        ..kept.copies()
    };
    let job = submit(kept, description).await;
    let say = |offset, data: &'static [u8]| AttemptCommand::Stdin {
        offset,
        data: Bytes::from_static(data),
    };
    let command = |command| async move {
        let commanded = kept.jobs().command(alice(), job, command);
        deadline("a command", commanded).await.unwrap();
    };
    command(say(0, b"once ")).await;
    let taken = kept.jobs().stdin_taken(alice(), job, Some(4));
    assert_eq!(deadline("stdin taken", taken).await.unwrap().offset, 5);
    // As one would who had lost the link and knows only of three bytes.
    command(say(3, b"e and")).await;
    let taken = kept.jobs().stdin_taken(alice(), job, Some(5));
    assert_eq!(deadline("stdin taken", taken).await.unwrap().offset, 8);
    command(AttemptCommand::StdinEnd { offset: 8 }).await;
    assert_eq!(end(kept, job).await.state, JobState::Done);
    let written = output(kept, job, OutputStream::Stdout, 0).await;
    assert_eq!(written, b"once and");
    let taken = kept.jobs().stdin_taken(alice(), job, Some(8));
    assert!(deadline("stdin closed", taken).await.unwrap().closed);
}

async fn what_lives_is_not_removed_and_what_has_ended_takes_any_command(kept: &impl Kept) {
    let jobs = kept.jobs();
    let job = submit(kept, kept.holds()).await;
    assert_eq!(refused(jobs.remove(alice(), job).await), "job_live");
    jobs.cancel(alice(), job, Some(0)).await.unwrap();
    let view = end(kept, job).await;
    assert_eq!(view.state, JobState::Cancelled);
    assert_eq!(view.outcome, Some(Outcome::Cancelled));
    let signal = AttemptCommand::Signal { signal: 15 };
    jobs.command(alice(), job, signal).await.unwrap();
    jobs.cancel(alice(), job, None).await.unwrap();
    jobs.remove(alice(), job).await.unwrap();
    assert_eq!(refused(jobs.show(alice(), job).await), "no_such_job");
    let left = jobs.list(alice()).await.unwrap();
    assert!(left.iter().all(|view| view.id != job));
}

async fn a_stranger_finds_nothing(kept: &impl Kept) {
    let (jobs, bob) = (kept.jobs(), bob());
    let job = submit(kept, kept.holds()).await;
    let signal = AttemptCommand::Signal { signal: 9 };
    for code in [
        refused(jobs.show(bob, job).await),
        refused(jobs.explain(bob, job).await),
        refused(jobs.watch(bob, job, 0).await),
        refused(jobs.output(bob, job, OutputStream::Stdout, 0).await),
        refused(jobs.stdin_taken(bob, job, None).await),
        refused(jobs.directory(bob, job).await),
        refused(jobs.command(bob, job, signal).await),
        refused(jobs.attend(bob, job).await),
        refused(jobs.redirect(bob, job, None, None).await),
        refused(jobs.cancel(bob, job, None).await),
        refused(jobs.remove(bob, job).await),
        refused(jobs.show(alice(), JobId(u64::MAX)).await),
    ] {
        assert_eq!(code, "no_such_job");
    }
    assert_eq!(jobs.list(bob).await.unwrap(), Vec::new());
    assert_eq!(jobs.list(alice()).await.unwrap().len(), 1);
    jobs.cancel(alice(), job, Some(0)).await.unwrap();
    end(kept, job).await;
}

async fn an_upload_becomes_the_directory_of_its_job(kept: &impl Kept) {
    let (id, path) = kept.jobs().new_upload(alice()).await.unwrap();
    std::fs::write(path.join("input"), "what was sent").unwrap();
    let description = JobDescription {
        input: Some(id),
        ..kept.ends(0)
    };
    let job = submit(kept, description).await;
    end(kept, job).await;
    let directory = kept.jobs().directory(alice(), job).await.unwrap();
    let found = std::fs::read_to_string(directory.join("input")).unwrap();
    assert_eq!(found, "what was sent");
}

async fn a_description_that_says_nothing_is_refused(kept: &impl Kept) {
    let submitted = kept.jobs().submit(alice(), program(&[""]), None);
    assert_eq!(refused(submitted.await), "bad_description");
    assert_eq!(kept.jobs().list(alice()).await.unwrap(), Vec::new());
}

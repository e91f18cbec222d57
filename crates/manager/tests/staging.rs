//! Jobs with files, on a stand-in that moves nothing and remembers what it was asked: order, retries, redirection, ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Asked, Stage, alice, done, program, soon, stage_with};
use kumiko_job::attempt::{Outcome, OutputStream};
use kumiko_job::contract::{JobState, JobView, Jobs};
use kumiko_job::description::{Destination, JobDescription, StageIn, StageOut, Stdin};
use kumiko_job::id::JobId;
use kumiko_job::staging::Item;
use kumiko_job::transfer::{Answer, Fetch, Streamed, Transfer, TransferFailure, Work};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Says what it did; fails first as often as it is told to.
#[derive(Default)]
struct Porter {
    said: Mutex<Vec<String>>,
    failures: Mutex<VecDeque<TransferFailure>>,
    /// What streams have brought, by destination.
    streams: watch::Sender<Vec<(String, String)>>,
    /// Files wait for this.
    holds: watch::Sender<bool>,
}

impl Porter {
    async fn go_on(&self) {
        let mut held = self.holds.subscribe();
        held.wait_for(|holds| !*holds).await.unwrap();
    }

    fn say(&self, word: String) -> Result<u64, TransferFailure> {
        self.said.lock().unwrap().push(word);
        let failure = self.failures.lock().unwrap().pop_front();
        failure.map_or(Ok(7), Err)
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }
}

fn failure(retry: bool) -> TransferFailure {
    TransferFailure {
        code: "transfer_cut".into(),
        message: "it was cut".into(),
        retry,
    }
}

impl Transfer for Porter {
    fn fetch<'a>(
        &'a self,
        _: &'a Work,
        what: &'a StageIn,
        how: Fetch,
    ) -> Answer<'a, Result<u64, TransferFailure>> {
        Box::pin(async move {
            self.go_on().await;
            self.say(format!("{} from {} to {}", how.item, what.from, what.to))
        })
    }

    fn send<'a>(
        &'a self,
        _: &'a Work,
        what: &'a StageOut,
    ) -> Answer<'a, Result<u64, TransferFailure>> {
        Box::pin(async move {
            self.go_on().await;
            self.say(format!("send {} to {}", what.from, what.to))
        })
    }

    fn stream<'a>(
        &'a self,
        work: &'a Work,
        what: Streamed<'a>,
    ) -> Answer<'a, Result<u64, TransferFailure>> {
        Box::pin(async move {
            if !work.directory.is_dir() {
                return Err(failure(false));
            }
            let mut offset = what.to.position;
            let to = what.to.to.clone();
            while let Some(piece) = what.bytes.read(offset, 100).await.unwrap() {
                offset += piece.len() as u64;
                let text = String::from_utf8(piece.to_vec()).unwrap();
                self.streams.send_modify(|all| all.push((to.clone(), text)));
            }
            self.say(format!("stream to {to}"))
        })
    }

    fn make_scratch<'a>(
        &'a self,
        _: &'a Work,
        path: &'a str,
    ) -> Answer<'a, Result<(), TransferFailure>> {
        Box::pin(async move { self.say(format!("scratch {path}")).map(|_| ()) })
    }

    fn clean_up<'a>(
        &'a self,
        _: &'a Work,
        paths: &'a [String],
    ) -> Answer<'a, Result<(), TransferFailure>> {
        Box::pin(async move { self.say(format!("clean {}", paths.join(" "))).map(|_| ()) })
    }

    fn forget(&self, job: JobId) -> Answer<'_, ()> {
        Box::pin(async move { drop(self.say(format!("forget {job}"))) })
    }
}

async fn open(directory: &tempfile::TempDir) -> (Stage, Arc<Porter>) {
    let porter = Arc::new(Porter::default());
    (stage_with(directory.path(), porter.clone()).await, porter)
}

fn file(from: &str, to: &str) -> StageIn {
    StageIn {
        from: from.into(),
        to: to.into(),
        bytes: None,
        sha256: None,
    }
}

async fn submit(stage: &Stage, description: JobDescription) -> JobId {
    let submitted = stage.manager.submit(&alice(), description, None).await;
    submitted.unwrap()
}

async fn end_of(stage: &Stage, id: JobId) -> Outcome {
    let events = stage.events_to_end(id).await;
    events.last().unwrap().outcome.clone().unwrap()
}

#[tokio::test]
async fn a_job_that_needs_files_moved_is_refused_where_nobody_moves_them() {
    let directory = tempfile::tempdir().unwrap();
    let stage = common::open(directory.path()).await;
    let changes: [fn(&mut JobDescription); 5] = [
        |job| job.executable = "https://h/x".into(),
        |job| job.stage_in.push(file("https://h/x", "x")),
        |job| job.stdout.push(Destination::new("https://h/x")),
        |job| job.clean_up.push("x".into()),
        |job| job.scratch = Some("x".into()),
    ];
    for change in changes {
        let mut description = program();
        change(&mut description);
        let refused = stage.manager.submit(&alice(), description, None).await;
        assert_eq!(refused.unwrap_err().code, "no_staging");
    }
}

#[tokio::test]
async fn files_come_before_the_program_and_go_after_it_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stage, porter) = open(&directory).await;
    let description = JobDescription {
        executable: "https://h/prog".into(),
        stdin: Stdin::Url("https://h/in".into()),
        stage_in: vec![file("https://h/a", "a"), file("https://h/b", "b")],
        stage_in_shared: vec![file("https://h/c", "c")],
        stage_out: vec![StageOut {
            from: "d".into(),
            to: "https://h/d".into(),
        }],
        clean_up: vec!["a".into()],
        scratch: Some("tmp".into()),
        stdout: vec![Destination::new("https://h/out")],
        ..program()
    };
    let id = submit(&stage, description).await;
    let spec = stage.started().await;
    assert_eq!(spec.executable, "/job/.executable");
    assert_eq!(spec.stdin, Stdin::File(".stdin".into()));
    assert_eq!(spec.environment["SCRATCH_DIRECTORY"], "/job/tmp");
    stage.run(spec.id);
    stage.write(spec.id, OutputStream::Stdout, b"hello");
    stage.end(spec.id, done());
    let events = stage.events_to_end(id).await;
    let states: Vec<_> = events.iter().map(|event| event.state).collect();
    assert_eq!(
        states[0..7],
        [
            JobState::Pending,
            JobState::StagingIn,
            JobState::StagingIn,
            JobState::StagingIn,
            JobState::StagingIn,
            JobState::StagingIn,
            JobState::StagingIn,
        ]
    );
    assert_eq!(events.last().unwrap().kind, "staged_out");
    assert_eq!(events.last().unwrap().outcome, Some(done()));
    let mut said = porter.said();
    said.retain(|word| !word.starts_with("forget"));
    // The stream goes beside the files.
    let stream = said
        .iter()
        .position(|word| word == "stream to https://h/out");
    said.remove(stream.unwrap());
    assert_eq!(
        said,
        [
            "scratch tmp",
            "executable from https://h/prog to .executable",
            "stdin.url from https://h/in to .stdin",
            "stage_in[0] from https://h/a to a",
            "stage_in[1] from https://h/b to b",
            "stage_in_shared[0] from https://h/c to c",
            "scratch tmp",
            "send d to https://h/d",
            "clean a tmp",
        ]
    );
    soon("what it kept to go", async {
        while !porter.said().contains(&format!("forget {id}")) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_may_work_later_is_tried_again_and_what_cannot_ends_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stage, porter) = open(&directory).await;
    let description = JobDescription {
        stage_in: vec![file("https://h/a", "a")],
        ..program()
    };
    porter.failures.lock().unwrap().push_back(failure(true));
    submit(&stage, description.clone()).await;
    stage.started().await;
    assert_eq!(porter.said().len(), 2);

    porter.failures.lock().unwrap().push_back(failure(false));
    let id = submit(&stage, description).await;
    let outcome = end_of(&stage, id).await;
    let expected = Outcome::StagingFailed {
        item: Item::In(0),
        code: "transfer_cut".into(),
        message: "it was cut".into(),
    };
    assert_eq!(outcome, expected);
    let view = stage.manager.show(&alice(), id).await.unwrap();
    assert_eq!((view.state, view.epoch), (JobState::Failed, 0));
}

#[tokio::test]
async fn what_a_job_wants_removed_goes_when_its_files_do_not_come() {
    let directory = tempfile::tempdir().unwrap();
    let (stage, porter) = open(&directory).await;
    let description = JobDescription {
        stage_in: vec![file("https://h/a", "a"), file("https://h/b", "b")],
        clean_up: vec!["a".into(), "b".into()],
        ..program()
    };
    porter.failures.lock().unwrap().push_back(failure(false));
    let id = submit(&stage, description).await;
    assert!(matches!(
        end_of(&stage, id).await,
        Outcome::StagingFailed { .. }
    ));
    assert_eq!(
        porter.said()[..2],
        ["stage_in[0] from https://h/a to a", "clean a b"]
    );
}

#[tokio::test]
async fn a_job_is_cancelled_while_its_files_come() {
    let directory = tempfile::tempdir().unwrap();
    let (stage, porter) = open(&directory).await;
    porter.holds.send_replace(true);
    let description = JobDescription {
        stage_in: vec![file("https://h/a", "a")],
        ..program()
    };
    let id = submit(&stage, description).await;
    let view = stage.manager.show(&alice(), id).await.unwrap();
    assert_eq!(view.state, JobState::StagingIn);
    assert_eq!(view.staging.unwrap().files, 1);
    stage.manager.cancel(&alice(), id, None).await.unwrap();
    assert_eq!(end_of(&stage, id).await, Outcome::Cancelled);
}

#[tokio::test]
async fn a_stream_goes_elsewhere_when_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stage, porter) = open(&directory).await;
    let description = JobDescription {
        stdout: vec![Destination::new("https://h/first")],
        ..program()
    };
    let (id, spec) = stage.submit(description).await;
    stage.run(spec.id);
    stage.write(spec.id, OutputStream::Stdout, b"one");
    let mut streams = porter.streams.subscribe();
    let pair = |to: &str, text: &str| (to.to_owned(), text.to_owned());
    let first = pair("https://h/first", "one");
    soon("the first", streams.wait_for(|all| all.contains(&first)))
        .await
        .unwrap();

    let http = Some(vec![Destination::new("http://h/x")]);
    let wrong = stage.manager.redirect(&alice(), id, http, None).await;
    assert_eq!(wrong.unwrap_err().code, "bad_description");
    let second = Destination {
        position: 1,
        ..Destination::new("https://h/second")
    };
    stage
        .manager
        .redirect(&alice(), id, Some(vec![second]), None)
        .await
        .unwrap();
    let rest = pair("https://h/second", "ne");
    soon("the second", streams.wait_for(|all| all.contains(&rest)))
        .await
        .unwrap();
    stage.write(spec.id, OutputStream::Stdout, b"two");
    stage.end(spec.id, done());
    assert_eq!(end_of(&stage, id).await, done());
    let all = porter.streams.borrow().clone();
    assert!(!all.contains(&pair("https://h/first", "two")), "{all:?}");
    assert!(all.contains(&pair("https://h/second", "two")), "{all:?}");
    let late = stage
        .manager
        .redirect(&alice(), id, Some(Vec::new()), None)
        .await;
    assert_eq!(late.unwrap_err().code, "job_ended");
}

#[tokio::test]
async fn a_stream_that_was_sent_is_not_sent_anew_by_the_next_site() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stage, porter) = open(&directory).await;
    porter.holds.send_replace(true);
    let description = JobDescription {
        stdout: vec![Destination::new("https://h/out")],
        stage_out: vec![StageOut {
            from: "d".into(),
            to: "https://h/d".into(),
        }],
        ..program()
    };
    let (id, spec) = stage.submit(description).await;
    stage.run(spec.id);
    stage.write(spec.id, OutputStream::Stdout, b"all");
    stage.end(spec.id, done());
    soon("the stream is recorded", async {
        let sent = |view: &JobView| {
            let staging = view.staging.as_ref();
            staging.is_some_and(|staging| staging.files_done == 1)
        };
        while !sent(&stage.manager.show(&alice(), id).await.unwrap()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    stage.manager.close().await;
    drop(stage);

    let (stage, porter) = open(&directory).await;
    assert_eq!(end_of(&stage, id).await, done());
    let said = porter.said();
    assert!(
        said.contains(&"send d to https://h/d".to_owned()),
        "{said:?}"
    );
    assert!(
        !said.iter().any(|word| word.starts_with("stream")),
        "{said:?}"
    );
    assert_eq!(*porter.streams.borrow(), []);
}

#[tokio::test]
async fn a_stream_that_comes_before_its_attempt_finds_the_jobs_directory_made() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stage, _) = open(&directory).await;
    let description = JobDescription {
        stdout: vec![Destination::new("out")],
        ..program()
    };
    let (id, spec) = stage.submit(description).await;
    stage.manager.close().await;
    drop(stage);
    // As if the site had been killed before it made it: now the stream is alone with that.
    std::fs::remove_dir(&spec.job_directory).unwrap();
    let (mut stage, porter) = open(&directory).await;
    assert!(matches!(stage.asked().await, Asked::Adopt(of) if of == spec.id));
    stage.run(spec.id);
    stage.write(spec.id, OutputStream::Stdout, b"one");
    let mut streams = porter.streams.subscribe();
    let piece = ("out".to_owned(), "one".to_owned());
    soon("the stream", streams.wait_for(|all| all.contains(&piece)))
        .await
        .unwrap();
    stage.end(spec.id, done());
    assert_eq!(end_of(&stage, id).await, done());
}

#[tokio::test]
async fn who_is_attached_sees_the_output_end_with_the_job_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stage, porter) = open(&directory).await;
    let description = JobDescription {
        stage_out: vec![StageOut {
            from: "d".into(),
            to: "https://h/d".into(),
        }],
        ..program()
    };
    porter.failures.lock().unwrap().push_back(failure(false));
    let (id, spec) = stage.submit(description).await;
    stage.run(spec.id);
    stage.end(spec.id, Outcome::Exited { status: 3 });
    assert_eq!(stage.read_all(id, OutputStream::Stdout, 0).await, b"");
    let view = stage.manager.show(&alice(), id).await.unwrap();
    let Some(Outcome::StagingFailed { item, message, .. }) = view.outcome else {
        panic!("{view:?}");
    };
    assert_eq!(item, Item::Out(0));
    assert!(message.contains("status 3"), "{message}");
}

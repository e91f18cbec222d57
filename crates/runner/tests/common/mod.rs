//! What the tests of kumiko-run share: a spool with the real program in it, and the site's end of its socket.
#![allow(dead_code)] // each test file is a crate of its own and uses a part

use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome, OutputStream};
use kumiko_job::description::{OutputMode, Stdin};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_linux::unix_socket;
use kumiko_wire::runner::{decode_report, encode_command};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far more than any of this takes; a test that hangs fails then.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// An attempt of `sh -c script` with the default policy.
pub fn script(script: &str) -> AttemptSpec {
    AttemptSpec {
        id: AttemptId {
            job: JobId(7),
            epoch: 1,
        },
        executable: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: Default::default(),
        directory: None,
        job_directory: PathBuf::new(), // set by `Attempt::start`
        stdin: Stdin::Empty,
        output: OutputMode::Keep,
        terminal: None,
        count: 1,
        mpi: None,
        time_limit_ms: None,
        resources: Default::default(),
        grace_ms: 10_000,
        output_quota_bytes: 1 << 30,
        policy: kumiko_policy::Policy::default(),
        mechanism: None,
        hold_ms: None,
        alone_ms: None,
        beat_ms: None,
        dumps: None,
        wanted_on: None,
    }
}

/// A runner with its spool and job directory, and the connection to it.
pub struct Attempt {
    pub top: TempDir,
    pub runner: Child,
    pub site: Site,
}

impl Attempt {
    pub fn start(spec: AttemptSpec) -> Self {
        Self::start_with(spec, |_| ())
    }

    /// `prepare` may put files beside: `top/job` is the job's directory, `top/spool` the spool.
    pub fn start_with(spec: AttemptSpec, prepare: impl FnOnce(&TempDir)) -> Self {
        Self::start_at(&std::env::temp_dir(), spec, prepare)
    }

    pub fn start_at(place: &Path, mut spec: AttemptSpec, prepare: impl FnOnce(&TempDir)) -> Self {
        let top = tempfile::tempdir_in(place).unwrap();
        let (spool, job) = (top.path().join("spool"), top.path().join("job"));
        if spec.job_directory == PathBuf::new() {
            spec.job_directory = job.clone();
        }
        fs::create_dir(&spool).unwrap();
        fs::create_dir(&job).unwrap();
        fs::write(
            spool.join("attempt.json"),
            serde_json::to_vec(&spec).unwrap(),
        )
        .unwrap();
        prepare(&top);
        let listener = unix_socket::listen(&spool.join("control")).unwrap();
        let site = Site::connect(&top);
        let runner = Command::new(env!("CARGO_BIN_EXE_kumiko-run"))
            .arg(&spool)
            .env_clear()
            .env("KUMIKO_TEST_SECRET", "of the runner")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
            .spawn()
            .unwrap();
        Self { top, runner, site }
    }

    pub fn spool(&self, name: &str) -> PathBuf {
        self.top.path().join("spool").join(name)
    }

    pub fn job(&self, name: &str) -> PathBuf {
        self.top.path().join("job").join(name)
    }

    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.spool(name)).unwrap()).into_owned()
    }

    /// Waits for the end, takes leave, and returns how it ended.
    pub fn end(&mut self) -> Outcome {
        let outcome = self.site.ended();
        self.site.say(&AttemptCommand::Settled);
        wait(&mut self.runner);
        outcome
    }

    /// Waits until the spool file holds these words.
    pub fn printed(&mut self, words: &str) {
        loop {
            self.site
                .wait_for(|r| matches!(r, AttemptReport::Output { .. }));
            if self.read("stdout").contains(words) {
                return;
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let _ = self.runner.kill();
        let _ = self.runner.wait();
    }
}

/// Waits for a runner to go.
pub fn wait(runner: &mut Child) -> i32 {
    let until = Instant::now() + DEADLINE;
    let pidfd = kumiko_linux::process::pidfd(runner.id() as i32).unwrap();
    let poll = kumiko_linux::poll::Poll::new().unwrap();
    poll.add(&pidfd, 0, kumiko_linux::poll::Interest::Read)
        .unwrap();
    let left = until.saturating_duration_since(Instant::now());
    assert!(
        poll.wait::<1>(Some(left)).unwrap().next().is_some(),
        "the runner does not go"
    );
    runner.wait().unwrap().code().unwrap_or(-1)
}

/// The site's end of a control socket.
pub struct Site {
    pub stream: UnixStream,
    pub rest: Vec<u8>,
    pub heard: Vec<AttemptReport>,
}

impl Site {
    pub fn connect(top: &TempDir) -> Self {
        let stream = unix_socket::connect(&top.path().join("spool/control")).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self {
            stream,
            rest: Vec::new(),
            heard: Vec::new(),
        }
    }

    pub fn say(&mut self, command: &AttemptCommand) {
        let mut frame = Vec::new();
        encode_command(command, &mut frame);
        self.stream.write_all(&frame).unwrap();
    }

    /// The next report; None: the runner has hung up.
    pub fn hear(&mut self) -> Option<AttemptReport> {
        loop {
            if let Some((report, taken)) = decode_report(&self.rest).unwrap() {
                self.rest.drain(..taken);
                self.heard.push(report.clone());
                return Some(report);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                // Reading with a deadline is not restarted after a stop of this process (signal(7)).
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
                Err(error) => panic!("no report came: {error}; before: {:?}", self.heard),
            }
        }
    }

    pub fn wait_for(&mut self, wanted: impl Fn(&AttemptReport) -> bool) -> AttemptReport {
        loop {
            match self.hear() {
                Some(report) if wanted(&report) => return report,
                Some(AttemptReport::Ended(outcome)) => panic!("ended: {outcome:?}"),
                Some(_) => (),
                None => panic!("the runner hung up; before: {:?}", self.heard),
            }
        }
    }

    pub fn started(&mut self) -> AttemptReport {
        self.wait_for(|r| matches!(r, AttemptReport::Started { .. }))
    }

    pub fn ended(&mut self) -> Outcome {
        match self.wait_for(|r| matches!(r, AttemptReport::Ended(_))) {
            AttemptReport::Ended(outcome) => outcome,
            _ => unreachable!(),
        }
    }

    /// The last length heard of a stream.
    pub fn length(&self, of: OutputStream) -> u64 {
        let last = self.heard.iter().rev().find_map(|report| match report {
            AttemptReport::Output { stream, length } if *stream == of => Some(*length),
            _ => None,
        });
        last.unwrap_or(0)
    }
}

/// Says that a test cannot run here, in the form that the house collects.
pub fn skip(test: &str, missing: &str) {
    eprintln!("SKIP {test}: missing {missing}");
}

//! `kumiko-run --self-checkpointing FOLDER [...] -- PROGRAM`: the program of a batch job that somebody hands to HTCondor or Slurm himself
//! (spec/jobs/runner.md, R40 to R47). It is what a site is to a runner, for one attempt, and ends as these engines have it of jobs that
//! make checkpoints: with a status of its own, upon which the job begins again, here or elsewhere, where it was.
//!
//! One thread, one poll. Not here: how a guest is dumped (`dumps`), how a program makes checkpoints (libkumikockpt).

mod asked;
mod printed;

pub use asked::{Asked, USAGE};

use crate::spool::name;
use kumiko_checkpoint::{LEAVE, Name};
use kumiko_job::attempt::{
    AttemptCommand, AttemptReport, AttemptSpec, DUMPED, Dumped, Dumps, LINKS_LIBRARY, NOT_DUMPED,
    Outcome,
};
use kumiko_job::description::{OutputMode, Stdin};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::signals::Signals;
use kumiko_linux::{process, unix_socket};
use kumiko_policy::JOB_DIRECTORY;
use kumiko_wire::runner::{decode_report, encode_command};
use kumiko_wire::spool::encode_attempt;
use printed::Printed;
use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Variables by which an engine or a shell tells the directory; the guest sees it elsewhere.
const OF_DIRECTORY: [&str; 4] = ["PWD", "TMP", "TEMP", "_CONDOR_SCRATCH_DIR"];
const DUMPS: &str = "dumps";
/// Where the program makes checkpoints, if it links the library.
const LIBRARY: &str = "library";
/// The engine says how long a job has; it kills what takes longer.
const GRACE_MS: u64 = 3_600_000;
/// Of one that a person interrupts.
const INTERRUPTED_GRACE_MS: u64 = 10_000;
const REACHED_WITHIN: Duration = Duration::from_secs(60);
const REACH_AGAIN: Duration = Duration::from_millis(2);
const ENGINE_WITHIN: Duration = Duration::from_millis(500);
const TOLD_MOST: usize = 16;
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 4096;

const SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGUSR1];
const SIGINT: i32 = 2;
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;
/// Exit statuses as of a shell's: of our own failure, of no such program, and of one that a signal ended.
pub const FAILED: u8 = 125;
const NO_PROGRAM: u8 = 127;
const BY_SIGNAL: i32 = 128;

const SIGNAL: u64 = 0;
const RUNNER: u64 = 1;

/// Why the program did not come to an end.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    #[error("cannot {tried} {}: {cause}", path.display())]
    File {
        tried: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    #[error("{0}")]
    Asked(String),
    #[error("the runner beside the program cannot be started: {0}")]
    Runner(io::Error),
    #[error(
        "the runner beside the program is gone, and the program with it; it may have been killed"
    )]
    Gone,
    #[error("cannot wait for events: {0}")]
    Poll(io::Error),
}

/// Runs what is asked to its end, or to a checkpoint; the exit status. `runner` is what a runner does with its spool.
pub fn run(asked: &Asked, runner: impl FnOnce(&Path) -> u8) -> Result<u8, OwnError> {
    let signals = Signals::hold(&SIGNALS).map_err(OwnError::Poll)?;
    let place = Place::make(asked)?;
    let spool = Spool::make(&place.attempt(asked)?)?;
    let work = || {
        signals.let_go();
        runner(&spool.0)
    };
    let pid = process::copy(work).map_err(OwnError::Runner)?;
    let runner = process::pidfd(pid).map_err(OwnError::Runner)?;
    let stream = reach(&spool.0.join("control"), runner.as_fd())?;
    let poll = Poll::new().map_err(OwnError::Poll)?;
    let watched = poll.add(&signals, SIGNAL, Interest::Read);
    let watched = watched.and_then(|()| poll.add(&stream, RUNNER, Interest::Read));
    watched.map_err(OwnError::Poll)?;
    let mut own = Own {
        asked,
        place: &place,
        stream,
        incoming: Vec::new(),
        printed: Printed::all(|stream| spool.0.join(name(stream))),
        vacates: false,
        makes: false,
        started: false,
        leaves: None,
        interrupted: false,
        due: asked
            .every
            .and_then(|every| Instant::now().checked_add(every)),
    };
    let outcome = own.attend(&poll, &signals)?;
    own.hear_engine(&outcome, &poll, &signals)?;
    let status = own.status(&outcome);
    own.say(&AttemptCommand::Settled);
    process::wait(runner.as_fd()).map_err(OwnError::Runner)?;
    tell_log(&spool.0.join("log"));
    if status == 0 {
        place.clear(); // whoever runs it again is to have it begin at its start
    }
    if status == asked.status && own.leaves == Some(Leaves::UntilLater) {
        requeue();
    }
    Ok(status)
}

/// Why it makes a checkpoint and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// The engine takes the slot back, or it is time: the engine sees to what comes then.
    Now,
    /// Time is nearly up: it is to be put back into the queue.
    UntilLater,
}

struct Own<'a> {
    asked: &'a Asked,
    place: &'a Place,
    stream: UnixStream,
    incoming: Vec<u8>,
    printed: Printed,
    /// The runner obeys `Vacate`.
    vacates: bool,
    /// It is dumped, or its program links the library.
    makes: bool,
    started: bool,
    leaves: Option<Leaves>,
    interrupted: bool,
    /// When it is to make a checkpoint and end by itself.
    due: Option<Instant>,
}

impl Own<'_> {
    fn attend(&mut self, poll: &Poll, signals: &Signals) -> Result<Outcome, OwnError> {
        loop {
            let left = self.due.filter(|_| self.started && self.leaves.is_none());
            let left = left.map(|due| due.saturating_duration_since(Instant::now()));
            let events = poll.wait::<2>(left).map_err(OwnError::Poll)?;
            for event in events {
                if event.token == SIGNAL {
                    while let Some(signal) = signals.next() {
                        self.signalled(signal);
                    }
                } else if let Some(outcome) = self.hear()? {
                    return Ok(outcome);
                }
            }
            let is_due = self.due.is_some_and(|due| due <= Instant::now());
            if is_due && self.started && self.leaves.is_none() {
                // Nobody takes the slot: it goes on until there is what a later start goes on from, or to its end.
                match self.place.has_something() {
                    true => self.leave(Leaves::Now),
                    false => self.due = Instant::now().checked_add(LOOK_AGAIN),
                }
            }
        }
    }

    /// An engine may tell all processes of a job at once, of which the program has ended first.
    fn hear_engine(
        &mut self,
        outcome: &Outcome,
        poll: &Poll,
        signals: &Signals,
    ) -> Result<(), OwnError> {
        if outcome.may_be_an_engines() && self.leaves.is_none() {
            poll.remove(&self.stream).map_err(OwnError::Poll)?;
            let told = poll.wait::<1>(Some(ENGINE_WITHIN));
            told.map_err(OwnError::Poll)?.for_each(drop);
            if signals.next() == Some(SIGTERM) {
                self.leaves = Some(Leaves::Now);
            }
        }
        Ok(())
    }

    fn signalled(&mut self, signal: i32) {
        match signal {
            SIGINT => {
                self.interrupted = true;
                let grace_ms = INTERRUPTED_GRACE_MS;
                self.say(&AttemptCommand::Cancel { grace_ms });
            }
            // A program that has a word for it may make what it needs itself.
            SIGUSR1 if self.started && !self.can_go_on() => {
                self.say(&AttemptCommand::Signal { signal });
            }
            SIGUSR1 => self.leave(Leaves::UntilLater),
            _ => self.leave(Leaves::Now),
        }
    }

    /// Of one that has not started yet, when it has.
    fn leave(&mut self, leaves: Leaves) {
        let first = self.leaves.replace(leaves).is_none();
        if first && self.started {
            self.say_leave();
        }
    }

    fn say_leave(&mut self) {
        let grace_ms = GRACE_MS;
        self.say(&match self.vacates {
            true => AttemptCommand::Vacate { grace_ms },
            false => AttemptCommand::Cancel { grace_ms },
        });
    }

    /// There is, or will be when it has left, what a later start goes on from.
    fn can_go_on(&self) -> bool {
        self.makes || self.place.has_something()
    }

    /// A runner that is gone is seen when it is heard.
    fn say(&mut self, command: &AttemptCommand) {
        let mut frame = Vec::new();
        encode_command(command, &mut frame);
        let _ = self.stream.write_all(&frame);
    }

    fn hear(&mut self) -> Result<Option<Outcome>, OwnError> {
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(count) if count > 0 => self.incoming.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(None),
            _ => return Err(OwnError::Gone),
        }
        let mut done = 0;
        loop {
            match decode_report(&self.incoming[done..]) {
                Ok(Some((report, taken))) => {
                    done += taken;
                    if let Some(outcome) = self.note(report) {
                        return Ok(Some(outcome));
                    }
                }
                Ok(None) => break,
                Err(_) => return Err(OwnError::Gone),
            }
        }
        self.incoming.drain(..done);
        Ok(None)
    }

    fn note(&mut self, report: AttemptReport) -> Option<Outcome> {
        match report {
            AttemptReport::Vacates => self.vacates = true,
            AttemptReport::Started { why, .. } => {
                self.started = true;
                let of_dumps =
                    |one: &&String| one.starts_with(DUMPED) || one.starts_with(NOT_DUMPED);
                if let Some(words) = why.iter().find(of_dumps) {
                    self.makes = words.starts_with(DUMPED) || words.ends_with(LINKS_LIBRARY);
                    complain(words);
                    if words.contains("goes on from") {
                        self.printed.go_on(&self.place.dumps());
                    }
                }
                if self.leaves.is_some() {
                    self.say_leave();
                }
            }
            AttemptReport::Output { stream, length } => {
                if let Err(error) = self.printed.pass_on(stream, length) {
                    complain(&format!("{} goes nowhere: {error}", name(stream)));
                    self.say(&AttemptCommand::Cancel { grace_ms: 0 });
                }
            }
            AttemptReport::Ended(outcome) => return Some(outcome),
            _ => {}
        }
        None
    }

    fn status(&self, outcome: &Outcome) -> u8 {
        let (status, complaint) = match outcome {
            outcome
                if (*outcome == Outcome::Cancelled || outcome.may_be_an_engines())
                    && self.leaves.is_some()
                    && self.place.has_something() =>
            {
                return self.asked.status;
            }
            Outcome::Exited { status } => (*status, None),
            Outcome::Signalled { signal } => (BY_SIGNAL + signal, None),
            Outcome::Cancelled if self.interrupted => (BY_SIGNAL + SIGINT, None),
            Outcome::Cancelled => (BY_SIGNAL + SIGTERM, None),
            Outcome::NeverStarted { code, message } => {
                let status = match code.as_str() {
                    "no_such_executable" => NO_PROGRAM,
                    _ => FAILED,
                };
                (i32::from(status), Some(message.clone()))
            }
            Outcome::EngineEnded { message, .. }
            | Outcome::SpoolFailed { message }
            | Outcome::Lost { message } => (i32::from(FAILED), Some(message.clone())),
            other => (i32::from(FAILED), Some(format!("{other:?}"))),
        };
        complaint.iter().for_each(|words| complain(words));
        (status & 0xff) as u8
    }
}

/// The folder of its checkpoints, below the directory that it works in.
struct Place {
    directory: PathBuf,
    folder: PathBuf,
}

impl Place {
    fn make(asked: &Asked) -> Result<Place, OwnError> {
        let directory = std::env::current_dir().map_err(|cause| OwnError::File {
            tried: "find the directory that it works in from",
            path: PathBuf::from("."),
            cause,
        })?;
        let folder = directory.join(&asked.folder);
        let made = |path: &Path| match DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Ok(()) => Ok(()),
            Err(cause) => Err(OwnError::File {
                tried: "make",
                path: path.to_owned(),
                cause,
            }),
        };
        // Whoever tells a program that links the library to end, Slurm among them, has it make a checkpoint first (spec/checkpoint, K38).
        made(&folder.join(LIBRARY).join(&*LEAVE.to_string_lossy()))?;
        Ok(Place { directory, folder })
    }

    fn dumps(&self) -> PathBuf {
        self.folder.join(DUMPS)
    }

    fn attempt(&self, asked: &Asked) -> Result<AttemptSpec, OwnError> {
        let mut environment = asked.environment.clone();
        let library = format!("{JOB_DIRECTORY}/{}/{LIBRARY}", asked.folder.display());
        environment.insert("KUMIKO_CHECKPOINT".to_owned(), library);
        // What lies elsewhere is not there when it goes on.
        environment.insert("TMPDIR".to_owned(), JOB_DIRECTORY.to_owned());
        for name in OF_DIRECTORY {
            if let Some(value) = environment.get_mut(name) {
                JOB_DIRECTORY.clone_into(value);
            }
        }
        Ok(AttemptSpec {
            id: AttemptId {
                job: JobId(1),
                epoch: 1,
            },
            executable: asked.program.clone(),
            arguments: asked.arguments.clone(),
            directory: None,
            job_directory: self.directory.clone(),
            stdin: Stdin::Empty,
            output: OutputMode::Keep,
            terminal: None,
            count: 1,
            mpi: None,
            time_limit_ms: None,
            resources: Default::default(),
            grace_ms: GRACE_MS,
            output_quota_bytes: u64::MAX,
            policy: asked.policy().map_err(OwnError::Asked)?,
            mechanism: None,
            hold_ms: None,
            alone_ms: None,
            beat_ms: None,
            dumps: Some(Dumps {
                folder: self.dumps(),
                path: environment.get("PATH").cloned().unwrap_or_default(),
                guest: Dumped::Job,
            }),
            environment,
            wanted_on: None,
        })
    }

    /// There is a checkpoint, or a dump.
    fn has_something(&self) -> bool {
        let holds = |folder: PathBuf, is: fn(&str) -> bool| {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            let mut names = entries.flatten().map(|entry| entry.file_name());
            names.any(|name| name.to_str().is_some_and(is))
        };
        holds(self.dumps(), |name| name.parse::<u64>().is_ok())
            || holds(self.folder.join(LIBRARY), |name| {
                Name::parse(name).is_some()
            })
    }

    /// The folder stays: an engine may be about to fetch it.
    fn clear(&self) {
        for folder in [LIBRARY, DUMPS] {
            // What stays is of no harm but to who runs the same again in this directory.
            let _ = std::fs::remove_dir_all(self.folder.join(folder));
        }
    }
}

/// A spool of its own, removed with it.
struct Spool(PathBuf);

impl Spool {
    fn make(attempt: &AttemptSpec) -> Result<Spool, OwnError> {
        let failed = |tried, path: &Path, cause| OwnError::File {
            tried,
            path: path.to_owned(),
            cause,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.unwrap_or_default().as_nanos(); // a clock before 1970 makes a name as good
        let name = format!("kumiko-run-{}-{nanos}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|cause| failed("make", &path, cause))?;
        let spool = Spool(path);
        let file = spool.0.join("attempt.json");
        let text = encode_attempt(attempt).map_err(|error| OwnError::Asked(error.to_string()))?;
        std::fs::write(&file, text).map_err(|cause| failed("write", &file, cause))?;
        Ok(spool)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The runner listens as soon as it has its spool.
fn reach(control: &Path, runner: std::os::fd::BorrowedFd<'_>) -> Result<UnixStream, OwnError> {
    let until = Instant::now() + REACHED_WITHIN;
    loop {
        match unix_socket::connect(control) {
            Ok(stream) => return Ok(stream),
            Err(error) if until <= Instant::now() => return Err(OwnError::Runner(error)),
            Err(_) => {}
        }
        if process::ends_within(runner, REACH_AGAIN).map_err(OwnError::Runner)? {
            return Err(OwnError::Gone);
        }
    }
}

/// Slurm runs a job again for no exit status. It kills this process soon after.
fn requeue() {
    let Some(job) = std::env::var_os("SLURM_JOB_ID") else {
        return;
    };
    let mut scontrol = Command::new("scontrol");
    let asked = scontrol
        .arg("requeue")
        .arg(job)
        .stdin(Stdio::null())
        .status();
    match asked {
        Ok(status) if status.success() => {}
        Ok(status) => complain(&format!("scontrol requeue ended with {status}")),
        Err(error) => complain(&format!("scontrol requeue cannot be run: {error}")),
    }
}

/// What the runner has complained of, once each: of dumps that are of no use, or that cannot be made.
fn tell_log(log: &Path) {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let all_is_well =
        |line: &str| line.starts_with("dump ") || line.starts_with("it goes on from its dump");
    let complaints: BTreeSet<&str> = log.lines().filter(|line| !all_is_well(line)).collect();
    complaints
        .iter()
        .take(TOLD_MOST)
        .for_each(|line| complain(line));
}

fn complain(words: &str) {
    eprintln!("kumiko-run: {words}");
}

//! From an attempt to running guests: their streams, their room, their start (spec/jobs/runner.md, R8, R9).

use crate::dumps::{self, Dumps};
use crate::hosts::{self, Other};
use crate::mpi::{self, Launcher, Library, NoLauncher};
use crate::output::Source;
use kumiko_job::attempt::{AttemptReport, AttemptSpec, Dumped, NO_DUMP, NOT_DUMPED};
use kumiko_job::description::{self, Mpi, WindowSize};
use kumiko_linux::{Dir, spooling};
use kumiko_policy::choice::Profile;
use kumiko_policy::{JOB_DIRECTORY, Network, Policy};
use kumiko_sandbox::{
    Guest, Launch, Limiter, Machine, Measured, OfProgram, Program, Room, SandboxError, Streams,
    choose_by,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Most guests of one attempt: each costs this runner a descriptor, of the 1024 that it has.
const COUNT_LIMIT: u32 = 512;
/// The character that ends a terminal's input at the start of a line (VEOF, termios(3)): control-D.
const END_OF_FILE: u8 = 4;

/// Why no guest runs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("stdin file {path} cannot be opened in the job's directory: {cause}")]
    Stdin { path: String, cause: io::Error },
    #[error(
        "{count} instances of a job cannot be started on one machine: ask for 1 to {COUNT_LIMIT}"
    )]
    Count { count: u32 },
    #[error(transparent)]
    Mpi(#[from] NoLauncher),
    #[error(
        "the policy leaves the job no network, and its {hosts} hosts have no other way to each other: ask for one host"
    )]
    NoNetwork { hosts: u32 },
    #[error(
        "the policy leaves the job no network, and its ranks have no other way to those at other sites"
    )]
    NoNetworkOfSites,
    #[error("cannot find the way to {first}, the first of the job's hosts: {cause}")]
    FirstHost {
        first: std::net::IpAddr,
        cause: io::Error,
    },
    #[error("a terminal is for one instance, and {count} are asked for: leave one of both out")]
    Terminal { count: u32 },
    #[error(
        "rank {rank} could not be started when those before it ran already, which were ended: {cause}"
    )]
    Partly { rank: u32, cause: SandboxError },
    #[error("there is no program {program} in the guest's view that could be held")]
    NoProgram { program: String },
    #[error("it was to go on from a dump, and does not: {why}")]
    NoDump { why: String },
    #[error(transparent)]
    NotReleased(#[from] NotReleased),
    #[error("cannot make {what}: {cause}")]
    Kernel {
        what: &'static str,
        cause: io::Error,
    },
}

/// Why what was ready has not begun.
#[derive(Debug, thiserror::Error)]
pub enum NotReleased {
    #[error("it was cancelled before it began")]
    Cancelled,
    #[error("it was held, and no site has been connected for {0:.0?}")]
    Alone(Duration),
    #[error("cannot wait for events: {0}")]
    Poll(io::Error),
}

impl StartError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Sandbox(error) | Self::Partly { cause: error, .. } => error.code(),
            Self::Stdin { .. } => "stdin_unreadable",
            Self::Count { .. } => "count_out_of_range",
            Self::Mpi(_) => "no_mpi_launcher",
            Self::Terminal { .. } => "terminal_with_count",
            Self::NoNetwork { .. } | Self::NoNetworkOfSites => "host_count_refused",
            Self::NoProgram { .. } => "no_such_executable",
            Self::NoDump { .. } => NO_DUMP,
            Self::NotReleased(_) => "not_released",
            Self::Kernel { .. } | Self::FirstHost { .. } => "runner_kernel",
        }
    }
}

impl StartError {
    /// Whether a guest ran before it was known.
    pub fn something_ran(&self) -> bool {
        matches!(self, Self::Partly { .. })
    }
}

/// What came of a start.
pub struct Started {
    pub room: Box<dyn Room>,
    /// By rank.
    pub guests: Vec<Guest>,
    pub stdin: Option<Stdin>,
    /// Of stdout and stderr.
    pub sources: [Option<Source>; 2],
    pub report: AttemptReport,
    pub grace_ms: u64,
    pub alone_ms: Option<u64>,
    pub beat_ms: Option<u64>,
    pub time_limit_ms: Option<u64>,
    pub limiter: Limiter,
    pub began: Instant,
    /// From the attempt to its last guest's start.
    pub start_time: Duration,
    /// None: nobody will ask what it did.
    pub program: Option<Counted>,
    /// The guest is a launcher of this library.
    pub launches: Option<Library>,
    /// The guest is dumped now and then.
    pub dumps: Option<Dumps>,
    /// For people, of the start.
    pub notes: Vec<String>,
}

/// Our end of live stdin. It does not block.
#[derive(Debug)]
pub enum Stdin {
    Pipe(File),
    Terminal(Keyboard),
}

/// A terminal's master, to write to.
#[derive(Debug)]
pub struct Keyboard {
    master: File,
    line_began: bool,
    ended: bool,
}

impl Keyboard {
    fn new(master: File) -> Self {
        Self {
            master,
            line_began: false,
            ended: false,
        }
    }

    /// Ends the guest's current read with nothing, as control-D does; a line that has begun takes two.
    pub fn end_of_file(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            let twice = [END_OF_FILE; 2];
            let keys = if self.line_began {
                &twice[..]
            } else {
                &twice[..1]
            };
            let _ = self.master.write(keys); // a guest that does not read its keys does not see their end either
        }
    }
}

impl AsFd for Keyboard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

impl AsFd for Stdin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe(pipe) => pipe.as_fd(),
            Self::Terminal(keyboard) => keyboard.as_fd(),
        }
    }
}

impl Write for Stdin {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.write(bytes),
            Self::Terminal(keyboard) => {
                let count = keyboard.master.write(bytes)?;
                if let Some(last) = bytes[..count].last() {
                    keyboard.line_began = *last != b'\n' && *last != b'\r';
                }
                Ok(count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A program whose run is counted, for later choices.
#[derive(Debug)]
pub struct Counted {
    measured: Measured,
    file: PathBuf,
    arguments: Vec<String>,
    /// Known at the end.
    pub profile: Option<Profile>,
}

impl Counted {
    /// Nothing was counted: nothing is kept.
    pub fn keep(self) -> io::Result<()> {
        match &self.profile {
            Some(profile) => self
                .measured
                .keep_profile(&self.file, &self.arguments, profile),
            None => Ok(()),
        }
    }
}

/// Who listens for an attempt while it starts.
pub trait Meanwhile {
    /// Waits for the release of one that is held; the policy that it follows by then, if that is another. What it is told besides is
    /// for its guests.
    fn hold(&mut self, alone: Duration) -> Result<Option<Policy>, NotReleased>;
    /// Waits until this process has ended; false: it takes longer, or the attempt was cancelled.
    fn until_ended(&mut self, process: BorrowedFd<'_>, within: Duration) -> io::Result<bool>;
    /// Lets so much time pass, if it is not cancelled.
    fn pause(&mut self, time: Duration) -> io::Result<()>;
    /// Says in the spool's log what it waits for.
    fn tell(&self, what: &str);
    fn is_cancelled(&self) -> bool;
}

/// What holds by now is what it begins with, where no guest could follow it as well later. Was that another?
pub fn begin_by(attempt: &mut AttemptSpec, now: Option<Policy>) -> bool {
    let Some(now) = now else {
        return false;
    };
    let planned = attempt.policy.clone();
    attempt.policy = kumiko_policy::begin(planned.clone(), &now);
    attempt.policy != planned
}

/// Starts all guests of an attempt on this host, or none. `other`: it is not the first of the attempt's hosts. When one that is held is released, all is done that
/// can be done, and fail, before.
pub fn start(
    mut attempt: AttemptSpec,
    other: Option<Other>,
    measured: Option<Measured>,
    meanwhile: &mut dyn Meanwhile,
) -> Result<Started, StartError> {
    let began = Instant::now();
    let count = attempt.count;
    if !(1..=COUNT_LIMIT).contains(&count) {
        return Err(StartError::Count { count });
    }
    if attempt.terminal.is_some() && count != 1 {
        return Err(StartError::Terminal { count });
    }
    let hosts = hosts::count(&attempt);
    if hosts > 1 && attempt.policy.network() == Network::None {
        return Err(StartError::NoNetwork { hosts });
    }
    if attempt.mpi == Some(Mpi::Proxy) && attempt.policy.network() == Network::None {
        return Err(StartError::NoNetworkOfSites);
    }
    let launches = match other {
        Some(other) => {
            let first = other.first;
            hosts::at_other(&mut attempt, other)
                .map_err(|cause| StartError::FirstHost { first, cause })?;
            None
        }
        None => {
            let launcher = attempt.mpi.map(|mpi| Launcher::find(mpi, &attempt));
            let launcher = launcher.transpose()?;
            let took_over = launcher.map(|launcher| launcher.take_over(&mut attempt));
            took_over.transpose().map_err(|cause| StartError::Kernel {
                what: "the view of a launcher",
                cause,
            })?
        }
    };
    let mut machine = Machine::glance();
    loop {
        match start_on(&machine, &mut attempt, measured.as_ref(), began, meanwhile) {
            // Where the choice was ours, it is made again with what was learnt; no guest ran.
            Err((StartError::Sandbox(error), true)) if machine.learn(&error) => {}
            Ok(started) => {
                return Ok(Started {
                    launches,
                    ..started
                });
            }
            Err((error, _)) => return Err(error),
        }
    }
}

/// An error comes with: was the mechanism our choice?
fn start_on(
    machine: &Machine,
    attempt: &mut AttemptSpec,
    measured: Option<&Measured>,
    mut began: Instant,
    meanwhile: &mut dyn Meanwhile,
) -> Result<Started, (StartError, bool)> {
    // Once: whatever is tried after it was released need not wait.
    let hold_ms = attempt.hold_ms.take();
    let attempt = &*attempt;
    let wanted = attempt.mechanism.as_deref();
    let path = attempt.environment.get("PATH");
    let program = Program {
        policy: &attempt.policy,
        job_directory: &attempt.job_directory,
        program: &attempt.executable,
        arguments: &attempt.arguments,
        path: path.map(String::as_str),
    };
    let evidence = OfProgram { measured, program };
    let choose = |wanted| choose_by(&attempt.policy, wanted, machine, &evidence);
    let preferred = mpi::mechanism(attempt).filter(|name| choose(Some(name)).is_ok());
    let ours = preferred.is_some();
    let wanted = preferred.or(wanted);
    let choice = choose(wanted).map_err(|error| (error.into(), false))?;
    let ours = ours || choice.predicted.is_some();
    let failed = |error: StartError| (error, ours);
    let (mut dumps, not_dumped) = match dumps::wanted(attempt, &choice, machine, &program) {
        Some(Ok(dumps)) => (Some(dumps), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    if dumps.is_none() && is_to_go_on(attempt) {
        let why = not_dumped.unwrap_or_else(|| "its policy has nothing dumped".to_owned());
        return Err(failed(StartError::NoDump { why }));
    }
    let mut room = match dumps {
        Some(_) => Dumps::prepare(attempt),
        None => kumiko_sandbox::open(&choice).prepare(&attempt.policy, &attempt.job_directory),
    }
    .map_err(|error| failed(error.into()))?;
    if let Some(alone_ms) = hold_ms {
        if is_missing(attempt, &program) {
            let program = attempt.executable.clone();
            return Err((StartError::NoProgram { program }, false));
        }
        let ready = Instant::now();
        let now = meanwhile.hold(Duration::from_millis(alone_ms));
        let now = now.map_err(|error| (error.into(), false))?;
        began += ready.elapsed(); // being held is no part of its start
        let mut later = attempt.clone();
        if begin_by(&mut later, now) {
            return start_on(machine, &mut later, measured, began, meanwhile);
        }
    }
    let mut notes = Vec::new();
    let running = match (attempt.terminal, &mut dumps) {
        (Some(size), _) => on_terminal(&mut *room, attempt, size),
        (None, None) => on_pipes(&mut *room, attempt),
        (None, Some(dumps)) => match dumped(room, attempt, dumps, meanwhile, &mut notes) {
            Ok((taken, running)) => {
                room = taken;
                Ok(running)
            }
            Err(error) => return Err(failed(error)),
        },
    };
    let Running {
        guests,
        stdin,
        sources,
    } = running.map_err(failed)?;
    let pids: Vec<i32> = guests.iter().map(Guest::pid).collect();
    let (limits, network) = (&attempt.policy.limits, attempt.policy.network());
    let limiter = Limiter::begin(limits, network, choice.mechanism, &pids, room.inside());
    // Several guests, or ranks, are no run of one program; and only what a choice goes by is worth keeping.
    let alone = attempt.count == 1 && attempt.mpi.is_none();
    let seen = choice.mechanism != "namespace";
    let counted = measured.filter(|_| ours && seen && alone);
    let counted = counted.and_then(|measured| {
        Some(Counted {
            measured: measured.clone(),
            file: program.file()?,
            arguments: attempt.arguments.clone(),
            profile: None,
        })
    });
    let mut why = choice.why(&attempt.policy, wanted);
    why.extend(dumps.as_ref().map(Dumps::words));
    why.extend(not_dumped.map(|why| format!("{NOT_DUMPED}: {why}")));
    Ok(Started {
        dumps,
        notes,
        room,
        limiter,
        guests,
        stdin,
        sources,
        report: AttemptReport::Started {
            pid: std::process::id(),
            why,
            mechanism: choice.mechanism.to_owned(),
            not_enforced: choice.not_enforced,
        },
        grace_ms: attempt.grace_ms,
        alone_ms: attempt.alone_ms,
        beat_ms: attempt.beat_ms,
        time_limit_ms: attempt.time_limit_ms,
        began,
        start_time: began.elapsed(),
        program: counted,
        launches: None,
    })
}

/// Its execution will find nothing. Of what lies in the job's own directory, or is found by way of it, only the execution
/// can tell: links there are of the guest's view.
fn is_missing(attempt: &AttemptSpec, program: &Program<'_>) -> bool {
    let own = |path: &str| path.starts_with(JOB_DIRECTORY);
    let told = match attempt.executable.as_str() {
        absolute if absolute.starts_with('/') => !own(absolute),
        relative if relative.contains('/') => false,
        _ => !program
            .path
            .unwrap_or(kumiko_sandbox::PATH)
            .split(':')
            .any(own),
    };
    told && program.file().is_none()
}

fn environment(attempt: &AttemptSpec, rank: u32) -> Vec<(String, String)> {
    let mut own = vec![("KUMIKO_JOB", attempt.id.to_string())];
    // A launcher is no rank; its ranks know their numbers by MPI.
    if attempt.mpi.is_none() {
        own.push(("KUMIKO_RANK", rank.to_string()));
        own.push(("KUMIKO_COUNT", attempt.count.to_string()));
    }
    let theirs = attempt.environment.iter();
    theirs
        .filter(|(name, _)| own.iter().all(|(ours, _)| ours != name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .chain(
            own.iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        )
        .collect()
}

/// Guests and our ends of their streams.
struct Running {
    /// By rank.
    guests: Vec<Guest>,
    stdin: Option<Stdin>,
    sources: [Option<Source>; 2],
}

fn launch(
    room: &mut dyn Room,
    attempt: &AttemptSpec,
    rank: u32,
    streams: Streams<'_>,
) -> Result<Guest, SandboxError> {
    room.start(&Launch {
        program: &attempt.executable,
        arguments: &attempt.arguments,
        environment: &environment(attempt, rank),
        directory: attempt.directory.as_deref(),
        streams,
    })
}

/// One guest on a terminal of its room.
fn on_terminal(
    room: &mut dyn Room,
    attempt: &AttemptSpec,
    size: WindowSize,
) -> Result<Running, StartError> {
    let kernel = |cause| StartError::Kernel {
        what: "a terminal",
        cause,
    };
    let WindowSize { rows, columns } = size;
    let mut guest = launch(room, attempt, 0, Streams::Terminal { rows, columns })?;
    let Some(master) = guest.take_terminal() else {
        return Err(kernel(io::ErrorKind::NotFound.into()));
    };
    spooling::set_nonblocking(&master, true).map_err(kernel)?;
    let master = File::from(master);
    let mut keyboard = Keyboard::new(master.try_clone().map_err(kernel)?);
    if attempt.stdin != description::Stdin::Live {
        keyboard.end_of_file();
    }
    Ok(Running {
        guests: vec![guest],
        stdin: Some(Stdin::Terminal(keyboard)),
        sources: [Some(Source::Terminal(master)), None],
    })
}

fn on_pipes(room: &mut dyn Room, attempt: &AttemptSpec) -> Result<Running, StartError> {
    let kernel = |cause| StartError::Kernel {
        what: "a pipe",
        cause,
    };
    let (stdout_ours, stdout) = spooling::pipe().map_err(kernel)?;
    let (stderr_ours, stderr) = spooling::pipe().map_err(kernel)?;
    let (mut stdin, ours) = stdin_of_first(attempt)?;
    let mut guests = Vec::new();
    for rank in 0..attempt.count {
        if rank > 0 {
            stdin = stdin_of_others(attempt)?;
        }
        let streams = Streams::Given {
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
        };
        let started = launch(room, attempt, rank, streams);
        guests.push(started.map_err(|cause| match rank {
            0 => StartError::Sandbox(cause),
            // Those before it may have seen to that: they can signal what is of their room, before it executes too.
            _ => StartError::Partly { rank, cause },
        })?);
    }
    Ok(Running {
        guests,
        stdin: ours,
        sources: [
            Some(Source::Pipe(stdout_ours)),
            Some(Source::Pipe(stderr_ours)),
        ],
    })
}

/// One guest on pipes, which goes on from a dump if there is one.
fn dumped(
    room: Box<dyn Room>,
    attempt: &AttemptSpec,
    dumps: &mut Dumps,
    meanwhile: &mut dyn Meanwhile,
    notes: &mut Vec<String>,
) -> Result<(Box<dyn Room>, Running), StartError> {
    let kernel = |cause| StartError::Kernel {
        what: "a pipe",
        cause,
    };
    let (stdout_ours, stdout) = spooling::pipe().map_err(kernel)?;
    let (stderr_ours, stderr) = spooling::pipe().map_err(kernel)?;
    let (stdin, ours) = stdin_of_first(attempt)?;
    let told = ours.is_some().then_some(&stdin);
    dumps.has_pipes([&stdout, &stderr], told).map_err(kernel)?;
    let streams = [&stdout, &stderr, &stdin];
    let (mut room, resumed) = dumps.resume(room, attempt, streams, meanwhile, notes)?;
    let guest = match resumed {
        Some(guest) => guest,
        None if is_to_go_on(attempt) => {
            let why = match notes.is_empty() {
                true => "none is there".to_owned(),
                false => notes.join("; "),
            };
            return Err(StartError::NoDump { why });
        }
        None => {
            let streams = Streams::Given {
                stdin: stdin.as_fd(),
                stdout: stdout.as_fd(),
                stderr: stderr.as_fd(),
            };
            launch(&mut *room, attempt, 0, streams)?
        }
    };
    let running = Running {
        guests: vec![guest],
        stdin: ours,
        sources: [
            Some(Source::Pipe(stdout_ours)),
            Some(Source::Pipe(stderr_ours)),
        ],
    };
    Ok((room, running))
}

/// It goes on in the midst of what it was asked, or does not start.
fn is_to_go_on(attempt: &AttemptSpec) -> bool {
    let dumps = attempt.dumps.as_ref();
    dumps.is_some_and(|dumps| dumps.guest == Dumped::AskedRoutine)
}

/// With our end of it, if it is live.
fn stdin_of_first(attempt: &AttemptSpec) -> Result<(OwnedFd, Option<Stdin>), StartError> {
    if attempt.stdin != description::Stdin::Live {
        return Ok((stdin_of_others(attempt)?, None));
    }
    let kernel = |cause| StartError::Kernel {
        what: "a pipe",
        cause,
    };
    let (theirs, ours) = spooling::pipe().map_err(kernel)?;
    spooling::set_nonblocking(&ours, true).map_err(kernel)?;
    Ok((theirs, Some(Stdin::Pipe(File::from(ours)))))
}

/// The stdin file, opened anew; an empty one for everything else.
fn stdin_of_others(attempt: &AttemptSpec) -> Result<OwnedFd, StartError> {
    let opened = match &attempt.stdin {
        description::Stdin::File(path) => {
            stdin_file(attempt, path).map_err(|cause| StartError::Stdin {
                path: path.clone(),
                cause,
            })?
        }
        _ => return empty(),
    };
    Ok(opened.into())
}

/// A pipe that nobody writes to. Not /dev/null: through a descriptor of the host's, a guest of an account that is root
/// could change the mode of the host's device.
fn empty() -> Result<OwnedFd, StartError> {
    let (stdin, _) = spooling::pipe().map_err(|cause| StartError::Kernel {
        what: "an empty stdin",
        cause,
    })?;
    Ok(stdin)
}

/// A regular file beneath the job's own directory; the guest shares neither its offset nor a wait with anybody.
fn stdin_file(attempt: &AttemptSpec, path: &str) -> io::Result<File> {
    let file = Dir::open(&attempt.job_directory)?.open_file(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ));
    }
    spooling::set_nonblocking(&file, false)?;
    Ok(file)
}

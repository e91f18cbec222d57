//! `kumiko sandbox run`: a command under a policy, without any site, in the place of this process at a prompt.
//! To be called with one thread: signals are held for the guest, and namespaces are made.

use crate::wishes::Listening;
use kumiko_linux::terminal;
use kumiko_policy::{
    Layer, Limited, Limits, MechanismKind, NestError, Origin, Policy, PolicyError,
};
use kumiko_sandbox::{
    Choice, Cost, Ended, Launch, Machine, Measured, OfProgram, Program, SandboxError, Streams,
    Wishes, choose_by,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub said: Said,
    pub mechanism: Option<String>,
    /// None: a throw-away one.
    pub directory: Option<PathBuf>,
    /// NAME=VALUE, or NAME for the value it has here.
    pub environment: Vec<String>,
    /// The program first; not empty.
    pub command: Vec<String>,
}

/// What the command line says of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// In the place of a site's policy.
    pub site_policy: Option<PathBuf>,
    /// Below it, the highest first.
    pub policies: Vec<PathBuf>,
    /// The lowest layer of all.
    pub limits: Vec<(Limited, u64)>,
}

/// Why the command did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("reading the policy {}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Wider(#[from] NestError),
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("making {}: {cause}", path.display())]
    Directory { path: PathBuf, cause: io::Error },
    #[error("no command")]
    NoCommand,
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// What is wrong with an `--env`.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    #[error("--env \"{item}\" has no name before the =")]
    NoName { item: String },
    #[error("--env {name}: its value here is not UTF-8")]
    NotText { name: String },
    #[error("--env {name}: not set here; write {name}=VALUE")]
    NotSet { name: String },
}

impl RunError {
    /// As env, timeout and docker have it: 125 for our own failure, 126 and 127 as in a shell; 2 for misuse.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Environment(_) | Self::NoCommand => 2,
            Self::Sandbox(error) => error.exit_status() as u8,
            Self::Unreadable { .. } | Self::Policy(_) | Self::Wider(_) | Self::Directory { .. } => {
                125
            }
        }
    }
}

/// The policies of the command line by their layers; `vo` comes between the site's and the others.
pub fn effective(said: &Said, vo: Option<&Policy>) -> Result<Policy, RunError> {
    let site = said.site_policy.as_deref().map(read).transpose()?;
    let policies = said.policies.iter().map(|path| read(path));
    let mut below = policies.collect::<Result<Vec<Policy>, RunError>>()?;
    if !said.limits.is_empty() {
        below.push(limits_only(&said.limits));
    }
    let site = site.iter().map(|policy| (Layer::Site, policy));
    let vo = vo.into_iter().map(|policy| (Layer::Vo, policy));
    let below = below.iter().map(|policy| (Layer::Job, policy));
    Ok(kumiko_policy::nest(site.chain(vo).chain(below))?)
}

fn read(path: &Path) -> Result<Policy, RunError> {
    let text = std::fs::read_to_string(path).map_err(|cause| RunError::Unreadable {
        path: path.to_owned(),
        cause,
    })?;
    Ok(kumiko_policy::parse(&text, &path.display().to_string())?)
}

/// Of a limit that is typed twice the lower holds, as it does between layers.
fn limits_only(typed: &[(Limited, u64)]) -> Policy {
    let source = "command line".to_owned();
    let mut policy = Policy {
        layers: vec![source.clone()],
        ..Policy::empty()
    };
    for (limited, amount) in typed {
        let before = policy.limits.get(*limited).unwrap_or(u64::MAX);
        policy.limits.set(*limited, Some(before.min(*amount)));
        let origin = Origin {
            source: source.clone(),
            line: 0,
        };
        policy.origins.insert(limited.full_key(), origin);
    }
    policy
}

/// `--env` as it is given: NAME=VALUE, or NAME for the value it has here.
pub fn environment(given: &[String]) -> Result<BTreeMap<String, String>, EnvironmentError> {
    let pair = |item: &String| match item.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) => Err(EnvironmentError::NoName { item: item.clone() }),
        None => match std::env::var_os(item).map(OsString::into_string) {
            Some(Ok(value)) => Ok((item.clone(), value)),
            Some(Err(_)) => Err(EnvironmentError::NotText { name: item.clone() }),
            None => Err(EnvironmentError::NotSet { name: item.clone() }),
        },
    };
    given.iter().map(pair).collect()
}

/// Where measurements are kept: in the state directory of the account's site (spec/policy, P83). `home`: what the command
/// line says; None: as the environment says. None: nobody says.
pub fn measured(home: Option<&Path>) -> Option<Measured> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let root = home
        .map(Path::to_path_buf)
        .or_else(|| from("KUMIKO_HOME").map(PathBuf::from))
        .or_else(|| from("XDG_DATA_HOME").map(|data| PathBuf::from(data).join("kumiko")))
        .or_else(|| from("HOME").map(|home| PathBuf::from(home).join(".local/share/kumiko")))?;
    let state = match root == Path::new("/etc/kumiko") {
        true => PathBuf::from("/var/lib/kumiko"),
        false => root.join("state"),
    };
    Some(Measured::at(state.join("sandbox")))
}

/// How a command came to its end, and what its mechanism did.
#[derive(Debug)]
pub struct Ran {
    /// Its exit status; 128 and the signal if it was killed.
    pub status: u8,
    /// Where its streams were given: whoever gives them looks at it.
    pub cost: Cost,
    /// From before the start.
    pub wall: Duration,
}

/// Runs it to its end; returns its exit status, 128 and the signal if it was killed.
pub fn run(run: &Run) -> Result<u8, RunError> {
    let policy = effective(&run.said, None)?;
    let measured = measured(None);
    let path = run
        .environment
        .iter()
        .find_map(|item| item.strip_prefix("PATH="));
    let (program, arguments) = run.command.split_first().ok_or(RunError::NoCommand)?;
    let evidence = OfProgram {
        measured: measured.as_ref(),
        program: Program {
            policy: &policy,
            job_directory: run.directory.as_deref().unwrap_or(Path::new("")),
            program,
            arguments,
            path,
        },
    };
    let mut machine = Machine::glance();
    loop {
        let choice = choose_by(&policy, run.mechanism.as_deref(), &machine, &evidence)?;
        for what in &choice.not_enforced {
            eprintln!("kumiko: not enforced here: {what}");
        }
        match run_under(run, &policy, &choice, None) {
            // Where the choice was ours, it is made again with what was learnt.
            Err(RunError::Sandbox(error))
                if choice.predicted.is_some() && machine.learn(&error) => {}
            ended => return ended.map(|ran| ran.status),
        }
    }
}

/// Runs it under a mechanism that was chosen. `streams`: stdin, stdout and stderr of the guest; None: our own.
pub fn run_under(
    run: &Run,
    policy: &Policy,
    choice: &Choice,
    given: Option<[BorrowedFd<'_>; 3]>,
) -> Result<Ran, RunError> {
    let begun = Instant::now();
    let mut environment = environment(&run.environment)?;
    let throwaway = match &run.directory {
        Some(_) => None,
        None => Some(Throwaway::new()?),
    };
    let own = run.directory.as_deref();
    let directory = own.or(throwaway.as_ref().map(|place| place.0.as_path()));
    let (program, arguments) = run.command.split_first().ok_or(RunError::NoCommand)?;
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    // With all three on a terminal the guest gets one of its own, with job control; ours stays out of its reach.
    let ours =
        given.is_none() && stdin.is_terminal() && stdout.is_terminal() && stderr.is_terminal();
    let size = ours.then(|| terminal::size(&stdin).ok());
    let [input, output, errors] = given.unwrap_or([stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]);
    let streams = match size.flatten() {
        Some((rows, columns)) => Streams::Terminal { rows, columns },
        None => Streams::Given {
            stdin: input,
            stdout: output,
            stderr: errors,
        },
    };
    if let (Streams::Terminal { .. }, Ok(term)) = (streams, std::env::var("TERM")) {
        environment.entry("TERM".to_owned()).or_insert(term);
    }
    let environment: Vec<(String, String)> = environment.into_iter().collect();
    let mut room =
        kumiko_sandbox::open(choice).prepare(policy, directory.unwrap_or(Path::new("")))?;
    let launch = Launch {
        program,
        arguments,
        environment: &environment,
        directory: None,
        streams,
    };
    let said = &run.said;
    let changeable = policy.limits != Limits::default()
        || said.site_policy.is_some()
        || !said.policies.is_empty();
    let mut wishes = changeable
        .then(|| listening(said, policy, choice))
        .flatten();
    let ending = kumiko_sandbox::attend(
        &mut *room,
        &launch,
        policy,
        choice.mechanism,
        wishes.as_mut().map(|wishes| wishes as &mut dyn Wishes),
    )?;
    let wall = begun.elapsed();
    let cost = given.map(|_| room.cost()).unwrap_or_default();
    if throwaway.is_none() && given.is_none() {
        // This process ends now, and then the kernel kills what the guest left (duty 7 of a mechanism): no need to wait
        // for what only we would see.
        std::mem::forget(room);
    }
    if let Some(exceeded) = ending.exceeded {
        eprintln!("kumiko: ended for being over its {exceeded}");
    }
    let status = match ending.ended {
        Ended::Exited(status) => (status & 0xff) as u8,
        Ended::Signalled(signal) => (128 + (signal & 0x7f)) as u8,
    };
    Ok(Ran { status, cost, wall })
}

/// Whoever cannot be heard is told; limits and policy hold all the same.
fn listening(said: &Said, policy: &Policy, choice: &Choice) -> Option<Listening> {
    let bound = said.site_policy.as_deref().map(read);
    let bound = bound.and_then(Result::ok).unwrap_or_else(Policy::empty);
    let mechanism = MechanismKind::from_name(choice.mechanism).unwrap_or(policy.mechanism);
    let listening = Listening::begin(bound.limits, policy.clone(), mechanism);
    if let Err(cause) = &listening {
        eprintln!("kumiko: its limits and policy cannot be changed while it runs: {cause}");
    }
    listening.ok()
}

/// A folder for a guest, removed with it.
#[derive(Debug)]
pub struct Throwaway(PathBuf);

impl Throwaway {
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn new() -> Result<Throwaway, RunError> {
        // A clock before 1970 makes a name as good.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let name = format!(
            "kumiko-{}-{}",
            std::process::id(),
            now.unwrap_or_default().as_nanos()
        );
        let path = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Throwaway(path)),
            Err(cause) => Err(RunError::Directory { path, cause }),
        }
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

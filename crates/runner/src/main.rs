//! `kumiko-run [--spare] SPOOL`: the program beside the guests of one attempt (spec/jobs/runner.md).
//! `kumiko-run --host-by NUMBER FIRST SPOOL`: the same on another host than the first of the attempt's (spec/jobs/mpi.md, N21).
//! As a guest there it has other names (N22, N23).
//! `kumiko-run --self-checkpointing FOLDER ... -- PROGRAM`: the program of a batch job that somebody hands to an engine himself (R40).
//! `kumiko-run --pilot PLACE`: what starts such programs in a slot of an engine (spec/jobs/pilots.md).
//!
//! It starts them in their sandbox, owns their streams, keeps what they write and how they ended in the spool, and
//! tells the site that is connected. One thread (and one to write a dump), one poll, no runtime: it has to cost little and outlive its site.
//! Not here: who starts it (kumiko-batch), the walls (kumiko-sandbox), the frames (kumiko-wire).

mod alone;
mod control;
mod dumps;
mod feed;
mod hosts;
mod input;
mod life;
mod mpi;
mod news;
mod output;
mod own;
mod pilot;
mod spare;
mod spool;
mod start;
mod verdict;

use control::Control;
use hosts::Other;
use kumiko_linux::{detach, spooling};
use life::Life;
use output::Output;
use own::Asked;
use spare::Spare;
use spool::{Spool, SpoolError};
use start::{NotReleased, StartError};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const MISUSE: u8 = 2;
const TAKEN: u8 = 3;
const UNUSABLE: u8 = 4;

/// What ends a runner before its time.
#[derive(Debug, thiserror::Error)]
enum RunnerError {
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("cannot set the runner apart from its parent: {0}")]
    Detach(io::Error),
    #[error("cannot wait for events: {0}")]
    Poll(io::Error),
}

impl RunnerError {
    fn status(&self) -> u8 {
        match self {
            RunnerError::Spool(SpoolError::Taken) => TAKEN,
            _ => UNUSABLE,
        }
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    let arguments: Vec<_> = arguments.collect();
    if let Some(status) = hosts::as_guest(name, &arguments) {
        return ExitCode::from(status);
    }
    if let Some((_, rest)) = arguments
        .split_first()
        .filter(|(first, _)| *first == "--self-checkpointing")
    {
        return ExitCode::from(self_checkpointing(rest));
    }
    let ran = match &arguments[..] {
        [option, _] if option == "--spare" => spare(),
        [option, place] if option == "--pilot" => absolute(place).and_then(|place| pilot(&place)),
        [spool] => absolute(spool).and_then(|spool| run(&spool, None)),
        [option, number, first, spool] if option == "--host-by" => {
            let Some(other) = other(number, first) else {
                eprintln!(
                    "kumiko-run: --host-by is followed by the names of two variables: of a number from 0, and of the first host's address"
                );
                return ExitCode::from(MISUSE);
            };
            let own = |spool: PathBuf| spool.join(format!("host-{}", other.number));
            absolute(spool).and_then(|spool| run(&own(spool), Some(other)))
        }
        _ => {
            eprintln!(
                "usage: {}\n       kumiko-run [--spare] SPOOL, kumiko-run --pilot PLACE, kumiko-run --host-by NUMBER FIRST SPOOL   (a site starts these; a spool holds one attempt)",
                own::USAGE
            );
            return ExitCode::from(MISUSE);
        }
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kumiko-run: {error}");
            ExitCode::from(error.status())
        }
    }
}

fn absolute(path: &OsStr) -> Result<PathBuf, RunnerError> {
    std::path::absolute(path).map_err(RunnerError::Detach)
}

/// By what an engine says to each process of a step, in variables of these names.
fn other(number: &OsStr, first: &OsStr) -> Option<Other> {
    let number: u32 = std::env::var(number).ok()?.parse().ok()?;
    let first = std::env::var(first).ok()?.parse().ok()?;
    Some(Other {
        number: number.checked_add(1)?,
        first,
    })
}

fn run(path: &Path, other: Option<Other>) -> Result<(), RunnerError> {
    detach::detach().map_err(RunnerError::Detach)?;
    let given = detach::take_stdin().map_err(RunnerError::Detach)?;
    let (spool, files) = Spool::take(path)?;
    let listener = match spooling::is_listening(&given) {
        true => UnixListener::from(given),
        false => spool.listen()?,
    };
    live(spool, files, listener, other)
}

/// Makes all ready for an attempt that is still to come, and waits for it.
fn spare() -> Result<(), RunnerError> {
    detach::detach().map_err(RunnerError::Detach)?;
    let given = detach::take_stdin().map_err(RunnerError::Detach)?;
    let [leash, directory] = detach::take_stdout_and_stderr().map_err(RunnerError::Detach)?;
    let spare = Spare::take(directory, leash.into())?;
    match spare.called() {
        Some((spool, files)) => live(spool, files, given.into(), None),
        None => Ok(()),
    }
}

fn self_checkpointing(arguments: &[OsString]) -> u8 {
    let asked = match Asked::read(arguments, std::env::vars_os()) {
        Ok(asked) => asked,
        Err(words) => {
            eprintln!("kumiko-run: {words}\nusage: {}", own::USAGE);
            return MISUSE;
        }
    };
    let runner = |spool: &Path| run(spool, None).map_or_else(|error| error.status(), |()| 0);
    own::run(&asked, runner).unwrap_or_else(|error| {
        eprintln!("kumiko-run: {error}");
        own::FAILED
    })
}

/// Holds a slot, and starts runners in it: copies of this process, so that none of them has to be loaded again.
fn pilot(place: &Path) -> Result<(), RunnerError> {
    detach::detach().map_err(RunnerError::Detach)?;
    pilot::Pilot::take(place)?
        .fly(|spool| run(spool, None).map_or_else(|error| error.status(), |()| 0))
        .map_err(RunnerError::Poll)
}

/// From the attempt to its end.
fn live(
    spool: Spool,
    files: [File; 2],
    listener: UnixListener,
    other: Option<Other>,
) -> Result<(), RunnerError> {
    let (attempt, measured) = (spool.attempt(), spool.measured());
    let now = spool.policy().ok().flatten();
    let (mode, quota) = match &attempt {
        Ok(attempt) => (attempt.output, attempt.output_quota_bytes),
        Err(_) => Default::default(),
    };
    let [stdout, stderr] = files;
    let outputs = life::outputs(stdout, stderr, |stream, token, file| {
        Output::new(stream, token, file, mode, quota)
    });
    let control = Control::new(listener, life::token::SITE).map_err(RunnerError::Poll)?;
    let mut life = Life::new(spool, control, outputs).map_err(RunnerError::Poll)?;
    match attempt {
        Err(error) => life.never_started(error.code(), error.to_string()),
        Ok(mut attempt) => {
            start::begin_by(&mut attempt, now);
            let started = start::start(attempt, other, measured, &mut life);
            match started {
                Err(StartError::NotReleased(NotReleased::Cancelled)) => life.cancelled(),
                Err(StartError::NotReleased(NotReleased::Poll(error))) => {
                    return Err(RunnerError::Poll(error));
                }
                Err(error) if error.something_ran() => life.lost(error.to_string()),
                Err(error) => life.never_started(error.code(), error.to_string()),
                Ok(started) => life.started(started).map_err(RunnerError::Poll)?,
            }
        }
    }
    life.run().map_err(RunnerError::Poll)
}

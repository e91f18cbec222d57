//! A spool from the site's side: made with a runner in it, read once the runner is gone (spec/jobs/runner.md, R1 to R6).
//! All of this blocks, briefly.

use super::blank::{Blank, Leash};
use kumiko_job::attempt::{AttemptReport, AttemptSpec, Outcome, OutputStream};
use kumiko_job::contract::BatchError;
use kumiko_job::id::AttemptId;
use kumiko_linux::{Dir, spooling, unix_socket};
use kumiko_wire::spool::{STATUS_LIMIT_BYTES, decode_status, encode_attempt, encode_status};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What came of preparing a spool.
pub enum Prepared {
    /// A runner was started; the connection waits to be accepted by it.
    Started(UnixStream, Runner),
    /// The spool was there: this attempt was started before, by this site or the one before it.
    Before,
}

/// A runner that this site started.
#[derive(Debug)]
pub struct Runner {
    pub child: Child,
    /// None: it was started for this very attempt.
    pub leash: Option<Leash>,
}

/// Makes the spool and starts its runner. After an error nothing of the attempt is left.
///
/// Nothing is synced: a host that goes down takes the attempt with it, so its spool need not outlast that.
pub fn prepare(
    root: &Path,
    runner: &Path,
    spec: &AttemptSpec,
    ahead: Option<Blank>,
) -> Result<Prepared, BatchError> {
    let spool = root.join(spec.id.to_string());
    if let Some(started) = ahead.and_then(|blank| blank.become_spool(&spool, spec)) {
        return Ok(started);
    }
    // No blank, or not one to be used, or the spool was there before: what follows tells that apart.
    match private_dir(root, &spool) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Prepared::Before),
        Err(error) => return Err(failed(&spool, &error)),
        Ok(()) => (),
    }
    let started = furnish(&spool)
        .and_then(|()| fill(&spool, spec))
        .map_err(|error| failed(&spool, &error))
        .and_then(|()| employ(&spool, runner))
        .map(|(stream, runner)| Prepared::Started(stream, runner));
    if started.is_err() {
        let _ = fs::remove_dir_all(&spool); // the error at hand is the one to tell
    }
    started
}

/// Starts the runner of a spool that is ready.
fn employ(spool: &Path, runner: &Path) -> Result<(UnixStream, Runner), BatchError> {
    let (listener, stream) = meet(spool).map_err(|error| failed(spool, &error))?;
    let mut runner = Command::new(runner);
    runner.arg(spool);
    runner.stdout(Stdio::null()).stderr(Stdio::null());
    let child = spawn(&mut runner, listener.into())?;
    Ok((stream, Runner { child, leash: None }))
}

/// Starts an attempt anew whose spare died before it heard its call (R15). The files go first that say that it began: if
/// this is as far as it comes, it is fenced.
pub fn anew(spool: &Path, runner: &Path) -> Result<(UnixStream, Runner), BatchError> {
    for name in ["stdout", "stderr", "control"] {
        match fs::remove_file(spool.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(spool, &error));
            }
            _ => (),
        }
    }
    employ(spool, runner)
}

/// Makes `path` in the spools' root, and the root if it is missing; `AlreadyExists` if `path` is there.
pub(super) fn private_dir(root: &Path, path: &Path) -> io::Result<()> {
    let mut private = DirBuilder::new();
    private.mode(0o700);
    match private.create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => private
            .recursive(true)
            .create(root)
            .and_then(|()| private.recursive(false).create(path)),
        made => made,
    }
}

fn failed(spool: &Path, cause: &io::Error) -> BatchError {
    BatchError::Spool {
        path: spool.display().to_string(),
        cause: cause.to_string(),
    }
}

/// What each spool holds before its runner is started. `attempt.json` is still empty.
pub(super) fn furnish(spool: &Path) -> io::Result<()> {
    let mut private = OpenOptions::new();
    private.create_new(true).write(true).mode(0o600);
    private.open(spool.join("attempt.json"))?;
    private.open(spool.join("status.new"))?;
    Ok(())
}

/// Makes the socket of a spool, and a connection that waits to be accepted.
pub(super) fn meet(spool: &Path) -> io::Result<(UnixListener, UnixStream)> {
    let control = spool.join("control");
    let listener = unix_socket::listen(&control)?;
    fs::set_permissions(&control, Permissions::from_mode(0o600))?;
    Ok((listener, connect(spool)?))
}

/// Writes the attempt down.
pub(super) fn fill(spool: &Path, spec: &AttemptSpec) -> io::Result<()> {
    let attempt = encode_attempt(spec).map_err(io::Error::other)?;
    fs::write(spool.join("attempt.json"), attempt)
}

/// Connects to the runner of a spool. `ConnectionRefused` and `NotFound`: there is none, and will be none (R6).
pub fn connect(spool: &Path) -> io::Result<UnixStream> {
    let stream = unix_socket::connect(&spool.join("control"))?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Starts a runner. It makes its own session and closes what it need not have, so that this is a plain posix_spawn(3),
/// whose cost does not grow with the memory of the site.
pub(super) fn spawn(runner: &mut Command, listener: OwnedFd) -> Result<Child, BatchError> {
    runner.env_clear().stdin(listener);
    runner.spawn().map_err(|cause| BatchError::NoRunner {
        program: Path::new(runner.get_program()).display().to_string(),
        cause: cause.to_string(),
    })
}

/// What is to be reported of an attempt whose runner is gone: the lengths of its output, and its end.
pub fn remains(spool: &Path) -> Vec<AttemptReport> {
    let outcome = match status(spool) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fence(spool) {
            Ok(fenced) => fenced,
            Err(error) => Outcome::Lost {
                message: format!("whether the attempt began cannot be known: {error}"),
            },
        },
        Err(error) => Outcome::Lost {
            message: format!("the status of the runner cannot be read: {error}"),
        },
        Ok(outcome) => outcome,
    };
    let length = |name| fs::metadata(spool.join(name)).map_or(0, |file| file.len());
    let output = |stream, length| AttemptReport::Output { stream, length };
    vec![
        output(OutputStream::Stdout, length("stdout")),
        output(OutputStream::Stderr, length("stderr")),
        AttemptReport::Ended(outcome),
    ]
}

fn status(spool: &Path) -> io::Result<Outcome> {
    let mut text = Vec::new();
    let file = File::open(spool.join("status"))?;
    file.take(STATUS_LIMIT_BYTES as u64 + 1)
        .read_to_end(&mut text)?;
    decode_status(&text).map_err(io::Error::other)
}

/// Settles an attempt whose runner left no word. If it never began it is kept from beginning later (R5): under the lock
/// that a runner needs, the status comes into being that a runner respects.
fn fence(spool: &Path) -> io::Result<Outcome> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(spool)?;
    let mut private = OpenOptions::new();
    private.create(true).truncate(false).write(true).mode(0o600);
    let file = private.open(spool.join("status.new"))?;
    if !spooling::try_lock(&file)? {
        return Err(io::Error::other(
            "a runner that cannot be reached has its lock",
        ));
    }
    if spool.join("stdout").try_exists()? {
        return Ok(Outcome::Lost {
            message: "the runner ended without a word: it was killed, or the host went down"
                .to_owned(),
        });
    }
    let fenced = Outcome::not_begun(
        "the attempt never began: the site or the host went down before".to_owned(),
    );
    file.set_len(0)?;
    (&file).write_all(&encode_status(&fenced).map_err(io::Error::other)?)?;
    file.sync_all()?;
    fs::rename(spool.join("status.new"), spool.join("status"))?;
    Ok(fenced)
}

/// Removes a spool; none is there: fine.
pub fn remove(root: &Path, id: AttemptId) -> io::Result<()> {
    match Dir::open(root) {
        Ok(root) => root.remove_all(id.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

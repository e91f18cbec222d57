//! A spool from the site's side: made, and read once its runner is gone (spec/jobs/runner.md, R1 to R6). Of all batch
//! systems. Not here: how a runner comes to be in it. All of this blocks, briefly.

use crate::engine::order::hosts;
use kumiko_job::attempt::{AttemptReport, AttemptSpec, Outcome, OutputStream};
use kumiko_job::contract::BatchError;
use kumiko_job::id::AttemptId;
use kumiko_linux::{Dir, spooling, unix_socket};
use kumiko_wire::spool::{
    ATTEMPT_LIMIT_BYTES, STATUS_LIMIT_BYTES, decode_attempt, decode_status, encode_attempt,
    encode_status,
};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Makes the spool of an attempt, ready for a runner; false: it was there. After an error nothing of it is left.
///
/// Nothing is synced: a host that goes down takes the attempt with it, so its spool need not outlast that.
pub fn make(root: &Path, spec: &AttemptSpec) -> Result<bool, BatchError> {
    let spool = root.join(spec.id.to_string());
    match private_dir(root, &spool) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(&spool, &error)),
        Ok(()) => (),
    }
    furnish(&spool)
        .and_then(|()| fill(&spool, spec))
        .and_then(|()| (1..hosts(spec)).try_for_each(|number| of_host(&spool, number, spec)))
        .map(|()| true)
        .map_err(|error| {
            let _ = fs::remove_dir_all(&spool); // the error at hand is the one to tell
            failed(&spool, &error)
        })
}

/// The spool of another host of the attempt, in that of the first.
fn of_host(spool: &Path, number: u32, spec: &AttemptSpec) -> io::Result<()> {
    let own = spool.join(format!("host-{number}"));
    private_dir(spool, &own)?;
    furnish(&own).and_then(|()| fill(&own, spec))
}

/// Makes `path` in the spools' root, and the root if it is missing; `AlreadyExists` if `path` is there.
pub fn private_dir(root: &Path, path: &Path) -> io::Result<()> {
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

pub fn failed(spool: &Path, cause: &io::Error) -> BatchError {
    BatchError::Spool {
        path: spool.display().to_string(),
        cause: cause.to_string(),
    }
}

/// What each spool holds before its runner is started. `attempt.json` is still empty.
pub fn furnish(spool: &Path) -> io::Result<()> {
    let mut private = OpenOptions::new();
    private.create_new(true).write(true).mode(0o600);
    private.open(spool.join("attempt.json"))?;
    private.open(spool.join("status.new"))?;
    Ok(())
}

/// Writes the attempt down.
pub fn fill(spool: &Path, spec: &AttemptSpec) -> io::Result<()> {
    let attempt = encode_attempt(spec).map_err(io::Error::other)?;
    fs::write(spool.join("attempt.json"), attempt)
}

/// The attempt as it was written down.
pub fn attempt(spool: &Path) -> io::Result<AttemptSpec> {
    let mut text = Vec::new();
    let file = File::open(spool.join("attempt.json"))?;
    file.take(ATTEMPT_LIMIT_BYTES as u64 + 1)
        .read_to_end(&mut text)?;
    decode_attempt(&text).map_err(io::Error::other)
}

/// Connects to the runner of a spool. `ConnectionRefused` and `NotFound`: there is none, and will be none (R6).
pub fn connect(spool: &Path) -> io::Result<UnixStream> {
    let stream = unix_socket::connect(&spool.join("control"))?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// What a spool says of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The runner's last word; or it was fenced before.
    Told(Outcome),
    /// It had not begun, and is fenced now.
    NotBegun,
    /// It began, and its runner is gone without a word.
    Silent,
    /// A runner has the lock.
    Alive,
}

/// What is to be reported of an attempt whose runner is gone: the lengths of its output, and its end.
pub fn remains(spool: &Path) -> Vec<AttemptReport> {
    let lost = |message: String| Outcome::Lost { message };
    let outcome = match settle(spool) {
        Ok(Left::Told(outcome)) => outcome,
        Ok(Left::NotBegun) => not_begun(),
        Ok(Left::Silent) => lost(
            "the runner ended without a word: it was killed, or the host went down".to_owned(),
        ),
        Ok(Left::Alive) => lost(
            "whether the attempt began cannot be known: a runner that cannot be reached has its lock"
                .to_owned(),
        ),
        Err(error) => lost(format!("what became of the attempt cannot be read: {error}")),
    };
    told(spool, outcome)
}

/// The last reports of an attempt.
pub fn told(spool: &Path, outcome: Outcome) -> Vec<AttemptReport> {
    let length = |name| fs::metadata(spool.join(name)).map_or(0, |file| file.len());
    let output = |stream, length| AttemptReport::Output { stream, length };
    vec![
        output(OutputStream::Stdout, length("stdout")),
        output(OutputStream::Stderr, length("stderr")),
        AttemptReport::Ended(outcome),
    ]
}

fn not_begun() -> Outcome {
    Outcome::not_begun("the attempt never began: the site or the host went down before".to_owned())
}

/// What became of an attempt. One that has not begun cannot begin afterwards.
pub fn settle(spool: &Path) -> io::Result<Left> {
    match status(spool) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fence(spool),
        told => told.map(Left::Told),
    }
}

pub fn status(spool: &Path) -> io::Result<Outcome> {
    let mut text = Vec::new();
    let file = File::open(spool.join("status"))?;
    file.take(STATUS_LIMIT_BYTES as u64 + 1)
        .read_to_end(&mut text)?;
    decode_status(&text).map_err(io::Error::other)
}

/// Settles an attempt whose runner left no word. If it never began it is kept from beginning later (R5): under the lock
/// that a runner needs, the status comes into being that a runner respects.
fn fence(spool: &Path) -> io::Result<Left> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(spool)?;
    let mut private = OpenOptions::new();
    private.create(true).truncate(false).write(true).mode(0o600);
    let file = private.open(spool.join("status.new"))?;
    if !spooling::try_lock(&file)? {
        return Ok(Left::Alive);
    }
    if spool.join("stdout").try_exists()? {
        // Under the lock: a runner that ended just now has left its word.
        return match status(spool) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Left::Silent),
            told => told.map(Left::Told),
        };
    }
    file.set_len(0)?;
    (&file).write_all(&encode_status(&not_begun()).map_err(io::Error::other)?)?;
    file.sync_all()?;
    fs::rename(spool.join("status.new"), spool.join("status"))?;
    Ok(Left::NotBegun)
}

/// What the ferry of a place complained of last.
pub fn complaint(place: &Path) -> Option<String> {
    let mut text = Vec::new();
    let file = File::open(place.join("ferry.log")).ok()?;
    file.take(STATUS_LIMIT_BYTES as u64)
        .read_to_end(&mut text)
        .ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().last().map(str::to_owned)
}

/// Removes a spool; none is there: fine.
pub fn remove(root: &Path, id: AttemptId) -> io::Result<()> {
    match Dir::open(root) {
        Ok(root) => root.remove_all(id.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

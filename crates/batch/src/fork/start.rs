//! How `fork` gets a runner into a spool. Not here: what any batch system does with a spool. All of this blocks, briefly.

use super::blank::{Blank, Leash};
use crate::spool::{self, connect, failed};
use kumiko_job::attempt::AttemptSpec;
use kumiko_job::contract::BatchError;
use kumiko_linux::unix_socket;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
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
    if !spool::make(root, spec)? {
        return Ok(Prepared::Before);
    }
    let started = employ(&spool, runner).map(|(stream, runner)| Prepared::Started(stream, runner));
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

/// Makes the socket of a spool, and a connection that waits to be accepted.
pub(super) fn meet(spool: &Path) -> io::Result<(UnixListener, UnixStream)> {
    let control = spool.join("control");
    let listener = unix_socket::listen(&control)?;
    fs::set_permissions(&control, Permissions::from_mode(0o600))?;
    Ok((listener, connect(spool)?))
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

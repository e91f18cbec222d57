//! The spool directory as its runner sees it (spec/jobs/runner.md, R1 to R6).

use kumiko_job::attempt::{AttemptSpec, Outcome, OutputStream};
use kumiko_linux::{spooling, unix_socket};
use kumiko_policy::Policy;
use kumiko_sandbox::Measured;
use kumiko_wire::spool::{
    ATTEMPT_LIMIT_BYTES, SpoolFileError, decode_attempt, decode_policy, encode_status,
};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Room kept for `status`: one block of any common filesystem, and more than the longest outcome.
const STATUS_BYTES: u64 = 4096;

/// Why a spool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("another runner has this attempt, or had it: nothing runs twice")]
    Taken,
    #[error("{tried} {}: {cause}", path.display())]
    Failed {
        tried: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
}

/// Why an attempt, or its policy, cannot be read; whoever wrote it is at fault.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    #[error("cannot read what the site wrote: {0}")]
    Unreadable(io::Error),
    #[error(transparent)]
    Refused(#[from] SpoolFileError),
}

impl AttemptError {
    /// The row of spec/errors.toml.
    pub fn code(&self) -> &'static str {
        "bad_attempt"
    }
}

/// A spool that is this process's, until it ends.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    /// Locked, and opened before there is a guest, so that the end can be told whatever happens to the directory.
    status: File,
}

impl Spool {
    /// Takes the spool over and makes its output files: stdout, then stderr.
    pub fn take(path: &Path) -> Result<(Self, [File; 2]), SpoolError> {
        let status = open(path, "status.new", OpenOptions::new().create(true))?;
        let failed = |tried, cause| SpoolError::Failed {
            tried,
            path: path.to_owned(),
            cause,
        };
        if !spooling::try_lock(&status).map_err(|e| failed("cannot lock", e))? {
            return Err(SpoolError::Taken);
        }
        let fenced = path.join("status").try_exists();
        if fenced.map_err(|e| failed("cannot look into", e))? {
            return Err(SpoolError::Taken);
        }
        let output = |stream| match open(path, name(stream), OpenOptions::new().create_new(true)) {
            Err(SpoolError::Failed { cause, .. })
                if cause.kind() == io::ErrorKind::AlreadyExists =>
            {
                Err(SpoolError::Taken)
            }
            made => made,
        };
        let files = [output(OutputStream::Stdout)?, output(OutputStream::Stderr)?];
        spooling::reserve(&status, STATUS_BYTES)
            .map_err(|e| failed("cannot keep room for the status in", e))?;
        let spool = Self {
            path: path.to_owned(),
            status,
        };
        Ok((spool, files))
    }

    /// The directory has this name now.
    pub fn moved(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// What was measured of this host and of programs is in the state directory of the site, beside all its spools
    /// (spec/policy, P83).
    pub fn measured(&self) -> Option<Measured> {
        let spools = self.path.parent().filter(|all| all.ends_with("spool"))?;
        let state = spools.parent()?;
        Some(Measured::at(state.join("sandbox")))
    }

    /// What this runner is to do.
    pub fn attempt(&self) -> Result<AttemptSpec, AttemptError> {
        let file = File::open(self.path.join("attempt.json")).map_err(AttemptError::Unreadable)?;
        let size = file.metadata().map_or(0, |file| file.len() as usize);
        let mut text = Vec::with_capacity(size.min(ATTEMPT_LIMIT_BYTES) + 1);
        file.take(ATTEMPT_LIMIT_BYTES as u64 + 1)
            .read_to_end(&mut text)
            .map_err(AttemptError::Unreadable)?;
        Ok(decode_attempt(&text)?)
    }

    /// The policy that it follows by now (R2). None: that of its attempt.
    pub fn policy(&self) -> Result<Option<Policy>, AttemptError> {
        let file = match File::open(self.path.join("policy.json")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(AttemptError::Unreadable)?,
        };
        let mut text = Vec::new();
        file.take(ATTEMPT_LIMIT_BYTES as u64 + 1)
            .read_to_end(&mut text)
            .map_err(AttemptError::Unreadable)?;
        Ok(Some(decode_policy(&text)?))
    }

    /// Makes `control`, for a runner that was not given it. It comes into being listening, by rename: who sees it can
    /// connect.
    pub fn listen(&self) -> Result<UnixListener, SpoolError> {
        let failed = |cause| SpoolError::Failed {
            tried: "cannot listen in",
            path: self.path.clone(),
            cause,
        };
        let new = self.path.join("control.new");
        let listener = unix_socket::listen(&new).map_err(failed)?;
        std::fs::set_permissions(&new, Permissions::from_mode(0o600))
            .and_then(|()| std::fs::rename(&new, self.path.join("control")))
            .map_err(failed)?;
        Ok(listener)
    }

    /// Writes the outcome. It is there whole or not at all, whoever is killed; see `sync` for a host that goes down.
    pub fn conclude(&mut self, outcome: &Outcome) -> Result<(), SpoolError> {
        let written = encode_status(outcome)
            .map_err(io::Error::other)
            .and_then(|text| {
                self.status.write_all(&text)?;
                self.status.set_len(text.len() as u64)?;
                let (from, to) = (self.path.join("status.new"), self.path.join("status"));
                std::fs::rename(from, to)
            });
        written.map_err(|cause| SpoolError::Failed {
            tried: "cannot write the status in",
            path: self.path.clone(),
            cause,
        })
    }

    /// Whether it was removed: nobody asks for what is in it any more. A directory that has another name now was not.
    pub fn is_gone(&self) -> bool {
        match self.status.metadata() {
            Ok(status) => status.nlink() == 0,
            // Removed by another host, of a filesystem over the network.
            Err(error) => error.kind() == io::ErrorKind::StaleNetworkFileHandle,
        }
    }

    /// Makes the outcome outlast the host. Not done where a site has recorded it: a sync costs a job more than its start.
    pub fn sync(&self) -> Result<(), SpoolError> {
        self.status.sync_all().map_err(|cause| SpoolError::Failed {
            tried: "cannot sync the status in",
            path: self.path.clone(),
            cause,
        })
    }

    /// What was written of a stream, to read.
    pub fn printed(&self, stream: OutputStream) -> io::Result<File> {
        File::open(self.path.join(name(stream)))
    }

    /// A complaint for people, in `log`.
    pub fn log(&self, complaint: &str) {
        if let Ok(mut log) = open(
            &self.path,
            "log",
            OpenOptions::new().create(true).append(true),
        ) {
            let _ = writeln!(log, "{complaint}");
        }
    }
}

/// Name of a stream's file.
pub fn name(stream: OutputStream) -> &'static str {
    match stream {
        OutputStream::Stdout => "stdout",
        OutputStream::Stderr => "stderr",
    }
}

fn open(spool: &Path, name: &str, how: &mut OpenOptions) -> Result<File, SpoolError> {
    let path = spool.join(name);
    how.write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|cause| SpoolError::Failed {
            tried: "cannot open",
            path,
            cause,
        })
}

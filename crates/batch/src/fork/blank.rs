//! What is made ahead for whichever attempt comes next, while the one before it runs: a spool, since for each new inode a
//! filesystem may take longer than a whole start should (ext4 passes over those freed lately, one by one), and a runner
//! in it that waits to be called (spec/jobs/runner.md, R15). What is left of one is swept by the next site.
//! All of this blocks, briefly.

use super::start::{Prepared, Runner, meet, spawn};
use crate::spool;
use kumiko_job::attempt::AttemptSpec;
use kumiko_linux::Dir;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};

/// No attempt's name begins so.
const BLANK: &str = "blank-";

/// Dropped without having been used, it goes from the disk and its runner ends.
#[derive(Debug)]
pub struct Blank {
    path: PathBuf,
    /// None: it has become a spool.
    spare: Option<Spare>,
}

#[derive(Debug)]
struct Spare {
    child: Child,
    /// Closed, it ends.
    leash: Leash,
    /// To its control socket, which it accepts once it is called.
    connection: UnixStream,
    version: Version,
}

/// The site's end of what a spare waits on. A byte calls it, and a byte is its answer before it does anything.
#[derive(Debug)]
pub struct Leash(UnixStream);

impl Leash {
    /// Whether the spare heard its call. Ask only once it is dead: what it has not answered by then it never did.
    pub fn heard(self) -> bool {
        let answer = self.0.set_nonblocking(true);
        answer.is_ok_and(|()| matches!((&self.0).read(&mut [0]), Ok(1)))
    }
}

/// Which file a program was: an upgrade is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Version {
    fn of(program: &Path) -> io::Result<Version> {
        let file = fs::metadata(program)?;
        Ok(Version {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

impl Spare {
    fn employ(spool: &Path, runner: &Path) -> io::Result<Spare> {
        spool::furnish(spool)?;
        let (listener, connection) = meet(spool)?;
        let version = Version::of(runner)?;
        let (end, leash) = UnixStream::pair()?;
        let mut program = Command::new(runner);
        program.arg("--spare").arg(spool);
        program
            .stdout(OwnedFd::from(end))
            .stderr(File::open(spool)?);
        let child = spawn(&mut program, listener.into()).map_err(io::Error::other)?;
        Ok(Spare {
            child,
            leash: Leash(leash),
            connection,
            version,
        })
    }
}

impl Blank {
    pub fn has_runner(&self) -> bool {
        self.spare.is_some()
    }

    /// An error: none can be made now (a limit of the account, a full disk), and the next start goes without.
    pub fn make(root: &Path, runner: &Path) -> io::Result<Blank> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let path = root.join(format!("{BLANK}{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        spool::private_dir(root, &path)?;
        match Spare::employ(&path, runner) {
            Ok(spare) => Ok(Blank {
                path,
                spare: Some(spare),
            }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path); // one that stays is swept
                Err(error)
            }
        }
    }

    /// Whether its runner waits, and is what would be started now.
    pub fn serves(&mut self, runner: &Path) -> bool {
        self.spare.as_mut().is_some_and(|spare| {
            matches!(spare.child.try_wait(), Ok(None))
                && Version::of(runner).is_ok_and(|now| now == spare.version)
        })
    }

    /// Gives it the attempt's name and calls its runner. None: nothing of the attempt has begun.
    pub fn become_spool(mut self, spool: &Path, spec: &AttemptSpec) -> Option<Prepared> {
        spool::fill(&self.path, spec).ok()?;
        fs::rename(&self.path, spool).ok()?;
        self.path = spool.to_owned();
        let mut spare = self.spare.take()?;
        if spare.leash.0.write_all(&[1]).is_err() {
            self.spare = Some(spare); // it is dead: the spool goes
            return None;
        }
        let runner = Runner {
            child: spare.child,
            leash: Some(spare.leash),
        };
        Some(Prepared::Started(spare.connection, runner))
    }

    /// Removes those that a former site left behind.
    pub fn sweep(root: &Path) {
        let names = fs::read_dir(root).into_iter().flatten().flatten();
        for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
            if name.starts_with(BLANK) {
                // One that stays is in nobody's way.
                let _ = Dir::open(root).and_then(|root| root.remove_all(&name));
            }
        }
    }
}

impl Drop for Blank {
    fn drop(&mut self) {
        if let Some(Spare { mut child, .. }) = self.spare.take() {
            let _ = child.kill(); // an error: it has ended
            let _ = child.wait();
            let _ = fs::remove_dir_all(&self.path); // one that stays is swept
        }
    }
}

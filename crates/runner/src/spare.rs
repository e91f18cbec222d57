//! A runner that is ready before its attempt is there (spec/jobs/runner.md, R15): it has its spool and its files, and
//! waits on a leash, a socket that the site holds the other end of. A byte calls it, and it answers with a byte before it
//! does anything; the leash's end says that the site has gone, or has no use for it: then nothing of it stays in the spool.

use crate::spool::{Spool, SpoolError, name};
use kumiko_job::attempt::OutputStream;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

pub struct Spare {
    spool: Spool,
    files: [File; 2],
    leash: UnixStream,
    /// The spool by its descriptor: its name changes with the call, and may have changed already.
    place: PathBuf,
    _directory: OwnedFd,
}

impl Spare {
    pub fn take(directory: OwnedFd, leash: UnixStream) -> Result<Self, SpoolError> {
        let place = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        let (spool, files) = Spool::take(&place)?;
        Ok(Self {
            spool,
            files,
            leash,
            place,
            _directory: directory,
        })
    }

    /// Waits. None: there will be no attempt.
    pub fn called(mut self) -> Option<(Spool, [File; 2])> {
        let mut call = [0];
        let called = loop {
            match self.leash.read(&mut call) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.is_ok_and(|count| count > 0),
            }
        };
        let called = called && self.leash.write_all(&call).is_ok();
        // For people who read complaints, and so that no descriptor is held for it.
        match std::fs::read_link(&self.place) {
            Ok(path) if called => {
                self.spool.moved(path);
                Some((self.spool, self.files))
            }
            _ => {
                // `stdout` would say that the attempt began (R5).
                for stream in [OutputStream::Stdout, OutputStream::Stderr] {
                    let _ = std::fs::remove_file(self.place.join(name(stream))); // removed with the spool already
                }
                None
            }
        }
    }
}

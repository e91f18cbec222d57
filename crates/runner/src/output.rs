//! One output stream: from the guests' pipe (or terminal) into the spool (spec/jobs/runner.md, R3, R13, R26).
//!
//! The bytes go by splice(2) and are never seen here; a terminal's are copied, since it cannot be spliced.

use kumiko_job::attempt::OutputStream;
use kumiko_job::description::OutputMode;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::spooling;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Most bytes that a guest in mode `flow` may be ahead of its reader: a second or so of a fast network.
pub const FLOW_WINDOW_BYTES: u64 = 16 * 1024 * 1024;
/// Freed in steps of this: each is a change to the filesystem's own records, so not for every reader's gulp.
const FREE_STEP_BYTES: u64 = 1024 * 1024;
/// What a pipe is given once a guest fills it: fewer wake-ups for much output.
const LARGE_PIPE_BYTES: usize = 1024 * 1024;
/// What a pipe holds at first (pipe(7)).
const PIPE_BYTES: usize = 64 * 1024;
/// Moves in one turn, so that one stream does not keep commands waiting.
const MOVES: usize = 8;
/// Bytes of a terminal copied at once: its buffer is of about this size.
const COPY_BYTES: usize = 4096;

/// Where the bytes come from.
#[derive(Debug)]
pub enum Source {
    Pipe(OwnedFd),
    Terminal(File),
}

/// How far a turn of `pump` came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pumped {
    /// There may be more at once.
    More,
    /// All for now: nothing there, or the reader has to catch up first.
    Rest,
    Closed,
    OverQuota,
}

#[derive(Debug)]
pub struct Output {
    pub stream: OutputStream,
    token: u64,
    source: Option<Source>,
    watched: bool,
    grown: bool,
    file: File,
    mode: OutputMode,
    quota: u64,
    /// Most bytes that the guests may be ahead of what is consumed, in mode `flow`.
    ahead: u64,
    /// What the guests are further ahead is freed, and they wait for no reader.
    by_itself: bool,
    length: u64,
    consumed: u64,
    freed: u64,
}

impl Output {
    /// Without a source the stream is closed from the beginning.
    pub fn new(stream: OutputStream, token: u64, file: File, mode: OutputMode, quota: u64) -> Self {
        Self {
            stream,
            token,
            source: None,
            watched: false,
            grown: false,
            file,
            mode,
            quota,
            ahead: FLOW_WINDOW_BYTES.min(quota.max(1)),
            by_itself: false,
            length: 0,
            consumed: 0,
            freed: 0,
        }
    }

    pub fn connect(&mut self, source: Source) {
        self.source = Some(source);
    }

    /// What was printed before, to which the source's bytes come.
    pub fn begin_with(&mut self, from: &File, length: u64) -> io::Result<()> {
        let mut from = from.take(length);
        self.length = io::copy(&mut from, &mut &self.file)?;
        Ok(())
    }

    /// Takes no more: whoever still writes gets SIGPIPE.
    pub fn close(&mut self) {
        self.source = None;
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn closed(&self) -> bool {
        self.source.is_none()
    }

    /// Has the poll tell of bytes while some may be taken, and only then: a closed pipe is told for ever.
    pub fn watch(&mut self, poll: &Poll) -> io::Result<()> {
        let wanted = self.room() > 0;
        let Some(source) = self.source.as_ref().filter(|_| wanted != self.watched) else {
            return Ok(());
        };
        match (source, wanted) {
            (Source::Pipe(pipe), true) => poll.add(pipe, self.token, Interest::Read)?,
            (Source::Pipe(pipe), false) => poll.remove(pipe)?,
            (Source::Terminal(master), true) => poll.add(master, self.token, Interest::Read)?,
            (Source::Terminal(master), false) => poll.remove(master)?,
        }
        self.watched = wanted;
        Ok(())
    }

    /// Moves what is there into the spool. An error is the spool's.
    pub fn pump(&mut self) -> io::Result<Pumped> {
        for _ in 0..MOVES {
            let most = self.room();
            if most == 0 {
                return Ok(Pumped::Rest);
            }
            match self.take(
                usize::try_from(most)
                    .unwrap_or(usize::MAX)
                    .min(LARGE_PIPE_BYTES),
            ) {
                Ok(0) => {
                    self.source = None;
                    return Ok(Pumped::Closed);
                }
                Ok(count) => self.length += count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Pumped::Rest),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
            if self.mode == OutputMode::Keep && self.length > self.quota {
                self.length = self.quota;
                self.file.set_len(self.quota)?;
                return Ok(Pumped::OverQuota);
            }
            if self.by_itself {
                self.consumed(self.length.saturating_sub(self.ahead))?;
            }
        }
        Ok(Pumped::More)
    }

    /// All bytes below `offset` are consumed; what can be freed is.
    pub fn consumed(&mut self, offset: u64) -> io::Result<()> {
        self.consumed = self.consumed.max(offset.min(self.length));
        let step = self.consumed - self.consumed % FREE_STEP_BYTES;
        if self.mode == OutputMode::Keep || step <= self.freed {
            return Ok(());
        }
        let from = std::mem::replace(&mut self.freed, step);
        let freed = spooling::punch_hole(&self.file, from, step - from);
        if freed.is_err() {
            self.freed = u64::MAX; // a filesystem that cannot does not learn it; said once
        }
        freed
    }

    /// Nobody reads any more: in mode `flow` the newest stays, as much as a reader is waited for with.
    pub fn flow_by_itself(&mut self) {
        self.by_itself = true;
    }

    /// The guests have ended: what is in the pipe (it is bounded) is kept even if nobody reads now.
    pub fn last(&mut self) {
        self.ahead = u64::MAX;
    }

    /// How many bytes may be taken now. One over the quota is, to know that there are more.
    fn room(&self) -> u64 {
        match self.mode {
            OutputMode::Keep => self.quota.saturating_sub(self.length).saturating_add(1),
            OutputMode::Flow if self.by_itself => self.ahead,
            OutputMode::Flow => self.ahead.saturating_sub(self.length - self.consumed),
        }
    }

    fn take(&mut self, most: usize) -> io::Result<usize> {
        match &mut self.source {
            None => Ok(0),
            Some(Source::Pipe(pipe)) => {
                let count = spooling::splice(&*pipe, &self.file, self.length, most)?;
                if count >= PIPE_BYTES && !self.grown {
                    self.grown = true;
                    let _ = spooling::set_pipe_size(&*pipe, LARGE_PIPE_BYTES); // else it stays as it is
                }
                Ok(count)
            }
            Some(Source::Terminal(master)) => {
                let mut bytes = [0; COPY_BYTES];
                let most = most.min(COPY_BYTES);
                match master.read(&mut bytes[..most]) {
                    Ok(count) => {
                        self.file.write_all_at(&bytes[..count], self.length)?;
                        Ok(count)
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Err(error),
                    // EIO: the last process has closed the terminal (tty_ioctl(4) calls it hung up).
                    Err(_) => Ok(0),
                }
            }
        }
    }
}

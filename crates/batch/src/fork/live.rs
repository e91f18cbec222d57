//! One live attempt: the connection to its runner, and little else, since there may be ten thousand of them.

use super::blank::Leash;
use super::spool::Runner;
use super::{Shared, spool};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec};
use kumiko_job::contract::BatchError;
use kumiko_job::id::AttemptId;
use kumiko_wire::runner::{
    RunnerFrameError, STDIN_PIECE_BYTES, STDIN_WINDOW_BYTES, decode_report, encode_command,
};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{Mutex as Turn, Notify, OnceCell};
use tokio::task::AbortHandle;

/// Bytes read at once: reports are small, and the next ones can wait in the socket.
const READ_BYTES: usize = 2048;

/// Before a runner is tried a second time that lets us go, or that cannot be reached for want of our own: neither passes
/// in a moment.
const REACH_AGAIN: Duration = Duration::from_secs(1);

pub struct Live {
    id: AttemptId,
    /// Set once the engine has accepted the attempt.
    accepted: OnceCell<()>,
    task: OnceLock<AbortHandle>,
    /// The connection of now. None before the first, and when there will be no other.
    connection: Mutex<Option<Arc<UnixStream>>>,
    /// Whose turn it is to write a frame.
    writing: Turn<()>,
    stdin_taken: AtomicU64,
    /// Stdin is of no use any more, or nobody is there to take it.
    stdin_closed: AtomicBool,
    /// Told when `stdin_taken` or `stdin_closed` change.
    stdin_moved: Notify,
}

impl Live {
    pub fn new(id: AttemptId) -> Self {
        Self {
            id,
            accepted: OnceCell::new(),
            task: OnceLock::new(),
            connection: Mutex::default(),
            writing: Turn::default(),
            stdin_taken: AtomicU64::new(0),
            stdin_closed: AtomicBool::new(false),
            stdin_moved: Notify::new(),
        }
    }

    /// Makes the spool and starts the runner, once; whoever asks meanwhile or later gets the same answer.
    pub async fn start(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        spec: AttemptSpec,
    ) -> Result<(), BatchError> {
        let begin = || async {
            let blanks = Arc::clone(shared);
            let prepared = tokio::task::spawn_blocking(move || {
                let blank = blanks.take_blank();
                spool::prepare(&blanks.root, &blanks.runner, &spec, blank)
            });
            let prepared = prepared.await.map_err(|error| BatchError::Spool {
                path: shared.spool(self.id).display().to_string(),
                cause: error.to_string(),
            })?;
            match prepared? {
                spool::Prepared::Started(stream, runner) => {
                    self.connected(Ok(stream));
                    self.follow(shared, Some(runner));
                }
                spool::Prepared::Before => self.reattach(shared),
            }
            Ok(())
        };
        let started = self.accepted.get_or_try_init(begin).await;
        if started.is_err() {
            shared.live().remove(&self.id);
        }
        started.map(|_| ())
    }

    pub fn adopt(self: &Arc<Self>, shared: &Arc<Shared>) {
        if self.accepted.set(()).is_ok() {
            self.reattach(shared);
        }
    }

    fn reattach(self: &Arc<Self>, shared: &Arc<Shared>) {
        self.connected(spool::connect(&shared.spool(self.id)));
        self.follow(shared, None);
    }

    /// A connection from here on takes commands. Without one, `attend` finds out why.
    fn connected(&self, stream: io::Result<std::os::unix::net::UnixStream>) {
        let stream = stream.and_then(UnixStream::from_std).ok().map(Arc::new);
        self.set_connection(stream);
    }

    fn follow(self: &Arc<Self>, shared: &Arc<Shared>, runner: Option<Runner>) {
        let (live, shared) = (Arc::clone(self), Arc::clone(shared));
        let task = tokio::spawn(async move { live.attend(&shared, runner).await });
        let _ = self.task.set(task.abort_handle()); // an attempt is followed once
    }

    /// Lets go of the runner; it goes on by itself.
    pub fn leave(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
        self.set_connection(None);
    }

    /// Passes on what the runner reports until it is gone, then what is left on disk.
    async fn attend(&self, shared: &Arc<Shared>, mut runner: Option<Runner>) {
        let ended = loop {
            let (child, mut leash) = match runner {
                Some(Runner { child, leash }) => (Some(child), leash),
                None => (None, None),
            };
            let ended = self.hear_out(shared, &mut leash).await;
            let Some(mut child) = child else {
                break ended; // another site's child
            };
            let (spool, shared) = (shared.spool(self.id), Arc::clone(shared));
            let again = tokio::task::spawn_blocking(move || {
                // It has hung up and refuses, so it is about to end: a moment, not a wait. Its guests are dead then (R7).
                let _ = child.wait();
                let unheard = !ended && leash.is_some_and(|leash| !leash.heard());
                unheard.then(|| spool::anew(&spool, &shared.runner))
            });
            match again.await {
                Ok(Some(Ok((stream, anew)))) => {
                    self.connected(Ok(stream));
                    runner = Some(anew);
                }
                Ok(Some(Err(error))) => {
                    tracing::error!(attempt = %self.id, %error, "it cannot be started anew");
                    break false;
                }
                _ => break ended,
            }
        };
        self.stdin_closed.store(true, Ordering::Release);
        self.stdin_moved.notify_waiters();
        if !ended {
            let path = shared.spool(self.id);
            let remains = tokio::task::spawn_blocking(move || spool::remains(&path)).await;
            for report in remains.into_iter().flatten() {
                shared.sink.report(self.id, report);
            }
        }
        shared.live().remove(&self.id);
    }

    /// Passes on what the runner reports, on one connection after the other, until it is gone; true: the last was `Ended`.
    async fn hear_out(&self, shared: &Arc<Shared>, leash: &mut Option<Leash>) -> bool {
        let mut let_go = false;
        loop {
            if let Some(stream) = self.connection() {
                let ended = self.listen(shared, &stream, leash).await;
                self.set_connection(None);
                if ended {
                    return true;
                }
            }
            if let_go {
                tokio::time::sleep(REACH_AGAIN).await;
            }
            let_go = true;
            // A runner that let us go is asked again; one that is gone refuses (R6).
            match spool::connect(&shared.spool(self.id)).and_then(UnixStream::from_std) {
                Ok(stream) => self.set_connection(Some(Arc::new(stream))),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return false,
                Err(error) if error.kind() == ErrorKind::NotFound => return false,
                Err(error) => {
                    // It may live, so it is not lost: our own want (of descriptors, say) has to pass first.
                    tracing::error!(attempt = %self.id, %error, "its runner cannot be reached");
                }
            }
        }
    }

    /// Passes reports on until the runner hangs up; true: the last was `Ended`.
    async fn listen(
        &self,
        shared: &Arc<Shared>,
        stream: &UnixStream,
        leash: &mut Option<Leash>,
    ) -> bool {
        let mut rest = Vec::new();
        let mut ended = false;
        while stream.readable().await.is_ok() {
            let heard = read(stream, &mut rest, |report| {
                *leash = None; // it began
                match &report {
                    AttemptReport::StdinTaken { offset } => {
                        self.stdin_taken.store(*offset, Ordering::Release);
                        self.stdin_moved.notify_waiters();
                    }
                    AttemptReport::StdinClosed => {
                        self.stdin_closed.store(true, Ordering::Release);
                        self.stdin_moved.notify_waiters();
                    }
                    AttemptReport::Started { .. } => {
                        // The guest runs: now is the time that the next start saves.
                        let shared = Arc::clone(shared);
                        tokio::task::spawn_blocking(move || shared.make_blank());
                    }
                    _ => (),
                }
                if !ended {
                    ended = matches!(report, AttemptReport::Ended(_));
                    shared.sink.report(self.id, report);
                }
            });
            match heard {
                Ok(()) => (),
                Err(Hangup::Gone) => break,
                Err(Hangup::Frame(error)) => {
                    tracing::error!(attempt = %self.id, %error, "its runner speaks wrongly");
                    break;
                }
            }
        }
        ended
    }

    fn set_connection(&self, connection: Option<Arc<UnixStream>>) {
        *self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = connection;
    }

    fn connection(&self) -> Option<Arc<UnixStream>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sends a command; stdin waits until the runner has room for it, or no use.
    pub async fn command(&self, command: AttemptCommand) {
        let AttemptCommand::Stdin {
            mut offset,
            mut data,
        } = command
        else {
            return self.send(&command).await;
        };
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(STDIN_PIECE_BYTES));
            let end = offset + piece.len() as u64;
            if !self.room_for(end).await {
                return;
            }
            self.send(&AttemptCommand::Stdin {
                offset,
                data: piece,
            })
            .await;
            offset = end;
        }
    }

    /// Waits until stdin below `end` is within the window; false: it is of no use.
    async fn room_for(&self, end: u64) -> bool {
        loop {
            let mut moved = std::pin::pin!(self.stdin_moved.notified());
            moved.as_mut().enable(); // before looking, so that no change goes unseen
            if self.stdin_closed.load(Ordering::Acquire) {
                return false;
            }
            let taken = self.stdin_taken.load(Ordering::Acquire);
            if end <= taken + STDIN_WINDOW_BYTES as u64 {
                return true;
            }
            moved.await;
        }
    }

    /// Writes a frame. A runner that is gone has no use for it: `listen` sees to the rest.
    async fn send(&self, command: &AttemptCommand) {
        let Some(stream) = self.connection() else {
            return;
        };
        let mut frame = Vec::new();
        encode_command(command, &mut frame);
        let _turn = self.writing.lock().await;
        let mut rest = &frame[..];
        while !rest.is_empty() {
            match stream.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if stream.writable().await.is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(_) => return,
            }
        }
    }
}

enum Hangup {
    Gone,
    Frame(RunnerFrameError),
}

/// Takes what is there, without waiting; the buffer is on the stack, so that a live attempt has none of its own.
fn read(
    stream: &UnixStream,
    rest: &mut Vec<u8>,
    mut pass: impl FnMut(AttemptReport),
) -> Result<(), Hangup> {
    let mut bytes = [0; READ_BYTES];
    match stream.try_read(&mut bytes) {
        Ok(0) => return Err(Hangup::Gone),
        Ok(count) => rest.extend_from_slice(&bytes[..count]),
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
        Err(_) => return Err(Hangup::Gone),
    }
    let mut done = 0;
    let mut held = None; // of lengths one after the other only the last is news
    while let Some((report, taken)) = decode_report(&rest[done..]).map_err(Hangup::Frame)? {
        done += taken;
        if let Some(before) = held.take().filter(|before| !same_stream(before, &report)) {
            pass(before);
        }
        held = Some(report);
    }
    held.into_iter().for_each(pass);
    rest.drain(..done);
    if rest.is_empty() {
        *rest = Vec::new();
    }
    Ok(())
}

fn same_stream(one: &AttemptReport, next: &AttemptReport) -> bool {
    match (one, next) {
        (AttemptReport::Output { stream, .. }, AttemptReport::Output { stream: of, .. }) => {
            stream == of
        }
        _ => false,
    }
}

//! The connection to the runner of one attempt: reports in, commands out (spec/jobs/runner.md, R20 to R26). Little of it,
//! since there may be ten thousand. Of all batch systems. Not here: when to connect, what an end of it means.

use kumiko_job::attempt::{AttemptCommand, AttemptReport};
use kumiko_job::id::AttemptId;
use kumiko_wire::runner::{
    RunnerFrameError, STDIN_PIECE_BYTES, STDIN_WINDOW_BYTES, decode_report, encode_command,
};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UnixStream;
use tokio::sync::{Mutex as Turn, Notify};

/// Bytes read at once: reports are small, and the next ones can wait in the socket.
const READ_BYTES: usize = 2048;

pub struct Link {
    id: AttemptId,
    /// The connection of now. None before the first, and when there will be no other.
    connection: Mutex<Option<Arc<UnixStream>>>,
    /// Whose turn it is to write a frame.
    writing: Turn<()>,
    stdin_taken: AtomicU64,
    /// Stdin is of no use any more, or nobody is there to take it.
    stdin_closed: AtomicBool,
    /// What is held may begin: said on each connection whose runner holds it.
    released: AtomicBool,
    /// Told when `stdin_taken` or `stdin_closed` change.
    stdin_moved: Notify,
}

impl Link {
    pub fn new(id: AttemptId) -> Self {
        Self {
            id,
            connection: Mutex::default(),
            writing: Turn::default(),
            stdin_taken: AtomicU64::new(0),
            stdin_closed: AtomicBool::new(false),
            released: AtomicBool::new(false),
            stdin_moved: Notify::new(),
        }
    }

    /// A connection from here on takes commands. Without one, whoever follows the attempt finds out why.
    pub fn connected(&self, stream: io::Result<std::os::unix::net::UnixStream>) {
        let stream = stream.and_then(UnixStream::from_std).ok().map(Arc::new);
        self.set_connection(stream);
    }

    pub fn hang_up(&self) {
        self.set_connection(None);
    }

    /// There is no runner any more: nobody waits for it to take stdin.
    pub fn no_more_stdin(&self) {
        self.stdin_closed.store(true, Ordering::Release);
        self.stdin_moved.notify_waiters();
    }

    /// Passes reports on until the runner hangs up, or `pass` has enough; an end is passed once. True: it was.
    pub async fn listen(
        &self,
        stream: &UnixStream,
        mut pass: impl FnMut(AttemptReport) -> ControlFlow<()>,
    ) -> bool {
        let mut rest = Vec::new();
        let (mut ended, mut enough, mut held) = (false, false, false);
        while stream.readable().await.is_ok() {
            let heard = read(stream, &mut rest, |report| {
                match &report {
                    AttemptReport::StdinTaken { offset } => {
                        self.stdin_taken.store(*offset, Ordering::Release);
                        self.stdin_moved.notify_waiters();
                    }
                    AttemptReport::StdinClosed => self.no_more_stdin(),
                    AttemptReport::Held => held = true,
                    _ => (),
                }
                if !ended && !enough {
                    ended = matches!(report, AttemptReport::Ended(_));
                    enough = pass(report).is_break();
                }
            });
            match heard {
                Ok(()) if enough => break,
                Ok(()) => {
                    if std::mem::take(&mut held) && self.released.load(Ordering::Acquire) {
                        self.send(&AttemptCommand::Release).await;
                    }
                }
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

    pub fn connection(&self) -> Option<Arc<UnixStream>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sends a command; stdin waits until the runner has room for it, or no use.
    pub async fn command(&self, command: AttemptCommand) {
        if command == AttemptCommand::Release {
            self.released.store(true, Ordering::Release);
        }
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

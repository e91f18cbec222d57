//! The connection to the runner of one attempt: reports in, commands out (spec/jobs/runner.md, R20 to R26). Little of it,
//! since there may be ten thousand. Of all batch systems. Not here: when to connect, what an end of it means.

use kumiko_job::attempt::{AttemptCommand, AttemptReport};
use kumiko_job::id::AttemptId;
use kumiko_wire::runner::{
    RunnerFrameError, STDIN_PIECE_BYTES, STDIN_WINDOW_BYTES, decode_report, encode_command,
};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::sync::Notify;

/// Bytes read at once: reports are small, and the next ones can wait in the socket.
const READ_BYTES: usize = 2048;
/// Of what a runner that reads nothing is told so much waits here, and who tells it more waits: twice the window of stdin, so that a
/// cancel finds room behind it.
const UNSENT_MOST_BYTES: usize = 2 * STDIN_WINDOW_BYTES;

pub struct Link {
    id: AttemptId,
    line: Mutex<Line>,
    /// Told when the line has something to send that its socket did not take.
    unsent: Notify,
    /// Told when there may be room for more.
    sent: Notify,
    stdin_taken: AtomicU64,
    /// Stdin is of no use any more, or nobody is there to take it.
    stdin_closed: AtomicBool,
    /// What is held may begin: said on each connection whose runner holds it.
    released: AtomicBool,
    vacating: Mutex<Vacating>,
    /// Told when `stdin_taken` or `stdin_closed` change.
    stdin_moved: Notify,
}

/// A connection. Only its reading is watched: a Unix socket is told to take bytes whenever its peer has read some, which would wake a thread of
/// ours for each word.
#[derive(Debug)]
pub struct Socket(AsyncFd<UnixStream>);

impl Socket {
    fn new(stream: UnixStream) -> io::Result<Socket> {
        // What stands in its place is unsafe: its caller has to know that the descriptor is its owner's for good. It is.
        #[allow(deprecated)]
        Ok(Socket(AsyncFd::with_interest(stream, Interest::READABLE)?))
    }

    /// Waits until it takes bytes, for which it is watched by another descriptor meanwhile.
    async fn writable(&self) -> io::Result<()> {
        let again = self.0.get_ref().try_clone()?;
        #[allow(deprecated)] // as above
        let watched = AsyncFd::with_interest(again, Interest::WRITABLE)?;
        watched.writable().await.map(|_| ())
    }
}

/// Of an attempt that is to leave its host: said on each connection whose guest has started.
#[derive(Clone, Copy, Debug, Default)]
struct Vacating {
    grace_ms: Option<u64>,
    /// What the runner of this connection has reported: it obeys `Vacate`; its guest has started.
    obeys: bool,
    started: bool,
}

impl Vacating {
    /// None: there is nothing to say, or it is too early.
    fn command(self) -> Option<AttemptCommand> {
        let grace_ms = self.grace_ms.filter(|_| self.started)?;
        Some(match self.obeys {
            true => AttemptCommand::Vacate { grace_ms },
            false => AttemptCommand::Cancel { grace_ms },
        })
    }
}

/// The connection of now, and what goes over it. Whoever tells something leaves whole frames here and goes; who listens sends them
/// when the runner reads.
#[derive(Default)]
struct Line {
    /// None before the first, and when there will be no other.
    stream: Option<Arc<Socket>>,
    unsent: Vec<u8>,
}

impl Line {
    /// Sends as much as the socket takes now. To a runner that is gone nothing is to be sent: `listen` sees to the rest.
    fn send(&mut self) {
        let Some(stream) = &self.stream else {
            return self.unsent.clear();
        };
        let mut done = 0;
        while let Some(rest) = self.unsent.get(done..).filter(|rest| !rest.is_empty()) {
            match stream.0.get_ref().write(rest) {
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => done = self.unsent.len(),
            }
        }
        self.unsent.drain(..done);
        if self.unsent.is_empty() {
            self.unsent = Vec::new(); // a live attempt at rest has no buffer
        }
    }
}

impl Link {
    pub fn new(id: AttemptId) -> Self {
        Self {
            id,
            line: Mutex::default(),
            unsent: Notify::new(),
            sent: Notify::new(),
            stdin_taken: AtomicU64::new(0),
            stdin_closed: AtomicBool::new(false),
            released: AtomicBool::new(false),
            vacating: Mutex::default(),
            stdin_moved: Notify::new(),
        }
    }

    /// A connection, which does not block, from here on takes commands. Without one, whoever follows the attempt finds out why.
    pub fn connected(&self, stream: io::Result<UnixStream>) {
        let stream = stream.and_then(Socket::new).ok().map(Arc::new);
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
        socket: &Socket,
        mut pass: impl FnMut(AttemptReport) -> ControlFlow<()>,
    ) -> bool {
        let mut rest = Vec::new();
        let (mut ended, mut enough, mut held, mut started) = (false, false, false, false);
        while let Ok(mut ready) = self.readable(socket).await {
            let heard = read(&mut ready, &mut rest, |report| {
                match &report {
                    AttemptReport::StdinTaken { offset } => {
                        self.stdin_taken.store(*offset, Ordering::Release);
                        self.stdin_moved.notify_waiters();
                    }
                    AttemptReport::StdinClosed => self.no_more_stdin(),
                    AttemptReport::Held => held = true,
                    AttemptReport::Vacates => self.vacating().obeys = true,
                    AttemptReport::Started { .. } => {
                        self.vacating().started = true;
                        started = true;
                    }
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
                        self.put(&AttemptCommand::Release);
                    }
                    if std::mem::take(&mut started) {
                        self.say_vacate();
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

    /// Waits until the runner has said something, and sends meanwhile what it takes.
    async fn readable<'a>(
        &self,
        socket: &'a Socket,
    ) -> io::Result<AsyncFdReadyGuard<'a, UnixStream>> {
        loop {
            let waits = !self.line().unsent.is_empty();
            tokio::select! {
                ready = socket.0.readable() => return ready,
                taken = socket.writable(), if waits => {
                    taken?;
                    self.line().send();
                    self.sent.notify_waiters();
                }
                () = self.unsent.notified() => {}
            }
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn vacating(&self) -> MutexGuard<'_, Vacating> {
        self.vacating.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say_vacate(&self) {
        let command = self.vacating().command();
        command.iter().for_each(|command| self.put(command));
    }

    /// What the one before did not send is not for this one: half a frame, perhaps.
    fn set_connection(&self, stream: Option<Arc<Socket>>) {
        let grace_ms = self.vacating().grace_ms;
        *self.vacating() = Vacating {
            grace_ms,
            ..Vacating::default()
        };
        let unsent = Vec::new();
        *self.line() = Line { stream, unsent };
        self.sent.notify_waiters();
    }

    pub fn connection(&self) -> Option<Arc<Socket>> {
        self.line().stream.clone()
    }

    /// Sends a command; stdin waits until the runner has room for it, or no use.
    pub async fn command(&self, command: AttemptCommand) {
        if command == AttemptCommand::Release {
            self.released.store(true, Ordering::Release);
        }
        if let AttemptCommand::Vacate { grace_ms } = command {
            self.vacating().grace_ms = Some(grace_ms);
            return self.say_vacate();
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

    /// Sends a command, or leaves it to be sent. Nobody waits for a runner that reads nothing, but who has more to say than it is owed.
    async fn send(&self, command: &AttemptCommand) {
        while !self.has_room() {
            let mut sent = std::pin::pin!(self.sent.notified());
            sent.as_mut().enable(); // before looking again, so that no room goes unseen
            if !self.has_room() {
                sent.await;
            }
        }
        self.put(command);
    }

    fn has_room(&self) -> bool {
        self.line().unsent.len() <= UNSENT_MOST_BYTES
    }

    /// A runner that is gone has no use for it: `listen` sees to the rest.
    fn put(&self, command: &AttemptCommand) {
        let mut line = self.line();
        if line.stream.is_none() {
            return;
        }
        let before = line.unsent.len();
        encode_command(command, &mut line.unsent);
        // Behind what waits it waits too.
        if before == 0 {
            line.send();
            if !line.unsent.is_empty() {
                self.unsent.notify_one();
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
    ready: &mut AsyncFdReadyGuard<'_, UnixStream>,
    rest: &mut Vec<u8>,
    mut pass: impl FnMut(AttemptReport),
) -> Result<(), Hangup> {
    let mut bytes = [0; READ_BYTES];
    match ready.get_inner().read(&mut bytes) {
        Ok(0) => return Err(Hangup::Gone),
        Ok(count) => {
            // That was all: what comes now is told, and an end that came with it is remembered.
            if count < bytes.len() {
                ready.clear_ready();
            }
            rest.extend_from_slice(&bytes[..count]);
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            ready.clear_ready();
            return Ok(());
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use bytes::Bytes;
    use kumiko_job::description::WindowSize;
    use kumiko_job::id::JobId;
    use kumiko_wire::runner::{decode_command, encode_report};
    use std::time::Duration;
    use tokio::time::timeout;

    /// For what is not to wait.
    const AT_ONCE: Duration = Duration::from_secs(5);
    const MANY: u16 = 2_000;

    /// A link, and the end of its runner.
    fn link() -> (Arc<Link>, tokio::net::UnixStream) {
        let (ours, runners) = UnixStream::pair().unwrap();
        let both = [&ours, &runners];
        both.iter()
            .for_each(|one| one.set_nonblocking(true).unwrap());
        let link = Link::new(AttemptId {
            job: JobId(7),
            epoch: 1,
        });
        link.connected(Ok(ours));
        let runners = tokio::net::UnixStream::from_std(runners).unwrap();
        (Arc::new(link), runners)
    }

    fn listening(link: &Arc<Link>) {
        let (link, stream) = (Arc::clone(link), link.connection().unwrap());
        tokio::spawn(async move { link.listen(&stream, |_| ControlFlow::Continue(())).await });
    }

    #[tokio::test]
    async fn who_is_to_leave_hears_it_when_its_guest_has_started_and_in_words_that_it_knows() {
        let (link, first) = link();
        listening(&link);
        let vacate = AttemptCommand::Vacate { grace_ms: 7 };
        link.command(vacate.clone()).await;
        let started = || AttemptReport::Started {
            pid: 1,
            mechanism: String::new(),
            not_enforced: Vec::new(),
            why: Vec::new(),
        };
        let say = async |runner: &tokio::net::UnixStream, reports: &[AttemptReport]| {
            let mut bytes = Vec::new();
            let reports = reports.iter();
            reports.for_each(|report| encode_report(report, &mut bytes));
            runner.writable().await.unwrap();
            assert_eq!(runner.try_write(&bytes).unwrap(), bytes.len());
        };
        say(&first, &[AttemptReport::Vacates, started()]).await;
        assert_eq!(timeout(AT_ONCE, next(&first)).await.unwrap(), vacate);
        // It is said to the next runner too, one of another version.
        let (ours, second) = UnixStream::pair().unwrap();
        let both = [&ours, &second];
        both.iter()
            .for_each(|one| one.set_nonblocking(true).unwrap());
        link.connected(Ok(ours));
        let second = tokio::net::UnixStream::from_std(second).unwrap();
        listening(&link);
        say(&second, &[started()]).await;
        let cancel = AttemptCommand::Cancel { grace_ms: 7 };
        assert_eq!(timeout(AT_ONCE, next(&second)).await.unwrap(), cancel);
    }

    /// The next command that a runner reads.
    async fn next(runner: &tokio::net::UnixStream) -> AttemptCommand {
        let mut bytes = Vec::new();
        loop {
            runner.readable().await.unwrap();
            let mut some = [0; 64];
            if let Ok(count) = runner.try_read(&mut some) {
                bytes.extend_from_slice(&some[..count]);
            }
            if let Some((command, _)) = decode_command(&bytes).unwrap() {
                return command;
            }
        }
    }

    fn window(rows: u16) -> AttemptCommand {
        AttemptCommand::Window(WindowSize { rows, columns: 80 })
    }

    /// What the runner reads, until it is told to end.
    async fn read_all(runner: &tokio::net::UnixStream) -> Vec<AttemptCommand> {
        let (mut commands, mut rest) = (Vec::new(), Vec::new());
        loop {
            runner.readable().await.unwrap();
            let _ = runner.try_read_buf(&mut rest);
            while let Some((command, taken)) = decode_command(&rest).unwrap() {
                rest.drain(..taken);
                let last = matches!(command, AttemptCommand::Cancel { .. });
                commands.push(command);
                if last {
                    return commands;
                }
            }
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_runner_that_reads_nothing_and_it_hears_all_when_it_reads_again() {
        let (link, runner) = link();
        listening(&link);
        let telling = async {
            for rows in 0..MANY {
                link.command(window(rows)).await;
            }
            link.command(AttemptCommand::Cancel { grace_ms: 1 }).await;
        };
        timeout(AT_ONCE, telling).await.unwrap();
        let mut expected: Vec<AttemptCommand> = (0..MANY).map(window).collect();
        expected.push(AttemptCommand::Cancel { grace_ms: 1 });
        let heard = timeout(AT_ONCE, read_all(&runner)).await.unwrap();
        assert!(heard == expected, "{} commands", heard.len());
    }

    #[tokio::test]
    async fn words_that_are_given_up_half_way_leave_whole_frames_behind() {
        let (link, runner) = link();
        listening(&link);
        let data = Bytes::from(vec![7; 4 * STDIN_WINDOW_BYTES]);
        let words = AttemptCommand::Stdin { offset: 0, data };
        let given_up = timeout(Duration::from_millis(50), link.command(words)).await;
        assert!(given_up.is_err());
        let cancel = link.command(AttemptCommand::Cancel { grace_ms: 1 });
        timeout(AT_ONCE, cancel).await.unwrap();
        let heard = timeout(AT_ONCE, read_all(&runner)).await.unwrap();
        let bytes = |command: &AttemptCommand| match command {
            AttemptCommand::Stdin { data, .. } => data.len(),
            _ => 0,
        };
        assert_eq!(heard.iter().map(bytes).sum::<usize>(), STDIN_WINDOW_BYTES);
    }

    #[tokio::test]
    async fn who_tells_a_runner_that_reads_nothing_without_end_waits_for_it() {
        let (link, runner) = link();
        listening(&link);
        let endless = async {
            loop {
                link.command(window(1)).await;
            }
        };
        assert!(timeout(Duration::from_secs(1), endless).await.is_err());
        let unsent = link.line().unsent.len();
        assert!(unsent <= UNSENT_MOST_BYTES + 64, "{unsent}");
        // Of a new connection nothing was told yet.
        link.hang_up();
        assert_eq!(link.line().unsent.len(), 0);
        drop(runner);
    }
}

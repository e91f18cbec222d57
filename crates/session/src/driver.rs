//! Moves the bytes of one connection: one task that reads, applies, fills and writes until all of it would block.
//! What the protocol means is in `core`.

use crate::core::{Core, Tick};
use crate::shared::Shared;
use bytes::{Buf, Bytes, BytesMut};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Sleep;

/// Below this the write buffer is filled up again: a full TLS record, so that none but the last is short.
const WRITE_LOW_BYTES: usize = 16 << 10;
/// What is filled at a time: two parts. What is encoded cannot be overtaken any more.
const WRITE_HIGH_BYTES: usize = 64 << 10;
/// What is moved before the thread's other tasks have a turn: whom a message has come for waits no longer than for this.
const TURN_BYTES: usize = 256 << 10;
/// The first read buffer of a quiet connection, and what it doubles to on a busy one.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = 128 << 10;
/// For a peer to close its side after a goodbye; and what it may still have been sending.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);
const FAREWELL_BYTES: usize = 8 << 20;

/// Why a connection's driver has stopped.
#[derive(Debug)]
pub(crate) enum End {
    /// The session is over; the goodbye, if any, is written.
    Over,
    /// The connection is.
    Cut(io::Error),
    /// A newer connection has the session.
    Superseded,
}

struct Driver<'a, S, H> {
    shared: &'a Shared,
    epoch: u64,
    io: S,
    on_open: H,
    input: BytesMut,
    read_size: usize,
    output: BytesMut,
    /// What was last put into `output`: where it was little, the connection is quiet and keeps no memory for it.
    filled: usize,
    /// What this turn may still move.
    left: usize,
    sleep: Pin<Box<Sleep>>,
    /// The session is; nothing is read any more.
    over: bool,
}

/// Runs the connection of `epoch` until it ends. `input` is what has been read of it already.
pub(crate) async fn run<S, H>(
    shared: &Shared,
    epoch: u64,
    io: S,
    input: BytesMut,
    on_open: H,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: FnMut(u32, Bytes),
{
    let mut driver = Driver {
        shared,
        epoch,
        io,
        on_open,
        input,
        read_size: READ_BYTES_MIN,
        output: BytesMut::new(),
        filled: 0,
        left: 0,
        sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
        over: false,
    };
    driver.apply();
    let end = poll_fn(|cx| driver.poll(cx)).await;
    if let End::Over = end {
        farewell(&mut driver.io).await;
    }
    end
}

/// Ends a connection whose last frame is written so that the peer can read it: bytes that nobody reads here would make
/// the kernel reset the connection, and the peer's kernel forget what it has not read (RFC 9293, 3.10.4).
pub(crate) async fn farewell<S: AsyncRead + AsyncWrite + Unpin>(io: &mut S) {
    let drained = async {
        io.shutdown().await?;
        let mut left = FAREWELL_BYTES;
        let mut rest = BytesMut::with_capacity(READ_BYTES_MIN);
        while left > 0 {
            rest.clear();
            match io.read_buf(&mut rest).await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        io::Result::Ok(())
    };
    // Best effort: the session is over whether the peer hears it or not.
    let _ = tokio::time::timeout(FAREWELL_WITHIN, drained).await;
}

impl<S, H> Driver<'_, S, H>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: FnMut(u32, Bytes),
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.left = TURN_BYTES;
        loop {
            if let Poll::Ready(Err(end)) = self.poll_write(cx) {
                return Poll::Ready(end);
            }
            let read = self.poll_read(cx);
            if let Poll::Ready(Err(end)) = read {
                return Poll::Ready(end);
            }
            if self.left == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            // What was applied may have made something to write.
            if read.is_pending() {
                return self.poll_clock(cx);
            }
        }
    }

    /// Writes until all is written or the turn is over (Ready), or the connection takes no more (Pending).
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        while self.left > 0 {
            if self.output.len() < WRITE_LOW_BYTES {
                let before = self.output.len();
                let over = self.shared.with(|core| {
                    if core.epoch() != self.epoch {
                        return None;
                    }
                    core.fill(&mut self.output, WRITE_HIGH_BYTES);
                    core.set_driver(Some(cx.waker()));
                    Some(core.is_over().is_some())
                });
                match over {
                    Some(over) => self.over = over,
                    None => return Poll::Ready(Err(End::Superseded)),
                }
                if self.output.len() > before {
                    self.filled = self.output.len() - before;
                }
                if self.output.is_empty() {
                    if self.filled < READ_BYTES_MIN {
                        self.output = BytesMut::new();
                    }
                    let flushed = Pin::new(&mut self.io).poll_flush(cx);
                    return match flushed {
                        Poll::Ready(_) if self.over => Poll::Ready(Err(End::Over)),
                        Poll::Ready(Err(error)) => Poll::Ready(Err(End::Cut(error))),
                        Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                        Poll::Pending => Poll::Pending,
                    };
                }
            }
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.output)) {
                Ok(0) => return Poll::Ready(Err(End::Cut(io::ErrorKind::WriteZero.into()))),
                Ok(count) => {
                    self.output.advance(count);
                    self.left = self.left.saturating_sub(count);
                }
                Err(_) if self.over => return Poll::Ready(Err(End::Over)),
                Err(error) => return Poll::Ready(Err(End::Cut(error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what there is, up to one full buffer, and applies it at once: one lock, and each reader woken once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let mut count = 0;
        let mut failed = None;
        while count < self.read_size && failed.is_none() && !self.over {
            if self.input.capacity() - self.input.len() < READ_BYTES_MIN {
                self.input.reserve(self.read_size);
            }
            match pin!(self.io.read_buf(&mut self.input)).poll(cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => {
                    failed = Some(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the peer closed the connection",
                    ));
                }
                Poll::Ready(Ok(more)) => count += more,
                Poll::Ready(Err(error)) => failed = Some(error),
            }
        }
        self.left = self.left.saturating_sub(count);
        if count > 0 && !self.apply() {
            return Poll::Ready(Err(End::Superseded));
        }
        if count >= self.read_size {
            self.read_size = (2 * self.read_size).min(READ_BYTES_MAX);
        }
        match failed {
            // A peer that only listens now can still be told why.
            Some(_) if self.over => Poll::Ready(Ok(())),
            Some(error) => Poll::Ready(Err(End::Cut(error))),
            None if count > 0 => Poll::Ready(Ok(())),
            None => {
                if self.input.is_empty() {
                    self.input = BytesMut::new();
                    self.read_size = READ_BYTES_MIN;
                }
                Poll::Pending
            }
        }
    }

    /// False: the session has a newer connection.
    fn apply(&mut self) -> bool {
        let applied = self.shared.with(|core: &mut Core| {
            if core.epoch() != self.epoch {
                return None;
            }
            let before = core.phase();
            core.set_driver(None);
            core.heard();
            core.on_bytes(&mut self.input);
            Some((
                core.take_opened(),
                core.is_over().is_some(),
                before != core.phase(),
            ))
        });
        let Some((opened, over, changed)) = applied else {
            return false;
        };
        self.over = over;
        if changed || over {
            self.shared.publish();
        }
        for (id, request) in opened {
            (self.on_open)(id, request);
        }
        true
    }

    /// Pending until the peer has been silent for too long.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            let tick = self
                .shared
                .with(|core| (core.epoch() == self.epoch).then(|| core.tick()));
            match tick {
                None => return Poll::Ready(End::Superseded),
                Some(Tick::Dead { silent_ms }) => {
                    let text = format!("nothing was heard of the peer for {silent_ms} ms");
                    return Poll::Ready(End::Cut(io::Error::new(io::ErrorKind::TimedOut, text)));
                }
                Some(Tick::At { us }) => {
                    let at = self.shared.at(us);
                    // A timer that is early costs one look more; setting it anew for each byte costs more.
                    if self.sleep.is_elapsed() || at < self.sleep.deadline() {
                        self.sleep.as_mut().reset(at);
                    }
                    ready!(self.sleep.as_mut().poll(cx));
                }
            }
        }
    }
}

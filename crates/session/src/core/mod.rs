//! The session protocol (spec/session) as a state machine: no clock, no I/O, no runtime. Connections come and go
//! (here), users of streams act on it (`users`), bytes of the peer act on it (`inbound`), and it says what to write
//! (`outbound`). Wakers are tokens that it
//! keeps and hands back; who calls it wakes them once the lock is let go.

mod inbound;
mod outbound;
#[cfg(test)]
mod path;
#[cfg(test)]
mod simulation;
mod stream;
mod users;

use crate::{Options, SessionError};
use bytes::Bytes;
use kumiko_wire::frame::{ACK_EVERY_BYTES, Frame, Hello, INITIAL_CREDIT_BYTES, Welcome};
use std::collections::{HashMap, VecDeque};
use std::task::Waker;
use std::time::Duration;
use stream::{Body, Receiving, Sending, Sequenced, StreamState, part_cost};

pub(crate) use outbound::Tick;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A client that has not read WELCOME on this connection.
    Greeting,
    Up,
    /// No connection.
    Cut,
}

#[derive(Debug)]
pub(crate) struct Core {
    role: Role,
    options: Options,
    phase: Phase,
    /// Counts connections; who holds an older number is superseded.
    epoch: u64,
    identity: ([u8; 16], [u8; 16]),
    /// A session has stood at least once.
    welcomed: bool,
    over: Option<SessionError>,
    closing: bool,
    streams: HashMap<u32, StreamState>,
    last_stream: u32,
    max_streams: u32,

    /// HELLO or WELCOME, before all else.
    greeting: Option<Frame>,
    goodbye: Option<(u32, String)>,
    ping: bool,
    pong: Option<u64>,
    ack_due: bool,
    credits: Vec<u32>,
    small: VecDeque<u32>,
    bulk: VecDeque<u32>,
    small_in_a_row: u8,
    /// RESETs for streams that were not admitted.
    orphans: VecDeque<Sequenced>,
    queued_cost: usize,

    /// Sent and not acknowledged; the first has number `acknowledged + 1`, the first `cursor` of them are written.
    retained: VecDeque<Sequenced>,
    retained_cost: usize,
    acknowledged: u64,
    cursor: usize,

    received: u64,
    cost_since_ack: usize,
    inbox_cost: u64,
    /// What windows may still grow by.
    pool: usize,
    /// The stream of which a small message came last, and when.
    quick: Option<(u32, u64)>,
    opened: VecDeque<(u32, Bytes)>,

    /// Microseconds, told by whoever calls.
    now_us: u64,
    heard_us: u64,
    connected_us: u64,
    asked: bool,
    /// When PING was written, and the shortest time to its answer on this connection.
    pinged_us: Option<u64>,
    round_trip_us: Option<u64>,

    driver: Option<Waker>,
    open_wakers: Vec<Waker>,
    hold_blocked: bool,
    wakes: Vec<Waker>,
}

impl Core {
    pub fn new(role: Role, options: Options, session: [u8; 16], token: [u8; 16]) -> Self {
        // A sender that holds less than some acknowledgements could wait for one that is never due.
        let least = 4 * ACK_EVERY_BYTES;
        let options = Options {
            session_buffer_bytes: options.session_buffer_bytes.max(least),
            stream_credit_bytes: options.stream_credit_bytes.max(INITIAL_CREDIT_BYTES),
            ..options
        };
        Core {
            role,
            phase: Phase::Cut,
            epoch: 0,
            identity: (session, token),
            welcomed: role == Role::Server,
            over: None,
            closing: false,
            streams: HashMap::new(),
            last_stream: 0,
            max_streams: options.max_streams,
            greeting: None,
            goodbye: None,
            ping: false,
            pong: None,
            ack_due: false,
            credits: Vec::new(),
            small: VecDeque::new(),
            bulk: VecDeque::new(),
            small_in_a_row: 0,
            orphans: VecDeque::new(),
            queued_cost: 0,
            retained: VecDeque::new(),
            retained_cost: 0,
            acknowledged: 0,
            cursor: 0,
            received: 0,
            cost_since_ack: 0,
            inbox_cost: 0,
            pool: options.session_buffer_bytes,
            quick: None,
            opened: VecDeque::new(),
            now_us: 0,
            heard_us: 0,
            connected_us: 0,
            asked: false,
            pinged_us: None,
            round_trip_us: None,
            driver: None,
            open_wakers: Vec::new(),
            hold_blocked: false,
            wakes: Vec::new(),
            options,
        }
    }

    // --- Connections (S3, S9) ---

    /// Tells the time, in microseconds of any clock that does not jump.
    pub fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    /// Client: a connection stands; returns its epoch.
    pub fn greet(&mut self) -> u64 {
        self.connect();
        self.phase = Phase::Greeting;
        let resume = self.welcomed.then_some(self.received);
        let (session, token) = self.identity;
        self.greeting = Some(Frame::Hello(Hello {
            session,
            token,
            resume,
        }));
        self.epoch
    }

    /// Server: a connection of this session's owner stands; returns its epoch.
    pub fn welcome(&mut self, resume: Option<u64>) -> Result<u64, SessionError> {
        if let Some(received) = resume {
            self.check_resume(received)
                .map_err(SessionError::Violation)?;
            self.cut();
            self.acknowledge(received);
        }
        self.connect();
        self.ping = true;
        self.phase = Phase::Up;
        self.greeting = Some(Frame::Welcome(Welcome {
            received: self.received,
            resume_within_ms: self
                .options
                .resume_within
                .as_millis()
                .try_into()
                .unwrap_or(u32::MAX),
            max_streams: self.options.max_streams,
        }));
        self.announce_credit();
        self.wake_blocked();
        Ok(self.epoch)
    }

    fn connect(&mut self) {
        self.epoch += 1;
        self.heard_us = self.now_us;
        self.connected_us = self.now_us;
        self.touch();
    }

    /// The connection is gone. What was written and not acknowledged will be written again.
    pub fn cut(&mut self) {
        self.phase = Phase::Cut;
        self.cursor = 0;
        self.greeting = None;
        self.pong = None;
        self.ping = false;
        self.asked = false;
        self.pinged_us = None;
        self.round_trip_us = None;
        self.ack_due = false;
        self.cost_since_ack = 0;
    }

    /// After a cut the peer may not have heard of any credit that was granted.
    fn announce_credit(&mut self) {
        for (&id, stream) in &mut self.streams {
            if stream.granted > INITIAL_CREDIT_BYTES.into() && !stream.credit_due {
                stream.credit_due = true;
                self.credits.push(id);
            }
        }
    }

    /// Ends the session for all its streams; what they have received can still be read.
    pub fn end(&mut self, error: SessionError) {
        if self.over.is_some() {
            return;
        }
        self.over = Some(error);
        self.retained = VecDeque::new();
        self.orphans = VecDeque::new();
        (self.retained_cost, self.queued_cost, self.cursor) = (0, 0, 0);
        for stream in self.streams.values_mut() {
            stream.out = VecDeque::new();
            stream.out_cost = 0;
            self.wakes.extend(stream.sender_waker.take());
            self.wakes.extend(stream.receiver_waker.take());
        }
        self.streams.retain(|_, stream| !stream.is_done());
        self.wakes.append(&mut self.open_wakers);
        self.touch();
    }

    /// Ends the session and tells the peer why.
    pub fn end_saying(&mut self, error: SessionError, code: u32, text: String) {
        if self.over.is_none() {
            self.goodbye = Some((code, text));
            self.end(error);
        }
    }

    /// Ends the session once all that is queued has been written.
    pub fn close(&mut self) {
        self.closing = true;
        if self.phase == Phase::Cut {
            self.end(SessionError::Closed);
        }
        self.touch();
    }

    // --- What the edge asks ---

    pub fn is_over(&self) -> Option<&SessionError> {
        self.over.as_ref()
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn is_cut(&self) -> bool {
        self.phase == Phase::Cut
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn was_welcomed(&self) -> bool {
        self.welcomed
    }

    pub fn is_closing(&self) -> bool {
        self.closing
    }

    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    pub fn resume_within(&self) -> Duration {
        self.options.resume_within
    }

    /// What is kept in memory for this session's streams, in cost (S6).
    pub fn held_bytes(&self) -> usize {
        self.queued_cost + self.retained_cost + self.inbox_cost as usize
    }

    /// What a detached session can come to hold.
    pub fn held_bytes_at_most(&self) -> usize {
        self.inbox_cost as usize
            + (self.queued_cost + self.retained_cost).max(users::DETACHED_BUFFER_BYTES)
    }

    /// Streams that the peer has opened since the last call.
    pub fn take_opened(&mut self) -> VecDeque<(u32, Bytes)> {
        std::mem::take(&mut self.opened)
    }

    /// To be woken after the lock is let go.
    pub fn take_wakes(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakes)
    }

    /// Whom to wake when there is something to write; nobody while the driver is at it.
    pub fn set_driver(&mut self, waker: Option<&Waker>) {
        self.driver = waker.cloned();
    }

    fn touch(&mut self) {
        self.wakes.extend(self.driver.take());
    }

    fn remove_if_done(&mut self, id: u32) {
        if self.streams.get(&id).is_some_and(StreamState::is_done) {
            if let Some(stream) = self.streams.remove(&id) {
                self.pool += (stream.window - INITIAL_CREDIT_BYTES) as usize;
            }
        }
    }

    fn wake_blocked(&mut self) {
        if std::mem::take(&mut self.hold_blocked) {
            for stream in self.streams.values_mut() {
                self.wakes.extend(stream.sender_waker.take());
            }
            self.wakes.append(&mut self.open_wakers);
        }
    }
}

//! The session protocol (spec/session) as a state machine: no clock, no I/O, no runtime. Users of streams act on it
//! (here), bytes of the peer act on it (`inbound`), and it says what to write (`outbound`). Wakers are tokens that it
//! keeps and hands back; who calls it wakes them once the lock is let go.

mod inbound;
mod outbound;
#[cfg(test)]
mod simulation;
mod stream;

use crate::{Options, Part, SessionError};
use bytes::Bytes;
use kumiko_wire::frame::{
    ACK_EVERY_BYTES, Frame, Half, Hello, INITIAL_CREDIT_BYTES, PART_BYTES, REQUEST_BYTES, Welcome,
};
use std::collections::{HashMap, VecDeque};
use std::task::{Poll, Waker};
use std::time::Duration;
use stream::{Body, Receiving, Sending, Sequenced, StreamState, part_cost};

pub(crate) use outbound::Tick;

/// While nobody is connected, a session takes no more than this from its streams.
const DETACHED_BUFFER_BYTES: usize = 256 << 10;

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
    opened: VecDeque<(u32, Bytes)>,

    heard_ms: u64,
    connected_ms: u64,
    asked: bool,

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
            opened: VecDeque::new(),
            heard_ms: 0,
            connected_ms: 0,
            asked: false,
            driver: None,
            open_wakers: Vec::new(),
            hold_blocked: false,
            wakes: Vec::new(),
            options,
        }
    }

    // --- Connections (S3, S9) ---

    /// Client: a connection stands; returns its epoch.
    pub fn greet(&mut self, now_ms: u64) -> u64 {
        self.connect(now_ms);
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
    pub fn welcome(&mut self, resume: Option<u64>, now_ms: u64) -> Result<u64, SessionError> {
        if let Some(received) = resume {
            self.check_resume(received)
                .map_err(SessionError::Violation)?;
            self.cut();
            self.acknowledge(received);
        }
        self.connect(now_ms);
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

    fn connect(&mut self, now_ms: u64) {
        self.epoch += 1;
        self.heard_ms = now_ms;
        self.connected_ms = now_ms;
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

    // --- Users of streams (S5, S6) ---

    /// Opens a stream; `waker` is called when there is room again.
    pub fn poll_open(&mut self, request: &Bytes, waker: &Waker) -> Poll<Result<u32, SessionError>> {
        if let Some(over) = self.refusal() {
            return Poll::Ready(Err(over));
        }
        if request.len() > REQUEST_BYTES {
            let (bytes, limit) = (request.len(), REQUEST_BYTES);
            return Poll::Ready(Err(SessionError::RequestTooLong { bytes, limit }));
        }
        let limit = self.max_streams;
        if self.streams.len() >= limit as usize || self.last_stream == u32::MAX {
            return Poll::Ready(Err(SessionError::TooManyStreams { limit }));
        }
        let body = Body::Open(request.clone());
        if !self.can_hold(body.cost()) {
            self.hold_blocked = true;
            self.open_wakers.push(waker.clone());
            return Poll::Pending;
        }
        self.last_stream += 1;
        let id = self.last_stream;
        self.streams.insert(id, StreamState::new());
        self.enqueue(id, body);
        Poll::Ready(Ok(id))
    }

    /// Queues the next part of a message: all of `data` if it fits one frame, else as much as a frame holds. Taken
    /// is what is missing from `data` afterwards.
    pub fn poll_send(
        &mut self,
        id: u32,
        kind: u8,
        data: &mut Bytes,
        waker: &Waker,
    ) -> Poll<Result<(), SessionError>> {
        if let Some(over) = self.refusal() {
            return Poll::Ready(Err(over));
        }
        let Some(stream) = self.streams.get(&id) else {
            return Poll::Ready(Err(SessionError::Closed));
        };
        if let Sending::Stopped(code) = stream.sending {
            return Poll::Ready(Err(SessionError::Stopped { code }));
        }
        let size = data.len().min(PART_BYTES);
        let more = size < data.len();
        let body = Body::Data {
            kind,
            more,
            data: data.slice(..size),
        };
        let cost = body.cost();
        let has_credit = stream.limit.saturating_sub(stream.used) >= cost as u64;
        let has_room = self.can_hold(cost);
        let Some(stream) = self.streams.get_mut(&id) else {
            return Poll::Ready(Err(SessionError::Closed));
        };
        if !has_credit || !has_room {
            self.hold_blocked |= !has_room;
            stream.sender_waker = Some(waker.clone());
            return Poll::Pending;
        }
        stream.used += cost as u64;
        let _ = data.split_to(size);
        self.enqueue(id, body);
        Poll::Ready(Ok(()))
    }

    /// Ready when there is no use in sending more: the peer reads no more, or the session is over.
    pub fn poll_stopped(&mut self, id: u32, waker: &Waker) -> Poll<SessionError> {
        if let Some(over) = self.refusal() {
            return Poll::Ready(over);
        }
        match self.streams.get_mut(&id) {
            None => Poll::Ready(SessionError::Closed),
            Some(StreamState {
                sending: Sending::Stopped(code),
                ..
            }) => Poll::Ready(SessionError::Stopped { code: *code }),
            Some(stream) => {
                stream.sender_waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// The sender is done: in order (None), or giving up with a code.
    pub fn end_sending(&mut self, id: u32, abort: Option<u32>) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.sender_gone = true;
        stream.sender_waker = None;
        if stream.sending == Sending::Open && self.over.is_none() {
            stream.sending = Sending::Ended;
            let body = match abort {
                None => Body::Finish,
                Some(code) => {
                    self.queued_cost -= stream.drop_queue();
                    Body::Reset {
                        half: Half::Sending,
                        code,
                    }
                }
            };
            self.enqueue(id, body);
        }
        self.remove_if_done(id);
    }

    /// The next part that came; None at the end.
    pub fn poll_recv(
        &mut self,
        id: u32,
        waker: &Waker,
    ) -> Poll<Result<Option<Part>, SessionError>> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Poll::Ready(Ok(None));
        };
        if let Some(part) = stream.inbox.pop_front() {
            let cost = part_cost(&part);
            stream.read += cost;
            self.inbox_cost -= cost;
            self.grant(id);
            return Poll::Ready(Ok(Some(part)));
        }
        match (stream.receiving, &self.over) {
            (Receiving::Finished | Receiving::Stopped, _) => Poll::Ready(Ok(None)),
            (Receiving::Reset(code), _) => Poll::Ready(Err(SessionError::Reset { code })),
            (Receiving::Open, Some(over)) => Poll::Ready(Err(over.clone())),
            (Receiving::Open, None) => {
                stream.receiver_waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Gives credit back in halves of the window, and lets the window of a busy stream grow.
    fn grant(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.receiving != Receiving::Open || self.over.is_some() {
            return;
        }
        let window = u64::from(stream.window);
        if stream.read + window - stream.granted < window / 2 {
            return;
        }
        let wider = stream
            .window
            .saturating_mul(2)
            .min(self.options.stream_credit_bytes);
        let growth = (wider - stream.window) as usize;
        if growth <= self.pool {
            self.pool -= growth;
            stream.window = wider;
        }
        stream.granted = stream.read + u64::from(stream.window);
        if !stream.credit_due {
            stream.credit_due = true;
            self.credits.push(id);
        }
        self.touch();
    }

    /// The receiver is done; if the peer is not, it is told so.
    pub fn end_receiving(&mut self, id: u32, code: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.receiver_gone = true;
        stream.receiver_waker = None;
        self.inbox_cost -= stream.inbox.iter().map(part_cost).sum::<u64>();
        stream.inbox = VecDeque::new();
        if stream.receiving == Receiving::Open && self.over.is_none() {
            stream.receiving = Receiving::Stopped;
            self.enqueue(
                id,
                Body::Reset {
                    half: Half::Receiving,
                    code,
                },
            );
        }
        self.remove_if_done(id);
    }

    // --- What the edge asks ---

    pub fn is_over(&self) -> Option<&SessionError> {
        self.over.as_ref()
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
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
            + (self.queued_cost + self.retained_cost).max(DETACHED_BUFFER_BYTES)
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

    fn refusal(&self) -> Option<SessionError> {
        match &self.over {
            Some(over) => Some(over.clone()),
            None if self.closing => Some(SessionError::Closed),
            None => None,
        }
    }

    fn can_hold(&self, cost: usize) -> bool {
        let most = match (self.phase, self.role) {
            (Phase::Cut, Role::Server) => DETACHED_BUFFER_BYTES,
            _ => self.options.session_buffer_bytes,
        };
        self.queued_cost + self.retained_cost + cost <= most
    }

    fn enqueue(&mut self, id: u32, body: Body) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let cost = body.cost();
        stream.out.push_back(body);
        stream.out_cost += cost;
        self.queued_cost += cost;
        self.make_ready(id);
        self.touch();
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

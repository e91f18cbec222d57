//! What the users of streams do (S5, S6): open, send, receive, end. Each returns at once; who has to wait leaves a waker.

use super::outbound::SMALL_BYTES;
use super::stream::{Body, Receiving, Sending, StreamState, part_cost};
use super::{Core, Phase, Role};
use crate::{Part, SessionError};
use bytes::Bytes;
use kumiko_wire::frame::{FRAME_COST_BYTES, Half, INITIAL_CREDIT_BYTES, PART_BYTES, REQUEST_BYTES};
use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// While nobody is connected, a server's session takes no more than this from its streams: `MAX_DETACHED` of them make
/// `MAX_DETACHED_BYTES`.
pub(super) const DETACHED_BUFFER_BYTES: usize = 64 << 10;
/// Windows grow this far on any path: half a millisecond of a loopback.
const EASY_WINDOW_BYTES: u32 = 4 * INITIAL_CREDIT_BYTES;
/// A reader that takes half a window in less has not to wait for the other side to be scheduled, however short the path
/// is; what is under way for so long holds up no small message by more than a few of these.
const EASY_READ_US: u64 = 1_000;
/// Small messages that come no further apart than this are somebody's conversation: bulk leaves the way free for them.
const QUICK_US: u64 = 1_000_000;

/// What a user takes at once of what has come; the part that it works at is counted as read in any case.
const AT_ONCE_COST: u64 = 4 * (PART_BYTES + FRAME_COST_BYTES) as u64;

impl Core {
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
            if !self.open_wakers.iter().any(|known| known.will_wake(waker)) {
                self.open_wakers.push(waker.clone());
            }
            return Poll::Pending;
        }
        self.last_stream += 1;
        let id = self.last_stream;
        self.streams.insert(id, StreamState::new());
        self.enqueue(id, body);
        Poll::Ready(Ok(id))
    }

    /// Queues the next part of a message, which is `first` and then `data`: all of it if it fits one frame, else as much
    /// as a frame holds. Taken is what is missing from the two afterwards.
    pub fn poll_send(
        &mut self,
        id: u32,
        kind: u8,
        [first, data]: [&mut Bytes; 2],
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
        let ahead = first.len().min(PART_BYTES);
        let size = data.len().min(PART_BYTES - ahead);
        let more = ahead < first.len() || size < data.len();
        let cost = FRAME_COST_BYTES + ahead + size;
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
        let body = Body::Data {
            kind,
            more,
            first: first.split_to(ahead),
            data: data.split_to(size),
        };
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

    /// The next part that came; None at the end. Some that have come too are put into `further`, so that not each
    /// takes the lock and gives credit by itself.
    pub fn poll_recv(
        &mut self,
        id: u32,
        further: &mut VecDeque<Part>,
        waker: &Waker,
    ) -> Poll<Result<Option<Part>, SessionError>> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Poll::Ready(Ok(None));
        };
        if let Some(part) = stream.inbox.pop_front() {
            let mut cost = part_cost(&part);
            while let Some(next) = stream.inbox.front().map(part_cost) {
                if cost + next > AT_ONCE_COST {
                    break;
                }
                cost += next;
                further.extend(stream.inbox.pop_front());
            }
            stream.read += cost;
            self.inbox_cost -= cost;
            if cost <= SMALL_BYTES as u64 {
                self.quick = Some((id, self.now_us));
            }
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

    /// Gives credit back in halves of the window. A window grows while half of it is read within two round trips: to
    /// a few times what the path holds, and no further, for what is under way cannot be overtaken by a small message.
    /// While another stream has small messages, no more of a window is given than what the path needs.
    fn grant(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.receiving != Receiving::Open || self.over.is_some() {
            return;
        }
        let took_us = self.now_us - stream.granted_us;
        let is_beside_quick = self
            .quick
            .is_some_and(|(other, at_us)| other != id && self.now_us - at_us < QUICK_US);
        let given = |window: u32| match self.round_trip_us {
            Some(round_trip) if is_beside_quick && window > EASY_WINDOW_BYTES => {
                let read = stream.read - stream.granted_at;
                let twice_the_path = 2 * read * round_trip / took_us.max(1);
                twice_the_path.clamp(EASY_WINDOW_BYTES.into(), window.into())
            }
            _ => u64::from(window),
        };
        let window = given(stream.window);
        if (stream.read + window).saturating_sub(stream.granted) < window / 2 {
            return;
        }
        let wider = stream
            .window
            .saturating_mul(2)
            .min(self.options.stream_credit_bytes);
        let growth = (wider - stream.window) as usize;
        let is_busy = self
            .round_trip_us
            .is_some_and(|round_trip| took_us <= EASY_READ_US.max(2 * round_trip));
        if growth <= self.pool && (is_busy || wider <= EASY_WINDOW_BYTES) {
            self.pool -= growth;
            stream.window = wider;
        }
        stream.granted = stream.read + given(stream.window);
        stream.granted_us = self.now_us;
        stream.granted_at = stream.read;
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

    pub(super) fn enqueue(&mut self, id: u32, body: Body) {
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
}

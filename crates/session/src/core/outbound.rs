//! What is written next (S6, S7, S10): greeting, control, what has to be sent again, then the streams in turn, small
//! messages before bulk.

use super::{Body, Core, Phase, Sequenced};
use crate::SessionError;
use bytes::BytesMut;
use kumiko_wire::frame::{self, Frame, PART_BYTES, goodbye};
use std::time::Duration;

/// A stream with no more than this queued goes before bulk.
pub(super) const SMALL_BYTES: usize = 4 << 10;
/// After so many small ones bulk has a turn, so that it moves on whatever happens.
const SMALL_IN_A_ROW: u8 = 16;

/// When to look at the clock again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    At {
        us: u64,
    },
    /// Nothing was heard for too long.
    Dead {
        silent_ms: u64,
    },
}

impl Core {
    /// Appends frames to `out` until it is `most` bytes long or nothing is left; may end up to one frame above.
    pub fn fill(&mut self, out: &mut BytesMut, most: usize) {
        if self.phase == Phase::Cut {
            return;
        }
        if let Some(greeting) = self.greeting.take() {
            greeting.encode(out);
        }
        let may_send = self.phase == Phase::Up || !self.welcomed;
        if may_send && self.over.is_none() {
            self.fill_control(out);
            self.fill_sequenced(out, most);
            if self.closing && !self.has_unwritten() {
                self.end_saying(SessionError::Closed, goodbye::DONE, String::new());
            }
        }
        if let Some((code, text)) = self.goodbye.take() {
            Frame::Goodbye { code, text }.encode(out);
        }
    }

    fn fill_control(&mut self, out: &mut BytesMut) {
        if let Some(nonce) = self.pong.take() {
            Frame::Pong { nonce }.encode(out);
        }
        if std::mem::take(&mut self.ping) {
            self.pinged_us = Some(self.now_us);
            Frame::Ping {
                nonce: self.received,
            }
            .encode(out);
        }
        if std::mem::take(&mut self.ack_due) {
            self.cost_since_ack = 0;
            Frame::Ack {
                received: self.received,
            }
            .encode(out);
        }
        for id in std::mem::take(&mut self.credits) {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.credit_due = false;
                Frame::Credit {
                    stream: id,
                    limit: stream.granted,
                }
                .encode(out);
            }
        }
    }

    fn fill_sequenced(&mut self, out: &mut BytesMut, most: usize) {
        while out.len() < most {
            if self.cursor == self.retained.len() && !self.take_turn() {
                return;
            }
            while let Some(next) = self.retained.get(self.cursor) {
                if out.len() >= most {
                    return;
                }
                let number = (self.acknowledged + 1 + self.cursor as u64) as u32;
                let stream = next.stream;
                match &next.body {
                    Body::Open(request) => Frame::Open {
                        stream,
                        number,
                        request: request.clone(),
                    }
                    .encode(out),
                    Body::Data {
                        kind,
                        more,
                        first,
                        data,
                    } => frame::encode_data(out, (stream, number), *kind, *more, [first, data]),
                    Body::Finish => Frame::Finish { stream, number }.encode(out),
                    Body::Reset { half, code } => Frame::Reset {
                        stream,
                        number,
                        half: *half,
                        code: *code,
                    }
                    .encode(out),
                }
                self.cursor += 1;
            }
        }
    }

    /// Moves one stream's next frames to what is retained: a part's worth. False: nothing is queued.
    fn take_turn(&mut self) -> bool {
        if let Some(orphan) = self.orphans.pop_front() {
            self.queued_cost -= orphan.body.cost();
            self.retained_cost += orphan.body.cost();
            self.retained.push_back(orphan);
            return true;
        }
        let small_first = self.small_in_a_row < SMALL_IN_A_ROW || self.bulk.is_empty();
        let id = match if small_first {
            self.small.pop_front()
        } else {
            None
        } {
            Some(id) => {
                self.small_in_a_row = self.small_in_a_row.saturating_add(1);
                id
            }
            None => {
                self.small_in_a_row = 0;
                match self.bulk.pop_front() {
                    Some(id) => id,
                    None => return false,
                }
            }
        };
        let Some(stream) = self.streams.get_mut(&id) else {
            return true;
        };
        stream.ready = false;
        let mut taken = 0;
        while let Some(cost) = stream.out.front().map(Body::cost) {
            if taken > 0 && taken + cost > PART_BYTES {
                break;
            }
            taken += cost;
            let moved = stream.out.pop_front();
            let numbered = moved.map(|body| Sequenced { stream: id, body });
            self.retained.extend(numbered);
        }
        stream.out_cost -= taken;
        self.queued_cost -= taken;
        self.retained_cost += taken;
        self.make_ready(id);
        self.remove_if_done(id);
        true
    }

    pub(super) fn make_ready(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.ready || stream.out.is_empty() {
            return;
        }
        stream.ready = true;
        if stream.out_cost <= SMALL_BYTES {
            self.small.push_back(id);
        } else {
            self.bulk.push_back(id);
        }
    }

    pub(super) fn has_unwritten(&self) -> bool {
        self.cursor < self.retained.len() || self.queued_cost > 0
    }

    // --- Keep-alive (S10) ---

    /// Bytes have come.
    pub fn heard(&mut self) {
        self.heard_us = self.now_us;
        self.asked = false;
    }

    /// Looks at the clock: asks a silent peer, gives up one that was asked, and says when to look again.
    pub fn tick(&mut self) -> Tick {
        let us = |duration: Duration| {
            u64::try_from(duration.as_micros())
                .unwrap_or(u64::MAX / 4)
                .max(1)
        };
        let now = self.now_us;
        if self.phase == Phase::Greeting {
            let until = self.connected_us + us(self.options.hello_within);
            return match now >= until {
                true => Tick::Dead {
                    silent_ms: (now - self.connected_us) / 1000,
                },
                false => Tick::At { us: until },
            };
        }
        let keepalive = us(self.options.keepalive);
        let silent = now.saturating_sub(self.heard_us);
        if silent >= 2 * keepalive {
            return Tick::Dead {
                silent_ms: silent / 1000,
            };
        }
        if silent < keepalive {
            return Tick::At {
                us: self.heard_us + keepalive,
            };
        }
        if !self.asked {
            self.asked = true;
            self.ping = true;
            self.ack_due |= self.cost_since_ack > 0;
            self.touch();
        }
        Tick::At {
            us: self.heard_us + 2 * keepalive,
        }
    }
}

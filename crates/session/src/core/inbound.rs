//! What the peer's bytes do (S3 to S9). Every breach of the protocol is a `Violation` and ends the session.

use super::{Body, Core, Phase, Receiving, Role, Sending, Sequenced, StreamState, part_cost};
use crate::{LostReason, Part, SessionError, Violation};
use bytes::{Bytes, BytesMut};
use kumiko_wire::frame::{self, Frame, Half, Welcome, goodbye, reset};

impl Core {
    /// Takes whole frames off the front of `bytes` and applies them. A violation has ended the session when this
    /// returns, with a GOODBYE to be written.
    pub fn on_bytes(&mut self, bytes: &mut BytesMut) {
        while self.over.is_none() {
            let applied = match frame::decode(bytes) {
                Ok(None) => return,
                Ok(Some(frame)) => self.on_frame(frame),
                Err(error) => Err(error.into()),
            };
            if let Err(violation) = applied {
                let text = violation.to_string();
                self.end_saying(SessionError::Violation(violation), goodbye::VIOLATION, text);
            }
        }
    }

    fn on_frame(&mut self, frame: Frame) -> Result<(), Violation> {
        let name = frame.name();
        if self.phase != Phase::Up && !matches!(frame, Frame::Welcome(_) | Frame::Goodbye { .. }) {
            return Err(Violation::Unexpected {
                frame: name,
                when: "before WELCOME",
            });
        }
        match frame {
            Frame::Hello(_) => Err(Violation::Unexpected {
                frame: name,
                when: "in a session that stands",
            }),
            Frame::Welcome(welcome) => self.on_welcome(welcome),
            Frame::Open {
                stream,
                number,
                request,
            } => {
                self.count(number, frame::FRAME_COST_BYTES + request.len())?;
                self.on_open(stream, request)
            }
            Frame::Data {
                stream,
                number,
                kind,
                more,
                data,
            } => {
                self.count(number, frame::FRAME_COST_BYTES + data.len())?;
                self.on_data(stream, Part { kind, data, more })
            }
            Frame::Finish { stream, number } => {
                self.count(number, frame::FRAME_COST_BYTES)?;
                self.on_end(stream, name, Receiving::Finished)
            }
            Frame::Reset {
                stream,
                number,
                half,
                code,
            } => {
                self.count(number, frame::FRAME_COST_BYTES)?;
                match half {
                    Half::Sending => self.on_end(stream, name, Receiving::Reset(code)),
                    Half::Receiving => self.on_stop(stream, code),
                }
            }
            Frame::Credit { stream, limit } => {
                if let Some(state) = self.stream(stream, name)? {
                    if limit > state.limit {
                        state.limit = limit;
                        let waker = state.sender_waker.take();
                        self.wakes.extend(waker);
                    }
                }
                Ok(())
            }
            Frame::Ack { received } => {
                let sent = self.acknowledged + self.cursor as u64;
                if received > sent {
                    return Err(Violation::AckBeyondSent {
                        acknowledged: received,
                        sent,
                    });
                }
                self.acknowledge(received);
                Ok(())
            }
            Frame::Ping { nonce } => {
                self.pong = Some(nonce);
                self.touch();
                Ok(())
            }
            Frame::Pong { .. } => {
                if let Some(pinged) = self.pinged_us.take() {
                    let took = self.now_us.saturating_sub(pinged);
                    self.round_trip_us =
                        Some(self.round_trip_us.map_or(took, |least| least.min(took)));
                }
                Ok(())
            }
            Frame::Goodbye { code, text } => {
                let error = match code {
                    goodbye::DONE => SessionError::Closed,
                    goodbye::VIOLATION => SessionError::Accused { text },
                    goodbye::UNKNOWN_SESSION => SessionError::Lost(LostReason::Forgotten),
                    goodbye::GOING_DOWN => SessionError::Lost(LostReason::GoingDown),
                    code => SessionError::Refused { code, text },
                };
                self.end(error);
                Ok(())
            }
        }
    }

    /// S7: numbers follow one another without gap or repetition.
    fn count(&mut self, number: u32, cost: usize) -> Result<(), Violation> {
        let expected = (self.received + 1) as u32;
        if number != expected {
            return Err(Violation::OutOfOrder {
                expected,
                got: number,
            });
        }
        self.received += 1;
        self.cost_since_ack += cost;
        if self.cost_since_ack >= frame::ACK_EVERY_BYTES && !self.ack_due {
            self.ack_due = true;
            self.touch();
        }
        Ok(())
    }

    fn on_welcome(&mut self, welcome: Welcome) -> Result<(), Violation> {
        if self.role != Role::Client || self.phase != Phase::Greeting {
            return Err(Violation::Unexpected {
                frame: "WELCOME",
                when: "without HELLO",
            });
        }
        if self.welcomed {
            self.check_resume(welcome.received)?;
            self.acknowledge(welcome.received);
            self.announce_credit();
        } else if welcome.received != 0 {
            return Err(Violation::BadResume {
                received: welcome.received,
                from: 0,
                to: 0,
            });
        }
        self.ping = true;
        self.welcomed = true;
        self.phase = Phase::Up;
        self.max_streams = self.options.max_streams.min(welcome.max_streams);
        self.options.resume_within =
            self.options
                .resume_within
                .min(std::time::Duration::from_millis(
                    welcome.resume_within_ms.into(),
                ));
        self.touch();
        Ok(())
    }

    /// S9: the peer can go on after `received` only if all that follows is still held here.
    pub(super) fn check_resume(&self, received: u64) -> Result<(), Violation> {
        let (from, to) = (
            self.acknowledged,
            self.acknowledged + self.retained.len() as u64,
        );
        match (from..=to).contains(&received) {
            true => Ok(()),
            false => Err(Violation::BadResume { received, from, to }),
        }
    }

    /// All up to `received` has arrived; an older word of it changes nothing.
    pub(super) fn acknowledge(&mut self, received: u64) {
        while self.acknowledged < received {
            let Some(frame) = self.retained.pop_front() else {
                break;
            };
            self.retained_cost -= frame.body.cost();
            self.acknowledged += 1;
            self.cursor = self.cursor.saturating_sub(1);
        }
        self.wake_blocked();
    }

    fn on_open(&mut self, id: u32, request: Bytes) -> Result<(), Violation> {
        if self.role == Role::Client {
            return Err(Violation::Unexpected {
                frame: "OPEN",
                when: "from the server",
            });
        }
        if id <= self.last_stream {
            return Err(Violation::DuplicateStream {
                stream: id,
                last: self.last_stream,
            });
        }
        self.last_stream = id;
        let waiting = self.queued_cost + self.retained_cost;
        if waiting > 2 * self.options.session_buffer_bytes {
            return Err(Violation::NotAcknowledging { bytes: waiting });
        }
        // A stream that the client has closed may still be in use here: twice the number that it was told.
        if self.streams.len() >= 2 * self.options.max_streams as usize {
            for half in [Half::Sending, Half::Receiving] {
                let body = Body::Reset {
                    half,
                    code: reset::TOO_MANY_STREAMS,
                };
                self.queued_cost += body.cost();
                self.orphans.push_back(Sequenced { stream: id, body });
            }
            self.touch();
            return Ok(());
        }
        self.streams.insert(id, StreamState::new());
        self.quick = Some((id, self.now_us));
        self.opened.push_back((id, request));
        Ok(())
    }

    fn on_data(&mut self, id: u32, part: Part) -> Result<(), Violation> {
        let Some(stream) = self.stream(id, "DATA")? else {
            return Ok(());
        };
        let cost = part_cost(&part);
        stream.came += cost;
        let (used, allowed) = (stream.came, stream.granted);
        if used > allowed {
            return Err(Violation::CreditExceeded {
                stream: id,
                allowed,
                used,
            });
        }
        match stream.receiving {
            Receiving::Open => {
                stream.inbox.push_back(part);
                let waker = stream.receiver_waker.take();
                self.inbox_cost += cost;
                self.wakes.extend(waker);
                Ok(())
            }
            Receiving::Stopped => Ok(()),
            Receiving::Finished | Receiving::Reset(_) => Err(Violation::AfterEnd {
                frame: "DATA",
                stream: id,
            }),
        }
    }

    fn on_end(&mut self, id: u32, name: &'static str, end: Receiving) -> Result<(), Violation> {
        let Some(stream) = self.stream(id, name)? else {
            return Ok(());
        };
        match stream.receiving {
            Receiving::Open => {
                stream.receiving = end;
                let waker = stream.receiver_waker.take();
                self.wakes.extend(waker);
                Ok(())
            }
            Receiving::Stopped => Ok(()),
            Receiving::Finished | Receiving::Reset(_) => Err(Violation::AfterEnd {
                frame: name,
                stream: id,
            }),
        }
    }

    /// The peer reads no more: what is queued for it is dropped.
    fn on_stop(&mut self, id: u32, code: u32) -> Result<(), Violation> {
        let Some(stream) = self.stream(id, "RESET")? else {
            return Ok(());
        };
        if !matches!(stream.sending, Sending::Stopped(_)) {
            stream.sending = Sending::Stopped(code);
            let dropped = stream.drop_queue();
            let waker = stream.sender_waker.take();
            self.queued_cost -= dropped;
            self.wakes.extend(waker);
            self.remove_if_done(id);
        }
        Ok(())
    }

    /// None: the stream is over, and late frames of it are to be expected.
    fn stream(
        &mut self,
        id: u32,
        name: &'static str,
    ) -> Result<Option<&mut StreamState>, Violation> {
        if id > self.last_stream {
            return Err(Violation::UnknownStream {
                frame: name,
                stream: id,
            });
        }
        Ok(self.streams.get_mut(&id))
    }
}

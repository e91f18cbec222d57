//! One stream of a session, as its user holds it (S5, S6).

use crate::SessionError;
use crate::client::Handle;
use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use kumiko_wire::frame::reset;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A message, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u8,
    pub data: Bytes,
}

/// A part of a message as it came; `more` says that the message goes on in the next part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub kind: u8,
    pub data: Bytes,
    pub more: bool,
}

/// A message to be sent, its payload in two pieces: they need not be copied to stand one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub kind: u8,
    pub first: Bytes,
    pub data: Bytes,
}

/// Both halves of a stream.
#[derive(Debug)]
pub struct Stream {
    sender: Sender,
    receiver: Receiver,
}

/// Sends messages. Dropped before `finish`, it gives the stream up (the peer reads `Reset`).
#[derive(Debug)]
pub struct Sender {
    half: HalfOf,
    /// A message has been begun and is not complete.
    halfway: bool,
}

/// Receives messages. Dropped before the end, it tells the peer to stop sending (the peer's `send` fails).
#[derive(Debug)]
pub struct Receiver {
    half: HalfOf,
    /// Parts that came with one that was handed out.
    further: VecDeque<Part>,
    partial: BytesMut,
    halfway: bool,
    max_message_bytes: usize,
}

#[derive(Debug)]
struct HalfOf {
    shared: Arc<Shared>,
    id: u32,
    done: bool,
    /// A client's session lives as long as one of its streams.
    _keep: Option<Arc<Handle>>,
}

impl Stream {
    pub(crate) fn new(
        shared: Arc<Shared>,
        id: u32,
        max_message_bytes: usize,
        keep: Option<Arc<Handle>>,
    ) -> Stream {
        let half = |keep| HalfOf {
            shared: shared.clone(),
            id,
            done: false,
            _keep: keep,
        };
        Stream {
            sender: Sender {
                half: half(keep.clone()),
                halfway: false,
            },
            receiver: Receiver {
                half: half(keep),
                further: VecDeque::new(),
                partial: BytesMut::new(),
                halfway: false,
                max_message_bytes,
            },
        }
    }

    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// See `Sender::send`.
    pub async fn send(&mut self, kind: u8, data: Bytes) -> Result<(), SessionError> {
        self.sender.send(kind, data).await
    }

    /// See `Receiver::recv`.
    pub async fn recv(&mut self) -> Result<Option<Message>, SessionError> {
        self.receiver.recv().await
    }
}

impl Sender {
    /// Queues a message once the peer has given credit for it; one longer than `kumiko_wire::frame::PART_BYTES`
    /// travels in parts, each with its own credit. `data` is not copied. Cancel safe up to one part; a longer
    /// message given up halfway gives up the stream.
    ///
    /// # Errors
    /// `Stopped` when the peer reads no more; else the session is over.
    pub async fn send(&mut self, kind: u8, data: Bytes) -> Result<(), SessionError> {
        let first = Bytes::new();
        self.send_all(&mut VecDeque::from([Draft { kind, first, data }]))
            .await
    }

    /// As `send`, for messages one after the other; what is still there after an error, or when this was given up, is
    /// not sent.
    ///
    /// # Errors
    /// As of `send`.
    pub async fn send_all(&mut self, drafts: &mut VecDeque<Draft>) -> Result<(), SessionError> {
        if self.halfway {
            self.half.end_sending(Some(reset::MESSAGE_CUT));
            return Err(SessionError::MessageCut);
        }
        let HalfOf { shared, id, .. } = &self.half;
        let halfway = &mut self.halfway;
        poll_fn(|cx| {
            shared.with(|core| {
                while let Some(draft) = drafts.front_mut() {
                    let pieces = [&mut draft.first, &mut draft.data];
                    match core.poll_send(*id, draft.kind, pieces, cx.waker()) {
                        Poll::Ready(Ok(())) => {
                            *halfway = !(draft.first.is_empty() && draft.data.is_empty());
                        }
                        other => return other,
                    }
                    if !*halfway {
                        drafts.pop_front();
                    }
                }
                Poll::Ready(Ok(()))
            })
        })
        .await
    }

    /// Waits until sending has no use any more: the peer reads no more, or the session is over. Cancel safe.
    pub async fn stopped(&mut self) -> SessionError {
        let HalfOf { shared, id, .. } = &self.half;
        poll_fn(|cx| shared.with(|core| core.poll_stopped(*id, cx.waker()))).await
    }

    /// Says that all has been sent. It is queued when this returns; that the peer has read it, only the peer can say.
    ///
    /// # Errors
    /// The session is over.
    pub async fn finish(mut self) -> Result<(), SessionError> {
        let abort = self.halfway.then_some(reset::MESSAGE_CUT);
        self.half.end_sending(abort);
        self.half
            .shared
            .with(|core| core.is_over().cloned())
            .map_or(Ok(()), Err)
    }

    /// Gives the stream up; the peer reads `Reset { code }` after what has been sent already.
    pub fn reset(mut self, code: u32) {
        self.half.end_sending(Some(code));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.half.end_sending(Some(reset::DROPPED));
    }
}

impl Receiver {
    /// The next message, whole; None after the peer's finish. Cancel safe.
    ///
    /// # Errors
    /// `Reset` when the peer gave up; `MessageTooLong` above `Options::max_message_bytes`; else the session is over.
    /// What came before the error is handed out first.
    pub async fn recv(&mut self) -> Result<Option<Message>, SessionError> {
        loop {
            let Some(part) = self.recv_part().await? else {
                return match self.halfway {
                    true => Err(SessionError::Reset {
                        code: reset::MESSAGE_CUT,
                    }),
                    false => Ok(None),
                };
            };
            let Part { kind, data, more } = part;
            if !self.halfway && !more {
                return Ok(Some(Message { kind, data }));
            }
            if self.partial.len() + data.len() > self.max_message_bytes {
                self.half.end_receiving(reset::MESSAGE_TOO_LONG);
                return Err(SessionError::MessageTooLong {
                    limit: self.max_message_bytes,
                });
            }
            if self.partial.is_empty() {
                // Room for some parts more: a buffer that grows is copied each time.
                self.partial.reserve(5 * data.len());
            }
            self.partial.extend_from_slice(&data);
            self.halfway = more;
            if !more {
                let data = std::mem::take(&mut self.partial).freeze();
                return Ok(Some(Message { kind, data }));
            }
        }
    }

    /// The next part as it came, without putting messages together. Cancel safe. Not to be mixed with `recv` within
    /// one message.
    pub async fn recv_part(&mut self) -> Result<Option<Part>, SessionError> {
        if let Some(part) = self.further.pop_front() {
            return Ok(Some(part));
        }
        let HalfOf { shared, id, .. } = &self.half;
        let further = &mut self.further;
        poll_fn(|cx| shared.with(|core| core.poll_recv(*id, further, cx.waker()))).await
    }

    /// Reads no more, and tells the peer why.
    pub fn stop(mut self, code: u32) {
        self.half.end_receiving(code);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.half.end_receiving(reset::DROPPED);
    }
}

impl HalfOf {
    fn end_sending(&mut self, abort: Option<u32>) {
        if !std::mem::replace(&mut self.done, true) {
            self.shared.with(|core| core.end_sending(self.id, abort));
        }
    }

    fn end_receiving(&mut self, code: u32) {
        if !std::mem::replace(&mut self.done, true) {
            self.shared.with(|core| core.end_receiving(self.id, code));
        }
    }
}

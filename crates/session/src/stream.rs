//! One stream of a session, as its user holds it.

use crate::SessionError;
use bytes::Bytes;

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

#[derive(Debug)]
pub struct Stream {
    sender: Sender,
    receiver: Receiver,
}

/// Sends messages. Dropped before `finish`, it aborts the sending side (the peer reads `Reset`).
#[derive(Debug)]
pub struct Sender {}

/// Receives messages. Dropped before the end, it tells the peer to stop sending (the peer's `send` fails).
#[derive(Debug)]
pub struct Receiver {}

impl Stream {
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
    pub async fn send(&mut self, kind: u8, data: Bytes) -> Result<(), SessionError> {
        self.sender.send(kind, data).await
    }
    pub async fn recv(&mut self) -> Result<Option<Message>, SessionError> {
        self.receiver.recv().await
    }
}

impl Sender {
    /// Waits for credit. Cancel safe up to `kumiko_wire::frame::PART_BYTES`.
    pub async fn send(&mut self, _kind: u8, _data: Bytes) -> Result<(), SessionError> {
        Err(SessionError::Closed)
    }
    pub async fn finish(self) -> Result<(), SessionError> {
        Err(SessionError::Closed)
    }
    pub fn reset(self, _code: u32) {}
}

impl Receiver {
    /// The next message, whole; None after the peer's finish. Cancel safe.
    pub async fn recv(&mut self) -> Result<Option<Message>, SessionError> {
        Err(SessionError::Closed)
    }
    /// The next part as it came, without putting messages together. Cancel safe.
    pub async fn recv_part(&mut self) -> Result<Option<Part>, SessionError> {
        Err(SessionError::Closed)
    }
}

//! The socket of messages to the monitor, as front and agent wait on it.

use kumiko_linux::packets::{Packet, Packets};
use kumiko_wire::monitor::MESSAGE_MOST_BYTES;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(crate) struct Channel(AsyncFd<Packets>);

impl Channel {
    /// Of the descriptor that the monitor gave this process; in a runtime.
    // Deprecated for types whose descriptor may change under it; a `Packets` keeps its own until it is dropped.
    #[allow(deprecated)]
    pub fn new(given: OwnedFd) -> io::Result<Channel> {
        Ok(Channel(AsyncFd::new(Packets::from_fd(given)?)?))
    }

    pub async fn send(&self, message: &[u8]) -> io::Result<()> {
        loop {
            let mut ready = self.0.writable().await?;
            if let Ok(sent) = ready.try_io(|packets| packets.get_ref().send(message, None)) {
                return sent;
            }
        }
    }

    /// The next message and what came with it; None: the monitor is gone.
    pub async fn receive(&self) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
        // One more, so that a message too long is seen to be.
        let mut buffer = vec![0; MESSAGE_MOST_BYTES + 1];
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|packets| packets.get_ref().receive(&mut buffer)) {
                Ok(Ok(Packet::Message(bytes, descriptor))) => {
                    buffer.truncate(bytes);
                    return Ok(Some((buffer, descriptor)));
                }
                Ok(Ok(Packet::End)) => return Ok(None),
                // It died with something of ours unread.
                Ok(Err(e)) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Ok(Err(e)) => return Err(e),
                Err(_) => {}
            }
        }
    }
}

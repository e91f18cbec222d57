//! A TCP stream whose first bytes are acknowledged at once: Globus writes the end of its handshake and its request apart,
//! with Nagle's algorithm on, and would wait 40 ms in between for an acknowledgement that the kernel delays.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Handshake and request are over after so many reads; a stream of data is acknowledged by what it is.
const READS: u32 = 16;

#[derive(Debug)]
pub struct Prompt {
    tcp: TcpStream,
    left: u32,
}

impl Prompt {
    pub fn new(tcp: TcpStream) -> Prompt {
        Prompt { tcp, left: READS }
    }

    fn acknowledge(&mut self) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            // Without it all is well, if slower.
            let _ = kumiko_linux::tcp::acknowledge_at_once(&self.tcp);
        }
    }
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.tcp).poll_read(context, buffer);
        // Before the wait as well: it is the next bytes that are to be acknowledged.
        self.acknowledge();
        read
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

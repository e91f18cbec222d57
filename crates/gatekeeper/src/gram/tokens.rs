//! The bytes below TLS of clients that put lengths before their flights (spec/gram G1, G2). Not here: what a length is
//! (kumiko-wire).

use kumiko_wire::gram::Tokens;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Read at once: a flight of a client with its chain.
const READ_BYTES: usize = 8 * 1024;

/// A connection that takes lengths out where there are some.
#[derive(Debug)]
pub(crate) struct Tokened {
    tcp: TcpStream,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    /// Nothing has come.
    Unknown,
    /// TLS from the first byte.
    Plain,
    Tokens {
        tokens: Tokens,
        /// TLS's bytes that nobody has read yet, from `read` on.
        ready: Vec<u8>,
        read: usize,
    },
}

impl Tokened {
    pub fn new(tcp: TcpStream) -> Tokened {
        Tokened {
            tcp,
            mode: Mode::Unknown,
        }
    }
}

impl AsyncRead for Tokened {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Mode::Unknown = this.mode {
            let mut first = [0];
            let mut first = ReadBuf::new(&mut first);
            ready!(this.tcp.poll_peek(cx, &mut first))?;
            this.mode = match first.filled() {
                // No record of TLS begins with 0, every sensible length does.
                [0] => Mode::Tokens {
                    tokens: Tokens::default(),
                    ready: Vec::new(),
                    read: 0,
                },
                _ => Mode::Plain,
            };
        }
        let Mode::Tokens {
            tokens,
            ready,
            read,
        } = &mut this.mode
        else {
            return Pin::new(&mut this.tcp).poll_read(cx, buf);
        };
        loop {
            let left = ready.get(*read..).unwrap_or_default();
            if !left.is_empty() {
                let now = left.get(..buf.remaining()).unwrap_or(left);
                buf.put_slice(now);
                *read += now.len();
                return Poll::Ready(Ok(()));
            }
            ready.clear();
            *read = 0;
            let mut space = [0; READ_BYTES];
            let mut space = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.tcp).poll_read(cx, &mut space))?;
            if space.filled().is_empty() {
                return Poll::Ready(if tokens.is_within() {
                    Err(io::ErrorKind::UnexpectedEof.into())
                } else {
                    Ok(())
                });
            }
            // The kernel forgets it after each acknowledgement (tcp(7)).
            kumiko_linux::tcp::acknowledge_at_once(&this.tcp)?;
            tokens
                .push(space.filled(), ready)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        }
    }
}

impl AsyncWrite for Tokened {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

//! The byte stream below TLS: records that follow one another go to the kernel and come from it together, since a call
//! costs there what the bytes of a record cost. Not in it: TLS.

use bytes::{Buf, BytesMut};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Eight full records: what the kernel takes of unsent bytes (`kumiko_linux::tcp`), and two of TCP's largest segments.
const GATHER_BYTES: usize = 128 << 10;
/// Room for those, and for the record that fills them up (RFC 8446, section 5.2: at most 16640 bytes and a header).
const ROOM_BYTES: usize = GATHER_BYTES + (17 << 10);
/// A stream that moves less at a time is quiet, and keeps no memory until it moves more.
const FEW_BYTES: usize = 4 << 10;

/// Writes wait here for a flush, or until there are enough of them; reads are of what there is.
#[derive(Debug)]
pub(crate) struct Gathered<S> {
    inner: S,
    /// Never during the handshake: OpenSSL takes a flush that has to wait for a broken stream.
    gathers: bool,
    unwritten: BytesMut,
    unread: BytesMut,
    /// What was read last filled what there was for it: there is more.
    busy: bool,
}

impl<S> Gathered<S> {
    pub fn new(inner: S) -> Gathered<S> {
        Gathered {
            inner,
            gathers: false,
            unwritten: BytesMut::new(),
            unread: BytesMut::new(),
            busy: false,
        }
    }

    /// From now on; the handshake is over.
    pub fn begin(&mut self) {
        self.gathers = true;
    }

    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Ready when nothing is left to be written.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        while !self.unwritten.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_write(context, &self.unwritten))? {
                0 => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                count => self.unwritten.advance(count),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        if this.unread.is_empty() {
            if !this.busy {
                let wanted = buffer.remaining();
                ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
                this.busy = this.gathers && buffer.remaining() == 0 && wanted >= FEW_BYTES;
                return Poll::Ready(Ok(()));
            }
            this.unread.reserve(GATHER_BYTES);
            let count = ready!(pin!(this.inner.read_buf(&mut this.unread)).poll(context))?;
            this.busy = count >= FEW_BYTES;
        }
        let count = this.unread.len().min(buffer.remaining());
        buffer.put_slice(&this.unread[..count]);
        this.unread.advance(count);
        if this.unread.is_empty() && !this.busy {
            this.unread = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        if !self.gathers {
            return Pin::new(&mut self.inner).poll_write(context, bytes);
        }
        if self.unwritten.len() >= GATHER_BYTES {
            ready!(self.poll_written(context))?;
        }
        if bytes.len() >= FEW_BYTES && self.unwritten.is_empty() {
            self.unwritten.reserve(ROOM_BYTES);
        }
        self.unwritten.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let quiet = self.unwritten.len() < FEW_BYTES;
        ready!(self.poll_written(context))?;
        if quiet {
            self.unwritten = BytesMut::new();
        }
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        ready!(self.poll_written(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    /// As long as a full record.
    const RECORD_BYTES: usize = 16 << 10;

    fn pair(pipe_bytes: usize) -> (Gathered<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(pipe_bytes);
        let mut near = Gathered::new(near);
        near.begin();
        (near, far)
    }

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i / 7 + i / 1000) as u8).collect()
    }

    #[tokio::test]
    async fn records_wait_for_a_flush_or_for_enough_of_them() {
        let (mut near, mut far) = pair(1 << 20);
        let record = pattern(RECORD_BYTES);
        let arrived = async |far: &mut DuplexStream| {
            let mut bytes = vec![0; 1 << 20];
            let there = std::future::poll_fn(|cx| {
                let mut buffer = ReadBuf::new(&mut bytes);
                Poll::Ready(match Pin::new(&mut *far).poll_read(cx, &mut buffer) {
                    Poll::Ready(read) => read.map(|()| buffer.filled().len()).unwrap(),
                    Poll::Pending => 0,
                })
            });
            there.await
        };
        near.write_all(&record).await.unwrap();
        assert_eq!(arrived(&mut far).await, 0);
        near.flush().await.unwrap();
        assert_eq!(arrived(&mut far).await, RECORD_BYTES);
        for _ in 0..GATHER_BYTES / RECORD_BYTES {
            near.write_all(&record).await.unwrap();
        }
        assert_eq!(arrived(&mut far).await, 0);
        near.write_all(b"one more").await.unwrap();
        assert_eq!(arrived(&mut far).await, GATHER_BYTES);
        near.shutdown().await.unwrap();
        assert_eq!(arrived(&mut far).await, b"one more".len());
    }

    #[tokio::test]
    async fn bytes_stay_in_order_through_a_pipe_that_takes_few_at_a_time() {
        let (mut near, far) = pair(1000);
        let (mut back, mut there) = tokio::io::split(far);
        let echo = tokio::spawn(async move { tokio::io::copy(&mut back, &mut there).await });
        let sent = pattern(5 * GATHER_BYTES + 3);
        let (mut read, mut write) = tokio::io::split(&mut near);
        let (came, ()) = tokio::join!(
            async {
                let mut came = vec![0; sent.len()];
                read.read_exact(&mut came).await.unwrap();
                came
            },
            async {
                for piece in sent.chunks(RECORD_BYTES) {
                    write.write_all(piece).await.unwrap();
                }
                write.flush().await.unwrap();
            }
        );
        assert!(came == sent);
        drop(near);
        assert_eq!(echo.await.unwrap().unwrap(), sent.len() as u64);
    }

    #[tokio::test]
    async fn a_quiet_stream_keeps_no_memory() {
        let (mut near, mut far) = pair(1 << 20);
        let bulk = pattern(2 * GATHER_BYTES);
        let mut came = vec![0; bulk.len()];
        near.write_all(&bulk).await.unwrap();
        near.flush().await.unwrap();
        far.write_all(&bulk).await.unwrap();
        near.read_exact(&mut came).await.unwrap();
        assert!(came == bulk);
        for _ in 0..2 {
            near.write_all(b"small").await.unwrap();
            near.flush().await.unwrap();
            far.write_all(b"small").await.unwrap();
            near.read_exact(&mut came[..5]).await.unwrap();
        }
        assert_eq!((near.unwritten.capacity(), near.unread.capacity()), (0, 0));
    }
}

//! Other tasks of the thread have their turns while a stream is in full flow.

use crate::support::within;
use bytes::Bytes;
use kumiko_session::{Dial, Options, Server, Session};
use kumiko_wire::frame::PART_BYTES;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// What is to flow; and what one side may move at a time: a turn, and what it then still reads.
const FLOW_BYTES: usize = 64 << 20;
const TURN_AT_MOST_BYTES: usize = 512 << 10;

/// One end of a connection that never waits, and what has gone through it since others had their turn.
struct Watched {
    io: DuplexStream,
    moved: Arc<AtomicUsize>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, into);
        self.moved
            .fetch_add(into.filled().len() - before, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, from);
        if let Poll::Ready(Ok(count)) = written {
            self.moved.fetch_add(count, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

struct Once(Mutex<Option<Watched>>);

impl Dial for Once {
    type Io = Watched;
    async fn dial(&self) -> io::Result<Watched> {
        self.0
            .lock()
            .unwrap()
            .take()
            .ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

#[tokio::test]
async fn a_stream_in_full_flow_leaves_turns_to_others() {
    let (here, there) = tokio::io::duplex(FLOW_BYTES);
    let watched = |io| {
        let moved = Arc::<AtomicUsize>::default();
        let shown = Arc::clone(&moved);
        (Watched { io, moved }, shown)
    };
    let ((here, moved_here), (there, moved_there)) = (watched(here), watched(there));
    let server = Server::new(Options::default());
    tokio::spawn(async move {
        server
            .serve(there, "/CN=a", |_, mut stream| {
                tokio::spawn(async move {
                    let part = Bytes::from(vec![0; PART_BYTES]);
                    while stream.send(0, part.clone()).await.is_ok() {}
                });
            })
            .await
    });
    let most = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    tokio::spawn({
        let most = Arc::clone(&most);
        poll_fn(move |cx| -> Poll<()> {
            for (most, moved) in most.iter().zip([&moved_here, &moved_there]) {
                most.fetch_max(moved.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    });
    let dial = Once(Mutex::new(Some(here)));
    let session = Session::connect(dial, Options::default()).await.unwrap();
    let mut stream = session.open(Bytes::new()).await.unwrap();
    let mut came = 0;
    while came < FLOW_BYTES {
        came += within("a message", stream.recv())
            .await
            .unwrap()
            .unwrap()
            .data
            .len();
    }
    for (side, most) in ["client", "server"].into_iter().zip(most.iter()) {
        let most = most.load(Ordering::Relaxed);
        assert!(most > PART_BYTES, "{side}: {most} bytes at a time");
        assert!(most <= TURN_AT_MOST_BYTES, "{side}: {most} bytes at a time");
    }
}

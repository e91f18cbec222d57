//! Between a stream of a session and a socket.

use bytes::BytesMut;
use kumiko_session::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const READ_BYTES: usize = 16 * 1024;

/// Until either of the two ends: then both do, once what has come of it was passed on.
pub async fn bridge(stream: Stream, mut socket: UnixStream) {
    let (mut sender, mut receiver) = stream.split();
    let (mut reading, mut writing) = socket.split();
    let mut open = true;
    let mut bytes = BytesMut::new();
    loop {
        bytes.reserve(READ_BYTES);
        tokio::select! {
            read = reading.read_buf(&mut bytes), if open => match read {
                // Who cannot take more may still have something to say.
                Ok(count) if count > 0 => open = sender.send(0, bytes.split().freeze()).await.is_ok(),
                // The session is over: there is nobody to tell.
                _ => return drop(sender.finish().await),
            },
            message = receiver.recv() => match message {
                Ok(Some(message)) if writing.write_all(&message.data).await.is_ok() => {}
                _ => return,
            },
        }
    }
}

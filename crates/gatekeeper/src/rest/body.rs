//! Bodies, both ways: bounded in size and in silence when they come in, streamed when they go out.

use super::Busy;
use crate::admit::TURN_AWAY_WITHIN;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use kumiko_job::contract::Refusal;
use std::future::Future;
use std::io::{self, Read};
use std::time::Duration;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Size of the pieces of a file.
const FILE_PIECE_BYTES: usize = 64 * 1024;

/// Of a refused body.
const DISCARDED_BYTES: usize = 64 << 20;

pub(super) fn full(data: impl Into<Bytes>) -> Body {
    Full::new(data.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A body that is made piece by piece, each when the one before is on its way. An error breaks the connection: the
/// only way left to say that what came is not all.
pub(super) fn pieces<S, F, N>(state: S, next: N) -> Body
where
    S: Send + 'static,
    F: Future<Output = Result<Option<(Bytes, S)>, Refusal>> + Send + 'static,
    N: FnMut(S) -> F + Send + 'static,
{
    let mut next = next;
    streamed(stream::try_unfold(state, move |state| {
        let piece = next(state);
        async move {
            piece.await.map_err(|refusal| {
                tracing::warn!(code = %refusal.code, "an answer breaks off: {refusal}");
                io::Error::other(refusal)
            })
        }
    }))
}

fn streamed(pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    use futures_util::TryStreamExt;
    StreamBody::new(pieces.map_ok(Frame::data)).boxed_unsync()
}

/// The first `bytes` of a file.
pub(super) fn file(file: std::fs::File, bytes: u64) -> Body {
    pieces((file, bytes), |(mut file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let most = left.min(FILE_PIECE_BYTES as u64);
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::with_capacity(most as usize); // at most FILE_PIECE_BYTES
            let read = (&mut file).take(most).read_to_end(&mut piece);
            read.map(|_| (piece, file))
        });
        match read.await {
            // Shorter than its Content-Length: hyper breaks the connection, as it should.
            Ok(Ok((piece, _))) if piece.is_empty() => Ok(None),
            Ok(Ok((piece, file))) => {
                let left = left - piece.len() as u64;
                Ok(Some((Bytes::from(piece), (file, left))))
            }
            Ok(Err(e)) => Err(Refusal::new(
                "unreadable_file",
                format!("reading a file of the job: {e}"),
            )),
            Err(e) => Err(Refusal::new(
                "bug",
                format!("reading a file of the job: {e}"),
            )),
        }
    })
}

/// Counts the request as under way until its answer is sent, or given up.
pub(super) fn while_sent(answer: Response<Body>, busy: Busy) -> Response<Body> {
    answer.map(|body| {
        if body.is_end_stream() {
            return body;
        }
        body.map_frame(move |frame| {
            let _under_way = &busy;
            frame
        })
        .boxed_unsync()
    })
}

/// The next bytes of a request's body; None at its end.
pub(super) async fn next(body: &mut Incoming, stall: Duration) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = tokio::time::timeout(stall, body.frame())
            .await
            .map_err(|_| {
                Refusal::new(
                    "body_stalled",
                    format!(
                        "no more of the request's body came for {} s",
                        stall.as_secs_f32()
                    ),
                )
            })?;
        match frame {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(e)) => {
                return Err(Refusal::new(
                    "bad_request",
                    format!("the request's body was cut: {e}"),
                ));
            }
        }
    }
}

/// A whole body of at most `most` bytes.
pub(super) async fn whole(
    mut body: Incoming,
    most: usize,
    stall: Duration,
) -> Result<Vec<u8>, Refusal> {
    let mut all = Vec::new();
    while let Some(data) = next(&mut body, stall).await? {
        if all.len() + data.len() > most {
            discard(body).await;
            return Err(Refusal::new(
                "body_too_large",
                format!("the request's body is over {most} bytes"),
            ));
        }
        all.extend_from_slice(&data);
    }
    Ok(all)
}

/// Reads on, within bounds, what nobody wants: a connection that is closed with something unread takes the answer back
/// (TCP answers with a reset).
pub(super) async fn discard(mut body: Incoming) {
    let mut left = DISCARDED_BYTES;
    let discarding = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    // Whoever sends more, or for longer, may not hear why it was refused.
    let _ = tokio::time::timeout(TURN_AWAY_WITHIN, discarding).await;
}

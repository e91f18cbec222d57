//! Packing and unpacking beside an async task: a thread does the file work, a short channel of bytes joins the two,
//! so that a slow peer holds back the thread and a slow disk the peer.
//!
//! These are threads of their own and not tokio's blocking pool: they live as long as a slow transfer does.

use crate::error::StagingError;
use crate::limits::Limits;
use crate::pack::{Packed, pack, pack_but};
use crate::stock::Stock;
use crate::sums::Sums;
use crate::unpack::{Unpacked, unpack, unpack_with};
use bytes::{Buf, Bytes, BytesMut};
use kumiko_linux::Dir;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// Size of the pieces that an archive is handed over in: one frame of a session.
pub const PIECE_BYTES: usize = 32 * 1024;
/// Pieces between thread and task.
const PIECES: usize = 8;

/// An archive that is being unpacked from pieces. Dropped before `finish`, it counts as cut.
#[derive(Debug)]
pub struct Unpacking {
    pieces: mpsc::Sender<Piece>,
    result: oneshot::Receiver<Result<Unpacked, StagingError>>,
}

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
}

impl Unpacking {
    pub fn start(folder: PathBuf, limits: Limits) -> Unpacking {
        Self::with(move |archive| unpack(archive, &folder, limits))
    }

    /// As `start`, with a stock ([`unpack_with`]); a folder that is not whole in the end is removed, with what was in it before.
    pub fn whole_or_gone(folder: PathBuf, limits: Limits, stock: Option<Arc<Stock>>) -> Unpacking {
        Self::with(move |archive| {
            let unpacked = unpack_with(archive, &folder, limits, stock.as_deref());
            if let (Err(_), Some(above), Some(name)) =
                (&unpacked, folder.parent(), folder.file_name())
            {
                // The first error is the one to tell; what stays is as it would have been.
                let _ = Dir::open(above).and_then(|above| above.remove_all(name));
            }
            unpacked
        })
    }

    fn with(
        work: impl FnOnce(PieceReader) -> Result<Unpacked, StagingError> + Send + 'static,
    ) -> Unpacking {
        let (pieces, from) = mpsc::channel(PIECES);
        let archive = PieceReader {
            from,
            now: Bytes::new(),
            ended: false,
        };
        Unpacking {
            pieces,
            result: worker(move || work(archive)),
        }
    }

    /// The next bytes; waits while the disk is busy.
    ///
    /// # Errors
    /// The unpacking has failed; nothing more is needed of the archive.
    pub async fn push(&mut self, data: Bytes) -> Result<(), StagingError> {
        if self.pieces.send(Piece::Data(data)).await.is_ok() {
            return Ok(());
        }
        match settled((&mut self.result).await) {
            Err(e) => Err(e),
            Ok(_) => Err(StagingError::Header {
                what: "too much follows its end",
            }),
        }
    }

    /// There is no more.
    ///
    /// # Errors
    /// As [`unpack`].
    pub async fn finish(self) -> Result<Unpacked, StagingError> {
        let _ = self.pieces.send(Piece::End).await; // if it has failed already, the result tells
        settled(self.result.await)
    }
}

/// An archive that is being packed into pieces. Dropped, it stops.
#[derive(Debug)]
pub struct Packing {
    pieces: mpsc::Receiver<Bytes>,
    result: Option<oneshot::Receiver<Result<Packed, StagingError>>>,
    packed: Packed,
}

impl Packing {
    pub fn start(folder: PathBuf, since_us: Option<u64>, limits: Limits) -> Packing {
        Self::with(move |out| pack(&folder, since_us, limits, out))
    }

    /// As `start`, but of files in `held` only the SHA-256s are packed.
    pub fn start_but(folder: PathBuf, held: Sums, limits: Limits) -> Packing {
        Self::with(move |out| pack_but(&folder, &held, None, limits, out))
    }

    fn with(
        work: impl FnOnce(PieceWriter) -> Result<Packed, StagingError> + Send + 'static,
    ) -> Packing {
        let (to, pieces) = mpsc::channel(PIECES);
        let out = PieceWriter {
            to,
            now: BytesMut::with_capacity(PIECE_BYTES),
        };
        Packing {
            pieces,
            result: Some(worker(move || work(out))),
            packed: Packed::default(),
        }
    }

    /// The next bytes; None: that was all, and [`Packing::packed`] tells what it was.
    ///
    /// # Errors
    /// As [`pack`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, StagingError> {
        if let Some(piece) = self.pieces.recv().await {
            return Ok(Some(piece));
        }
        if let Some(result) = self.result.take() {
            self.packed = settled(result.await)?;
        }
        Ok(None)
    }

    pub fn packed(&self) -> Packed {
        self.packed
    }
}

pub(crate) fn worker<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StagingError> + Send + 'static,
) -> oneshot::Receiver<Result<T, StagingError>> {
    let (tell, result) = oneshot::channel();
    let spawned = thread::Builder::new()
        .name("staging".to_owned())
        .spawn(move || {
            let _ = tell.send(work()); // nobody waits for it any more
        });
    match spawned {
        Ok(_) => result,
        Err(cause) => {
            let (tell, result) = oneshot::channel();
            let _ = tell.send(Err(StagingError::Thread { cause })); // the receiver is here
            result
        }
    }
}

pub(crate) fn settled<T>(
    result: Result<Result<T, StagingError>, oneshot::error::RecvError>,
) -> Result<T, StagingError> {
    result.unwrap_or_else(|_| {
        Err(StagingError::Thread {
            cause: io::Error::other("it ended without a result (a bug)"),
        })
    })
}

struct PieceReader {
    from: mpsc::Receiver<Piece>,
    now: Bytes,
    ended: bool,
}

impl Read for PieceReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.now.is_empty() {
            if self.ended {
                return Ok(0);
            }
            match self.from.blocking_recv() {
                Some(Piece::Data(data)) => self.now = data,
                Some(Piece::End) => self.ended = true,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = self.now.len().min(buf.len());
        self.now.copy_to_slice(&mut buf[..count]);
        Ok(count)
    }
}

struct PieceWriter {
    to: mpsc::Sender<Bytes>,
    now: BytesMut,
}

impl Write for PieceWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let count = data.len().min(PIECE_BYTES - self.now.len());
        self.now.extend_from_slice(&data[..count]);
        if self.now.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.now.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.now, BytesMut::with_capacity(PIECE_BYTES)).freeze();
        self.to
            .blocking_send(piece)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

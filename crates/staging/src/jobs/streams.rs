//! Output streams on their way while the job runs (S9 to S11).

use super::{Inner, blocking, parse, places, url_copy};
use crate::cache::NO_TAG;
use crate::fault::TransferError;
use crate::gass::PIECE_BYTES;
use crate::gass::client::Write;
use bytes::Bytes;
use futures_util::stream;
use kumiko_job::staging::stream_item;
use kumiko_job::transfer::{Source, Streamed, Work};
use kumiko_job::url::{Scheme, looks_like_url};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub async fn stream(
    ours: &Arc<Inner>,
    job: &Work,
    what: Streamed<'_>,
) -> Result<u64, TransferError> {
    let from = what.to.position;
    if !looks_like_url(&what.to.to) {
        let (directory, path) = (job.directory.clone(), what.to.to.clone());
        let file = blocking(move || places::create(&directory, &path)).await?;
        return write(what.bytes, from, file, Path::new(&what.to.to)).await;
    }
    let url = parse(&what.to.to)?;
    Inner::may_speak(job, &url)?;
    match url.scheme {
        Scheme::Cache => {
            let (cache, key) = (ours.cache(job).await?, url.path().to_owned());
            let (held, tag) = (Arc::clone(&cache), what.to.tag.clone());
            let tag = tag.unwrap_or_else(|| NO_TAG.to_owned());
            let file = blocking(move || Ok(held.grow(&key, &tag)?)).await?;
            write(what.bytes, from, file, cache.directory()).await
        }
        Scheme::Gsiftp => {
            // GridFTP's clients want a whole file.
            let place = places::under_way(&ours.setup.directory, job.job);
            places::private(&place).map_err(TransferError::local("making", &place))?;
            let name = places::name_of(stream_item(what.stream, what.index));
            let path = place.join(format!("{name}.whole"));
            let file = File::create(&path).map_err(TransferError::local("writing", &path))?;
            write(what.bytes, from, file, &path).await?;
            let file = File::open(&path).map_err(TransferError::local("reading", &path))?;
            url_copy::send(ours, job, file, &url).await
        }
        Scheme::Https | Scheme::Http | Scheme::File => {
            let client = ours.client(job)?;
            let is_live = matches!(url.path(), "/dev/stdout" | "/dev/stderr");
            if !is_live && from == 0 {
                // The whole file, or none of it.
                return client
                    .send(&url, Write::Put, pieces(what.bytes, 0), |_| ())
                    .await;
            }
            let how = if is_live { Write::Put } else { Write::Append };
            let mark = Mark::open(ours, job, &what)?;
            let begin = mark.read().max(from);
            let said = mark.clone();
            let sent = client
                .send(&url, how, pieces(what.bytes, begin), move |sent| {
                    said.write(begin + sent);
                })
                .await?;
            Ok(begin - from + sent)
        }
    }
}

/// The bytes of a stream as pieces of an upload.
fn pieces(
    source: Arc<dyn Source>,
    offset: u64,
) -> impl stream::Stream<Item = Result<Bytes, TransferError>> + Send {
    stream::unfold((source, offset), |(source, offset)| async move {
        match source.read(offset, PIECE_BYTES).await {
            Ok(None) => None,
            Ok(Some(piece)) => {
                let next = offset + piece.len() as u64;
                Some((Ok(piece), (source, next)))
            }
            Err(cause) => Some((Err(TransferError::Source { cause }), (source, offset))),
        }
    })
}

async fn write(
    source: Arc<dyn Source>,
    from: u64,
    mut file: File,
    path: &Path,
) -> Result<u64, TransferError> {
    let mut offset = from;
    let read = |cause| TransferError::Source { cause };
    while let Some(piece) = source.read(offset, PIECE_BYTES).await.map_err(read)? {
        offset += piece.len() as u64;
        let path = path.to_owned();
        file = blocking(move || {
            file.write_all(&piece)
                .map_err(TransferError::local("writing", &path))?;
            Ok(file)
        })
        .await?;
    }
    let path = path.to_owned();
    blocking(move || {
        file.sync_all()
            .map_err(TransferError::local("writing", &path))
    })
    .await?;
    Ok(offset - from)
}

/// How far a stream was handed to the network, for a site that comes after a kill: eight bytes, written in place. The
/// kernel has them, so they survive us; they run ahead of what arrived by what was on its way.
#[derive(Clone)]
struct Mark(Arc<File>);

impl Mark {
    fn open(ours: &Inner, job: &Work, what: &Streamed<'_>) -> Result<Mark, TransferError> {
        let place: PathBuf = places::under_way(&ours.setup.directory, job.job);
        let name = places::name_of(stream_item(what.stream, what.index));
        let path = place.join(format!("{name}-{}.sent", what.given));
        let open = || {
            places::private(&place)?;
            let mut options = File::options();
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        };
        let file = open().map_err(TransferError::local("writing", &path))?;
        Ok(Mark(Arc::new(file)))
    }

    fn read(&self) -> u64 {
        let mut bytes = [0; 8];
        match self.0.read_exact_at(&mut bytes, 0) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => 0,
        }
    }

    fn write(&self, sent: u64) {
        // Without it a stream that was cut begins anew: better twice than not at all.
        let _ = self.0.write_all_at(&sent.to_le_bytes(), 0);
    }
}

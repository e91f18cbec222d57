//! One request of GASS, answered (spec/staging, G2 to G4): files by descriptor, whole or not at all.

use super::PIECE_BYTES;
use super::server::{Rights, Root, Sink};
use super::target::{self, Asked, Place, Verb};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue, IF_RANGE, RANGE,
};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use kumiko_linux::Dir;
use kumiko_linux::dir::{Kind, Meta};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// What of a refused upload is read on, so that its sender hears the refusal and not a reset (tcp(7)).
const DISCARDED_BYTES: usize = 16 << 20;
const DISCARDED_WITHIN: Duration = Duration::from_secs(5);

/// Why a request is not done: status and words for the client.
#[derive(Debug)]
struct No(StatusCode, String);

impl No {
    fn forbidden(what: &str) -> No {
        No(StatusCode::FORBIDDEN, what.to_owned())
    }

    fn file(path: &Path) -> impl Fn(io::Error) -> No + '_ {
        move |error| {
            let status = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StatusCode::NOT_FOUND,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    StatusCode::INSUFFICIENT_STORAGE
                }
                _ => StatusCode::FORBIDDEN,
            };
            No(status, format!("{}: {error}", path.display()))
        }
    }
}

pub(super) async fn answer(
    rights: &std::sync::Arc<Rights>,
    request: Request<Incoming>,
    end: &watch::Sender<bool>,
) -> Answer {
    let (head, mut body) = request.into_parts();
    let done = match target::read(head.method.as_str(), &head.uri.to_string()) {
        Err(error) => Err(No(StatusCode::BAD_REQUEST, error.to_string())),
        Ok(Asked { verb, place }) => match (verb, place) {
            (Verb::Put | Verb::Append, Place::Stdout) => {
                to_sink(rights.stdout.as_ref(), &mut body).await
            }
            (Verb::Put | Verb::Append, Place::Stderr) => {
                to_sink(rights.stderr.as_ref(), &mut body).await
            }
            (Verb::Put | Verb::Append, Place::Shutdown) if rights.shutdown => {
                end.send_replace(true);
                Ok(nothing())
            }
            (_, Place::Stdout | Place::Stderr | Place::Shutdown) => {
                Err(No::forbidden("that is not done here"))
            }
            (verb, place) => match file_of(rights, place) {
                Err(no) => Err(no),
                Ok(path) => match verb {
                    Verb::Get => give(rights, path, &head.headers).await,
                    Verb::Put => take(rights, path, &mut body).await,
                    Verb::Append => append(rights, path, &mut body).await,
                },
            },
        },
    };
    match done {
        Ok(answer) => answer,
        Err(No(status, words)) => {
            discard(body).await;
            tracing::info!(%status, %words, "a GASS request is refused");
            refusal(status, &words)
        }
    }
}

/// The absolute path that is meant.
fn file_of(rights: &Rights, place: Place) -> Result<PathBuf, No> {
    match place {
        Place::File(path) => Ok(path),
        Place::Home { user: None, below } => match &rights.home {
            Some(home) => Ok(home.join(below)),
            None => Err(No::forbidden("~ means nothing here")),
        },
        // Homes of others are theirs.
        Place::Home { .. } => Err(No::forbidden("homes of others are not served")),
        Place::Stdout | Place::Stderr | Place::Shutdown => Err(No::forbidden("that is no file")),
    }
}

fn root<'a>(rights: &'a Rights, path: &Path, write: bool) -> Result<(&'a Root, PathBuf), No> {
    match rights.find(path) {
        Some((root, below)) if (write && root.write) || (!write && root.read) => Ok((root, below)),
        Some(_) if write => Err(No::forbidden("nothing may be written there")),
        _ => Err(No::forbidden("nothing is given from there")),
    }
}

/// Work on files, away from the threads that serve connections.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, No> + Send + 'static,
) -> Result<T, No> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(No(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

async fn give(
    rights: &std::sync::Arc<Rights>,
    path: PathBuf,
    fields: &HeaderMap,
) -> Result<Answer, No> {
    let rights = std::sync::Arc::clone(rights);
    let (mut file, meta) = blocking(move || {
        let (root, below) = root(&rights, &path, false)?;
        let told = No::file(&path);
        let meta = root.dir().stat(&below).map_err(&told)?;
        plain(&meta, &path)?;
        let file = root.dir().open_file(&below).map_err(&told)?;
        // What was opened counts, should it have been exchanged in between.
        let held = file.metadata().map_err(&told)?;
        if !held.is_file() || held.len() != meta.size_bytes {
            return Err(No(StatusCode::CONFLICT, "the file is changing".to_owned()));
        }
        Ok((file, meta))
    })
    .await?;
    let tag = tag(&meta);
    let text = |name| {
        fields
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let from = text(RANGE)
        .and_then(target::range_from)
        .filter(|from| *from > 0 && *from < meta.size_bytes)
        .filter(|_| text(IF_RANGE).is_none_or(|theirs| theirs == tag));
    let begins_at = from.unwrap_or(0);
    file.seek(SeekFrom::Start(begins_at))
        .map_err(|error| No(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let length = meta.size_bytes - begins_at;
    let mut answer = Response::builder()
        .header(CONTENT_TYPE, "application/octet-stream")
        .header(CONTENT_LENGTH, length)
        .header(ACCEPT_RANGES, "bytes")
        .header(ETAG, tag);
    if begins_at > 0 {
        let (last, whole) = (meta.size_bytes - 1, meta.size_bytes);
        answer = answer
            .status(StatusCode::PARTIAL_CONTENT)
            .header(CONTENT_RANGE, format!("bytes {begins_at}-{last}/{whole}"));
    }
    answer
        .body(pieces(file, length))
        .map_err(|error| No(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Names this state of a file: any write changes at least one of its times, which no program can set back (`changed`).
fn tag(meta: &Meta) -> String {
    let (inode, size) = (meta.inode, meta.size_bytes);
    let (modified, changed) = (meta.modified.as_nanos(), meta.changed.as_nanos());
    format!("\"{inode:x}-{size:x}-{modified:x}-{changed:x}\"")
}

fn plain(meta: &Meta, path: &Path) -> Result<(), No> {
    let words = match meta.kind {
        Kind::File => return Ok(()),
        Kind::Link => "is a link, which is not followed",
        Kind::Directory => "is a directory",
        Kind::Other => "is no plain file",
    };
    let status = StatusCode::FORBIDDEN;
    Err(No(status, format!("{} {words}", path.display())))
}

fn pieces(file: File, length: u64) -> UnsyncBoxBody<Bytes, io::Error> {
    let pieces = stream::try_unfold((file, length), |(mut file, left)| async move {
        if left == 0 {
            return Ok::<_, io::Error>(None);
        }
        let most = left.min(PIECE_BYTES as u64);
        let (piece, file) = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let read = (&mut file).take(most).read_to_end(&mut piece);
            read.map(|_| (piece, file))
        })
        .await
        .map_err(io::Error::other)??;
        if piece.is_empty() {
            return Err(io::Error::other("the file was cut short meanwhile"));
        }
        let left = left - piece.len() as u64;
        Ok(Some((Frame::data(Bytes::from(piece)), (file, left))))
    });
    StreamBody::new(pieces.boxed()).boxed_unsync()
}

/// Where an upload is written before it has its name. Not to be guessed, so that nobody waits there for it.
fn part_beside(below: &Path) -> PathBuf {
    let random = || RandomState::new().build_hasher().finish();
    below.with_file_name(format!(".part-{:016x}{:016x}", random(), random()))
}

async fn take(
    rights: &std::sync::Arc<Rights>,
    path: PathBuf,
    body: &mut Incoming,
) -> Result<Answer, No> {
    let (opened, named) = (std::sync::Arc::clone(rights), path.clone());
    let (file, below, part) = blocking(move || {
        let (root, below) = root(&opened, &named, true)?;
        let told = No::file(&named);
        match root.dir().stat(&below) {
            Ok(meta) => plain(&meta, &named)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(told(error)),
        }
        let part = part_beside(&below);
        let file = root.dir().create_file(&part, 0o666).map_err(&told)?;
        Ok((file, below, part))
    })
    .await?;
    let written = write_all(file, body, &path).await;
    let rights = std::sync::Arc::clone(rights);
    blocking(move || {
        let (root, _) = root(&rights, &path, true)?;
        let finish = || {
            let file = written?;
            let told = No::file(&path);
            file.sync_all().map_err(&told)?;
            root.dir()
                .rename(&part, root.dir(), &below)
                .map_err(&told)?;
            sync_parent(root.dir(), &below).map_err(&told)
        };
        finish().inspect_err(|_| {
            // It may have been renamed already, or the disk is gone; the first error counts.
            let _ = root.dir().remove_file(&part);
        })
    })
    .await?;
    Ok(nothing())
}

fn sync_parent(root: &Dir, below: &Path) -> io::Result<()> {
    match below
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => root.open_dir(parent)?.sync(),
        None => root.sync(),
    }
}

async fn append(
    rights: &std::sync::Arc<Rights>,
    path: PathBuf,
    body: &mut Incoming,
) -> Result<Answer, No> {
    let (rights, named) = (std::sync::Arc::clone(rights), path.clone());
    let file = blocking(move || {
        let (root, below) = root(&rights, &named, true)?;
        let told = No::file(&named);
        let file = root.dir().append_file(&below, 0o666).map_err(&told)?;
        if !file.metadata().map_err(&told)?.is_file() {
            return Err(No::forbidden("only plain files are appended to"));
        }
        Ok(file)
    })
    .await?;
    let file = write_all(file, body, &path).await?;
    blocking(move || file.sync_all().map_err(No::file(&path))).await?;
    Ok(nothing())
}

/// The next bytes of an upload. It may pause for as long as it likes (a job that says nothing): that its sender lives is
/// the kernel's to find out (keepalive).
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, No> {
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Err(error) => {
                let words = format!("the upload was cut: {error}");
                return Err(No(StatusCode::BAD_REQUEST, words));
            }
        }
    }
    Ok(None)
}

async fn write_all(mut file: File, body: &mut Incoming, path: &Path) -> Result<File, No> {
    while let Some(data) = next(body).await? {
        let path = path.to_owned();
        file = blocking(move || {
            file.write_all(&data).map_err(No::file(&path))?;
            Ok(file)
        })
        .await?;
    }
    Ok(file)
}

async fn to_sink(sink: Option<&Sink>, body: &mut Incoming) -> Result<Answer, No> {
    let sink = sink.ok_or_else(|| No::forbidden("that stream is not offered here"))?;
    while let Some(data) = next(body).await? {
        // Pieces of several writers stay whole, and are seen at once.
        let mut to = sink.lock().await;
        let written = async {
            to.write_all(&data).await?;
            to.flush().await
        };
        written
            .await
            .map_err(|error| No(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    }
    Ok(nothing())
}

fn nothing() -> Answer {
    Response::new(
        Full::new(Bytes::new())
            .map_err(|never| match never {})
            .boxed_unsync(),
    )
}

fn refusal(status: StatusCode, words: &str) -> Answer {
    let text = Bytes::from(format!("{words}\n"));
    let mut answer = Response::new(
        Full::new(text)
            .map_err(|never| match never {})
            .boxed_unsync(),
    );
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

async fn discard(mut body: Incoming) {
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
    let _ = tokio::time::timeout(DISCARDED_WITHIN, discarding).await;
}

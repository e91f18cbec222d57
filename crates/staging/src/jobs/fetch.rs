//! One file, fetched or sent (S5 to S8).

use super::brought::bring;
use super::{Inner, blocking, parse, places, tag_of, url_copy};
use crate::cache::Cache;
use crate::fault::TransferError;
use crate::gass::PIECE_BYTES;
use crate::gass::client::{Reading, Resume, Write};
use crate::stock::Sum;
use bytes::Bytes;
use futures_util::stream;
use kumiko_job::description::{StageIn, StageOut};
use kumiko_job::transfer::{Fetch, Work};
use kumiko_job::url::{Scheme, Url};
use kumiko_linux::Dir;
use kumiko_policy::{GuestPath, Real, Seen};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More than any file that a job is sent by these ways; only stops what is out of all measure. The disk's room is the
/// real limit.
const MOST_BYTES: u64 = 1 << 40;
/// Of a validator that is kept beside a part.
const VALIDATOR_BYTES: u64 = 4096;

pub async fn fetch(
    ours: &Arc<Inner>,
    job: &Work,
    what: &StageIn,
    how: Fetch,
) -> Result<u64, TransferError> {
    let url = parse(&what.from)?;
    Inner::may_speak(job, &url)?;
    let place = places::under_way(&ours.setup.directory, job.job);
    places::private(&place).map_err(TransferError::local("making", &place))?;
    let part = place.join(format!("{}.part", places::name_of(how.item)));
    let source = match (how.shared, url.scheme) {
        (true, scheme) if scheme != Scheme::Cache => Some(shared(ours, job, &url, what).await?),
        (_, Scheme::Cache) => Some(cached(ours.cache(job).await?, url.path().to_owned()).await?),
        (_, Scheme::File) => Some(shown(job, &url).await?),
        _ => None,
    };
    match source {
        Some(file) => {
            copy(file, part.clone()).await?;
            approve(&url, what, &part).await?;
        }
        None => bring(ours, job, &url, what, &part).await?,
    }
    let (directory, wanted) = (job.directory.clone(), what.to.clone());
    let mode = if how.executable { 0o700 } else { 0o600 };
    blocking(move || {
        let bytes = std::fs::metadata(&part)
            .map_err(TransferError::local("reading", &part))?
            .len();
        places::install(&part, &directory, &wanted, mode)?;
        discard_validator(&part);
        Ok(bytes)
    })
    .await
}

/// A file over the network, whole, at `part`.
pub(super) async fn remote(
    ours: &Arc<Inner>,
    job: &Work,
    url: &Url,
    part: &Path,
) -> Result<(), TransferError> {
    if url.scheme == Scheme::Gsiftp {
        return url_copy::fetch(ours, job, url, part).await;
    }
    let client = ours.client(job)?;
    let resume = resume_at(part);
    let mut reading = match client.get(url, resume.as_ref()).await {
        // The file has become shorter than what is here, and the server does not look at its name for it.
        Err(TransferError::Denied { status: 416, .. }) if resume.is_some() => {
            discard(part).map_err(TransferError::local("removing", part))?;
            client.get(url, None).await?
        }
        answer => answer?,
    };
    if reading.length.is_some_and(|length| length > MOST_BYTES) {
        return Err(too_large(url));
    }
    let (mut file, beginning) = begin(part, &reading)?;
    let mut bytes = beginning;
    while let Some(data) = reading.next().await? {
        bytes += data.len() as u64;
        if bytes > MOST_BYTES {
            return Err(too_large(url));
        }
        let path = part.to_owned();
        file = blocking(move || {
            file.write_all(&data)
                .map_err(TransferError::local("writing", &path))?;
            Ok(file)
        })
        .await?;
    }
    match reading.length {
        Some(length) if length != bytes => Err(TransferError::Cut {
            url: url.to_string(),
            bytes,
            cause: format!("{length} were announced"),
        }),
        _ => Ok(()),
    }
}

fn too_large(url: &Url) -> TransferError {
    TransferError::TooLarge {
        url: url.to_string(),
        limit: MOST_BYTES,
    }
}

fn validator_of(part: &Path) -> PathBuf {
    part.with_extension("tag")
}

/// Where a part that was cut can be gone on with. It was written by us alone, so its length is what came.
fn resume_at(part: &Path) -> Option<Resume> {
    let at = std::fs::metadata(part).ok()?.len();
    let mut validator = String::new();
    let file = File::open(validator_of(part)).ok()?;
    file.take(VALIDATOR_BYTES)
        .read_to_string(&mut validator)
        .ok()?;
    (at > 0 && !validator.is_empty()).then_some(Resume { at, validator })
}

/// The part, to be written on from where the server begins, and where that is.
fn begin(part: &Path, reading: &Reading) -> Result<(File, u64), TransferError> {
    let begin = || {
        let at = reading.begins_at;
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(at == 0)
            .open(part)?;
        file.set_len(at)?;
        file.seek(SeekFrom::Start(at))?;
        if at == 0 {
            // Of this content from here on: without one it is not gone on with.
            match &reading.validator {
                Some(validator) => std::fs::write(validator_of(part), validator)?,
                None => discard_validator(part),
            }
        }
        Ok((file, at))
    };
    begin().map_err(TransferError::local("writing", part))
}

fn discard_validator(part: &Path) {
    // One that stays is of no harm: what it would be used with is gone.
    let _ = std::fs::remove_file(validator_of(part));
}

pub(super) fn discard(part: &Path) -> io::Result<()> {
    discard_validator(part);
    std::fs::remove_file(part)
}

/// Whether what came is what was to come; if not it goes.
pub(super) async fn approve(url: &Url, what: &StageIn, part: &Path) -> Result<(), TransferError> {
    let (url, what, part) = (url.clone(), what.clone(), part.to_owned());
    blocking(move || check(&url, &what, &part).inspect_err(|_| drop(discard(&part)))).await
}

fn check(url: &Url, what: &StageIn, part: &Path) -> Result<(), TransferError> {
    let local = || TransferError::local("reading", part);
    let file = File::open(part).map_err(local())?;
    let bytes = file.metadata().map_err(local())?.len();
    let wrong = |what, found: String, expected: &str| TransferError::Mismatch {
        url: url.to_string(),
        what,
        found,
        expected: expected.to_owned(),
    };
    if let Some(expected) = what.bytes.filter(|expected| *expected != bytes) {
        return Err(wrong(
            "its length",
            bytes.to_string(),
            &expected.to_string(),
        ));
    }
    if let Some(expected) = &what.sha256 {
        let found = Sum::of(file).map_err(local())?.to_string();
        if !found.eq_ignore_ascii_case(expected) {
            return Err(wrong("its SHA-256", found, expected));
        }
    }
    Ok(())
}

/// A file of this host, to be written whole at `to`. Where file systems can share blocks they do (copy_file_range(2)).
pub(super) async fn copy(mut from: File, to: PathBuf) -> Result<(), TransferError> {
    blocking(move || {
        let mut copy = || {
            let mut options = File::options();
            let mut file = options.write(true).create(true).truncate(true).open(&to)?;
            io::copy(&mut from, &mut file)
        };
        copy().map_err(TransferError::local("writing", &to))?;
        Ok(())
    })
    .await
}

/// A file of this host that the job's policy shows to it.
async fn shown(job: &Work, url: &Url) -> Result<File, TransferError> {
    let path = PathBuf::from(std::ffi::OsString::from_vec(url.decoded_path()));
    let text = path.display().to_string();
    let hidden = |why: String| TransferError::Hidden {
        path: text.clone(),
        why,
    };
    let guest = GuestPath::new(&text).map_err(|error| hidden(error.to_string()))?;
    let decision = job.policy.explain(&guest);
    let by = || hidden(decision.origin.to_string());
    match &decision.seen {
        Seen::Shown {
            real: Real::Host { root, beneath },
            ..
        } => {
            let (root, beneath) = (PathBuf::from(root.as_str()), PathBuf::from(beneath));
            blocking(move || host_file(&root, &beneath)).await
        }
        Seen::Shown {
            real: Real::Job { beneath },
            ..
        } => {
            let (directory, beneath) = (job.directory.clone(), beneath.clone());
            blocking(move || places::made(&directory, &beneath)).await
        }
        Seen::Temporary | Seen::Denied | Seen::Hidden | Seen::Absent | Seen::Made => Err(by()),
    }
}

/// `root` was named by the site's policy, and its links are followed; those beneath are not, unless they stay where the
/// job may look: a link is told by its own name, so that what it leads to can be asked for.
fn host_file(root: &Path, beneath: &Path) -> Result<File, TransferError> {
    let path = root.join(beneath);
    let open = || match beneath.as_os_str().is_empty() {
        true => File::open(root),
        false => Dir::open(root)?.open_file(beneath),
    };
    let file = open().map_err(TransferError::local("reading", &path))?;
    match file.metadata().is_ok_and(|meta| meta.is_file()) {
        true => Ok(file),
        false => Err(TransferError::NotAFile { path }),
    }
}

async fn cached(cache: Arc<Cache>, key: String) -> Result<File, TransferError> {
    blocking(move || Ok(cache.open(&key)?)).await
}

/// What many jobs name is fetched once, by whoever comes first.
async fn shared(
    ours: &Arc<Inner>,
    job: &Work,
    url: &Url,
    what: &StageIn,
) -> Result<File, TransferError> {
    let lock = ours.filling(url.as_str());
    let _mine = lock.lock().await;
    let cache = ours.cache(job).await?;
    let (held, text, tag) = (Arc::clone(&cache), url.to_string(), tag_of(job.job));
    let there = blocking(move || Ok(held.hold(&text, &tag)?)).await?;
    if !there {
        let place = places::under_way(&ours.setup.directory, job.job);
        let part = place.join("shared.part");
        match url.scheme {
            Scheme::File => {
                copy(shown(job, url).await?, part.clone()).await?;
                // What is wrong is not kept for others.
                approve(url, what, &part).await?;
            }
            _ => bring(ours, job, url, what, &part).await?,
        }
        let (cache, url) = (Arc::clone(&cache), url.clone());
        blocking(move || {
            let mut file = File::open(&part).map_err(TransferError::local("reading", &part))?;
            let mut kept = cache.part(url.as_str())?;
            io::copy(&mut file, &mut kept.file).map_err(TransferError::local("writing", &part))?;
            cache.keep(url.as_str(), kept)?;
            discard(&part).map_err(TransferError::local("removing", &part))
        })
        .await?;
    }
    cached(cache, url.to_string()).await
}

pub async fn send(ours: &Arc<Inner>, job: &Work, what: &StageOut) -> Result<u64, TransferError> {
    let url = parse(&what.to)?;
    Inner::may_speak(job, &url)?;
    let (directory, path) = (job.directory.clone(), what.from.clone());
    let file = blocking(move || places::made(&directory, &path)).await?;
    match url.scheme {
        Scheme::Gsiftp => url_copy::send(ours, job, file, &url).await,
        Scheme::Cache => keep(ours.cache(job).await?, url, file).await,
        Scheme::Https | Scheme::Http | Scheme::File => {
            let client = ours.client(job)?;
            client.send(&url, Write::Put, pieces(file), |_| ()).await
        }
    }
}

/// A file as the pieces of an upload.
fn pieces(file: File) -> impl stream::Stream<Item = Result<Bytes, TransferError>> + Send {
    stream::unfold(Some(file), |file| async move {
        let mut file = file?;
        let read = blocking(move || {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            (&mut file)
                .take(PIECE_BYTES as u64)
                .read_to_end(&mut piece)
                .map_err(TransferError::local(
                    "reading",
                    Path::new("a file of the job"),
                ))?;
            Ok((Bytes::from(piece), file))
        });
        match read.await {
            Ok((piece, _)) if piece.is_empty() => None,
            Ok((piece, file)) => Some((Ok(piece), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// A file becomes an entry of the cache.
async fn keep(cache: Arc<Cache>, url: Url, mut file: File) -> Result<u64, TransferError> {
    blocking(move || {
        let mut to = cache.grow(url.path(), crate::cache::NO_TAG)?;
        let mut copy = || {
            let bytes = io::copy(&mut file, &mut to)?;
            to.sync_all()?;
            Ok(bytes)
        };
        copy().map_err(TransferError::local("writing", cache.directory()))
    })
    .await
}

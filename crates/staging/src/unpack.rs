//! A tar archive as a folder (F2 to F4, F7). The archive is a stranger's: its names, kinds, sizes and headers are checked
//! before anything is made.
//!
//! Extended headers (GNU long names, pax) are read here and not by the tar crate, which would hold them whole,
//! whatever size they claim.

use crate::error::StagingError;
use crate::limits::{HEADER_BYTES, Limits, NAME_BYTES, PATH_BYTES, SUM, TRAILING_BYTES};
use crate::stock::{Stock, Sum, Summing};
use crate::sums::BIG_BYTES;
use kumiko_linux::Dir;
use kumiko_linux::dir::Kind;
use kumiko_linux::spooling;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tar::{Archive, Entry, EntryType, PaxExtensions};

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub entries: u64,
    pub bytes: u64,
}

/// Files while they are written in the place of others.
const PART: &str = ".kumiko-part";

/// Makes in `folder` what the archive holds; files that are there already are replaced, each at once.
///
/// # Errors
/// The archive is cut, wrong, unsafe or over the limits; the folder cannot be written. What was made until then stays.
pub fn unpack(input: impl Read, folder: &Path, limits: Limits) -> Result<Unpacked, StagingError> {
    unpack_with(input, folder, limits, None)
}

/// As [`unpack`]; what the archive only names is in `stock`, and big files that come are kept there (spec/staging, C15).
///
/// # Errors
/// As [`unpack`]; what it names is not there.
pub fn unpack_with(
    input: impl Read,
    folder: &Path,
    limits: Limits,
    stock: Option<&Stock>,
) -> Result<Unpacked, StagingError> {
    let root = Dir::open(folder).map_err(|e| StagingError::file("cannot open", folder, e))?;
    let mut archive = Archive::new(input);
    let mut unpacker = Unpacker {
        root,
        folder,
        limits,
        stock,
        unpacked: Unpacked::default(),
        directories: Vec::new(),
        long: Long::default(),
    };
    for entry in archive.entries().map_err(archive_error)?.raw(true) {
        unpacker.entry(entry.map_err(archive_error)?)?;
    }
    unpacker.close_directories()?;
    let mut rest = archive.into_inner().take(TRAILING_BYTES);
    if io::copy(&mut rest, &mut io::sink()).map_err(archive_error)? == TRAILING_BYTES {
        return Err(StagingError::Header {
            what: "too much follows its end",
        });
    }
    Ok(unpacker.unpacked)
}

fn archive_error(cause: io::Error) -> StagingError {
    if cause.kind() == io::ErrorKind::UnexpectedEof {
        StagingError::Cut
    } else {
        StagingError::Archive { cause }
    }
}

struct Unpacker<'a> {
    root: Dir,
    folder: &'a Path,
    limits: Limits,
    stock: Option<&'a Stock>,
    unpacked: Unpacked,
    /// Modes and times of directories are set at the end: a read-only one can be filled until then.
    directories: Vec<(PathBuf, u32, Duration)>,
    long: Long,
}

/// The file that an entry is to be.
struct To {
    path: PathBuf,
    shown: String,
    mode: u32,
    modified: Duration,
}

/// What extended headers say of the entry that follows.
#[derive(Default)]
struct Long {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    sum: Option<Sum>,
}

impl Unpacker<'_> {
    fn entry<R: Read>(&mut self, mut entry: Entry<'_, R>) -> Result<(), StagingError> {
        match entry.header().entry_type() {
            EntryType::GNULongName => {
                self.long.path = Some(without_nul(extended(&mut entry)?));
                return Ok(());
            }
            EntryType::GNULongLink => {
                self.long.link = Some(without_nul(extended(&mut entry)?));
                return Ok(());
            }
            EntryType::XHeader => return self.pax(&extended(&mut entry)?),
            // Defaults for all entries: a comment of `git archive`, as a rule. Nothing in it concerns us.
            EntryType::XGlobalHeader => return extended(&mut entry).map(drop),
            _ => {}
        }
        let long = std::mem::take(&mut self.long);
        let raw = long.path.unwrap_or_else(|| entry.path_bytes().into_owned());
        let shown = String::from_utf8_lossy(&raw).into_owned();
        let size = entry.header().entry_size().map_err(archive_error)?;
        if long.size.is_some_and(|said| said != size) {
            return Err(StagingError::Header {
                what: "two sizes for one file (write it with --format=gnu)",
            });
        }
        self.unpacked.entries += 1;
        if self.unpacked.entries > self.limits.entries {
            return Err(StagingError::Limit {
                of: "entries",
                limit: self.limits.entries,
                path: shown,
            });
        }
        let path = self.safe(&raw, &shown)?;
        let header = entry.header();
        let mode = header.mode().map_err(archive_error)? & 0o777;
        let modified = Duration::from_secs(header.mtime().map_err(archive_error)?);
        match header.entry_type() {
            EntryType::Directory => self.directory(path, mode, modified),
            EntryType::Regular | EntryType::Continuous => {
                let to = To {
                    path,
                    shown,
                    mode,
                    modified,
                };
                match long.sum {
                    Some(sum) if size == 0 => self.named(&to, &sum),
                    Some(_) => Err(StagingError::Header {
                        what: "content that is named by its SHA-256 comes as well",
                    }),
                    None => self.sent(&to, size, &mut entry),
                }
            }
            EntryType::Symlink => {
                let target = match long.link {
                    Some(link) => link,
                    None => entry
                        .link_name_bytes()
                        .map(|l| l.into_owned())
                        .unwrap_or_default(),
                };
                if target.is_empty() || target.len() >= PATH_BYTES || target.contains(&0) {
                    return Err(StagingError::Name {
                        path: shown,
                        what: "a link that says nothing, or too much",
                    });
                }
                self.symlink(&path, OsStr::from_bytes(&target))
            }
            other => Err(StagingError::Kind {
                path: shown,
                what: named(other),
            }),
        }
    }

    fn pax(&mut self, data: &[u8]) -> Result<(), StagingError> {
        for extension in PaxExtensions::new(data) {
            let extension = extension.map_err(|_| StagingError::Header {
                what: "a pax record is not one",
            })?;
            let value = extension.value_bytes();
            match extension.key_bytes() {
                b"path" => self.long.path = Some(value.to_vec()),
                b"linkpath" => self.long.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
                    self.long.size = Some(size.ok_or(StagingError::Header {
                        what: "a pax size is no number",
                    })?);
                }
                key if key == SUM.as_bytes() => {
                    let sum = std::str::from_utf8(value).ok().and_then(Sum::parse);
                    self.long.sum = Some(sum.ok_or(StagingError::Header {
                        what: "a SHA-256 does not have 64 hexadecimal digits",
                    })?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(StagingError::Header {
                        what: "sparse files are not taken (write it without --sparse)",
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The path, if it is relative, beneath, and within the limits; `./` parts are dropped.
    fn safe(&self, raw: &[u8], shown: &str) -> Result<PathBuf, StagingError> {
        let wrong = |what| StagingError::Name {
            path: shown.to_owned(),
            what,
        };
        if raw.contains(&0) {
            return Err(wrong("a name with a NUL"));
        }
        if raw.len() >= PATH_BYTES {
            return Err(wrong("too long a path"));
        }
        let mut path = PathBuf::new();
        for part in Path::new(OsStr::from_bytes(raw)).components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) if name.len() > NAME_BYTES => {
                    return Err(wrong("too long a name"));
                }
                Component::Normal(name) => path.push(name),
                Component::ParentDir => return Err(wrong("a path with ..")),
                Component::RootDir | Component::Prefix(_) => return Err(wrong("an absolute path")),
            }
        }
        if path.components().count() > self.limits.depth {
            return Err(StagingError::Limit {
                of: "directories in each other",
                limit: self.limits.depth as u64,
                path: shown.to_owned(),
            });
        }
        Ok(path)
    }

    fn directory(
        &mut self,
        path: PathBuf,
        mode: u32,
        modified: Duration,
    ) -> Result<(), StagingError> {
        if path.as_os_str().is_empty() {
            return Ok(()); // the folder itself
        }
        self.make_directory(&path)?;
        self.directories.push((path, mode | 0o700, modified));
        Ok(())
    }

    fn make_directory(&self, path: &Path) -> Result<(), StagingError> {
        let made = match self.root.mkdir(path, 0o755) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.parents(path)?;
                self.root.mkdir(path, 0o755)
            }
            made => made,
        };
        match made {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.is_directory(path) => Ok(()),
            made => made.map_err(|e| StagingError::file("cannot make the directory", path, e)),
        }
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.root
            .stat(path)
            .is_ok_and(|meta| meta.kind == Kind::Directory)
    }

    fn parents(&self, path: &Path) -> Result<(), StagingError> {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.make_directory(parent),
            _ => Ok(()),
        }
    }

    /// A file whose content is in the archive.
    fn sent(&mut self, to: &To, size: u64, data: &mut impl Read) -> Result<(), StagingError> {
        self.count(to, size)?;
        let Some(stock) = self.stock.filter(|_| size >= BIG_BYTES) else {
            let part = self.write(to, size, data)?;
            return self.place(to, part);
        };
        let mut summed = Summed::of(data);
        let part = self.write(to, size, &mut summed)?;
        self.place(to, part)?;
        let sum = summed.summing.sum();
        let kept = match stock.take(&sum) {
            Ok(Some(_)) => Ok(true),
            _ => {
                let file = self.root.open_file(&to.path);
                file.and_then(|file| stock.keep(&sum, file))
            }
        };
        // The upload is whole, whatever becomes of this.
        match kept {
            Ok(true) => {}
            Ok(false) => tracing::info!(%sum, "the stock has no room for what came"),
            Err(error) => tracing::warn!(%sum, %error, "what came is not kept"),
        }
        Ok(())
    }

    /// A file whose content is in the stock.
    fn named(&mut self, to: &To, sum: &Sum) -> Result<(), StagingError> {
        let not_stocked = || StagingError::NotStocked {
            path: to.shown.clone(),
        };
        let stock = self.stock.ok_or_else(not_stocked)?;
        // One that cannot be read is replaced by what comes.
        let file = stock.take(sum).ok().flatten().ok_or_else(not_stocked)?;
        let size = file
            .metadata()
            .map_err(|e| StagingError::file("cannot look at the stock's", &to.path, e))?
            .len();
        self.count(to, size)?;
        let mut summed = Summed::of(file);
        let part = self.write(to, size, &mut summed)?;
        if summed.summing.sum() == *sum {
            return self.place(to, part);
        }
        tracing::warn!(%sum, "an entry of the stock is of no use, and goes");
        if let Err(error) = stock.discard(sum) {
            tracing::warn!(%sum, %error, "it stays");
        }
        let _ = self.root.remove_file(part.as_deref().unwrap_or(&to.path)); // the error at hand is the one to tell
        Err(not_stocked())
    }

    fn count(&mut self, to: &To, size: u64) -> Result<(), StagingError> {
        self.unpacked.bytes = self.unpacked.bytes.saturating_add(size);
        if self.unpacked.bytes > self.limits.bytes {
            return Err(StagingError::Limit {
                of: "bytes",
                limit: self.limits.bytes,
                path: to.shown.clone(),
            });
        }
        Ok(())
    }

    /// Where its content is, if that is not its own name yet.
    fn write(
        &self,
        to: &To,
        size: u64,
        data: &mut impl Read,
    ) -> Result<Option<PathBuf>, StagingError> {
        let wrong = |doing| move |e| StagingError::file(doing, &to.path, e);
        self.make_way(size);
        let (mut file, part) = self.create(&to.path).map_err(wrong("cannot create"))?;
        let written = fill(&mut file, data, size);
        if let (Err(_), Some(part)) = (&written, &part) {
            let _ = self.root.remove_file(part); // the first error is the one to tell
        }
        written.map_err(|e| match e {
            Filled::Archive(e) => archive_error(e),
            Filled::File(e) => StagingError::file("cannot write", &to.path, e),
        })?;
        Ok(part)
    }

    /// On a disk that is full the stock makes room: it is not to keep anything from coming.
    fn make_way(&self, size: u64) {
        let Some(stock) = self.stock else {
            return;
        };
        let full = spooling::free_bytes(self.folder).is_ok_and(|free| free < size);
        if let Some(Err(error)) = full.then(|| stock.give_way()) {
            tracing::warn!(%error, "the stock does not give its room back");
        }
    }

    fn place(&self, to: &To, part: Option<PathBuf>) -> Result<(), StagingError> {
        let path = &to.path;
        let wrong = |doing| move |e| StagingError::file(doing, path, e);
        let place = part.as_deref().unwrap_or(path);
        self.root
            .set_modified(place, to.modified)
            .map_err(wrong("cannot set the time of"))?;
        // Whoever packs it again must be able to read it.
        self.root
            .set_mode(place, to.mode | 0o400)
            .map_err(wrong("cannot set the mode of"))?;
        match part {
            Some(part) => self
                .root
                .rename(&part, &self.root, path)
                .map_err(wrong("cannot replace")),
            None => Ok(()),
        }
    }

    /// A new file at `path`, or, if something is there, beside it: to be renamed once it is whole.
    fn create(&self, path: &Path) -> io::Result<(File, Option<PathBuf>)> {
        let created = match self.root.create_file(path, 0o600) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.parents(path).map_err(|_| e)?;
                self.root.create_file(path, 0o600)
            }
            created => created,
        };
        match created {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let part = path.with_file_name(PART);
                let _ = self.root.remove_file(&part); // of an unpacking that was cut
                Ok((self.root.create_file(&part, 0o600)?, Some(part)))
            }
            created => Ok((created?, None)),
        }
    }

    fn symlink(&self, path: &Path, target: &OsStr) -> Result<(), StagingError> {
        let wrong = |e| StagingError::file("cannot make the link", path, e);
        self.parents(path)?;
        match self.root.symlink(target, path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let part = path.with_file_name(PART);
                let _ = self.root.remove_file(&part); // of an unpacking that was cut
                self.root.symlink(target, &part).map_err(wrong)?;
                self.root.rename(&part, &self.root, path).map_err(wrong)
            }
            made => made.map_err(wrong),
        }
    }

    fn close_directories(&mut self) -> Result<(), StagingError> {
        for (path, mode, modified) in self.directories.drain(..).rev() {
            let wrong = |e| StagingError::file("cannot set the mode of", &path, e);
            self.root.set_modified(&path, modified).map_err(wrong)?;
            self.root.set_mode(&path, mode).map_err(wrong)?;
        }
        Ok(())
    }
}

/// Bytes, and the SHA-256 of those that were read.
struct Summed<R> {
    inner: R,
    summing: Summing,
}

impl<R> Summed<R> {
    fn of(inner: R) -> Summed<R> {
        let summing = Summing::default();
        Summed { inner, summing }
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        self.summing.add(buf.get(..read).unwrap_or_default());
        Ok(read)
    }
}

enum Filled {
    Archive(io::Error),
    File(io::Error),
}

fn fill(file: &mut File, data: &mut impl Read, size: u64) -> Result<(), Filled> {
    let mut buffer = vec![0; 64 * 1024];
    let mut left = size;
    while left > 0 {
        let read = data.read(&mut buffer).map_err(Filled::Archive)?;
        if read == 0 {
            return Err(Filled::Archive(io::ErrorKind::UnexpectedEof.into()));
        }
        io::Write::write_all(file, &buffer[..read]).map_err(Filled::File)?;
        left = left.saturating_sub(read as u64);
    }
    Ok(())
}

/// The content of an extended header.
fn extended<R: Read>(entry: &mut Entry<'_, R>) -> Result<Vec<u8>, StagingError> {
    let size = entry.header().entry_size().map_err(archive_error)?;
    if size > HEADER_BYTES {
        return Err(StagingError::Header {
            what: "an extended header is too long",
        });
    }
    let mut data = Vec::new();
    entry.read_to_end(&mut data).map_err(archive_error)?;
    if data.len() as u64 != size {
        return Err(StagingError::Cut);
    }
    Ok(data)
}

fn without_nul(mut name: Vec<u8>) -> Vec<u8> {
    if name.last() == Some(&0) {
        name.pop();
    }
    name
}

fn named(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Link => "a hard link (write it with --hard-dereference)",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a pipe",
        EntryType::GNUSparse => "a sparse file (write it without --sparse)",
        _ => "a kind that is not known",
    }
}

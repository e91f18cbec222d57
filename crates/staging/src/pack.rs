//! A folder as a tar archive (F1, F5, F7). Sockets, pipes and devices are left out; links are packed as links.

use crate::error::StagingError;
use crate::limits::{Limits, SUM};
use crate::sums::{Named, Sums};
use kumiko_linux::Dir;
use kumiko_linux::dir::Kind;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;
use tar::{Builder, EntryType, Header};

/// What was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    pub entries: u64,
    pub bytes: u64,
    /// Sockets, pipes, devices.
    pub left_out: u64,
}

/// Writes `folder`'s content to `out`; with `since_us` (a [`mark`]) only what is new or changed since.
///
/// # Errors
/// A file that cannot be read, a tree over the limits, `out` that takes no more.
pub fn pack(
    folder: &Path,
    since_us: Option<u64>,
    limits: Limits,
    out: impl Write,
) -> Result<Packed, StagingError> {
    pack_but(folder, &Sums::default(), since_us, limits, out)
}

/// As [`pack`], but of files in `held` it packs the SHA-256s.
pub(crate) fn pack_but(
    folder: &Path,
    held: &Sums,
    since_us: Option<u64>,
    limits: Limits,
    out: impl Write,
) -> Result<Packed, StagingError> {
    let root = Dir::open(folder).map_err(|e| StagingError::file("cannot open", folder, e))?;
    let mut builder = Builder::new(out);
    builder.follow_symlinks(false);
    let mut packer = Packer {
        builder,
        held,
        since_us,
        limits,
        packed: Packed::default(),
    };
    packer.directory(&root, Path::new(""), 1)?;
    packer
        .builder
        .finish()
        .map_err(|cause| StagingError::Archive { cause })?;
    packer
        .builder
        .get_mut()
        .flush()
        .map_err(|cause| StagingError::Archive { cause })?;
    Ok(packer.packed)
}

/// The time of a folder's filesystem, as `since_us` for [`pack`]: what is written before is not newer, and what is
/// written after this returns is. Kernel times step in ticks (4 ms at 250 Hz), so this waits for the next one.
///
/// # Errors
/// The folder cannot be written.
pub fn mark(folder: &Path) -> Result<u64, StagingError> {
    const NAME: &str = ".kumiko-mark";
    /// Far more than a tick of the slowest kernel clock (100 Hz).
    const TRIES: u32 = 200;
    let wrong = |e| StagingError::file("cannot write to", folder, e);
    let dir = Dir::open(folder).map_err(wrong)?;
    let now = || -> io::Result<u64> {
        drop(dir.create_file(NAME, 0o600)?);
        let changed = dir.stat(NAME)?.changed;
        dir.remove_file(NAME)?;
        Ok(micros(changed))
    };
    let mark = now().map_err(wrong)?;
    for _ in 0..TRIES {
        std::thread::sleep(Duration::from_micros(500));
        if now().map_err(wrong)? > mark {
            break;
        }
    }
    Ok(mark)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

struct Packer<'a, W: Write> {
    builder: Builder<W>,
    held: &'a Sums,
    since_us: Option<u64>,
    limits: Limits,
    packed: Packed,
}

impl<W: Write> Packer<'_, W> {
    /// Packs what is in `dir`, whose path in the archive is `at`.
    fn directory(&mut self, dir: &Dir, at: &Path, depth: usize) -> Result<(), StagingError> {
        let entries = dir
            .list()
            .map_err(|e| StagingError::file("cannot list", at, e))?;
        if depth > self.limits.depth && !entries.is_empty() {
            return Err(self.over("directories in each other", self.limits.depth as u64, at));
        }
        for entry in entries {
            let path = at.join(&entry.name);
            match self.entry(dir, Path::new(&entry.name), &path, depth) {
                // Something that runs in there has removed it meanwhile.
                Err(StagingError::File { cause, .. })
                    if cause.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: &Dir,
        name: &Path,
        path: &Path,
        depth: usize,
    ) -> Result<(), StagingError> {
        let wrong = |doing| move |e| StagingError::file(doing, path, e);
        let meta = dir.stat(name).map_err(wrong("cannot look at"))?;
        let fresh = self
            .since_us
            .is_none_or(|since| micros(meta.changed) > since);
        let mut header = Header::new_gnu();
        header.set_mode(meta.mode & 0o777);
        header.set_mtime(meta.modified.as_secs());
        header.set_size(0);
        match meta.kind {
            Kind::Directory => {
                if fresh {
                    self.count(0, path)?;
                    header.set_entry_type(EntryType::Directory);
                    self.append(header, path, io::empty())?;
                }
                let below = dir.open_dir(name).map_err(wrong("cannot open"))?;
                self.directory(&below, path, depth + 1)
            }
            Kind::Link if fresh => {
                let target = dir.read_link(name).map_err(wrong("cannot read the link"))?;
                self.count(0, path)?;
                header.set_entry_type(EntryType::Symlink);
                self.builder
                    .append_link(&mut header, path, target)
                    .map_err(|cause| StagingError::Archive { cause })
            }
            Kind::File if fresh => {
                if let Some(named) = self.held.0.get(path) {
                    return self.name(named, header, path);
                }
                let file = dir.open_file(name).map_err(wrong("cannot open"))?;
                let now = file.metadata().map_err(wrong("cannot look at"))?;
                if !now.is_file() {
                    self.packed.left_out += 1;
                    return Ok(());
                }
                self.count(now.len(), path)?;
                header.set_entry_type(EntryType::Regular);
                header.set_size(now.len());
                self.append(
                    header,
                    path,
                    Exactly {
                        inner: file,
                        left: now.len(),
                    },
                )
            }
            Kind::Other => {
                self.packed.left_out += 1;
                Ok(())
            }
            Kind::Link | Kind::File => Ok(()),
        }
    }

    /// In the place of its content.
    fn name(&mut self, named: &Named, mut header: Header, path: &Path) -> Result<(), StagingError> {
        self.count(named.bytes, path)?;
        let sum = named.sum.to_string();
        self.builder
            .append_pax_extensions([(SUM, sum.as_bytes())])
            .map_err(|cause| StagingError::Archive { cause })?;
        header.set_entry_type(EntryType::Regular);
        self.append(header, path, io::empty())
    }

    fn append(
        &mut self,
        mut header: Header,
        path: &Path,
        data: impl Read,
    ) -> Result<(), StagingError> {
        self.builder
            .append_data(&mut header, path, data)
            .map_err(|cause| StagingError::Archive { cause })
    }

    fn count(&mut self, bytes: u64, path: &Path) -> Result<(), StagingError> {
        self.packed.entries += 1;
        self.packed.bytes += bytes;
        if self.packed.entries > self.limits.entries {
            return Err(self.over("entries", self.limits.entries, path));
        }
        if self.packed.bytes > self.limits.bytes {
            return Err(self.over("bytes", self.limits.bytes, path));
        }
        Ok(())
    }

    fn over(&self, of: &'static str, limit: u64, path: &Path) -> StagingError {
        StagingError::Limit {
            of,
            limit,
            path: path.display().to_string(),
        }
    }
}

/// As many bytes as the header promised: a file that shrinks meanwhile ends in zeros, one that grows is cut.
struct Exactly {
    inner: std::fs::File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buf.len());
        let buf = &mut buf[..most];
        let mut read = self.inner.read(buf)?;
        if read == 0 {
            buf.fill(0);
            read = most;
        }
        self.left -= read as u64;
        Ok(read)
    }
}

//! Which files of a folder are big, and their SHA-256s: what the other side has by those need not travel (spec/rest, F7). Not
//! here: who is asked for what it has (kumiko-client).

use crate::error::StagingError;
use crate::limits::Limits;
use crate::stock::Sum;
use crate::stream::{settled, worker};
use kumiko_linux::Dir;
use kumiko_linux::dir::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// What is smaller is sent sooner than asked about, and would fill a stock with entries.
pub const BIG_BYTES: u64 = 1 << 20;
/// The biggest files of a folder: all of their sums fit into one question.
const FILES: usize = 1024;

/// Files by their paths in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub(crate) BTreeMap<PathBuf, Named>);

/// A content as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub sum: Sum,
    pub bytes: u64,
}

impl Sums {
    /// Reads the big files of a folder.
    ///
    /// # Errors
    /// What cannot be read, a tree that is too deep.
    pub async fn of_big(folder: PathBuf) -> Result<Sums, StagingError> {
        settled(worker(move || of_big(&folder)).await)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each once.
    pub fn all(&self) -> BTreeSet<&Sum> {
        self.0.values().map(|named| &named.sum).collect()
    }

    pub fn retain(&mut self, which: impl Fn(&Sum) -> bool) {
        self.0.retain(|_, named| which(&named.sum));
    }
}

fn of_big(folder: &Path) -> Result<Sums, StagingError> {
    let root = Dir::open(folder).map_err(|e| StagingError::file("cannot open", folder, e))?;
    let mut found = Vec::new();
    find(&root, Path::new(""), 1, &mut found)?;
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(FILES);
    let mut sums = BTreeMap::new();
    for (_, path) in found {
        let named = root.open_file(&path).and_then(|file| {
            let bytes = file.metadata()?.len();
            // As `pack` does with one that grows.
            let sum = Sum::of(file.take(bytes))?;
            Ok(Named { sum, bytes })
        });
        match named {
            Ok(named) => drop(sums.insert(path, named)),
            // It was removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(StagingError::file("cannot read", &path, error)),
        }
    }
    Ok(Sums(sums))
}

fn find(
    dir: &Dir,
    at: &Path,
    depth: usize,
    found: &mut Vec<(u64, PathBuf)>,
) -> Result<(), StagingError> {
    // Who packs it says that it is too deep.
    if depth > Limits::RESULTS.depth {
        return Ok(());
    }
    let wrong = |doing| move |e| StagingError::file(doing, at, e);
    for entry in dir.list().map_err(wrong("cannot list"))? {
        let path = at.join(&entry.name);
        let Ok(meta) = dir.stat(&entry.name) else {
            continue; // it was removed meanwhile
        };
        match meta.kind {
            Kind::File if meta.size_bytes >= BIG_BYTES => found.push((meta.size_bytes, path)),
            Kind::Directory => {
                if let Ok(below) = dir.open_dir(&entry.name) {
                    find(&below, &path, depth + 1, found)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

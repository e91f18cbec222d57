//! The cache of an account (x-gass-cache; spec/staging, C1 to C6): content kept once, by URL, as long as a tag refers to it.
//!
//! Each entry is a directory named by the SHA-256 of its URL: `url`, `data` once there is content, and a file for each tag
//! with its count. Every file comes into its place by rename under one lock, so that a crash leaves the state before or
//! after, never one between. Not here: who fetches what is missing (`jobs`).

mod entry;

pub use entry::{Listed, Part};

use entry::Entry;
use kumiko_linux::Dir;
use kumiko_linux::spooling;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the tag is when none is given.
pub const NO_TAG: &str = "";
/// Held while an entry changes.
const LOCK: &str = "lock";
const ENTRIES: &str = "entries";

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("{doing} the cache entry of {url} in {}: {cause}", directory.display())]
    Entry {
        doing: &'static str,
        url: String,
        directory: PathBuf,
        cause: io::Error,
    },
    #[error("the cache {} cannot be used: {cause}", directory.display())]
    Cache {
        directory: PathBuf,
        cause: io::Error,
    },
    #[error("there is no cache entry of {url}")]
    NoEntry { url: String },
    #[error("the cache entry of {url} is damaged: {what}")]
    Damaged { url: String, what: &'static str },
}

/// A cache on disk. Cheap to open; several processes may use one. All calls block.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    /// Of a job's own: where it is, and whose turn it is. The job may write there as well, so nothing is looked up by a
    /// path, and nobody waits for a lock that it might hold.
    within: Option<(Dir, Arc<Mutex<()>>)>,
}

impl Cache {
    /// The cache in a directory, which is made (0700) with the one above it.
    pub fn new(directory: PathBuf) -> Cache {
        Cache {
            directory,
            within: None,
        }
    }

    /// The cache in a directory that somebody else may write in as well. `named` is for messages; who has the same `turn`
    /// changes entries one after the other.
    pub fn within(named: PathBuf, directory: Dir, turn: Arc<Mutex<()>>) -> Cache {
        Cache {
            directory: named,
            within: Some((directory, turn)),
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// One more reference of `tag` to a URL. Says whether there is content.
    pub fn add(&self, url: &str, tag: &str) -> Result<bool, CacheError> {
        self.change(url, "adding to", |entry| {
            entry.make(url)?;
            entry.count(tag, |count| Some(count.saturating_add(1)))?;
            entry.has_data()
        })
    }

    /// As [`Cache::add`], but said twice it is said once: for who may be killed between doing it and remembering it.
    pub fn hold(&self, url: &str, tag: &str) -> Result<bool, CacheError> {
        self.change(url, "adding to", |entry| {
            entry.make(url)?;
            entry.count(tag, |count| Some(count.max(1)))?;
            entry.has_data()
        })
    }

    /// A place to write content to that is not there yet.
    pub fn part(&self, url: &str) -> Result<Part, CacheError> {
        self.change(url, "writing to", |entry| {
            entry.make(url)?;
            entry.part()
        })
    }

    /// Puts written content in its place, unless other content came first: that counts, for somebody may have it open.
    pub fn keep(&self, url: &str, part: Part) -> Result<(), CacheError> {
        self.change(url, "writing to", |entry| entry.keep(part))
    }

    /// An entry whose content is seen while it grows; what was there is replaced.
    pub fn grow(&self, url: &str, tag: &str) -> Result<File, CacheError> {
        self.change(url, "writing to", |entry| {
            entry.make(url)?;
            entry.count(tag, |count| Some(count.max(1)))?;
            entry.grow()
        })
    }

    /// The content of a URL.
    pub fn open(&self, url: &str) -> Result<File, CacheError> {
        let found = self.look(url, "reading", |entry| entry.open())?;
        found.ok_or_else(|| CacheError::NoEntry {
            url: url.to_owned(),
        })
    }

    /// Where the content lies, for programs that want a path.
    pub fn path(&self, url: &str) -> Result<PathBuf, CacheError> {
        self.open(url)?;
        Ok(self
            .directory
            .join(ENTRIES)
            .join(name(url))
            .join(entry::DATA))
    }

    /// One reference less; with the last of all tags the content goes.
    pub fn delete(&self, url: &str, tag: &str) -> Result<(), CacheError> {
        self.change(url, "deleting from", |entry| {
            entry.count(tag, |count| count.checked_sub(1).filter(|left| *left > 0))?;
            entry.sweep()
        })
    }

    /// All references of a tag to a URL.
    pub fn cleanup_tag(&self, url: &str, tag: &str) -> Result<(), CacheError> {
        self.change(url, "deleting from", |entry| {
            entry.count(tag, |_| None)?;
            entry.sweep()
        })
    }

    /// All references of a tag, to any URL.
    pub fn cleanup_tag_everywhere(&self, tag: &str) -> Result<(), CacheError> {
        for Listed { url, tags, .. } in self.list()? {
            if tags.iter().any(|(of, _)| of == tag) {
                self.cleanup_tag(&url, tag)?;
            }
        }
        Ok(())
    }

    /// The entry of a URL, whoever refers to it.
    pub fn cleanup_url(&self, url: &str) -> Result<(), CacheError> {
        self.change(url, "deleting", |entry| entry.remove())
    }

    /// All entries, by URL.
    pub fn list(&self) -> Result<Vec<Listed>, CacheError> {
        let failed = |cause| CacheError::Cache {
            directory: self.directory.clone(),
            cause,
        };
        let (_lock, entries) = self.lock().map_err(failed)?;
        let mut listed = Vec::new();
        for found in entries.list().map_err(failed)? {
            let entry = Entry::new(&entries, found.name.into());
            listed.extend(entry.listed().map_err(failed)?);
        }
        listed.sort_by(|one, other| one.url.cmp(&other.url));
        Ok(listed)
    }

    fn change<T>(
        &self,
        url: &str,
        doing: &'static str,
        work: impl FnOnce(&Entry<'_>) -> io::Result<T>,
    ) -> Result<T, CacheError> {
        let failed = |cause| CacheError::Entry {
            doing,
            url: url.to_owned(),
            directory: self.directory.clone(),
            cause,
        };
        let (_lock, entries) = self.lock().map_err(failed)?;
        let entry = Entry::new(&entries, name(url).into());
        match entry.url() {
            Ok(Some(other)) if other != url => Err(CacheError::Damaged {
                url: url.to_owned(),
                what: "it is of another URL",
            }),
            _ => work(&entry).map_err(failed),
        }
    }

    /// As `change`, but what is not there is no error.
    fn look<T>(
        &self,
        url: &str,
        doing: &'static str,
        work: impl FnOnce(&Entry<'_>) -> io::Result<T>,
    ) -> Result<Option<T>, CacheError> {
        self.change(url, doing, |entry| match work(entry) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn lock(&self) -> io::Result<(Lock<'_>, Dir)> {
        if let Some((directory, turn)) = &self.within {
            let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            match directory.mkdir(ENTRIES, 0o700) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            return Ok((Lock::Turn(turn), directory.open_dir(ENTRIES)?));
        }
        for directory in [&self.directory, &self.directory.join(ENTRIES)] {
            private(directory)?;
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.directory.join(LOCK))?;
        spooling::wait_for_lock(&file)?;
        Ok((Lock::File(file), Dir::open(&self.directory.join(ENTRIES))?))
    }
}

fn private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)
}

enum Lock<'a> {
    File(File),
    Turn(#[allow(dead_code)] MutexGuard<'a, ()>),
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if let Lock::File(file) = self {
            // Closing the file gives it back in any case.
            let _ = spooling::unlock(file);
        }
    }
}

fn name(text: &str) -> String {
    let mut name = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

//! One entry of the cache, under the cache's lock.

use super::name;
use kumiko_linux::Dir;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;

pub const DATA: &str = "data";
const URL: &str = "url";
/// Before the name of a tag.
const TAG: &str = "tag-";
const NEW: &str = "new";
/// Of `url` and of a tag's file: a URL has at most 4,095 bytes, and a tag 128.
const MOST_BYTES: u64 = 8192;

pub struct Entry<'a> {
    entries: &'a Dir,
    name: PathBuf,
}

/// What the cache has of one URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub url: String,
    /// None: the content is still to come.
    pub bytes: Option<u64>,
    /// Each with its count.
    pub tags: Vec<(String, u64)>,
}

/// Content that is still written.
#[derive(Debug)]
pub struct Part {
    pub file: File,
    name: PathBuf,
}

fn gone_is_fine<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl<'a> Entry<'a> {
    pub fn new(entries: &'a Dir, name: PathBuf) -> Entry<'a> {
        Entry { entries, name }
    }

    fn dir(&self) -> io::Result<Dir> {
        self.entries.open_dir(&self.name)
    }

    pub fn make(&self, url: &str) -> io::Result<()> {
        match self.entries.mkdir(&self.name, 0o700) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let dir = self.dir()?;
        if self.url()?.is_none() {
            write(&dir, URL, url.as_bytes())?;
            self.entries.sync()?;
        }
        Ok(())
    }

    pub fn url(&self) -> io::Result<Option<String>> {
        let dir = gone_is_fine(self.dir())?;
        dir.map_or(Ok(None), |dir| gone_is_fine(read(&dir, URL)))
    }

    /// Changes how often a tag refers to the entry; None: it does not any more.
    pub fn count(&self, tag: &str, change: impl FnOnce(u64) -> Option<u64>) -> io::Result<()> {
        let Some(dir) = gone_is_fine(self.dir())? else {
            return Ok(());
        };
        let file = format!("{TAG}{}", name(tag));
        let before = gone_is_fine(read(&dir, &file))?;
        let count = before
            .as_deref()
            .and_then(tag_of)
            .map_or(0, |(_, count)| count);
        match change(count) {
            Some(count) => write(&dir, &file, format!("{count}\n{tag}").as_bytes()),
            None => gone_is_fine(dir.remove_file(&file)).map(|_| ()),
        }
    }

    pub fn has_data(&self) -> io::Result<bool> {
        Ok(gone_is_fine(self.dir()?.stat(DATA))?.is_some())
    }

    pub fn part(&self) -> io::Result<Part> {
        let random = || RandomState::new().build_hasher().finish();
        let name: PathBuf = format!("part-{:016x}{:016x}", random(), random()).into();
        let file = self.dir()?.create_file(&name, 0o600)?;
        Ok(Part { file, name })
    }

    pub fn keep(&self, part: Part) -> io::Result<()> {
        let dir = self.dir()?;
        part.file.sync_all()?;
        if self.has_data()? {
            return dir.remove_file(&part.name);
        }
        dir.rename(&part.name, &dir, DATA)?;
        dir.sync()
    }

    pub fn grow(&self) -> io::Result<File> {
        let dir = self.dir()?;
        gone_is_fine(dir.remove_file(DATA))?;
        dir.create_file(DATA, 0o600)
    }

    pub fn open(&self) -> io::Result<File> {
        self.dir()?.open_file(DATA)
    }

    fn tags(&self, dir: &Dir) -> io::Result<Vec<(String, u64)>> {
        let mut tags = Vec::new();
        for found in dir.list()? {
            let is_tag = found.name.as_encoded_bytes().starts_with(TAG.as_bytes());
            if is_tag {
                let text = gone_is_fine(read(dir, &found.name.to_string_lossy()))?;
                tags.extend(text.as_deref().and_then(tag_of));
            }
        }
        tags.sort();
        Ok(tags)
    }

    /// Without a tag the entry goes.
    pub fn sweep(&self) -> io::Result<()> {
        let Some(dir) = gone_is_fine(self.dir())? else {
            return Ok(());
        };
        match self.tags(&dir)?.is_empty() {
            true => self.remove(),
            false => Ok(()),
        }
    }

    pub fn remove(&self) -> io::Result<()> {
        self.entries.remove_all(&self.name)?;
        self.entries.sync()
    }

    pub fn listed(&self) -> io::Result<Option<Listed>> {
        let Some(url) = self.url()? else {
            return Ok(None);
        };
        let dir = self.dir()?;
        Ok(Some(Listed {
            url,
            bytes: gone_is_fine(dir.stat(DATA))?.map(|meta| meta.size_bytes),
            tags: self.tags(&dir)?,
        }))
    }
}

/// A tag's file: its count, and its name on the next line.
fn tag_of(text: &str) -> Option<(String, u64)> {
    let (count, tag) = text.split_once('\n')?;
    Some((tag.to_owned(), count.parse().ok()?))
}

fn read(dir: &Dir, name: &str) -> io::Result<String> {
    let mut text = String::new();
    let file = dir.open_file(name)?;
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn write(dir: &Dir, name: &str, text: &[u8]) -> io::Result<()> {
    // A crash may have left one; we alone write here (the cache's lock).
    gone_is_fine(dir.remove_file(NEW))?;
    let mut file = dir.create_file(NEW, 0o600)?;
    file.write_all(text)?;
    file.sync_all()?;
    dir.rename(NEW, dir, name)?;
    dir.sync()
}

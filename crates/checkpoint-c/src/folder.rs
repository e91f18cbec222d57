//! The folder of one program's checkpoints (spec/checkpoint, K1 to K5 and K20 to K23): written whole or not at all, read back, made
//! fewer. Not here: whose memory it is.

use crate::files::{Opened, is_same};
use kumiko_checkpoint::{BadCheckpoint, Block, Head, Kept, Name, State, apply, file_name, sum};
use kumiko_linux::Dir;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Parts behind a whole, after which they are made one: a start reads this many files at most, twice over.
const MOST_PARTS: usize = 16;
/// What is being written; a process that died left it.
const NEW: &str = "new";

#[derive(Debug)]
pub struct Folder {
    dir: Dir,
    kept: Kept,
}

/// A checkpoint that can be resumed from.
#[derive(Debug)]
pub struct Found {
    chain: Vec<Name>,
    pub head: Head,
}

/// One that has no name yet. Who is behind it looks at its sums last.
#[derive(Debug)]
pub struct Draft {
    pub file: File,
    head: Head,
    data_at: u64,
    /// Of each state, behind that.
    starts: Vec<u64>,
}

impl Draft {
    /// Where a state's byte stands in the file.
    pub fn at(&self, state: usize, offset: u64) -> u64 {
        let start = self.starts.get(state).copied().unwrap_or(0);
        self.data_at + start + offset
    }
}

/// A file that is not there in a sound state.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint {name}: {cause}")]
pub struct Bad {
    pub name: Name,
    pub cause: BadCheckpoint,
}

#[derive(Debug, thiserror::Error)]
#[error("{path}: {cause}")]
pub struct NoFolder {
    path: PathBuf,
    cause: io::Error,
}

impl Folder {
    /// Makes it (0700) if it is not there.
    pub fn open(path: &Path) -> Result<Folder, NoFolder> {
        let opened = || {
            std::fs::create_dir_all(path)?;
            let dir = Dir::open(path)?;
            let _ = dir.remove_file(NEW);
            let mut names = Vec::new();
            for entry in dir.list()? {
                names.extend(entry.name.to_str().and_then(Name::parse));
            }
            let kept = Kept::scan(names, |name| open(&dir, name));
            Ok(Folder { dir, kept })
        };
        opened().map_err(|cause| NoFolder {
            path: path.to_owned(),
            cause,
        })
    }

    /// Where safe points are counted.
    pub fn count(&self) -> io::Result<File> {
        let _ = self.dir.remove_file("points");
        self.dir.create_file("points", 0o600)
    }

    /// The newest checkpoint of these states that is sound, all of it read, and its files as long as it says; what is newer is removed.
    /// None: there is none.
    pub fn find(&mut self, states: &[State], files: &[Opened]) -> (Option<Found>, Vec<Bad>) {
        let mut bad: Vec<Bad> = std::mem::take(&mut self.kept.bad)
            .into_iter()
            .map(|(name, cause)| Bad { name, cause })
            .collect();
        let numbers = self.kept.numbers();
        let mut chains = numbers.iter().flat_map(|one| self.kept.chains(*one));
        let longest = self.longest(states, files);
        let found = chains.find_map(|chain| {
            let mut told = BTreeMap::new();
            let read = self.read(&chain, |head, block, bytes| {
                if head.states != states {
                    return Err(BadCheckpoint::OtherProgram);
                }
                if let Some(length) = bytes.first_chunk() {
                    if longest.contains_key(&block.state) {
                        told.insert(block.state, u64::from_le_bytes(*length));
                    }
                }
                Ok(())
            });
            let short = told
                .iter()
                .find(|(state, told)| longest.get(state) < Some(*told));
            let read = match (read, short, chain.last()) {
                (Ok(_), Some((state, _)), Some(name)) => Err(Bad {
                    name: *name,
                    cause: BadCheckpoint::ShortFile { state: *state },
                }),
                (read, ..) => read,
            };
            match read {
                Ok(head) => Some(Found { chain, head }),
                Err(one) => {
                    bad.push(one);
                    None
                }
            }
        });
        let sound = found.as_ref().map_or(0, |found| found.head.number);
        let newer = self.kept.heads.keys().filter(|name| name.number > sound);
        let gone: Vec<Name> = newer
            .copied()
            .chain(bad.iter().map(|one| one.name))
            .collect();
        for name in gone {
            self.remove(name);
        }
        (found, bad)
    }

    /// Of each state that is a file which is written to, how long it is now.
    fn longest(&self, states: &[State], files: &[Opened]) -> BTreeMap<usize, u64> {
        let length = |one: &Opened| {
            let kept = self.kept_file(&one.name);
            let file = kept.as_ref().unwrap_or(&one.file);
            file.metadata().map_or(0, |meta| meta.len())
        };
        let state = |one: &Opened| states.iter().position(|state| state.name == one.name);
        let written = files.iter().filter(|one| one.writes);
        written
            .filter_map(|one| Some((state(one)?, length(one))))
            .collect()
    }

    /// A file that a process wrote to under this name: its own, or another one's before it.
    pub fn kept_file(&self, name: &str) -> Option<File> {
        let file = self.dir.open_file(file_name(name)).ok()?;
        file.metadata()
            .is_ok_and(|meta| meta.is_file())
            .then_some(file)
    }

    /// Gives it another name, by which who comes after this process finds what was written. Without one its own will do, where it is
    /// there still.
    pub fn keep_file(&self, opened: &Opened) {
        if !opened.writes {
            return;
        }
        let kept = || {
            if let Some(kept) = self.kept_file(&opened.name) {
                if is_same(&kept, &opened.file)? {
                    return Ok(());
                }
            }
            let last = opened.path.file_name().ok_or(io::ErrorKind::NotFound)?;
            let parent = opened
                .path
                .parent()
                .filter(|path| !path.as_os_str().is_empty());
            let from = Dir::open(parent.unwrap_or(Path::new(".")))?;
            let _ = self.dir.remove_file(NEW);
            from.link(last, &self.dir, NEW)?;
            self.dir.rename(NEW, &self.dir, file_name(&opened.name))
        };
        if let Err(error) = kept() {
            let path = opened.path.display();
            eprintln!(
                "kumiko checkpoint: {path}: {error}: it has no other name, and is to stay where it is"
            );
        }
    }

    /// Once more, to be used. A part of it may have been given when it fails.
    pub fn give(&self, found: &Found, mut give: impl FnMut(&Block, &[u8])) -> Result<(), Bad> {
        self.read(&found.chain, |_, block, bytes| {
            give(block, bytes);
            Ok(())
        })
        .map(|_| ())
    }

    fn read(
        &self,
        chain: &[Name],
        give: impl FnMut(&Head, &Block, &[u8]) -> Result<(), BadCheckpoint>,
    ) -> Result<Head, Bad> {
        apply(chain, |name| open(&self.dir, name), give)
            .map_err(|(name, cause)| Bad { name, cause })
    }

    fn remove(&mut self, name: Name) {
        // What cannot be removed is overwritten by the next of its name.
        let _ = self.dir.remove_file(name.to_string());
        self.kept.heads.remove(&name);
    }

    /// The blocks of `head` stand in `data` one behind the other. Afterwards it is on the disk.
    pub fn write(&mut self, mut head: Head, data: &[u8]) -> io::Result<()> {
        let mut rest = data;
        for block in &mut head.blocks {
            let (one, behind) = split(rest, block)?;
            block.sum = sum(one);
            rest = behind;
        }
        let whole_bytes = head.state_bytes();
        let file = self.new_file()?;
        let head_bytes = head.to_bytes();
        file.write_all_at(&head_bytes, 0)?;
        file.write_all_at(data, head_bytes.len() as u64)?;
        self.put(&file, head)?;
        let (parts, bytes) = self.kept.parts();
        if parts >= MOST_PARTS || (parts > 0 && bytes > whole_bytes) {
            // The part is there: what fails is tried again behind the next one.
            let _ = self.compact();
        }
        for name in self.kept.may_go() {
            self.remove(name);
        }
        Ok(())
    }

    fn new_file(&self) -> io::Result<File> {
        let _ = self.dir.remove_file(NEW);
        self.dir.create_file(NEW, 0o600)
    }

    /// The new file gets its name when all of it is on the disk.
    fn put(&mut self, file: &File, head: Head) -> io::Result<()> {
        let name = Name {
            number: head.number,
            whole: head.base.is_none(),
        };
        file.sync_all()?;
        self.dir.rename(NEW, &self.dir, name.to_string())?;
        self.dir.sync()?;
        self.kept.heads.insert(name, head);
        Ok(())
    }

    /// A whole that is written piece by piece, at the end of all.
    pub fn draft(&self, states: Vec<State>) -> io::Result<Draft> {
        self.draft_of(Head {
            number: self.last() + 1,
            base: None,
            points: 0,
            states,
            blocks: Vec::new(),
        })
    }

    fn draft_of(&self, mut head: Head) -> io::Result<Draft> {
        let (mut starts, mut at) = (Vec::new(), 0);
        for (number, state) in head.states.iter().enumerate() {
            starts.push(at);
            at += state.bytes;
            head.blocks.extend(Block::cut(number, 0..state.bytes));
        }
        // Sums do not change its length.
        let data_at = head.to_bytes().len() as u64;
        Ok(Draft {
            file: self.new_file()?,
            head,
            data_at,
            starts,
        })
    }

    /// All of it is written: what was read of it has the sums that it gets.
    fn finish(&mut self, draft: Draft) -> io::Result<()> {
        let Draft {
            file,
            mut head,
            data_at: mut at,
            ..
        } = draft;
        let mut buffer = Vec::new();
        for block in &mut head.blocks {
            buffer.resize(usize::try_from(block.bytes).unwrap_or(usize::MAX), 0);
            file.read_exact_at(&mut buffer, at)?;
            block.sum = sum(&buffer);
            at += block.bytes;
        }
        file.write_all_at(&head.to_bytes(), 0)?;
        self.put(&file, head)
    }

    /// The blocks are what has changed since it was written; they stand in `data` one behind the other. Afterwards it is on the disk.
    pub fn write_over(
        &mut self,
        mut draft: Draft,
        points: u64,
        blocks: &[Block],
        data: &[u8],
    ) -> io::Result<()> {
        let mut rest = data;
        for block in blocks {
            let (one, behind) = split(rest, block)?;
            draft
                .file
                .write_all_at(one, draft.at(block.state, block.offset))?;
            rest = behind;
        }
        draft.head.points = points;
        self.finish(draft)?;
        for name in self.kept.may_go() {
            self.remove(name);
        }
        Ok(())
    }

    /// A whole in the place of the newest parts, which stay until the next one.
    fn compact(&mut self) -> io::Result<()> {
        let Some((name, newest)) = self.kept.heads.last_key_value() else {
            return Ok(());
        };
        let Some(chain) = self.kept.chains(name.number).into_iter().next() else {
            return Ok(());
        };
        let draft = self.draft_of(Head {
            base: None,
            blocks: Vec::new(),
            ..newest.clone()
        })?;
        self.read(&chain, |_, block, bytes| {
            let at = draft.at(block.state, block.offset);
            Ok(draft.file.write_all_at(bytes, at)?)
        })
        .map_err(io::Error::other)?;
        self.finish(draft)
    }

    /// The newest.
    pub fn last(&self) -> u64 {
        let last = self.kept.heads.last_key_value();
        last.map_or(0, |(name, _)| name.number)
    }
}

fn split<'a>(data: &'a [u8], block: &Block) -> io::Result<(&'a [u8], &'a [u8])> {
    let bytes = usize::try_from(block.bytes).unwrap_or(usize::MAX);
    let both = data.split_at_checked(bytes);
    both.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn open(dir: &Dir, name: Name) -> io::Result<impl Read + use<>> {
    let file = dir.open_file(name.to_string())?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

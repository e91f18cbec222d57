//! The stock of an account (spec/staging, C10 to C15): content that came from other hosts, kept by its SHA-256 so that it
//! does not travel again. Not here: whether what is taken from it is still what its name says, which whoever takes it
//! finds out on the copy that counts (`jobs`, `unpack`).

use kumiko_linux::spooling;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Held while something is put in or goes.
const LOCK: &str = "lock";
/// What is being put in. One name, for there is one at a time: what a killed site left is written over by the next.
const NEW: &str = "new";
/// Hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

const PIECE_BYTES: usize = 64 * 1024;

/// A SHA-256, in 64 small hexadecimal digits; so it is a file's name that leads nowhere else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sum(String);

impl Sum {
    pub fn parse(text: &str) -> Option<Sum> {
        let digits = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        digits.then(|| Sum(text.to_ascii_lowercase()))
    }

    /// Of all that is still to be read.
    pub fn of(mut content: impl Read) -> io::Result<Sum> {
        let mut summing = Summing::default();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match content.read(&mut piece)? {
                0 => return Ok(summing.sum()),
                read => summing.add(piece.get(..read).unwrap_or_default()),
            }
        }
    }
}

/// A SHA-256 of what comes piece by piece.
#[derive(Default)]
pub(crate) struct Summing(Sha256);

impl Summing {
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub fn sum(self) -> Sum {
        let digest = self.0.finalize();
        Sum(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A stock on disk. All calls block.
#[derive(Debug)]
pub struct Stock {
    directory: PathBuf,
    most_bytes: u64,
}

/// An entry, as it is weighed against others.
struct Held {
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl Stock {
    /// `directory` is made (0700) when there is something to keep. `most_bytes`: of all entries together.
    pub fn new(directory: PathBuf, most_bytes: u64) -> Stock {
        Stock {
            directory,
            most_bytes,
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn entry(&self, sum: &Sum) -> PathBuf {
        self.directory.join(&sum.0)
    }

    /// What is kept by this name; it counts as used now.
    pub fn take(&self, sum: &Sum) -> io::Result<Option<File>> {
        let file = match File::open(self.entry(sum)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        file.set_modified(SystemTime::now())?;
        Ok(Some(file))
    }

    /// Keeps a copy of a file, for which others may have to go. False: there is no room for it.
    pub fn keep(&self, sum: &Sum, mut from: File) -> io::Result<bool> {
        let _turn = self.turn()?;
        if !self.make_room(from.metadata()?.len())? {
            return Ok(false);
        }
        let new = self.directory.join(NEW);
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        // Not synced: what a host that went down left of it does not fit its name, and is fetched again.
        let kept = options
            .open(&new)
            .and_then(|mut file| io::copy(&mut from, &mut file))
            .and_then(|_| std::fs::rename(&new, self.entry(sum)));
        if kept.is_err() {
            let _ = std::fs::remove_file(&new); // the error at hand is the one to tell
        }
        kept.map(|()| true)
    }

    /// What is kept by this name is something else.
    pub fn discard(&self, sum: &Sum) -> io::Result<()> {
        let _turn = self.turn()?;
        match std::fs::remove_file(self.entry(sum)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Gives all its room back, for who has more need of it. How many bytes that is.
    pub fn give_way(&self) -> io::Result<u64> {
        if !self.directory.exists() {
            return Ok(0);
        }
        let _turn = self.turn()?;
        let mut given = 0;
        for held in self.held()? {
            std::fs::remove_file(&held.path)?;
            given += held.bytes;
        }
        Ok(given)
    }

    /// Whether so much fits, once what was used least recently has gone.
    fn make_room(&self, bytes: u64) -> io::Result<bool> {
        let mut held = self.held()?;
        let mut total: u64 = held.iter().map(|held| held.bytes).sum();
        let free = spooling::free_bytes(&self.directory)?;
        let most = self.most_bytes.min(total.saturating_add(free) / 2);
        if bytes > most {
            return Ok(false);
        }
        held.sort_by_key(|held| held.used);
        for oldest in held {
            if total.saturating_add(bytes) <= most {
                break;
            }
            std::fs::remove_file(&oldest.path)?;
            total -= oldest.bytes;
        }
        Ok(true)
    }

    fn held(&self) -> io::Result<Vec<Held>> {
        let mut held = Vec::new();
        for found in std::fs::read_dir(&self.directory)? {
            let found = found?;
            let meta = found.metadata()?;
            let named = found.file_name().to_str().and_then(Sum::parse).is_some();
            if named && meta.is_file() {
                held.push(Held {
                    used: meta.modified()?,
                    bytes: meta.len(),
                    path: found.path(),
                });
            }
        }
        Ok(held)
    }

    /// Until it is dropped nobody else puts in or removes.
    fn turn(&self) -> io::Result<File> {
        let mut private = DirBuilder::new();
        private
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.directory.join(LOCK))?;
        spooling::wait_for_lock(&file)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sum_names_an_entry() {
        let sum = "0123456789abcdefABCDEF00000000000000000000000000000000000000000f";
        assert_eq!(Sum::parse(sum), Some(Sum(sum.to_ascii_lowercase())));
        for wrong in ["", "../../etc/passwd", &sum[1..], &format!("{sum}0")] {
            assert_eq!(Sum::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Sum::parse(&sum.replacen('0', "/", 1)), None);
    }
}

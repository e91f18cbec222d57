//! What callers' functions gave back to the callbacks of calls (spec/rpc P69): kept in a file for each call as long as it is not over, so
//! that a routine that is begun again, or goes on where it was, has the same answers, and no function does its work twice. Blocking.
//!
//! Not here: who is asked (`calls`).

use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

/// Of one call's answers no more than this are kept; what is beyond is asked for again.
const KEPT_BYTES: u64 = 64 << 20;
/// Before each answer: number, formal and length, of 8 bytes each, and a digest of what was given.
const HEAD_BYTES: usize = 24 + DIGEST_BYTES;
const DIGEST_BYTES: usize = 32;

/// What a routine asks its caller's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Counted by the routine from the beginning of the call.
    pub number: u64,
    pub formal: u64,
    pub data: Bytes,
}

impl Asked {
    fn digest(&self) -> [u8; DIGEST_BYTES] {
        Sha256::digest(&self.data).into()
    }
}

/// A folder for the files of all calls.
#[derive(Debug)]
pub struct Callbacks {
    root: PathBuf,
}

impl Callbacks {
    pub fn open(root: PathBuf) -> io::Result<Callbacks> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)?;
        Ok(Callbacks { root })
    }

    pub fn path(&self, call: &str) -> PathBuf {
        self.root.join(call)
    }

    /// Names of calls that have some.
    pub fn calls(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.root)?.flatten();
        Ok(entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect())
    }
}

#[derive(Debug)]
struct Answer {
    formal: u64,
    digest: [u8; DIGEST_BYTES],
    at: u64,
    bytes: usize,
}

/// The answers of one call.
#[derive(Debug)]
pub struct Kept {
    file: File,
    /// By number; of more than one the last.
    answers: BTreeMap<u64, Answer>,
    end: u64,
}

impl Kept {
    /// What an older process of the site kept is found again; of what it did not write whole, nothing.
    pub fn open(path: &Path) -> io::Result<Kept> {
        let mut options = File::options();
        options.create(true).truncate(false).write(true).read(true);
        let file = options.open(path)?;
        let length = file.metadata()?.len();
        let mut kept = Kept {
            file,
            answers: BTreeMap::new(),
            end: 0,
        };
        let mut head = [0; HEAD_BYTES];
        while kept.end + HEAD_BYTES as u64 <= length {
            kept.file.read_exact_at(&mut head, kept.end)?;
            let word = |at: usize| {
                let word = head.get(at..).and_then(|rest| rest.first_chunk::<8>());
                word.map_or(0, |word| u64::from_le_bytes(*word))
            };
            let at = kept.end + HEAD_BYTES as u64;
            let end = at.checked_add(word(16)).filter(|end| *end <= length);
            let (Some(end), Ok(bytes)) = (end, usize::try_from(word(16))) else {
                break;
            };
            let digest = head.last_chunk().copied().unwrap_or_default();
            let (number, formal) = (word(0), word(8));
            let answer = Answer {
                formal,
                digest,
                at,
                bytes,
            };
            kept.answers.insert(number, answer);
            kept.end = end;
        }
        Ok(kept)
    }

    /// To the same question.
    pub fn find(&self, asked: &Asked) -> io::Result<Option<Bytes>> {
        let Some(answer) = self.answers.get(&asked.number) else {
            return Ok(None);
        };
        if answer.formal != asked.formal || answer.digest != asked.digest() {
            return Ok(None);
        }
        let mut data = vec![0; answer.bytes];
        self.file.read_exact_at(&mut data, answer.at)?;
        Ok(Some(Bytes::from(data)))
    }

    pub fn put(&mut self, asked: &Asked, data: &[u8], sync: bool) -> io::Result<()> {
        let bytes = data.len();
        if self.end + (HEAD_BYTES + bytes) as u64 > KEPT_BYTES {
            return Ok(());
        }
        let digest = asked.digest();
        let words = [asked.number, asked.formal, bytes as u64];
        let head = words.iter().flat_map(|word| word.to_le_bytes());
        let whole: Vec<u8> = head.chain(digest).chain(data.iter().copied()).collect();
        self.file.write_all_at(&whole, self.end)?;
        if sync {
            self.file.sync_data()?;
        }
        let answer = Answer {
            formal: asked.formal,
            digest,
            at: self.end + HEAD_BYTES as u64,
            bytes,
        };
        self.answers.insert(asked.number, answer);
        self.end += whole.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn asked(number: u64, data: &'static [u8]) -> Asked {
        let data = Bytes::from_static(data);
        Asked {
            number,
            formal: 2,
            data,
        }
    }

    #[test]
    fn an_answer_is_found_again_by_the_same_question_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7-3");
        let mut kept = Kept::open(&path).unwrap();
        kept.put(&asked(1, b"one"), b"first", false).unwrap();
        kept.put(&asked(2, b"two"), b"", true).unwrap();
        kept.put(&asked(1, b"other"), b"again", false).unwrap();
        let whole = std::fs::read(&path).unwrap();
        // Whatever of the last one was written.
        for length in [
            whole.len(),
            whole.len() - 1,
            whole.len() - 5 - HEAD_BYTES + 1,
        ] {
            std::fs::write(&path, &whole[..length]).unwrap();
            let mut kept = Kept::open(&path).unwrap();
            let find = |kept: &Kept, number, data| kept.find(&asked(number, data)).unwrap();
            let is_whole = length == whole.len();
            let one = is_whole.then(|| Bytes::from_static(b"again"));
            assert_eq!(find(&kept, 1, b"other"), one);
            let first = (!is_whole).then(|| Bytes::from_static(b"first"));
            assert_eq!(find(&kept, 1, b"one"), first);
            assert_eq!(find(&kept, 2, b"two"), Some(Bytes::new()));
            assert_eq!(find(&kept, 2, b"one"), None);
            assert_eq!(find(&kept, 3, b"one"), None);
            // It goes on behind what is whole.
            kept.put(&asked(3, b"more"), b"third", false).unwrap();
            let kept = Kept::open(&path).unwrap();
            assert_eq!(find(&kept, 3, b"more"), Some(Bytes::from_static(b"third")));
        }
    }
}

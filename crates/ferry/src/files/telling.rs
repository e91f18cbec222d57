//! What a host is told that its kernel did not ask: of a big file that is read in order what comes, in digests (spec/jobs/pilots.md, PL57);
//! and when it is to forget what it does not use (PL54).

use super::notice::{self, CHUNK_BYTES, MOST_CHUNKS, Notice};
use kumiko_linux::spooling;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One host's files that are open to be read.
#[derive(Debug)]
pub struct Telling {
    to: File,
    files: Mutex<HashMap<u64, Told>>,
}

#[derive(Debug)]
struct Told {
    node: u64,
    chunks: Range<u64>,
    /// How many are told of at once; more, the longer it goes on.
    ahead: usize,
}

impl Telling {
    /// `to`: where answers go too, so that they come behind what is told here; a message each.
    pub fn new(to: File) -> Telling {
        Telling {
            to,
            files: Mutex::default(),
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Told>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn opened(&self, handle: u64, node: u64) {
        let told = Told {
            node,
            chunks: 0..0,
            ahead: 1,
        };
        self.files().insert(handle, told);
    }

    pub fn closed(&self, handle: u64) {
        self.files().remove(&handle);
    }

    /// A host that is gone is asked nothing more.
    pub fn asks_to_forget(&self) {
        let _ = (&self.to).write_all(&notice::FORGET);
    }

    /// Who reads the beginning of a chunk may read on.
    pub fn reads(&self, handle: u64, file: &File, offset: u64, length: u64) {
        let mut files = self.files();
        let Some(told) = files.get_mut(&handle) else {
            return;
        };
        let first = offset.div_ceil(CHUNK_BYTES);
        let begins = offset
            .checked_add(length)
            .map(|end| end.div_ceil(CHUNK_BYTES) > first);
        if begins != Some(true) || told.chunks.contains(&first) {
            return;
        }
        let Ok(size) = file.metadata().map(|about| about.len()) else {
            return;
        };
        let goes_on = first == told.chunks.end;
        let ahead = if goes_on { told.ahead } else { 1 };
        let last = size.div_ceil(CHUNK_BYTES).min(first + ahead as u64);
        let summed = |chunk| {
            let bytes = spooling::read_at(file, chunk * CHUNK_BYTES, CHUNK_BYTES as usize).ok()?;
            let whole = bytes.len() as u64 == CHUNK_BYTES.min(size - chunk * CHUNK_BYTES);
            whole.then(|| notice::sum(&bytes))
        };
        let Some(sums) = (first..last).map(summed).collect() else {
            return; // it changes just now
        };
        let notice = Notice {
            handle,
            node: told.node,
            size,
            first,
            sums,
        };
        // A host that is gone is told nothing more.
        if first < last && (&self.to).write_all(&notice.write()).is_ok() {
            let begun = if goes_on { told.chunks.start } else { first };
            told.chunks = begun..last;
            told.ahead = (2 * ahead).min(MOST_CHUNKS);
        }
    }
}

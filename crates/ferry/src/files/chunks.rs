//! The chunks of big files that a host has on its own disk (spec/jobs/pilots.md, PL57). It looks at what the host's kernel asks and is
//! answered: of what the site has given the digest it answers itself, if it keeps that, and else keeps what the site answers.

use super::cache::Cache;
use super::notice::{self, CHUNK_BYTES, Notice, Sum, half, word};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

/// What a kernel asks (linux/fuse.h, `fuse_opcode`): of that what is read, and by what a file changes.
const FORGET: u32 = 2;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;
const COPY_FILE_RANGE: u32 = 47;
/// Of open(2).
const O_TRUNC: u32 = 0o1000;
/// `fuse_in_header` and `fuse_out_header`.
const ASKED_HEAD_BYTES: usize = 40;
const ANSWER_HEAD_BYTES: usize = 16;
const PAGE_BYTES: usize = 4096;

/// Chunks that are put together at once.
const FILLING: usize = 4;
/// Of one file. What lies before is forgotten; whoever reads it again has it from the site.
const MOST_SUMS: usize = 4096;
/// Chunks from the disk that are kept in memory: reads do not end where chunks do.
const LOADED: usize = 2;
/// Chunks that wait for the disk. More are not kept.
const WAITING: usize = 32;
/// The cache is bounded anew after so many.
const BOUND_EACH: usize = 64;
/// For so long a ferry that ends waits for what is to be kept.
const KEEP_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Chunks {
    cache: Cache,
    handles: HashMap<u64, Handle>,
    /// Reads that the site has not answered, by their numbers.
    reading: HashMap<u64, Reading>,
    /// Nodes that this host has written to; it has them from the site.
    written: HashSet<u64>,
    filling: VecDeque<Filling>,
    loaded: VecDeque<(Sum, Vec<u8>)>,
    keeper: Keeper,
}

/// What the site has said of an open file.
#[derive(Debug, Default)]
struct Handle {
    node: u64,
    size: u64,
    sums: HashMap<u64, Sum>,
}

#[derive(Debug)]
struct Reading {
    handle: u64,
    offset: u64,
}

/// A chunk of which some has come.
#[derive(Debug)]
struct Filling {
    handle: u64,
    chunk: u64,
    bytes: Vec<u8>,
    has: Vec<bool>,
}

impl Chunks {
    pub fn new(cache: Cache) -> Chunks {
        Chunks {
            keeper: Keeper::new(cache.clone()),
            cache,
            handles: HashMap::new(),
            reading: HashMap::new(),
            written: HashSet::new(),
            filling: VecDeque::new(),
            loaded: VecDeque::new(),
        }
    }

    /// The answer to what the kernel asks, if it is here; else the site is to be asked.
    pub fn asked(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let (operation, unique, node) = (half(message, 4)?, word(message, 8)?, word(message, 16)?);
        let body = message.get(ASKED_HEAD_BYTES..)?;
        match operation {
            READ => {
                let (handle, offset) = (word(body, 0)?, word(body, 8)?);
                let length = usize::try_from(half(body, 16)?).ok()?;
                let here = self.read(handle, offset, length);
                if here.is_none() {
                    self.reading.insert(unique, Reading { handle, offset });
                }
                return here.map(|bytes| answer(unique, &bytes));
            }
            OPEN if half(body, 0)? & O_TRUNC == 0 => {}
            OPEN | SETATTR | WRITE | FALLOCATE => self.has_written(node),
            // In: a handle, an offset, and the node that is written to.
            COPY_FILE_RANGE => self.has_written(word(body, 16)?),
            RELEASE => self.has_closed(word(body, 0)?),
            FORGET => _ = self.written.remove(&node),
            // A count, then each node with how often it was named.
            BATCH_FORGET => {
                let forgotten = body.get(8..)?.chunks_exact(16);
                for node in forgotten.filter_map(|one| word(one, 0)) {
                    self.written.remove(&node);
                }
            }
            _ => {}
        }
        None
    }

    /// Takes note of what the site says; false: it is not for the kernel.
    pub fn answered(&mut self, message: &[u8]) -> bool {
        if notice::is_notice(message) {
            if let Some(notice) = Notice::read(message) {
                self.noticed(notice);
            }
            return false;
        }
        let reading = word(message, 8).and_then(|unique| self.reading.remove(&unique));
        let bytes = message.get(ANSWER_HEAD_BYTES..);
        if let (Some(reading), Some(bytes)) = (reading, bytes) {
            self.fill(&reading, bytes);
        }
        true
    }

    /// Waits until what has come is on the disk, but not for long.
    pub fn finish(self) {
        self.keeper.finish();
    }

    fn noticed(&mut self, notice: Notice) {
        if self.written.contains(&notice.node) {
            return;
        }
        let handle = self.handles.entry(notice.handle).or_default();
        handle.node = notice.node;
        handle.size = notice.size;
        if handle.sums.len() >= MOST_SUMS {
            handle.sums.clear();
        }
        handle.sums.extend((notice.first..).zip(notice.sums));
    }

    fn has_written(&mut self, node: u64) {
        self.written.insert(node);
        self.handles.retain(|_, handle| handle.node != node);
        self.forget_closed();
    }

    fn has_closed(&mut self, handle: u64) {
        self.handles.remove(&handle);
        self.forget_closed();
    }

    fn forget_closed(&mut self) {
        let handles = &self.handles;
        self.filling
            .retain(|filling| handles.contains_key(&filling.handle));
    }

    /// All of it, or nothing.
    fn read(&mut self, handle: u64, offset: u64, length: usize) -> Option<Vec<u8>> {
        let end = offset.checked_add(length as u64)?;
        let known = self.handles.get(&handle)?;
        if end > known.size {
            return None; // the file may have grown
        }
        let sums = chunks_of(offset, end).map(|chunk| known.sums.get(&chunk).copied());
        let sums: Vec<Sum> = sums.collect::<Option<_>>()?;
        let mut bytes = Vec::with_capacity(ANSWER_HEAD_BYTES + length);
        let mut at = offset;
        for sum in sums {
            let start = usize::try_from(at % CHUNK_BYTES).ok()?;
            let next = (at / CHUNK_BYTES + 1) * CHUNK_BYTES;
            let wanted = usize::try_from(next.min(end) - at).ok()?;
            // One that was the last may be shorter than it is by now.
            bytes.extend_from_slice(self.load(&sum)?.get(start..start + wanted)?);
            at = next;
        }
        Some(bytes)
    }

    fn load(&mut self, sum: &Sum) -> Option<&[u8]> {
        let at = match self.loaded.iter().position(|(loaded, _)| loaded == sum) {
            Some(at) => at,
            None => {
                let bytes = self.cache.load(sum)?;
                self.loaded.truncate(LOADED - 1);
                self.loaded.push_front((*sum, bytes));
                0
            }
        };
        self.loaded.get(at).map(|(_, bytes)| bytes.as_slice())
    }

    /// Puts what was read into the chunks that it is of.
    fn fill(&mut self, reading: &Reading, bytes: &[u8]) {
        let Some(end) = reading.offset.checked_add(bytes.len() as u64) else {
            return;
        };
        for chunk in chunks_of(reading.offset, end) {
            let start = chunk * CHUNK_BYTES;
            let skipped = start.saturating_sub(reading.offset);
            let (Ok(skipped), Ok(at)) = (
                usize::try_from(skipped),
                usize::try_from((reading.offset + skipped) - start),
            ) else {
                return;
            };
            let part = bytes.get(skipped..).unwrap_or_default();
            if let Some(whole) = self.put(reading.handle, chunk, at, part) {
                self.keeper.keep(whole);
            }
        }
    }

    /// The chunk and its digest, once all of it has come.
    fn put(&mut self, handle: u64, chunk: u64, at: usize, part: &[u8]) -> Option<(Sum, Vec<u8>)> {
        let known = self.handles.get(&handle)?;
        let sum = *known.sums.get(&chunk)?;
        let is_it = |filling: &Filling| filling.handle == handle && filling.chunk == chunk;
        let place = match self.filling.iter().position(is_it) {
            Some(place) => place,
            None => {
                let length = (known.size - chunk * CHUNK_BYTES).min(CHUNK_BYTES);
                let length = usize::try_from(length).ok()?;
                self.filling.truncate(FILLING - 1);
                self.filling.push_front(Filling {
                    handle,
                    chunk,
                    bytes: vec![0; length],
                    has: vec![false; length.div_ceil(PAGE_BYTES)],
                });
                0
            }
        };
        let filling = self.filling.get_mut(place)?;
        filling.take(at, part);
        if !filling.has.iter().all(|has| *has) {
            return None;
        }
        let whole = self.filling.remove(place)?;
        Some((sum, whole.bytes))
    }
}

impl Filling {
    /// Kernels read pages.
    fn take(&mut self, at: usize, part: &[u8]) {
        let length = part.len().min(self.bytes.len().saturating_sub(at));
        let (Some(to), Some(from)) = (self.bytes.get_mut(at..at + length), part.get(..length))
        else {
            return;
        };
        to.copy_from_slice(from);
        let is_last = at + length == self.bytes.len();
        let first = at.div_ceil(PAGE_BYTES);
        let last = match is_last {
            true => self.has.len(),
            false => (at + length) / PAGE_BYTES,
        };
        for has in self.has.get_mut(first..last).unwrap_or_default() {
            *has = true;
        }
    }
}

/// Which chunks have some of this.
fn chunks_of(offset: u64, end: u64) -> std::ops::Range<u64> {
    offset / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)
}

fn answer(unique: u64, bytes: &[u8]) -> Vec<u8> {
    let length = ANSWER_HEAD_BYTES + bytes.len();
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    message.extend(0u32.to_ne_bytes()); // no error
    message.extend(unique.to_ne_bytes());
    message.extend(bytes);
    message
}

/// Writes to the disk meanwhile.
#[derive(Debug)]
struct Keeper {
    to: SyncSender<(Sum, Vec<u8>)>,
    done: Receiver<()>,
}

impl Keeper {
    fn new(cache: Cache) -> Keeper {
        let (to, from) = mpsc::sync_channel::<(Sum, Vec<u8>)>(WAITING);
        let (ends, done) = mpsc::channel();
        std::thread::spawn(move || {
            let _ends: mpsc::Sender<()> = ends;
            for (count, (sum, bytes)) in from.into_iter().enumerate() {
                // What is not kept comes from the site again.
                let _ = cache.put(&sum, &bytes);
                if count % BOUND_EACH == 0 {
                    let _ = cache.bound();
                }
            }
        });
        Keeper { to, done }
    }

    fn keep(&self, whole: (Sum, Vec<u8>)) {
        let _ = self.to.try_send(whole);
    }

    fn finish(self) {
        drop(self.to);
        // It says nothing, and has ended then.
        let _ = self.done.recv_timeout(KEEP_WITHIN);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;
    use std::path::Path;

    const CHUNK: usize = CHUNK_BYTES as usize;
    const HANDLE: u64 = 5;
    const NODE: u64 = 6;

    fn host(cache: &Path) -> Chunks {
        Chunks::new(Cache::at(cache.join("cache")).unwrap())
    }

    fn file(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at / 7 + at / CHUNK) as u8).collect()
    }

    /// What a site says of the chunks of a file from the `first` on.
    fn told(host: &mut Chunks, file: &[u8], first: usize) {
        let sums = file.chunks(CHUNK).skip(first).map(notice::sum).collect();
        let notice = Notice {
            handle: HANDLE,
            node: NODE,
            size: file.len() as u64,
            first: first as u64,
            sums,
        };
        assert!(!host.answered(&notice.write()));
    }

    fn ask(operation: u32, body: &[u64]) -> Vec<u8> {
        let mut message = vec![0; ASKED_HEAD_BYTES];
        message[4..8].copy_from_slice(&operation.to_ne_bytes());
        message[8..16].copy_from_slice(&9_u64.to_ne_bytes());
        message[16..24].copy_from_slice(&NODE.to_ne_bytes());
        message.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
        message
    }

    /// What is read without the site; else the site answers.
    fn read(host: &mut Chunks, file: &[u8], at: usize, length: usize) -> Option<Vec<u8>> {
        let asked = ask(READ, &[HANDLE, at as u64, length as u64]);
        let here = host.asked(&asked);
        if here.is_none() {
            let end = file.len().min(at + length);
            assert!(host.answered(&answer(9, &file[at..end])));
        }
        here.map(|answer| answer[ANSWER_HEAD_BYTES..].to_vec())
    }

    fn read_all(host: &mut Chunks, file: &[u8]) -> usize {
        let pieces = (0..file.len()).step_by(CHUNK / 8);
        let here = pieces.filter(|at| {
            let length = (CHUNK / 8).min(file.len() - at);
            let here = read(host, file, *at, length);
            here.inspect(|bytes| assert_eq!(bytes, &file[*at..at + length]))
                .is_some()
        });
        here.count()
    }

    #[test]
    fn what_was_read_is_here_and_what_was_written_is_the_sites() {
        let cache = tempfile::tempdir().unwrap();
        let file = file(CHUNK * 5 / 2);
        let mut first = host(cache.path());
        told(&mut first, &file, 0);
        assert_eq!(read_all(&mut first, &file), 0);
        first.finish();
        let mut second = host(cache.path());
        told(&mut second, &file, 0);
        assert_eq!(read_all(&mut second, &file), 20);
        // Over the end of a chunk, and beyond what the site knows.
        let over = read(&mut second, &file, CHUNK - 10, 4096).unwrap();
        assert_eq!(over, file[CHUNK - 10..][..4096]);
        assert_eq!(read(&mut second, &file, file.len() - 10, 4096), None);
        assert_eq!(second.asked(&ask(WRITE, &[HANDLE])), None);
        told(&mut second, &file, 0);
        assert_eq!(read_all(&mut second, &file), 0);
    }

    #[test]
    fn a_file_that_has_grown_is_not_read_across_what_was_its_end() {
        let cache = tempfile::tempdir().unwrap();
        let grown = file(CHUNK * 3);
        let short = &grown[..CHUNK * 3 / 2];
        for file in [short, &grown] {
            let mut before = host(cache.path());
            told(&mut before, file, 0);
            read_all(&mut before, file);
            before.finish();
        }
        let mut host = host(cache.path());
        told(&mut host, short, 0);
        told(&mut host, &grown, 2);
        let at = CHUNK * 3 / 2 - 100;
        assert!(read(&mut host, &grown, at, 100).is_some());
        assert_eq!(read(&mut host, &grown, at, CHUNK), None);
        assert!(read(&mut host, &grown, CHUNK * 2, CHUNK).is_some());
    }

    #[test]
    fn words_that_are_cut_short_are_the_sites_to_answer() {
        let cache = tempfile::tempdir().unwrap();
        let mut host = host(cache.path());
        for operation in 0..60 {
            let whole = ask(operation, &[u64::MAX; 4]);
            for length in 0..=whole.len() {
                assert_eq!(host.asked(&whole[..length]), None);
                assert!(host.answered(&whole[..length]));
            }
        }
    }
}

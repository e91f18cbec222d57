//! One program's checkpoints (spec/checkpoint, K30 to K37): what it named, when a safe point becomes a checkpoint, what is copied then.
//! The program stands still while its dirty pages are copied; a thread writes them. Not here: where they lie (`folder`), its own files
//! (`files`), pointers of C (`lib`).

use crate::files::{Opened, Stream, TOLD_BYTES, may_be_named};
use crate::folder::{Draft, Folder, NoFolder};
use kumiko_checkpoint::{
    Block, Head, MOST_BLOCKS, MOST_STATES, NAME_MOST_BYTES, State, expected_cost, interval,
};
use kumiko_linux::dirty::{Count, Written, page_bytes};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Smaller memory is copied each time: less than asking what was written costs.
const WATCH_LEAST_BYTES: usize = 64 << 10;
/// The first one of more memory is written before the program stands still for it.
const AHEAD_LEAST_BYTES: u64 = 4 << 20;
const SAVED_AT_ONCE_BYTES: usize = 8 << 20;
/// When nobody says how often something dies here: once a day, as places in a shared pool do.
pub const FAILURES: Duration = Duration::from_secs(24 * 3600);

/// Copies memory that the program named, and puts it back. What makes it sound is said where pointers are (`lib`).
pub trait Memory: Clone + Send + 'static {
    fn copy(&self, range: Range<usize>, to: &mut Vec<u8>);
    /// The program may be writing to it: then any of what was there is taken.
    fn save(&self, range: Range<usize>, to: &File, at: u64) -> io::Result<()>;
    fn put(&self, at: usize, bytes: &[u8]);
}

#[derive(Debug)]
struct Named {
    state: State,
    at: Range<usize>,
    /// Its pages that are watched: those that hold nothing else.
    watched: Option<Range<usize>>,
}

/// How often.
#[derive(Clone, Copy, Debug)]
pub enum Every {
    /// By what one costs, how often something dies, and how much would be lost.
    Measured,
    /// Zero: at each safe point, after the one before is on the disk.
    Fixed(Duration),
}

#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error(transparent)]
    Folder(#[from] NoFolder),
    #[error("safe points cannot be counted: {0}")]
    Count(io::Error),
}

/// Memory that cannot be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadState {
    #[error("its name is empty, too long, or there already")]
    Name,
    #[error("it overlaps with what was named before")]
    Overlap,
    #[error("too much is named")]
    TooMany,
    #[error("it is named after the first safe point")]
    Late,
}

/// Half of it is as it was at the checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum NotResumed {
    #[error("{0}: it changed while it was read")]
    Memory(#[from] crate::folder::Bad),
    #[error("{}: {cause}: it cannot be set back", path.display())]
    File { path: PathBuf, cause: io::Error },
}

type Writing = JoinHandle<(Vec<u8>, io::Result<Duration>)>;

/// A whole that is written while the program goes on; what it writes to meanwhile is written over it.
#[derive(Debug)]
struct Ahead {
    thread: JoinHandle<io::Result<(Draft, Duration)>>,
    /// How long the program stood still for it.
    freeze: Duration,
    /// Nobody needs it any more.
    ends: Arc<AtomicBool>,
}

#[derive(Debug)]
pub struct Library<M> {
    memory: M,
    folder: Arc<Mutex<Folder>>,
    count: Count,
    named: Vec<Named>,
    files: Vec<Opened>,
    /// None: this kernel or sandbox does not tell what was written, and all is copied each time.
    written: Option<Written>,
    /// It was looked for a checkpoint; its number, or 0.
    resumed: Option<u64>,
    /// The next safe point is the one that it was resumed at.
    at_resumed: bool,
    points: u64,
    every: Every,
    failures: Duration,
    /// The next one is whole: there is none, or the last one failed.
    whole: bool,
    writing: Option<(Writing, Duration)>,
    ahead: Option<Ahead>,
    /// The program writes to most of its memory in between: that is sooner copied at once.
    rewrites: bool,
    /// Of the last one: how long the program stood still, and the thread wrote.
    cost: Option<Duration>,
    since: Instant,
    begun: Instant,
    buffer: Vec<u8>,
    /// How long the program stood still for the last one.
    frozen: Duration,
}

impl<M: Memory> Library<M> {
    pub fn begin(path: &Path, failures: Duration, memory: M) -> Result<Library<M>, BeginError> {
        let folder = Folder::open(path)?;
        let count = folder.count().and_then(|file| Count::new(&file));
        Ok(Library {
            memory,
            count: count.map_err(BeginError::Count)?,
            folder: Arc::new(Mutex::new(folder)),
            named: Vec::new(),
            files: Vec::new(),
            written: Written::open().ok(),
            resumed: None,
            at_resumed: false,
            points: 0,
            every: Every::Measured,
            failures,
            whole: true,
            writing: None,
            ahead: None,
            rewrites: false,
            cost: None,
            since: Instant::now(),
            begun: Instant::now(),
            buffer: Vec::new(),
            frozen: Duration::ZERO,
        })
    }

    pub fn state(&mut self, name: &str, at: Range<usize>) -> Result<(), BadState> {
        if self.resumed.is_some() {
            return Err(BadState::Late);
        }
        let taken = |one: &Named| one.state.name == name;
        if !(1..=NAME_MOST_BYTES).contains(&name.len()) || self.named.iter().any(taken) {
            return Err(BadState::Name);
        }
        let overlaps = |one: &Named| one.at.start < at.end && at.start < one.at.end;
        if self.named.iter().any(overlaps) {
            return Err(BadState::Overlap);
        }
        if self.named.len() >= MOST_STATES {
            return Err(BadState::TooMany);
        }
        let state = State {
            name: name.to_owned(),
            bytes: at.len() as u64,
        };
        self.named.push(Named {
            state,
            at,
            watched: None,
        });
        Ok(())
    }

    /// Opens a file of the program's, as open(2) does with these flags; it is a state of this name. What it holds is found out with the
    /// rest of the states: it is not made empty by then.
    ///
    /// # Errors
    /// As open(2); what is no regular file, and what cannot be named.
    pub fn open(&mut self, name: &str, path: &Path, flags: i32) -> io::Result<File> {
        let invalid = |bad: BadState| io::Error::new(io::ErrorKind::InvalidInput, bad);
        if !may_be_named(name) {
            return Err(invalid(BadState::Name));
        }
        let opened = Opened::new(name, path, flags)?;
        let file = opened.file.try_clone()?;
        let start = std::ptr::from_ref(&*opened.told).expose_provenance();
        self.state(name, start..start + TOLD_BYTES)
            .map_err(invalid)?;
        self.files.push(opened);
        Ok(file)
    }

    /// What is in front of the file that was opened under this name.
    pub fn stream(&mut self, name: &str, stream: Box<dyn Stream>) {
        if let Some(opened) = self.files.iter_mut().find(|one| one.name == name) {
            opened.stream = Some(stream);
        }
    }

    pub fn frozen(&self) -> Duration {
        self.frozen
    }

    /// What is not watched is copied each time.
    pub fn watches(&self) -> bool {
        self.named.iter().any(|one| one.watched.is_some())
    }

    pub fn every(&mut self, every: Every) {
        self.every = every;
    }

    /// Puts the newest checkpoint's bytes where they belong, if it was not looked for one before. Its number, or 0.
    ///
    /// # Errors
    /// Memory or files were written to, and not all could be: the program cannot go on.
    pub fn resume(&mut self) -> Result<u64, NotResumed> {
        if let Some(number) = self.resumed {
            return Ok(number);
        }
        let states = self.states();
        let mut folder = lock(&self.folder);
        let (found, bad) = folder.find(&states, &self.files);
        for one in bad {
            eprintln!("kumiko checkpoint: {one}: the one before is taken, if there is one");
        }
        if let Some(found) = &found {
            folder.give(found, |block, bytes| {
                let to = self.named.get(block.state);
                let offset = usize::try_from(block.offset).unwrap_or(usize::MAX);
                if let Some(to) = to.and_then(|to| to.at.start.checked_add(offset)) {
                    self.memory.put(to, bytes);
                }
            })?;
            self.points = found.head.points;
            self.at_resumed = true;
            self.count.set(self.points);
        }
        for opened in &self.files {
            let begun = match &found {
                Some(_) => opened.set_back(folder.kept_file(&opened.name).as_ref()),
                None => opened.begin(),
            };
            begun.map_err(|cause| NotResumed::File {
                path: opened.path.clone(),
                cause,
            })?;
            folder.keep_file(opened);
        }
        let number = found.map_or(0, |found| found.head.number);
        self.resumed = Some(number);
        Ok(number)
    }

    fn states(&self) -> Vec<State> {
        self.named.iter().map(|one| one.state.clone()).collect()
    }

    /// All that was named is as a later start is to find it.
    ///
    /// # Errors
    /// As [`Library::resume`].
    pub fn point(&mut self) -> Result<(), NotResumed> {
        self.resume()?;
        if std::mem::take(&mut self.at_resumed) {
            return Ok(());
        }
        self.points += 1;
        self.count.set(self.points);
        if let Some(ahead) = self.ahead.take() {
            match ahead.thread.is_finished() {
                true => self.write_over(ahead),
                false => self.ahead = Some(ahead),
            }
        } else if !self.named.is_empty() && self.is_due() {
            match self.whole && self.may_begin_ahead() {
                true => self.begin_ahead(),
                false => self.checkpoint(),
            }
        }
        Ok(())
    }

    /// Its last safe point becomes a checkpoint, whatever is due, and is on the disk.
    pub fn leave(&mut self) {
        // One that was begun is not of this safe point.
        if let Some(ahead) = self.ahead.take() {
            ahead.ends.store(true, Relaxed);
            let _ = ahead.thread.join();
        }
        self.collect(true);
        if !self.named.is_empty() {
            self.checkpoint();
            self.collect(true);
        }
    }

    fn after(&self) -> Duration {
        match self.every {
            Every::Fixed(every) => every,
            Every::Measured => {
                let cost = self.cost.unwrap_or(expected_cost(self.all_bytes()));
                interval(cost, self.failures, self.begun.elapsed())
            }
        }
    }

    fn is_due(&mut self) -> bool {
        let after = self.after();
        // The program never waits for the disk, unless it asked to. What the last one cost may be known only now.
        self.since.elapsed() >= after
            && self.collect(after.is_zero())
            && self.since.elapsed() >= self.after()
    }

    fn all_bytes(&self) -> u64 {
        self.named.iter().map(|one| one.state.bytes).sum()
    }

    fn may_begin_ahead(&self) -> bool {
        let waits = matches!(self.every, Every::Fixed(every) if every.is_zero());
        !waits && !self.rewrites && self.written.is_some() && self.all_bytes() >= AHEAD_LEAST_BYTES
    }

    /// From here on it is told what the program writes to; all that is watched is written to the disk meanwhile.
    fn begin_ahead(&mut self) {
        let begun = Instant::now();
        self.changed();
        let draft = lock(&self.folder).draft(self.states());
        let memory = self.memory.clone();
        let watched: Vec<(usize, u64, Range<usize>)> = (self.named.iter().enumerate())
            .filter_map(|(number, one)| {
                let watched = one.watched.clone()?;
                Some((number, (watched.start - one.at.start) as u64, watched))
            })
            .collect();
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let write = move || {
            let begun = Instant::now();
            let draft = draft?;
            for (state, offset, range) in watched {
                for start in range.clone().step_by(SAVED_AT_ONCE_BYTES) {
                    if is_over.load(Relaxed) {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    let end = range.end.min(start.saturating_add(SAVED_AT_ONCE_BYTES));
                    let at = draft.at(state, offset + (start - range.start) as u64);
                    memory.save(start..end, &draft.file, at)?;
                }
            }
            Ok((draft, begun.elapsed()))
        };
        let thread = std::thread::Builder::new().name("checkpoint".to_owned());
        match thread.spawn(write) {
            Ok(thread) => {
                self.ahead = Some(Ahead {
                    thread,
                    freeze: begun.elapsed(),
                    ends,
                });
            }
            Err(error) => eprintln!("kumiko checkpoint: no thread to write it: {error}"),
        }
        self.since = Instant::now();
    }

    /// The program stands still while what it wrote to since is copied: the whole is of this safe point.
    fn write_over(&mut self, ahead: Ahead) {
        let begun = Instant::now();
        let (draft, took) = match ahead.thread.join() {
            Ok(Ok(ahead)) => ahead,
            Ok(Err(error)) => return self.not_written(&error),
            Err(_) => return self.not_written(&io::ErrorKind::Other.into()),
        };
        if let Err(error) = self.files.iter().try_for_each(Opened::tell) {
            return self.not_written(&error);
        }
        let blocks = self.changed();
        let changed: u64 = blocks.iter().map(|block| block.bytes).sum();
        if changed >= self.all_bytes() / 2 {
            self.rewrites = true;
            return self.checkpoint();
        }
        let data = self.copied(&blocks);
        let points = self.points;
        self.write(
            ahead.freeze + took,
            begun,
            move |folder, data| folder.write_over(draft, points, &blocks, data),
            data,
        );
    }

    fn not_written(&mut self, error: &io::Error) {
        eprintln!("kumiko checkpoint: it cannot be written, and is tried again: {error}");
        self.whole = true;
        self.since = Instant::now();
    }

    /// False: the last one is being written still.
    fn collect(&mut self, wait: bool) -> bool {
        let Some((writing, freeze)) = self.writing.take() else {
            return true;
        };
        if !wait && !writing.is_finished() {
            self.writing = Some((writing, freeze));
            return false;
        }
        let (buffer, told) = writing
            .join()
            .unwrap_or_else(|_| (Vec::new(), Err(io::ErrorKind::Other.into())));
        self.buffer = buffer;
        match told {
            Ok(wrote) => self.cost = Some(freeze + wrote),
            Err(error) => self.not_written(&error),
        }
        true
    }

    fn checkpoint(&mut self) {
        let begun = Instant::now();
        if let Err(error) = self.files.iter().try_for_each(Opened::tell) {
            return self.not_written(&error);
        }
        let last = lock(&self.folder).last();
        let mut blocks = self.changed();
        let bytes = |blocks: &[Block]| blocks.iter().map(|block| block.bytes).sum::<u64>();
        let all = self.all_bytes();
        // A part that is most of it, or more than a part may be, is no saving.
        if self.whole || bytes(&blocks) >= all / 2 || blocks.len() > MOST_BLOCKS {
            let whole = |(number, one): (usize, &Named)| Block::cut(number, 0..one.state.bytes);
            blocks = self.named.iter().enumerate().flat_map(whole).collect();
        }
        let is_whole = bytes(&blocks) == all;
        let head = Head {
            number: last + 1,
            base: (!is_whole).then_some(last),
            points: self.points,
            states: self.states(),
            blocks,
        };
        let data = self.copied(&head.blocks);
        self.write(
            Duration::ZERO,
            begun,
            |folder, data| folder.write(head, data),
            data,
        );
    }

    /// The blocks' bytes, one behind the other.
    fn copied(&mut self, blocks: &[Block]) -> Vec<u8> {
        let mut data = std::mem::take(&mut self.buffer);
        data.clear();
        for block in blocks {
            if let Some(one) = self.named.get(block.state) {
                let offset = usize::try_from(block.offset).unwrap_or(usize::MAX);
                let bytes = usize::try_from(block.bytes).unwrap_or(usize::MAX);
                let start = one.at.start + offset;
                self.memory.copy(start..start + bytes, &mut data);
            }
        }
        data
    }

    /// All is copied that the program may write to: it goes on, a thread does the rest. `begun` is when it stood still, `before` what the
    /// checkpoint took until then.
    fn write(
        &mut self,
        before: Duration,
        begun: Instant,
        write: impl FnOnce(&mut Folder, &[u8]) -> io::Result<()> + Send + 'static,
        data: Vec<u8>,
    ) {
        let folder = Arc::clone(&self.folder);
        let files = self.files.iter().filter(|one| one.writes);
        let files: Vec<Arc<File>> = files.map(|one| Arc::clone(&one.file)).collect();
        let write = move || {
            let begun = Instant::now();
            // What it says of files is true of the disk before it is there.
            let synchronised = files.iter().try_for_each(|file| file.sync_data());
            let told = synchronised.and_then(|()| write(&mut lock(&folder), &data));
            (data, told.map(|()| begun.elapsed()))
        };
        let thread = std::thread::Builder::new().name("checkpoint".to_owned());
        self.frozen = begun.elapsed();
        match thread.spawn(write) {
            Ok(writing) => {
                self.whole = false;
                self.writing = Some((writing, before + self.frozen));
            }
            Err(error) => {
                self.whole = true;
                eprintln!("kumiko checkpoint: no thread to write it: {error}");
            }
        }
        self.since = Instant::now();
        if matches!(self.every, Every::Fixed(every) if every.is_zero()) {
            self.collect(true);
        }
    }

    /// What was written since this was asked before; all of what is not watched.
    fn changed(&mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        for (number, one) in self.named.iter_mut().enumerate() {
            let offset = |at: usize| (at - one.at.start) as u64;
            let pages = match (&self.written, &one.watched) {
                (Some(written), Some(watched)) => written.take(watched).ok(),
                _ => None,
            };
            match (pages, one.watched.clone()) {
                (Some(pages), Some(watched)) => {
                    // Its ends share their pages with other things.
                    let ends = [one.at.start..watched.start, watched.end..one.at.end];
                    let [first, last] = ends;
                    let all = std::iter::once(first).chain(pages).chain([last]);
                    for run in all {
                        blocks.extend(Block::cut(number, offset(run.start)..offset(run.end)));
                    }
                }
                _ => blocks.extend(Block::cut(number, 0..one.state.bytes)),
            }
            if one.watched.is_none() && one.at.len() >= WATCH_LEAST_BYTES {
                one.watched = watch(self.written.as_ref(), &one.at);
            }
        }
        blocks
    }

    /// Nothing is checkpointed any more; the last one is on the disk.
    pub fn end(&mut self) {
        // One that was begun is none.
        if let Some(ahead) = self.ahead.take() {
            ahead.ends.store(true, Relaxed);
            let _ = ahead.thread.join();
        }
        self.collect(true);
        if let Some(written) = &self.written {
            for watched in self.named.iter().filter_map(|one| one.watched.as_ref()) {
                written.forget(watched);
            }
        }
    }
}

/// Watches the pages that lie in the range whole, from this moment on. None: that cannot be.
fn watch(written: Option<&Written>, at: &Range<usize>) -> Option<Range<usize>> {
    let page = page_bytes();
    let inner = at.start.div_ceil(page) * page..at.end / page * page;
    let written = written?;
    if inner.is_empty() {
        return None;
    }
    written.watch(&inner).ok()?;
    match written.take(&inner) {
        Ok(_) => Some(inner),
        Err(_) => {
            written.forget(&inner);
            None
        }
    }
}

fn lock(folder: &Mutex<Folder>) -> std::sync::MutexGuard<'_, Folder> {
    folder.lock().unwrap_or_else(PoisonError::into_inner)
}

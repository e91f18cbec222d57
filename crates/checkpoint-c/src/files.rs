//! Files that a program has open, set back to what they were at the checkpoint that it goes on from (spec/checkpoint, K37): how long each
//! was, and where it was read or written. Not here: where their other names lie (`folder`), streams of C (`lib`).

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A name is also one in the folder of checkpoints, with more behind it.
const NAME_MOST_BYTES: usize = 200;
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// What buffers in front of a file.
pub trait Stream: Debug + Send {
    /// The file has all that was written, and is where the program is.
    fn flush(&self) -> io::Result<()>;
    /// The program is at this byte; nothing of what was read before is left.
    fn place(&self, at: u64) -> io::Result<()>;
}

/// A state of two numbers: bytes, position.
#[derive(Debug, Default)]
pub struct Told([AtomicU64; 2]);

pub const TOLD_BYTES: usize = size_of::<Told>();

#[derive(Debug)]
pub struct Opened {
    pub name: String,
    pub path: PathBuf,
    pub file: Arc<File>,
    pub stream: Option<Box<dyn Stream>>,
    pub writes: bool,
    /// It was to be empty, if the program begins.
    empties: bool,
    /// Stays where it is: it is named as memory.
    pub told: Box<Told>,
}

pub fn may_be_named(name: &str) -> bool {
    (1..=NAME_MOST_BYTES).contains(&name.len()) && !name.contains(['/', '\0'])
}

/// As open(2) has it, a new one with 0666 but for the umask.
pub fn open(path: &Path, flags: i32) -> io::Result<File> {
    let way = flags & libc::O_ACCMODE;
    OpenOptions::new()
        .read(way != libc::O_WRONLY)
        .write(way != libc::O_RDONLY)
        .custom_flags(flags & !libc::O_ACCMODE)
        .open(path)
}

impl Opened {
    /// Nothing of it is lost yet.
    pub fn new(name: &str, path: &Path, flags: i32) -> io::Result<Opened> {
        let file = open(path, flags & !(libc::O_TRUNC | libc::O_EXCL))?;
        if !file.metadata()?.is_file() {
            let what = "it is no regular file, and cannot be set back";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(Opened {
            name: name.to_owned(),
            path: path.to_owned(),
            file: Arc::new(file),
            stream: None,
            writes: flags & libc::O_ACCMODE != libc::O_RDONLY,
            empties: flags & libc::O_TRUNC != 0,
            told: Box::default(),
        })
    }

    /// For a checkpoint that is being made.
    pub fn tell(&self) -> io::Result<()> {
        if let Some(stream) = &self.stream {
            stream.flush()?;
        }
        let Told([bytes, position]) = &*self.told;
        bytes.store(self.file.metadata()?.len(), Relaxed);
        position.store((&*self.file).stream_position()?, Relaxed);
        Ok(())
    }

    /// The program begins.
    pub fn begin(&self) -> io::Result<()> {
        match self.empties {
            true => self.file.set_len(0),
            false => Ok(()),
        }
    }

    /// To what was told. What another process wrote is copied: it may be at work still. Waits for a disk that is full.
    pub fn set_back(&self, kept: Option<&File>) -> io::Result<()> {
        let mut told = false;
        loop {
            match self.set_back_now(kept) {
                Err(error) if is_full(&error) => {
                    if !std::mem::replace(&mut told, true) {
                        eprintln!(
                            "kumiko checkpoint: {}: {error}: waiting for room",
                            self.path.display()
                        );
                    }
                    std::thread::sleep(FULL_PAUSE);
                }
                done => return done,
            }
        }
    }

    fn set_back_now(&self, kept: Option<&File>) -> io::Result<()> {
        let Told([bytes, position]) = &*self.told;
        let (bytes, position) = (bytes.load(Relaxed), position.load(Relaxed));
        let mut file = &*self.file;
        match kept {
            _ if !self.writes => {}
            Some(kept) if !is_same(kept, file)? => {
                file.set_len(0)?;
                file.rewind()?;
                let mut from = kept;
                from.rewind()?;
                if io::copy(&mut from.take(bytes), &mut file)? < bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                file.sync_data()?;
            }
            _ => file.set_len(bytes)?,
        }
        file.seek(SeekFrom::Start(position))?;
        match &self.stream {
            Some(stream) => stream.place(position),
            None => Ok(()),
        }
    }
}

pub fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let [one, other] = [one.metadata()?, other.metadata()?];
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

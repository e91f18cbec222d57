//! Bytes of calls: arguments and results, in memory or in files of the site (spec/rpc P65). Not here: which calls there are.

use crate::callbacks::Callbacks;
use crate::checkpoints::Checkpoints;
use crate::dumps::Dumps;
use bytes::Bytes;
use kumiko_call::id::{AttemptId, CallId};
use kumiko_linux::Dir;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Arguments of one block, and results, of no more than this outlive the machine by the log, which goes to the disk in any case: a new file
/// is brought there by several writes more.
pub const LOGGED_BYTES: u64 = 256 << 10;

/// Arguments or a result.
#[derive(Clone, Debug)]
pub enum Held {
    Memory(Bytes),
    /// Opened when it is read: a call that waits costs no descriptor.
    File(PathBuf),
}

/// Arguments of a call that arrive.
#[derive(Debug)]
pub struct Arriving {
    to: To,
    bytes: u64,
}

#[derive(Debug)]
enum To {
    Memory(Mutex<Bytes>),
    File(Arc<File>, PathBuf),
}

/// The folders: `arguments`, `results`, `checkpoints`, `dumps` and `callbacks`, of all calls.
#[derive(Debug)]
pub struct Store {
    pub checkpoints: Checkpoints,
    pub dumps: Dumps,
    pub callbacks: Callbacks,
    arguments: PathBuf,
    results: PathBuf,
}

impl Store {
    pub fn open(root: &Path) -> io::Result<Store> {
        let store = Store {
            checkpoints: Checkpoints::open(root.join("checkpoints"))?,
            dumps: Dumps::open(root.join("dumps"))?,
            callbacks: Callbacks::open(root.join("callbacks"))?,
            arguments: root.join("arguments"),
            results: root.join("results"),
        };
        for folder in [&store.arguments, &store.results] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        Ok(store)
    }

    /// Arguments stay in memory if they may, or are nothing.
    pub fn arriving(&self, call: CallId, bytes: u64, in_memory: bool) -> io::Result<Arriving> {
        let to = match in_memory || bytes == 0 {
            true => To::Memory(Mutex::default()),
            false => {
                let path = self.arguments(call);
                let mut options = File::options();
                // Blocks that arrived before the site was started anew stay.
                options.create(true).truncate(false).write(true).read(true);
                To::File(Arc::new(options.open(&path)?), path)
            }
        };
        Ok(Arriving { to, bytes })
    }

    pub fn arguments(&self, call: CallId) -> PathBuf {
        self.arguments.join(call_file(call))
    }

    pub fn result(&self, attempt: AttemptId) -> PathBuf {
        self.results.join(attempt.to_string())
    }

    /// A small result that outlives the site.
    pub fn put_result(&self, attempt: AttemptId, bytes: &[u8]) -> io::Result<Held> {
        let path = self.result(attempt);
        std::fs::write(&path, bytes)?;
        Ok(Held::File(path))
    }

    /// Takes the file that a routine has made in its own folder, under the name of the attempt that it was told. A guest made it: it
    /// may be anything.
    pub fn take_result(
        &self,
        attempt: AttemptId,
        told: AttemptId,
        folder: &Path,
        bytes: u64,
        sync: bool,
    ) -> io::Result<Held> {
        let results = Dir::open(&self.results)?;
        let name = attempt.to_string();
        match Dir::open(folder)?.rename(told.to_string(), &results, &name) {
            // An older process of the site may have taken it, and have been killed before that was recorded.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
        let meta = results.open_file(&name)?.metadata()?;
        if !meta.is_file() || meta.len() != bytes {
            results.remove_all(&name)?;
            let what = "the routine's result is not the file that it was to make";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let path = self.result(attempt);
        if sync {
            File::open(&path)?.sync_data()?;
            results.sync()?;
        }
        Ok(Held::File(path))
    }

    /// Of arguments, or of a result, by the name that the log has them under.
    pub fn path(&self, name: &str) -> PathBuf {
        match name.contains('.') {
            true => self.results.join(name),
            false => self.arguments.join(name),
        }
    }

    /// Brings these files to the disk. Those that are there still.
    pub fn sync(&self, mut names: Vec<String>) -> io::Result<Vec<String>> {
        let mut failed = Ok(());
        names.retain(|name| {
            let file = File::open(self.path(name));
            match file.and_then(|file| file.sync_data()) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        for folder in [&self.arguments, &self.results] {
            Dir::open(folder)?.sync()?;
        }
        failed.map(|()| names)
    }

    /// The file that the log has these bytes of is as they are, whatever the machine has left of it.
    pub fn restore(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(name);
        if std::fs::read(&path).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        // A process may have the file that is there mapped.
        let new = path.with_file_name(format!("{name}.new"));
        std::fs::write(&new, bytes)?;
        std::fs::rename(new, path)
    }

    /// All that lies of a call.
    pub fn erase(&self, call: CallId, epochs: u32) {
        let results = (1..=epochs).map(|epoch| self.result(AttemptId { call, epoch }));
        let callbacks = self.callbacks.path(&call.to_string());
        for path in results.chain([self.arguments(call), callbacks]) {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "what is left of a call is not removed");
                }
                _ => {}
            }
        }
        if let Err(error) = self.checkpoints.erase(&call.to_string()) {
            tracing::warn!(%call, %error, "checkpoints of a call are not removed");
        }
        if let Err(error) = self.dumps.erase(&call.to_string()) {
            tracing::warn!(%call, %error, "dumps of a call are not removed");
        }
    }

    /// Files of calls that are not `known`.
    pub fn sweep(&self, known: impl Fn(&str) -> bool) {
        for folder in [&self.arguments, &self.results] {
            let Ok(entries) = std::fs::read_dir(folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let call = name.to_str().unwrap_or_default();
                let call = call.split('.').next().unwrap_or_default();
                if !known(call) {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
        for call in self.callbacks.calls().unwrap_or_default() {
            if !known(&call) {
                let _ = std::fs::remove_file(self.callbacks.path(&call));
            }
        }
        for call in self.checkpoints.calls().unwrap_or_default() {
            if !known(&call) {
                let _ = self.checkpoints.erase(&call);
            }
        }
        for call in self.dumps.calls().unwrap_or_default() {
            if !known(&call) {
                let _ = self.dumps.erase(&call);
            }
        }
    }
}

/// As a routine's program names it too.
pub fn call_file(call: CallId) -> String {
    call.to_string()
}

impl Arriving {
    /// One block, at its place. Blocking.
    pub fn write(&self, offset: u64, data: Bytes) -> io::Result<()> {
        match &self.to {
            To::File(file, _) => file.write_all_at(&data, offset),
            To::Memory(bytes) => {
                let mut bytes = lock(bytes);
                if bytes.is_empty() && offset == 0 {
                    *bytes = data;
                } else if bytes.len() as u64 == offset {
                    *bytes = [&bytes[..], &data[..]].concat().into();
                }
                Ok(())
            }
        }
    }

    pub fn is_file(&self) -> bool {
        matches!(self.to, To::File(..))
    }

    /// All are there. Blocking.
    pub fn sync(&self) -> io::Result<()> {
        match &self.to {
            To::File(file, path) => {
                file.sync_data()?;
                match path.parent() {
                    Some(folder) => Dir::open(folder)?.sync(),
                    None => Ok(()),
                }
            }
            To::Memory(_) => Ok(()),
        }
    }

    pub fn held(&self) -> Held {
        match &self.to {
            To::File(_, path) => Held::File(path.clone()),
            To::Memory(bytes) => Held::Memory(lock(bytes).clone()),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn lock(bytes: &Mutex<Bytes>) -> MutexGuard<'_, Bytes> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Held {
    /// Blocking, where it is a file.
    pub fn read(&self, offset: u64, bytes: u64) -> io::Result<Bytes> {
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        match self {
            Held::Memory(held) => {
                let from = usize::try_from(offset).map_err(|_| short())?;
                let to = usize::try_from(offset.saturating_add(bytes)).map_err(|_| short())?;
                match from <= to && to <= held.len() {
                    true => Ok(held.slice(from..to)),
                    false => Err(short()),
                }
            }
            Held::File(path) => {
                let mut data = vec![0; usize::try_from(bytes).map_err(|_| short())?];
                File::open(path)?.read_exact_at(&mut data, offset)?;
                Ok(Bytes::from(data))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_result_that_was_taken_is_found_again_and_one_that_was_not_made_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job");
        std::fs::create_dir(&job).unwrap();
        let store = Store::open(folder.path()).unwrap();
        let call = CallId {
            client: 7,
            sequence: 3,
        };
        let of = |epoch| AttemptId { call, epoch };
        std::fs::write(job.join("7-3.1"), "result").unwrap();
        for sync in [true, false] {
            let held = store.take_result(of(1), of(1), &job, 6, sync).unwrap();
            assert_eq!(held.read(0, 6).unwrap(), Bytes::from_static(b"result"));
        }
        let none = store.take_result(of(2), of(2), &job, 6, false);
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
        let short = store.take_result(of(1), of(1), &job, 7, false);
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

//! Being told when something appears in a directory, or a file grows (inotify(7)): within this machine only.

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

/// Room for many events without names at once (16 bytes each), and for one with the longest name.
const EVENT_BYTES: usize = 4096;

/// Many watches, read through one descriptor that does not block.
#[derive(Debug)]
pub struct Watch(OwnedFd);

/// One of them. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchId(i32);

/// Says that events were lost.
const OVERFLOW: WatchId = WatchId(-1);

impl Watch {
    pub fn new() -> io::Result<Watch> {
        Ok(Watch(inotify::init(
            CreateFlags::CLOEXEC | CreateFlags::NONBLOCK,
        )?))
    }

    /// Names that come into being in a directory, whole (by rename) or not. An error: none, or too many watches.
    pub fn directory(&self, path: &Path) -> io::Result<WatchId> {
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        Ok(WatchId(inotify::add_watch(&self.0, path, flags)?))
    }

    /// Names of a directory that get new contents, whole: by rename, or as whoever wrote them lets go of them.
    pub fn contents(&self, path: &Path) -> io::Result<WatchId> {
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        Ok(WatchId(inotify::add_watch(&self.0, path, flags)?))
    }

    /// What is written to a file.
    pub fn file(&self, path: &Path) -> io::Result<WatchId> {
        Ok(WatchId(inotify::add_watch(
            &self.0,
            path,
            WatchFlags::MODIFY,
        )?))
    }

    /// Not any more; one that is gone (as its file is) is no error.
    pub fn forget(&self, id: WatchId) {
        let _ = inotify::remove_watch(&self.0, id.0);
    }

    /// Those that something happened to since; empty: nothing (or too much: then all may have).
    pub fn happened(&self) -> io::Result<Vec<WatchId>> {
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut ids = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => ids.push(WatchId(event.wd())),
                Err(rustix::io::Errno::AGAIN) if ids.contains(&OVERFLOW) => return Ok(Vec::new()),
                Err(rustix::io::Errno::AGAIN) => return Ok(ids),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_when_they_are_whole() {
        use std::io::Write;
        let top = std::env::temp_dir().join(format!("kumiko-contents-{}", std::process::id()));
        std::fs::create_dir_all(&top).unwrap();
        let watch = Watch::new().unwrap();
        let id = watch.contents(&top).unwrap();
        let mut file = std::fs::File::create(top.join("a")).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(watch.happened().unwrap(), []);
        drop(file);
        assert_eq!(watch.happened().unwrap(), [id]);
        std::fs::rename(top.join("a"), top.join("b")).unwrap();
        assert_eq!(watch.happened().unwrap(), [id]);
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn what_appears_and_what_grows_is_told_by_its_watch() {
        let top = std::env::temp_dir().join(format!("kumiko-watch-{}", std::process::id()));
        std::fs::create_dir_all(&top).unwrap();
        std::fs::write(top.join("log"), "").unwrap();
        let watch = Watch::new().unwrap();
        let (directory, file) = (
            watch.directory(&top).unwrap(),
            watch.file(&top.join("log")).unwrap(),
        );
        assert_eq!(watch.happened().unwrap(), []);
        std::fs::write(top.join("log"), "more").unwrap();
        assert!(watch.happened().unwrap().iter().all(|id| *id == file));
        std::fs::write(top.join("new"), "").unwrap();
        std::fs::rename(top.join("new"), top.join("there")).unwrap();
        assert_eq!(watch.happened().unwrap(), [directory, directory]);
        watch.forget(directory);
        std::fs::write(top.join("another"), "").unwrap();
        // IN_IGNORED itself is the last of a watch.
        let rest = watch.happened().unwrap();
        assert!(rest.len() <= 1, "{rest:?}");
        assert!(watch.directory(&top.join("log")).is_err());
        std::fs::remove_dir_all(top).unwrap();
    }
}

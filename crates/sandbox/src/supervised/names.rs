//! Calls that make, remove and move names, in a guest's place.

use super::caller::Caller;
use super::processes;
use super::resolve::{End, last_name, parent};
use super::view::{Kind, c_string, flag};
use kumiko_linux::supervise::Errno;
use kumiko_linux::supervise::calls::{self, FileKind};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

/// A name in a directory that is open.
struct Name {
    place: Vec<u8>,
    directory: OwnedFd,
    name: CString,
    /// The path ends with a slash.
    closing: bool,
}

impl Caller<'_> {
    /// Where a new name goes; EEXIST where it is taken.
    fn new_name(&self, directory: i32, path: &[u8]) -> Result<Name, Errno> {
        match self.end(directory, path, false)? {
            End::Missing { place, directory } => {
                self.may_write(parent(&place))?;
                self.name(place, directory)
            }
            _ => Err(Errno::EEXIST),
        }
    }

    /// A name that is there; a link itself.
    fn old_name(&self, directory: i32, path: &[u8]) -> Result<Name, Errno> {
        let closing = path.ends_with(b"/");
        match last_part(path) {
            Some(b"." | b"..") => return Err(Errno::EINVAL),
            None => return Err(Errno::EBUSY), // the root
            Some(_) => {}
        }
        match self.end(directory, path, false)? {
            End::There { place, .. } | End::Link { place } => {
                if self.view.holds_mount(&place) {
                    return Err(Errno::EBUSY);
                }
                self.may_write(parent(&place))?;
                self.name(place, closing)
            }
            End::Missing { .. } => Err(Errno::ENOENT),
            End::Alone { .. } => Err(Errno::EPERM),
        }
    }

    fn name(&self, place: Vec<u8>, closing: bool) -> Result<Name, Errno> {
        let (mount, rest) = self.view.mount_of(parent(&place))?;
        if mount.kind != Kind::Tree {
            return Err(Errno::EPERM);
        }
        let directory = mount.open(rest, flag::PATH | flag::DIRECTORY, 0)?;
        let name = c_string(last_name(&place))?;
        Ok(Name {
            place,
            directory,
            name,
            closing,
        })
    }

    pub(super) fn make_directory(
        &self,
        directory: i32,
        path: &[u8],
        mode: u32,
    ) -> Result<i64, Errno> {
        let new = self.new_name(directory, path)?;
        let mode = mode & !processes::umask_of(self.tid)?;
        calls::make_directory(new.directory.as_fd(), &new.name, mode)
    }

    pub(super) fn make_node(
        &self,
        directory: i32,
        path: &[u8],
        mode: u32,
        device: u64,
    ) -> Result<i64, Errno> {
        let new = self.new_name(directory, path)?;
        if new.closing {
            return Err(Errno::ENOENT);
        }
        let mode = mode & !processes::umask_of(self.tid)?;
        calls::make_node(new.directory.as_fd(), &new.name, mode, device)
    }

    pub(super) fn make_link(
        &self,
        words: &[u8],
        directory: i32,
        path: &[u8],
    ) -> Result<i64, Errno> {
        if words.is_empty() {
            return Err(Errno::ENOENT);
        }
        let new = self.new_name(directory, path)?;
        if new.closing {
            return Err(Errno::ENOENT);
        }
        calls::make_link(&c_string(words)?, new.directory.as_fd(), &new.name)
    }

    pub(super) fn remove(&self, directory: i32, path: &[u8], flags: u64) -> Result<i64, Errno> {
        if flags & !flag::AT_REMOVE_DIRECTORY != 0 {
            return Err(Errno::EINVAL);
        }
        let as_directory = flags != 0;
        match last_part(path) {
            Some(b"." | b"..") | None if !path.is_empty() && !as_directory => {
                return Err(Errno::EISDIR);
            }
            Some(b"..") => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        let old = self.old_name(directory, path)?;
        if old.closing && !as_directory {
            let there = calls::open_beneath(
                old.directory.as_fd(),
                &old.name,
                flag::PATH | flag::NOFOLLOW,
                0,
            )?;
            let is = calls::about(there.as_fd())?.kind();
            return Err(if is == FileKind::Directory {
                Errno::EISDIR
            } else {
                Errno::ENOTDIR
            });
        }
        calls::unlink(old.directory.as_fd(), &old.name, flags as i32)
    }

    pub(super) fn rename(
        &self,
        from: (i32, &[u8]),
        to: (i32, &[u8]),
        flags: u32,
    ) -> Result<i64, Errno> {
        const EXCHANGE: u32 = 2;
        for path in [from.1, to.1] {
            if matches!(last_part(path), Some(b"." | b"..")) {
                return Err(Errno::EBUSY);
            }
        }
        let old = self.old_name(from.0, from.1)?;
        let new = match self.end(to.0, to.1, false)? {
            End::Missing { place, directory } => {
                if flags & EXCHANGE != 0 {
                    return Err(Errno::ENOENT);
                }
                self.may_write(parent(&place))?;
                let new = self.name(place, directory)?;
                if new.closing {
                    let there = calls::open_beneath(
                        old.directory.as_fd(),
                        &old.name,
                        flag::PATH | flag::NOFOLLOW,
                        0,
                    )?;
                    if calls::about(there.as_fd())?.kind() != FileKind::Directory {
                        return Err(Errno::ENOTDIR);
                    }
                }
                new
            }
            _ => self.old_name(to.0, to.1)?,
        };
        self.same_mount(&old.place, &new.place)?;
        calls::rename(
            (old.directory.as_fd(), &old.name),
            (new.directory.as_fd(), &new.name),
            flags,
        )
    }

    pub(super) fn link(
        &self,
        from: (i32, &[u8]),
        to: (i32, &[u8]),
        flags: u64,
    ) -> Result<i64, Errno> {
        let follow = if flags & flag::AT_FOLLOW != 0 {
            0
        } else {
            flag::AT_NOFOLLOW
        };
        let (old, place) = self.subject(from.0, from.1, (flags & flag::AT_EMPTY_PATH) | follow)?;
        let new = self.new_name(to.0, to.1)?;
        if new.closing {
            return Err(Errno::ENOENT);
        }
        let place = match place {
            Some(place) => place,
            None => {
                let real = calls::read_link(&calls::own_path(old.as_fd()))?;
                let gone = real.strip_suffix(processes::GONE).unwrap_or(&real); // a file without a name (O_TMPFILE)
                self.view.place_of(gone).ok_or(Errno::EXDEV)?
            }
        };
        self.same_mount(&place, &new.place)?;
        calls::link(old.as_fd(), new.directory.as_fd(), &new.name)
    }

    /// As between file systems: what is moved stays where its rights are.
    fn same_mount(&self, one: &[u8], other: &[u8]) -> Result<(), Errno> {
        let (one, other) = (
            self.view.mount_of(one)?.0,
            self.view.mount_of(parent(other))?.0,
        );
        if std::ptr::eq(one, other) {
            Ok(())
        } else {
            Err(Errno::EXDEV)
        }
    }
}

/// The last name of a path as it is written; None: there is none.
fn last_part(path: &[u8]) -> Option<&[u8]> {
    path.split(|byte| *byte == b'/')
        .rfind(|part| !part.is_empty())
}

//! Calls that make, remove and move names, in a guest's place. Of a path all but its last name is resolved here; that is
//! the kernel's to look at, as it stands there (".", "..", with a closing slash), for these calls follow none.

use super::caller::Caller;
use super::processes;
use super::resolve::{End, join};
use super::view::{Kind, c_string, flag};
use kumiko_linux::supervise::calls::{self, FileKind};
use kumiko_linux::supervise::{Errno, arguments};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

/// RENAME_NOREPLACE of renameat2(2).
const NO_REPLACE: u32 = 1;

/// A name, there or not, in a directory that is open.
struct Name {
    /// That of the directory.
    place: Vec<u8>,
    directory: OwnedFd,
    /// As it is written.
    name: CString,
}

impl Caller<'_> {
    fn name(&self, directory: i32, path: &[u8]) -> Result<Name, Errno> {
        let (above, name) = parted(path).ok_or(Errno::ENOENT)?;
        let name = c_string(name)?;
        match self.end(directory, above, true)? {
            End::There {
                place,
                handle,
                directory: true,
            } => Ok(Name {
                place,
                directory: handle,
                name,
            }),
            End::Missing { .. } => Err(Errno::ENOENT),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Where a new name goes. `kind`: a directory may be named with a closing slash.
    fn new_name(&self, directory: i32, path: &[u8], kind: FileKind) -> Result<Name, Errno> {
        let new = self.name(directory, path)?;
        match self.may_remove(&new) {
            Ok(()) => Ok(new),
            Err(errno) => Err(self.refused(&new, kind, errno)),
        }
    }

    /// Before `errno`, which speaks of the place, the kernel tells what is wrong with a new name (filename_create of its
    /// fs/namei.c): that it is taken, or that it is a directory's.
    fn refused(&self, new: &Name, kind: FileKind, errno: Errno) -> Errno {
        let last = last_part(new.name.as_bytes());
        match self.end(flag::AT_CWD, &join(&new.place, last), false) {
            Ok(End::Missing { .. }) if kind == FileKind::Directory => errno,
            Ok(End::Missing { .. }) if new.name.as_bytes().ends_with(b"/") => Errno::ENOENT,
            Ok(End::Missing { .. }) => errno,
            Ok(_) => Errno::EEXIST,
            Err(errno) => errno,
        }
    }

    /// May it be removed, or given to something else?
    fn may_remove(&self, old: &Name) -> Result<(), Errno> {
        match last_part(old.name.as_bytes()) {
            b"." | b".." => Ok(()), // the kernel refuses them
            last => {
                self.may_change(old)?;
                match self.view.holds_mount(&join(&old.place, last)) {
                    true => Err(Errno::EBUSY),
                    false => Ok(()),
                }
            }
        }
    }

    /// May names be made and removed there?
    fn may_change(&self, name: &Name) -> Result<(), Errno> {
        self.may_write(&name.place)?;
        match self.view.mount_of(&name.place)?.0.kind {
            Kind::Tree => Ok(()),
            _ => Err(Errno::EPERM),
        }
    }

    pub(super) fn make_directory(
        &self,
        directory: i32,
        path: &[u8],
        mode: u32,
    ) -> Result<i64, Errno> {
        let new = self.new_name(directory, path, FileKind::Directory)?;
        let mode = mode & !processes::umask_of(self.tid)?;
        calls::make_directory(new.directory.as_fd(), &new.name, mode)
    }

    pub(super) fn make_node(
        &self,
        directory: i32,
        path: usize,
        mode: u32,
        device: u64,
    ) -> Result<i64, Errno> {
        arguments::of_node(mode, device)?;
        let new = self.new_name(directory, &self.path(path)?, FileKind::Regular)?;
        let mode = mode & !processes::umask_of(self.tid)?;
        calls::make_node(new.directory.as_fd(), &new.name, mode, device)
    }

    pub(super) fn make_link(
        &self,
        words: &[u8],
        directory: i32,
        path: usize,
    ) -> Result<i64, Errno> {
        if words.is_empty() {
            return Err(Errno::ENOENT);
        }
        let new = self.new_name(directory, &self.path(path)?, FileKind::Link)?;
        calls::make_link(&c_string(words)?, new.directory.as_fd(), &new.name)
    }

    pub(super) fn remove(&self, directory: i32, path: &[u8], flags: u64) -> Result<i64, Errno> {
        if flags != 0 && !path.is_empty() && last_part(path).is_empty() {
            return Err(Errno::EBUSY); // the root
        }
        let old = self.name(directory, path)?;
        self.may_remove(&old)?;
        calls::unlink(old.directory.as_fd(), &old.name, flags as i32)
    }

    /// Each path: where it begins, and which argument it is.
    pub(super) fn rename(
        &self,
        from: (i32, usize),
        to: (i32, usize),
        flags: u32,
    ) -> Result<i64, Errno> {
        arguments::of_rename(flags)?;
        let old = self.name(from.0, &self.path(from.1)?)?;
        let new = self.name(to.0, &self.path(to.1)?)?;
        self.same_mount(&old.place, &new.place)?;
        // As do_renameat2 of the kernel's fs/namei.c: before what the place says.
        if is_dots(&old) {
            return Err(Errno::EBUSY);
        }
        if is_dots(&new) {
            return Err(match flags & NO_REPLACE {
                0 => Errno::EBUSY,
                _ => Errno::EEXIST,
            });
        }
        self.may_remove(&old)?;
        self.may_remove(&new)?;
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
        let new = self.new_name(to.0, to.1, FileKind::Regular)?;
        let place = match place {
            Some(place) => place,
            None => {
                let real = calls::read_link(&calls::own_path(old.as_fd()))?;
                let gone = real.strip_suffix(processes::GONE).unwrap_or(&real); // a file without a name (O_TMPFILE)
                self.view.place_of(gone).ok_or(Errno::EXDEV)?
            }
        };
        self.same_mount(&place, &new.place)
            .map_err(|errno| self.refused(&new, FileKind::Regular, errno))?;
        calls::link(old.as_fd(), new.directory.as_fd(), &new.name)
    }

    /// As between file systems: what is moved stays where its rights are.
    fn same_mount(&self, one: &[u8], other: &[u8]) -> Result<(), Errno> {
        let (one, other) = (self.view.mount_of(one)?.0, self.view.mount_of(other)?.0);
        if std::ptr::eq(one, other) {
            Ok(())
        } else {
            Err(Errno::EXDEV)
        }
    }
}

/// "." or "..", with which nothing can be done.
fn is_dots(name: &Name) -> bool {
    matches!(last_part(name.name.as_bytes()), b"." | b"..")
}

/// A path as the directory that it names something in, and that name as it is written; None: it is empty.
fn parted(path: &[u8]) -> Option<(&[u8], &[u8])> {
    path.first()?;
    let begin = without_closing(path).len() - last_part(path).len();
    Some(match path.split_at_checked(begin)? {
        (_, name) if without_closing(name).is_empty() => (b"/", b"."),
        (b"", name) => (b".", name),
        (above, name) if without_closing(above).is_empty() => (b"/", name),
        (above, name) => (without_closing(above), name),
    })
}

/// The last name of a path without closing slashes; empty: it is the root.
fn last_part(path: &[u8]) -> &[u8] {
    let path = without_closing(path);
    let slash = path.iter().rposition(|byte| *byte == b'/');
    path.get(slash.map_or(0, |slash| slash + 1)..)
        .unwrap_or_default()
}

fn without_closing(path: &[u8]) -> &[u8] {
    let closing = path.iter().rev().take_while(|byte| **byte == b'/');
    path.get(..path.len() - closing.count()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parted_before_their_last_name() {
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(above, name)| (above.as_bytes(), name.as_bytes()));
            assert_eq!(parted(path.as_bytes()), expected, "{path:?}");
        };
        check("", None);
        check("/", Some(("/", ".")));
        check("//", Some(("/", ".")));
        check("a", Some((".", "a")));
        check("a/", Some((".", "a/")));
        check("/a", Some(("/", "a")));
        check("//a//", Some(("/", "a//")));
        check("a/b", Some(("a", "b")));
        check("/a//b/..", Some(("/a//b", "..")));
        check("a//b/", Some(("a", "b/")));
        check("..", Some((".", "..")));
    }
}

//! Calls that read and change what files are said to be (stat(2), chmod(2), xattr(7), ...), in a guest's place.

use super::caller::Caller;
use super::execute;
use super::processes;
use super::resolve::{End, join};
use super::view::{Kind, c_string, flag};
use kumiko_linux::supervise::calls::{self, FileKind};
use kumiko_linux::supervise::{Errno, arguments, memory};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

/// XATTR_NAME_MAX with its closing zero, XATTR_SIZE_MAX, XATTR_LIST_MAX (limits.h).
const ATTRIBUTE_NAME_BYTES: usize = 256;
const ATTRIBUTE_BYTES: usize = 65_536;

/// What statx(2) takes among its flags: AT_NO_AUTOMOUNT, and how fresh it is to be.
pub(super) const OF_STATX: u64 = flag::AT_EMPTY_PATH | flag::AT_NOFOLLOW | 0x800 | 0x6000;

/// access(2).
const WRITE: i32 = 2;
const EXECUTE: i32 = 1;

/// UTIME_OMIT of utimensat(2).
const OMITTED: i64 = 0x3fff_fffe;

/// Nanoseconds that utimensat(2) takes; the kernel looks at them when it has found the file.
fn of_times(times: Option<[i64; 4]>) -> Result<(), Errno> {
    const NOW: i64 = 0x3fff_ffff; // UTIME_NOW
    let sound = |part: i64| matches!(part, 0..1_000_000_000 | OMITTED | NOW);
    match times {
        Some([_, one, _, other]) if !(sound(one) && sound(other)) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

impl Caller<'_> {
    pub(super) fn stat(
        &self,
        directory: i32,
        path: &[u8],
        flags: u64,
        to: usize,
    ) -> Result<i64, Errno> {
        let (fd, _) = self.subject(directory, path, flags)?;
        self.put(to, &calls::stat(fd.as_fd())?)?;
        Ok(0)
    }

    pub(super) fn statx(&self) -> Result<i64, Errno> {
        // By descriptor the kernel looks at fewer of them.
        let flags = self.flags(2, OF_STATX)?;
        // Which way a path is read is our own matter.
        let rest = flags as i32 & !((flag::AT_EMPTY_PATH | flag::AT_NOFOLLOW) as i32);
        let path = if self.word(1) == 0 {
            Vec::new()
        } else {
            self.path(1)?
        };
        let (fd, _) = self.subject(self.int(0), &path, flags)?;
        self.put(4, &calls::statx(fd.as_fd(), rest, self.int(3) as u32)?)?;
        Ok(0)
    }

    pub(super) fn statfs(&self) -> Result<i64, Errno> {
        let (fd, _) = self.subject(flag::AT_CWD, &self.path(0)?, 0)?;
        self.put(1, &calls::statfs(fd.as_fd())?)?;
        Ok(0)
    }

    pub(super) fn access(
        &self,
        directory: i32,
        path: &[u8],
        mode: i32,
        flags: u64,
    ) -> Result<i64, Errno> {
        if mode & !7 != 0 {
            return Err(Errno::EINVAL);
        }
        let (fd, place) = self.subject(directory, path, flags)?;
        if mode & EXECUTE != 0 && calls::about(fd.as_fd())?.kind() == FileKind::Regular {
            execute::is_allowed(self, &fd, place.as_deref())?;
        }
        calls::access(fd.as_fd(), mode, (flags & 0x200) as i32)?; // AT_EACCESS
        if let (Some(place), true) = (place, mode & WRITE != 0) {
            match calls::about(fd.as_fd())?.kind() {
                FileKind::Regular | FileKind::Directory | FileKind::Link => {
                    self.may_write(&place)?
                }
                _ => {}
            }
        }
        Ok(0)
    }

    pub(super) fn read_link(
        &self,
        directory: i32,
        path: &[u8],
        to: usize,
        most: i32,
    ) -> Result<i64, Errno> {
        if most <= 0 {
            return Err(Errno::EINVAL);
        }
        let words = if path.is_empty() {
            let fd = self.descriptor(directory)?;
            calls::read_link_at(fd.as_fd(), c"")?
        } else {
            match self.end(directory, path, false)? {
                End::Link { place } => self.words(&place)?,
                End::Missing { .. } => return Err(Errno::ENOENT),
                _ => return Err(Errno::EINVAL),
            }
        };
        let told = words
            .get(..words.len().min(most as usize))
            .unwrap_or_default();
        self.put(to, told)?;
        Ok(told.len() as i64)
    }

    fn words(&self, place: &[u8]) -> Result<Vec<u8>, Errno> {
        let (mount, rest) = self.view.mount_of(place)?;
        if mount.kind == Kind::Processes {
            return processes::words(self.view, mount, rest, self.tid);
        }
        let fd = mount.open(rest, flag::PATH | flag::NOFOLLOW, 0)?;
        calls::read_link_at(fd.as_fd(), c"")
    }

    pub(super) fn working_directory(&self) -> Result<i64, Errno> {
        let place = self.base(flag::AT_CWD)?;
        let size = self.word(1);
        if (place.len() as u64) + 1 > size {
            return Err(Errno::ERANGE);
        }
        let mut told = place;
        told.push(0);
        self.put(0, &told)?;
        Ok(told.len() as i64)
    }

    /// A file that may be changed: of a path, or of one of the guest's descriptors.
    fn changeable(&self, directory: i32, path: &[u8], flags: u64) -> Result<OwnedFd, Errno> {
        self.changeable_if(directory, path, flags, |_| Ok(()))
    }

    /// As [`Self::changeable`]; what else is wrong is told before that nothing may be changed there.
    fn changeable_if(
        &self,
        directory: i32,
        path: &[u8],
        flags: u64,
        sound: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<OwnedFd, Errno> {
        let (fd, place) = self.subject(directory, path, flags)?;
        sound(&fd)?;
        match place {
            Some(place) => self.may_write(&place),
            None => self.may_write_descriptor(&fd),
        }
        .map(|()| fd)
    }

    fn descriptor_to_change(&self, number: i32) -> Result<OwnedFd, Errno> {
        let fd = self.open_descriptor(number)?;
        self.may_write_descriptor(&fd).map(|()| fd)
    }

    /// Not one for its path alone.
    fn open_descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        let fd = calls::descriptor_of(self.tid, number)?;
        match calls::is_path_only(fd.as_fd())? {
            true => Err(Errno::EBADF),
            false => Ok(fd),
        }
    }

    pub(super) fn change_mode(
        &self,
        directory: i32,
        flags: u64,
        path: &[u8],
        mode: u32,
    ) -> Result<i64, Errno> {
        let fd = self.changeable(directory, path, flags)?;
        if calls::about(fd.as_fd())?.kind() == FileKind::Link {
            return Err(Errno::EOPNOTSUPP);
        }
        calls::change_mode(fd.as_fd(), mode)
    }

    pub(super) fn change_mode_of(&self) -> Result<i64, Errno> {
        calls::change_mode(
            self.descriptor_to_change(self.int(0))?.as_fd(),
            self.int(1) as u32,
        )
    }

    pub(super) fn change_owner(
        &self,
        directory: i32,
        flags: u64,
        path: &[u8],
        owner: usize,
    ) -> Result<i64, Errno> {
        let fd = self.changeable(directory, path, flags)?;
        calls::change_owner(
            fd.as_fd(),
            self.int(owner) as u32,
            self.int(owner + 1) as u32,
        )
    }

    pub(super) fn change_owner_of(&self) -> Result<i64, Errno> {
        let fd = self.descriptor_to_change(self.int(0))?;
        calls::change_owner(fd.as_fd(), self.int(1) as u32, self.int(2) as u32)
    }

    /// utimensat(2); without a path the descriptor itself.
    pub(super) fn change_times(&self) -> Result<i64, Errno> {
        let times = self.times(2, 1)?;
        if let Some([_, OMITTED, _, OMITTED]) = times {
            return Ok(0); // whatever else is said
        }
        let fd = match (self.word(1), self.int(0)) {
            (0, number) if number != flag::AT_CWD => {
                self.flags(3, 0)?;
                let fd = self.open_descriptor(number)?;
                of_times(times)?;
                self.may_write_descriptor(&fd).map(|()| fd)?
            }
            _ => {
                let flags = self.flags(3, flag::AT_NOFOLLOW | flag::AT_EMPTY_PATH)?;
                let path = self.path(1)?;
                self.changeable_if(self.int(0), &path, flags, |_| of_times(times))?
            }
        };
        calls::change_times(fd.as_fd(), times)
    }

    /// Its elder forms: `unit` nanoseconds stand in the second word of each pair.
    pub(super) fn change_times_by(
        &self,
        directory: i32,
        path: usize,
        times: usize,
        unit: i64,
    ) -> Result<i64, Errno> {
        let times = self.times(times, unit)?;
        let fd = match self.word(path) {
            0 if directory != flag::AT_CWD => self.descriptor_to_change(directory)?,
            _ => self.changeable(directory, &self.path(path)?, 0)?,
        };
        calls::change_times(fd.as_fd(), times)
    }

    fn times(&self, at: usize, unit: i64) -> Result<Option<[i64; 4]>, Errno> {
        if self.word(at) == 0 {
            return Ok(None);
        }
        let mut bytes = [0; 32];
        memory::read(self.tid, self.word(at), &mut bytes)?;
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = i64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        if unit != 1 {
            for word in [1, 3] {
                let Some(part) = words.get_mut(word) else {
                    continue;
                };
                if !(0..1_000_000).contains(part) {
                    return Err(Errno::EINVAL);
                }
                *part *= unit;
            }
        }
        Ok(Some(words))
    }

    /// utime(2): whole seconds.
    pub(super) fn change_times_in_seconds(&self) -> Result<i64, Errno> {
        let times = match self.word(1) {
            0 => None,
            at => {
                let mut bytes = [0; 16];
                memory::read(self.tid, at, &mut bytes)?;
                let word = |at: usize| {
                    let bytes = bytes
                        .get(at..at + 8)
                        .and_then(|bytes| bytes.try_into().ok());
                    i64::from_ne_bytes(bytes.unwrap_or_default())
                };
                Some([word(0), 0, word(8), 0])
            }
        };
        let fd = self.changeable(flag::AT_CWD, &self.path(0)?, 0)?;
        calls::change_times(fd.as_fd(), times)
    }

    pub(super) fn truncate(&self) -> Result<i64, Errno> {
        let length = self.word(1) as i64;
        arguments::of_truncate(length)?;
        let path = self.path(0)?;
        let fd = self.changeable_if(flag::AT_CWD, &path, 0, |fd| {
            match calls::about(fd.as_fd())?.kind() {
                FileKind::Regular => Ok(()),
                FileKind::Directory => Err(Errno::EISDIR),
                _ => Err(Errno::EINVAL),
            }
        })?;
        calls::truncate(fd.as_fd(), length)
    }

    /// A path of ours for a call on attributes, with what keeps it good.
    fn attributed(&self, follow: bool, change: bool) -> Result<(OwnedFd, CString), Errno> {
        let flags = if follow { 0 } else { flag::AT_NOFOLLOW };
        let path = self.path(0)?;
        let fd = match change {
            true => self.changeable(flag::AT_CWD, &path, flags)?,
            false => self.subject(flag::AT_CWD, &path, flags)?.0,
        };
        let path = calls::own_path(fd.as_fd());
        Ok((fd, path))
    }

    fn attribute_name(&self) -> Result<CString, Errno> {
        self.text(1, ATTRIBUTE_NAME_BYTES)
            .map_err(|errno| match errno {
                Errno::ENAMETOOLONG => Errno::ERANGE,
                errno => errno,
            })
    }

    /// Name and value of one that is to be set.
    fn attribute(&self) -> Result<(CString, Vec<u8>), Errno> {
        let name = self.attribute_name();
        let asked = name.as_deref().unwrap_or(c"user.none");
        arguments::of_attribute(asked, self.int(4))?;
        let name = name?;
        let size = self.word(3) as usize;
        if size > ATTRIBUTE_BYTES {
            return Err(Errno::E2BIG);
        }
        let mut value = vec![0; size];
        memory::read(self.tid, self.word(2), &mut value)?;
        Ok((name, value))
    }

    pub(super) fn set_attribute(&self, follow: bool) -> Result<i64, Errno> {
        let (name, value) = self.attribute()?;
        let (_fd, path) = self.attributed(follow, true)?;
        calls::set_attribute(&path, &name, &value, self.int(4))
    }

    pub(super) fn set_attribute_of(&self) -> Result<i64, Errno> {
        let (name, value) = self.attribute()?;
        let fd = self.descriptor_to_change(self.int(0))?;
        calls::set_attribute(&calls::own_path(fd.as_fd()), &name, &value, self.int(4))
    }

    /// The name of one that is there.
    fn attribute_there(&self) -> Result<CString, Errno> {
        let name = self.attribute_name()?;
        arguments::of_attribute_name(&name).map(|()| name)
    }

    pub(super) fn get_attribute(&self, follow: bool) -> Result<i64, Errno> {
        let name = self.attribute_there()?;
        let (_fd, path) = self.attributed(follow, false)?;
        let most = (self.word(3) as usize).min(ATTRIBUTE_BYTES);
        let (count, value) = calls::get_attribute(&path, &name, most)?;
        self.put_some(2, most, &value)?;
        Ok(count)
    }

    pub(super) fn list_attributes(&self, follow: bool) -> Result<i64, Errno> {
        let (_fd, path) = self.attributed(follow, false)?;
        let most = (self.word(2) as usize).min(ATTRIBUTE_BYTES);
        let (count, names) = calls::list_attributes(&path, most)?;
        self.put_some(1, most, &names)?;
        Ok(count)
    }

    /// Nothing is written where only the size was asked for.
    fn put_some(&self, to: usize, most: usize, bytes: &[u8]) -> Result<(), Errno> {
        if most == 0 || bytes.is_empty() {
            Ok(())
        } else {
            self.put(to, bytes)
        }
    }

    pub(super) fn remove_attribute(&self, follow: bool) -> Result<i64, Errno> {
        let name = self.attribute_there()?;
        let (_fd, path) = self.attributed(follow, true)?;
        calls::remove_attribute(&path, &name)
    }

    pub(super) fn remove_attribute_of(&self) -> Result<i64, Errno> {
        let name = self.attribute_there()?;
        let fd = self.descriptor_to_change(self.int(0))?;
        calls::remove_attribute(&calls::own_path(fd.as_fd()), &name)
    }

    pub(super) fn add_watch(&self) -> Result<i64, Errno> {
        const DONT_FOLLOW: u32 = 0x0200_0000; // IN_DONT_FOLLOW
        const UNMOUNTED: u32 = 0x2000; // IN_UNMOUNT
        let mask = self.int(2) as u32;
        let watches = calls::descriptor_of(self.tid, self.int(0));
        arguments::of_watch(watches.as_ref().ok().map(AsFd::as_fd), mask)?;
        let flags = match mask & DONT_FOLLOW {
            0 => 0,
            _ => flag::AT_NOFOLLOW,
        };
        let (fd, place) = self.subject(flag::AT_CWD, &self.path(1)?, flags)?;
        if place.is_none() {
            return Err(Errno::EACCES);
        }
        // Ours is a link of /proc, which is followed. That some bit is left, one is set that goes with every watch.
        let mask = mask & !DONT_FOLLOW | UNMOUNTED;
        calls::add_watch(watches?.as_fd(), fd.as_fd(), mask)
    }

    /// The place of a path as a directory to work in.
    pub(super) fn directory_to_enter(&self) -> Result<(Vec<u8>, OwnedFd), Errno> {
        const SEARCH: i32 = 1;
        match self.end(flag::AT_CWD, &self.path(0)?, true)? {
            End::There {
                place,
                handle,
                directory: true,
            } => {
                calls::access(handle.as_fd(), SEARCH, 0x200)?;
                Ok((place, handle))
            }
            End::Missing { .. } => Err(Errno::ENOENT),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Would the kernel, left to itself, find the same file by these words?
    pub(super) fn is_same_on_host(&self, directory: i32, path: &[u8], found: &OwnedFd) -> bool {
        let host = || -> Result<OwnedFd, Errno> {
            let words = c_string(path)?;
            if path.starts_with(b"/") {
                return calls::open_host(&words, flag::PATH);
            }
            calls::open_host_at(self.descriptor(directory)?.as_fd(), &words, flag::PATH)
        };
        let number =
            |fd: &OwnedFd| calls::about(fd.as_fd()).map(|about| (about.device, about.inode));
        // What is ours in /proc is another's for the kernel.
        !path.windows(5).any(|part| part == b"/proc")
            && host().is_ok_and(|fd| number(&fd) == number(found))
    }

    pub(super) fn real_of(&self, place: &[u8]) -> Result<Vec<u8>, Errno> {
        self.view.real_of(place).map(|real| join(&real, b""))
    }
}

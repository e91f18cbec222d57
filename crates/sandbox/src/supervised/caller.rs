//! The thread whose call is answered: its memory, where its paths begin, what it sees. Not in it: what is done there.

use super::processes;
use super::resolve::{End, Look, Thing, as_place, join, resolve};
use super::view::{Kind, TERMINALS, View, c_string, flag};
use kumiko_linux::supervise::calls::{self, FileKind};
use kumiko_linux::supervise::{Call, Errno, memory};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub view: &'a View,
    pub tid: i32,
    pub call: Call,
}

impl Look for Caller<'_> {
    type Handle = OwnedFd;

    fn look(&mut self, place: &[u8]) -> Result<Thing<OwnedFd>, Errno> {
        let (mount, rest) = self.view.mount_of(place)?;
        match mount.kind {
            Kind::Processes => return processes::look(self.view, mount, rest, self.tid),
            Kind::Terminals if rest == b"ptmx" => {
                return calls::open_host(TERMINALS, flag::PATH).map(Thing::Other);
            }
            Kind::Terminals if !rest.is_empty() => {
                let known =
                    processes::number(rest).filter(|number| self.view.is_terminal(*number as u32));
                let number = known.ok_or(Errno::ENOENT)?;
                return calls::open_host(
                    &c_string(format!("/dev/pts/{number}").as_bytes())?,
                    flag::PATH,
                )
                .map(Thing::Other);
            }
            Kind::Terminals | Kind::Tree => {}
        }
        let fd = mount.open(rest, flag::PATH | flag::NOFOLLOW, 0);
        let fd = fd.map_err(|errno| match errno {
            // There is a link on the way: a place has none, but that which a descriptor may stand for.
            Errno::ELOOP => Errno::ENOTDIR,
            errno => errno,
        })?;
        Ok(match calls::about(fd.as_fd())?.kind() {
            FileKind::Directory => Thing::Directory(fd),
            FileKind::Link => Thing::Link(calls::read_link_at(fd.as_fd(), c"")?),
            _ => Thing::Other(fd),
        })
    }
}

/// A descriptor of the guest that stands for what has no place in its view.
const NOWHERE: Errno = Errno::ENOENT;

impl Caller<'_> {
    pub(super) fn word(&self, index: usize) -> u64 {
        self.call.arguments.get(index).copied().unwrap_or(0)
    }

    /// As the kernel takes an int: the upper half of the register is nothing.
    pub(super) fn int(&self, index: usize) -> i32 {
        self.word(index) as i32
    }

    /// Flags, which are an int too; EINVAL: some that the call does not take.
    pub(super) fn flags(&self, index: usize, taken: u64) -> Result<u64, Errno> {
        let flags = u64::from(self.int(index) as u32);
        if flags & !taken == 0 {
            Ok(flags)
        } else {
            Err(Errno::EINVAL)
        }
    }

    pub(super) fn path(&self, index: usize) -> Result<Vec<u8>, Errno> {
        memory::read_path(self.tid, self.word(index))
    }

    pub(super) fn text(&self, index: usize, most: usize) -> Result<CString, Errno> {
        c_string(&memory::read_string(self.tid, self.word(index), most)?)
    }

    pub(super) fn put(&self, index: usize, bytes: &[u8]) -> Result<(), Errno> {
        memory::write(self.tid, self.word(index), bytes)
    }

    /// The place that a relative path begins at.
    pub(super) fn base(&self, directory: i32) -> Result<Vec<u8>, Errno> {
        let (link, missing) = match directory {
            flag::AT_CWD => (format!("/proc/{}/cwd", self.tid), Errno::ESRCH),
            number => (format!("/proc/{}/fd/{number}", self.tid), Errno::EBADF),
        };
        let link = c_string(link.as_bytes())?;
        let real = calls::read_link(&link).map_err(|_| missing)?;
        if !real.starts_with(b"/") {
            return Err(Errno::ENOTDIR);
        }
        processes::place_of_open(self.view, &link, &real).ok_or(NOWHERE)
    }

    /// Where a path of the guest ends.
    pub(super) fn end(
        &self,
        directory: i32,
        path: &[u8],
        follow: bool,
    ) -> Result<End<OwnedFd>, Errno> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let base = match path.first() {
            Some(b'/') => b"/".to_vec(),
            _ => self.base(directory)?,
        };
        match self.at_once(&base, path, follow) {
            Some(end) => Ok(end),
            None => resolve(&mut self.clone(), &base, path, follow),
        }
    }

    /// Most paths have no link in them, and are there, or the directory is that they are missing in: one look or two.
    fn at_once(&self, base: &[u8], path: &[u8], follow: bool) -> Option<End<OwnedFd>> {
        let place = self
            .view
            .through_link(self.plain_place(base, path)?, follow);
        let (mount, rest) = self.view.mount_of(&place).ok()?;
        if mount.kind != Kind::Tree {
            return None;
        }
        let handle = match mount.open(rest, flag::PATH | flag::NOFOLLOW, 0) {
            Ok(handle) => handle,
            Err(Errno::ENOENT) => {
                let above = rest.iter().rposition(|byte| *byte == b'/');
                let above = rest.get(..above.unwrap_or(0))?;
                mount.open(above, flag::PATH | flag::DIRECTORY, 0).ok()?;
                let directory = false;
                return Some(End::Missing { place, directory });
            }
            Err(_) => return None,
        };
        match calls::about(handle.as_fd()).ok()?.kind() {
            FileKind::Link if follow => None,
            FileKind::Link => Some(End::Link { place }),
            kind => Some(End::There {
                place,
                handle,
                directory: kind == FileKind::Directory,
            }),
        }
    }

    pub(super) fn plain_place(&self, base: &[u8], path: &[u8]) -> Option<Vec<u8>> {
        match path.first() {
            Some(b'/') => as_place(path),
            _ => as_place(&join(base, path)),
        }
    }

    /// What one of the guest's descriptors stands for, for its path alone.
    pub(super) fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        let path = match number {
            flag::AT_CWD => format!("/proc/{}/cwd", self.tid),
            number => format!("/proc/{}/fd/{number}", self.tid),
        };
        calls::open_host(&c_string(path.as_bytes())?, flag::PATH).map_err(|errno| match errno {
            Errno::ENOENT => Errno::EBADF,
            errno => errno,
        })
    }

    /// What a call of the "at" kind is about: a path, or the descriptor itself where the path may be empty and is.
    /// With the place, where it has one.
    pub(super) fn subject(
        &self,
        directory: i32,
        path: &[u8],
        flags: u64,
    ) -> Result<(OwnedFd, Option<Vec<u8>>), Errno> {
        if path.is_empty() && flags & flag::AT_EMPTY_PATH != 0 {
            return Ok((self.descriptor(directory)?, None));
        }
        match self.end(directory, path, flags & flag::AT_NOFOLLOW == 0)? {
            End::There { place, handle, .. } => Ok((handle, Some(place))),
            End::Link { place } => Ok((self.link_itself(&place)?, Some(place))),
            End::Alone { handle, .. } => Ok((handle, None)),
            End::Missing { .. } => Err(Errno::ENOENT),
        }
    }

    fn link_itself(&self, place: &[u8]) -> Result<OwnedFd, Errno> {
        let (mount, rest) = self.view.mount_of(place)?;
        let rest = match mount.kind {
            // The number of whoever asks stands behind the name.
            Kind::Processes if rest == b"self" || rest == b"thread-self" => {
                processes::process_of(self.tid)?.to_string().into_bytes()
            }
            Kind::Processes => {
                let path = [&mount.real, b"/".as_slice(), rest].concat();
                return calls::open_host(&c_string(&path)?, flag::PATH | flag::NOFOLLOW);
            }
            _ => rest.to_vec(),
        };
        mount.open(&rest, flag::PATH | flag::NOFOLLOW, 0)
    }

    /// May what stands at a place be changed? The mount says; the account's own rights come on top.
    pub(super) fn may_write(&self, place: &[u8]) -> Result<(), Errno> {
        let (mount, rest) = self.view.mount_of(place)?;
        let shown = match mount.kind {
            Kind::Tree => mount.writable,
            Kind::Terminals => true,
            // Files of processes alone; those of the machine are not for guests to set.
            // (Sealed pages, a library's or of words, are written to through /proc/self/mem as well: proc_pid_mem(5).)
            Kind::Processes if self.view.code_is_kept() && rest.ends_with(b"/mem") => {
                return Err(Errno::EACCES);
            }
            Kind::Processes => {
                let first = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
                processes::number(first).is_some()
            }
        };
        if shown { Ok(()) } else { Err(Errno::EROFS) }
    }

    /// A guest's descriptor as a place, for what changes by descriptor.
    pub(super) fn may_write_descriptor(&self, fd: &OwnedFd) -> Result<(), Errno> {
        let real = calls::read_link(&calls::own_path(fd.as_fd()))?;
        if !real.starts_with(b"/") {
            return Ok(()); // a pipe, a socket: its own
        }
        match self.view.place_of(&real) {
            Some(place) => self.may_write(&place),
            None if real.starts_with(processes::MEMORY) => Ok(()),
            None => Err(Errno::EPERM),
        }
    }
}

//! open(2) and its kind, in a guest's place. Not in it: how the descriptor reaches the guest.

use super::caller::Caller;
use super::processes;
use super::resolve::{End, join, last_name, parent};
use super::serve::Outcome;
use super::view::{Kind, Mount, c_string, flag};
use kumiko_linux::supervise::calls::{self, About, FileKind};
use kumiko_linux::supervise::{Errno, arguments, memory};
use std::os::fd::{AsFd, OwnedFd};

/// Bits of a mode that open(2) takes.
const MODE_BITS: u32 = 0o7777;

/// What was asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub directory: i32,
    pub path: Vec<u8>,
    pub flags: i32,
    pub mode: u32,
}

/// struct open_how and the bits of its `resolve`.
pub(super) fn wanted_how(caller: &Caller<'_>) -> Result<Wanted, Errno> {
    const HOW_BYTES: u64 = 24;
    const HOW_MOST_BYTES: u64 = 4096; // a page (openat2(2))
    const NO_CROSSING: u64 = 0x1;
    const NO_MAGIC_LINKS: u64 = 0x2;
    const NO_LINKS: u64 = 0x4;
    const CACHED: u64 = 0x20;
    let size = caller.word(3);
    if size < HOW_BYTES {
        return Err(Errno::EINVAL);
    }
    if size > HOW_MOST_BYTES {
        return Err(Errno::E2BIG);
    }
    let mut how = vec![0; size as usize];
    memory::read(caller.tid, caller.word(2), &mut how)?;
    arguments::of_open_how(&how)?;
    let word = |at: usize| {
        let bytes = how.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_ne_bytes(bytes.unwrap_or_default())
    };
    let (flags, mode, resolve) = (word(0), word(8), word(16));
    let wanted = Wanted {
        directory: caller.int(0),
        path: caller.path(1)?,
        flags: i32::try_from(flags).map_err(|_| Errno::EINVAL)?,
        mode: u32::try_from(mode).map_err(|_| Errno::EINVAL)?,
    };
    match resolve {
        0 => Ok(wanted),
        _ if resolve & CACHED != 0 => Err(Errno::EAGAIN),
        // What is asked is more than this mechanism tells apart; programs have to go without where the kernel is old too.
        _ if resolve & !(NO_CROSSING | NO_MAGIC_LINKS | NO_LINKS) == 0 => {
            let plain = wanted.flags | flag::NOFOLLOW;
            let base = if wanted.path.starts_with(b"/") {
                b"/".to_vec()
            } else {
                caller.base(wanted.directory)?
            };
            match caller.plain_place(&base, &wanted.path) {
                Some(_) if resolve & NO_LINKS != 0 => {
                    no_links(caller, &base, &wanted.path).map(|()| Wanted {
                        flags: plain,
                        ..wanted
                    })
                }
                Some(_) => Ok(wanted),
                None => Err(Errno::ENOSYS),
            }
        }
        _ => Err(Errno::ENOSYS),
    }
}

fn no_links(caller: &Caller<'_>, base: &[u8], path: &[u8]) -> Result<(), Errno> {
    let place = caller.plain_place(base, path).ok_or(Errno::ENOSYS)?;
    match caller.end(flag::AT_CWD, &place, true)? {
        End::There { place: found, .. } | End::Missing { place: found, .. } if found == place => {
            Ok(())
        }
        _ => Err(Errno::ELOOP),
    }
}

/// What is to be opened: decided, and not opened yet.
#[derive(Debug)]
pub(super) enum Opening {
    /// A new name in a directory.
    New {
        directory: Vec<u8>,
        name: Vec<u8>,
        flags: i32,
        mode: u32,
    },
    There {
        place: Vec<u8>,
        handle: OwnedFd,
        flags: i32,
    },
    /// A file without a name, in that directory.
    Nameless {
        place: Vec<u8>,
        handle: OwnedFd,
        flags: i32,
        mode: u32,
    },
    /// For its path alone.
    Path { place: Vec<u8>, flags: i32 },
    /// With content that is made for it.
    Made(Vec<u8>),
    /// A terminal of the room.
    Terminal { number: u32, flags: i32 },
    /// What a link of /proc leads to, that has no place.
    Alone {
        place: Vec<u8>,
        handle: OwnedFd,
        flags: i32,
    },
}

pub(super) fn open(caller: &Caller<'_>, wanted: &Wanted) -> Result<Outcome, Errno> {
    let close_on_exec = wanted.flags & flag::CLOSE_ON_EXEC != 0;
    if let Some(fd) = at_once(caller, wanted) {
        return Ok(Outcome::Give { fd, close_on_exec });
    }
    let give = |fd| Ok(Outcome::Give { fd, close_on_exec });
    match decide(caller, wanted)? {
        Opening::New {
            directory,
            name,
            flags,
            mode,
        } => {
            let (mount, rest) = caller.view.mount_of(&directory)?;
            let directory = mount.open(rest, flag::PATH | flag::DIRECTORY, 0)?;
            let mode = mode & !processes::umask_of(caller.tid)?;
            give(calls::open_beneath(
                directory.as_fd(),
                &c_string(&name)?,
                flags | flag::NO_TERMINAL,
                mode,
            )?)
        }
        Opening::There {
            place,
            handle,
            flags,
        } => {
            let opened = anew(handle, flags, close_on_exec)?;
            let (mount, rest) = caller.view.mount_of(&place)?;
            if let (Kind::Terminals, b"ptmx", Outcome::Give { fd, .. }) =
                (mount.kind, rest, &opened)
            {
                caller
                    .view
                    .add_terminal(calls::terminal_number(fd.as_fd())?);
            }
            Ok(opened)
        }
        Opening::Nameless {
            handle,
            flags,
            mode,
            ..
        } => {
            let mode = mode & !processes::umask_of(caller.tid)?;
            give(calls::open_host_with(
                &calls::own_path(handle.as_fd()),
                flags,
                mode,
            )?)
        }
        Opening::Path { place, flags, .. } => Ok(Outcome::Path {
            real: caller.real_of(&place)?,
            flags,
        }),
        Opening::Made(content) => give(calls::file_of(c"kumiko", &content)?),
        Opening::Terminal { number, flags } => {
            let path = c_string(format!("/dev/pts/{number}").as_bytes())?;
            give(calls::open_host(&path, flags | flag::NO_TERMINAL)?)
        }
        Opening::Alone { handle, flags, .. } => anew(handle, flags, close_on_exec),
    }
}

/// What may be opened without a look at where its words lead: the mount, and the rest of the place below it.
fn plain<'a>(caller: &Caller<'a>, wanted: &Wanted) -> Option<(&'a Mount, Vec<u8>)> {
    const UNUSUAL: i32 = flag::CREATE | flag::PATH | flag::TEMPORARY | flag::NOFOLLOW;
    let flags = wanted.flags;
    if flags & UNUSUAL != 0 {
        return None;
    }
    let place = match wanted.path.first()? {
        b'/' => caller.plain_place(b"/", &wanted.path)?,
        _ => caller.plain_place(&caller.base(wanted.directory).ok()?, &wanted.path)?,
    };
    let place = caller.view.through_link(place, true);
    let (mount, rest) = caller.view.mount_of(&place).ok()?;
    let writes = flags & (flag::ACCESS | flag::TRUNCATE) != 0;
    let usual = mount.kind == Kind::Tree && !rest.is_empty() && (mount.writable || !writes);
    usual.then(|| (mount, rest.to_vec()))
}

/// Opened at once, where that can do no harm: what is there, of a kind that no opening waits for or changes.
fn at_once(caller: &Caller<'_>, wanted: &Wanted) -> Option<OwnedFd> {
    let (mount, rest) = plain(caller, wanted)?;
    let flags = wanted.flags;
    // Whoever waits for the other end of a pipe would go on, were it opened for a moment; some devices begin something.
    is_plain(calls::about_at(mount.root(), &c_string(&rest).ok()?).ok()?)?;
    let fd = mount
        .open(&rest, flags | flag::NONBLOCK | flag::NO_TERMINAL, 0)
        .ok()?;
    is_plain(calls::about(fd.as_fd()).ok()?)?;
    if flags & flag::NONBLOCK == 0 {
        calls::now_blocking(fd.as_fd(), flags).ok()?;
    }
    Some(fd)
}

/// The path on the host of what is plainly there, for a guest that opens it itself by its own flags.
pub(super) fn plain_real(caller: &Caller<'_>, wanted: &Wanted) -> Option<Vec<u8>> {
    let (mount, rest) = plain(caller, wanted)?;
    let handle = mount.open(&rest, flag::PATH, 0).ok()?;
    is_plain(calls::about(handle.as_fd()).ok()?)?;
    Some(join(&mount.real, &rest))
}

fn is_plain(about: About) -> Option<()> {
    match about.kind() {
        FileKind::Regular | FileKind::Directory => Some(()),
        _ => None,
    }
}

/// What the words lead to, and whether the policy lets it be opened so.
pub(super) fn decide(caller: &Caller<'_>, wanted: &Wanted) -> Result<Opening, Errno> {
    let flags = wanted.flags;
    let path_only = flags & flag::PATH != 0;
    let creates = flags & flag::CREATE != 0 && !path_only;
    let exclusive = creates && flags & flag::EXCLUSIVE != 0;
    let follow = flags & flag::NOFOLLOW == 0 && !exclusive;
    let (path, closing) = without_closing(&wanted.path);
    if creates && closing {
        caller.end(wanted.directory, path, false)?;
        return Err(Errno::EISDIR);
    }
    match caller.end(wanted.directory, &wanted.path, follow)? {
        End::Link { .. } | End::There { .. } if exclusive => Err(Errno::EEXIST),
        End::Link { place } if path_only => Ok(Opening::Path { place, flags }),
        End::Link { .. } => Err(Errno::ELOOP),
        End::There {
            place,
            handle,
            directory,
        } => there(caller, wanted, place, handle, directory),
        End::Missing { .. } if !creates => Err(Errno::ENOENT),
        End::Missing {
            directory: true, ..
        } => Err(Errno::EISDIR),
        End::Missing { place, .. } => {
            caller.may_write(parent(&place))?;
            if caller.view.mount_of(parent(&place))?.0.kind != Kind::Tree {
                return Err(Errno::ENOENT);
            }
            Ok(Opening::New {
                directory: parent(&place).to_vec(),
                name: last_name(&place).to_vec(),
                flags: flags | flag::NOFOLLOW,
                mode: wanted.mode & MODE_BITS,
            })
        }
        End::Alone { place, handle } => {
            may_reopen(caller, &place, &handle, flags)?;
            Ok(Opening::Alone {
                place,
                handle,
                flags: flags & !flag::CREATE,
            })
        }
    }
}

/// A path without the slashes that end it, and whether there are any.
fn without_closing(path: &[u8]) -> (&[u8], bool) {
    let rest = path.iter().rev().skip_while(|byte| **byte == b'/').count();
    let rest = if rest == 0 { path.len().min(1) } else { rest };
    (path.get(..rest).unwrap_or(path), path.ends_with(b"/"))
}

fn there(
    caller: &Caller<'_>,
    wanted: &Wanted,
    place: Vec<u8>,
    handle: OwnedFd,
    directory: bool,
) -> Result<Opening, Errno> {
    let flags = wanted.flags & !(flag::CREATE | flag::EXCLUSIVE | flag::NOFOLLOW);
    if wanted.flags & flag::PATH != 0 {
        return Ok(Opening::Path { place, flags });
    }
    if flags & flag::DIRECTORY != 0 && !directory {
        return Err(Errno::ENOTDIR);
    }
    if flags & flag::TEMPORARY != 0 {
        caller.may_write(&place)?;
        return Ok(Opening::Nameless {
            place,
            handle,
            flags,
            mode: wanted.mode & MODE_BITS,
        });
    }
    let writes = flags & (flag::ACCESS | flag::TRUNCATE) != 0;
    // Access mode 3 (open(2)) asks for both rights, and gives neither.
    let changes = flags & flag::ACCESS != flag::ACCESS || flags & flag::TRUNCATE != 0;
    if directory && (writes || wanted.flags & flag::CREATE != 0) {
        return Err(Errno::EISDIR);
    }
    let (mount, rest) = caller.view.mount_of(&place)?;
    match calls::about(handle.as_fd())?.kind() {
        FileKind::Device if !mount.devices => return Err(Errno::EACCES),
        FileKind::Device | FileKind::Pipe => {}
        FileKind::Socket => return Err(Errno::ENXIO),
        _ if writes && changes => caller.may_write(&place)?,
        _ => {}
    }
    if mount.kind == Kind::Processes {
        if rest.is_empty() {
            caller.view.update_list(processes::list_members)?;
        }
        let parts: Vec<&[u8]> = rest.split(|byte| *byte == b'/').collect();
        if processes::is_made(&parts) {
            return processes::made(caller.view, mount, rest).map(Opening::Made);
        }
    }
    if place == b"/dev/tty" {
        let number = processes::terminal_of(caller.tid).ok_or(Errno::ENXIO)?;
        return Ok(Opening::Terminal { number, flags });
    }
    Ok(Opening::There {
        place,
        handle,
        flags,
    })
}

/// Opens what was found. A pipe with a name waits for its other end: that is left to a thread of its own.
fn anew(handle: OwnedFd, flags: i32, close_on_exec: bool) -> Result<Outcome, Errno> {
    let flags = flags | flag::NO_TERMINAL;
    let is_pipe = calls::about(handle.as_fd())?.kind() == FileKind::Pipe;
    let open = move || {
        let fd = calls::reopen(handle.as_fd(), flags)?;
        Ok(match is_pipe {
            true => Outcome::GiveAway { fd, close_on_exec },
            false => Outcome::Give { fd, close_on_exec },
        })
    };
    match is_pipe && flags & flag::NONBLOCK == 0 {
        true => Ok(Outcome::Slow(Box::new(open))),
        false => open(),
    }
}

/// What a guest was given, and is not shown by any name, it may open again with the rights that it has; what has lost
/// its name, with those that it would have by it.
fn may_reopen(
    caller: &Caller<'_>,
    place: &[u8],
    handle: &OwnedFd,
    flags: i32,
) -> Result<(), Errno> {
    if last_name(place) == b"exe" {
        let writes = flags & (flag::ACCESS | flag::TRUNCATE) != 0;
        return if writes { Err(Errno::EACCES) } else { Ok(()) };
    }
    let real = calls::read_link(&calls::own_path(handle.as_fd()))?;
    let lost = real.ends_with(processes::GONE) && !real.starts_with(processes::MEMORY);
    if lost && caller.may_write_descriptor(handle).is_ok() {
        return Ok(());
    }
    let info = [parent(parent(place)), b"/fdinfo/", last_name(place)].concat();
    let info = String::from_utf8(info).map_err(|_| Errno::EACCES)?;
    let had = processes::flags_by(&info)?;
    let asked = flags & flag::ACCESS;
    let enough = had & flag::PATH == 0
        && (had & flag::ACCESS == flag::READ_WRITE || had & flag::ACCESS == asked);
    let truncates = flags & flag::TRUNCATE != 0 && had & flag::ACCESS == 0;
    if enough && !truncates {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// open(2) by its older names.
pub(super) fn wanted(caller: &Caller<'_>) -> Result<Wanted, Errno> {
    taken(caller, flag::AT_CWD, 0, (caller.int(1), caller.int(2)))
}

pub(super) fn wanted_at(caller: &Caller<'_>) -> Result<Wanted, Errno> {
    taken(caller, caller.int(0), 1, (caller.int(2), caller.int(3)))
}

pub(super) fn wanted_creat(caller: &Caller<'_>) -> Result<Wanted, Errno> {
    let flags = flag::CREATE | flag::WRITE_ONLY | flag::TRUNCATE;
    taken(caller, flag::AT_CWD, 0, (flags, caller.int(1)))
}

/// What the elder calls take: they drop what openat2(2) refuses. `path`: which argument it is.
fn taken(
    caller: &Caller<'_>,
    directory: i32,
    path: usize,
    (flags, mode): (i32, i32),
) -> Result<Wanted, Errno> {
    let known = match flags & flag::PATH {
        0 => flag::KNOWN,
        _ => flag::PATH | flag::DIRECTORY | flag::NOFOLLOW | flag::CLOSE_ON_EXEC,
    };
    let (flags, mode) = (flags & known, mode as u32);
    // Else there is nothing that they refuse.
    if flags & (flag::CREATE | flag::TEMPORARY) != 0 {
        arguments::of_open(flags, mode)?;
    }
    Ok(Wanted {
        directory,
        path: caller.path(path)?,
        flags,
        mode,
    })
}

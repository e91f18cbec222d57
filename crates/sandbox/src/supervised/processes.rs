//! /proc as a guest sees it: the processes of its room, the machine, and nothing that names what it is not shown. The
//! files are the host's; links, lists and tables of paths are made. Not in it: /proc/sys and the like, shown as they are.

use super::resolve::Thing;
use super::view::{Mount, View, c_string, flag};
use kumiko_linux::supervise::calls::{self, FileKind};
use kumiko_linux::supervise::{Errno, domain};
use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

/// The room's warden, which is a member and no guest.
pub(super) static WARDEN: AtomicI32 = AtomicI32::new(0);

/// Names in /proc that are not processes, once and for all: what they are matters to `ls -l` alone.
fn list_names(list: &Path) {
    let Ok(entries) = fs::read_dir("/proc") else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if number(name.as_encoded_bytes()).is_some() {
            continue;
        }
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::create_dir(list.join(name)),
            Ok(kind) if kind.is_symlink() => std::os::unix::fs::symlink("self", list.join(name)),
            _ => fs::write(list.join(name), ""),
        };
    }
}

/// Brings the list up to what runs now. Most guests never list /proc: it is empty until the first does.
pub(super) fn list_members(list: &Path) {
    if fs::symlink_metadata(list.join("self")).is_err() {
        list_names(list);
    }
    let now = members();
    let listed = numbers(list);
    for pid in listed.iter().filter(|pid| !now.contains(pid)) {
        let _ = fs::remove_dir(list.join(pid.to_string()));
    }
    for pid in now.iter().filter(|pid| !listed.contains(pid)) {
        let _ = fs::create_dir(list.join(pid.to_string()));
    }
}

/// The guests and all that they started.
pub(super) fn members() -> Vec<i32> {
    let mut all = numbers(Path::new("/proc"));
    all.retain(|pid| is_guest(*pid));
    all
}

fn numbers(path: &Path) -> Vec<i32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| number(entry.file_name().as_encoded_bytes()))
        .collect()
}

pub(super) fn is_guest(pid: i32) -> bool {
    pid != WARDEN.load(Ordering::Relaxed) && domain::is_member(pid)
}

/// What stands at a name in /proc.
pub(super) fn look(
    view: &View,
    mount: &Mount,
    rest: &[u8],
    tid: i32,
) -> Result<Thing<OwnedFd>, Errno> {
    let parts: Vec<&[u8]> = rest
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .collect();
    let Some(first) = parts.first() else {
        return view.list().map(Thing::Directory);
    };
    match *first {
        b"self" if parts.len() == 1 => {
            return Ok(Thing::Link(process_of(tid)?.to_string().into_bytes()));
        }
        b"thread-self" if parts.len() == 1 => {
            return Ok(Thing::Link(
                format!("{}/task/{tid}", process_of(tid)?).into_bytes(),
            ));
        }
        name => {
            if let Some(pid) = number(name) {
                if !is_guest(pid) {
                    return Err(Errno::ENOENT);
                }
                if is_magic(&parts) {
                    return magic(view, mount, rest, &parts);
                }
            }
        }
    }
    let fd = mount.open(rest, flag::PATH | flag::NOFOLLOW, 0)?;
    Ok(match calls::about(fd.as_fd())?.kind() {
        FileKind::Directory => Thing::Directory(fd),
        FileKind::Link => Thing::Link(calls::read_link_at(fd.as_fd(), c"")?),
        _ => Thing::Other(fd),
    })
}

/// Links that do not lead where their words say (proc(5)).
fn is_magic(parts: &[&[u8]]) -> bool {
    let of_process = match parts {
        [_, b"task", _, rest @ ..] | [_, rest @ ..] => rest,
        [] => return false,
    };
    matches!(
        of_process,
        [b"cwd" | b"root" | b"exe"] | [b"fd" | b"map_files" | b"ns", _]
    )
}

fn magic(
    view: &View,
    mount: &Mount,
    rest: &[u8],
    parts: &[&[u8]],
) -> Result<Thing<OwnedFd>, Errno> {
    let path = [&mount.real, b"/".as_slice(), rest].concat();
    let path = c_string(&path)?;
    let words = calls::read_link(&path)?;
    if parts.last() == Some(&b"root".as_slice()) {
        return Ok(Thing::Jump(b"/".to_vec()));
    }
    if let Some(place) = place_of_open(view, &path, &words) {
        return Ok(Thing::Jump(place));
    }
    // A pipe, a socket, a file without a name or one that the guest was given. Only what is open may be opened anew.
    match parts {
        [.., b"fd", _] => calls::open_host(&path, flag::PATH).map(Thing::Alone),
        [.., b"exe"] if is_shown(view, &words) => {
            calls::open_host(&path, flag::PATH).map(Thing::Alone)
        }
        _ => Err(Errno::EACCES),
    }
}

/// What the kernel says behind the former name of what has lost it, or never had one (proc_pid_fd(5)).
pub(super) const GONE: &[u8] = b" (deleted)";

/// The place of what a link of /proc leads to, by the link's words; None: it has none. Words that end as those of a lost
/// name do may be a name as well: then they lead to the same file.
pub(super) fn place_of_open(view: &View, link: &CStr, words: &[u8]) -> Option<Vec<u8>> {
    let place = words.starts_with(b"/").then(|| view.place_of(words))??;
    if !words.ends_with(GONE) {
        return Some(place);
    }
    let number = |fd: OwnedFd| calls::about(fd.as_fd()).map(|about| (about.device, about.inode));
    let (mount, rest) = view.mount_of(&place).ok()?;
    let named = mount.open(rest, flag::PATH | flag::NOFOLLOW, 0);
    let open = calls::open_host(link, flag::PATH);
    (named.and_then(number).ok()? == open.and_then(number).ok()?).then_some(place)
}

/// Is all that a thread's program is made of shown? Asked before its first instruction: itself and its loader are there.
pub(super) fn is_made_of_shown(view: &View, tid: i32) -> bool {
    let Ok(maps) = fs::read(format!("/proc/{tid}/maps")) else {
        return false; // it has ended
    };
    let mut files = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.windows(2).position(|part| part == b" /")?;
        line.get(at + 1..)
    });
    files.all(|file| may_execute(view, file))
}

/// May a file be executed that has this path on the host, by whatever name it has in the view?
pub(super) fn may_execute(view: &View, real: &[u8]) -> bool {
    real.starts_with(MEMORY) || view.may_execute(real)
}

pub(super) fn is_shown(view: &View, real: &[u8]) -> bool {
    real.starts_with(MEMORY) || view.place_of(real).is_some()
}

/// How the path begins of a file that is memory (memfd_create(2)).
pub(super) const MEMORY: &[u8] = b"/memfd:";

/// What a link of /proc says to a guest.
pub(super) fn words(view: &View, mount: &Mount, rest: &[u8], tid: i32) -> Result<Vec<u8>, Errno> {
    let parts: Vec<&[u8]> = rest
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .collect();
    if let Some(pid) = parts.first().and_then(|first| number(first)) {
        if !is_guest(pid) {
            return Err(Errno::ENOENT);
        }
        if is_magic(&parts) {
            let path = [&mount.real, b"/".as_slice(), rest].concat();
            let words = calls::read_link(&c_string(&path)?)?;
            return Ok(match parts.last() {
                Some(&b"root") => b"/".to_vec(),
                _ if !words.starts_with(b"/") => words,
                _ => view.place_of(&words).unwrap_or_else(|| OUTSIDE.to_vec()),
            });
        }
    }
    match look(view, mount, rest, tid)? {
        Thing::Link(words) => Ok(words),
        _ => Err(Errno::EINVAL),
    }
}

/// What is told of a file that a guest has and is not shown.
pub(super) const OUTSIDE: &[u8] = b"(outside)";

/// The process of a thread.
pub(super) fn process_of(tid: i32) -> Result<i32, Errno> {
    field(tid, "Tgid:")?.parse().map_err(|_| Errno::ESRCH)
}

/// What new files of a guest lack.
pub(super) fn umask_of(tid: i32) -> Result<u32, Errno> {
    u32::from_str_radix(&field(tid, "Umask:")?, 8).map_err(|_| Errno::ESRCH)
}

fn field(tid: i32, name: &str) -> Result<String, Errno> {
    let status = fs::read_to_string(format!("/proc/{tid}/status"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value
        .map(|value| value.trim().to_owned())
        .ok_or(Errno::ESRCH)
}

/// The controlling terminal of a thread: its number among the host's pseudo-terminals.
pub(super) fn terminal_of(tid: i32) -> Option<u32> {
    /// Major number of the first slaves (devices.txt); each has 256, and there are eight.
    const SLAVES: u32 = 136;
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    let after = stat.rsplit_once(')')?.1;
    let device = after.split_whitespace().nth(4)?.parse::<i32>().ok()? as u32;
    let (major, minor) = (
        (device >> 8) & 0xfff,
        (device & 0xff) | ((device >> 12) & 0xfff00),
    );
    (major == SLAVES).then_some(minor)
}

/// Files of a process that name paths of the host: made again in the view's words.
pub(super) fn is_made(parts: &[&[u8]]) -> bool {
    matches!(
        parts,
        [.., b"maps" | b"smaps" | b"numa_maps" | b"mountinfo" | b"mounts" | b"mountstats"]
            if parts.len() >= 2 && number(parts.first().unwrap_or(&b"".as_slice())).is_some()
    )
}

/// The content of such a file.
pub(super) fn made(view: &View, mount: &Mount, rest: &[u8]) -> Result<Vec<u8>, Errno> {
    let name = rest.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let kind = |mount: &Mount| match mount.kind {
        Kind::Processes => "proc",
        Kind::Terminals => "devpts",
        Kind::Tree => "kumiko",
    };
    let mut mounts: Vec<&Mount> = view.mounts().collect();
    mounts.sort_by(|a, b| a.at.cmp(&b.at));
    let lines = mounts.into_iter().enumerate().map(|(index, mount)| {
        let at = String::from_utf8_lossy(&mount.at).replace(' ', "\\040");
        let rights = match (mount.writable, mount.execute) {
            (true, true) => "rw,nosuid",
            (true, false) => "rw,nosuid,noexec",
            (false, true) => "ro,nosuid",
            (false, false) => "ro,nosuid,noexec",
        };
        let kind = kind(mount);
        match name {
            b"mounts" => format!("{kind} {at} {kind} {rights} 0 0\n"),
            b"mountinfo" => format!(
                "{} 1 0:{} / {at} {rights} - {kind} {kind} {rights}\n",
                index + 2,
                index + 2
            ),
            _ => format!("device {kind} mounted on {at} with fstype {kind}\n"),
        }
    });
    if matches!(name, b"mounts" | b"mountinfo" | b"mountstats") {
        return Ok(lines.collect::<String>().into_bytes());
    }
    let path = [&mount.real, b"/".as_slice(), rest].concat();
    let text = fs::read(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&path))?;
    Ok(text
        .split_inclusive(|byte| *byte == b'\n')
        .flat_map(|line| renamed(view, line))
        .collect())
}

use super::view::Kind;

/// A line with the host path that ends it, or stands after "file=", in the view's words.
fn renamed(view: &View, line: &[u8]) -> Vec<u8> {
    let (begin, end) = match line.windows(6).position(|part| part == b" file=") {
        Some(at) => {
            let begin = at + 6;
            let rest = line.get(begin..).unwrap_or_default();
            (
                begin,
                begin
                    + rest
                        .iter()
                        .position(|byte| *byte == b' ')
                        .unwrap_or(rest.len()),
            )
        }
        None => {
            let Some(begin) = line
                .windows(2)
                .position(|part| part == b" /")
                .map(|at| at + 1)
            else {
                return line.to_vec();
            };
            (begin, line.len() - usize::from(line.ends_with(b"\n")))
        }
    };
    let path = line.get(begin..end).unwrap_or_default();
    let (path, gone) = match path.strip_suffix(GONE) {
        Some(path) => (path, GONE),
        None => (path, b"".as_slice()),
    };
    let place = view.place_of(path).unwrap_or_else(|| OUTSIDE.to_vec());
    [
        line.get(..begin).unwrap_or_default(),
        &place,
        gone,
        line.get(end..).unwrap_or_default(),
    ]
    .concat()
}

pub(super) fn number(name: &[u8]) -> Option<i32> {
    let digits = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    digits
        .then(|| std::str::from_utf8(name).ok()?.parse().ok())
        .flatten()
}
/// Flags of what is open, by its file of `fdinfo` (proc_pid_fdinfo(5)).
pub(super) fn flags_by(info: &str) -> Result<i32, Errno> {
    let text = std::fs::read_to_string(info)?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok())
        .ok_or(Errno::EACCES)
}

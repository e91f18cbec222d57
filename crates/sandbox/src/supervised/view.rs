//! A guest's view as a table of mounts that no kernel knows of: which place of the view is which file of the host, and
//! back. Everything below a mount is opened beneath its root, through no link. Not in it: links (resolve.rs), /proc
//! (processes.rs), how the table is made (build.rs).

use super::counts::Counts;
use super::resolve::{join, parent};
use kumiko_linux::supervise::Errno;
use kumiko_linux::supervise::calls;
use kumiko_policy::Reach;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Files of [`View::made_file`] that are kept: more than a room has threads that open one at the same moment.
const MADE_AT_ONCE: u32 = 1024;

/// Links that stand deeper are followed as others are: what a system has of them is `/lib` and the like.
const MOST_BEFORE_LINK: usize = 2;

/// New terminals are had by this name: that in /dev/pts is closed on most machines (`ptmxmode`, pts(4)).
pub(super) const TERMINALS: &CStr = c"/dev/ptmx";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory or file of the host, or of the room's own.
    Tree,
    /// proc(5), of the room's processes.
    Processes,
    /// Terminals that the room has opened.
    Terminals,
}

#[derive(Debug)]
pub(crate) struct Mount {
    /// A place.
    pub at: Vec<u8>,
    /// On the host.
    pub real: Vec<u8>,
    /// Opened for its path alone (O_PATH).
    pub root: OwnedFd,
    pub directory: bool,
    pub writable: bool,
    pub devices: bool,
    /// What lies there may be executed (P23).
    pub execute: bool,
    pub kind: Kind,
    /// Closed by the policy: nothing of the host.
    pub blank: bool,
}

#[derive(Debug)]
pub(crate) struct View {
    mounts: Vec<Mount>,
    at: HashMap<Vec<u8>, usize>,
    /// By path on the host.
    real: HashMap<Vec<u8>, Vec<usize>>,
    /// Links in our own root, which no guest changes, and the places that they lead to.
    links: HashMap<Vec<u8>, Vec<u8>>,
    /// Directories that hold a mount: they keep their names.
    above: BTreeSet<Vec<u8>>,
    /// Numbers of the room's terminals on the host.
    terminals: Arc<Mutex<BTreeSet<u32>>>,
    /// Which addresses its guests may connect to.
    reach: Vec<Reach>,
    /// What sockets may send when they are connected, bytes a second.
    pace: Option<u64>,
    /// What its guests ask for is counted here.
    counts: Option<Arc<Counts>>,
    /// What is listed of /dev/pts.
    terminal_list: PathBuf,
    /// Guests write to no program's memory but by its own instructions.
    code_is_kept: bool,
    made_in: PathBuf,
    made: Arc<Mutex<u32>>,
    /// What is listed of /proc: brought up to date by one at a time.
    list: Arc<Mutex<PathBuf>>,
}

impl View {
    pub(super) fn new() -> View {
        View {
            mounts: Vec::new(),
            at: HashMap::new(),
            real: HashMap::new(),
            links: HashMap::new(),
            above: BTreeSet::new(),
            terminals: Arc::default(),
            reach: Vec::new(),
            pace: None,
            counts: None,
            terminal_list: PathBuf::new(),
            code_is_kept: false,
            made_in: PathBuf::new(),
            made: Arc::default(),
            list: Arc::default(),
        }
    }

    /// Another view of the same room, with nothing mounted yet.
    pub(super) fn another(&self) -> View {
        View {
            links: self.links.clone(),
            terminals: Arc::clone(&self.terminals),
            pace: self.pace,
            counts: self.counts.clone(),
            terminal_list: self.terminal_list.clone(),
            code_is_kept: self.code_is_kept,
            made_in: self.made_in.clone(),
            made: Arc::clone(&self.made),
            list: Arc::clone(&self.list),
            ..View::new()
        }
    }

    /// Host paths that stand for what is mounted at a place, beside its own.
    pub(super) fn other_names(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.real.iter().flat_map(|(real, indices)| {
            let mounts = indices.iter().filter_map(|index| self.mounts.get(*index));
            let others = mounts.filter(move |mount| mount.real != *real);
            others.map(|mount| (mount.at.as_slice(), real.as_slice()))
        })
    }

    pub(crate) fn mounts(&self) -> impl Iterator<Item = &Mount> {
        self.at.values().filter_map(|index| self.mounts.get(*index))
    }

    pub(super) fn add(&mut self, mount: Mount) {
        if self.at.contains_key(mount.at.as_slice()) && mount.at == b"/" {
            self.links.clear(); // they are covered
        }
        let index = self.mounts.len();
        self.at.insert(mount.at.clone(), index);
        self.real.entry(mount.real.clone()).or_default().push(index);
        let mut above = mount.at.as_slice();
        while above != b"/" {
            above = parent(above);
            self.above.insert(above.to_vec());
        }
        self.mounts.push(mount);
    }

    /// A link of our own root, as it stands there. Where words alone do not say where it leads, it is not noted.
    pub(super) fn add_link(&mut self, at: Vec<u8>, words: &[u8]) {
        let mut leads_to = match words.first() {
            Some(b'/') => b"/".to_vec(),
            _ => parent(&at).to_vec(),
        };
        let mut parts = words.split(|byte| *byte == b'/').peekable();
        while parts
            .next_if(|part| matches!(*part, b"" | b"." | b".."))
            .is_some_and(|part| {
                if part == b".." {
                    leads_to = parent(&leads_to).to_vec();
                }
                true
            })
        {}
        for part in parts {
            match part {
                b"" | b"." => {}
                b".." => return,
                part => leads_to = join(&leads_to, part),
            }
        }
        self.links.insert(at, leads_to);
    }

    /// The place that is meant where a link of our own root stands on the way, `follow`: or at the end.
    pub(super) fn through_link(&self, place: Vec<u8>, follow: bool) -> Vec<u8> {
        if self.links.is_empty() {
            return place;
        }
        let slashes = place.iter().enumerate().skip(1);
        let slashes = slashes.filter_map(|(at, byte)| (*byte == b'/').then_some(at));
        let whole = follow.then_some(place.len());
        for end in slashes.take(MOST_BEFORE_LINK).chain(whole) {
            if let Some(leads_to) = place.get(..end).and_then(|link| self.links.get(link)) {
                let rest = place.get(end..).unwrap_or_default();
                return join(leads_to, rest.strip_prefix(b"/").unwrap_or(rest));
            }
        }
        place
    }

    /// A further host path that stands for what is mounted at a place.
    pub(super) fn also_known_as(&mut self, at: &[u8], real: Vec<u8>) {
        if let Some(index) = self.at.get(at) {
            self.real.entry(real).or_default().push(*index);
        }
    }

    pub(super) fn seal(&mut self, at: &[u8]) {
        let index = self.at.get(at).copied();
        if let Some(mount) = index.and_then(|index| self.mounts.get_mut(index)) {
            mount.writable = false;
        }
    }

    /// The mount that a place is in, and the rest of the place below it.
    pub(super) fn mount_of<'a>(&self, place: &'a [u8]) -> Result<(&Mount, &'a [u8]), Errno> {
        let mut end = place.len();
        loop {
            let prefix = if end == 0 {
                b"/"
            } else {
                place.get(..end).unwrap_or(b"/")
            };
            if let Some(mount) = self
                .at
                .get(prefix)
                .and_then(|index| self.mounts.get(*index))
            {
                let rest = place.get(end..).unwrap_or_default();
                return Ok((mount, rest.strip_prefix(b"/").unwrap_or(rest)));
            }
            if end == 0 {
                return Err(Errno::ENOENT);
            }
            end = place
                .get(..end)
                .and_then(|p| p.iter().rposition(|byte| *byte == b'/'))
                .unwrap_or(0);
        }
    }

    /// Something is mounted there, or below.
    pub(super) fn holds_mount(&self, place: &[u8]) -> bool {
        self.at.contains_key(place) || self.above.contains(place)
    }

    /// The place of a host path in the view; None: it is not shown.
    pub(super) fn place_of(&self, real: &[u8]) -> Option<Vec<u8>> {
        let mut prefix = real;
        loop {
            let mut shown: Option<((bool, bool), Vec<u8>)> = None;
            for (mount, place) in self.shown_by(prefix, real) {
                // Who has it open may have it by the name that gives more.
                let rank = (place == real, mount.execute);
                if shown.as_ref().is_none_or(|(best, _)| rank > *best) {
                    shown = Some((rank, place));
                }
            }
            if let Some((_, place)) = shown {
                return Some(place);
            }
            if prefix.len() <= 1 {
                return None;
            }
            prefix = parent(prefix);
        }
    }

    /// Has a host path a place in the view where it may be executed?
    pub(super) fn may_execute(&self, real: &[u8]) -> bool {
        let above =
            std::iter::successors(Some(real), |path| (path.len() > 1).then(|| parent(path)));
        let mut shown = above.flat_map(|prefix| self.shown_by(prefix, real));
        shown.any(|(mount, _)| mount.execute)
    }

    /// The places that a host path has by the mounts whose root is `prefix`.
    fn shown_by<'a>(
        &'a self,
        prefix: &[u8],
        real: &'a [u8],
    ) -> impl Iterator<Item = (&'a Mount, Vec<u8>)> + 'a {
        let rest = real.get(prefix.len()..).unwrap_or_default();
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let indices = self.real.get(prefix).into_iter().flatten();
        let mounts = indices.filter_map(|index| self.mounts.get(*index));
        let places = mounts
            .filter(move |mount| mount.directory || rest.is_empty())
            .map(move |mount| (mount, join(&mount.at, rest)));
        // Not where something else lies over it.
        places.filter(|(mount, place)| {
            let top = self.mount_of(place);
            top.is_ok_and(|(found, _)| std::ptr::eq(found, *mount))
        })
    }

    /// The host path of a place.
    pub(super) fn real_of(&self, place: &[u8]) -> Result<Vec<u8>, Errno> {
        self.mount_of(place)
            .map(|(mount, rest)| join(&mount.real, rest))
    }

    pub(super) fn is_terminal(&self, number: u32) -> bool {
        self.terminals
            .lock()
            .is_ok_and(|known| known.contains(&number))
    }

    pub(super) fn add_terminal(&self, number: u32) {
        if let Ok(mut known) = self.terminals.lock() {
            if known.insert(number) {
                let _ = std::fs::write(self.terminal_list.join(number.to_string()), "");
            }
        }
    }

    pub(super) fn pace(&self) -> Option<u64> {
        self.pace
    }

    pub(super) fn set_pace(&mut self, pace: Option<u64>) {
        self.pace = pace;
    }

    pub(super) fn reach(&self) -> &[Reach] {
        &self.reach
    }

    pub(super) fn count_in(&mut self, counts: Arc<Counts>) {
        self.counts = Some(counts);
    }

    pub(super) fn counts(&self) -> Option<&Counts> {
        self.counts.as_deref()
    }

    pub(super) fn set_reach(&mut self, reach: Vec<Reach>) {
        self.reach = reach;
    }

    pub(super) fn terminal_list(&self) -> &Path {
        &self.terminal_list
    }

    pub(super) fn set_terminal_list(&mut self, list: PathBuf) {
        self.terminal_list = list;
    }

    pub(super) fn list_directory(&self) -> PathBuf {
        self.list
            .lock()
            .map(|list| list.clone())
            .unwrap_or_default()
    }

    pub(super) fn set_list(&mut self, list: PathBuf) {
        self.list = Arc::new(Mutex::new(list));
    }

    /// The host path of a new file of the room's own with this content, to be opened once and soon.
    pub(super) fn made_file(&self, content: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut number = self.made.lock().map_err(|_| Errno::EIO)?;
        // A few at a time: who was told of one opens it before it is told of many more.
        *number = (*number + 1) % MADE_AT_ONCE;
        let path = self.made_in.join(number.to_string());
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, content)?;
        Ok(path.as_os_str().as_bytes().to_vec())
    }

    pub(super) fn keep_code(&mut self) {
        self.code_is_kept = true;
    }

    pub(super) fn code_is_kept(&self) -> bool {
        self.code_is_kept
    }

    /// The directory of [`View::made_file`].
    pub(crate) fn made_in(&self) -> &Path {
        &self.made_in
    }

    pub(super) fn set_made_in(&mut self, directory: PathBuf) {
        self.made_in = directory;
    }

    /// The directory that lists /proc.
    pub(super) fn list(&self) -> Result<OwnedFd, Errno> {
        let list = self.list.lock().map_err(|_| Errno::EIO)?;
        calls::open_host(&c_string(list.as_os_str().as_bytes())?, flag::PATH)
    }

    /// Has it list what is there now.
    pub(super) fn update_list(&self, update: fn(&Path)) -> Result<(), Errno> {
        let list = self.list.lock().map_err(|_| Errno::EIO)?;
        update(&list);
        Ok(())
    }
}

impl Mount {
    /// Opens what is below the root; "" is the root itself.
    pub(super) fn open(&self, rest: &[u8], flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
        if rest.is_empty() {
            return match flags & flag::PATH {
                0 => calls::reopen(
                    self.root(),
                    flags & !(flag::NOFOLLOW | flag::CREATE | flag::EXCLUSIVE),
                ),
                _ => self.root.try_clone().map_err(Errno::from),
            };
        }
        calls::open_beneath(self.root(), &c_string(rest)?, flags, mode)
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// A path has no zero byte in it when it comes from where the kernel would look for one.
pub(super) fn c_string(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}

/// Flags of open(2) on x86_64 (asm-generic/fcntl.h), as guests have them in registers.
pub(super) mod flag {
    pub const ACCESS: i32 = 0o3;
    pub const WRITE_ONLY: i32 = 0o1;
    pub const READ_WRITE: i32 = 0o2;
    pub const CREATE: i32 = 0o100;
    pub const EXCLUSIVE: i32 = 0o200;
    pub const NO_TERMINAL: i32 = 0o400;
    pub const TRUNCATE: i32 = 0o1000;
    pub const NONBLOCK: i32 = 0o4000;
    pub const DIRECTORY: i32 = 0o200_000;
    pub const NOFOLLOW: i32 = 0o400_000;
    pub const CLOSE_ON_EXEC: i32 = 0o2_000_000;
    pub const PATH: i32 = 0o10_000_000;
    /// O_TMPFILE without O_DIRECTORY.
    pub const TEMPORARY: i32 = 0o20_000_000;
    /// All that open(2) has; what else is set means nothing to it.
    pub const KNOWN: i32 = 0o37_777_703;
    /// Of calls of the "at" kind.
    pub const AT_CWD: i32 = -100;
    pub const AT_NOFOLLOW: u64 = 0x100;
    pub const AT_REMOVE_DIRECTORY: u64 = 0x200;
    pub const AT_FOLLOW: u64 = 0x400;
    pub const AT_EMPTY_PATH: u64 = 0x1000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_root_lead_where_the_kernel_would_go() {
        let mut view = View::new();
        view.add_link(b"/lib".to_vec(), b"usr/lib");
        view.add_link(b"/etc/os-release".to_vec(), b"../usr/lib/./os-release");
        view.add_link(b"/etc/localtime".to_vec(), b"/usr/share/zone");
        view.add_link(b"/odd".to_vec(), b"usr/../etc");
        let check = |place: &str, follow: bool, expected: &str| {
            let got = view.through_link(place.as_bytes().to_vec(), follow);
            assert_eq!(String::from_utf8(got).unwrap(), expected, "{place}");
        };
        check("/lib/a/b", true, "/usr/lib/a/b");
        check("/lib/a/b", false, "/usr/lib/a/b");
        check("/lib", true, "/usr/lib");
        check("/lib", false, "/lib");
        check("/library", true, "/library");
        check("/usr/lib", true, "/usr/lib");
        check("/etc/os-release", true, "/usr/lib/os-release");
        check("/etc/os-release", false, "/etc/os-release");
        check("/etc/localtime", true, "/usr/share/zone");
        check("/odd/x", true, "/odd/x");
        check("/", true, "/");
    }
}

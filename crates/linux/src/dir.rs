//! Directories by descriptor. Every name is resolved beneath the directory and through no symbolic link (openat2(2),
//! RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS), so that a tree in which somebody else makes links while we work cannot
//! lead us out of it. Names are relative paths; "" and "." are the directory itself.

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

/// Deepest tree that is walked at once, a descriptor and a stack frame a level: far deeper than people make.
pub const MAX_DEPTH: usize = 256;

/// An open directory.
#[derive(Debug)]
pub struct Dir(OwnedFd);

/// What a name is, itself (a link is not followed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Link,
    /// Socket, pipe, device.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    pub kind: Kind,
}

/// As fstatat(2) tells it, the link itself for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    pub size_bytes: u64,
    /// Unix time of the last change of content.
    pub modified: Duration,
    /// Unix time of the last change of anything; a program cannot set it.
    pub changed: Duration,
    pub device: u64,
    pub inode: u64,
    pub links: u64,
    pub uid: u32,
}

impl Dir {
    /// Opens a directory that we name ourselves: links in `path` are followed.
    pub fn open(path: &Path) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir(fs::open(path, flags, Mode::empty())?))
    }

    /// A directory beneath this one.
    pub fn open_dir(&self, name: impl AsRef<Path>) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(Dir(self.beneath(name.as_ref(), flags, 0)?))
    }

    /// An existing file, to read. Never waits for the other end of a pipe; see [`Dir::stat`] for what it is.
    pub fn open_file(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from(self.beneath(name.as_ref(), flags, 0)?))
    }

    /// A new file, to write (and read); `AlreadyExists` when the name is taken, by a link too.
    pub fn create_file(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        Ok(File::from(self.beneath(name.as_ref(), flags, mode)?))
    }

    /// An existing or new file, to append to.
    pub fn append_file(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK;
        Ok(File::from(self.beneath(name.as_ref(), flags, mode)?))
    }

    pub fn mkdir(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let (parent, last) = self.split(name.as_ref())?;
        Ok(fs::mkdirat(parent, last, Mode::from_raw_mode(mode))?)
    }

    /// Makes `link`, which says `target`; nothing is looked up in `target`.
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
        let (parent, last) = self.split(link.as_ref())?;
        Ok(fs::symlinkat(target.as_ref(), parent, last)?)
    }

    /// What a link says.
    pub fn read_link(&self, name: impl AsRef<Path>) -> io::Result<OsString> {
        let (parent, last) = self.split(name.as_ref())?;
        let target = fs::readlinkat(parent, last, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Puts `from` in the place of `to` (which may exist), within one filesystem.
    pub fn rename(
        &self,
        from: impl AsRef<Path>,
        to_dir: &Dir,
        to: impl AsRef<Path>,
    ) -> io::Result<()> {
        let (from_parent, from_last) = self.split(from.as_ref())?;
        let (to_parent, to_last) = to_dir.split(to.as_ref())?;
        Ok(fs::renameat(from_parent, from_last, to_parent, to_last)?)
    }

    /// Another name for a file of this directory, within one filesystem; `AlreadyExists` when it is taken. A link is itself, not what it
    /// leads to.
    pub fn link(
        &self,
        from: impl AsRef<Path>,
        to_dir: &Dir,
        to: impl AsRef<Path>,
    ) -> io::Result<()> {
        let (from_parent, from_last) = self.split(from.as_ref())?;
        let (to_parent, to_last) = to_dir.split(to.as_ref())?;
        let flags = AtFlags::empty();
        Ok(fs::linkat(
            from_parent,
            from_last,
            to_parent,
            to_last,
            flags,
        )?)
    }

    pub fn stat(&self, name: impl AsRef<Path>) -> io::Result<Meta> {
        let name = name.as_ref();
        let stat = if is_self(name) {
            fs::fstat(&self.0)?
        } else {
            let (parent, last) = self.split(name)?;
            fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW)?
        };
        Ok(meta(&stat))
    }

    /// Sets permission bits of a file or directory (not of a link: `Loop`).
    pub fn set_mode(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let file = self.beneath(name.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK, 0)?;
        Ok(fs::fchmod(file, Mode::from_raw_mode(mode))?)
    }

    /// Sets the time of the last change of content (Unix time); of a link, the link's own.
    pub fn set_modified(&self, name: impl AsRef<Path>, modified: Duration) -> io::Result<()> {
        let (parent, last) = self.split(name.as_ref())?;
        let time = fs::Timespec {
            tv_sec: i64::try_from(modified.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: modified.subsec_nanos().into(),
        };
        let times = fs::Timestamps {
            last_access: time,
            last_modification: time,
        };
        Ok(fs::utimensat(
            parent,
            last,
            &times,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// The names in this directory, sorted, without `.` and `..`.
    pub fn list(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => self.stat(name)?.kind,
                known => kind(known),
            };
            entries.push(Entry {
                name: name.to_owned(),
                kind,
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub fn remove_file(&self, name: impl AsRef<Path>) -> io::Result<()> {
        let (parent, last) = self.split(name.as_ref())?;
        Ok(fs::unlinkat(parent, last, AtFlags::empty())?)
    }

    /// Removes a name and all below it, links and not what they lead to; no error when it is not there. Directories
    /// that their owner may not enter are opened up first, and a tree may be of any depth (a guest may have left it so).
    pub fn remove_all(&self, name: impl AsRef<Path>) -> io::Result<()> {
        let (parent, last) = self.split(name.as_ref())?;
        remove(parent.as_fd(), &last, MAX_DEPTH, None)
    }

    /// Makes the names in this directory durable (fsync(2)).
    pub fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.0)?)
    }

    fn beneath(&self, name: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let name = if is_self(name) { Path::new(".") } else { name };
        let flags = flags | OFlags::CLOEXEC;
        Ok(fs::openat2(
            &self.0,
            name,
            flags,
            Mode::from_raw_mode(mode),
            beneath(),
        )?)
    }

    /// The directory that holds `name`, and its last part.
    fn split(&self, name: &Path) -> io::Result<(OwnedFd, OsString)> {
        let last = match name.components().next_back() {
            Some(std::path::Component::Normal(last)) => last.to_owned(),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let parent = name.parent().unwrap_or(Path::new(""));
        Ok((
            self.beneath(parent, OFlags::PATH | OFlags::DIRECTORY, 0)?,
            last,
        ))
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Dir {
    fn from(fd: OwnedFd) -> Dir {
        Dir(fd)
    }
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

fn is_self(name: &Path) -> bool {
    name.as_os_str().is_empty() || name == Path::new(".")
}

fn kind(of: FileType) -> Kind {
    match of {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

fn meta(stat: &fs::Stat) -> Meta {
    let time = |seconds: i64, nanos: u64| {
        Duration::new(
            u64::try_from(seconds).unwrap_or(0),
            u32::try_from(nanos).unwrap_or(0),
        )
    };
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    // widths differ between architectures
    Meta {
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        mode: stat.st_mode & 0o7777,
        size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
        modified: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        changed: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        links: stat.st_nlink as u64,
        uid: stat.st_uid,
    }
}

/// `top`: where what lies deeper is brought up to; None: this is the top.
fn remove(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    depth: usize,
    top: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    match fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // EISDIR on Linux; EPERM where the standard says so.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(other) => return Err(other.into()),
    }
    if let (0, Some(top)) = (depth, top) {
        return bring_up(parent, name, top);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || fs::openat2(parent, name, flags, Mode::empty(), beneath());
    let directory = match open() {
        Err(Errno::ACCESS) => {
            unlock(parent, name)?;
            open()?
        }
        opened => opened?,
    };
    let stat = fs::fstat(&directory)?;
    if stat.st_mode & 0o700 != 0o700 {
        // Not ours to change: then unlinking below tells.
        let _ = fs::fchmod(
            &directory,
            Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700),
        );
    }
    let directory = Dir(directory);
    loop {
        let entries = directory.list()?;
        let brought_up = entries.iter().any(|entry| entry.kind == Kind::Directory);
        for entry in entries {
            let top = top.unwrap_or(directory.as_fd());
            remove(directory.as_fd(), &entry.name, depth - 1, Some(top))?;
        }
        match fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) if top.is_none() && brought_up => {}
            removed => return Ok(removed?),
        }
    }
}

/// Moves a directory up to `top`, under a name that nothing else is likely to have there.
fn bring_up(parent: BorrowedFd<'_>, name: &OsStr, top: BorrowedFd<'_>) -> io::Result<()> {
    let inode = fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
    let (mut taken, mut unlocked) = (0u32, false);
    loop {
        match fs::renameat(parent, name, top, format!(".deep-{inode}-{taken}")) {
            // Its entry for the directory above it is written to.
            Err(Errno::ACCESS) if !unlocked => {
                unlock(parent, name)?;
                unlocked = true;
            }
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => taken += 1,
            moved => return Ok(moved?),
        }
    }
}

/// Gives the owner access to a directory without following a link at its name: by its O_PATH descriptor.
fn unlock(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = fs::openat2(parent, name, flags, Mode::empty(), beneath())?;
    Ok(fs::chmod(
        crate::proc_path(&place),
        Mode::from_raw_mode(0o700),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A fresh directory, removed at the end of the test.
    struct Scratch(std::path::PathBuf);
    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path =
                std::env::temp_dir().join(format!("kumiko-dir-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }
    }
    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn nothing_leads_out_of_a_directory() {
        let scratch = Scratch::new("out");
        std::fs::create_dir(scratch.0.join("in")).unwrap();
        std::fs::write(scratch.0.join("secret"), "s").unwrap();
        symlink("../secret", scratch.0.join("in/link")).unwrap();
        symlink("..", scratch.0.join("in/up")).unwrap();
        let dir = Dir::open(&scratch.0.join("in")).unwrap();
        for name in [
            "../secret",
            "link",
            "up/secret",
            "/etc/passwd",
            "/proc/self/root/etc/passwd",
        ] {
            assert!(dir.open_file(name).is_err(), "{name} was opened");
            assert!(
                dir.create_file(name, 0o600).is_err(),
                "{name} was created or overwritten"
            );
        }
        assert!(dir.mkdir("up/new", 0o700).is_err());
        assert!(dir.rename("link", &dir, "../moved").is_err());
        assert_eq!(
            std::fs::read_to_string(scratch.0.join("secret")).unwrap(),
            "s"
        );
    }

    #[test]
    fn a_tree_is_removed_with_closed_directories_and_without_following_links() {
        let scratch = Scratch::new("remove");
        let tree = scratch.0.join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::write(tree.join("a/b/file"), "x").unwrap();
        std::fs::write(scratch.0.join("kept"), "k").unwrap();
        symlink(scratch.0.join("kept"), tree.join("a/link")).unwrap();
        symlink(&scratch.0, tree.join("a/dirlink")).unwrap();
        std::fs::set_permissions(tree.join("a/b"), std::fs::Permissions::from_mode(0o000)).unwrap();
        std::fs::set_permissions(tree.join("a"), std::fs::Permissions::from_mode(0o100)).unwrap();
        let dir = Dir::open(&scratch.0).unwrap();
        dir.remove_all("tree").unwrap();
        dir.remove_all("tree").unwrap();
        let left: Vec<_> = dir.list().unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(left, ["kept"]);
    }

    #[test]
    fn a_tree_of_any_depth_is_removed() {
        let scratch = Scratch::new("deep");
        let dir = Dir::open(&scratch.0).unwrap();
        dir.mkdir("tree", 0o700).unwrap();
        let (mut above, mut at) = (None::<Dir>, dir.open_dir("tree").unwrap());
        for level in 0..3 * MAX_DEPTH {
            at.mkdir("d", 0o700).unwrap();
            drop(at.create_file("f", 0o600).unwrap());
            let below = at.open_dir("d").unwrap();
            if let (1, Some(above)) = (level % 2, &above) {
                above.set_mode("d", 0).unwrap();
            }
            above = Some(std::mem::replace(&mut at, below));
        }
        dir.remove_all("tree").unwrap();
        assert!(dir.list().unwrap().is_empty());
    }

    #[test]
    fn files_keep_mode_and_time() {
        let scratch = Scratch::new("meta");
        let dir = Dir::open(&scratch.0).unwrap();
        drop(dir.create_file("f", 0o600).unwrap());
        dir.set_mode("f", 0o640).unwrap();
        dir.set_modified("f", Duration::new(1_000_000_000, 5))
            .unwrap();
        let meta = dir.stat("f").unwrap();
        assert_eq!(
            (meta.kind, meta.mode, meta.modified),
            (Kind::File, 0o640, Duration::new(1_000_000_000, 5))
        );
        assert_eq!(
            dir.create_file("f", 0o600).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
    }
}

//! Files and directories by descriptors that only name them (O_PATH, open(2)): for who hands out a tree to others, and is told names
//! in it one at a time. A name is never more than one, and no link is followed, so nothing leads out of the tree.

use rustix::fs::{
    self, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags,
    Timespec, Timestamps,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Of what open(2) is told by others: whether to read or to write, and at the end.
const ASKED: OFlags = OFlags::ACCMODE.union(OFlags::APPEND);

/// A file, directory, link or socket.
#[derive(Debug)]
pub struct Node(OwnedFd);

/// What it is, by device and inode.
pub type Key = (u64, u64);

/// As fstat(2) tells it.
#[derive(Clone, Copy, Debug)]
pub struct About {
    pub key: Key,
    pub kind: What,
    /// Permission bits.
    pub mode: u16,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    pub read: SystemTime,
    pub modified: SystemTime,
    pub changed: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    File,
    Directory,
    Link,
    Socket,
    Pipe,
    /// A device.
    Other,
}

/// As fstatvfs(3) tells it, in blocks.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub block_bytes: u32,
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub longest_name: u32,
}

/// One of the two times of a file, as it is to be.
#[derive(Clone, Copy, Debug)]
pub enum Time {
    Kept,
    Now,
    At(SystemTime),
}

impl Node {
    /// A directory that we name ourselves: links in `path` are followed.
    pub fn root(path: &Path) -> io::Result<Node> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Node(fs::open(path, flags, Mode::empty())?))
    }

    /// What has this name in the directory; a link itself.
    pub fn child(&self, name: &OsStr) -> io::Result<Node> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Node(fs::openat(
            &self.0,
            single(name)?,
            flags,
            Mode::empty(),
        )?))
    }

    pub fn about(&self) -> io::Result<About> {
        let stat = fs::fstat(&self.0)?;
        // A file from before 1970 is taken to be from then.
        let time = |seconds: i64, nanos: u64| {
            let whole = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            SystemTime::UNIX_EPOCH + whole + Duration::from_nanos(nanos)
        };
        Ok(About {
            key: (stat.st_dev, stat.st_ino),
            kind: what(FileType::from_raw_mode(stat.st_mode)),
            mode: (stat.st_mode & 0o7777) as u16,
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            read: time(stat.st_atime, stat.st_atime_nsec),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
        })
    }

    /// Opens a file; of `flags` (open(2)) only how counts. What is no file is refused.
    pub fn open(&self, flags: i32) -> io::Result<File> {
        if self.about()?.kind != What::File {
            return Err(Errno::OPNOTSUPP.into());
        }
        let asked = OFlags::from_bits_retain(flags as u32) & ASKED;
        self.again(asked | OFlags::NONBLOCK)
    }

    /// What this is, open.
    fn again(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let path = crate::proc_path(&self.0);
        Ok(File::from(fs::open(path, flags, Mode::empty())?))
    }

    /// A new file, open; `AlreadyExists`: the name is taken.
    pub fn create(&self, name: &OsStr, flags: i32, mode: u32) -> io::Result<File> {
        let asked = OFlags::from_bits_retain(flags as u32) & ASKED;
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        Ok(File::from(fs::openat(
            &self.0,
            single(name)?,
            asked | new,
            mode,
        )?))
    }

    /// All names in the directory, with `.` and `..`.
    pub fn entries(&self) -> io::Result<Vec<(OsString, u64, What)>> {
        let directory = self.again(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in fs::Dir::new(directory)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            entries.push((name, entry.ino(), what(entry.file_type())));
        }
        Ok(entries)
    }

    pub fn mkdir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        Ok(fs::mkdirat(&self.0, single(name)?, mode)?)
    }

    /// A file, socket or pipe, as `mode` says (mknod(2)); no device.
    pub fn mknod(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let kind = FileType::from_raw_mode(mode);
        if !matches!(
            kind,
            FileType::RegularFile | FileType::Socket | FileType::Fifo
        ) {
            return Err(Errno::PERM.into());
        }
        let mode = Mode::from_raw_mode(mode & 0o7777);
        Ok(fs::mknodat(&self.0, single(name)?, kind, mode, 0)?)
    }

    pub fn symlink(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        Ok(fs::symlinkat(target, &self.0, single(name)?)?)
    }

    /// What a link says.
    pub fn read_link(&self) -> io::Result<Vec<u8>> {
        Ok(fs::readlinkat(&self.0, "", Vec::new())?.into_bytes())
    }

    /// Removes a name; of a directory, if it is empty.
    pub fn remove(&self, name: &OsStr, directory: bool) -> io::Result<()> {
        let flags = match directory {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        Ok(fs::unlinkat(&self.0, single(name)?, flags)?)
    }

    /// `flags`: as of renameat2(2).
    pub fn rename(&self, name: &OsStr, to: &Node, new: &OsStr, flags: u32) -> io::Result<()> {
        let flags = RenameFlags::from_bits_retain(flags);
        Ok(fs::renameat_with(
            &self.0,
            single(name)?,
            &to.0,
            single(new)?,
            flags,
        )?)
    }

    /// Another name for a file.
    pub fn link(&self, to: &Node, name: &OsStr) -> io::Result<()> {
        let from = crate::proc_path(&self.0);
        Ok(fs::linkat(
            CWD,
            from,
            &to.0,
            single(name)?,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }

    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        Ok(fs::chmod(crate::proc_path(&self.0), mode)?)
    }

    pub fn set_size(&self, size: u64) -> io::Result<()> {
        self.open(libc::O_WRONLY)?.set_len(size)
    }

    pub fn set_times(&self, read: Time, modified: Time) -> io::Result<()> {
        let times = Timestamps {
            last_access: spec(read),
            last_modification: spec(modified),
        };
        Ok(fs::utimensat(
            CWD,
            crate::proc_path(&self.0),
            &times,
            AtFlags::empty(),
        )?)
    }

    /// Has what is in a directory outlast the machine.
    pub fn sync(&self) -> io::Result<()> {
        self.again(OFlags::RDONLY | OFlags::DIRECTORY)?.sync_all()
    }

    pub fn room(&self) -> io::Result<Room> {
        let of = fs::fstatvfs(&self.0)?;
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(Room {
            block_bytes: small(of.f_frsize),
            blocks: of.f_blocks,
            free: of.f_bfree,
            available: of.f_bavail,
            files: of.f_files,
            files_free: of.f_ffree,
            longest_name: small(of.f_namemax),
        })
    }
}

/// As fallocate(2), with its `mode`.
pub fn allocate(file: &File, mode: i32, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::from_bits_retain(mode as u32);
    Ok(fs::fallocate(file, flags, offset, length)?)
}

/// As flock(2); `kind` as fcntl(2) has it (F_RDLCK and the others). `wait`: until it is to be had.
pub fn lock(file: &File, kind: i32, wait: bool) -> io::Result<()> {
    let operation = match (kind, wait) {
        (libc::F_UNLCK, _) => FlockOperation::Unlock,
        (libc::F_RDLCK, true) => FlockOperation::LockShared,
        (libc::F_RDLCK, false) => FlockOperation::NonBlockingLockShared,
        (libc::F_WRLCK, true) => FlockOperation::LockExclusive,
        (libc::F_WRLCK, false) => FlockOperation::NonBlockingLockExclusive,
        _ => return Err(Errno::INVAL.into()),
    };
    Ok(rustix::io::retry_on_intr(|| fs::flock(file, operation))?)
}

/// A name that leads nowhere else.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(Errno::INVAL.into()),
        bytes if bytes.contains(&b'/') => Err(Errno::INVAL.into()),
        _ => Ok(name),
    }
}

fn what(kind: FileType) -> What {
    match kind {
        FileType::RegularFile => What::File,
        FileType::Directory => What::Directory,
        FileType::Symlink => What::Link,
        FileType::Socket => What::Socket,
        FileType::Fifo => What::Pipe,
        _ => What::Other,
    }
}

fn spec(time: Time) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        Time::Kept => special(fs::UTIME_OMIT),
        Time::Now => special(fs::UTIME_NOW),
        Time::At(time) => {
            let since = time
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: since.subsec_nanos().into(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_and_no_link_leads_out() {
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(top.path().join("secret"), "out").unwrap();
        std::os::unix::fs::symlink("../secret", tree.join("link")).unwrap();
        let root = Node::root(&tree).unwrap();
        for name in ["", ".", "..", "../secret", "a/b", "/etc"] {
            let name = OsStr::new(name);
            assert!(root.child(name).is_err(), "{name:?}");
            assert!(root.create(name, 1, 0o600).is_err(), "{name:?}");
            assert!(root.mkdir(name, 0o700).is_err(), "{name:?}");
            assert!(root.remove(name, false).is_err(), "{name:?}");
        }
        let link = root.child(OsStr::new("link")).unwrap();
        assert_eq!(link.about().unwrap().kind, What::Link);
        assert_eq!(link.read_link().unwrap(), b"../secret");
        assert!(link.open(0).is_err());
        assert!(link.set_size(0).is_err());
        let taken = root.create(OsStr::new("link"), 1, 0o600).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            std::fs::read_to_string(top.path().join("secret")).unwrap(),
            "out"
        );
    }
}

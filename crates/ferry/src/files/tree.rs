//! The site's folders as a file system that another host's kernel asks for (fuse(4)); its words are read by the crate fuser. The root holds
//! the folders by their numbers, and nothing else. Not here: how the questions come.

use super::nodes::Nodes;
use super::notice::CHUNK_BYTES;
use super::telling::Telling;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use kumiko_linux::node::{self, About, Node, Time, What};
use kumiko_linux::spooling;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// What the site changes is to be seen at once: the kernel asks anew each time.
const UNKEPT: Duration = Duration::ZERO;
/// Longer than file systems take for the same moment.
const RECENT: Duration = Duration::from_secs(3);
pub const ROOT: u64 = 1;
/// A write of a kernel is no longer.
pub const MAX_WRITE_BYTES: u32 = 128 * 1024;
/// In the folder of this name nothing of this name is shown: a key that is for the site alone.
const HIDDEN: (&str, &str) = (crate::DIRECTORY, crate::AUTHORITY);

/// Whose files they are to be over there, where the account may have another number.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// A file that is open, or the names in a directory as they were when that was opened.
#[derive(Debug, Clone)]
enum Open {
    File(Arc<File>),
    Names(Arc<Vec<(OsString, u64, FileType)>>),
}

#[derive(Debug, Default)]
struct Opened {
    open: HashMap<u64, Open>,
    last: u64,
}

/// One file system, of one host.
#[derive(Debug)]
pub struct Tree {
    folders: Vec<Arc<Node>>,
    /// Who the site's own account is here.
    here: Owner,
    there: Owner,
    telling: Telling,
    nodes: Mutex<Nodes>,
    opened: Mutex<Opened>,
}

impl Tree {
    /// `most`: nodes that the host should not know more of, for each is a descriptor.
    ///
    /// # Errors
    /// One of the folders is not there.
    pub fn new(
        folders: &[PathBuf],
        there: Owner,
        telling: Telling,
        most: usize,
    ) -> io::Result<Tree> {
        let roots = folders
            .iter()
            .map(|path| Ok(Arc::new(Node::root(path)?)))
            .collect::<io::Result<Vec<_>>>()?;
        let here = match roots.first() {
            Some(root) => root.about()?,
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Tree {
            folders: roots,
            here: Owner {
                uid: here.uid,
                gid: here.gid,
            },
            there,
            telling,
            nodes: Mutex::new(Nodes::new(most)),
            opened: Mutex::default(),
        })
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self, number: INodeNo) -> Result<Arc<Node>, Errno> {
        self.nodes().get(number.0).cloned().ok_or(Errno::ESTALE)
    }

    /// The directory in which this name may be used.
    fn parent(&self, parent: INodeNo, name: &OsStr) -> Result<Arc<Node>, Errno> {
        if parent.0 == ROOT {
            return Err(Errno::EACCES);
        }
        let node = self.node(parent)?;
        match self.is_hidden(&node, name)? {
            true => Err(Errno::ENOENT),
            false => Ok(node),
        }
    }

    fn is_hidden(&self, parent: &Node, name: &OsStr) -> Result<bool, Errno> {
        if name != HIDDEN.1 {
            return Ok(false);
        }
        let key = parent.about()?.key;
        let is_it = |root: &Arc<Node>| {
            let child = root.child(OsStr::new(HIDDEN.0));
            child
                .and_then(|node| node.about())
                .is_ok_and(|about| about.key == key)
        };
        Ok(self.folders.iter().any(is_it))
    }

    /// Gives a node its number, and what is told of it.
    fn meet(&self, node: Node) -> Result<FileAttr, Errno> {
        self.meet_shared(Arc::new(node))
    }

    fn meet_shared(&self, node: Arc<Node>) -> Result<FileAttr, Errno> {
        let about = node.about()?;
        let mut nodes = self.nodes();
        let number = nodes.meet(node, about.key);
        if nodes.are_too_many() {
            self.telling.asks_to_forget();
        }
        drop(nodes);
        Ok(self.attributes(number, &about))
    }

    fn found(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        if parent.0 == ROOT {
            let number: usize = name
                .to_str()
                .and_then(|name| name.parse().ok())
                .ok_or(Errno::ENOENT)?;
            let folder = self.folders.get(number).ok_or(Errno::ENOENT)?;
            return self.meet_shared(Arc::clone(folder));
        }
        self.meet(self.parent(parent, name)?.child(name)?)
    }

    /// What was made just now.
    fn made(&self, parent: &Node, name: &OsStr, done: io::Result<()>) -> Result<FileAttr, Errno> {
        done?;
        self.meet(parent.child(name)?)
    }

    fn attributes(&self, number: u64, about: &About) -> FileAttr {
        let own = |id, here, there| if id == here { there } else { id };
        FileAttr {
            ino: INodeNo(number),
            size: about.size,
            blocks: about.blocks,
            atime: about.read,
            mtime: about.modified,
            ctime: about.changed,
            crtime: about.changed,
            kind: kind(about.kind),
            perm: about.mode,
            nlink: about.links,
            uid: own(about.uid, self.here.uid, self.there.uid),
            gid: own(about.gid, self.here.gid, self.there.gid),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn about(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        if number.0 == ROOT {
            let about = self.folders.first().ok_or(Errno::ENOENT)?.about()?;
            let mut root = self.attributes(ROOT, &about);
            root.perm = 0o700;
            return Ok(root);
        }
        Ok(self.attributes(number.0, &self.node(number)?.about()?))
    }

    fn keep(&self, open: Open) -> FileHandle {
        let mut opened = self.opened();
        opened.last += 1;
        let handle = opened.last;
        opened.open.insert(handle, open);
        FileHandle(handle)
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<File>, Errno> {
        match self.opened().open.get(&handle.0) {
            Some(Open::File(file)) => Ok(Arc::clone(file)),
            _ => Err(Errno::EBADF),
        }
    }

    fn names(&self, number: INodeNo) -> Result<Open, Errno> {
        let mut names = Vec::new();
        if number.0 == ROOT {
            let folders = (0..self.folders.len()).map(|n| OsString::from(n.to_string()));
            names.extend(folders.map(|name| (name, ROOT, FileType::Directory)));
            return Ok(Open::Names(Arc::new(names)));
        }
        let node = self.node(number)?;
        for (name, inode, what) in node.entries()? {
            if !self.is_hidden(&node, &name)? {
                names.push((name, inode, kind(what)));
            }
        }
        Ok(Open::Names(Arc::new(names)))
    }

    /// Whether the kernel, which opens a file, may use what it has kept of it. Of a change that was made just now the next might not differ.
    fn is_as_it_was(&self, number: INodeNo, about: &About) -> bool {
        let is_settled = about.modified.elapsed().is_ok_and(|ago| ago > RECENT);
        let now = is_settled.then_some((about.modified, about.changed, about.size));
        let before = self.nodes().opened(number.0, now);
        now.is_some() && before == now
    }
}

fn kind(what: What) -> FileType {
    match what {
        What::File => FileType::RegularFile,
        What::Directory => FileType::Directory,
        What::Link => FileType::Symlink,
        What::Socket => FileType::Socket,
        What::Pipe => FileType::NamedPipe,
        What::Other => FileType::CharDevice,
    }
}

fn time(time: Option<TimeOrNow>) -> Time {
    match time {
        None => Time::Kept,
        Some(TimeOrNow::Now) => Time::Now,
        Some(TimeOrNow::SpecificTime(at)) => Time::At(at),
    }
}

/// Answers with an error, or goes on.
macro_rules! or_tell {
    ($reply:ident, $tried:expr) => {
        match $tried {
            Ok(value) => value,
            Err(error) => return $reply.error(Errno::from(error)),
        }
    };
}

impl Filesystem for Tree {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Locks of flock(2) are the site's, for it asks by them whether a runner lives (spec/jobs/runner.md, R2).
        config
            .add_capabilities(InitFlags::FUSE_FLOCK_LOCKS)
            .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        config
            .set_max_write(MAX_WRITE_BYTES)
            .map(drop)
            .map_err(|_| io::ErrorKind::Unsupported.into())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let attributes = or_tell!(reply, self.found(parent, name));
        reply.entry(&UNKEPT, &attributes, Generation(0));
    }

    fn forget(&self, _: &Request, number: INodeNo, answers: u64) {
        self.nodes().forget(number.0, answers);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let attributes = or_tell!(reply, self.about(number));
        reply.attr(&UNKEPT, &attributes);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        read: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = || -> Result<FileAttr, Errno> {
            let node = self.node(number)?;
            // Files are the account's, and stay so.
            if uid.is_some_and(|uid| uid != self.there.uid)
                || gid.is_some_and(|gid| gid != self.there.gid)
            {
                return Err(Errno::EPERM);
            }
            if let Some(mode) = mode {
                node.set_mode(mode)?;
            }
            match (size, handle) {
                (Some(size), Some(handle)) => self.file(handle)?.set_len(size)?,
                (Some(size), None) => node.set_size(size)?,
                (None, _) => (),
            }
            if read.is_some() || modified.is_some() {
                node.set_times(time(read), time(modified))?;
            }
            self.about(number)
        };
        let attributes = or_tell!(reply, change());
        reply.attr(&UNKEPT, &attributes);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let said = || Ok::<_, Errno>(self.node(number)?.read_link()?);
        let said = or_tell!(reply, said());
        reply.data(&said);
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let node = or_tell!(reply, self.parent(parent, name));
        let done = node.mknod(name, mode & !umask);
        let attributes = or_tell!(reply, self.made(&node, name, done));
        reply.entry(&UNKEPT, &attributes, Generation(0));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let node = or_tell!(reply, self.parent(parent, name));
        let done = node.mkdir(name, mode & !umask);
        let attributes = or_tell!(reply, self.made(&node, name, done));
        reply.entry(&UNKEPT, &attributes, Generation(0));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let node = or_tell!(reply, self.parent(parent, name));
        or_tell!(reply, node.remove(name, false));
        reply.ok();
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let node = or_tell!(reply, self.parent(parent, name));
        or_tell!(reply, node.remove(name, true));
        reply.ok();
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let node = or_tell!(reply, self.parent(parent, name));
        let done = node.symlink(name, target);
        let attributes = or_tell!(reply, self.made(&node, name, done));
        reply.entry(&UNKEPT, &attributes, Generation(0));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let from = or_tell!(reply, self.parent(parent, name));
        let to = or_tell!(reply, self.parent(new_parent, new_name));
        or_tell!(reply, from.rename(name, &to, new_name, flags.bits()));
        reply.ok();
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let node = or_tell!(reply, self.node(number));
        let to = or_tell!(reply, self.parent(parent, name));
        let done = node.link(&to, name);
        let attributes = or_tell!(reply, self.made(&to, name, done));
        reply.entry(&UNKEPT, &attributes, Generation(0));
    }

    fn open(&self, _: &Request, number: INodeNo, asked: OpenFlags, reply: ReplyOpen) {
        let node = or_tell!(reply, self.node(number));
        let file = or_tell!(reply, node.open(asked.0));
        let about = or_tell!(reply, node.about());
        let flags = match self.is_as_it_was(number, &about) {
            true => FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::empty(),
        };
        let handle = self.keep(Open::File(Arc::new(file)));
        if is_read_only(asked.0) && about.size >= CHUNK_BYTES {
            self.telling.opened(handle.0, number.0);
        }
        reply.opened(handle, flags);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let make = || -> Result<(FileAttr, File), Errno> {
            let node = self.parent(parent, name)?;
            let file = match node.create(name, flags, mode & !umask) {
                // The kernel asked whether it is there, and somebody made it since.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && !is_exclusive(flags) =>
                {
                    node.child(name)?.open(flags)?
                }
                made => made?,
            };
            Ok((self.meet(node.child(name)?)?, file))
        };
        let (attributes, file) = or_tell!(reply, make());
        let handle = self.keep(Open::File(Arc::new(file)));
        reply.created(
            &UNKEPT,
            &attributes,
            Generation(0),
            handle,
            FopenFlags::empty(),
        );
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = or_tell!(reply, self.file(handle));
        let most = size.min(MAX_WRITE_BYTES) as usize;
        self.telling.reads(handle.0, &file, offset, most as u64);
        let bytes = or_tell!(reply, spooling::read_at(&*file, offset, most));
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = or_tell!(reply, self.file(handle));
        // As much as there is room for, of which the kernel is told.
        let count = or_tell!(reply, file.write_at(data, offset));
        reply.written(u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.telling.closed(handle.0);
        self.opened().open.remove(&handle.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let file = or_tell!(reply, self.file(handle));
        or_tell!(
            reply,
            if data_only {
                file.sync_data()
            } else {
                file.sync_all()
            }
        );
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let names = or_tell!(reply, self.names(number));
        reply.opened(self.keep(names), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = match self.opened().open.get(&handle.0) {
            Some(Open::Names(names)) => Arc::clone(names),
            _ => return reply.error(Errno::EBADF),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (name, inode, kind)) in names.iter().enumerate().skip(from) {
            if reply.add(INodeNo(*inode), at as u64 + 1, *kind, name) {
                break; // there is no more room in this answer
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.opened().open.remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let node = or_tell!(reply, self.node(number));
        or_tell!(reply, node.sync());
        reply.ok();
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        let node = match (number.0, self.folders.first()) {
            (ROOT, Some(folder)) => Arc::clone(folder),
            _ => or_tell!(reply, self.node(number)),
        };
        let room = or_tell!(reply, node.room());
        reply.statfs(
            room.blocks,
            room.free,
            room.available,
            room.files,
            room.files_free,
            room.block_bytes,
            room.longest_name,
            room.block_bytes,
        );
    }

    fn setlk(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        _: u64,
        _: u64,
        kind: i32,
        _: u32,
        wait: bool,
        reply: ReplyEmpty,
    ) {
        let file = or_tell!(reply, self.file(handle));
        match wait {
            false => {
                or_tell!(reply, node::lock(&file, kind, false));
                reply.ok();
            }
            // Others go on meanwhile.
            true => drop(std::thread::spawn(move || {
                or_tell!(reply, node::lock(&file, kind, true));
                reply.ok();
            })),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let file = or_tell!(reply, self.file(handle));
        or_tell!(reply, node::allocate(&file, mode, offset, length));
        reply.ok();
    }
}

fn is_read_only(flags: i32) -> bool {
    const O_ACCMODE: i32 = 0o3; // open(2)
    flags & O_ACCMODE == 0
}

fn is_exclusive(flags: i32) -> bool {
    const O_EXCL: i32 = 0o200; // open(2)
    flags & O_EXCL != 0
}

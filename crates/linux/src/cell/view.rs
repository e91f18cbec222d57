//! The file tree of a cell: a small tmpfs that holds directories and links, on which copies of host trees are mounted
//! (open_tree(2), move_mount(2), mount_setattr(2)). Everything is opened before anything is mounted, and every place is
//! looked up beneath the new root and through no link (openat2(2)).

use super::report::{Failure, Reports, Stage, errno};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};
use rustix::process::{Resource, Rlimit};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};

/// What a cell shows. Steps are carried out in order: what stands above comes first. Paths (`at`) are relative to the
/// view's root, without a leading slash.
#[derive(Debug, Default)]
pub struct View {
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub enum Step {
    /// In the root's own tmpfs, as the two below.
    Directory {
        at: CString,
        mode: u32,
    },
    File {
        at: CString,
        mode: u32,
    },
    Link {
        at: CString,
        target: CString,
    },
    /// A copy of a host tree, with what is mounted in it. A file is put on a file, a directory on a directory.
    Tree {
        at: CString,
        source: Source,
        writable: bool,
        devices: bool,
        execute: bool,
    },
    /// An empty directory or file of this mode, which cannot be changed.
    Blank {
        at: CString,
        directory: bool,
        mode: u32,
    },
    /// A tmpfs; `size` as tmpfs(5) has it.
    Temporary {
        at: CString,
        size: CString,
        execute: bool,
    },
    /// What is mounted there cannot be written to from now on.
    Seal {
        at: CString,
    },
    /// proc(5) of the cell's processes; one step at most.
    Processes {
        at: CString,
        writable: bool,
    },
    /// devpts with terminals of its own.
    Terminals {
        at: CString,
    },
}

/// A host path: links in `root` are followed; `beneath` ("" or relative) is looked up from there through no link.
#[derive(Clone, Debug)]
pub struct Source {
    pub root: CString,
    pub beneath: CString,
}

impl View {
    /// Room for the descriptor of each step, made before the fork.
    pub(super) fn slots(&self) -> Vec<Option<OwnedFd>> {
        self.steps.iter().map(|_| None).collect()
    }
}

/// The skeleton needs a few pages; nothing can be written to it later.
const ROOT_OPTIONS: &CStr = c"mode=0755,size=4m";
/// Where the new root is put together: any directory that every machine has.
const ASSEMBLY: [&CStr; 3] = [c"/tmp", c"/usr", c"/etc"];
/// Where the old root goes for a moment, relative to the new one: a directory in one that is closed.
const OLD_ROOT_GATE: &CStr = c".old";
const OLD_ROOT: &CStr = c".old/root";
/// Name of a thing that is removed again before anybody can see it.
const BLANK: &CStr = c".blank";
/// So often in a row a place may be replaced while it is mounted on: who does nothing but that holds up nobody.
const PLACES_GONE: u32 = 100;

pub(super) fn build(
    view: &View,
    slots: &mut [Option<OwnedFd>],
    from_init: &Reports,
) -> Result<(), Failure> {
    rustix::process::umask(Mode::empty());
    // What is mounted on the host later must not appear inside.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", private).map_err(Failure::at(Stage::Root))?;
    // Every tree is open at once; the program gets back what we were given.
    let files = rustix::process::getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: files.maximum,
        maximum: files.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, most).map_err(Failure::at(Stage::Root))?;
    for (index, (step, slot)) in view.steps.iter().zip(slots.iter_mut()).enumerate() {
        if let Step::Tree {
            source,
            writable,
            devices,
            execute,
            ..
        } = step
        {
            let mut without = MountAttrFlags::MOUNT_ATTR_NOSUID;
            without.set(MountAttrFlags::MOUNT_ATTR_RDONLY, !writable);
            without.set(MountAttrFlags::MOUNT_ATTR_NODEV, !devices);
            without.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, !execute);
            *slot = Some(copy(source, without, index)?);
        }
    }
    new_root().map_err(Failure::at(Stage::Root))?;
    for place in [OLD_ROOT_GATE, OLD_ROOT] {
        rustix::fs::mkdirat(CWD, place, Mode::empty()).map_err(Failure::at(Stage::Root))?;
    }
    let mut made = None;
    for (index, (step, slot)) in view.steps.iter().zip(slots.iter()).enumerate() {
        let place = match step {
            Step::Tree { at, .. } if made == Some(at) => Place::Made,
            _ => Place::There,
        };
        carry_out(step, slot.as_ref(), place, from_init, index)?;
        made = match step {
            Step::Directory { at, .. } | Step::File { at, .. } => Some(at),
            _ => None,
        };
    }
    rustix::process::setrlimit(Resource::Nofile, files).map_err(Failure::at(Stage::Root))?;
    let sealed = MountAttrFlags::MOUNT_ATTR_RDONLY.bits().into();
    mount_setattr(libc::AT_FDCWD, c".", 0, sealed).map_err(Failure::at(Stage::Root))?;
    leave().map_err(Failure::at(Stage::Pivot))
}

fn copy(source: &Source, without: MountAttrFlags, index: usize) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = if source.beneath.is_empty() {
        rustix::mount::open_tree(CWD, source.root.as_c_str(), flags)
            .map_err(Failure::step(Stage::Real, index))?
    } else {
        let path = OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::open(source.root.as_c_str(), path, Mode::empty())
            .map_err(Failure::step(Stage::Real, index))?;
        let place = rustix::fs::openat2(
            &root,
            source.beneath.as_c_str(),
            path,
            Mode::empty(),
            beneath(),
        );
        let place = place.map_err(|errno| match errno {
            Errno::LOOP => Failure::step(Stage::Link, index)(errno),
            errno => Failure::step(Stage::Real, index)(errno),
        })?;
        rustix::mount::open_tree(&place, c"", flags | OpenTreeFlags::AT_EMPTY_PATH)
            .map_err(Failure::step(Stage::Tree, index))?
    };
    attribute_tree(&tree, without).map_err(Failure::step(Stage::Tree, index))?;
    Ok(tree)
}

fn new_root() -> Result<(), Errno> {
    let mut last = Errno::NOENT;
    for place in ASSEMBLY {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        match rustix::mount::mount(c"tmpfs", place, c"tmpfs", flags, Some(ROOT_OPTIONS)) {
            Ok(()) => return rustix::process::chdir(place),
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

/// What is to be mounted on.
#[derive(Clone, Copy)]
enum Place {
    /// By the step before, in what is ours alone: it need not be looked up with care again.
    Made,
    There,
}

fn carry_out(
    step: &Step,
    tree: Option<&OwnedFd>,
    place_of_tree: Place,
    from_init: &Reports,
    index: usize,
) -> Result<(), Failure> {
    let place = Failure::step(Stage::Place, index);
    let mounting = Failure::step(Stage::Mount, index);
    match step {
        Step::Directory { at, mode } => {
            rustix::fs::mkdirat(CWD, at.as_c_str(), Mode::from_raw_mode(*mode)).map_err(place)
        }
        Step::File { at, mode } => {
            let mode = Mode::from_raw_mode(*mode);
            rustix::fs::mknodat(CWD, at.as_c_str(), FileType::RegularFile, mode, 0).map_err(place)
        }
        Step::Link { at, target } => {
            rustix::fs::symlinkat(target.as_c_str(), CWD, at.as_c_str()).map_err(place)
        }
        Step::Tree { at, .. } => match tree {
            Some(tree) => match place_of_tree {
                Place::Made => put_on_made(tree, at, index),
                Place::There => put(tree, at, index),
            },
            None => Err(mounting(Errno::BADF)),
        },
        Step::Blank {
            at,
            directory,
            mode,
        } => blank(at, *directory, *mode, index),
        Step::Temporary { at, size, execute } => {
            let options = [(c"size", size.as_c_str()), (c"mode", c"1777")];
            let mut attributes =
                MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
            attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, !execute);
            let fresh = filesystem(c"tmpfs", &options, attributes).map_err(mounting)?;
            put(&fresh, at, index)
        }
        Step::Seal { at } => {
            let path = OFlags::PATH | OFlags::CLOEXEC;
            let mounted = rustix::fs::openat2(CWD, at.as_c_str(), path, Mode::empty(), beneath())
                .map_err(place)?;
            let set = MountAttrFlags::MOUNT_ATTR_RDONLY.bits().into();
            mount_setattr(mounted.as_raw_fd(), c"", libc::AT_EMPTY_PATH, set).map_err(mounting)
        }
        Step::Processes { at, writable } => {
            let told = from_init.fd_or_failure();
            let fresh = told.map_err(|failure| Failure { index, ..failure })?;
            if !writable {
                attribute_tree(&fresh, MountAttrFlags::MOUNT_ATTR_RDONLY).map_err(mounting)?;
            }
            put(&fresh, at, index)
        }
        Step::Terminals { at } => {
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            let options = [(c"ptmxmode", c"0666"), (c"mode", c"0620")];
            let fresh = filesystem(c"devpts", &options, attributes).map_err(mounting)?;
            put(&fresh, at, index)
        }
    }
}

/// The cell's own proc(5), not mounted yet; made by init. A process sees only those that it may trace.
pub(super) fn processes() -> Result<OwnedFd, Errno> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    filesystem(c"proc", &[(c"hidepid", c"ptraceable")], attributes)
}

/// A file that is replaced between being found and being mounted on (rename(2)) is looked up again.
pub(super) fn put(tree: &OwnedFd, at: &CStr, index: usize) -> Result<(), Failure> {
    let path = OFlags::PATH | OFlags::CLOEXEC;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    let mut again = PLACES_GONE;
    loop {
        let place = rustix::fs::openat2(CWD, at, path, Mode::empty(), beneath())
            .map_err(Failure::step(Stage::Place, index))?;
        let moved = rustix::mount::move_mount(tree, c"", &place, c"", flags);
        // Closing takes longer than opening; the end of this process does it while the program runs.
        std::mem::forget(place);
        match moved {
            Ok(()) => return Ok(()),
            Err(Errno::NOENT) if again > 0 => again -= 1,
            // A file cannot be put on a directory, nor the other way round.
            Err(Errno::NOTDIR) => return Err(Failure::step(Stage::Place, index)(Errno::NOTDIR)),
            Err(errno) => return Err(Failure::step(Stage::Mount, index)(errno)),
        }
    }
}

fn put_on_made(tree: &OwnedFd, at: &CStr, index: usize) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH; // and no link at its end is followed
    rustix::mount::move_mount(tree, c"", CWD, at, flags).map_err(Failure::step(Stage::Mount, index))
}

/// Puts an empty thing on a place; it has no other name afterwards.
fn blank(at: &CStr, directory: bool, mode: u32, index: usize) -> Result<(), Failure> {
    let mounting = Failure::step(Stage::Mount, index);
    let mode = Mode::from_raw_mode(mode);
    if directory {
        rustix::fs::mkdirat(CWD, BLANK, mode).map_err(&mounting)?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, BLANK, flags, mode).map_err(&mounting)?;
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(CWD, BLANK, flags).map_err(&mounting)?;
    let sealed = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NODEV;
    attribute_tree(&tree, sealed).map_err(&mounting)?;
    put(&tree, at, index)?;
    let remove = if directory {
        rustix::fs::AtFlags::REMOVEDIR
    } else {
        rustix::fs::AtFlags::empty()
    };
    rustix::fs::unlinkat(CWD, BLANK, remove).map_err(&mounting)
}

pub(super) fn filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(&context, *key, *value)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Makes the new root ours. Taking the old one off waits for a grace period of the kernel's readers (milliseconds), so
/// that is left to [`take_off_old_root`]; until then it lies in a directory that nobody without capabilities may enter,
/// on a filesystem whose modes cannot be changed any more.
fn leave() -> Result<(), Errno> {
    rustix::process::pivot_root(c".", OLD_ROOT)?;
    rustix::process::chdir(c"/")
}

/// The last act of a maker, which still has the capabilities that a program has not.
pub(super) fn take_off_old_root() {
    // Cannot fail for a mount of our own; if it did, the directory above it stays closed.
    let _ = rustix::mount::unmount(OLD_ROOT, UnmountFlags::DETACH);
}

pub(super) fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

/// As `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

pub(super) fn attribute_tree(tree: &OwnedFd, set: MountAttrFlags) -> Result<(), Errno> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    mount_setattr(tree.as_raw_fd(), c"", flags, set.bits().into())
}

fn mount_setattr(fd: libc::c_int, path: &CStr, flags: libc::c_int, set: u64) -> Result<(), Errno> {
    let attributes = Attributes {
        set,
        clear: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is zero-terminated, and the structure is a live local whose size is told.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

//! Closing places of a running cell, or closing them to writing, by mounts over them that are taken off again: a child
//! joins the cell's user and mount namespaces and puts them there. What was open before stays open, and so does the
//! directory that a program works in. The child allocates nothing and takes no lock. Not here: which places.

use super::report::{self, Failure, Reports, Stage};
use super::view::{attribute_tree, beneath, filesystem, put};
use super::{Cell, fork, reap_helper};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::thread::ThreadNameSpaceType;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Something laid over a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// Relative to the view's root, without a leading slash.
    pub at: CString,
    pub with: With,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum With {
    /// What is there.
    Same(Without),
    /// Nothing, as a file or a directory, whichever is there. `open`: what stays to be seen in it.
    Nothing {
        directory_mode: CString,
        file_mode: u32,
        open: Vec<Open>,
    },
}

/// What is not to be done any more with what stays to be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without {
    pub writing: bool,
    pub executing: bool,
}

impl Without {
    fn attributes(self) -> MountAttrFlags {
        let mut all = MountAttrFlags::empty();
        all.set(MountAttrFlags::MOUNT_ATTR_RDONLY, self.writing);
        all.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, self.executing);
        all
    }
}

/// A name within a covered directory that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Relative to the view's root, as [`Cover::at`].
    pub at: CString,
    /// Relative to the cover, those above first: the directories that it needs.
    pub parents: Vec<CString>,
    /// Relative to the cover.
    pub name: CString,
    pub without: Without,
}

/// A cover that is there: goes when the cell does, or by [`Cell::cover`].
#[derive(Debug)]
pub struct Covered {
    tree: OwnedFd,
    /// Its place: the directory, and the name in it.
    directory: CString,
    name: CString,
}

impl Covered {
    fn new(tree: OwnedFd, at: &CStr) -> Covered {
        let at = at.to_bytes();
        let (directory, name) = match at.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => at.split_at(slash),
            None => (b".".as_slice(), at),
        };
        let name = name.strip_prefix(b"/").unwrap_or(name);
        let text = |bytes: &[u8]| CString::new(bytes).unwrap_or_default(); // a part of one
        Covered {
            tree,
            directory: text(directory),
            name: text(name),
        }
    }
}

/// More names than this stay closed with what is around them.
const MOST_OPEN: usize = 64;

impl Cell {
    /// Takes off what was laid over places, the last first, and lays these over theirs, in order. What becomes of each is
    /// told; a place that is not there is ENOENT.
    ///
    /// # Errors
    /// The cell cannot be entered: nothing was done.
    pub fn cover(
        &self,
        lift: &[Covered],
        covers: &[Cover],
    ) -> Result<Vec<Result<Covered, Failure>>, Failure> {
        let kernel = |error: io::Error| Failure::new(Stage::Prepare, &error);
        let (reports, report_end) = report::pair().map_err(kernel)?;
        // SAFETY: the child runs `coverer` alone, which allocates nothing and takes no lock.
        let forked = unsafe { fork(0, || coverer(self, report_end.as_fd(), lift, covers)) };
        let child = forked.map_err(kernel)?;
        drop(report_end);
        let entered = reports.fd_or_failure().map(drop);
        let told = covers.iter().map(|cover| {
            let tree = reports.fd_or_failure()?;
            Ok(Covered::new(tree, &cover.at))
        });
        let told = entered.map(|()| told.collect());
        reap_helper(child);
        told
    }
}

fn coverer(cell: &Cell, reports: BorrowedFd<'_>, lift: &[Covered], covers: &[Cover]) {
    let kinds = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
    // As a program that is started later joins; it is seen by no process of the cell.
    if let Err(errno) = rustix::thread::move_into_thread_name_spaces(cell.init.as_fd(), kinds) {
        return Reports::tell_failure(reports, &Failure::at(Stage::Enter)(errno));
    }
    // New files are as they are made.
    rustix::process::umask(Mode::empty());
    for covered in lift.iter().rev() {
        let _ = take_off(covered); // an error: it went with one that it lay on
    }
    if let Err(errno) = rustix::process::chdir(c"/") {
        return Reports::tell_failure(reports, &Failure::at(Stage::Enter)(errno));
    }
    // It is in.
    if Reports::tell_fd(reports, reports).is_err() {
        return;
    }
    for (index, cover) in covers.iter().enumerate() {
        match lay(cover, index) {
            Ok(tree) => {
                if Reports::tell_fd(reports, tree.as_fd()).is_err() {
                    return;
                }
            }
            Err(failure) => Reports::tell_failure(reports, &failure),
        }
    }
}

/// By itself, as its place may lead to another that lies over it. A file cannot be worked in: it is looked up by its name,
/// which nobody can give to another while something lies over it (rename(2), EBUSY).
fn take_off(covered: &Covered) -> Result<(), Errno> {
    let gone = |name: &CStr| {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        rustix::mount::unmount(name, flags)
    };
    match rustix::process::fchdir(&covered.tree) {
        Ok(()) => gone(c"."),
        Err(Errno::NOTDIR) => {
            rustix::process::chdir(c"/")?;
            rustix::process::fchdir(at(&covered.directory)?)?;
            let there = rustix::fs::statat(CWD, &covered.name, AtFlags::SYMLINK_NOFOLLOW)?;
            let own = rustix::fs::fstat(&covered.tree)?;
            match (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) {
                true => gone(&covered.name),
                false => Err(Errno::NOENT),
            }
        }
        Err(errno) => Err(errno),
    }
}

fn lay(cover: &Cover, index: usize) -> Result<OwnedFd, Failure> {
    let place = Failure::step(Stage::Place, index);
    let mounting = Failure::step(Stage::Mount, index);
    match &cover.with {
        With::Same(without) => {
            let tree = copy(&cover.at).map_err(place)?;
            attribute_tree(&tree, without.attributes()).map_err(mounting)?;
            put(&tree, &cover.at, index)?;
            Ok(tree)
        }
        With::Nothing {
            directory_mode,
            file_mode,
            open,
        } => {
            let there = at(&cover.at).map_err(place)?;
            let stat = rustix::fs::fstat(&there).map_err(&mounting)?;
            let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
            if kind != rustix::fs::FileType::Directory {
                let file = nothing(*file_mode).map_err(mounting)?;
                put(&file, &cover.at, index)?;
                return Ok(file);
            }
            // What stays is had before it is covered.
            let mut kept: [Option<OwnedFd>; MOST_OPEN] = [const { None }; MOST_OPEN];
            for (open, slot) in open.iter().zip(&mut kept) {
                *slot = copy(&open.at).ok(); // it may have gone
            }
            let empty = filesystem(c"tmpfs", &[(c"mode", directory_mode)], SEALED);
            let empty = empty.map_err(&mounting)?;
            for (open, slot) in open.iter().zip(&kept) {
                if let Some(tree) = slot {
                    stand_in(&empty, open, tree).map_err(&mounting)?;
                }
            }
            attribute_tree(&empty, MountAttrFlags::MOUNT_ATTR_RDONLY).map_err(&mounting)?;
            put(&empty, &cover.at, index)?;
            for (open, slot) in open.iter().zip(&kept) {
                let Some(tree) = slot else { continue };
                attribute_tree(tree, open.without.attributes()).map_err(&mounting)?;
                let path = OFlags::PATH | OFlags::CLOEXEC;
                let name = open.name.as_c_str();
                let stands = rustix::fs::openat2(&empty, name, path, Mode::empty(), beneath());
                let stands = stands.map_err(&mounting)?;
                let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH
                    | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
                rustix::mount::move_mount(tree, c"", &stands, c"", flags).map_err(&mounting)?;
            }
            Ok(empty)
        }
    }
}

const SEALED: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

fn at(place: &CStr) -> Result<OwnedFd, Errno> {
    let path = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, place, path, Mode::empty(), beneath())
}

fn copy(place: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(at(place)?, c"", flags)
}

/// An empty file of this mode.
fn nothing(mode: u32) -> Result<OwnedFd, Errno> {
    let empty = filesystem(c"tmpfs", &[(c"mode", c"0700")], SEALED)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(&empty, c"nothing", flags, Mode::from_raw_mode(mode))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let file = rustix::mount::open_tree(&empty, c"nothing", flags)?;
    attribute_tree(&file, SEALED | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    Ok(file)
}

/// Something of the same kind for a tree to be put on.
fn stand_in(empty: &OwnedFd, open: &Open, tree: &OwnedFd) -> Result<(), Errno> {
    let made = |result: Result<(), Errno>| match result {
        Err(Errno::EXIST) => Ok(()),
        result => result,
    };
    let mode = Mode::from_raw_mode(0o555);
    for parent in &open.parents {
        made(rustix::fs::mkdirat(empty, parent.as_c_str(), mode))?;
    }
    let name = open.name.as_c_str();
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode);
    if kind == rustix::fs::FileType::Directory {
        return made(rustix::fs::mkdirat(empty, name, mode));
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(empty, name, flags, Mode::from_raw_mode(0o444)).map(drop)
}

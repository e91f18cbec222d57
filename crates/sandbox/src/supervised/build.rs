//! From a plan (namespace/plan.rs) to a table of mounts: the same steps that a kernel would mount, as descriptors and
//! directories of the room's own. Not in it: what the steps mean (spec/policy P4 to P13).

use super::resolve::{join, last_name, parent};
use super::room::temporary_of;
use super::view::{Kind, Mount, View, c_string, flag};
use kumiko_linux::cell::{Failure, Source, Stage, Step};
use kumiko_linux::supervise::Errno;
use kumiko_linux::supervise::calls::{self, FileKind};
use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where POSIX has shared memory (shm_overview(7)), without its first slash: it stays in memory here too.
const SHARED_MEMORY: &[u8] = b"dev/shm";

/// Makes the table in `scratch`, a directory that is the room's own and empty.
pub(super) fn build(steps: &[Step], scratch: &Path) -> Result<View, Failure> {
    let mut builder = Builder {
        view: View::new(),
        scratch: scratch.to_path_buf(),
        made: 0,
    };
    let root = builder.own_directory(0o755).map_err(at(Stage::Root, 0))?;
    builder
        .mount(b"/".to_vec(), &root, Rights::none())
        .map_err(at(Stage::Root, 0))?;
    let made_in = builder.own_directory(0o755).map_err(at(Stage::Root, 0))?;
    builder.view.set_made_in(made_in);
    for (index, step) in steps.iter().enumerate() {
        builder.step(step, index)?;
    }
    builder.close_scratch().map_err(at(Stage::Root, 0))?;
    Ok(builder.view)
}

fn at(stage: Stage, index: usize) -> impl Fn(Errno) -> Failure {
    move |Errno(errno)| Failure {
        stage,
        index,
        errno,
    }
}

struct Builder {
    view: View,
    scratch: PathBuf,
    made: usize,
}

#[derive(Clone, Copy)]
struct Rights {
    writable: bool,
    devices: bool,
    kind: Kind,
    blank: bool,
}

impl Rights {
    fn none() -> Rights {
        Rights {
            writable: false,
            devices: false,
            kind: Kind::Tree,
            blank: false,
        }
    }
}

impl Builder {
    fn step(&mut self, step: &Step, index: usize) -> Result<(), Failure> {
        let in_place = at(Stage::Place, index);
        let mounting = at(Stage::Mount, index);
        let none = Rights::none();
        match step {
            Step::Directory { at, mode } => self
                .make(at, |parent, name| {
                    calls::make_directory(parent, name, *mode)
                })
                .map_err(in_place),
            Step::File { at, mode } => self
                .make(at, |parent, name| {
                    const REGULAR: u32 = 0o100_000;
                    calls::make_node(parent, name, REGULAR | *mode, 0)
                })
                .map_err(in_place),
            Step::Link { at, target } => self
                .make(at, |parent, name| calls::make_link(target, parent, name))
                .map_err(in_place),
            Step::Tree {
                at: place,
                source,
                writable,
                devices,
            } => {
                let root = open_source(source, index)?;
                let rights = Rights {
                    writable: *writable,
                    devices: *devices,
                    ..none
                };
                self.put(place, root, rights, index)
            }
            Step::Blank {
                at: place,
                directory,
                mode,
            } => {
                let path = self.own(*directory, *mode).map_err(&mounting)?;
                let root = open_path(&path).map_err(&mounting)?;
                self.put(
                    place,
                    root,
                    Rights {
                        blank: true,
                        ..none
                    },
                    index,
                )
            }
            Step::Temporary { at: place, .. } => {
                let path = match place.to_bytes() {
                    SHARED_MEMORY => self.own_directory(0o1777),
                    _ => {
                        let path = temporary_of(&self.scratch).join(self.made.to_string());
                        self.made += 1;
                        make_own(&path, true, 0o1777).map(|()| path)
                    }
                };
                let path = path.map_err(&mounting)?;
                let root = open_path(&path).map_err(&mounting)?;
                self.put(
                    place,
                    root,
                    Rights {
                        writable: true,
                        ..none
                    },
                    index,
                )
            }
            Step::Seal { at } => {
                self.view.seal(&join(b"/", at.to_bytes()));
                Ok(())
            }
            Step::Processes {
                at: place,
                writable,
            } => {
                let list = self.own_directory(0o755).map_err(&mounting)?;
                let root = open_path(Path::new("/proc")).map_err(&mounting)?;
                let rights = Rights {
                    writable: *writable,
                    kind: Kind::Processes,
                    ..none
                };
                self.put(place, root, rights, index)?;
                self.view.also_known_as(
                    &join(b"/", place.to_bytes()),
                    list.as_os_str().as_bytes().to_vec(),
                );
                self.view.set_list(list);
                Ok(())
            }
            Step::Terminals { at: place } => {
                let list = self.own_directory(0o755).map_err(&mounting)?;
                let _ = fs::write(list.join("ptmx"), "");
                let root = open_path(&list).map_err(&mounting)?;
                let rights = Rights {
                    devices: true,
                    kind: Kind::Terminals,
                    ..none
                };
                self.put(place, root, rights, index)?;
                self.view
                    .also_known_as(&join(b"/", place.to_bytes()), b"/dev/pts".to_vec());
                self.view.set_terminal_list(list);
                Ok(())
            }
        }
    }

    /// A name in what is mounted so far, in a directory that is ours.
    fn make(
        &self,
        at: &CStr,
        make: impl Fn(std::os::fd::BorrowedFd<'_>, &CStr) -> Result<i64, Errno>,
    ) -> Result<(), Errno> {
        let place = join(b"/", at.to_bytes());
        let (mount, rest) = self.view.mount_of(parent(&place))?;
        let directory = mount.open(rest, flag::PATH | flag::DIRECTORY, 0)?;
        make(directory.as_fd(), &c_string(last_name(&place))?).map(drop)
    }

    /// Lays something over a place that is there: a file over a file, a directory over a directory.
    fn put(
        &mut self,
        at_place: &CStr,
        root: OwnedFd,
        rights: Rights,
        index: usize,
    ) -> Result<(), Failure> {
        let in_place = at(Stage::Place, index);
        let place = join(b"/", at_place.to_bytes());
        let (mount, rest) = self.view.mount_of(&place).map_err(&in_place)?;
        let under = mount
            .open(rest, flag::PATH | flag::NOFOLLOW, 0)
            .map_err(&in_place)?;
        let under = calls::about(under.as_fd()).map_err(&in_place)?.kind();
        let directory =
            calls::about(root.as_fd()).map_err(&in_place)?.kind() == FileKind::Directory;
        if under == FileKind::Link {
            return Err(in_place(Errno::ELOOP));
        }
        if directory != (under == FileKind::Directory) {
            return Err(in_place(Errno::ENOTDIR));
        }
        self.mount_root(place, root, rights)
            .map_err(at(Stage::Mount, index))
    }

    fn mount(&mut self, place: Vec<u8>, path: &Path, rights: Rights) -> Result<(), Errno> {
        let root = open_path(path)?;
        self.mount_root(place, root, rights)
    }

    fn mount_root(&mut self, place: Vec<u8>, root: OwnedFd, rights: Rights) -> Result<(), Errno> {
        let about = calls::about(root.as_fd())?;
        let real = calls::read_link(&calls::own_path(root.as_fd()))?;
        self.view.add(Mount {
            at: place,
            real,
            root,
            directory: about.kind() == FileKind::Directory,
            writable: rights.writable,
            devices: rights.devices,
            kind: rights.kind,
            blank: rights.blank,
        });
        Ok(())
    }

    fn own_directory(&mut self, mode: u32) -> Result<PathBuf, Errno> {
        self.own(true, mode)
    }

    fn own(&mut self, directory: bool, mode: u32) -> Result<PathBuf, Errno> {
        let path = self.scratch.join(self.made.to_string());
        self.made += 1;
        make_own(&path, directory, mode)?;
        Ok(path)
    }

    /// Where a shown tree has the scratch in it, guests must not come by it.
    fn close_scratch(&mut self) -> Result<(), Errno> {
        for own in [self.scratch.clone(), temporary_of(&self.scratch)] {
            while let Some(place) = self.view.place_of(own.as_os_str().as_bytes()) {
                let path = self.own_directory(0)?;
                self.mount(
                    place,
                    &path,
                    Rights {
                        blank: true,
                        ..Rights::none()
                    },
                )?;
            }
        }
        Ok(())
    }
}

fn make_own(path: &Path, directory: bool, mode: u32) -> Result<(), Errno> {
    let made = if directory {
        fs::DirBuilder::new().mode(0o700).create(path)
    } else {
        fs::write(path, "")
    };
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))?;
    Ok(())
}

/// Removes a room's own directories, what is closed in them and what guests closed too.
pub(super) fn remove(scratch: &Path) {
    for own in [temporary_of(scratch), scratch.to_path_buf()] {
        remove_all(&own);
    }
}

fn remove_all(scratch: &Path) {
    if let Ok(entries) = fs::read_dir(scratch) {
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
            }
        }
    }
    if fs::remove_dir_all(scratch).is_err() && scratch.exists() {
        open_up(scratch, kumiko_linux::dir::MAX_DEPTH);
        let _ = fs::remove_dir_all(scratch);
    }
}

fn open_up(directory: &Path, depth: usize) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path(), depth - 1);
        }
    }
}

fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    calls::open_host(&c_string(path.as_os_str().as_bytes())?, flag::PATH)
}

fn open_source(source: &Source, index: usize) -> Result<OwnedFd, Failure> {
    let root = calls::open_host(&source.root, flag::PATH).map_err(at(Stage::Real, index))?;
    if source.beneath.is_empty() {
        return Ok(root);
    }
    let found = calls::open_beneath(
        root.as_fd(),
        &source.beneath,
        flag::PATH | flag::NOFOLLOW,
        0,
    );
    let found = found.map_err(|errno| match errno {
        Errno::ELOOP => at(Stage::Link, index)(errno),
        errno => at(Stage::Real, index)(errno),
    })?;
    match calls::about(found.as_fd()) {
        Ok(about) if about.kind() == FileKind::Link => Err(at(Stage::Link, index)(Errno::ELOOP)),
        Ok(_) => Ok(found),
        Err(errno) => Err(at(Stage::Real, index)(errno)),
    }
}

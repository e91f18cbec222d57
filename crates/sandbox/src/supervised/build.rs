//! From a plan (namespace/plan.rs) to a table of mounts: the same steps that a kernel would mount, as descriptors and
//! directories of the room's own. Not in it: what the steps mean (spec/policy P4 to P13).

use super::resolve::{join, last_name, parent};
use super::room::temporary_of;
use super::view::{Kind, Mount, View, c_string, flag};
use kumiko_linux::cell::{Failure, Source, Stage, Step};
use kumiko_linux::supervise::Errno;
use kumiko_linux::supervise::calls::{self, FileKind};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where POSIX has shared memory (shm_overview(7)), without its first slash: it stays in memory here too.
const SHARED_MEMORY: &[u8] = b"dev/shm";

/// Makes the table in `scratch`, a directory that is the room's own and empty.
pub(super) fn build(steps: &[Step], scratch: &Path) -> Result<View, Failure> {
    let mut builder = Builder {
        view: View::new(),
        scratch: scratch.to_path_buf(),
        made: 0,
        scaffold: HashMap::new(),
    };
    let root = builder.own(true, 0o755).map_err(at(Stage::Root, 0))?;
    builder.mount(b"/".to_vec(), root, Rights::none());
    let made_in = builder.own_path(true, 0o755).map_err(at(Stage::Root, 0))?;
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
    /// What was made in our own root so far, where nobody else makes anything: is it a directory?
    scaffold: HashMap<Vec<u8>, bool>,
}

/// What is to be mounted, and what is known of it.
struct Found {
    root: OwnedFd,
    real: Vec<u8>,
    kind: FileKind,
}

impl Found {
    /// Something of the host, by a descriptor of it.
    fn of(root: OwnedFd) -> Result<Found, Errno> {
        Ok(Found {
            real: calls::read_link(&calls::own_path(root.as_fd()))?,
            kind: calls::about(root.as_fd())?.kind(),
            root,
        })
    }
}

#[derive(Clone, Copy)]
struct Rights {
    writable: bool,
    devices: bool,
    execute: bool,
    kind: Kind,
    blank: bool,
}

impl Rights {
    fn none() -> Rights {
        Rights {
            writable: false,
            devices: false,
            execute: true,
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
                .make(at, Some(true), |parent, name| {
                    calls::make_directory(parent, name, *mode)
                })
                .map_err(in_place),
            Step::File { at, mode } => self
                .make(at, Some(false), |parent, name| {
                    const REGULAR: u32 = 0o100_000;
                    calls::make_node(parent, name, REGULAR | *mode, 0)
                })
                .map_err(in_place),
            Step::Link { at, target } => {
                let make =
                    |parent: BorrowedFd<'_>, name: &CStr| calls::make_link(target, parent, name);
                self.make(at, None, make).map_err(in_place)?;
                let place = join(b"/", at.to_bytes());
                if self
                    .view
                    .mount_of(&place)
                    .is_ok_and(|(mount, _)| self.is_scaffold(mount))
                {
                    self.view.add_link(place, target.to_bytes());
                }
                Ok(())
            }
            Step::Tree {
                at: place,
                source,
                writable,
                devices,
                execute,
            } => {
                let root = open_source(source, index)?;
                let rights = Rights {
                    writable: *writable,
                    devices: *devices,
                    execute: *execute,
                    ..none
                };
                self.put(place, Found::of(root).map_err(mounting)?, rights, index)
            }
            Step::Blank {
                at: place,
                directory,
                mode,
            } => {
                let blank = self.own(*directory, *mode).map_err(mounting)?;
                let rights = Rights {
                    blank: true,
                    ..none
                };
                self.put(place, blank, rights, index)
            }
            Step::Temporary {
                at: place, execute, ..
            } => {
                let temporary = match place.to_bytes() {
                    SHARED_MEMORY => self.own(true, 0o1777),
                    _ => {
                        let path = temporary_of(&self.scratch).join(self.made.to_string());
                        self.made += 1;
                        make_own(&path, true, 0o1777).and_then(|()| own_found(&path, true))
                    }
                };
                let rights = Rights {
                    writable: true,
                    execute: *execute,
                    ..none
                };
                self.put(place, temporary.map_err(mounting)?, rights, index)
            }
            Step::Seal { at } => {
                self.view.seal(&join(b"/", at.to_bytes()));
                Ok(())
            }
            Step::Processes {
                at: place,
                writable,
            } => {
                let list = self.own_path(true, 0o755).map_err(&mounting)?;
                let root = open_path(Path::new("/proc")).and_then(Found::of);
                let rights = Rights {
                    writable: *writable,
                    kind: Kind::Processes,
                    ..none
                };
                self.put(place, root.map_err(mounting)?, rights, index)?;
                self.view.also_known_as(
                    &join(b"/", place.to_bytes()),
                    list.as_os_str().as_bytes().to_vec(),
                );
                self.view.set_list(list);
                Ok(())
            }
            Step::Terminals { at: place } => {
                let list = self.own_path(true, 0o755).map_err(&mounting)?;
                let _ = fs::write(list.join("ptmx"), "");
                let root = own_found(&list, true).map_err(mounting)?;
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

    /// Our own root, which a policy may show something else over.
    fn is_scaffold(&self, mount: &Mount) -> bool {
        let real = Path::new(OsStr::from_bytes(&mount.real));
        mount.at == b"/" && real.parent() == Some(&self.scratch)
    }

    /// A name in what is mounted so far, in a directory that is ours. `directory`: what it is to be, None for a link.
    fn make(
        &mut self,
        at: &CStr,
        directory: Option<bool>,
        make: impl Fn(BorrowedFd<'_>, &CStr) -> Result<i64, Errno>,
    ) -> Result<(), Errno> {
        let place = join(b"/", at.to_bytes());
        let (mount, rest) = self.view.mount_of(&place)?;
        if self.is_scaffold(mount) {
            // Nothing is put below a link: these words lead where they say.
            make(mount.root(), &c_string(rest)?)?;
            self.scaffold
                .extend(directory.map(|directory| (place, directory)));
            return Ok(());
        }
        let (mount, rest) = self.view.mount_of(parent(&place))?;
        let above = mount.open(rest, flag::PATH | flag::DIRECTORY, 0)?;
        make(above.as_fd(), &c_string(last_name(&place))?).map(drop)
    }

    /// Lays something over a place that is there: a file over a file, a directory over a directory.
    fn put(
        &mut self,
        at_place: &CStr,
        found: Found,
        rights: Rights,
        index: usize,
    ) -> Result<(), Failure> {
        let in_place = at(Stage::Place, index);
        let place = join(b"/", at_place.to_bytes());
        let (mount, rest) = self.view.mount_of(&place).map_err(&in_place)?;
        let known = self
            .scaffold
            .get(&place)
            .filter(|_| self.is_scaffold(mount));
        let under = match known {
            Some(true) => FileKind::Directory,
            Some(false) => FileKind::Regular,
            None => {
                let under = mount.open(rest, flag::PATH | flag::NOFOLLOW, 0);
                let about = under.and_then(|under| calls::about(under.as_fd()));
                about.map_err(&in_place)?.kind()
            }
        };
        if under == FileKind::Link {
            return Err(in_place(Errno::ELOOP));
        }
        if (found.kind == FileKind::Directory) != (under == FileKind::Directory) {
            return Err(in_place(Errno::ENOTDIR));
        }
        self.mount(place, found, rights);
        Ok(())
    }

    fn mount(&mut self, place: Vec<u8>, found: Found, rights: Rights) {
        self.view.add(Mount {
            at: place,
            real: found.real,
            root: found.root,
            directory: found.kind == FileKind::Directory,
            writable: rights.writable,
            devices: rights.devices,
            execute: rights.execute,
            kind: rights.kind,
            blank: rights.blank,
        });
    }

    fn own(&mut self, directory: bool, mode: u32) -> Result<Found, Errno> {
        own_found(&self.own_path(directory, mode)?, directory)
    }

    fn own_path(&mut self, directory: bool, mode: u32) -> Result<PathBuf, Errno> {
        let path = self.scratch.join(self.made.to_string());
        self.made += 1;
        make_own(&path, directory, mode)?;
        Ok(path)
    }

    /// Where a shown tree has the scratch in it, guests must not come by it.
    fn close_scratch(&mut self) -> Result<(), Errno> {
        for own in [self.scratch.clone(), temporary_of(&self.scratch)] {
            while let Some(place) = self.view.place_of(own.as_os_str().as_bytes()) {
                let blank = self.own(true, 0)?;
                self.mount(
                    place,
                    blank,
                    Rights {
                        blank: true,
                        ..Rights::none()
                    },
                );
            }
        }
        Ok(())
    }
}

/// What is ours, whose path is as the kernel names it.
fn own_found(path: &Path, directory: bool) -> Result<Found, Errno> {
    Ok(Found {
        root: open_path(path)?,
        real: path.as_os_str().as_bytes().to_vec(),
        kind: if directory {
            FileKind::Directory
        } else {
            FileKind::Regular
        },
    })
}

/// The supervisor, for whom this is, lacks no bit of a mode (umask).
fn make_own(path: &Path, directory: bool, mode: u32) -> Result<(), Errno> {
    let made = if directory {
        fs::DirBuilder::new().mode(mode).create(path)
    } else {
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(path);
        file.map(drop)
    };
    Ok(made?)
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

//! The view of guests that run, made anew from the one that they began with, as the policies leave it by now (P78).
//! What cannot be made is closed. Not in it: what the policies leave (kumiko-policy), who sees it when (shown.rs).

use super::resolve::join;
use super::view::{Kind, Mount, View, c_string, flag};
use crate::namespace::holds_at;
use kumiko_linux::supervise::Errno;
use kumiko_linux::supervise::calls::{self, FileKind};
use kumiko_policy::{Followed, GuestPath, Now};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

impl View {
    /// Fails for no mount: one that cannot be had any more is not there.
    pub(super) fn followed(&self, followed: &Followed) -> View {
        let mut view = self.another();
        view.set_reach(followed.reach.clone());
        for mount in self.mounts() {
            let now = holds_for(mount, followed);
            if let Ok(mount) = self.again(mount, now, followed) {
                view.add(mount);
            }
        }
        for (path, now) in &followed.paths {
            let at = path.as_str().as_bytes();
            if self.mounts().all(|mount| mount.at != at) {
                // What is not there can be neither closed nor shown.
                if let Ok(Some(mount)) = self.within(at, *now, followed) {
                    view.add(mount);
                }
            }
        }
        for (at, real) in self.other_names() {
            view.also_known_as(at, real.to_vec());
        }
        view
    }

    fn again(&self, mount: &Mount, now: Now, followed: &Followed) -> Result<Mount, Errno> {
        if now.is_closed() {
            return self.closed(&mount.at, mount.directory, now, followed);
        }
        Ok(Mount {
            at: mount.at.clone(),
            real: mount.real.clone(),
            root: mount.root.try_clone()?,
            writable: mount.writable && now.writes(),
            execute: mount.execute && now.executes(),
            ..*mount
        })
    }

    /// A place within a mount, which becomes one of its own.
    fn within(&self, at: &[u8], now: Now, followed: &Followed) -> Result<Option<Mount>, Errno> {
        let (mount, rest) = self.mount_of(at)?;
        if mount.kind != Kind::Tree || mount.at == b"/" || mount.blank {
            return Ok(None); // nothing of the host is there
        }
        let root = mount.open(rest, flag::PATH | flag::NOFOLLOW, 0)?;
        let kind = calls::about(root.as_fd())?.kind();
        if kind == FileKind::Link {
            return Ok(None); // what it leads to has a name of its own
        }
        let directory = kind == FileKind::Directory;
        if now.is_closed() {
            return self.closed(at, directory, now, followed).map(Some);
        }
        Ok(Some(Mount {
            at: at.to_vec(),
            real: join(&mount.real, rest),
            root,
            directory,
            writable: mount.writable && now.writes(),
            execute: mount.execute && now.executes(),
            ..*mount
        }))
    }

    fn closed(
        &self,
        at: &[u8],
        directory: bool,
        now: Now,
        followed: &Followed,
    ) -> Result<Mount, Errno> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let own = self.made_in().join(format!("closed-{number}"));
        let mut mode = match (now, directory) {
            (Now::Denied, _) => 0,
            (_, true) => 0o555,
            (_, false) => 0o444,
        };
        if directory {
            fs::create_dir(&own)?;
            for (name, is_directory) in self.open_below(at, followed) {
                // The way to them is open.
                mode = 0o555;
                stand_in(&own.join(name), is_directory)?;
            }
        } else {
            fs::write(&own, "")?;
        }
        fs::set_permissions(&own, fs::Permissions::from_mode(mode))?;
        let real = own.as_os_str().as_bytes();
        Ok(Mount {
            at: at.to_vec(),
            real: real.to_vec(),
            root: calls::open_host(&c_string(real)?, flag::PATH)?,
            directory,
            writable: false,
            devices: false,
            execute: true,
            kind: Kind::Tree,
            blank: true,
        })
    }

    /// Names below a closed place that stay open, and whether they are directories.
    fn open_below(&self, at: &[u8], followed: &Followed) -> Vec<(PathBuf, bool)> {
        let paths = followed.paths.iter().filter(|(_, now)| !now.is_closed());
        let below = paths.filter_map(|(path, _)| {
            let rest = path.as_str().as_bytes().strip_prefix(at)?;
            let rest = rest.strip_prefix(b"/")?;
            let (mount, name) = self.mount_of(path.as_str().as_bytes()).ok()?;
            let handle = mount.open(name, flag::PATH | flag::NOFOLLOW, 0).ok()?;
            let kind = calls::about(handle.as_fd()).ok()?.kind();
            let name = std::ffi::OsStr::from_bytes(rest);
            Some((PathBuf::from(name), kind == FileKind::Directory))
        });
        below.collect()
    }
}

fn stand_in(path: &Path, directory: bool) -> Result<(), Errno> {
    if directory {
        return Ok(fs::create_dir_all(path)?);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(fs::write(path, "")?)
}

fn holds_for(mount: &Mount, followed: &Followed) -> Now {
    if mount.at == b"/" || mount.kind != Kind::Tree || mount.blank {
        return Now::AsBegun;
    }
    let path = std::str::from_utf8(&mount.at).ok();
    match path.and_then(|path| GuestPath::new(path).ok()) {
        Some(path) => holds_at(&path, followed),
        None => Now::Hidden, // no rule has such a name
    }
}

//! What every program of a room is given: the library's code, and the places of the view that it may decide about.

use crate::limits::Inside;
use crate::supervised::view::{Kind, Mount, View};
use kumiko_linux::supervise::calls;
use kumiko_preload::table::{self, ASK, DEVICES, NOT_EXECUTED, WRITABLE};
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

#[derive(Debug)]
pub(crate) struct Contents {
    pub(super) table: Vec<u8>,
}

/// What programs that begin are given: another when the view is another.
#[derive(Debug)]
pub(crate) struct Given {
    now: RwLock<Arc<Contents>>,
    /// Where they keep the network's rate.
    pub(super) inside: Option<Inside>,
}

impl Given {
    pub(crate) fn of(view: &View, inside: Option<Inside>) -> Given {
        Given {
            now: RwLock::new(Arc::new(Contents::of(view))),
            inside,
        }
    }

    /// It stays the same for as long as this is held.
    pub(super) fn now(&self) -> RwLockReadGuard<'_, Arc<Contents>> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self, view: &View) {
        let contents = Arc::new(Contents::of(view));
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = contents;
    }
}

impl Contents {
    pub(crate) fn of(view: &View) -> Contents {
        let made = view.made_in().parent().map(|own| own.to_path_buf());
        let own = |mount: &Mount| {
            made.as_ref().is_some_and(|own| {
                use std::os::unix::ffi::OsStrExt;
                mount.real.starts_with(own.as_os_str().as_bytes())
            })
        };
        // Another account opens no more devices than its own rights and groups let it.
        let root = kumiko_linux::is_root();
        let mounts: Vec<table::Mount> = view
            .mounts()
            .map(|mount| {
                // Our own scaffold shows less than what is laid over it.
                let scaffold = own(mount) && !mount.writable;
                let asked = mount.kind != Kind::Tree || mount.blank || mount.devices || scaffold;
                let flag = |flag, holds| if holds { flag } else { 0 };
                table::Mount {
                    place: mount.at.clone(),
                    real: mount.real.clone(),
                    flags: flag(ASK, asked)
                        | flag(WRITABLE, mount.writable)
                        | flag(NOT_EXECUTED, !mount.execute)
                        | flag(DEVICES, root && !without_devices(mount)),
                }
            })
            .collect();
        // Two paths of one hash: then all is asked for.
        let table = table::make(&mounts).unwrap_or_default();
        Contents { table }
    }
}

/// Is the file system mounted `nodev`?
fn without_devices(mount: &Mount) -> bool {
    const NO_DEVICES: u64 = 4; // ST_NODEV
    calls::mount_flags(mount.root.as_fd()).is_ok_and(|flags| flags & NO_DEVICES != 0)
}

//! The domain of a room's guests: what the kernel's own paths reach, whatever words a guest puts where. What the policy
//! closes within a tree is left out of it name by name, as a domain can only grant.

use super::filter::By;
use super::resolve::join;
use super::view::{Kind, Mount, TERMINALS, View, c_string, flag};
use kumiko_linux::supervise::calls::{self, FileKind};
use kumiko_linux::supervise::domain::{self, Grant, GuestRules};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Deepest closed place that is walked to.
const MOST_PARTS: usize = 64;

/// `terminal`: that of the guest to be started.
pub(super) fn domain(view: &View, by: By, terminal: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    if by == By::Library {
        // To have every open looked at, were it but for what it writes, costs a fifteenth of it.
        return domain::of_signals_alone();
    }
    let mut rules = GuestRules::new()?;
    for mount in view.trees() {
        let execute = mount.execute;
        let grant = match (by, mount.writable) {
            (By::Listener | By::Library, _) if !execute => continue,
            (By::Listener | By::Library, _) => Grant::Execute,
            (By::Tracer, false) => Grant::Read { execute },
            (By::Tracer, true) => Grant::Write { execute },
        };
        // What lies over this tree, and so is not to be reached through it. (What is only not executed is: to leave it out
        // would keep all that is made beside it from being executed, and whoever reads it may execute a copy.)
        let over: Vec<Vec<u8>> = view
            .mounts()
            .filter(|other| !std::ptr::eq(*other, mount))
            .filter_map(|other| {
                let rest = other.at.strip_prefix(mount.at.as_slice())?;
                let rest = if mount.at == b"/" {
                    rest
                } else {
                    rest.strip_prefix(b"/")?
                };
                let real = join(&mount.real, rest);
                let same = real == other.real && other.writable == mount.writable;
                (!rest.is_empty() && !same).then(|| rest.to_vec())
            })
            .collect();
        // Nothing stands in our own root but places for what is put over it.
        let over = if mount.at == b"/" { Vec::new() } else { over };
        grant_around(&mut rules, mount, b"", &over, grant)?;
    }
    if by == By::Tracer {
        for own in [
            view.made_in().to_path_buf(),
            view.list_directory(),
            view.terminal_list().to_path_buf(),
        ] {
            let fd = calls::open_host(&c_string(own.as_os_str().as_bytes())?, flag::PATH)?;
            rules.grant(fd.as_fd(), true, Grant::Read { execute: true })?;
        }
        // /dev/tty is always the guest's own; other terminals it has by descriptor.
        for (path, directory) in [(c"/proc", true), (c"/dev/tty", false), (TERMINALS, false)] {
            if let Ok(fd) = calls::open_host(path, flag::PATH) {
                rules.grant(fd.as_fd(), directory, Grant::Write { execute: true })?;
            }
        }
        if let Some(terminal) = terminal {
            rules.grant(terminal.as_fd(), false, Grant::Write { execute: true })?;
        }
        for device in view
            .mounts()
            .filter(|mount| mount.devices && mount.kind == Kind::Tree)
        {
            rules.grant(
                device.root(),
                device.directory,
                Grant::Write { execute: true },
            )?;
        }
    }
    Ok(rules.finish())
}

/// Grants all of `at` (below the mount's root) but what is over it.
fn grant_around(
    rules: &mut GuestRules,
    mount: &Mount,
    at: &[u8],
    over: &[Vec<u8>],
    grant: Grant,
) -> io::Result<()> {
    let below: Vec<&Vec<u8>> = over.iter().filter(|path| is_below(path, at)).collect();
    if below.is_empty() {
        if at.is_empty() {
            return Ok(rules.grant(mount.root(), mount.directory, grant)?);
        }
        let Ok(fd) = mount.open(at, flag::PATH | flag::NOFOLLOW, 0) else {
            return Ok(());
        };
        let directory =
            calls::about(fd.as_fd()).is_ok_and(|about| about.kind() == FileKind::Directory);
        return Ok(rules.grant(fd.as_fd(), directory, grant)?);
    }
    if at.split(|byte| *byte == b'/').count() > MOST_PARTS {
        return Ok(());
    }
    let directory = mount.open(at, flag::DIRECTORY, 0)?;
    if grant != Grant::Execute {
        rules.grant(directory.as_fd(), true, Grant::List)?;
    }
    let listed = calls::own_path(directory.as_fd());
    let listed = std::ffi::OsStr::from_bytes(listed.as_bytes());
    for entry in fs::read_dir(listed)?.flatten() {
        let name = entry.file_name();
        let path = if at.is_empty() {
            name.as_bytes().to_vec()
        } else {
            join(at, name.as_bytes())
        };
        if below.iter().any(|over| **over == path) || c_string(name.as_bytes()).is_err() {
            continue;
        }
        // What has gone meanwhile needs no grant.
        let _ = grant_around(rules, mount, &path, over, grant);
    }
    Ok(())
}

fn is_below(path: &[u8], at: &[u8]) -> bool {
    if at.is_empty() {
        return true;
    }
    path.strip_prefix(at)
        .is_some_and(|rest| rest.starts_with(b"/") && rest.len() > 1)
}

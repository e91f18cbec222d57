//! A view of the host's files of this process's own, in which a file system that this process answers for (fuse(4)) stands at places
//! that the host need not have. Without root in a user namespace (user_namespaces(7)). Not here: what is answered.

use rustix::fs::CWD;
use rustix::mount::{FsPickFlags, MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::DumpableBehavior;
use rustix::thread::UnshareFlags;
use std::collections::HashSet;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const DEVICE: &str = "/dev/fuse";

/// Takes this process, which has one thread, into namespaces of its own: of mounts, and of users if it is not root. What is mounted from
/// then on nobody else sees.
pub fn enter() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags = UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWUSER, !uid.is_root());
    // SAFETY: no descriptor table is unshared, which is what a caller of this would have to mind.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    if !uid.is_root() {
        let (uid, gid) = (uid.as_raw(), gid.as_raw());
        // The files of a process that is not dumpable belong to root (proc(5)).
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", private)?)
}

/// Mounts a file system at a directory; its requests are read from the file that is returned, which never waits, and answered there.
pub fn mount_answered(at: &Path) -> io::Result<File> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(DEVICE)?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},allow_other,default_permissions",
        device.as_raw_fd(),
        uid.as_raw(),
        gid.as_raw()
    );
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = CString::new(options)?;
    rustix::mount::mount("kumiko", at, "fuse", flags, options.as_c_str())?;
    Ok(device)
}

/// Has the kernel forget all of a file system that nothing uses just now, by the path of something that is mounted of it; what was written in
/// mapped memory goes there first. It may wait for whoever answers for it.
pub fn forget_unused(mounted: &Path) -> io::Result<()> {
    // A file system of which something is set anew keeps nothing of before (reconfigure_super in the kernel's fs/super.c).
    let picked = rustix::mount::fspick(CWD, mounted, FsPickFlags::FSPICK_CLOEXEC)?;
    Ok(rustix::mount::fsconfig_reconfigure(picked)?)
}

/// Nothing more is looked up by this path; what was bound from there stays.
pub fn unmount(at: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(at, UnmountFlags::DETACH)?)
}

/// Has directories stand at other places as well, which the host need not have: absolute paths without links. `spare`: an empty
/// directory, for the moment.
pub fn show(trees: &[(PathBuf, PathBuf)], spare: &Path) -> io::Result<()> {
    // Directories that are not the host's, in which there is room for more.
    let mut own: HashSet<PathBuf> = HashSet::new();
    for (tree, at) in trees {
        let named = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("{} cannot stand here: {error}", at.display()),
            )
        };
        let there = at.ancestors().find(|path| path.is_dir());
        let there = there.ok_or(ErrorKind::NotFound)?;
        if there != at {
            if !own.contains(there) {
                extend(there, spare).map_err(named)?;
            }
            fs::create_dir_all(at).map_err(named)?;
            let made = at.ancestors().skip(1);
            own.extend(
                made.take_while(|path| path.starts_with(there))
                    .map(Path::to_owned),
            );
        }
        rustix::mount::mount_bind(tree, at).map_err(|error| named(error.into()))?;
    }
    Ok(())
}

/// Puts a directory in the place of `there` that holds all that it holds, and has room for more.
fn extend(there: &Path, spare: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", spare, "tmpfs", flags, c"mode=0755")?;
    let extended = fill(there, spare).and_then(|()| {
        fs::set_permissions(spare, fs::metadata(there)?.permissions())?;
        match there.parent() {
            Some(_) => Ok(rustix::mount::mount_move(spare, there)?),
            None => enter_root(spare),
        }
    });
    extended.inspect_err(|_| drop(unmount(spare)))
}

/// The same names, each of what it is there.
fn fill(there: &Path, new: &Path) -> io::Result<()> {
    for entry in fs::read_dir(there)? {
        let entry = entry?;
        let (from, to) = (entry.path(), new.join(entry.file_name()));
        let kind = entry.file_type()?;
        let bound = if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)
        } else if kind.is_dir() {
            fs::create_dir(&to).and_then(|()| bind(&from, &to))
        } else if kind.is_file() || kind.is_socket() || kind.is_fifo() {
            File::create(&to).and_then(|_| bind(&from, &to))
        } else {
            Ok(())
        };
        match bound {
            // It went meanwhile, as things in /tmp do.
            Err(error) if error.kind() == ErrorKind::NotFound => (),
            other => other?,
        }
    }
    Ok(())
}

/// Whether programs can be run from there, as far as mounts say.
pub fn can_execute(path: &Path) -> io::Result<bool> {
    let flags = rustix::fs::statvfs(path)?.f_flag;
    Ok(!flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// Has a file or directory, with what is mounted in it, stand at another place as well.
pub fn bind(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount_bind_recursive(from, to)?)
}

/// Makes a mounted directory this process's root, in the place of the one before.
fn enter_root(new: &Path) -> io::Result<()> {
    rustix::process::chdir(new)?;
    rustix::process::pivot_root(".", ".")?;
    // The old root lies on the new one.
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

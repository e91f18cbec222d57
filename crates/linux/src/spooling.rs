//! What a spool needs of the kernel: moving bytes from pipes into files without seeing them, giving back and
//! reserving room, one owner at a time.

use rustix::fs::{AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A pipe, reading end first; both ends close on exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// The number by which the kernel names a pipe, or any file of its filesystem (st_ino).
pub fn number(file: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_ino)
}

/// Bytes that lie in a pipe, and nobody has read (FIONREAD). Of either end.
pub fn unread(pipe: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(pipe)?)
}

/// Makes this pipe hold more; returns what it holds now. Refused over /proc/sys/fs/pipe-max-size, and over
/// pipe-user-pages-soft of the account (pipe(7)).
pub fn set_pipe_size(pipe: impl AsFd, bytes: usize) -> io::Result<usize> {
    Ok(rustix::pipe::fcntl_setpipe_size(pipe, bytes)?)
}

/// Sets or clears O_NONBLOCK, of all that share this open file.
pub fn set_nonblocking(fd: impl AsFd, on: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(&fd)?;
    flags.set(OFlags::NONBLOCK, on);
    Ok(rustix::fs::fcntl_setfl(fd, flags)?)
}

/// Moves up to `most` bytes from a pipe to `offset` of a file; 0 at the pipe's end, `WouldBlock` when it is empty.
pub fn splice(pipe: impl AsFd, file: impl AsFd, offset: u64, most: usize) -> io::Result<usize> {
    let mut at = offset;
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    Ok(rustix::pipe::splice(
        pipe,
        None,
        file,
        Some(&mut at),
        most,
        flags,
    )?)
}

/// Bytes of a file from `offset`, up to `most`; fewer where the file ends.
pub fn read_at(file: impl AsFd, offset: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(most);
    while bytes.len() < most {
        let at = offset + bytes.len() as u64;
        match rustix::io::pread(&file, rustix::buffer::spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Frees the blocks of a part of a file; its size stays and the part reads as zeros (fallocate(2)).
pub fn punch_hole(file: impl AsFd, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, offset, length)?)
}

/// Makes sure that the first `length` bytes of a file can be written later without the disk being full.
/// Where the filesystem cannot promise that, nothing happens.
pub fn reserve(file: impl AsFd, length: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, length) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        done => Ok(done?),
    }
}

/// As `reserve`, and the file's size stays what it is.
pub fn reserve_ahead(file: impl AsFd, length: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        done => Ok(done?),
    }
}

/// What an account without privileges can still write to the filesystem of `path`, bytes (statvfs(3)).
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Offset of the first byte that is not in a hole; None: the file holds no data (SEEK_DATA, lseek(2)). The file's own
/// offset is moved.
pub fn first_data(file: impl AsFd) -> io::Result<Option<u64>> {
    Ok(next_data(file, 0)?.map(|data| data.start))
}

/// The next bytes from `at` on that are in no hole; None: there are none. The file's own offset is moved.
pub fn next_data(file: impl AsFd, at: u64) -> io::Result<Option<Range<u64>>> {
    let seek = |to| match rustix::fs::seek(&file, to) {
        Ok(offset) => Ok(Some(offset)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error),
    };
    let Some(start) = seek(SeekFrom::Data(at))? else {
        return Ok(None);
    };
    let end = seek(SeekFrom::Hole(start))?;
    Ok(end.map(|end| start..end)) // it may be shorter by now
}

/// Whether somebody holds the exclusive lock of an open file. Askers do not hinder each other; for a moment they hinder
/// who would take it.
pub fn is_locked(file: impl AsFd) -> io::Result<bool> {
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared) {
        Ok(()) => rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock)
            .map(|()| false)
            .map_err(io::Error::from),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Takes the exclusive lock of an open file (flock(2)) if it is free; false: another has it.
pub fn try_lock(file: impl AsFd) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes the exclusive lock of an open file, when whoever has it gives it back.
pub fn wait_for_lock(file: impl AsFd) -> io::Result<()> {
    loop {
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Gives a lock back at once. Closing the file does so only when no child that is just being started has it too.
pub fn unlock(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::Unlock)?)
}

/// Whether this is a socket that accepts connections (SO_ACCEPTCONN, socket(7)).
pub fn is_listening(fd: impl AsFd) -> bool {
    rustix::net::sockopt::socket_acceptconn(fd).unwrap_or(false)
}

/// Puts a file of the account's own in the place of one; whoever looks sees the old one or all of the new.
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut private = std::fs::OpenOptions::new();
    private.create(true).truncate(true).write(true).mode(0o600);
    private.open(&new)?.write_all(bytes)?;
    std::fs::rename(&new, path)
}

/// A file that has no name yet, in a folder: gone when it is closed without [`give_name`], however this process ends.
///
/// # Errors
/// `Unsupported`: the folder's file system has none such.
pub fn nameless(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666))?;
    Ok(file.into())
}

/// Gives it its first name, which nothing else may have.
pub fn give_name(file: impl AsFd, path: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::fs::linkat(
        CWD,
        own,
        CWD,
        path,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

/// The effective group id of this process.
pub fn own_gid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The effective user id of this process.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

//! Calls that are answered here: files opened to be read, and what is asked about them, by paths without links and `..`
//! in trees that are shown. What the kernel says then is believed where it is success or absence; all else is asked for.

use crate::buffer::{Buffer, FRONT, LARGE, Room, SMALL};
use crate::data;
use crate::gate::{ASK, Call, Done, HOW_BYTES, call, how, nr, path_how, told};
use crate::layout::{ARRIVAL_TABLE_BYTES, DATA, HARMLESS, HARMLESS_COUNT, TABLE};
use crate::memory::{self, Kept};
use crate::patch;
use crate::table::{self, AMBIGUOUS, Index, Slot, Table};

const AT_CWD: u64 = -100_i64 as u64;
const AT_NOFOLLOW: u64 = 0x100;
const AT_EFFECTIVE: u64 = 0x200;
const AT_NO_AUTOMOUNT: u64 = 0x800;
const AT_EMPTY_PATH: u64 = 0x1000;
/// AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC.
const AT_SYNC: u64 = 0x6000;
const MAY_EXECUTE: u64 = 1;
const MAY_WRITE: u64 = 2;

const ENOENT: i64 = -2;
const ENOTDIR: i64 = -20;
const EFAULT: i64 = -14;

#[unsafe(no_mangle)]
extern "C" fn kumiko_answer(asked: &Call) -> Done {
    match asked.number {
        nr::OPENAT => open(asked.rdi, asked.rsi, asked.rdx),
        nr::OPEN => open(AT_CWD, asked.rdi, asked.rsi),
        nr::NEWFSTATAT => stat(asked.rdi, asked.rsi, asked.rdx, asked.r10),
        nr::STAT => stat(AT_CWD, asked.rdi, asked.rsi, 0),
        nr::LSTAT => stat(AT_CWD, asked.rdi, asked.rsi, AT_NOFOLLOW),
        nr::STATX => statx(asked),
        nr::ACCESS => access(AT_CWD, asked.rdi, asked.rsi, 0),
        nr::FACCESSAT => access(asked.rdi, asked.rsi, asked.rdx, 0),
        nr::FACCESSAT2 => access(asked.rdi, asked.rsi, asked.rdx, asked.r10),
        nr::READLINK => read_link(AT_CWD, asked.rdi, asked.rsi, asked.rdx),
        nr::READLINKAT => read_link(asked.rdi, asked.rsi, asked.rdx, asked.r10),
        nr::MMAP => patch::map(asked),
        // The rest of what is turned to us.
        _ => data::moved(asked),
    }
}

fn places() -> Table<'static> {
    // SAFETY: written before the program began, and not since: the pages are sealed.
    let bytes = unsafe {
        let count = ((DATA as usize + ARRIVAL_TABLE_BYTES) as *const usize).read();
        core::slice::from_raw_parts(TABLE as *const u8, count)
    };
    Table::new(bytes)
}

/// A path of the guest as the host has it, in a buffer: it ends with a zero, and begins at a descriptor if it does not
/// begin at the root.
struct Real {
    directory: u64,
    at: u64,
    slot: Slot,
    /// Of its place.
    hash: u64,
}

/// Does something with the path on the host, or asks.
#[inline(always)]
fn with_real(directory: u64, path: u64, act: impl Fn(&Real) -> Done) -> Done {
    let mut room: Room<SMALL> = Room::uninit();
    let mut buffer = Buffer::new(&mut room);
    match find(directory, path, &mut buffer) {
        Some(real) => act(&real),
        None if buffer.is_full() => with_long(directory, path, &act),
        None => ASK,
    }
}

#[inline(never)]
fn with_long(directory: u64, path: u64, act: &dyn Fn(&Real) -> Done) -> Done {
    let mut room: Room<LARGE> = Room::uninit();
    let mut buffer = Buffer::new(&mut room);
    find(directory, path, &mut buffer).map_or(ASK, |real| act(&real))
}

#[inline]
fn find(directory: u64, path: u64, buffer: &mut Buffer) -> Option<Real> {
    memory::text(path, buffer)?;
    match buffer.get(FRONT..FRONT + 1)? {
        b"/" => on_host(buffer, FRONT),
        b"\0" => None,
        _ => beneath(directory, buffer),
    }
}

/// A relative path: where nothing is mounted on its way, the kernel takes it from where it begins, which may be renamed
/// meanwhile.
fn beneath(directory: u64, buffer: &mut Buffer) -> Option<Real> {
    let (begin, slot) = before(directory, buffer)?;
    let found = places().deepest(Index::Place, buffer.path(begin)?)?;
    if found.slot != slot {
        return on_host(buffer, begin);
    }
    (slot.flags & table::ASK == 0).then(|| Real {
        directory,
        at: buffer.address(FRONT),
        slot,
        hash: found.hash,
    })
}

/// Puts the place of a directory and a slash before a relative path; tells where it begins now, and the slot of the
/// directory.
fn before(directory: u64, buffer: &mut Buffer) -> Option<(usize, Slot)> {
    let mut name = [0u8; FRONT];
    let count = if directory as u32 == AT_CWD as u32 {
        // SAFETY: the kernel writes into the buffer, and no more than it holds.
        let told = unsafe {
            call(
                nr::GETCWD,
                [name.as_mut_ptr() as u64, FRONT as u64, 0, 0, 0, 0],
            )
        };
        usize::try_from(told).ok()?.checked_sub(1)? // its zero
    } else {
        link_of_descriptor(directory as u32, &mut name)?
    };
    let real = name.get(..count)?;
    // A directory that is gone has a name that is no path.
    if real.ends_with(b" (deleted)") {
        return None;
    }
    let table = places();
    let found = table.deepest(Index::Real, real)?;
    if found.slot.flags & AMBIGUOUS != 0 {
        return None;
    }
    let place = table.place(&found.slot)?;
    let rest = real.get(found.named..)?;
    let begin = FRONT.checked_sub(1 + rest.len() + place.len())?;
    buffer.put(FRONT - 1, b"/")?;
    buffer.put(FRONT - 1 - rest.len(), rest)?;
    buffer.put(begin, place)?;
    // What lies over it by now is another directory than that which the descriptor is.
    let whole = table.deepest(Index::Place, buffer.get(begin..FRONT)?)?;
    table
        .is_same(&whole.slot, &found.slot)
        .then_some((begin, whole.slot))
}

fn link_of_descriptor(number: u32, name: &mut [u8]) -> Option<usize> {
    const DIRECTORY: &[u8] = b"/proc/self/fd/";
    let mut path = [0u8; DIRECTORY.len() + 11];
    for (to, from) in path.iter_mut().zip(DIRECTORY) {
        *to = *from;
    }
    let mut digits = 1;
    let mut left = number;
    while left > 9 {
        left /= 10;
        digits += 1;
    }
    left = number;
    for digit in (0..digits).rev() {
        *path.get_mut(DIRECTORY.len() + digit)? = b'0' + (left % 10) as u8;
        left /= 10;
    }
    // SAFETY: a zero-terminated path; the kernel writes no more than the buffer holds.
    let told = unsafe {
        call(
            nr::READLINKAT,
            [
                AT_CWD,
                path.as_ptr() as u64,
                name.as_mut_ptr() as u64,
                name.len() as u64,
                0,
                0,
            ],
        )
    };
    usize::try_from(told)
        .ok()
        .filter(|count| *count < name.len())
}

fn put(buffer: &mut [u8], at: usize, bytes: &[u8]) -> Option<()> {
    let room = buffer.get_mut(at..at.checked_add(bytes.len())?)?;
    for (to, from) in room.iter_mut().zip(bytes) {
        *to = *from;
    }
    Some(())
}

/// In the place of what names a mount goes its path on the host.
#[inline(always)]
fn on_host(buffer: &mut Buffer, begin: usize) -> Option<Real> {
    let table = places();
    let found = table.deepest(Index::Place, buffer.path(begin)?)?;
    if found.slot.flags & table::ASK != 0 {
        return None;
    }
    let real = table.real(&found.slot)?;
    let begin = (begin + found.named).checked_sub(real.len())?;
    buffer.put(begin, real)?;
    if buffer.path(begin)?.is_empty() {
        return None; // the root of the host itself
    }
    Some(Real {
        directory: AT_CWD,
        at: buffer.address(begin),
        slot: found.slot,
        hash: found.hash,
    })
}

fn open_how(real: &Real, how: u64) -> i64 {
    // SAFETY: a zero-terminated path, and one of the structures that there are.
    unsafe { call(nr::OPENAT2, [real.directory, real.at, how, HOW_BYTES, 0, 0]) }
}

fn close(fd: i64) {
    // SAFETY: opened by us a moment ago.
    unsafe { call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
}

fn believed(result: i64) -> Done {
    match result {
        0.. | ENOENT | ENOTDIR => told(result),
        _ => ASK,
    }
}

fn open(directory: u64, path: u64, flags: u64) -> Done {
    // An int: the kernel does not look at the upper half.
    let Some(how) = how(flags & 0xffff_ffff) else {
        return ASK;
    };
    with_real(directory, path, |real| {
        let fd = open_how(real, how);
        if fd >= 0 && real.slot.flags & table::DEVICES != 0 && !is_harmless(real, fd) {
            close(fd);
            return ASK;
        }
        believed(fd)
    })
}

/// It is no device. What guests cannot write to stays what it was.
fn is_harmless(real: &Real, fd: i64) -> bool {
    const KNOWN: Kept = Kept(HARMLESS, HARMLESS_COUNT);
    let stays = real.slot.flags & table::WRITABLE == 0;
    if stays && KNOWN.has(real.hash) {
        return true;
    }
    let harmless = !is_device(fd);
    if stays && harmless {
        KNOWN.keep(real.hash);
    }
    harmless
}

/// To copy nothing from a file that is open to be read to itself is refused for what it is before anything else
/// (generic_file_rw_checks of the kernel): a third of what fstat(2) costs. What is neither file nor directory is then
/// looked at.
fn is_device(fd: i64) -> bool {
    const EBADF: i64 = -9;
    const EISDIR: i64 = -21;
    let fd = fd as u64;
    // SAFETY: nothing is copied.
    let refused = unsafe { call(nr::COPY_FILE_RANGE, [fd, 0, fd, 0, 0, 0]) };
    !matches!(refused, EBADF | EISDIR) && has_mode_of_device(fd)
}

/// By the mode in struct stat.
#[inline(never)]
fn has_mode_of_device(fd: u64) -> bool {
    const STAT_WORDS: usize = 18;
    const MODE_WORD: usize = 3;
    const KIND: u64 = 0o170_000;
    let mut stat = [0u64; STAT_WORDS];
    // SAFETY: the kernel fills in its 144 bytes.
    let told = unsafe { call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    let mode = stat.get(MODE_WORD).copied().unwrap_or(0) & KIND;
    told != 0 || mode == 0o020_000 || mode == 0o060_000
}

/// Opens for the path alone, and does something with that.
#[inline(always)]
fn by_path(directory: u64, path: u64, follow: bool, act: impl Fn(u64, &Slot) -> Done) -> Done {
    with_real(directory, path, |real| {
        match open_how(real, path_how(follow)) {
            fd @ 0.. => {
                let done = act(fd as u64, &real.slot);
                close(fd);
                done
            }
            failed => believed(failed),
        }
    })
}

fn told_about(result: i64) -> Done {
    match result {
        0.. | EFAULT => told(result),
        _ => ASK,
    }
}

fn stat(directory: u64, path: u64, to: u64, flags: u64) -> Done {
    let flags = flags & 0xffff_ffff;
    // SAFETY: the kernel writes where the guest wants it, and says so where it cannot.
    let by_descriptor = |fd: u64| unsafe { call(nr::FSTAT, [fd, to, 0, 0, 0, 0]) };
    if flags & !(AT_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH) != 0 {
        return ASK;
    }
    if flags & AT_EMPTY_PATH != 0 && (directory as i32) >= 0 && memory::is_empty(path) {
        return told(by_descriptor(directory));
    }
    by_path(directory, path, flags & AT_NOFOLLOW == 0, |fd, _| {
        told_about(by_descriptor(fd))
    })
}

fn statx(asked: &Call) -> Done {
    let flags = asked.rdx & 0xffff_ffff;
    if flags & !(AT_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_SYNC) != 0 {
        return ASK;
    }
    let (mask, to) = (asked.r10, asked.r8);
    let by_descriptor = |fd: u64| {
        let flags = flags & AT_SYNC | AT_EMPTY_PATH;
        // SAFETY: as above; the path is empty.
        unsafe { call(nr::STATX, [fd, c"".as_ptr() as u64, flags, mask, to, 0]) }
    };
    let (directory, path) = (asked.rdi, asked.rsi);
    if flags & AT_EMPTY_PATH != 0 && (directory as i32) >= 0 && memory::is_empty(path) {
        return told_about(by_descriptor(directory));
    }
    by_path(directory, path, flags & AT_NOFOLLOW == 0, |fd, _| {
        told_about(by_descriptor(fd))
    })
}

fn access(directory: u64, path: u64, mode: u64, flags: u64) -> Done {
    let flags = flags & 0xffff_ffff;
    if flags & !(AT_NOFOLLOW | AT_EFFECTIVE) != 0 || mode & 0xffff_ffff > 7 {
        return ASK;
    }
    by_path(directory, path, flags & AT_NOFOLLOW == 0, |fd, slot| {
        if mode & MAY_WRITE != 0 && slot.flags & table::WRITABLE == 0 {
            return ASK;
        }
        if mode & MAY_EXECUTE != 0 && slot.flags & table::NOT_EXECUTED != 0 {
            return ASK;
        }
        let flags = flags & AT_EFFECTIVE | AT_EMPTY_PATH;
        // SAFETY: the path is empty.
        told_about(unsafe { call(nr::FACCESSAT2, [fd, c"".as_ptr() as u64, mode, flags, 0, 0]) })
    })
}

fn read_link(directory: u64, path: u64, to: u64, most: u64) -> Done {
    if (most as i32) <= 0 {
        return ASK;
    }
    by_path(directory, path, false, |fd, _| {
        // SAFETY: the path is empty; the kernel writes where the guest wants it.
        told_about(unsafe { call(nr::READLINKAT, [fd, c"".as_ptr() as u64, to, most, 0, 0]) })
    })
}

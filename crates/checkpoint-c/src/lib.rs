//! libkumikockpt (ring 3): checkpoints of a program that names its memory and says where it is safe to go on from, as
//! bindings/c/kumiko/kumiko_ckpt.h has it (spec/checkpoint). Any job may link it; `kumiko rpc gen --checkpoint` links it to routines.
//! This file is where pointers come in; `library` is what is done, `folder` what lies on the disk.
//!
//! Not here: threads and sockets of the program, which are its own to bring back.

mod files;
mod folder;
mod leaving;
mod library;

pub use files::Stream;
pub use folder::{Bad, Folder, Found, NoFolder};
pub use library::{BadState, BeginError, Every, FAILURES, Library, Memory, NotResumed};

use kumiko_checkpoint::MARK;
use std::ffi::{CStr, OsStr, c_char, c_int, c_ulong, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Memory by address. It is the program's duty, said in the header, that what it names stays there, and that nobody writes to it while
/// it is at a safe point.
#[derive(Clone, Debug)]
pub struct Own(());

impl Own {
    /// # Safety
    /// Every range that is named to the library is writable memory of this process until [`Library::end`], and nobody else writes to it
    /// during `point` and `resume`.
    pub unsafe fn new() -> Own {
        Own(())
    }
}

impl Memory for Own {
    fn copy(&self, range: Range<usize>, to: &mut Vec<u8>) {
        // SAFETY: the library asks for parts of named ranges alone, which `Own::new`'s caller keeps readable.
        let bytes = unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) };
        to.extend_from_slice(bytes);
    }

    fn save(&self, range: Range<usize>, to: &File, at: u64) -> io::Result<()> {
        let (mut start, mut at) = (range.start, at);
        while start < range.end {
            let most = range.end - start;
            let offset = libc::off_t::try_from(at).map_err(io::Error::other)?;
            // SAFETY: the kernel reads parts of named ranges alone, which `Own::new`'s caller keeps readable; whatever is written there
            // meanwhile, it is bytes.
            let wrote =
                unsafe { libc::pwrite(to.as_raw_fd(), start as *const c_void, most, offset) };
            match usize::try_from(wrote) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(wrote) => (start, at) = (start + wrote, at + wrote as u64),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the library puts blocks into named ranges alone, whose ends the head's check holds them to; `Own::new`'s caller keeps
        // them writable.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    }
}

#[derive(Debug)]
enum One {
    /// It was not asked yet whether there is a folder.
    New,
    Off,
    On(Box<Library<Own>>),
}

static ONE: Mutex<One> = Mutex::new(One::New);

fn one() -> MutexGuard<'static, One> {
    let mut one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*one, One::New) {
        *one = match std::env::var_os("KUMIKO_CHECKPOINT") {
            Some(path) => begin(&PathBuf::from(path)),
            None => One::Off,
        };
    }
    one
}

fn begin(path: &Path) -> One {
    // A site looks for it in a program.
    std::hint::black_box(&MARK);
    let failures = std::env::var(kumiko_checkpoint::FAILURES_VARIABLE).ok();
    let failures = failures.and_then(|text| text.parse().ok());
    let failures = failures.map_or(FAILURES, Duration::from_secs);
    // SAFETY: the header asks it of the program.
    let memory = unsafe { Own::new() };
    match Library::begin(path, failures, memory) {
        Ok(library) => {
            leaving::begin(path);
            One::On(Box::new(library))
        }
        Err(error) => {
            eprintln!("kumiko checkpoint: none are made: {error}");
            One::Off
        }
    }
}

fn sound<T>(told: Result<T, NotResumed>) -> T {
    told.unwrap_or_else(|error| {
        eprintln!("kumiko checkpoint: {error}");
        std::process::abort()
    })
}

/// A `FILE` of C's.
#[derive(Debug)]
struct Stdio(*mut libc::FILE);

// SAFETY: C locks a stream for each that uses it, from whichever thread.
unsafe impl Send for Stdio {}

impl Stream for Stdio {
    fn flush(&self) -> io::Result<()> {
        // SAFETY: the header asks the program to leave the stream open.
        match unsafe { libc::fflush(self.0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn place(&self, at: u64) -> io::Result<()> {
        let at = libc::off_t::try_from(at).map_err(io::Error::other)?;
        // SAFETY: as above.
        match unsafe { libc::fseeko(self.0, at, libc::SEEK_SET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// What fopen(3) opens with. None: that is no mode.
fn flags_of(mode: &[u8]) -> Option<c_int> {
    let both = mode.contains(&b'+');
    let or = |flags| if both { libc::O_RDWR } else { flags };
    Some(match mode.first()? {
        b'r' => or(libc::O_RDONLY),
        b'w' => or(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        b'a' => or(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    })
}

/// # Safety
/// `name` and `path` are texts, or null.
unsafe fn opened(name: *const c_char, path: *const c_char, flags: c_int) -> io::Result<File> {
    if name.is_null() || path.is_null() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the caller gives texts that end with a zero.
    let [name, path] = [name, path].map(|text| unsafe { CStr::from_ptr(text) });
    let (name, path) = (
        name.to_string_lossy(),
        Path::new(OsStr::from_bytes(path.to_bytes())),
    );
    match &mut *one() {
        One::On(library) => library.open(&name, path, flags),
        _ => files::open(path, flags),
    }
}

/// As C tells what went wrong; stderr has the words where there is no number.
fn tell(path: *const c_char, error: &io::Error) {
    if error.raw_os_error().is_none() && !path.is_null() {
        // SAFETY: it was a text for `opened`.
        let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
        eprintln!("kumiko checkpoint: {path} cannot be opened: {error}");
    }
    // SAFETY: it is this thread's own number.
    unsafe { *libc::__errno_location() = error.raw_os_error().unwrap_or(libc::EINVAL) };
}

/// # Safety
/// As the header says: `path` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_ckpt_begin(path: *const c_char) -> c_int {
    if path.is_null() {
        return -1;
    }
    // SAFETY: the caller gives a text that ends with a zero.
    let path = unsafe { CStr::from_ptr(path) };
    let mut one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let One::On(library) = &mut *one {
        library.end();
    }
    *one = begin(Path::new(OsStr::from_bytes(path.to_bytes())));
    match *one {
        One::On(_) => 0,
        _ => -1,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn kumiko_ckpt_end() {
    let mut one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let One::On(library) = &mut *one {
        library.end();
    }
    *one = One::Off;
    leaving::end();
}

/// # Safety
/// As the header says: `name` is a text; `memory` stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_ckpt_state(
    name: *const c_char,
    memory: *mut c_void,
    bytes: usize,
) -> c_int {
    let start = memory as usize;
    let Some(end) = start.checked_add(bytes) else {
        return -1;
    };
    if name.is_null() || (memory.is_null() && bytes > 0) {
        return -1;
    }
    // SAFETY: the caller gives a text that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    match &mut *one() {
        One::On(library) => match library.state(&name, start..end) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("kumiko checkpoint: {name} cannot be named: {error}");
                -1
            }
        },
        _ => 0,
    }
}

/// # Safety
/// As the header says: `name` and `path` are texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_ckpt_open(
    name: *const c_char,
    path: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's duty.
    match unsafe { opened(name, path, flags) } {
        Ok(file) => file.into_raw_fd(),
        Err(error) => {
            tell(path, &error);
            -1
        }
    }
}

/// # Safety
/// As the header says: `name`, `path` and `mode` are texts; the stream stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiko_ckpt_fopen(
    name: *const c_char,
    path: *const c_char,
    mode: *const c_char,
) -> *mut libc::FILE {
    let opened = || {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        if mode.is_null() {
            return Err(invalid());
        }
        // SAFETY: the caller gives a text that ends with a zero.
        let flags = flags_of(unsafe { CStr::from_ptr(mode) }.to_bytes()).ok_or_else(invalid)?;
        // SAFETY: the caller's duty.
        let file = unsafe { opened(name, path, flags) }?;
        // SAFETY: an open file, which is the stream's from here on.
        let stream = unsafe { libc::fdopen(file.as_raw_fd(), mode) };
        if stream.is_null() {
            return Err(io::Error::last_os_error());
        }
        let _ = file.into_raw_fd();
        if let One::On(library) = &mut *one() {
            // SAFETY: `opened` has refused NULL; the caller gives a text that ends with a zero.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            library.stream(&name, Box::new(Stdio(stream)));
        }
        Ok(stream)
    };
    opened().unwrap_or_else(|error| {
        tell(path, &error);
        std::ptr::null_mut()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn kumiko_ckpt_resumed() -> c_ulong {
    match &mut *one() {
        One::On(library) => sound(library.resume()),
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn kumiko_ckpt_point() {
    if let One::On(library) = &mut *one() {
        sound(library.point());
        if leaving::is_to_leave() {
            library.leave();
            leaving::leave();
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn kumiko_ckpt_every(seconds: f64) {
    if let One::On(library) = &mut *one() {
        library.every(match Duration::try_from_secs_f64(seconds) {
            Ok(every) => Every::Fixed(every),
            Err(_) => Every::Measured,
        });
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn kumiko_ckpt_frozen_s() -> f64 {
    match &*one() {
        One::On(library) => library.frozen().as_secs_f64(),
        _ => 0.0,
    }
}

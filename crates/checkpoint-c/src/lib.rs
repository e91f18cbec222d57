//! libkumikockpt (ring 3): checkpoints of a program that names its memory and says where it is safe to go on from, as
//! bindings/c/kumiko/kumiko_ckpt.h has it (spec/checkpoint). Any job may link it; `kumiko rpc gen --checkpoint` links it to routines.
//! This file is where pointers come in; `library` is what is done, `folder` what lies on the disk.
//!
//! Not here: open files, threads and sockets of the program, which are its own to bring back.

mod folder;
mod library;

pub use folder::{Bad, Folder, Found, NoFolder};
pub use library::{BadState, BeginError, Every, FAILURES, Library, Memory};

use kumiko_checkpoint::MARK;
use std::ffi::{CStr, OsStr, c_char, c_int, c_ulong, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Memory by address. It is the program's duty, said in the header, that what it names stays there, and that nobody writes to it while
/// it is at a safe point.
#[derive(Debug)]
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
        Ok(library) => One::On(Box::new(library)),
        Err(error) => {
            eprintln!("kumiko checkpoint: none are made: {error}");
            One::Off
        }
    }
}

fn sound<T>(told: Result<T, Bad>) -> T {
    told.unwrap_or_else(|error| {
        eprintln!("kumiko checkpoint: {error}: it changed while it was read");
        std::process::abort()
    })
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

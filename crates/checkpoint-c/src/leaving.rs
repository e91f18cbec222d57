//! A program that is to leave its host: it is told by SIGTERM when `leave` is in its folder, makes a checkpoint at its next safe point, and
//! ends then (spec/checkpoint, K38). Without that file, or a folder, SIGTERM ends it at once, as it does any program.

use kumiko_checkpoint::LEAVE;
use std::ffi::{CStr, c_int};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

const NONE: c_int = -1;
/// For who is not ended by the signal: the first process of a namespace.
const ENDED_BY_SIGNAL: c_int = 128 + libc::SIGTERM;

/// Its folder's descriptor; or none.
static FOLDER: AtomicI32 = AtomicI32::new(NONE);
/// The process that makes checkpoints: what it forks has its handler, and makes none.
static PROCESS: AtomicI32 = AtomicI32::new(NONE);
static LEAVES: AtomicBool = AtomicBool::new(false);

/// From here on it is asked whether this folder says so. What was said to an earlier start is over.
pub fn begin(folder: &Path) {
    end();
    // Mostly there is none; a directory of that name stays, and is meant to.
    let _ = std::fs::remove_file(folder.join(LEAVE.to_string_lossy().as_ref()));
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(folder);
    if let Ok(opened) = opened {
        FOLDER.store(opened.into_raw_fd(), SeqCst);
        // SAFETY: it cannot fail.
        PROCESS.store(unsafe { libc::getpid() }, SeqCst);
        listen();
    }
}

pub fn end() {
    LEAVES.store(false, SeqCst);
    let before = FOLDER.swap(NONE, SeqCst);
    if before != NONE {
        // SAFETY: it was opened by `begin`, and who swaps it out is the only one that has it.
        drop(unsafe { OwnedFd::from_raw_fd(before) });
    }
}

pub fn is_to_leave() -> bool {
    LEAVES.load(SeqCst)
}

/// It has its last checkpoint.
pub fn leave() -> ! {
    // SAFETY: the default action, and a signal to this process; `_exit` runs nothing of it.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::raise(libc::SIGTERM);
        libc::_exit(ENDED_BY_SIGNAL)
    }
}

/// Of a program that sees to SIGTERM itself, or ignores it, nothing is changed.
fn listen() {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: both are filled in, by zeros or by the kernel; `told` does what a handler may (signal-safety(7)).
    unsafe {
        if libc::sigaction(libc::SIGTERM, std::ptr::null(), before.as_mut_ptr()) != 0
            || before.assume_init_ref().sa_sigaction != libc::SIG_DFL
        {
            return;
        }
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = told as extern "C" fn(c_int) as usize;
        ours.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTERM, &ours, std::ptr::null_mut());
    }
}

extern "C" fn told(_signal: c_int) {
    let leave: &CStr = LEAVE;
    // SAFETY: system calls that a handler may make; the number of the last error is the interrupted code's, and put back.
    unsafe {
        let errno = *libc::__errno_location();
        let folder = FOLDER.load(SeqCst);
        let is_it = folder != NONE && PROCESS.load(SeqCst) == libc::getpid();
        if is_it && libc::faccessat(folder, leave.as_ptr(), libc::F_OK, 0) == 0 {
            LEAVES.store(true, SeqCst);
        } else {
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            libc::raise(libc::SIGTERM); // held back until this returns
        }
        *libc::__errno_location() = errno;
    }
}

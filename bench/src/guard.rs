//! What was started is ended and what was made is removed: when its owner is done, when a row fails, and on Ctrl-C.
//! The undoing is kept in one list of the process, so that the thread that hears the signal can do it for all.
//! Not here: what a site needs to be ended (`site`).

use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by whoever brings something up, and for ever by whoever ends everything: what is halfway up can be neither used
/// nor ended.
static STARTING: Mutex<()> = Mutex::new(());

type Undo = Box<dyn FnOnce() + Send>;

static PENDING: Mutex<Vec<(u64, Undo)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Undoes its thing when dropped.
#[derive(Debug)]
#[must_use]
pub struct Guard(u64);

pub fn on_end(undo: impl FnOnce() + Send + 'static) -> Guard {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    pending().push((id, Box::new(undo)));
    Guard(id)
}

/// A process that is killed and reaped.
pub fn process(mut child: Child) -> Guard {
    on_end(move || {
        // Already gone is just as well.
        let _ = child.kill();
        let _ = child.wait();
    })
}

impl Drop for Guard {
    fn drop(&mut self) {
        let undo = {
            let mut list = pending();
            list.iter()
                .position(|(id, _)| *id == self.0)
                .map(|at| list.remove(at))
        };
        if let Some((_, undo)) = undo {
            undo();
        }
    }
}

/// Permission to bring something up; kept until it is up and guarded. Never given once everything is being ended.
pub fn starting() -> MutexGuard<'static, ()> {
    lock(&STARTING)
}

/// Returns at once, or never: when everything is being ended, nothing more is measured.
pub fn go_on() {
    drop(starting());
}

/// Everything that is left, the latest first. Nothing is begun after it; the process is expected to exit.
pub fn end_all() {
    std::mem::forget(starting());
    while let Some((_, undo)) = { pending().pop() } {
        undo();
    }
}

fn pending() -> MutexGuard<'static, Vec<(u64, Undo)>> {
    lock(&PENDING)
}

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    // What a panicked holder left behind is still what must be undone.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_dropped_guard_ends_its_process() {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let proc = format!("/proc/{}", child.id());
        let guard = process(child);
        assert!(std::path::Path::new(&proc).exists());
        drop(guard);
        assert!(!std::path::Path::new(&proc).exists());
    }
}

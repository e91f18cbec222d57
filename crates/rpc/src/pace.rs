//! How long it takes to write a block of arguments to a file of the site: a disk that is behind makes writers wait. Not here: blocks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longer than the page cache takes.
const LONG: Duration = Duration::from_millis(2);
/// A disk that made one wait does so again, for a while.
const A_WHILE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Pace {
    waited: Mutex<Option<Instant>>,
}

impl Pace {
    fn waited(&self) -> MutexGuard<'_, Option<Instant>> {
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody had to wait lately.
    pub fn is_quick(&self) -> bool {
        self.waited().is_none_or(|at| at.elapsed() > A_WHILE)
    }

    /// Writes, and sees how long that takes.
    pub fn of<T>(&self, write: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = write();
        if begun.elapsed() > LONG {
            *self.waited() = Some(Instant::now());
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_to_wait_is_not_quick_any_more() {
        let pace = Pace::default();
        assert!(pace.is_quick());
        pace.of(|| std::thread::sleep(LONG));
        assert!(!pace.is_quick());
    }
}

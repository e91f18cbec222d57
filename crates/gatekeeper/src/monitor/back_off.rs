//! How long to wait before a process that ended unasked is started again. A value: time is told.

use std::time::Duration;

/// A process that lived as long did not fail at its start.
const STEADY: Duration = Duration::from_secs(30);
const FIRST: Duration = Duration::from_millis(50);
/// A broken configuration costs one start in so long, and is noticed as mended within it.
const MOST: Duration = Duration::from_secs(30);
/// From here on whoever waits is told that it fails.
const FAILING: u32 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BackOff {
    /// In a row.
    failures: u32,
}

impl BackOff {
    /// Told that it ended after `lived`; says when to start it again.
    pub fn ended(&mut self, lived: Duration) -> Duration {
        if lived >= STEADY {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let doublings = self.failures.saturating_sub(1).min(16);
        (FIRST * 2u32.pow(doublings)).min(MOST)
    }

    pub fn is_failing(&self) -> bool {
        self.failures >= FAILING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_at_its_start_is_started_ever_more_rarely_and_what_lived_at_once() {
        let mut back_off = BackOff::default();
        let waits: Vec<u64> = (0..12)
            .map(|_| back_off.ended(Duration::ZERO).as_millis() as u64)
            .collect();
        assert_eq!(waits[..4], [50, 100, 200, 400]);
        assert_eq!(waits[11], 30_000);
        assert!(back_off.is_failing());
        assert_eq!(back_off.ended(STEADY), FIRST);
        assert!(!back_off.is_failing());
    }
}

//! A rate as a balance: time fills it, use empties it, and who is below nothing has to wait. Pure.

use std::time::Duration;

/// Of anything that is counted: bytes, nanoseconds of a processor.
#[derive(Debug)]
pub struct Bucket {
    /// A second; None: no limit.
    rate: Option<u64>,
    burst: Duration,
    balance: i128,
}

impl Bucket {
    /// `burst`: what may be used at once after a rest, in time at the rate.
    pub fn new(burst: Duration) -> Bucket {
        Bucket {
            rate: None,
            burst,
            balance: 0,
        }
    }

    /// What was used too much under another rate is forgotten: it was within that one.
    pub fn set(&mut self, rate: Option<u64>) {
        if rate != self.rate {
            self.rate = rate;
            self.balance = 0;
        }
    }

    pub fn pass(&mut self, time: Duration, used: u64) {
        let Some(rate) = self.rate else { return };
        let most = amount(rate, self.burst);
        self.balance = (self.balance + amount(rate, time)).min(most) - i128::from(used);
    }

    pub fn is_over(&self) -> bool {
        self.rate.is_some() && self.balance < 0
    }
}

fn amount(rate: u64, time: Duration) -> i128 {
    let nanoseconds = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    i128::from(rate).saturating_mul(nanoseconds) / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn over_time_no_more_is_used_than_the_rate() {
        let mut bucket = Bucket::new(50 * MS);
        bucket.set(Some(1_000_000));
        let (mut used, mut time) = (0, 0);
        // A greedy one uses 3,000 a millisecond whenever it may.
        for _ in 0..10_000 {
            let uses = if bucket.is_over() { 0 } else { 3_000 * 20 };
            bucket.pass(20 * MS, uses);
            used += uses;
            time += 20;
        }
        let rate = used * 1000 / time;
        assert!((999_000..=1_001_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_rest_is_worth_a_burst_and_no_more() {
        let mut bucket = Bucket::new(50 * MS);
        bucket.set(Some(1_000));
        bucket.pass(Duration::from_secs(3600), 50);
        assert!(!bucket.is_over());
        bucket.pass(Duration::ZERO, 1);
        assert!(bucket.is_over());
        bucket.pass(MS, 0);
        assert!(!bucket.is_over());
    }

    #[test]
    fn without_a_rate_nobody_waits() {
        let mut bucket = Bucket::new(50 * MS);
        bucket.pass(MS, u64::MAX);
        assert!(!bucket.is_over());
        bucket.set(Some(1));
        bucket.pass(MS, u64::MAX);
        assert!(bucket.is_over());
        bucket.set(None);
        assert!(!bucket.is_over());
    }
}

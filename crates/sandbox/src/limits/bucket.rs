//! A rate as a balance: time fills it, use empties it, and who is below nothing has to wait. Pure.

use std::time::Duration;

/// What is used while the job is not stopped is taken to be that of the last looks: the fastest, fading by half each look.
const FADING: u32 = 2;

/// Of anything that is counted: bytes, nanoseconds of a processor.
#[derive(Debug)]
pub struct Bucket {
    /// A second; None: no limit.
    rate: Option<u64>,
    /// What may be used at once after a rest, in time at the rate.
    rest: Duration,
    /// What was used too much is made up for so far, in time at the rate; more of it is forgotten.
    made_up: Duration,
    balance: i128,
    /// A second, as of late.
    speed: i128,
    recovers: bool,
}

impl Bucket {
    pub fn new(rest: Duration, made_up: Duration) -> Bucket {
        Bucket {
            rate: None,
            rest,
            made_up,
            balance: 0,
            speed: 0,
            recovers: true,
        }
    }

    /// What was used too much under another rate is forgotten: it was within that one.
    pub fn set(&mut self, rate: Option<u64>) {
        if rate != self.rate {
            self.rate = rate;
            self.balance = 0;
        }
    }

    /// `used` within `time`. However long ago it was looked at last, only what is left of both is bounded.
    pub fn pass(&mut self, time: Duration, used: u64) {
        let Some(rate) = self.rate else { return };
        let (used, filled) = (i128::from(used), amount(rate, time));
        let (least, most) = (-amount(rate, self.made_up), amount(rate, self.rest));
        self.balance = (self.balance + filled - used).clamp(least, most);
        self.recovers = used.saturating_mul(2) <= filled;
        let nanoseconds = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX).max(1);
        let now = used.saturating_mul(1_000_000_000) / nanoseconds;
        // Who is stopped shows nothing of how fast it is.
        let fading = if self.is_over() { 1 } else { FADING };
        self.speed = now.max(self.speed / i128::from(fading));
    }

    pub fn is_over(&self) -> bool {
        self.rate.is_some() && self.balance < 0
    }

    /// At the last look it had come up by half of what it could have, at least: nearly nothing was used.
    pub fn recovers(&self) -> bool {
        self.rate.is_none() || self.recovers
    }

    /// What is used a second, as of late: the fastest.
    pub fn speed(&self) -> u64 {
        u64::try_from(self.speed).unwrap_or(u64::MAX)
    }

    /// When it is to be looked at again: who waits may go on then; who uses would be as much below nothing as `slack` at
    /// the rate fills. None: nothing is expected.
    pub fn turns(&self, slack: Duration) -> Option<Duration> {
        let rate = self.rate?;
        let (missing, speed) = match self.is_over() {
            true => (-self.balance, i128::from(rate)),
            false => (
                self.balance + amount(rate, slack),
                self.speed - i128::from(rate),
            ),
        };
        if speed <= 0 {
            return None;
        }
        let nanoseconds = missing.saturating_mul(1_000_000_000) / speed;
        Some(Duration::from_nanos(
            u64::try_from(nanoseconds).unwrap_or(u64::MAX),
        ))
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
    fn over_time_as_much_is_used_as_the_rate_however_seldom_it_is_looked_at() {
        for look in [5, 20, 100, 400] {
            let mut bucket = Bucket::new(500 * MS, Duration::MAX);
            bucket.set(Some(1_000_000));
            let (mut used, mut time) = (0, 0);
            // A greedy one uses 3,000 a millisecond whenever it may.
            while time < 100_000 {
                let uses = if bucket.is_over() { 0 } else { 3_000 * look };
                bucket.pass(look as u32 * MS, uses);
                used += uses;
                time += look;
            }
            let rate = used * 1000 / time;
            assert!((980_000..=1_020_000).contains(&rate), "{look} ms: {rate}");
        }
    }

    #[test]
    fn a_rest_is_worth_its_bound_and_no_more() {
        let mut bucket = Bucket::new(50 * MS, Duration::MAX);
        bucket.set(Some(1_000));
        bucket.pass(Duration::from_secs(3600), 0);
        bucket.pass(Duration::ZERO, 50);
        assert!(!bucket.is_over());
        bucket.pass(Duration::ZERO, 1);
        assert!(bucket.is_over());
        bucket.pass(MS, 0);
        assert!(!bucket.is_over());
    }

    #[test]
    fn who_was_stopped_for_long_is_looked_at_as_soon_as_before() {
        let mut bucket = Bucket::new(50 * MS, 2_000 * MS);
        bucket.set(Some(1_000_000));
        bucket.pass(20 * MS, 100_000_000);
        assert!(bucket.is_over());
        for _ in 0..100 {
            bucket.pass(20 * MS, 0);
        }
        assert!(!bucket.is_over());
        assert!(bucket.turns(10 * MS).is_some_and(|turn| turn < MS));
        // It fades once it may go on.
        for _ in 0..20 {
            bucket.pass(20 * MS, 0);
        }
        assert_eq!(bucket.turns(10 * MS), None);
    }

    #[test]
    fn nobody_waits_for_longer_than_is_made_up_for() {
        let mut bucket = Bucket::new(50 * MS, 2_000 * MS);
        bucket.set(Some(1_000));
        bucket.pass(MS, 1 << 40);
        assert_eq!(bucket.turns(MS), Some(2_000 * MS));
        bucket.pass(2_000 * MS, 0);
        assert!(!bucket.is_over());
    }

    #[test]
    fn it_is_seen_whether_who_has_to_wait_does() {
        let mut bucket = Bucket::new(50 * MS, Duration::MAX);
        bucket.set(Some(1_000));
        bucket.pass(10 * MS, 1_000);
        assert!(bucket.is_over() && !bucket.recovers());
        bucket.pass(10 * MS, 5);
        assert!(bucket.is_over() && bucket.recovers());
        bucket.pass(10 * MS, 6);
        assert!(bucket.is_over() && !bucket.recovers());
    }

    #[test]
    fn without_a_rate_nobody_waits() {
        let mut bucket = Bucket::new(50 * MS, Duration::MAX);
        bucket.pass(MS, u64::MAX);
        assert!(!bucket.is_over() && bucket.turns(MS).is_none());
        bucket.set(Some(1));
        bucket.pass(MS, u64::MAX);
        assert!(bucket.is_over());
        bucket.set(None);
        assert!(!bucket.is_over());
    }

    #[test]
    fn it_is_known_when_one_who_waits_may_go_on_and_one_who_uses_has_to_wait() {
        let mut bucket = Bucket::new(50 * MS, Duration::MAX);
        bucket.set(Some(1_000));
        bucket.pass(10 * MS, 0);
        assert_eq!(bucket.turns(MS), None);
        // 100 in 10 ms: 10,000 a second, nine times as fast as it fills; 90 are missing.
        bucket.pass(10 * MS, 110);
        assert_eq!(bucket.turns(MS), Some(90 * MS));
        bucket.pass(90 * MS, 0);
        assert!(!bucket.is_over());
        // At half the speed that was seen, 5,500: 9 of the balance are there to be used.
        assert_eq!(bucket.turns(9 * MS), Some(2 * MS));
    }
}

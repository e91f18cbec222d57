//! What a job has sent too much of its network rate, or waits to send still, and the rate corrected by it (P52). Pure.

use std::time::Duration;

/// What was sent too little is made good by one part in so many of the rate, so that it is never a burst, and too much by
/// half of it.
const FASTER: i128 = 10;
const SLOWER: i128 = 2;

/// What sockets did since the last correction.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub since: Duration,
    pub paced_bytes: u64,
    /// Which the kernel does not pace, whatever it is told.
    pub first_bytes: u64,
    /// Some wait for their turn.
    pub waits: bool,
}

/// Bytes that may be sent still, at most a second's, or were sent too much.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance(i128);

impl Balance {
    /// The rate that holds now, bytes a second as the one that was set.
    pub fn correct(&mut self, rate: u64, sent: Sent) -> u64 {
        let whole = i128::from(rate);
        let due = i128::from(rate).saturating_mul(sent.since.as_nanos() as i128) / 1_000_000_000;
        let spent = i128::from(sent.paced_bytes) + i128::from(sent.first_bytes).min(whole / FASTER);
        // What nobody wanted to send is no credit: only what waited, since packets are large.
        let most = if sent.waits { whole } else { whole / FASTER };
        self.0 = (self.0.saturating_add(due) - spent).clamp(-whole, most);
        let correction = self.0.clamp(-whole / SLOWER, whole / FASTER);
        u64::try_from(whole + correction).unwrap_or(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(paced_bytes: u64, first_bytes: u64, waits: bool) -> Sent {
        Sent {
            since: Duration::from_millis(200),
            paced_bytes,
            first_bytes,
            waits,
        }
    }

    #[test]
    fn what_was_sent_too_much_is_made_good() {
        let mut balance = Balance::default();
        assert_eq!(balance.correct(1_000, sent(200, 0, true)), 1_000);
        assert_eq!(balance.correct(1_000, sent(500, 0, true)), 700);
        assert_eq!(balance.correct(1_000, sent(9_000, 0, true)), 500);
        let rates: Vec<u64> = (0..6)
            .map(|_| balance.correct(1_000, sent(100, 0, true)))
            .collect();
        assert_eq!(rates, [500, 500, 500, 500, 500, 600]);
    }

    #[test]
    fn what_waited_is_made_good_and_what_nobody_sent_is_not() {
        let mut balance = Balance::default();
        for _ in 0..4 {
            assert_eq!(balance.correct(1_000, sent(0, 0, true)), 1_100);
        }
        assert_eq!(balance.correct(1_000, sent(850, 0, true)), 1_100);
        assert_eq!(balance.correct(1_000, sent(0, 0, false)), 1_100);
        assert_eq!(balance.correct(1_000, sent(300, 0, false)), 1_000);
    }

    #[test]
    fn of_first_packets_little_is_made_good() {
        let mut balance = Balance::default();
        assert_eq!(balance.correct(1_000, sent(0, 640, true)), 1_100);
        assert_eq!(balance.correct(1_000, sent(300, u64::MAX, true)), 900);
        assert_eq!(
            balance.correct(u64::MAX, sent(u64::MAX, 0, false)),
            u64::MAX / 2 + 1
        );
    }
}

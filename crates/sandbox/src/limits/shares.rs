//! The rate of a job divided among its sockets (P52). Pure.

use std::time::Duration;

/// The largest that TCP sends at once, and what it sends at any pace.
const PACKET_BYTES: u128 = 1 << 16;

/// What one socket had and did since the rates were divided last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Bytes a second; None: it is new.
    pub share: Option<u64>,
    /// Bytes a second.
    pub used: u64,
    /// Bytes wait for their turn.
    pub waits: bool,
}

/// A share for each: those that could use more divide equally what the others leave, and nobody has less than a fair
/// share, nor less than nobody used: sockets that take turns may have the whole rate in turn. So what all of them do is
/// to be looked at more often than it is divided ([`is_over`]).
pub fn divide(rate: u64, claims: &[Claim]) -> Vec<u64> {
    let hungry = |claim: &Claim| {
        let full = |share: u64| claim.used.saturating_mul(10) >= share.saturating_mul(9);
        claim.waits || claim.share.is_none_or(full)
    };
    let fair = rate / (claims.len() as u64).max(1);
    // Whose packet waits sent nothing meanwhile, and who is new nothing yet: both will use what they are given.
    let use_of = |claim: &Claim| match hungry(claim) {
        true => claim.used.max(fair),
        false => claim.used,
    };
    let used = |hungers: bool| {
        let those = claims.iter().filter(|claim| hungry(claim) == hungers);
        those.map(use_of).fold(0, u64::saturating_add)
    };
    let count = claims.iter().filter(|claim| hungry(claim)).count() as u64;
    let left = rate.saturating_sub(used(false));
    let spare = left.saturating_sub(used(true));
    let least = fair.max(spare).max(1);
    let share = |claim: &Claim| match hungry(claim) {
        true => (left / count.max(1)).max(least),
        // And a quarter, so that growing is seen.
        false => claim
            .used
            .saturating_add(claim.used / 4)
            .min(rate)
            .max(least),
    };
    claims.iter().map(share).collect()
}

/// Has more been sent since the rate was divided than so many sockets may have sent, a packet of each besides?
pub fn is_over(rate: u64, since: Duration, sockets: usize, sent_bytes: u64) -> bool {
    let due = u128::from(rate).saturating_mul(since.as_nanos()) / 1_000_000_000;
    u128::from(sent_bytes) > due + PACKET_BYTES * sockets as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_use_more_has_what_the_others_leave() {
        let claim = |share: u64, used: u64| Claim {
            share: Some(share),
            used,
            waits: false,
        };
        let new = Claim {
            share: None,
            used: 0,
            waits: false,
        };
        let waits = Claim {
            waits: true,
            ..claim(640, 10)
        };
        let check = |claims: &[Claim], expected: &[u64]| {
            assert_eq!(divide(6400, claims), expected, "{claims:?}");
        };
        check(&[], &[]);
        check(&[new], &[6400]);
        check(&[new, new], &[3200, 3200]);
        check(&[claim(6400, 6300), claim(100, 0)], &[6400, 3200]);
        check(&[claim(3200, 3200), claim(3200, 1600)], &[4800, 3200]);
        check(&[claim(3200, 3200), claim(3200, 2800)], &[3600, 3500]);
        check(&[waits, claim(3200, 0)], &[6400, 3200]);
        assert_eq!(divide(1, &[new, new, new]), [1, 1, 1]);
    }

    #[test]
    fn what_nobody_used_each_may_use() {
        let claim = |used: u64, waits: bool| Claim {
            share: Some(6400),
            used,
            waits,
        };
        let rest = claim(0, false);
        assert_eq!(divide(6400, &[rest, rest, rest]), [6400, 6400, 6400]);
        assert_eq!(
            divide(6400, &[claim(1000, true), claim(400, false), rest, rest]),
            [6000, 4400, 4400, 4400]
        );
    }

    #[test]
    fn more_than_the_rate_and_a_packet_of_each_is_too_much() {
        let since = Duration::from_millis(100);
        assert!(!is_over(1 << 20, since, 2, 235_000));
        assert!(is_over(1 << 20, since, 2, 236_000));
        assert!(!is_over(u64::MAX, Duration::MAX, 0, u64::MAX));
    }
}

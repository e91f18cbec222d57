//! How often a checkpoint is made (spec/checkpoint, K30): Young's first-order optimum (CACM 17(9), 1974), whose refinement by
//! Daly (FGCS 22, 2006) differs by half the cost of one. Not here: how cost is measured.

use std::time::Duration;

/// More often than this the time of day is what is computed.
pub const OFTEN: Duration = Duration::from_secs(1);
/// So much work is lost at most, however reliable the host is said to be.
pub const MOST: Duration = Duration::from_secs(3600);

/// Time between two, of which each costs `cost`, where something dies once in `failures` on average.
pub fn interval(cost: Duration, failures: Duration) -> Duration {
    let seconds = (2.0 * cost.as_secs_f64() * failures.as_secs_f64()).sqrt();
    let best = Duration::try_from_secs_f64(seconds).unwrap_or(MOST);
    best.saturating_sub(cost / 2).clamp(OFTEN, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_cost_and_failures_within_its_bounds() {
        let day = Duration::from_secs(86_400);
        let check = |cost_ms, failures, expected_s: u64| {
            let found = interval(Duration::from_millis(cost_ms), failures);
            assert_eq!(found.as_secs(), expected_s, "{cost_ms} ms");
        };
        check(0, day, 1);
        check(10, day, 41);
        check(1000, day, 415);
        check(1000, Duration::from_secs(60), 10);
        check(3_600_000, day, 3600);
        check(1000, Duration::MAX, 3600);
    }
}

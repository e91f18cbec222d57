//! How often a checkpoint is made (spec/checkpoint, K31): Young's first-order optimum (CACM 17(9), 1974), whose refinement by
//! Daly (FGCS 22, 2006) differs by half the cost of one; more often while that is cheap, so that a death costs little of what
//! was computed, however rare it is. Not here: how cost is measured.

use std::time::Duration;

/// Says the mean time between failures, in seconds.
pub const FAILURES_VARIABLE: &str = "KUMIKO_CHECKPOINT_FAILURES_S";
/// More often than this the time of day is what is computed.
pub const OFTEN: Duration = Duration::from_secs(1);
/// So much work is lost at most, however reliable the host is said to be.
pub const MOST: Duration = Duration::from_secs(3600);

/// Of what was computed, a death is to cost no more than one part in so many.
const LOST_PARTS: u32 = 10;
/// And checkpoints for that no more than one part in so many of the time.
const COST_PARTS: u32 = 100;

/// Of so many bytes, as long as none was made: a second for each GB, to be summed and to come to a disk.
pub fn expected_cost(bytes: u64) -> Duration {
    Duration::from_nanos(bytes)
}

/// Time between two, of which each costs `cost`, where something dies once in `failures` on average, of a program that has
/// computed for `computed`.
pub fn interval(cost: Duration, failures: Duration, computed: Duration) -> Duration {
    let seconds = (2.0 * cost.as_secs_f64() * failures.as_secs_f64()).sqrt();
    let best = Duration::try_from_secs_f64(seconds).unwrap_or(MOST);
    let cheap = (computed / LOST_PARTS).max(cost.saturating_mul(COST_PARTS));
    best.saturating_sub(cost / 2).min(cheap).clamp(OFTEN, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_cost_and_failures_within_its_bounds() {
        let day = Duration::from_secs(86_400);
        let check = |cost_ms, failures, expected_s: u64| {
            let found = interval(Duration::from_millis(cost_ms), failures, 10 * day);
            assert_eq!(found.as_secs(), expected_s, "{cost_ms} ms");
        };
        check(0, day, 1);
        check(10, day, 41);
        check(1000, day, 415);
        check(1000, Duration::from_secs(60), 10);
        check(3_600_000, day, 3600);
        check(1000, Duration::MAX, 3600);
    }

    #[test]
    fn the_first_one_costs_a_hundredth_of_the_time_until_then() {
        let check = |bytes, expected_ms: u128| {
            let day = Duration::from_secs(86_400);
            let found = interval(expected_cost(bytes), day, Duration::ZERO);
            assert_eq!(found.as_millis(), expected_ms, "{bytes} bytes");
        };
        check(100, 1000);
        check(20_000_000, 2000);
        check(1 << 30, 107_374);
        check(1 << 40, 3_600_000);
    }

    #[test]
    fn a_death_costs_a_tenth_where_checkpoints_are_cheap() {
        let check = |cost_ms, computed_s, expected_ms: u128| {
            let (cost, computed) = (
                Duration::from_millis(cost_ms),
                Duration::from_secs(computed_s),
            );
            let found = interval(cost, Duration::from_secs(86_400), computed);
            assert_eq!(
                found.as_millis(),
                expected_ms,
                "{cost_ms} ms, after {computed_s} s"
            );
        };
        check(20, 1, 2000);
        check(20, 30, 3000);
        check(20, 500, 50_000);
        check(20, 5000, 58_777);
        check(1500, 30, 150_000);
        check(0, 500, 1000);
    }
}

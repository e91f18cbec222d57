//! Medians and spreads of samples. The means of noisy machines say little, so none is taken here; nothing is thrown out
//! as an outlier. Not here: how samples come about (`rounds`), what they must reach (`goal`).

use serde::Serialize;

/// What a series counts. Values are kept in the base unit; [`Unit::show`] picks a readable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Seconds,
    Bytes,
    BytesPerSecond,
    PerSecond,
    /// A ratio or a count.
    Plain,
}

impl Unit {
    /// A value with three significant digits and its unit.
    pub fn show(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let steps: &[(f64, &str)] = match self {
            Unit::Seconds => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
            Unit::Bytes => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
            Unit::Plain => &[(1.0, "")],
            Unit::PerSecond => &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")],
            Unit::BytesPerSecond => &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")],
        };
        let smallest = steps.last().copied().unwrap_or((1.0, ""));
        let (scale, name) = steps
            .iter()
            .copied()
            .find(|(scale, _)| value.abs() >= *scale)
            .unwrap_or(smallest);
        format!("{} {name}", digits(value / scale))
            .trim_end()
            .to_owned()
    }
}

/// Three significant digits: 0.0123, 1.23, 12.3, 123.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let places = (2 - value.abs().log10().floor() as i32).clamp(0, 6);
    format!("{value:.*}", places as usize)
}

/// Samples of one thing, in the order in which they were taken.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    pub name: String,
    pub unit: Unit,
    pub samples: Vec<f64>,
}

impl Series {
    pub fn new(name: &str, unit: Unit) -> Series {
        Series {
            name: name.to_owned(),
            unit,
            samples: Vec::new(),
        }
    }
}

/// Order statistics of a series or of the pairs of two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub count: usize,
    pub least: f64,
    pub quarter: f64,
    pub median: f64,
    pub three_quarters: f64,
    pub p99: f64,
    pub most: f64,
}

impl Summary {
    /// None when there are no samples.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            count: sorted.len(),
            least: *sorted.first()?,
            quarter: quantile(&sorted, 0.25)?,
            median: quantile(&sorted, 0.5)?,
            three_quarters: quantile(&sorted, 0.75)?,
            p99: quantile(&sorted, 0.99)?,
            most: *sorted.last()?,
        })
    }
}

/// Between which samples the median lies with 95 % confidence, whatever the distribution (order statistics and the binomial
/// distribution; Conover, Practical Nonparametric Statistics, 3.2). With fewer than six: the least and the most.
pub fn median_within(samples: &[f64]) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // Chances that of `count` tosses `below` or fewer are heads.
    let (mut below, mut chance, mut sum) = (0, 0.5_f64.powi(count as i32), 0.0);
    while below < count / 2 && 2.0 * (sum + chance) <= 0.05 {
        sum += chance;
        chance *= (count - below) as f64 / (below + 1) as f64;
        below += 1;
    }
    let at = below.saturating_sub(1);
    let of = |at: usize| sorted.get(at).copied().unwrap_or(f64::NAN);
    (of(at), of(count.saturating_sub(at + 1)))
}

/// Linear between the two nearest ranks (Hyndman and Fan's type 7, the default of R and numpy).
fn quantile(sorted: &[f64], at: f64) -> Option<f64> {
    let rank = at * (sorted.len().checked_sub(1)?) as f64;
    let below = rank.floor() as usize;
    let low = *sorted.get(below)?;
    let high = *sorted.get(below + 1).unwrap_or(&low);
    Some(low + (high - low) * (rank - below as f64))
}

/// `f` of each round's two samples. Rounds are interleaved, so a pair shares the machine's mood; series of unequal
/// length have no rounds, and give the one pair of their medians.
pub fn pairs(ours: &[f64], theirs: &[f64], f: fn(f64, f64) -> f64) -> Vec<f64> {
    if ours.len() == theirs.len() {
        return ours.iter().zip(theirs).map(|(a, b)| f(*a, *b)).collect();
    }
    match (Summary::of(ours), Summary::of(theirs)) {
        (Some(a), Some(b)) => vec![f(a.median, b.median)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_nearest_ranks() {
        let check = |samples: &[f64], expected: [f64; 3]| {
            let s = Summary::of(samples).unwrap();
            assert_eq!(
                [s.quarter, s.median, s.three_quarters],
                expected,
                "{samples:?}"
            );
        };
        check(&[1.0], [1.0, 1.0, 1.0]);
        check(&[2.0, 1.0], [1.25, 1.5, 1.75]);
        check(&[4.0, 1.0, 3.0, 2.0], [1.75, 2.5, 3.25]);
        check(&[5.0, 1.0, 4.0, 2.0, 3.0], [2.0, 3.0, 4.0]);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn a_median_lies_between_samples_with_confidence() {
        let check = |count: u32, expected: (f64, f64)| {
            let samples: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            assert_eq!(median_within(&samples), expected, "{count}");
        };
        // As tables of the sign test have it.
        check(3, (1.0, 3.0));
        check(6, (1.0, 6.0));
        check(9, (2.0, 8.0));
        check(12, (3.0, 10.0));
        check(20, (6.0, 15.0));
        assert!(median_within(&[]).0.is_nan());
    }

    #[test]
    fn values_are_shown_with_three_digits_in_a_fitting_unit() {
        let check = |unit: Unit, value: f64, shown: &str| assert_eq!(unit.show(value), shown);
        check(Unit::Seconds, 0.00123, "1.23 ms");
        check(Unit::Seconds, 12.34, "12.3 s");
        check(Unit::Seconds, 0.0000456, "45.6 µs");
        check(Unit::Seconds, -0.002, "-2.00 ms");
        check(Unit::Seconds, 0.0, "0");
        check(Unit::Bytes, 20_480.0, "20.5 kB");
        check(Unit::BytesPerSecond, 1.5e9, "1.50 GB/s");
    }

    #[test]
    fn rounds_are_compared_pair_by_pair() {
        assert_eq!(pairs(&[2.0, 6.0], &[1.0, 2.0], |a, b| a / b), [2.0, 3.0]);
        assert_eq!(pairs(&[2.0, 4.0, 6.0], &[2.0], |a, b| a / b), [2.0]);
        assert!(pairs(&[], &[1.0], |a, b| a / b).is_empty());
    }
}

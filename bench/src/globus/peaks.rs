//! How many peaks a distribution has: a service with one way through has one, whatever its spread. Pure.

/// Bins a factor of two: a peak is at least some tenths of its time wide on a machine that does other things too.
const BINS_PER_OCTAVE: f64 = 4.0;
/// A peak has at least this share of all samples in its highest bin and the two beside it ...
const LEAST_SHARE: f64 = 0.02;
/// ... and is parted from a higher one by a valley no higher than this part of it.
const VALLEY: f64 = 0.5;

/// The values at which there is a peak, from the least on.
pub fn peaks(samples: &[f64]) -> Vec<f64> {
    let bins: Vec<i32> = samples
        .iter()
        .filter(|value| **value > 0.0)
        .map(|value| (value.log2() * BINS_PER_OCTAVE).round() as i32)
        .collect();
    let (Some(first), Some(last)) = (bins.iter().min(), bins.iter().max()) else {
        return Vec::new();
    };
    let mut counts = vec![0.0_f64; (last - first) as usize + 1];
    for bin in &bins {
        counts[(bin - first) as usize] += 1.0;
    }
    let at = |bin: usize| counts.get(bin).copied().unwrap_or(0.0);
    let smooth: Vec<f64> = (0..counts.len())
        .map(|bin| at(bin) + (if bin > 0 { at(bin - 1) } else { 0.0 } + at(bin + 1)) / 2.0)
        .collect();
    let mut found: Vec<usize> = Vec::new();
    // The highest first: a lower one counts only if a valley parts it from all that are there.
    let mut order: Vec<usize> = (0..smooth.len()).collect();
    order.sort_by(|a, b| smooth[*b].total_cmp(&smooth[*a]));
    for bin in order {
        let around = at(bin) + at(bin + 1) + if bin > 0 { at(bin - 1) } else { 0.0 };
        if around < samples.len() as f64 * LEAST_SHARE {
            continue;
        }
        let parted = found.iter().all(|other| {
            let (low, high) = (bin.min(*other), bin.max(*other));
            let least = smooth[low..=high].iter().copied().fold(f64::MAX, f64::min);
            least <= smooth[bin] * VALLEY && high - low > 1
        });
        if parted {
            found.push(bin);
        }
    }
    found.sort_unstable();
    found
        .into_iter()
        .map(|bin| ((bin as i32 + first) as f64 / BINS_PER_OCTAVE).exp2())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::globus::paper::PAPER_S;

    /// Evenly spread between the two.
    fn spread(from: f64, to: f64, count: usize) -> impl Iterator<Item = f64> {
        (0..count).map(move |n| from + (to - from) * n as f64 / count as f64)
    }

    #[test]
    fn what_is_bunched_once_has_one_peak_and_the_papers_jobs_have_two() {
        assert_eq!(peaks(&PAPER_S).len(), 2);
        assert_eq!(peaks(&[]).len(), 0);
        let check = |samples: Vec<f64>, expected: usize| {
            assert_eq!(
                peaks(&samples).len(),
                expected,
                "{:?}",
                samples.first().zip(samples.last())
            );
        };
        check(spread(0.010, 0.014, 1000).collect(), 1);
        // Some that took long are a tail ...
        check(
            spread(0.010, 0.014, 1000)
                .chain(spread(0.014, 0.1, 15))
                .collect(),
            1,
        );
        // ... a twentieth that waited for a delayed acknowledgement is not.
        check(
            spread(0.010, 0.014, 1000)
                .chain(spread(0.052, 0.056, 50))
                .collect(),
            2,
        );
    }
}

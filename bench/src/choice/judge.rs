//! From picks and times to a judgement. Pure.

use super::Key;
use crate::stats::{Summary, Unit, digits};
use std::collections::BTreeMap;

/// One program on one machine under one policy, and what was picked.
#[derive(Clone, Debug)]
pub struct Pair {
    pub program: &'static str,
    pub host: &'static str,
    pub policy: &'static str,
    /// None: refused, as nothing is admissible.
    pub pick: Option<String>,
    /// (mechanism, admissible, predicted overhead in us).
    pub rows: Vec<(String, bool, u64)>,
}

#[derive(Debug, Default)]
pub struct Judged {
    pub pairs: usize,
    pub good: usize,
    pub inadmissible: usize,
    /// Of each mechanism, the share of pairs in which always taking it would have been as good.
    pub constants: BTreeMap<String, f64>,
    /// Time of all picks over that of all best ones.
    pub times_best: f64,
    /// A pair each.
    pub lines: Vec<String>,
}

impl Judged {
    pub fn share(&self) -> f64 {
        self.good as f64 / self.pairs.max(1) as f64
    }

    pub fn best_constant(&self) -> (&str, f64) {
        let best = self.constants.iter().max_by(|a, b| a.1.total_cmp(b.1));
        best.map_or(("", 0.0), |(name, share)| (name, *share))
    }
}

/// Of times the lower quartile counts: whatever else the machine does makes them longer and never shorter.
/// `as_good`: so many times the best is as good as the best.
pub fn judge(pairs: &[Pair], took: &BTreeMap<Key, Vec<f64>>, as_good: f64) -> Judged {
    let mut judged = Judged::default();
    let mut good_constants: BTreeMap<String, usize> = BTreeMap::new();
    let (mut of_picks, mut of_best) = (0.0, 0.0);
    for pair in pairs {
        let time = |mechanism: &str| {
            let key = (pair.program, pair.policy, mechanism.to_owned());
            Summary::of(took.get(&key)?).map(|summary| summary.quarter)
        };
        let admissible = pair.rows.iter().filter(|(_, admissible, _)| *admissible);
        let times: Vec<(&str, f64, u64)> = admissible
            .filter_map(|(name, _, predicted)| Some((name.as_str(), time(name)?, *predicted)))
            .collect();
        let Some(best) = times
            .iter()
            .map(|(_, time, _)| *time)
            .min_by(f64::total_cmp)
        else {
            continue;
        };
        judged.pairs += 1;
        let is_good = |time: f64| time <= best * as_good;
        let picked = times
            .iter()
            .find(|(name, ..)| Some(*name) == pair.pick.as_deref());
        match picked {
            Some((_, time, _)) => {
                judged.good += usize::from(is_good(*time));
                of_picks += time;
                of_best += best;
            }
            None => judged.inadmissible += 1,
        }
        for (name, _, _) in times.iter().filter(|(_, time, _)| is_good(*time)) {
            *good_constants.entry((*name).to_owned()).or_default() += 1;
        }
        judged.lines.push(line(
            pair,
            &times,
            picked.is_some_and(|(_, time, _)| is_good(*time)),
        ));
    }
    let pairs = judged.pairs.max(1) as f64;
    judged.constants = good_constants
        .into_iter()
        .map(|(name, count)| (name, count as f64 / pairs))
        .collect();
    judged.times_best = of_picks / of_best.max(f64::MIN_POSITIVE);
    judged
}

fn line(pair: &Pair, times: &[(&str, f64, u64)], good: bool) -> String {
    let least = times
        .iter()
        .map(|(_, _, predicted)| *predicted)
        .min()
        .unwrap_or(0);
    let each: Vec<String> = times
        .iter()
        .map(|(name, time, predicted)| {
            let more = predicted.saturating_sub(least) as f64 / 1e3;
            format!(
                "{name} {} (predicted + {} ms)",
                Unit::Seconds.show(*time),
                digits(more)
            )
        })
        .collect();
    format!(
        "{} | {} | {} | {}{} | {}",
        pair.program,
        pair.host,
        pair.policy,
        pair.pick.as_deref().unwrap_or("refused"),
        if good { "" } else { " (not the best)" },
        each.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(program: &'static str, pick: Option<&str>, admissible: &[&str]) -> Pair {
        let row = |name: &str| (name.to_owned(), admissible.contains(&name), 0);
        Pair {
            program,
            host: "host",
            policy: "policy",
            pick: pick.map(str::to_owned),
            rows: ["a", "b", "c"].map(row).into(),
        }
    }

    #[test]
    fn a_pick_is_judged_by_the_best_that_was_admissible() {
        let mut took = BTreeMap::new();
        for (program, mechanism, time) in [
            ("one", "a", 1.0),
            ("one", "b", 1.04),
            ("one", "c", 1.06),
            ("two", "b", 2.0),
            ("two", "c", 1.0),
        ] {
            took.insert((program, "policy", mechanism.to_owned()), vec![time]);
        }
        let pairs = [
            pair("one", Some("a"), &["a", "b", "c"]),
            pair("one", Some("b"), &["a", "b", "c"]),
            pair("one", Some("c"), &["a", "b", "c"]),
            pair("two", Some("b"), &["b", "c"]),
            pair("two", Some("a"), &["b", "c"]),
            pair("two", None, &[]),
        ];
        let judged = judge(&pairs, &took, 1.05);
        assert_eq!((judged.pairs, judged.good, judged.inadmissible), (5, 2, 1));
        assert_eq!(judged.best_constant(), ("b", 0.6));
        assert_eq!(judged.constants.get("c"), Some(&0.4));
        let of_all = (1.0 + 1.04 + 1.06 + 2.0) / (1.0 + 1.0 + 1.0 + 1.0);
        assert!((judged.times_best - of_all).abs() < 1e-9);
        assert_eq!(judged.lines.len(), 5);
    }
}

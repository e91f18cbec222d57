//! How long a call would take at a site, of what is told of the site and what was measured of it before (spec/jobs/placement.md, PM17): how
//! far away it is, how much data goes and comes, how much is computed, and who else is there. Pure. Not here: who measures.

use crate::choose::{Candidate, Judged};

/// What a call would be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Of arguments and result.
    pub bytes: u64,
    /// As its CalcOrder has it; 1 for a routine without.
    pub operations: f64,
}

/// What was measured of a site. None: nothing was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    pub latency_s: Option<f64>,
    pub bytes_per_second: Option<f64>,
    /// Of this routine: operations of its CalcOrder.
    pub operations_per_second: Option<f64>,
}

impl Measured {
    fn each(&self) -> [Option<f64>; 3] {
        [
            self.latency_s,
            self.bytes_per_second,
            self.operations_per_second,
        ]
    }
}

/// Of each quantity the middle one of those that were measured: what a site is taken to have of which it is not known, so that it is
/// neither shunned nor preferred for that.
pub fn usual(all: &[Measured]) -> Measured {
    let middle = |at: usize| {
        let known = all.iter().filter_map(|one| one.each().get(at).copied()?);
        let mut known: Vec<f64> = known.filter(|value| value.is_finite()).collect();
        known.sort_by(f64::total_cmp);
        known.get(known.len().saturating_sub(1) / 2).copied()
    };
    Measured {
        latency_s: middle(0),
        bytes_per_second: middle(1),
        operations_per_second: middle(2),
    }
}

/// Seconds from begin to result. What is known of nobody costs nothing anywhere.
pub fn seconds(work: Work, site: Measured, usual: Measured, crowding: f64) -> f64 {
    let of = |own: Option<f64>, usual: Option<f64>| own.or(usual);
    let per = |amount: f64, rate: Option<f64>| match rate {
        Some(rate) if rate > 0. => amount / rate,
        _ => 0.,
    };
    let latency = of(site.latency_s, usual.latency_s).unwrap_or(0.);
    // As far as a double is exact; beyond, the last bits do not matter.
    let bytes = work.bytes as f64;
    let moved = per(bytes, of(site.bytes_per_second, usual.bytes_per_second));
    let rate = of(site.operations_per_second, usual.operations_per_second);
    latency + moved + per(work.operations, rate) * crowding
}

/// Who else is at a site, by what it tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Crowd {
    /// How many there are, how many are free, and how many jobs wait.
    slots: Option<(f64, f64, f64)>,
    /// How many there are, and what they have to do.
    processors: Option<(f64, f64)>,
}

impl Crowd {
    pub fn at(candidate: &Candidate) -> Crowd {
        let told = |name: &str| {
            let value: f64 = candidate.first(name)?.parse().ok()?;
            (value.is_finite() && value >= 0.).then_some(value)
        };
        let slots = told("kumiko-slots").filter(|slots| *slots > 0.);
        let waiting = told("kumiko-jobs-waiting").unwrap_or(0.);
        let processors = told("Mds-Cpu-Total-count").filter(|count| *count > 0.);
        Crowd {
            slots: slots
                .zip(told("kumiko-slots-free"))
                .map(|(slots, free)| (slots, free, waiting)),
            processors: processors.zip(told("kumiko-load-1min")),
        }
    }

    /// How many times as long as alone something takes there, besides so many of the caller's own that are there already: 1 where a slot or a
    /// processor is free.
    pub fn times(self, own: usize) -> f64 {
        let own = f64::from(u32::try_from(own).unwrap_or(u32::MAX));
        let slots = match self.slots {
            Some((slots, free, waiting)) if free - own < 1. => {
                1. + (waiting + own - free.min(own) + 1.) / slots
            }
            _ => 1.,
        };
        let processors = self.processors;
        let processors = processors.map_or(1., |(count, load)| (load + own + 1.) / count);
        slots.max(processors).max(1.)
    }
}

/// Puts those that would have the result first before the others; those that are heard, meet all and miss nothing stay before those that
/// do not. What is equal stays in its order.
pub fn order(judged: &mut [Judged], work: Work, measured: impl Fn(&Candidate) -> Measured) {
    let all: Vec<Measured> = judged.iter().map(|one| measured(&one.candidate)).collect();
    let usual = usual(&all);
    judged.sort_by(|a, b| {
        let group = |one: &Judged| {
            (
                !one.can_be_asked(),
                one.stale_since.is_some(),
                !one.misses.is_empty(),
            )
        };
        let time = |one: &Judged| {
            let of = &one.candidate;
            seconds(work, measured(of), usual, Crowd::at(of).times(0))
        };
        group(a)
            .cmp(&group(b))
            .then_with(|| time(a).total_cmp(&time(b)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::{Wanted, choose};
    use std::collections::BTreeMap;

    fn site(name: &str, told: &[(&str, &str)]) -> Candidate {
        let told = told.iter();
        let told = told.map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()]));
        Candidate {
            site: name.to_owned(),
            contact: format!("{name}:2119"),
            attributes: told.collect::<BTreeMap<_, _>>(),
        }
    }

    fn measured(latency_ms: u32, mb_per_second: u32, mega_per_second: u32) -> Measured {
        let known = |value: u32, unit: f64| (value > 0).then(|| f64::from(value) * unit);
        Measured {
            latency_s: known(latency_ms, 1e-3),
            bytes_per_second: known(mb_per_second, 1e6),
            operations_per_second: known(mega_per_second, 1e6),
        }
    }

    /// Near but slow, far but fast, and one of which nothing is known.
    fn first(bytes: u64, operations: f64, busy: &str) -> String {
        let full = [("kumiko-slots", "2"), ("kumiko-slots-free", "0")];
        let told = |name: &str| match name == busy {
            true => site(name, &full),
            false => site(name, &full[..1]),
        };
        let candidates = ["far", "near", "new"].map(told).to_vec();
        let mut judged = choose(candidates, &Wanted::default());
        let work = Work { bytes, operations };
        order(&mut judged, work, |one| match one.site.as_str() {
            "far" => measured(50, 10, 5000),
            "near" => measured(1, 1000, 1000),
            _ => Measured::default(),
        });
        judged[0].candidate.site.clone()
    }

    #[test]
    fn the_site_is_first_that_would_have_the_result_first() {
        // Little is near, much data too; much to compute is far.
        assert_eq!(first(100, 1., ""), "near");
        assert_eq!(first(1 << 30, 1e9, ""), "near");
        assert_eq!(first(1000, 1e12, ""), "far");
        // Where nothing is free it takes longer: then elsewhere, be it where nobody has been.
        assert_eq!(first(1000, 6e7, ""), "near");
        assert_eq!(first(1000, 6e7, "near"), "new");
    }

    #[test]
    fn what_is_not_known_is_taken_as_usual_and_what_is_known_of_nobody_as_nothing() {
        let known = [measured(1, 10, 0), measured(9, 0, 0), measured(5, 30, 0)];
        let usual = usual(&known);
        assert_eq!(usual, measured(5, 10, 0));
        let work = Work {
            bytes: 30_000_000,
            operations: 1e9,
        };
        let found = seconds(work, Measured::default(), usual, 1.);
        assert!((found - 3.005).abs() < 1e-9, "{found}");
        let nothing = seconds(work, Measured::default(), Measured::default(), 3.);
        assert!(nothing.abs() < 1e-9);
    }

    #[test]
    fn a_site_is_crowded_by_what_waits_and_by_load_and_garbage_is_nothing() {
        let check = |told: &[(&str, &str)], expected: f64| {
            let found = Crowd::at(&site("a", told)).times(0);
            assert!((found - expected).abs() < 1e-9, "{told:?}: {found}");
        };
        let slots = |free, waiting| {
            [
                ("kumiko-slots", "4"),
                ("kumiko-slots-free", free),
                ("kumiko-jobs-waiting", waiting),
            ]
        };
        check(&[], 1.);
        check(&slots("1", "9"), 1.);
        check(&slots("0", "3"), 2.);
        check(&slots("none", "3"), 1.);
        let load = |load| [("Mds-Cpu-Total-count", "2"), ("kumiko-load-1min", load)];
        check(&load("0.5"), 1.);
        check(&load("3"), 2.);
        check(&load("-7"), 1.);
        check(&load("NaN"), 1.);
        // With own ones besides: the first two have a slot, the third waits with those that do.
        let crowd = Crowd::at(&site("a", &slots("2", "3")));
        let times = [0, 1, 2, 3].map(|own| crowd.times(own));
        assert_eq!(times, [1., 1., 2., 2.25]);
        let crowd = Crowd::at(&site("a", &load("0")));
        assert_eq!([0, 1, 2, 3].map(|own| crowd.times(own)), [1., 1., 1.5, 2.]);
    }
}

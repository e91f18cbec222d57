//! From times of work to the cost of each kind of it. Pure.

use super::work::Work;
use kumiko_policy::choice::{CROWD, Costs, Profile};
use std::collections::HashMap;
use std::time::Duration;

/// Of one way of doing the work.
#[derive(Debug, Default)]
pub(super) struct Samples {
    took_ns: HashMap<Work, Vec<u64>>,
    /// The calls of one run.
    calls: Counted,
}

/// What the work consists of, where it was counted.
pub(super) type Counted = HashMap<Work, Profile>;

impl Samples {
    pub(super) fn add(&mut self, work: Work, took: Duration, counted: Option<Profile>) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.took_ns.entry(work).or_default().push(ns);
        if let Some(counted) = counted {
            self.calls.insert(work, counted);
        }
    }

    /// None: nobody counted.
    pub(super) fn counted(&self) -> Option<Counted> {
        (!self.calls.is_empty()).then(|| self.calls.clone())
    }

    /// The lower quartile: whatever else a machine does makes times longer and never shorter.
    fn usual(&self, work: Work) -> f64 {
        self.quantile(work, 1)
    }

    /// `quarters` of the samples are not above it.
    fn quantile(&self, work: Work, quarters: usize) -> f64 {
        let mut sorted = self.took_ns.get(&work).cloned().unwrap_or_default();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let at = sorted.get(last * quarters / 4);
        at.copied().unwrap_or(0) as f64
    }

    /// The widest middle half of all works.
    fn spread_percent(&self) -> u64 {
        let spread = |work| {
            let (low, high) = (self.quantile(work, 1), self.quantile(work, 3));
            (high - low) * 100.0 / self.quantile(work, 2).max(1.0)
        };
        Work::ALL.into_iter().map(spread).fold(0.0, f64::max) as u64
    }

    /// What each kind takes by itself, with no mechanism.
    pub(super) fn alone(&self) -> Costs {
        let start = self.usual(Work::Start);
        let each = |work: Work| {
            let all = self.usual(work) - start;
            (all.max(0.0) / work.times() as f64) as u64
        };
        Costs {
            start_ns: start as u64,
            open_ns: each(Work::Open),
            look_ns: each(Work::Look),
            answer_ns: each(Work::Answer),
            pass_ns: each(Work::Pass),
            process_ns: each(Work::Process),
            exec_ns: each(Work::Exec),
            crowd_ns: each(Work::Crowd),
            spread_percent: self.spread_percent(),
        }
    }

    /// What each kind takes more than without the mechanism: the calls of which it consists taken away where it is more
    /// than calls.
    pub(super) fn costs(&self, native: &Samples, counted: &Counted) -> Costs {
        let more = |work: Work| self.usual(work) - native.usual(work);
        let start = more(Work::Start);
        // A shell's start opens a little more than /bin/true; against thousands of calls that is nothing.
        let each = |work: Work| ((more(work) - start) / work.times() as f64).max(0.0);
        let (open, look, answer) = (each(Work::Open), each(Work::Look), each(Work::Answer));
        let none = Profile::default();
        let of = |work: Work| counted.get(&work).unwrap_or(&none);
        let calls = |work: &Profile| {
            let (opens, looks, answers) = (work.opens, work.looks, work.answers);
            opens as f64 * open + looks as f64 * look + answers as f64 * answer
        };
        let beyond = |work: Work| more(work) - start - (calls(of(work)) - calls(of(Work::Start)));
        let process = (beyond(Work::Process) / Work::Process.times() as f64).max(0.0);
        let made = of(Work::Exec).processes.max(Work::Exec.times()) as f64;
        let executed = beyond(Work::Exec) - made * process;
        let exec = (executed / Work::Exec.times() as f64).max(0.0);
        let crowd = more(Work::Crowd) - start - CROWD as f64 * process;
        let ns = |value: f64| value.max(0.0) as u64;
        Costs {
            start_ns: ns(start - calls(of(Work::Start))),
            open_ns: ns(open),
            look_ns: ns(look),
            answer_ns: ns(answer),
            pass_ns: ns(each(Work::Pass)),
            process_ns: ns(process),
            exec_ns: ns(exec),
            crowd_ns: ns(crowd / Work::Crowd.times() as f64),
            spread_percent: self.spread_percent(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same times of each work in every round, ns.
    fn samples(took: impl Fn(Work) -> u64) -> Samples {
        let mut samples = Samples::default();
        for round in 0..5 {
            for work in Work::ALL {
                // One round in five is out of line, and moves nothing.
                let more = if round == 3 { 1_000_000_000 } else { 0 };
                samples.add(work, Duration::from_nanos(took(work) + more), None);
            }
        }
        samples
    }

    #[test]
    fn what_the_work_was_made_of_is_found_again() {
        let costs = Costs {
            start_ns: 3_000_000,
            open_ns: 6_000,
            look_ns: 5_000,
            answer_ns: 7_000,
            pass_ns: 20,
            process_ns: 30_000,
            exec_ns: 90_000,
            crowd_ns: 9_000,
            spread_percent: 0,
        };
        let profile = |opens, looks| Profile {
            opens,
            looks,
            ..Profile::default()
        };
        // Each program that is executed opens three files and looks at two.
        let counted: Counted = Work::ALL
            .into_iter()
            .map(|work| {
                let programs = 1 + if work == Work::Exec { work.times() } else { 0 };
                (work, profile(programs * 3, programs * 2))
            })
            .collect();
        let native = |work: Work| 1_000_000 + work.times() * 1_000;
        let under = |work: Work| {
            let start = costs.start_ns + 3 * costs.open_ns + 2 * costs.look_ns;
            let each = match work {
                Work::Start => 0,
                Work::Open => costs.open_ns,
                Work::Look => costs.look_ns,
                Work::Answer => costs.answer_ns,
                Work::Pass => costs.pass_ns,
                Work::Process => costs.process_ns,
                Work::Exec => {
                    costs.process_ns + costs.exec_ns + 3 * costs.open_ns + 2 * costs.look_ns
                }
                Work::Crowd => costs.crowd_ns,
            };
            let crowd = if work == Work::Crowd {
                CROWD * costs.process_ns
            } else {
                0
            };
            native(work) + start + each * work.times() + crowd
        };
        let found = samples(under).costs(&samples(native), &counted);
        let near = |a: u64, b: u64| assert!(a.abs_diff(b) <= 1 + b / 100, "{found:?}");
        near(found.start_ns, costs.start_ns);
        near(found.open_ns, costs.open_ns);
        near(found.look_ns, costs.look_ns);
        near(found.answer_ns, costs.answer_ns);
        near(found.pass_ns, costs.pass_ns);
        near(found.process_ns, costs.process_ns);
        near(found.exec_ns, costs.exec_ns);
        near(found.crowd_ns, costs.crowd_ns);
    }

    #[test]
    fn what_is_quicker_than_bare_costs_nothing() {
        let found = samples(|_| 1_000).costs(&samples(|_| 2_000), &Counted::new());
        assert_eq!(found, Costs::default());
        assert_eq!(Samples::default().alone(), Costs::default());
    }
}

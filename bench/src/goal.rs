//! What a row must reach, and whether it did. Pure; the figures are those of the project's own speed table.
//! Not here: the measuring (`rows`), the writing down (`report`).

use crate::stats::{Series, Summary, Unit, digits, pairs};
use serde::Serialize;
use std::fmt;

/// One thing to reach, over series of the same row by name.
#[derive(Clone, Debug, Serialize)]
pub struct Goal {
    /// As the speed table says it.
    pub text: &'static str,
    pub ours: &'static str,
    pub reach: Reach,
}

/// How a series is judged. `theirs` is the peer's series of the same rounds.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Median of ours / theirs.
    AtMostTimes { theirs: &'static str, times: f64 },
    /// Median of ours / theirs.
    AtLeastTimes { theirs: &'static str, times: f64 },
    /// Median of ours - theirs, in the series' unit.
    AtMostMore { theirs: &'static str, by: f64 },
    /// Median of ours - times × theirs, in the series' unit.
    AtMostTimesMore {
        theirs: &'static str,
        times: f64,
        by: f64,
    },
    /// Median of ours.
    AtMost { limit: f64 },
    /// Median of ours.
    AtLeast { limit: f64 },
    /// 99th percentile of ours.
    P99AtMost { limit: f64 },
    /// Median of ours - of, whichever is more, in the series' unit.
    Within { of: f64, by: f64 },
}

impl Reach {
    fn theirs(&self) -> Option<&'static str> {
        match *self {
            Reach::AtMostTimes { theirs, .. }
            | Reach::AtLeastTimes { theirs, .. }
            | Reach::AtMostMore { theirs, .. }
            | Reach::AtMostTimesMore { theirs, .. } => Some(theirs),
            Reach::AtMost { .. }
            | Reach::AtLeast { .. }
            | Reach::P99AtMost { .. }
            | Reach::Within { .. } => None,
        }
    }
}

/// A goal after the run.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub goal: Goal,
    /// What was compared; None when a series is missing or empty.
    pub measured: Option<Measured>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub met: bool,
    pub value: f64,
    /// With its spread, in words.
    pub text: String,
    /// Share of what is allowed: below 1 is met, whichever way the goal points.
    pub used: f64,
}

impl Verdict {
    pub fn of(goal: &Goal, series: &[Series]) -> Verdict {
        Verdict {
            goal: goal.clone(),
            measured: measure(goal, series),
        }
    }
}

fn measure(goal: &Goal, series: &[Series]) -> Option<Measured> {
    let named = |name: &str| {
        series
            .iter()
            .find(|s| s.name == name && !s.samples.is_empty())
    };
    let ours = named(goal.ours)?;
    let against = |theirs: &str, f| Summary::of(&pairs(&ours.samples, &named(theirs)?.samples, f));
    let times = |s: Summary| {
        format!(
            "× {} (middle half {} – {})",
            digits(s.median),
            digits(s.quarter),
            digits(s.three_quarters)
        )
    };
    let plain = |s: Summary, sign: &str| {
        let show = |v| ours.unit.show(v);
        format!(
            "{sign}{} (middle half {} – {})",
            show(s.median),
            show(s.quarter),
            show(s.three_quarters)
        )
    };
    let (value, text, used) = match goal.reach {
        Reach::AtMostTimes {
            theirs,
            times: limit,
        } => {
            let s = against(theirs, |a, b| a / b)?;
            (s.median, times(s), s.median / limit)
        }
        Reach::AtLeastTimes {
            theirs,
            times: limit,
        } => {
            let s = against(theirs, |a, b| a / b)?;
            (s.median, times(s), limit / s.median)
        }
        Reach::AtMostMore { theirs, by } => {
            let s = against(theirs, |a, b| a - b)?;
            (
                s.median,
                plain(s, if s.median < 0.0 { "" } else { "+ " }),
                s.median / by,
            )
        }
        Reach::AtMostTimesMore { theirs, times, by } => {
            let theirs: Vec<f64> = named(theirs)?.samples.iter().map(|b| times * b).collect();
            let s = Summary::of(&pairs(&ours.samples, &theirs, |a, b| a - b))?;
            (
                s.median,
                plain(s, if s.median < 0.0 { "" } else { "+ " }),
                s.median / by,
            )
        }
        Reach::AtMost { limit } => {
            let s = Summary::of(&ours.samples)?;
            (s.median, plain(s, ""), s.median / limit)
        }
        Reach::AtLeast { limit } => {
            let s = Summary::of(&ours.samples)?;
            (s.median, plain(s, ""), limit / s.median)
        }
        Reach::Within { of, by } => {
            let s = Summary::of(&ours.samples)?;
            let off = s.median - of;
            let text = format!("{}, {:+.1} %", plain(s, ""), 100.0 * off / of);
            (s.median, text, off.abs() / by)
        }
        Reach::P99AtMost { limit } => {
            let s = Summary::of(&ours.samples)?;
            (
                s.p99,
                format!(
                    "{} (median {})",
                    ours.unit.show(s.p99),
                    ours.unit.show(s.median)
                ),
                s.p99 / limit,
            )
        }
    };
    Some(Measured {
        met: used <= 1.0,
        value,
        text,
        used,
    })
}

/// A row of the report: its goals, and what was measured for them.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// For `--only`, file names and anchors.
    pub key: &'static str,
    pub title: &'static str,
    pub goals: Vec<Goal>,
    pub series: Vec<Series>,
    /// How it was measured; what else was seen.
    pub notes: Vec<String>,
    pub missing: Vec<Missing>,
    /// Plots besides that of the series: SVG text.
    #[serde(skip)]
    pub pictures: Vec<String>,
}

/// What could not be measured here, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// None: the row as a whole.
    pub series: Option<&'static str>,
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.series {
            Some(series) => write!(f, "{series}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl Row {
    pub fn new(key: &'static str, title: &'static str, goals: Vec<Goal>) -> Row {
        Row {
            key,
            title,
            goals,
            series: Vec::new(),
            notes: Vec::new(),
            missing: Vec::new(),
            pictures: Vec::new(),
        }
    }

    /// The series of this name, made when it is first asked for.
    pub fn series(&mut self, name: &str, unit: Unit) -> &mut Vec<f64> {
        let at = self
            .series
            .iter()
            .position(|s| s.name == name)
            .unwrap_or_else(|| {
                self.series.push(Series::new(name, unit));
                self.series.len() - 1
            });
        &mut self.series[at].samples
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// `series` of this row, or with None the row, was not measured to its end.
    pub fn lacks(&mut self, series: Option<&'static str>, why: &dyn fmt::Display) {
        self.missing.push(Missing {
            series,
            why: why.to_string(),
        });
    }

    /// Why a goal could not be judged, in words.
    pub fn why_not(&self, goal: &Goal) -> String {
        let concerns = |m: &&Missing| {
            m.series
                .is_none_or(|s| s == goal.ours || Some(s) == goal.reach.theirs())
        };
        self.missing
            .iter()
            .filter(concerns)
            .map(Missing::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    }

    pub fn verdicts(&self) -> Vec<Verdict> {
        self.goals
            .iter()
            .map(|g| Verdict::of(g, &self.series))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(reach: Reach, ours: &[f64], theirs: &[f64]) -> Option<Measured> {
        let goal = Goal {
            text: "",
            ours: "ours",
            reach,
        };
        let series = |name, samples: &[f64]| Series {
            samples: samples.to_vec(),
            ..Series::new(name, Unit::Seconds)
        };
        Verdict::of(&goal, &[series("ours", ours), series("theirs", theirs)]).measured
    }

    #[test]
    fn a_goal_is_met_at_its_limit_and_missed_beyond() {
        let theirs = "theirs";
        let check = |reach: Reach, ours: &[f64], other: &[f64], met: bool| {
            assert_eq!(
                judged(reach, ours, other).map(|m| m.met),
                Some(met),
                "{reach:?} {ours:?} {other:?}"
            );
        };
        check(
            Reach::AtMostTimes {
                theirs,
                times: 0.25,
            },
            &[1.0],
            &[4.0],
            true,
        );
        check(
            Reach::AtMostTimes {
                theirs,
                times: 0.25,
            },
            &[1.1],
            &[4.0],
            false,
        );
        check(
            Reach::AtLeastTimes { theirs, times: 0.5 },
            &[2.0],
            &[4.0],
            true,
        );
        check(
            Reach::AtLeastTimes { theirs, times: 0.5 },
            &[1.9],
            &[4.0],
            false,
        );
        check(
            Reach::AtMostMore { theirs, by: 1.0 },
            &[3.0, 9.0, 4.0],
            &[2.0, 2.0, 3.0],
            true,
        );
        check(
            Reach::AtMostMore { theirs, by: 1.0 },
            &[3.0, 9.0, 4.5],
            &[2.0, 2.0, 3.0],
            false,
        );
        let more = Reach::AtMostTimesMore {
            theirs,
            times: 2.0,
            by: 1.0,
        };
        check(more, &[5.0], &[2.0], true);
        check(more, &[5.1], &[2.0], false);
        check(Reach::AtLeast { limit: 2.0 }, &[1.0, 2.0, 9.0], &[], true);
        check(Reach::AtLeast { limit: 2.1 }, &[1.0, 2.0, 9.0], &[], false);
        check(Reach::AtMost { limit: 2.0 }, &[1.0, 2.0, 9.0], &[], true);
        let within = Reach::Within { of: 10.0, by: 0.5 };
        check(within, &[10.5], &[], true);
        check(within, &[9.4], &[], false);
        check(within, &[10.6], &[], false);
        check(
            Reach::P99AtMost { limit: 2.0 },
            &[1.0, 2.0, 9.0],
            &[],
            false,
        );
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let reach = Reach::AtMostTimes {
            theirs: "theirs",
            times: 1.0,
        };
        assert!(judged(reach, &[1.0], &[]).is_none());
        assert!(judged(reach, &[], &[1.0]).is_none());
        assert!(judged(Reach::AtMost { limit: 1.0 }, &[], &[]).is_none());
    }
}

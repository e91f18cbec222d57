//! Plots as SVG text: every sample as a dot, the middle half as a bar, the median as a stroke with its value. Pure; the
//! colours follow the reader's light or dark page by CSS variables with fixed fallbacks, so a file stands alone too.
//! Not here: any layout beyond one column of series.

use crate::stats::{Series, Summary};
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const LANE: f64 = 44.0;
const LEFT: f64 = 300.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 8.0;
const AXIS: f64 = 28.0;
/// Dots drawn of one series; more are one grey smear and a heavy page. Evenly picked, the extremes always among them.
const MOST_DOTS: usize = 300;
/// From this span on (largest sample to smallest), a linear axis would press the small series flat.
const LOG_FROM: f64 = 12.0;

const STYLE: &str = "<style>.t{font:13px system-ui,sans-serif;fill:var(--ink,#333)}.f{fill:var(--faint,#777)}\
.g{stroke:var(--grid,#ddd)}.d{fill:var(--dot,#4477aa);fill-opacity:.35}.b{fill:var(--dot,#4477aa);fill-opacity:.25}\
.m{stroke:var(--median,#cc3311);stroke-width:2.5}.ok{fill:#228833}.no{fill:#cc3311}</style>";

/// One lane a series, on one axis. Empty text when nothing was measured.
pub fn strips(series: &[Series]) -> String {
    let drawn: Vec<(&Series, Summary)> = series
        .iter()
        .filter_map(|s| Summary::of(&s.samples).map(|summary| (s, summary)))
        .collect();
    let Some(unit) = drawn.first().map(|(s, _)| s.unit) else {
        return String::new();
    };
    let least = drawn
        .iter()
        .map(|(_, s)| s.least)
        .fold(f64::INFINITY, f64::min);
    let most = drawn
        .iter()
        .map(|(_, s)| s.most)
        .fold(f64::NEG_INFINITY, f64::max);
    let scale = Scale::over(least, most);
    let height = TOP + LANE * drawn.len() as f64 + AXIS;
    let mut out = open(height);
    for tick in scale.ticks() {
        vertical(&mut out, scale.x(tick), height, &unit.show(tick));
    }
    for (lane, (one, summary)) in drawn.iter().enumerate() {
        let middle = TOP + LANE * (lane as f64 + 0.5);
        label(&mut out, &one.name, middle);
        let (from, to, at) = (
            scale.x(summary.quarter),
            scale.x(summary.three_quarters),
            scale.x(summary.median),
        );
        let _ = write!(
            out,
            r#"<rect class="b" x="{from:.1}" y="{:.1}" width="{:.1}" height="22" rx="3"/>"#,
            middle - 11.0,
            (to - from).max(1.0)
        );
        for (index, value) in thinned(&one.samples).into_iter().enumerate() {
            // A fixed scatter over the lane, so that equal samples do not hide each other: the golden ratio's.
            let off = ((index as f64 * 0.618_034).fract() - 0.5) * 18.0;
            let _ = write!(
                out,
                r#"<circle class="d" cx="{:.1}" cy="{:.1}" r="2.2"/>"#,
                scale.x(value),
                middle + off
            );
        }
        let _ = write!(
            out,
            r#"<line class="m" x1="{at:.1}" x2="{at:.1}" y1="{:.1}" y2="{:.1}"/>"#,
            middle - 13.0,
            middle + 13.0
        );
        let _ = write!(
            out,
            r#"<text class="t" x="{:.1}" y="{:.1}">{}</text>"#,
            WIDTH - RIGHT + 8.0,
            middle + 4.0,
            one.unit.show(summary.median)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// One bar a goal: how much of what is allowed was used. Left of the line at 1 is met.
pub fn overview(goals: &[(String, Option<f64>)]) -> String {
    const LANE: f64 = 24.0;
    let height = TOP + LANE * goals.len() as f64 + AXIS;
    let most = goals
        .iter()
        .filter_map(|(_, used)| *used)
        .fold(1.0, f64::max);
    let scale = Scale {
        from: 0.0,
        to: most.min(10.0) * 1.1,
        log: false,
    };
    let mut out = open(height);
    for tick in scale.ticks() {
        vertical(&mut out, scale.x(tick), height, &format!("{tick}"));
    }
    for (lane, (name, used)) in goals.iter().enumerate() {
        let middle = TOP + LANE * (lane as f64 + 0.5);
        label(&mut out, name, middle);
        let (x, said, class) = match used {
            Some(used) => (
                scale.x(used.clamp(0.0, scale.to)),
                format!("{used:.2}"),
                if *used <= 1.0 { "ok" } else { "no" },
            ),
            None => (LEFT, "not measured".to_owned(), "f"),
        };
        let _ = write!(
            out,
            r#"<rect class="{class}" x="{LEFT}" y="{:.1}" width="{:.1}" height="12" rx="2"/><text class="t" x="{:.1}" y="{:.1}">{said}</text>"#,
            middle - 6.0,
            (x - LEFT).max(1.0),
            x + 6.0,
            middle + 4.0
        );
    }
    let one = scale.x(1.0);
    let _ = write!(
        out,
        r#"<line class="m" x1="{one:.1}" x2="{one:.1}" y1="{TOP}" y2="{:.1}"/></svg>"#,
        height - AXIS
    );
    out.push('\n');
    out
}

/// From values to places on the x axis.
struct Scale {
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    fn over(least: f64, most: f64) -> Scale {
        if least > 0.0 && most / least >= LOG_FROM {
            return Scale {
                from: least * 0.9,
                to: most * 1.1,
                log: true,
            };
        }
        let from = least.min(0.0);
        let to = if most > from {
            from + (most - from) * 1.05
        } else {
            from + 1.0
        };
        Scale {
            from,
            to,
            log: false,
        }
    }

    fn x(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Round values inside: 1, 2, 5 times powers of ten; only the powers when a logarithmic axis is long.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
            let steps: &[f64] = if self.to / self.from > 1000.0 {
                &[1.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            return decades
                .flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)))
                .filter(|v| (self.from..=self.to).contains(v))
                .collect();
        }
        let rough = (self.to - self.from) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .iter()
            .map(|s| s * power)
            .find(|s| *s >= rough)
            .unwrap_or(10.0 * power);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

fn open(height: f64) -> String {
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" role="img">{STYLE}"#
    )
}

fn vertical(out: &mut String, x: f64, height: f64, said: &str) {
    let bottom = height - AXIS;
    let _ = write!(
        out,
        r#"<line class="g" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{bottom:.1}"/><text class="t f" x="{x:.1}" y="{:.1}" text-anchor="middle">{said}</text>"#,
        bottom + 18.0
    );
}

fn label(out: &mut String, name: &str, middle: f64) {
    let _ = write!(
        out,
        r#"<text class="t" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
        LEFT - 10.0,
        middle + 4.0,
        escape(name)
    );
}

fn thinned(samples: &[f64]) -> Vec<f64> {
    if samples.len() <= MOST_DOTS {
        return samples.to_vec();
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    (0..MOST_DOTS)
        .filter_map(|i| sorted.get(i * last / (MOST_DOTS - 1)).copied())
        .collect()
}

/// Text as XML and HTML take it.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Unit;

    #[test]
    fn ticks_are_round_and_inside() {
        let check = |from: f64, to: f64, log: bool, expected: &[f64]| {
            let ticks = Scale { from, to, log }.ticks();
            assert_eq!(ticks.len(), expected.len(), "{ticks:?}");
            for (a, b) in ticks.iter().zip(expected) {
                assert!((a - b).abs() <= 1e-9 * b.abs(), "{ticks:?}");
            }
        };
        check(0.0, 10.0, false, &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        check(0.0, 0.0042, false, &[0.0, 0.001, 0.002, 0.003, 0.004]);
        check(0.9, 22.0, true, &[1.0, 2.0, 5.0, 10.0, 20.0]);
        check(
            1e-3,
            3e3,
            true,
            &[1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0],
        );
    }

    #[test]
    fn every_series_has_its_lane_and_names_are_escaped() {
        let one = |name: &str, samples: &[f64]| Series {
            samples: samples.to_vec(),
            ..Series::new(name, Unit::Seconds)
        };
        let svg = strips(&[
            one("a<b", &[1.0, 2.0, 3.0]),
            one("none", &[]),
            one("c", &[2.0]),
        ]);
        assert!(svg.contains("a&lt;b") && !svg.contains("none"));
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg.matches(r#"class="m""#).count(), 2);
        assert!(strips(&[]).is_empty());
    }

    #[test]
    fn a_thinned_series_keeps_its_extremes() {
        let many: Vec<f64> = (0..5000).map(f64::from).collect();
        let thin = thinned(&many);
        assert_eq!(
            (thin.len(), thin.first(), thin.last()),
            (MOST_DOTS, Some(&0.0), Some(&4999.0))
        );
    }

    #[test]
    fn the_overview_shows_what_was_not_measured() {
        let svg = overview(&[
            ("met".into(), Some(0.5)),
            ("missed".into(), Some(40.0)),
            ("none".into(), None),
        ]);
        assert!(
            svg.contains("not measured")
                && svg.contains(r#"class="ok""#)
                && svg.contains(r#"class="no""#)
        );
    }
}

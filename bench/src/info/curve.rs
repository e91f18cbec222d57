//! Curves as SVG text: points of several series over one pair of axes, each linear or logarithmic; what was computed and
//! not measured is drawn hollow. Pure. Not here: the report's other plots (`crate::plot`).

use crate::plot::escape;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 230.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// Told apart by people who do not see all colours (Paul Tol's "bright").
const COLOURS: [&str; 10] = [
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#332288", "#882255",
    "#999933", "#555555",
];

pub struct Point {
    pub x: f64,
    pub y: f64,
    /// Not measured, but computed from what was.
    pub computed: bool,
}

pub struct Curve {
    pub name: &'static str,
    pub points: Vec<Point>,
}

/// What an axis says below or beside itself, and how its values are spaced and written.
pub struct Axis {
    pub label: &'static str,
    pub log: bool,
    pub show: fn(f64) -> String,
}

impl Axis {
    /// With its values as they are.
    pub fn of(label: &'static str, log: bool) -> Axis {
        Axis {
            label,
            log,
            show: |value| format!("{value}"),
        }
    }
}

pub fn curves(x: &Axis, y: &Axis, all: &[Curve]) -> String {
    let points = || all.iter().flat_map(|c| &c.points);
    if points().next().is_none() {
        return String::new();
    }
    let across = Span::over(x, points().map(|p| p.x));
    let upward = Span::over(y, points().map(|p| p.y));
    let at_x = |v: f64| LEFT + across.share(v) * (WIDTH - LEFT - RIGHT);
    let at_y = |v: f64| HEIGHT - BOTTOM - upward.share(v) * (HEIGHT - BOTTOM - TOP);
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img"><style>.t{{font:13px system-ui,sans-serif;fill:var(--ink,#333)}}.g{{stroke:var(--grid,#ddd)}}</style>"#
    );
    for tick in across.ticks() {
        let (at, said) = (at_x(tick), escape(&(x.show)(tick)));
        let _ = write!(
            out,
            r#"<line class="g" x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{:.1}"/><text class="t" x="{at:.1}" y="{:.1}" text-anchor="middle">{said}</text>"#,
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 17.0
        );
    }
    for tick in upward.ticks() {
        let (at, said) = (at_y(tick), escape(&(y.show)(tick)));
        let _ = write!(
            out,
            r#"<line class="g" x1="{LEFT}" x2="{:.1}" y1="{at:.1}" y2="{at:.1}"/><text class="t" x="{:.1}" y="{:.1}" text-anchor="end">{said}</text>"#,
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let _ = write!(
        out,
        r#"<text class="t" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text><text class="t" x="14" y="{:.1}" transform="rotate(-90 14 {:.1})" text-anchor="middle">{}</text>"#,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0,
        escape(x.label),
        HEIGHT / 2.0,
        HEIGHT / 2.0,
        escape(y.label)
    );
    for (number, curve) in all.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let line: Vec<String> = curve
            .points
            .iter()
            .map(|p| format!("{:.1},{:.1}", at_x(p.x), at_y(p.y)))
            .collect();
        let _ = write!(
            out,
            r#"<polyline fill="none" stroke="{colour}" stroke-opacity=".5" points="{}"/>"#,
            line.join(" ")
        );
        for point in &curve.points {
            let fill = if point.computed { "none" } else { colour };
            let _ = write!(
                out,
                r#"<circle cx="{:.1}" cy="{:.1}" r="3.5" fill="{fill}" stroke="{colour}"/>"#,
                at_x(point.x),
                at_y(point.y)
            );
        }
        let at = TOP + 14.0 + 20.0 * number as f64;
        let _ = write!(
            out,
            r#"<circle cx="{:.1}" cy="{:.1}" r="4" fill="{colour}"/><text class="t" x="{:.1}" y="{at:.1}">{}</text>"#,
            WIDTH - RIGHT + 16.0,
            at - 4.0,
            WIDTH - RIGHT + 26.0,
            escape(curve.name)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The values of an axis.
struct Span {
    from: f64,
    to: f64,
    log: bool,
}

impl Span {
    fn over(axis: &Axis, values: impl Iterator<Item = f64> + Clone) -> Span {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        match axis.log && least > 0.0 {
            true => Span {
                from: least / 1.3,
                to: most * 1.3,
                log: true,
            },
            false => Span {
                from: least.min(0.0),
                to: most.max(least + 1e-9) * 1.05,
                log: false,
            },
        }
    }

    fn share(&self, value: f64) -> f64 {
        match self.log {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = self.from.log10().ceil() as i32..=self.to.log10().floor() as i32;
            return decades.map(|d| 10f64.powi(d)).collect();
        }
        let rough = (self.to - self.from) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * power);
        let step = steps.into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_its_mark_and_computed_ones_are_hollow() {
        let point = |x: f64, computed| Point {
            x,
            y: 2.0 * x,
            computed,
        };
        let axis = |log| Axis {
            label: "a < b",
            log,
            show: |v| v.to_string(),
        };
        let one = Curve {
            name: "one",
            points: vec![point(1.0, false), point(10.0, false), point(1e6, true)],
        };
        let svg = curves(&axis(true), &axis(false), &[one]);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(
            svg.matches(r##"fill="none" stroke="#4477aa"/>"##).count(),
            1
        );
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN") && !svg.contains("inf"));
        assert!(curves(&axis(true), &axis(true), &[]).is_empty());
    }
}

//! A line over time as SVG text, with strokes where nodes were lost. Pure; colours follow the page's light or dark. Not in it:
//! what is drawn.

use crate::jojo::view::short;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;

/// Text that may stand in HTML, between tags and in attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Points in order of x, which are seconds. Empty text where there are less than two.
///
/// `stepped`: a value holds until the next point; `from_zero`: the axis begins there.
pub fn over_time(
    title: &str,
    points: &[(f64, f64)],
    marks: &[f64],
    stepped: bool,
    from_zero: bool,
) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    if points.len() < 2 || last.0 <= first.0 {
        return String::new();
    }
    let values = || points.iter().map(|p| p.1);
    let mut least = values().fold(f64::INFINITY, f64::min);
    let mut most = values().fold(f64::NEG_INFINITY, f64::max);
    if from_zero {
        least = least.min(0.0);
    }
    if most <= least {
        most = least + 1.0;
    }
    let x = |t: f64| LEFT + (t - first.0) / (last.0 - first.0) * (WIDTH - LEFT - RIGHT);
    let y = |v: f64| HEIGHT - BOTTOM - (v - least) / (most - least) * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{0}</title><text class="t" x="{LEFT}" y="16">{0}</text>"#,
        escape(title)
    );
    for share in [0.0, 0.5, 1.0] {
        let value = least + share * (most - least);
        let at = y(value);
        let _ = write!(
            out,
            r#"<line class="g" x1="{LEFT}" x2="{:.1}" y1="{at:.1}" y2="{at:.1}"/><text class="f" text-anchor="end" x="{:.1}" y="{:.1}">{}</text>"#,
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            short(value)
        );
        let seconds = first.0 + share * (last.0 - first.0);
        let anchor = ["start", "middle", "end"][(share * 2.0) as usize];
        let _ = write!(
            out,
            r#"<text class="f" text-anchor="{anchor}" x="{:.1}" y="{:.1}">{} s</text>"#,
            x(seconds),
            HEIGHT - 6.0,
            short((seconds * 10.0).round() / 10.0)
        );
    }
    for mark in marks.iter().filter(|m| (first.0..=last.0).contains(m)) {
        let _ = write!(
            out,
            r#"<line class="m" x1="{0:.1}" x2="{0:.1}" y1="{TOP}" y2="{1:.1}"/>"#,
            x(*mark),
            HEIGHT - BOTTOM
        );
    }
    out.push_str(r#"<polyline class="l" points=""#);
    let mut before = None;
    for (t, v) in points {
        if let Some(held) = before.filter(|_| stepped) {
            let _ = write!(out, "{:.1},{:.1} ", x(*t), y(held));
        }
        let _ = write!(out, "{:.1},{:.1} ", x(*t), y(*v));
        before = Some(*v);
    }
    out.push_str("\"/></svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_line_axes_and_marks() {
        let svg = over_time(
            "a <b>",
            &[(1.0, 0.0), (2.0, 10.0), (3.0, 5.0)],
            &[2.0, 9.0],
            false,
            true,
        );
        assert!(svg.contains("a &lt;b&gt;"));
        assert_eq!(svg.matches("class=\"m\"").count(), 1);
        assert!(svg.contains(&format!("{LEFT:.1},{:.1}", HEIGHT - BOTTOM)));
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_steady_value_is_drawn_and_a_single_one_is_not() {
        assert!(!over_time("", &[(0.0, 7.0), (1.0, 7.0)], &[], true, false).contains("NaN"));
        assert!(over_time("", &[(0.0, 7.0)], &[], false, false).is_empty());
        assert!(over_time("", &[], &[], false, false).is_empty());
    }
}

//! A run as text: Markdown with plots beside it, one HTML page that stands alone, and the samples as JSON. Pure but for
//! [`write`]. Not here: judging (`goal`), drawing (`plot`).

use crate::fail::{Failure, While};
use crate::goal::{Row, Verdict};
use crate::machine::Machine;
use crate::plot::{self, escape};
use crate::stats::Summary;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// All of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub title: &'static str,
    pub machine: Machine,
    pub rows: Vec<Row>,
}

/// Writes `report.md`, `report.html`, `samples.json` and the plots into a folder.
pub fn write(report: &Report, folder: &Path) -> Result<(), Failure> {
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).doing(|| format!("writing {}", path.display()))
    };
    std::fs::create_dir_all(folder).doing(|| format!("making {}", folder.display()))?;
    put("report.md", &markdown(report))?;
    put("report.html", &html(report))?;
    put("overview.svg", &overview(report))?;
    for row in &report.rows {
        let plot = plot::strips(&row.series);
        if !plot.is_empty() {
            put(&format!("{}.svg", row.key), &plot)?;
        }
        for (number, picture) in row.pictures.iter().enumerate() {
            put(&picture_name(row, number), picture)?;
        }
    }
    let samples = serde_json::to_string_pretty(report)
        .map_err(|e| Failure::said("writing the samples as JSON", &e))?;
    put("samples.json", &samples)
}

fn picture_name(row: &Row, number: usize) -> String {
    format!("{}-{}.svg", row.key, number + 1)
}

/// The table and each row below it.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n{}\n\n", report.title, PREAMBLE);
    out.push_str("| what | reach | measured | met |\n| --- | --- | --- | --- |\n");
    for row in &report.rows {
        for verdict in row.verdicts() {
            let [reach, measured, met] = cells(row, &verdict);
            let _ = writeln!(
                out,
                "| [{}](#{}) | {reach} | {measured} | {met} |",
                row.title, row.key
            );
        }
    }
    out.push_str("\nShare of what is allowed (left of the line is met):\n\n![](overview.svg)\n");
    for row in &report.rows {
        let _ = write!(out, "\n## <a id=\"{0}\"></a>{1}\n\n", row.key, row.title);
        if !row.series.is_empty() {
            let _ = write!(out, "![]({}.svg)\n\n", row.key);
        }
        for number in 0..row.pictures.len() {
            let _ = write!(out, "![]({})\n\n", picture_name(row, number));
        }
        out.push_str("| series | samples | least | middle half | median | p99 | most |\n| --- | --- | --- | --- | --- | --- | --- |\n");
        for cells in series_cells(row) {
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out.push('\n');
        for text in remarks(row) {
            let _ = writeln!(out, "- {text}");
        }
    }
    out.push_str("\n## The machine\n\n");
    for (name, value) in report.machine.lines() {
        let _ = writeln!(out, "- {name}: {value}");
    }
    out
}

/// The table alone, for a terminal.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    for row in &report.rows {
        for verdict in row.verdicts() {
            let [reach, measured, met] = cells(row, &verdict);
            let _ = writeln!(out, "{met:>3}  {}: {reach}: {measured}", row.title);
        }
    }
    out
}

fn html(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}</title><style>{CSS}</style><main><h1>{0}</h1><p>{PREAMBLE}</p>",
        escape(report.title)
    );
    out.push_str("<table><tr><th>what<th>reach<th>measured<th>met");
    for row in &report.rows {
        for verdict in row.verdicts() {
            let [reach, measured, met] = cells(row, &verdict).map(|c| escape(&c));
            let _ = write!(
                out,
                "<tr><td><a href=\"#{}\">{}</a><td>{reach}<td>{measured}<td class=\"{met}\">{met}",
                row.key,
                escape(row.title)
            );
        }
    }
    let _ = write!(
        out,
        "</table><p>Share of what is allowed (left of the line is met):</p>{}",
        overview(report)
    );
    for row in &report.rows {
        let _ = write!(
            out,
            "<h2 id=\"{}\">{}</h2>{}",
            row.key,
            escape(row.title),
            plot::strips(&row.series)
        );
        row.pictures
            .iter()
            .for_each(|picture| out.push_str(picture));
        out.push_str(
            "<table><tr><th>series<th>samples<th>least<th>middle half<th>median<th>p99<th>most",
        );
        for cells in series_cells(row) {
            out.push_str("<tr>");
            for cell in cells {
                let _ = write!(out, "<td>{}", escape(&cell));
            }
        }
        out.push_str("</table><ul>");
        for text in remarks(row) {
            let _ = write!(out, "<li>{}", escape(&text));
        }
        out.push_str("</ul>");
    }
    out.push_str("<h2>The machine</h2><ul>");
    for (name, value) in report.machine.lines() {
        let _ = write!(out, "<li>{}: {}", escape(name), escape(&value));
    }
    out.push_str("</ul></main></html>\n");
    out
}

const PREAMBLE: &str = "All series of a row were taken in one run, in turn (ours, theirs, ours, theirs, …); ratios and \
                        differences are medians over such rounds, with the middle half as the spread.";

const CSS: &str = "\
:root{--ink:#222;--faint:#777;--grid:#ddd;--dot:#4477aa;--median:#cc3311;color-scheme:light dark}\
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--faint:#999;--grid:#444;--dot:#77aadd;--median:#ee7733}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);margin:0}main{max-width:60rem;margin:auto;padding:1rem}\
table{border-collapse:collapse;margin:1rem 0}td,th{text-align:left;padding:.25rem .7rem;border-bottom:1px solid var(--grid)}\
.yes{color:#228833}.no{color:#cc3311}ul{padding-left:1.2rem}a{color:inherit}";

fn cells(row: &Row, verdict: &Verdict) -> [String; 3] {
    let (measured, met) = match &verdict.measured {
        Some(m) => (m.text.clone(), if m.met { "yes" } else { "no" }),
        None => (format!("not measured: {}", row.why_not(&verdict.goal)), "—"),
    };
    [verdict.goal.text.to_owned(), measured, met.to_owned()]
}

fn remarks(row: &Row) -> impl Iterator<Item = String> {
    row.notes
        .iter()
        .cloned()
        .chain(row.missing.iter().map(|m| format!("not measured: {m}")))
}

fn series_cells(row: &Row) -> Vec<[String; 7]> {
    row.series
        .iter()
        .filter_map(|one| {
            let s = Summary::of(&one.samples)?;
            let show = |v| one.unit.show(v);
            Some([
                one.name.clone(),
                s.count.to_string(),
                show(s.least),
                format!("{} – {}", show(s.quarter), show(s.three_quarters)),
                show(s.median),
                show(s.p99),
                show(s.most),
            ])
        })
        .collect()
}

fn overview(report: &Report) -> String {
    let goals: Vec<(String, Option<f64>)> = report
        .rows
        .iter()
        .flat_map(|row| {
            let several = row.goals.len() > 1;
            row.verdicts().into_iter().map(move |v| {
                let name = if several {
                    format!("{}: {}", row.key, v.goal.text)
                } else {
                    row.key.to_owned()
                };
                (name, v.measured.map(|m| m.used))
            })
        })
        .collect();
    plot::overview(&goals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::{Goal, Reach};
    use crate::stats::Unit;

    fn report() -> Report {
        let goal = |ours| Goal {
            text: "≤ 1/5 of <theirs>",
            ours,
            reach: Reach::AtMostTimes {
                theirs: "ssh",
                times: 0.2,
            },
        };
        let mut row = Row::new("exec", "exec, cold", vec![goal("kumiko"), goal("absent")]);
        row.series("kumiko", Unit::Seconds)
            .extend([0.010, 0.012, 0.011]);
        row.series("ssh", Unit::Seconds).extend([0.2, 0.3, 0.2]);
        row.lacks(Some("absent"), &"no such package");
        row.lacks(Some("other"), &"of no concern");
        Report {
            title: "Speed of a site",
            machine: Machine::default(),
            rows: vec![row],
        }
    }

    #[test]
    fn each_goal_says_reach_measured_and_met() {
        let text = markdown(&report());
        assert!(text.contains("| [exec, cold](#exec) | ≤ 1/5 of <theirs> | × 0.0500 (middle half 0.0450 – 0.0525) | yes |"), "{text}");
        assert!(
            text.contains("| not measured: absent: no such package | — |\n"),
            "{text}"
        );
        assert!(text.contains("| kumiko | 3 | 10.0 ms |"), "{text}");
    }

    #[test]
    fn the_page_stands_alone() {
        let text = html(&report());
        assert!(text.contains("<svg") && text.contains("&lt;theirs&gt;"));
        for outside in ["src=", "<link", "http://localhost", "url("] {
            assert!(!text.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_report_is_written_with_its_samples() {
        let folder = tempfile::tempdir().unwrap();
        write(&report(), &folder.path().join("site")).unwrap();
        let json = std::fs::read_to_string(folder.path().join("site/samples.json")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["rows"][0]["series"][0]["samples"][1], 0.012);
        for name in ["report.md", "report.html", "overview.svg", "exec.svg"] {
            assert!(folder.path().join("site").join(name).is_file(), "{name}");
        }
    }
}

//! A Jojo program's history as one page of HTML that needs nothing else: plots over time, what was lost, each node's sums. Pure.
//! Not in it: reading, the plots themselves (`chart`).

use crate::jojo::chart::{escape, over_time};
use crate::jojo::history::{History, Moment};
use crate::jojo::view::{exact, short};
use std::fmt::Write;

const CSS: &str = "\
:root{--ink:#222;--faint:#777;--grid:#ddd;--line:#4477aa;--mark:#cc3311;color-scheme:light dark}\
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--faint:#999;--grid:#444;--line:#77aadd;--mark:#ee7733}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);margin:0}main{max-width:60rem;margin:auto;padding:1rem}\
table{border-collapse:collapse;margin:1rem 0}td,th{text-align:right;padding:.2rem .7rem;border-bottom:1px solid var(--grid)}\
td:first-child,th:first-child{text-align:left;white-space:pre}svg{display:block;width:100%}\
.t{font:600 13px system-ui,sans-serif;fill:var(--ink)}.f{font:12px system-ui,sans-serif;fill:var(--faint)}\
.g{stroke:var(--grid)}.l{fill:none;stroke:var(--line);stroke-width:1.8}.m{stroke:var(--mark);stroke-dasharray:3 3}";

pub fn html(history: &History) -> String {
    let now = history.now();
    let title = format!("{} on {} nodes", escape(&history.code), history.places);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{CSS}</style><main><h1>{title}</h1><p>"
    );
    out.push_str(&match &history.end {
        Some(end) => format!(
            "{}, status {}, after {:.1} s.",
            escape(end.how.lines().next().unwrap_or_default()),
            end.status,
            end.seconds
        ),
        None => format!("Watched until {:.1} s; its end was not seen.", now.seconds),
    });
    if now.work > 0.0 {
        let _ = write!(out, " Work done: {}.", exact(now.work));
    }
    if let Some(best) = now.best {
        let _ = write!(out, " Best: {}.", exact(best));
    }
    out.push_str("</p>\n");
    plots(&mut out, history);
    losses(&mut out, history);
    nodes(&mut out, history);
    out.push_str("</main></html>\n");
    out
}

fn plots(out: &mut String, history: &History) {
    let marks: Vec<f64> = history.losses.iter().map(|l| l.seconds).collect();
    let mut plot = |title: &str, of: &dyn Fn(&Moment) -> Option<f64>, stepped, from_zero| {
        let points: Vec<(f64, f64)> = history
            .moments
            .iter()
            .filter_map(|m| Some((m.seconds, of(m)?)))
            .collect();
        out.push_str(&over_time(title, &points, &marks, stepped, from_zero));
    };
    let works = history.moments.iter().any(|m| m.work > 0.0);
    plot("best so far", &|m| m.best, true, false);
    plot(
        "work in a second",
        &|m| works.then_some(m.work_rate),
        false,
        true,
    );
    plot("work done", &|m| works.then_some(m.work), false, true);
    plot(
        "messages in a second, over all links",
        &|m| Some(m.messages),
        false,
        true,
    );
    plot(
        "bytes in a second, over all links",
        &|m| Some(m.bytes),
        false,
        true,
    );
    plot("nodes up", &|m| Some(m.nodes_up as f64), true, true);
}

fn losses(out: &mut String, history: &History) {
    if history.losses.is_empty() {
        out.push_str("<p>No node was lost.</p>\n");
        return;
    }
    out.push_str("<h2>Lost</h2><table><tr><th>node<th>place<th>at<th>why");
    for loss in &history.losses {
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{:.1} s<td>{}",
            escape(&loss.name),
            escape(&loss.place),
            loss.seconds,
            escape(&loss.why)
        );
    }
    out.push_str("</table>\n");
    if history.more_losses > 0 {
        let _ = write!(out, "<p>And {} more.</p>", history.more_losses);
    }
}

fn nodes(out: &mut String, history: &History) {
    out.push_str(
        "<h2>Nodes</h2><p>As they were last heard of, since each began: messages and bytes that passed its link to its parent, \
         down and up, and that it sent to siblings directly.</p><table><tr><th>node<th>state<th>messages down<th>up<th>aside\
         <th>bytes down<th>up<th>aside<th>lost<th>figures",
    );
    for node in &history.nodes {
        let figures: Vec<String> = node
            .figures
            .iter()
            .map(|(name, value)| format!("{} {}", escape(name), exact(*value)))
            .collect();
        let _ = write!(
            out,
            "<tr><td>{}{}<td>{}",
            "  ".repeat(node.depth()),
            escape(&node.name),
            escape(&node.state)
        );
        for which in 0..2 {
            for pair in [node.down, node.up, node.aside] {
                let _ = write!(out, "<td>{}", short(pair[which] as f64));
            }
        }
        let _ = write!(out, "<td>{}<td>{}", node.faults, figures.join(", "));
    }
    out.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stands_alone_and_shows_what_was_lost() {
        let mut history = History::default();
        for line in [
            r#"{"jojo":1,"code":"a<b>","places":2,"t":0}"#,
            r#"{"t":1,"nodes":[{"place":"","name":"client","state":"up","figures":{"best":9}}]}"#,
            r#"{"t":1.5,"lost":"0","name":"<script>","why":"closed & gone"}"#,
            r#"{"t":2,"nodes":[{"place":"","name":"client","state":"up","figures":{"best":7,"work":3}}]}"#,
            r#"{"t":3,"end":"done","status":0}"#,
        ] {
            history.line(line).unwrap();
        }
        let page = html(&history);
        assert!(
            !page.contains("<script") && !page.contains("http"),
            "{page}"
        );
        for piece in [
            "a&lt;b&gt;",
            "&lt;script&gt;",
            "best so far",
            "done, status 0, after 3.0 s",
            "class=\"m\"",
            "Best: 7.",
        ] {
            assert!(page.contains(piece), "{piece}");
        }
        assert!(!html(&History::default()).contains("NaN"));
    }
}

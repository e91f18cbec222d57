//! A Jojo program's history as text: a screen that is drawn again and again, and single lines where there is no terminal. Pure.
//! Not in it: the terminal, reading.

use crate::jojo::history::{History, Moment, Node};

/// Columns of figures behind a node's name.
const HEAD: [&str; 6] = ["msg/s v", "msg/s ^", "B/s v", "B/s ^", "work/s", "handlers"];
const COLUMN: usize = 9;
const NAME_LEAST: usize = 16;

/// Five digits at most, with what a thousand of them is called.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let (by, unit) = match size {
        s if s >= 1e12 => (1e12, " T"),
        s if s >= 1e9 => (1e9, " G"),
        s if s >= 1e6 => (1e6, " M"),
        s if s >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let scaled = value / by;
    let digits = if scaled.fract() == 0.0 || scaled.abs() >= 100.0 {
        0
    } else if scaled.abs() >= 1.0 {
        1
    } else {
        3
    };
    format!("{scaled:.digits$}{unit}")
}

/// A name or message of a node, fit for a terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// All in one line.
pub fn line(history: &History) -> String {
    let now = history.now();
    let faults = history.losses.len() + history.more_losses;
    let mut parts = vec![
        format!("{:.1} s", now.seconds),
        format!("{} of {} nodes up", now.nodes_up, history.places),
        format!("{} lost", faults),
        format!("{} msg/s", short(now.messages)),
        format!("{}B/s", spaced(now.bytes)),
    ];
    parts.extend(work(history, now));
    parts.join(", ")
}

fn spaced(value: f64) -> String {
    let text = short(value);
    if text.contains(' ') { text } else { text + " " }
}

/// What the program says of itself: work first, then the client's own figures.
fn work(history: &History, now: Moment) -> Vec<String> {
    let mut parts = Vec::new();
    if now.work > 0.0 {
        parts.push(format!(
            "work {} ({}/s)",
            short(now.work),
            short(now.work_rate)
        ));
    }
    if let Some(client) = history.nodes.iter().find(|n| n.place.is_empty()) {
        let own = client.figures.iter().filter(|(name, _)| *name != "work");
        parts.extend(own.map(|(name, value)| format!("{} {}", printable(name), exact(*value))));
    }
    parts
}

/// A figure that people compare: as it is.
pub fn exact(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:.6}")
    }
}

/// The loss that came last, or the end.
pub fn event(history: &History) -> Option<String> {
    if let Some(end) = &history.end {
        let how = end.how.lines().next().unwrap_or_default();
        return Some(format!("{:.1} s: {}", end.seconds, printable(how)));
    }
    history.losses.last().map(|loss| {
        format!(
            "{:.1} s: lost {} ({}): {}",
            loss.seconds,
            printable(&loss.name),
            printable(&loss.place),
            printable(&loss.why)
        )
    })
}

/// A screen of at most so many rows and columns, without its last line end.
pub fn screen(history: &History, rows: usize, columns: usize) -> Vec<String> {
    let name_width = columns
        .saturating_sub(HEAD.len() * COLUMN)
        .max(NAME_LEAST)
        .min(name_most(history).max(NAME_LEAST));
    let mut out = vec![
        format!("{}: {}", printable(&history.code), line(history)),
        row("node", name_width, HEAD.map(str::to_owned)),
    ];
    let room = rows.saturating_sub(out.len() + 2);
    let hidden = history.nodes.len().saturating_sub(room);
    for node in history.nodes.iter().take(room) {
        out.push(row(&label(node), name_width, figures(node)));
    }
    if hidden > 0 {
        out.push(format!("  and {hidden} more"));
    }
    out.extend(event(history));
    for text in &mut out {
        if text.chars().count() > columns {
            *text = text.chars().take(columns).collect();
        }
    }
    out
}

fn label(node: &Node) -> String {
    let state = if node.state == "up" {
        String::new()
    } else {
        format!(" [{}]", printable(&node.state))
    };
    let faults = if node.faults == 0 {
        String::new()
    } else {
        format!(" [{} lost]", node.faults)
    };
    format!(
        "{}{}{state}{faults}",
        "  ".repeat(node.depth()),
        printable(&node.name)
    )
}

fn name_most(history: &History) -> usize {
    let lengths = history.nodes.iter().map(|n| label(n).chars().count());
    lengths.max().unwrap_or(0) + 1
}

fn figures(node: &Node) -> [String; HEAD.len()] {
    let link = |value: f64| {
        if node.place.is_empty() {
            String::new()
        } else {
            short(value)
        }
    };
    let work = if node.figures.contains_key("work") {
        short(node.work_rate)
    } else {
        String::new()
    };
    [
        link(node.down_rate[0]),
        link(node.up_rate[0]),
        link(node.down_rate[1]),
        link(node.up_rate[1]),
        work,
        node.handlers.to_string(),
    ]
}

fn row(name: &str, width: usize, cells: [String; HEAD.len()]) -> String {
    let mut out: String = name.chars().take(width).collect();
    out.push_str(&" ".repeat(width - out.chars().count()));
    for cell in cells {
        out.push_str(&format!("{cell:>COLUMN$}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let mut history = History::default();
        for line in [
            r#"{"jojo":1,"code":"Queens","places":3,"t":0}"#,
            r#"{"t":1,"nodes":[{"place":"","name":"client","state":"up","figures":{"best":73,"left":4}},
               {"place":"0","name":"n0","state":"up","faults":1,"up":[20000,2500000],"down":[5,70],"figures":{"work":1000}},
               {"place":"0.0","name":"bad\u001b[2Jname","state":"gone"}]}"#,
            r#"{"t":1.5,"lost":"0.0","name":"bad","why":"closed"}"#,
        ] {
            history.line(line).unwrap();
        }
        history
    }

    #[test]
    fn a_screen_has_the_tree_its_links_and_the_last_loss() {
        let screen = screen(&history(), 24, 100);
        let all = screen.join("\n");
        for piece in [
            "Queens: 1.0 s, 2 of 3 nodes up, 1 lost",
            "work 1000 (1000/s), best 73, left 4",
            "  n0 [1 lost]",
            "20 k",
            "2.5 M",
            "[gone]",
            "1.5 s: lost bad (0.0): closed",
        ] {
            assert!(all.contains(piece), "{piece:?} is not in:\n{all}");
        }
        assert!(!all.contains('\u{1b}'), "{all:?}");
    }

    #[test]
    fn a_screen_is_no_larger_than_its_terminal() {
        for (rows, columns) in [(24, 80), (5, 20), (1, 1)] {
            let screen = screen(&history(), rows, columns);
            assert!(screen.len() <= rows.max(5), "{rows}: {screen:?}");
            assert!(screen.iter().all(|l| l.chars().count() <= columns));
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.250"),
            (9999.0, "9999"),
            (12345.0, "12.3 k"),
            (2.5e6, "2.5 M"),
            (1e9, "1 G"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}

//! How entries look to people. What others named is shown without control characters.

use crate::output::table;
use kumiko_directory::ask::{EntryView, Status};
use kumiko_directory::schema::{self, Unit};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is shown of a host when nothing else is asked for.
const USUAL: [&str; 7] = [
    "host",
    "cpus",
    "cpu_free",
    "load",
    "mem_free",
    "vo",
    "stale_since",
];

pub struct Columns {
    /// As typed, and in LDAP.
    names: Vec<(String, String)>,
}

impl Columns {
    pub fn of(typed: &[String]) -> Columns {
        let usual = USUAL.map(str::to_owned);
        let typed = if typed.is_empty() { &usual[..] } else { typed };
        let full = |name: &String| {
            let full = schema::short(name).map_or(name.as_str(), |a| a.name);
            (name.clone(), full.to_owned())
        };
        Columns {
            names: typed.iter().map(full).collect(),
        }
    }

    pub fn table(&self, entries: &[EntryView]) -> String {
        let header: Vec<String> = self.names.iter().map(|(n, _)| n.to_uppercase()).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> = entries.iter().map(|e| self.cells(e)).collect();
        table(&header, &rows)
    }

    pub fn line(&self, entry: &EntryView) -> String {
        let cells = self.cells(entry);
        let named = self.names.iter().zip(&cells).enumerate();
        let shown = named.filter(|(_, (_, cell))| !cell.is_empty());
        let words: Vec<String> = shown
            .map(|(index, ((name, _), cell))| match (index, name.as_str()) {
                (0, "host") => cell.clone(),
                (_, name) => format!("{name}={cell}"),
            })
            .collect();
        words.join("  ")
    }

    fn cells(&self, entry: &EntryView) -> Vec<String> {
        let cell = |(_, name): &(String, String)| match name.as_str() {
            "Mds-Vo-name" => place(entry),
            name => {
                let values = entry
                    .attributes
                    .iter()
                    .find(|(n, _)| n.eq_ignore_ascii_case(name));
                let values = values.map_or(&[][..], |(_, v)| v);
                let shown: Vec<String> = values.iter().map(|v| value(name, v)).collect();
                plain(&shown.join(" "))
            }
        };
        self.names.iter().map(cell).collect()
    }
}

/// Where in the tree a host is: the names of the indexes above it.
fn place(entry: &EntryView) -> String {
    let parts = entry.dn.split(',').map(str::trim);
    let names: Vec<&str> = parts
        .filter_map(|p| p.strip_prefix("Mds-Vo-name="))
        .collect();
    plain(&names.join(" < "))
}

fn value(name: &str, value: &str) -> String {
    let unit = schema::attribute(name).map_or(Unit::None, |a| a.unit);
    match (unit, value.parse::<f64>()) {
        (Unit::Mebibytes, Ok(mib)) if mib >= 1024.0 => format!("{:.1}GiB", mib / 1024.0),
        (Unit::Mebibytes, Ok(mib)) => format!("{mib}MiB"),
        (Unit::Hundredths, Ok(n)) => format!("{:.2}", n / 100.0),
        (Unit::Megahertz, Ok(n)) => format!("{n}MHz"),
        _ => value.to_owned(),
    }
}

fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// An entry in full.
pub fn ldif(entry: &EntryView) -> String {
    let mut out = format!("dn: {}\n", plain(&entry.dn));
    for (name, values) in &entry.attributes {
        for value in values {
            // Writing to a String does not fail.
            let _ = writeln!(out, "{}: {}", plain(name), plain(value));
        }
    }
    if let Some(measured_ms) = entry.measured_ms {
        let _ = writeln!(out, "# measured {} ago", ago(measured_ms));
    }
    out
}

pub fn status(status: &Status) -> String {
    let mut out = format!(
        "{} ({}): {} entries after {} changes, started {}\n",
        plain(&status.name),
        plain(&status.suffix),
        status.entries,
        status.sequence,
        plain(&status.started)
    );
    for above in &status.above {
        let _ = writeln!(
            out,
            "above: {}: {}",
            plain(&above.address),
            plain(&above.state)
        );
    }
    for source in &status.sources {
        let stale = source.stale_since_ms;
        let stale = stale.map_or(String::new(), |ms| format!(", not heard for {}", ago(ms)));
        let _ = writeln!(
            out,
            "below: {}: {} entries{stale} ({})",
            plain(&source.name),
            source.entries,
            plain(&source.subject)
        );
    }
    out
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

fn ago(then_ms: u64) -> String {
    match now_ms().saturating_sub(then_ms) / 1000 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

/// The time of day, UTC, with milliseconds.
pub fn clock() -> String {
    let ms = now_ms() % 86_400_000;
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{h:02}:{m:02}:{s:02}.{:03}", ms % 1000)
}

//! What all benches do alike: measure the rows that were asked for, tell what each lacks, and write the report down. Not here: any
//! measurement, and what a report looks like (`report`).

use crate::fail::Failure;
use crate::goal::Row;
use crate::guard;
use crate::machine::Machine;
use crate::report::{self, Report};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The keys of rows, which are what `--only` takes.
pub const fn keys<M, const N: usize>(rows: &[(&'static str, M); N]) -> [&'static str; N] {
    let mut keys = [""; N];
    let mut at = 0;
    while at < N {
        keys[at] = rows[at].0;
        at += 1;
    }
    keys
}

/// One run of a bench, from before anything of it has started.
pub struct Run<'o> {
    begun: Instant,
    machine: Machine,
    quick: bool,
    /// Empty: all.
    only: &'o [String],
    rows: Vec<Row>,
}

impl<'o> Run<'o> {
    pub fn begin(quick: bool, only: &'o [String]) -> Run<'o> {
        Run {
            begun: Instant::now(),
            machine: Machine::here(),
            quick,
            only,
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, key: &str, measure: impl FnOnce() -> Row) {
        self.rows(key, || vec![measure()]);
    }

    /// Measures what stands under this key, if it was asked for.
    pub fn rows(&mut self, key: &str, measure: impl FnOnce() -> Vec<Row>) {
        if !self.only.is_empty() && !self.only.iter().any(|one| one == key) {
            return;
        }
        eprintln!("bench: {key} ...");
        let rows = measure();
        guard::go_on();
        for row in &rows {
            for missing in &row.missing {
                eprintln!("bench: {}: {missing}", row.key);
            }
        }
        self.rows.extend(rows);
    }

    /// `sizes`: what else this run was like, as in "200 jobs alive".
    pub fn report(mut self, title: &'static str, sizes: &[String]) -> Report {
        self.machine.ended();
        let pace = if self.quick { "quick" } else { "full" };
        let seconds = format!("{} s", self.begun.elapsed().as_secs());
        self.machine.run = [&[pace.to_owned(), seconds], sizes].concat().join(", ");
        Report {
            title,
            machine: self.machine,
            rows: self.rows,
        }
    }
}

/// Where the report of a bench goes: what `--out` says, else a folder of its name.
pub fn folder(name: &str, out: Option<&Path>) -> PathBuf {
    out.map_or_else(|| Path::new("target/bench").join(name), Path::to_owned)
}

/// Writes the report down; where its page is.
pub fn written(report: &Report, folder: &Path) -> Result<PathBuf, Failure> {
    report::write(report, folder)?;
    eprint!("{}", report::table(report));
    Ok(folder.join("report.html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_not_asked_for_are_not_measured() {
        const ROWS: [(&str, u8); 3] = [("one", 1), ("two", 2), ("three", 3)];
        assert_eq!(keys(&ROWS), ["one", "two", "three"]);
        let check = |only: &[&str], expected: &[&str]| {
            let only: Vec<String> = only.iter().map(|key| (*key).to_owned()).collect();
            let mut run = Run::begin(true, &only);
            for key in keys(&ROWS) {
                run.row(key, || Row::new(key, key, Vec::new()));
            }
            let report = run.report("A title", &["3 jobs".to_owned()]);
            let found: Vec<&str> = report.rows.iter().map(|row| row.key).collect();
            assert_eq!(found, expected);
            let told = &report.machine.run;
            assert!(
                told.starts_with("quick, ") && told.ends_with(" s, 3 jobs"),
                "{told}"
            );
        };
        check(&[], &["one", "two", "three"]);
        check(&["two"], &["two"]);
    }
}

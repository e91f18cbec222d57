//! What tests said: passed, failed, skipped, and how long each part took. Pure: lines come in, numbers go out.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A test that could not run here: `SKIP <test>: missing <capability>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    pub test: String,
    pub missing: String,
}

impl Skip {
    fn parse(line: &str) -> Option<Self> {
        let (test, missing) = line
            .trim()
            .strip_prefix("SKIP ")?
            .split_once(": missing ")?;
        Some(Skip {
            test: test.to_owned(),
            missing: missing.to_owned(),
        })
    }
}

/// xtask/ledger.toml: skips that `--strict` forgives.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    #[serde(default)]
    skip: Vec<Forgiven>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Forgiven {
    test: String,
    missing: String,
    #[expect(dead_code, reason = "written for the reader; no entry may lack it")]
    reason: String,
}

impl Ledger {
    pub fn forgives(&self, skip: &Skip) -> bool {
        self.skip
            .iter()
            .any(|f| f.test == skip.test && f.missing == skip.missing)
    }
}

/// Lines kept of what a test said as it failed: the place and the beginning of the message.
const REASON_LINES: usize = 6;

/// One part of a run.
#[derive(Debug, Default)]
pub struct Part {
    pub name: String,
    pub took: Duration,
    /// As its programs counted: a test that skipped itself is among the passed.
    pub passed: usize,
    /// What failed, by name.
    pub failed: Vec<String>,
    /// What tests said as they panicked, in order; those of threads that are no tests too.
    reasons: Vec<String>,
    /// Lines still to come of the last reason.
    reason_goes_on: usize,
    pub skips: BTreeSet<Skip>,
    /// Tests marked `ignore`: what takes long, left for `--all`.
    pub ignored: usize,
}

impl Part {
    pub fn new(name: impl Into<String>) -> Self {
        Part {
            name: name.into(),
            ..Part::default()
        }
    }

    pub fn well(&self) -> bool {
        self.failed.is_empty()
    }

    /// Takes one line that a test program printed.
    pub fn line(&mut self, line: &str) {
        if line.starts_with("thread '") && line.contains(" panicked at ") {
            self.reason_goes_on = REASON_LINES;
        } else if line.starts_with("note: ") || line.starts_with("stack backtrace:") {
            self.reason_goes_on = 0;
        }
        if self.reason_goes_on > 0 {
            self.reason_goes_on -= 1;
            self.reasons.push(line.to_owned());
        }
        if let Some(skip) = Skip::parse(line) {
            self.skips.insert(skip);
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            self.passed += number_before(rest, " passed");
            self.ignored += number_before(rest, " ignored");
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|l| l.strip_suffix(" ... FAILED"))
        {
            self.failed.push(name.to_owned());
        }
    }
}

fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().unwrap_or("");
    before
        .rsplit(|c: char| !c.is_ascii_digit())
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// All parts of a run.
#[derive(Debug, Default)]
pub struct Tally {
    pub parts: Vec<Part>,
}

impl Tally {
    fn skips(&self) -> BTreeSet<&Skip> {
        self.parts.iter().flat_map(|p| &p.skips).collect()
    }

    fn failed(&self) -> usize {
        self.parts.iter().map(|p| p.failed.len()).sum()
    }

    /// Skips that make a strict run fail.
    pub fn unforgiven<'a>(&'a self, ledger: &Ledger) -> Vec<&'a Skip> {
        self.skips()
            .into_iter()
            .filter(|skip| !ledger.forgives(skip))
            .collect()
    }

    pub fn well(&self) -> bool {
        self.failed() == 0
    }

    /// The minutes, the failures and the skips: what stands above the closing line.
    pub fn report(&self) -> String {
        let mut text = String::from("\nminutes  passed  failed  part\n");
        for part in &self.parts {
            let minutes = part.took.as_secs_f64() / 60.0;
            text += &format!(
                "{minutes:7.1} {:7} {:7}  {}\n",
                part.passed,
                part.failed.len(),
                part.name
            );
        }
        let total: Duration = self.parts.iter().map(|p| p.took).sum();
        text += &format!("{:7.1}  in all\n", total.as_secs_f64() / 60.0);
        let ignored: usize = self.parts.iter().map(|p| p.ignored).sum();
        if ignored > 0 {
            text += &format!("{ignored} long tests were left for --all\n");
        }
        for (part, name) in self
            .parts
            .iter()
            .flat_map(|p| p.failed.iter().map(move |f| (&p.name, f)))
        {
            text += &format!("FAILED {part}: {name}\n");
        }
        let failed = self.parts.iter().filter(|part| !part.well());
        for reason in failed.flat_map(|part| &part.reasons) {
            text += &format!("  {reason}\n");
        }
        for skip in self.skips() {
            text += &format!("SKIP {}: missing {}\n", skip.test, skip.missing);
        }
        text
    }
}

/// The closing line.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.skips().len();
        let passed: usize = self.parts.iter().map(|p| p.passed).sum();
        write!(
            f,
            "{} passed, {} failed, {skipped} skipped",
            passed.saturating_sub(skipped),
            self.failed()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(lines: &[&str]) -> Part {
        let mut part = Part::new("unit");
        lines.iter().for_each(|line| part.line(line));
        part
    }

    #[test]
    fn results_of_many_programs_are_summed() {
        let tally = Tally {
            parts: vec![part(&[
                "test a::b ... ok",
                "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
                "test c ... FAILED",
                "thread 'c' (17) panicked at src/c.rs:3:4:",
                "one is not two",
                "note: run with `RUST_BACKTRACE=1`",
                "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            ])],
        };
        assert_eq!(tally.to_string(), "15 passed, 1 failed, 0 skipped");
        assert!(!tally.well());
        let said =
            "FAILED unit: c\n  thread 'c' (17) panicked at src/c.rs:3:4:\n  one is not two\n";
        assert!(tally.report().ends_with(said), "{}", tally.report());
    }

    #[test]
    fn a_test_in_java_tells_its_reason_as_one_in_rust() {
        let tally = Tally {
            parts: vec![part(&[
                "test FaultTest::a ... FAILED",
                "thread 'FaultTest::a' panicked at java.lang.AssertionError: not soon",
                "\tat silf.jojo.testkit.Check.that(Check.java:12)",
                "\tat silf.jojo.core.FaultTest.a(FaultTest.java:34)",
                "\tat java.base/3",
                "\tat java.base/4",
                "\tat java.base/5",
                "\tat java.base/6",
                "test FaultTest::b ... ok",
                "test result: FAILED. 1 passed; 1 failed; 0 ignored",
            ])],
        };
        let report = tally.report();
        let (_, told) = report.split_once("FAILED unit: FaultTest::a\n").unwrap();
        assert!(told.starts_with(
            "  thread 'FaultTest::a' panicked at java.lang.AssertionError: not soon\n"
        ));
        assert!(told.contains("FaultTest.java:34"), "{told}");
        assert!(!told.contains("java.base/6"), "{told}");
    }

    #[test]
    fn a_skip_is_counted_once_and_not_as_passed() {
        let lines = [
            "SKIP proxies_are_taken: missing globus-proxy-utils",
            "SKIP proxies_are_taken: missing globus-proxy-utils",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ];
        assert_eq!(
            Tally {
                parts: vec![part(&lines)]
            }
            .to_string(),
            "1 passed, 0 failed, 1 skipped"
        );
    }

    #[test]
    fn the_ledger_forgives_what_it_names() {
        let tally = Tally {
            parts: vec![part(&["SKIP a: missing x", "SKIP b: missing x"])],
        };
        let ledger: Ledger =
            toml::from_str("[[skip]]\ntest = \"a\"\nmissing = \"x\"\nreason = \"there is none\"")
                .unwrap();
        assert_eq!(
            tally
                .unforgiven(&ledger)
                .iter()
                .map(|s| s.test.as_str())
                .collect::<Vec<_>>(),
            ["b"]
        );
        assert_eq!(tally.unforgiven(&Ledger::default()).len(), 2);
    }
}

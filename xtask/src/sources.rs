//! The Rust sources of the repository, and what holds for each of them whatever crate it is in.

use crate::fail::Failure;
use crate::shell::{self, Shell};
use std::fs;
use std::path::{Path, PathBuf};

/// A reader keeps a file of this length in mind at once; beyond it, it is two files.
const MOST_LINES: usize = 700;

/// Folders of Rust sources, below the root.
const FOLDERS: [&str; 5] = ["crates", "xtask", "e2e", "bench", "fuzz/fuzz_targets"];

#[derive(Debug)]
pub struct Source {
    /// From the root.
    pub path: PathBuf,
    pub text: String,
}

impl Source {
    /// The folder of its crate: `job` for crates/job/src/id.rs, `xtask` for xtask/src/main.rs.
    pub fn package(&self) -> &str {
        let mut parts = self.path.iter().filter_map(|p| p.to_str());
        match parts.next() {
            Some("crates") => parts.next().unwrap_or(""),
            first => first.unwrap_or(""),
        }
    }

    pub fn is_test(&self) -> bool {
        self.path.iter().any(|p| p == "tests" || p == "tests.rs")
    }

    /// Its lines that are built into programs, numbered from 1: up to the tests at its end, comments left out.
    pub fn program_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines
            .take_while(|(_, line)| !self.is_test() && *line != "#[cfg(test)]")
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(index, line)| (index + 1, line))
    }
}

/// Every Rust source, sorted by path.
pub fn all(shell: &Shell) -> Result<Vec<Source>, Failure> {
    below(shell, &FOLDERS, "rs")
}

/// The Java sources of Jojo's core, without its tests.
pub fn java(shell: &Shell) -> Result<Vec<Source>, Failure> {
    below(shell, &["java/jojo/src/main/java"], "java")
}

fn below(shell: &Shell, folders: &[&str], extension: &str) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for folder in folders {
        for path in files_below(&shell.path(folder))? {
            if path.extension().is_some_and(|e| e == extension) {
                let text = shell::read(&path)?;
                sources.push(Source {
                    path: path.strip_prefix(&shell.root).unwrap_or(&path).to_owned(),
                    text,
                });
            }
        }
    }
    Ok(sources)
}

/// Every file below a folder, sorted; none if there is no such folder. Links are not followed, `target` is not entered.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |cause| Failure::File {
        path: folder.to_owned(),
        cause,
    };
    let mut files = Vec::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    let mut entries = fs::read_dir(folder)
        .map_err(wrong)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(wrong)?;
    entries.sort_by_key(|e| e.file_name());
    for entry in entries {
        let kind = entry.file_type().map_err(wrong)?;
        if kind.is_dir() && entry.file_name() != "target" {
            files.extend(files_below(&entry.path())?);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Each file says first what it is, and none is too long.
pub fn check(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        if lines > MOST_LINES {
            findings.push(format!(
                "{}: {lines} lines, {MOST_LINES} are the most: split it",
                source.path.display()
            ));
        }
        let opening = source
            .text
            .lines()
            .find(|l| !l.trim().is_empty() && !l.starts_with("#!["));
        if !opening.is_some_and(|l| l.starts_with("//!")) {
            findings.push(format!(
                "{}: does not open with what it is (`//! ...`)",
                source.path.display()
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_source_knows_its_package() {
        for (path, package) in [
            ("crates/job/src/id.rs", "job"),
            ("xtask/src/main.rs", "xtask"),
        ] {
            assert_eq!(source(path, "").package(), package);
        }
    }

    #[test]
    fn tests_and_comments_are_not_the_program() {
        let with_tests = source(
            "crates/job/src/id.rs",
            "//! x\nuse a;\n// std::fs\n#[cfg(test)]\nmod tests {}\n",
        );
        assert_eq!(
            with_tests.program_lines().collect::<Vec<_>>(),
            [(2, "use a;")]
        );
        assert_eq!(
            source("crates/job/tests/all.rs", "use a;")
                .program_lines()
                .count(),
            0
        );
    }

    #[test]
    fn a_file_must_say_what_it_is_and_be_short() {
        assert!(check(&[source("a.rs", "#![no_main]\n//! Good.\n")]).is_empty());
        assert_eq!(check(&[source("a.rs", "use b;\n")]).len(), 1);
        assert_eq!(
            check(&[source("a.rs", &"//! Long.\n".repeat(701))]).len(),
            1
        );
    }
}

//! The documents against the tree: a heading for each crate, a diagram drawn from the ring table, links that lead
//! somewhere.

use crate::fail::Failure;
use crate::markdown;
use crate::rings::{self, Package, Table};
use crate::shell::{self, Shell};
use crate::sources;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- drawn by `./x docs` -->\n";
const END: &str = "<!-- end -->";

/// Draws the diagram into ARCHITECTURE.md.
pub fn draw(shell: &Shell) -> Result<(), Failure> {
    let path = shell.path(PAGE);
    let text = shell::read(&path)?;
    let drawn = redrawn(
        &text,
        &diagram(&Table::read(shell)?, &rings::packages(shell)?),
    )
    .ok_or_else(|| Failure::NoMarks {
        path: path.clone(),
        begin: BEGIN.trim_end(),
        end: END,
    })?;
    fs::write(&path, drawn).map_err(|cause| Failure::File { path, cause })
}

fn redrawn(text: &str, diagram: &str) -> Option<String> {
    markdown::between(text, BEGIN, END)
        .map(|(before, _, after)| format!("{before}{diagram}{after}"))
}

/// The rings from above, each crate with its arrows: the direct ones, so that a new one is seen in review.
fn diagram(table: &Table, packages: &[Package]) -> String {
    let mut text = String::from("```text\n");
    for (number, ring) in table.ring.iter().enumerate().rev() {
        let title = if ring.name == "tools" {
            "tools".to_owned()
        } else {
            format!("ring {number}, {}", ring.name)
        };
        let _ = writeln!(text, "{title}");
        for name in &ring.crates {
            let arrows = packages.iter().find(|p| p.name == *name).map(|p| &p.ours);
            let list = arrows
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" ");
            let line = if list.is_empty() {
                format!("  {name}")
            } else {
                format!("  {name:<11} → {list}")
            };
            let _ = writeln!(text, "{line}");
        }
    }
    text.push_str("```\n");
    text
}

/// What in ARCHITECTURE.md is not so in the tree.
pub fn check(shell: &Shell, table: &Table, packages: &[Package]) -> Result<Vec<String>, Failure> {
    let text = shell::read(&shell.path(PAGE))?;
    let mut findings = Vec::new();
    let headed: BTreeSet<&str> = markdown::headings(&text)
        .into_iter()
        .filter_map(|(_, heading)| heading.strip_prefix("`crates/")?.split('`').next())
        .collect();
    let crates: BTreeSet<&str> = packages
        .iter()
        .filter(|p| p.manifest.starts_with(shell.path("crates")))
        .map(|p| p.name.as_str())
        .collect();
    findings.extend(
        crates
            .difference(&headed)
            .map(|c| format!("{PAGE}: no heading `crates/{c}`")),
    );
    findings.extend(
        headed
            .difference(&crates)
            .map(|c| format!("{PAGE}: a heading `crates/{c}`, but no such crate")),
    );
    if redrawn(&text, &diagram(table, packages)).is_none_or(|drawn| drawn != text) {
        findings.push(format!(
            "{PAGE}: the rings changed since they were drawn: `./x docs` draws them"
        ));
    }
    Ok(findings)
}

/// Links of every page that lead nowhere.
pub fn check_links(shell: &Shell) -> Result<Vec<String>, Failure> {
    let mut pages: Vec<PathBuf> = Vec::new();
    let entries = fs::read_dir(&shell.root).map_err(|cause| Failure::File {
        path: shell.root.clone(),
        cause,
    })?;
    pages.extend(entries.flatten().map(|e| e.path()).filter(|p| p.is_file()));
    for folder in ["docs", "spec", "testbeds", "bench", "crates"] {
        pages.extend(sources::files_below(&shell.path(folder))?);
    }
    let mut findings = Vec::new();
    for page in pages
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
    {
        let text = shell::read(page)?;
        for (number, link) in markdown::links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            if !leads_somewhere(page, &text, link)? {
                let shown = page.strip_prefix(&shell.root).unwrap_or(page).display();
                findings.push(format!("{shown}:{number}: the link {link} leads nowhere"));
            }
        }
    }
    Ok(findings)
}

fn leads_somewhere(page: &Path, text: &str, link: &str) -> Result<bool, Failure> {
    let (file, anchor) = link
        .split_once('#')
        .map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() {
        page.to_owned()
    } else {
        page.with_file_name(file)
    };
    let Some(anchor) = anchor else {
        return Ok(target.exists());
    };
    if !target.is_file() {
        return Ok(false);
    }
    let other = if file.is_empty() {
        text.to_owned()
    } else {
        shell::read(&target)?
    };
    Ok(markdown::headings(&other)
        .iter()
        .any(|(_, heading)| markdown::anchor(heading) == anchor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagram_is_drawn_between_its_marks_and_stays() {
        let page = format!("# A\n{BEGIN}old\n{END}\nrest\n");
        let drawn = redrawn(&page, "new\n").unwrap();
        assert_eq!(drawn, format!("# A\n{BEGIN}new\n{END}\nrest\n"));
        assert_eq!(redrawn(&drawn, "new\n").unwrap(), drawn);
        assert!(redrawn("# A\n", "new\n").is_none());
    }
}

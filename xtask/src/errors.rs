//! spec/errors.toml against itself and against the codes in the sources, in both directions.

use crate::fail::Failure;
use crate::shell::{self, Shell};
use crate::sources::{self, Source};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "spec/errors.toml";

/// One table of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    meaning: String,
    #[expect(dead_code, reason = "parsing it is the check")]
    fault: Fault,
    #[expect(dead_code, reason = "parsing it is the check")]
    retry: Retry,
    exit: u8,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fault {
    Peer,
    Caller,
    Site,
    Guest,
    Bug,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Retry {
    No,
    Later,
    Now,
}

/// Exit statuses that a refusal may have; the rest belong to programs that ran.
const EXITS: [u8; 5] = [1, 2, 125, 126, 127];

pub fn check(shell: &Shell, sources: &[Source]) -> Result<Vec<String>, Failure> {
    let path = shell.path(PAGE);
    let rows: BTreeMap<String, Row> =
        toml::from_str(&shell::read(&path)?).map_err(|cause| Failure::Toml { path, cause })?;
    let java = sources::java(shell)?;
    let program: Vec<&Source> = sources
        .iter()
        .filter(|s| s.path.starts_with("crates") && s.package() != "testkit")
        .chain(&java)
        .collect();
    Ok(findings(&rows, &program))
}

fn findings(rows: &BTreeMap<String, Row>, sources: &[&Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for (code, row) in rows {
        if !is_code(code) {
            findings.push(format!(
                "{PAGE}: [{code}] is not lower-case words joined by _"
            ));
        }
        if row.meaning.trim().is_empty() || !EXITS.contains(&row.exit) {
            findings.push(format!(
                "{PAGE}: [{code}] needs a meaning and one of the exit statuses {EXITS:?}"
            ));
        }
    }
    let mut used = BTreeSet::new();
    for source in sources {
        let text: Vec<&str> = source.program_lines().map(|(_, line)| line).collect();
        for code in codes(&text.join("\n")) {
            if !rows.contains_key(&code) && !used.contains(&code) {
                findings.push(format!(
                    "{}: the code {code:?} has no table in {PAGE}",
                    source.path.display()
                ));
            }
            used.insert(code);
        }
    }
    for code in rows.keys().filter(|code| !used.contains(*code)) {
        // Codes that pass through a constant or a table of their own count too.
        let quoted = format!("\"{code}\"");
        if !sources
            .iter()
            .any(|s| s.program_lines().any(|(_, line)| line.contains(&quoted)))
        {
            findings.push(format!("{PAGE}: [{code}] is used nowhere"));
        }
    }
    findings
}

fn is_code(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The codes that a program text names, by the convention at the head of the page.
fn codes(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for opening in ["code: ", "Refusal::new(", "refuse("] {
        for (at, _) in text.match_indices(opening) {
            let rest = text.get(at + opening.len()..).unwrap_or("").trim_start();
            if let Some(literal) = rest.strip_prefix('"').and_then(|r| r.split('"').next()) {
                found.push(literal.to_owned());
            }
        }
    }
    for opening in ["fn code(", "public String code()"] {
        for (at, _) in text.match_indices(opening) {
            let rest = text.get(at..).unwrap_or("");
            // Another function of this name answers with something else.
            if rest
                .split('{')
                .next()
                .is_some_and(|head| head.contains("Result<"))
            {
                continue;
            }
            found.extend(body(rest).split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The first text in balanced braces.
fn body(text: &str) -> &str {
    let Some(from) = text.find('{') else {
        return "";
    };
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(from..at).unwrap_or("");
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_where_the_page_says() {
        for (text, expected) in [
            (
                r#"Refusal { code: "no_such_job".into() }"#,
                &["no_such_job"][..],
            ),
            (
                "Refusal::new(\n    \"too_many_jobs\", \"text\")",
                &["too_many_jobs"],
            ),
            (r#"refuse("a_b", "c")"#, &["a_b"]),
            (
                r#"fn code(&self) -> &str { match self { A { .. } => "a", B => "b" } } "c""#,
                &["a", "b"],
            ),
            (
                r#"public String code() { return "in_java"; }"#,
                &["in_java"],
            ),
            (r#"code: code.to_owned(), "not_one""#, &[]),
        ] {
            assert_eq!(codes(text), expected, "{text}");
        }
    }

    #[test]
    fn the_page_and_the_sources_must_agree() {
        let page = |code: &str| {
            format!("[{code}]\nmeaning = \"m\"\nfault = \"site\"\nretry = \"no\"\nexit = 1\n")
        };
        for (page, source, wrong) in [
            (page("a"), r#"code: "a""#, 0),
            (page("a"), r#"const C: &str = "a";"#, 0),
            (page("a"), "", 1),
            (page("a") + &page("b"), r#"code: "a""#, 1),
            (String::new(), r#"code: "a""#, 1),
            (page("A-b"), r#"code: "A-b""#, 1),
            (page("a").replace("exit = 1", "exit = 3"), r#"code: "a""#, 1),
        ] {
            let rows = toml::from_str(&page).unwrap();
            let source = Source {
                path: "crates/job/src/a.rs".into(),
                text: source.into(),
            };
            assert_eq!(
                findings(&rows, &[&source]).len(),
                wrong,
                "{page} {}",
                source.text
            );
        }
        let unknown_fault = page("a").replace("site", "nobody");
        assert!(toml::from_str::<BTreeMap<String, Row>>(&unknown_fault).is_err());
    }
}

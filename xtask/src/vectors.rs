//! Test vectors: each folder spec/*/vectors has what must be accepted and what must be refused, and a test reads it.

use crate::fail::Failure;
use crate::shell::{self, Shell};
use crate::sources;
use std::fs;

fn in_java(shell: &Shell, named: &str) -> Result<bool, Failure> {
    let files = sources::files_below(&shell.path("java"))?;
    for path in files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "java"))
    {
        if shell::read(path)?.contains(named) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is wrong with the vectors.
pub fn check(shell: &Shell) -> Result<Vec<String>, Failure> {
    let spec = shell.path("spec");
    let sources = sources::all(shell)?;
    let mut findings = Vec::new();
    let entries = fs::read_dir(&spec).map_err(|cause| Failure::File {
        path: spec.clone(),
        cause,
    })?;
    for entry in entries.flatten() {
        let part = entry.file_name().to_string_lossy().into_owned();
        let folder = entry.path().join("vectors");
        if !folder.is_dir() {
            continue;
        }
        for kind in ["valid", "invalid"] {
            if sources::files_below(&folder.join(kind))?.is_empty() {
                findings.push(format!("spec/{part}/vectors/{kind}: is empty"));
            }
        }
        let named = format!("spec/{part}/vectors");
        let in_crates = sources
            .iter()
            .any(|s| s.path.starts_with("crates") && s.text.contains(&named));
        if !in_crates && !in_java(shell, &named)? {
            findings.push(format!(
                "{named}: no test of any crate, nor of java/, reads it"
            ));
        }
    }
    findings.sort();
    Ok(findings)
}

//! Test vectors: each folder spec/*/vectors has what must be accepted and what must be refused, and a test reads it.

use crate::fail::Failure;
use crate::shell::Shell;
use crate::sources;
use std::fs;

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
        if !sources
            .iter()
            .any(|s| s.path.starts_with("crates") && s.text.contains(&named))
        {
            findings.push(format!("{named}: no test of any crate reads it"));
        }
    }
    findings.sort();
    Ok(findings)
}

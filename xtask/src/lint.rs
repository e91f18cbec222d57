//! `./x lint`: all that is checked without running the programs. Each check is one line of the tally.

use crate::architecture;
use crate::crates;
use crate::errors;
use crate::fail::Failure;
use crate::fuzz;
use crate::rings::{self, Table};
use crate::shell::{self, Shell};
use crate::sources;
use crate::tally::{Part, Tally};
use crate::vectors;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The command `./x lint`.
pub fn run(shell: &Shell) -> Result<ExitCode, Failure> {
    let tally = Tally {
        parts: vec![part(shell)?, crates::part(shell)?],
    };
    print!("{}", tally.report());
    println!("{tally}");
    Ok(if tally.well() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub fn note(part: &mut Part, name: &str, findings: Vec<String>) {
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    eprintln!(
        "lint: {name}: {}",
        if findings.is_empty() { "ok" } else { "FAILED" }
    );
    if findings.is_empty() {
        part.passed += 1
    } else {
        part.failed.push(name.to_owned())
    }
}

/// All checks but that of crates, cheap ones first.
pub fn part(shell: &Shell) -> Result<Part, Failure> {
    let begun = Instant::now();
    let mut part = Part::new("lint");
    let mut note = |name: &str, findings| note(&mut part, name, findings);

    let table = Table::read(shell)?;
    let packages = rings::packages(shell)?;
    let sources = sources::all(shell)?;
    let mut arrows = rings::check(&table, &packages);
    arrows.extend(rings::check_sources(&table, &sources));
    note("rings", arrows);
    note("lint tables", rings::check_lints(shell, &table, &packages)?);
    note("sources", sources::check(&sources));
    note("error codes", errors::check(shell, &sources)?);
    note("vectors", vectors::check(shell)?);
    note(
        "architecture",
        architecture::check(shell, &table, &packages)?,
    );
    note("links", architecture::check_links(shell)?);
    note(
        "format",
        tool(&mut shell.cargo(["fmt", "--all", "--check"]))?,
    );
    note(
        "format of fuzz targets",
        tool(&mut fuzz::format_check(shell))?,
    );
    note(
        "clippy",
        tool(&mut shell.cargo([
            "clippy",
            "-q",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))?,
    );
    part.took = begun.elapsed();
    Ok(part)
}

/// A tool that prints its findings itself.
pub fn tool(command: &mut Command) -> Result<Vec<String>, Failure> {
    match shell::ok(command) {
        Ok(()) => Ok(Vec::new()),
        Err(Failure::Failed { program }) => Ok(vec![format!("the last word was: {program}")]),
        Err(other) => Err(other),
    }
}

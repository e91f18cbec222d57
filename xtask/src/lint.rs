//! `./x lint`: all that is checked without running the programs. Each check is one line of the tally.

use crate::architecture;
use crate::errors;
use crate::fail::Failure;
use crate::rings::{self, Table};
use crate::shell::{self, Shell};
use crate::sources;
use crate::tally::{Part, Tally};
use crate::vectors;
use crate::{StatusOf, fuzz};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The newest cargo-deny that our least rustc builds. It is not packaged by Debian; building it takes about two minutes
/// on two cores, once, in target/tools.
const CARGO_DENY: &str = "0.18.3";

/// The command `./x lint`.
pub fn run(shell: &Shell) -> Result<ExitCode, Failure> {
    let tally = Tally {
        parts: vec![part(shell)?, crates(shell)?],
    };
    print!("{}", tally.report());
    println!("{tally}");
    Ok(if tally.well() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn note(part: &mut Part, name: &str, findings: Vec<String>) {
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

/// What crates we are made of.
pub fn crates(shell: &Shell) -> Result<Part, Failure> {
    let begun = Instant::now();
    let mut part = Part::new("lint of crates");
    let found = tool(&mut deny(shell, &["bans", "licenses", "sources"])?)?;
    note(&mut part, "cargo-deny", found);
    part.took = begun.elapsed();
    Ok(part)
}

/// All other checks, cheap ones first.
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
fn tool(command: &mut Command) -> Result<Vec<String>, Failure> {
    match shell::ok(command) {
        Ok(()) => Ok(Vec::new()),
        Err(Failure::Failed { program }) => Ok(vec![format!("the last word was: {program}")]),
        Err(other) => Err(other),
    }
}

/// `./x advisories`: kept apart because its database comes from the network and changes under a green commit.
pub fn advisories(shell: &Shell) -> Result<ExitCode, Failure> {
    deny(shell, &["advisories"])?.status_of()
}

fn deny(shell: &Shell, checks: &[&str]) -> Result<Command, Failure> {
    let mut command = shell.command(build_deny(shell)?);
    command
        .args(["--log-level", "warn", "check", "--hide-inclusion-graph"])
        .args(checks);
    Ok(command)
}

/// Builds cargo-deny if it is not there.
pub fn build_deny(shell: &Shell) -> Result<PathBuf, Failure> {
    let program = shell
        .path("target/tools")
        .join(CARGO_DENY)
        .join("bin/cargo-deny");
    if !program.is_file() {
        eprintln!("lint: building cargo-deny {CARGO_DENY}, once");
        let root = shell.path("target/tools").join(CARGO_DENY);
        let build = root.join("build");
        let mut install = shell.cargo(["install", "-q", "--locked", "--profile", "dev", "--root"]);
        install
            .arg(&root)
            .arg("--target-dir")
            .arg(&build)
            .arg(format!("cargo-deny@{CARGO_DENY}"));
        // Debug information is nine tenths of the time and the size.
        install
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_PROFILE_DEV_STRIP", "true");
        shell::ok(&mut install)?;
        std::fs::remove_dir_all(&build).map_err(|cause| Failure::File { path: build, cause })?;
    }
    Ok(program)
}

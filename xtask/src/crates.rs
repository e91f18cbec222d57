//! What crates we are made of, by cargo-deny: bans, licences, sources (docs/decisions/0001). What it says follows from files of ours alone, so
//! of those that it has passed, [`PASSED`], it is not asked again: building it takes minutes.

use crate::StatusOf;
use crate::fail::Failure;
use crate::lint::{note, tool};
use crate::rings;
use crate::shell::{self, Shell};
use crate::tally::Part;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The newest cargo-deny that our least rustc builds. It is not packaged by Debian; building it takes about two minutes
/// on two cores, once, in target/tools.
const CARGO_DENY: &str = "0.18.3";

/// As sha256sum(1) prints it, behind the version.
const PASSED: &str = "xtask/crates.passed";

/// Asks cargo-deny, if it has not passed these crates already.
pub fn part(shell: &Shell) -> Result<Part, Failure> {
    let begun = Instant::now();
    let mut part = Part::new("lint of crates");
    let now = asked_of(shell)?;
    if !has_passed(shell, &now) {
        let found = tool(&mut deny(shell, &["bans", "licenses", "sources"])?)?;
        if found.is_empty() {
            let path = shell.path(PASSED);
            std::fs::write(&path, now).map_err(|cause| Failure::File { path, cause })?;
            eprintln!("lint: {PASSED} is new, and belongs to what is committed");
        }
        note(&mut part, "cargo-deny", found);
    } else {
        note(
            &mut part,
            "cargo-deny, which passed the same before",
            Vec::new(),
        );
    }
    part.took = begun.elapsed();
    Ok(part)
}

/// `./x advisories`: kept apart because its database comes from the network and changes under a green commit.
pub fn advisories(shell: &Shell) -> Result<ExitCode, Failure> {
    deny(shell, &["advisories"])?.status_of()
}

/// Builds cargo-deny if it is not there, and will be asked.
pub fn build_ahead(shell: &Shell) -> Result<(), Failure> {
    if !has_passed(shell, &asked_of(shell)?) {
        build(shell)?;
    }
    Ok(())
}

fn has_passed(shell: &Shell, now: &str) -> bool {
    std::fs::read_to_string(shell.path(PASSED)).is_ok_and(|passed| passed == now)
}

/// All that its answer follows from.
fn asked_of(shell: &Shell) -> Result<String, Failure> {
    let own = ["deny.toml", "Cargo.lock", "Cargo.toml"].map(PathBuf::from);
    let root = shell.path("");
    let packages = rings::packages(shell)?;
    let manifests = packages.iter().filter_map(|package| {
        let below = package.manifest.strip_prefix(&root).ok()?;
        Some(below.to_owned())
    });
    let mut files: Vec<PathBuf> = own.into_iter().chain(manifests).collect();
    files.sort();
    files.dedup();
    let sums = shell::text_of(shell.command("sha256sum").args(files))?;
    Ok(format!("cargo-deny {CARGO_DENY}\n{sums}"))
}

fn deny(shell: &Shell, checks: &[&str]) -> Result<Command, Failure> {
    let mut command = shell.command(build(shell)?);
    command
        .args(["--log-level", "warn", "check", "--hide-inclusion-graph"])
        .args(checks);
    Ok(command)
}

/// Where it is; it is built if it is not there.
fn build(shell: &Shell) -> Result<PathBuf, Failure> {
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

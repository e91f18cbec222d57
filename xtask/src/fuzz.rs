//! Fuzz targets: built with libFuzzer by a stable rustc, run for a fixed time each, seeded with the spec's vectors.
//!
//! The flags are those of cargo-fuzz (rust-fuzz/cargo-fuzz, src/project.rs) but for the address sanitizer, which needs a
//! nightly rustc and would find little: what decodes contains no unsafe code.

use crate::StatusOf;
use crate::fail::Failure;
use crate::lanes;
use crate::shell::{self, Shell};
use crate::sources;
use crate::tally::Part;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Each target in `./x test`: enough for the vectors and a hundred thousand neighbours of them.
const SECONDS: u64 = 3;

/// One input must not take longer than this, seconds.
const TIMEOUT: u64 = 5;

/// Nor make the process grow beyond this, megabytes: an allocation by an unchecked length is a finding.
const MEMORY: u64 = 1024;

const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Names of the files in fuzz/fuzz_targets, sorted.
fn targets(shell: &Shell) -> Result<Vec<String>, Failure> {
    let files = sources::files_below(&shell.path("fuzz/fuzz_targets"))?;
    let names = files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "rs"))
        .filter_map(|f| f.file_stem());
    Ok(names.map(|n| n.to_string_lossy().into_owned()).collect())
}

/// rustfmt on the targets, which are outside the workspace.
pub fn format_check(shell: &Shell) -> Command {
    shell.cargo(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])
}

pub fn build(shell: &Shell) -> Result<PathBuf, Failure> {
    let arguments = [
        "build",
        "-q",
        "--release",
        "--bins",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target-dir",
        "target/fuzz",
    ];
    shell::ok(&mut shell.cargo_flagged(arguments, FLAGS))?;
    Ok(shell
        .path("target/fuzz")
        .join(&shell.triple)
        .join("release"))
}

/// A target's run. Finds stay in target/fuzz/corpus; an input that breaks it goes to fuzz/artifacts.
fn command(
    shell: &Shell,
    programs: &std::path::Path,
    target: &str,
    seconds: u64,
) -> Result<Command, Failure> {
    let corpus = shell.path("target/fuzz/corpus").join(target);
    let artifacts = shell.path("fuzz/artifacts");
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).map_err(|cause| Failure::File {
            path: folder.clone(),
            cause,
        })?;
    }
    let mut command = shell.command(programs.join(target));
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={TIMEOUT}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!(
            "-artifact_prefix={}/{target}-",
            artifacts.display()
        ))
        .arg("-print_final_stats=1")
        .arg(corpus);
    let spec = shell.path("spec");
    let parts = fs::read_dir(&spec).map_err(|cause| Failure::File { path: spec, cause })?;
    command.args(
        parts
            .flatten()
            .map(|p| p.path().join("vectors"))
            .filter(|p| p.is_dir()),
    );
    Ok(command)
}

/// All targets, as many at once as there are cores.
pub fn part(shell: &Shell) -> Result<Part, Failure> {
    let begun = Instant::now();
    let mut part = Part::new("fuzz");
    let targets = targets(shell)?;
    if targets.is_empty() {
        return Ok(part);
    }
    let programs = match build(shell) {
        Ok(programs) => programs,
        Err(Failure::Failed { program }) => {
            part.failed.push(program);
            part.took = begun.elapsed();
            return Ok(part);
        }
        Err(other) => return Err(other),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ended = lanes::each(cores, targets, |target| {
        let log = shell.path("target/x").join(format!("fuzz-{target}.log"));
        let well = command(shell, &programs, &target, SECONDS)
            .and_then(|mut command| shell::watch(&mut command, &log, |_| ()));
        let word = if matches!(well, Ok(true)) {
            "ok"
        } else {
            "FAILED"
        };
        eprintln!("fuzz: {target}: {word}");
        (target, well)
    });
    for (target, well) in ended {
        if well? {
            part.passed += 1;
        } else {
            part.failed.push(format!(
                "{target} (target/x/fuzz-{target}.log; the input is in fuzz/artifacts)"
            ));
        }
    }
    part.took = begun.elapsed();
    Ok(part)
}

/// The command `./x fuzz`: one target in the foreground, or all as in `./x test`.
pub fn run(shell: &Shell, arguments: &[String]) -> Result<ExitCode, Failure> {
    let mut seconds = 60;
    let mut target = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let given = words.next().cloned().unwrap_or_default();
            seconds = given.parse().map_err(|_| Failure::NotSeconds { given })?;
        } else {
            target = Some(word);
        }
    }
    let known = targets(shell)?;
    let Some(target) = target else {
        let programs = build(shell)?;
        for target in known {
            if command(shell, &programs, &target, seconds)?.status_of()? != ExitCode::SUCCESS {
                return Ok(ExitCode::FAILURE);
            }
        }
        return Ok(ExitCode::SUCCESS);
    };
    if !known.contains(target) {
        return Err(Failure::NoSuchTarget {
            given: target.clone(),
        });
    }
    command(shell, &build(shell)?, target, seconds)?.status_of()
}

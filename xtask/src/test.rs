//! `./x test`: lint, the crates' own tests, fuzz targets for a fixed time, black-box scenarios; one closing line.

use crate::build::{self, Profile, Programs};
use crate::fail::Failure;
use crate::shell::{self, Shell};
use crate::tally::{Ledger, Part, Tally};
use crate::{fuzz, lint, rings};
use std::process::ExitCode;
use std::time::Instant;

/// The command `./x test [PART...] [--strict] [--all]`.
pub fn run(shell: &Shell, arguments: &[String]) -> Result<ExitCode, Failure> {
    let strict = arguments.iter().any(|a| a == "--strict");
    let all = arguments.iter().any(|a| a == "--all");
    let parts: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let packages = rings::packages(shell)?;
    let crates: Vec<&str> = packages
        .iter()
        .map(|p| p.name.as_str())
        .filter(|name| !["e2e", "bench"].contains(name))
        .collect();
    for part in &parts {
        if !["lint", "unit", "fuzz", "e2e"].contains(part) && !crates.contains(part) {
            return Err(Failure::NoSuchPart {
                given: (*part).to_owned(),
                crates: crates.join(", "),
            });
        }
    }
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    let of_crates: Vec<&str> = crates
        .iter()
        .copied()
        .filter(|name| parts.contains(name))
        .collect();

    let mut tally = Tally::default();
    if wanted("lint") {
        tally.parts.push(lint::part(shell)?);
    }
    let unit = wanted("unit");
    if unit || wanted("e2e") || !of_crates.is_empty() {
        let (programs, built) = programs(shell)?;
        tally.parts.push(built);
        if unit || !of_crates.is_empty() {
            let selected: Vec<String> = if unit {
                [
                    "--workspace",
                    "--exclude",
                    "kumiko-e2e",
                    "--exclude",
                    "kumiko-bench",
                ]
                .map(str::to_owned)
                .into()
            } else {
                of_crates
                    .iter()
                    .flat_map(|name| ["-p".to_owned(), package_name(name)])
                    .collect()
            };
            let compiled = compile(shell, &selected)?;
            let well = compiled.failed.is_empty();
            tally.parts.push(compiled);
            if well {
                tally.parts.push(tests(
                    shell,
                    "unit and integration",
                    &selected,
                    &programs,
                    &[],
                    all,
                )?);
            }
        }
        if wanted("fuzz") {
            tally.parts.push(fuzz::part(shell)?);
        }
        if wanted("e2e") {
            tally.parts.push(tests(
                shell,
                "e2e",
                &["-p".into(), "kumiko-e2e".into()],
                &programs,
                &[],
                all,
            )?);
        }
    } else if wanted("fuzz") {
        tally.parts.push(fuzz::part(shell)?);
    }
    close(shell, &tally, strict)
}

/// The command `./x e2e [FILTER]`.
pub fn e2e(shell: &Shell, filter: &[String]) -> Result<ExitCode, Failure> {
    let (programs, built) = programs(shell)?;
    let run = tests(
        shell,
        "e2e",
        &["-p".into(), "kumiko-e2e".into()],
        &programs,
        filter,
        true,
    )?;
    close(
        shell,
        &Tally {
            parts: vec![built, run],
        },
        false,
    )
}

/// Cargo's name of the crate in a folder.
fn package_name(folder: &str) -> String {
    if ["kumiko", "xtask"].contains(&folder) {
        folder.to_owned()
    } else {
        format!("kumiko-{folder}")
    }
}

fn programs(shell: &Shell) -> Result<(Programs, Part), Failure> {
    let begun = Instant::now();
    let programs = build::programs(shell, Profile::Dev)?;
    Ok((
        programs,
        Part {
            took: begun.elapsed(),
            ..Part::new("programs compiled")
        },
    ))
}

/// Compiles the tests ahead, so that the minutes of running them are told apart.
fn compile(shell: &Shell, selected: &[String]) -> Result<Part, Failure> {
    let begun = Instant::now();
    let mut part = Part::new("tests compiled");
    match shell::ok(shell.cargo(["test", "--no-run", "-q"]).args(selected)) {
        Ok(()) => {}
        Err(Failure::Failed { program }) => part.failed.push(program),
        Err(other) => return Err(other),
    }
    part.took = begun.elapsed();
    Ok(part)
}

fn tests(
    shell: &Shell,
    name: &str,
    selected: &[String],
    programs: &Programs,
    filter: &[String],
    all: bool,
) -> Result<Part, Failure> {
    let begun = Instant::now();
    let mut part = Part::new(name);
    let mut command = shell.cargo(["test", "--no-fail-fast"]);
    // Skips of passed tests are among what they print.
    command
        .args(selected)
        .arg("--")
        .args(filter)
        .arg("--show-output");
    if all {
        command.arg("--include-ignored");
    }
    let log = shell
        .path("target/x")
        .join(format!("{}.log", name.replace(' ', "-")));
    let mut failures = false;
    let well = shell::watch(programs.told_to(&mut command), &log, |line| {
        part.line(line);
        failures = (failures || line == "failures:" || line.starts_with("error"))
            && !line.starts_with("test result");
        if failures
            || [
                "     Running",
                "   Doc-tests",
                "test result",
                "error",
                "x: ",
            ]
            .iter()
            .any(|p| line.starts_with(p))
        {
            eprintln!("{line}");
        }
    })?;
    if !well && part.failed.is_empty() {
        part.failed
            .push(format!("{} (see {})", shell::line(&command), log.display()));
    }
    part.took = begun.elapsed();
    Ok(part)
}

fn close(shell: &Shell, tally: &Tally, strict: bool) -> Result<ExitCode, Failure> {
    print!("{}", tally.report());
    let mut well = tally.well();
    if strict {
        let path = shell.path("xtask/ledger.toml");
        let ledger: Ledger =
            toml::from_str(&shell::read(&path)?).map_err(|cause| Failure::Toml { path, cause })?;
        for skip in tally.unforgiven(&ledger) {
            println!(
                "strict: {} was skipped and is not in xtask/ledger.toml",
                skip.test
            );
            well = false;
        }
    }
    println!("{tally}");
    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

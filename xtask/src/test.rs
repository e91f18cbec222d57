//! `./x test`: lint, the crates' own tests, Java's, fuzz targets for a fixed time, black-box scenarios; one closing line.

use crate::build::{self, Profile, Told};
use crate::fail::Failure;
use crate::shell::{self, Shell};
use crate::tally::{Ledger, Part, Tally};
use crate::{fuzz, java, lint, rings};
use std::process::ExitCode;
use std::time::Instant;

const UNIT: &str = "unit and integration";
const E2E: &str = "e2e";

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
        .filter(|name| *name != E2E)
        .collect();
    for part in &parts {
        if !["lint", "unit", "java", "fuzz", E2E].contains(part) && !crates.contains(part) {
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

    let humble = shell.humble();
    // The crates' tests mostly wait. Meanwhile what the parts after them need is built; each builds it itself as well, and so finds it there or
    // says what is wrong.
    let ahead = || {
        let _ = wanted("lint").then(|| lint::build_deny(&humble));
        let _ = wanted("fuzz").then(|| fuzz::build(&humble));
        let _ = wanted(E2E).then(|| compile(&humble, E2E, &selection(&[E2E])));
    };
    let tally = std::thread::scope(|scope| {
        let mut tally = Tally::default();
        let mut building = None;
        if wanted("lint") {
            tally.parts.push(lint::part(shell)?);
        }
        if wanted("unit") || !of_crates.is_empty() {
            let selected = selection(if wanted("unit") { &crates } else { &of_crates });
            let meanwhile = || building = Some(scope.spawn(ahead));
            tally
                .parts
                .extend(tests(shell, UNIT, &selected, &[], all, meanwhile)?);
        }
        if wanted("java") {
            tally.parts.extend(java::parts(shell)?);
        }
        // What went wrong is found again by the part that needs it.
        let _ = building.map(|building| building.join());
        if wanted("lint") {
            tally.parts.push(lint::crates(shell)?);
        }
        if wanted("fuzz") {
            tally.parts.push(fuzz::part(shell)?);
        }
        if wanted(E2E) {
            tally
                .parts
                .extend(tests(shell, E2E, &selection(&[E2E]), &[], all, || ())?);
        }
        Ok::<_, Failure>(tally)
    })?;
    close(shell, &tally, strict)
}

/// The command `./x e2e [FILTER]`.
pub fn e2e(shell: &Shell, filter: &[String]) -> Result<ExitCode, Failure> {
    let parts = tests(shell, E2E, &selection(&[E2E]), filter, true, || ())?;
    close(shell, &Tally { parts }, false)
}

/// What selects the crates in these folders, for cargo.
fn selection(folders: &[&str]) -> Vec<String> {
    let package = |folder: &&str| match *folder {
        "kumiko" | "xtask" => (*folder).to_owned(),
        other => format!("kumiko-{other}"),
    };
    folders
        .iter()
        .flat_map(|folder| ["-p".to_owned(), package(folder)])
        .collect()
}

/// What cargo has to do before the tests of some crates run. Crates test themselves, some with a runner; scenarios use the programs.
fn compile(shell: &Shell, name: &str, selected: &[String]) -> Result<(), Failure> {
    match name {
        E2E => build::compile(shell, Profile::Dev)?,
        _ => drop(build::runner(shell, Profile::Dev)?),
    }
    shell::ok(shell.cargo(["test", "--no-run", "-q"]).args(selected))
}

/// Compiles, as a part of its own so that its minutes are told apart, and runs the tests of some crates. `meanwhile`: called between.
fn tests(
    shell: &Shell,
    name: &str,
    selected: &[String],
    filter: &[String],
    all: bool,
    meanwhile: impl FnOnce(),
) -> Result<Vec<Part>, Failure> {
    let begun = Instant::now();
    let mut compiled = Part::new(format!("{name}: compiled"));
    let told = compile(shell, name, selected).and_then(|()| match name {
        E2E => build::programs(shell, Profile::Dev),
        _ => build::runner(shell, Profile::Dev),
    });
    compiled.took = begun.elapsed();
    match told {
        Ok(told) => {
            meanwhile();
            let run = run_tests(shell, name, selected, told, filter, all)?;
            Ok(vec![compiled, run])
        }
        Err(Failure::Failed { program }) => {
            compiled.failed.push(program);
            Ok(vec![compiled])
        }
        Err(other) => Err(other),
    }
}

fn run_tests(
    shell: &Shell,
    name: &str,
    selected: &[String],
    told: Told,
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
    let mut shown = false;
    let well = shell::watch(command.envs(told), &log, |line| {
        part.line(line);
        shown = (shown || line == "failures:" || line.starts_with("error"))
            && !line.starts_with("test result");
        let summary = ["     Running", "   Doc-tests", "test result", "x: "];
        if shown || summary.iter().any(|start| line.starts_with(start)) {
            eprintln!("{line}");
        }
    })?;
    if !well && part.well() {
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

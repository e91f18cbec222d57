//! `./x test`: lint, the crates' own tests, Java's, fuzz targets for a fixed time, black-box scenarios; one closing line.

use crate::build::{self, Profile, Told};
use crate::fail::Failure;
use crate::rings::{self, Package, Tested};
use crate::shell::{self, Shell};
use crate::tally::{Ledger, Part, Tally};
use crate::{crates, fuzz, java, lanes, lint};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
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
    let (scenarios, others): (Vec<&Package>, Vec<&Package>) =
        packages.iter().partition(|p| p.name == E2E);
    let names: Vec<&str> = others.iter().map(|p| p.name.as_str()).collect();
    for part in &parts {
        if !["lint", "unit", "java", "fuzz", E2E].contains(part) && !names.contains(part) {
            return Err(Failure::NoSuchPart {
                given: (*part).to_owned(),
                crates: names.join(", "),
            });
        }
    }
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    let of_crates: Vec<&Package> = others
        .iter()
        .copied()
        .filter(|p| parts.contains(&p.name.as_str()))
        .collect();

    let humble = shell.humble();
    // The crates' tests mostly wait. Meanwhile what the parts after them need is built; each builds it itself as well, and so finds it there or
    // says what is wrong.
    let ahead = || {
        let _ = wanted("lint").then(|| crates::build_ahead(&humble));
        let _ = wanted("fuzz").then(|| fuzz::build(&humble));
        let _ = wanted(E2E).then(|| compile(&humble, E2E, &scenarios));
    };
    let tally = std::thread::scope(|scope| {
        let mut tally = Tally::default();
        let mut building = None;
        if wanted("lint") {
            tally.parts.push(lint::part(shell)?);
        }
        if wanted("unit") || !of_crates.is_empty() {
            let selected = if wanted("unit") { &others } else { &of_crates };
            let meanwhile = || building = Some(scope.spawn(ahead));
            tally
                .parts
                .extend(tests(shell, UNIT, selected, &[], all, meanwhile)?);
        }
        if wanted("java") {
            tally.parts.extend(java::parts(shell, all)?);
        }
        // What went wrong is found again by the part that needs it.
        let _ = building.map(|building| building.join());
        if wanted("lint") {
            tally.parts.push(crates::part(shell)?);
        }
        if wanted("fuzz") {
            tally.parts.push(fuzz::part(shell)?);
        }
        if wanted(E2E) {
            tally
                .parts
                .extend(tests(shell, E2E, &scenarios, &[], all, || ())?);
        }
        Ok::<_, Failure>(tally)
    })?;
    close(shell, &tally, strict)
}

/// The command `./x e2e [FILTER]`.
pub fn e2e(shell: &Shell, filter: &[String]) -> Result<ExitCode, Failure> {
    let packages = rings::packages(shell)?;
    let scenarios: Vec<&Package> = packages.iter().filter(|p| p.name == E2E).collect();
    let parts = tests(shell, E2E, &scenarios, filter, true, || ())?;
    close(shell, &Tally { parts }, false)
}

/// What selects these packages, for cargo.
fn selection(packages: &[&Package]) -> Vec<String> {
    let package = |package: &&Package| match package.name.as_str() {
        "kumiko" | "xtask" => package.name.clone(),
        other => format!("kumiko-{other}"),
    };
    packages
        .iter()
        .flat_map(|found| ["-p".to_owned(), package(found)])
        .collect()
}

/// What cargo has to do before the tests of some crates run. Crates test themselves, some with a runner; scenarios use the programs.
fn compile(shell: &Shell, name: &str, packages: &[&Package]) -> Result<(), Failure> {
    match name {
        E2E => build::compile(shell, Profile::Dev)?,
        _ => drop(build::runner(shell, Profile::Dev)?),
    }
    shell::ok(
        shell
            .cargo(["test", "--no-run", "-q"])
            .args(selection(packages)),
    )
}

/// Compiles, as a part of its own so that its minutes are told apart, and runs the tests of some crates. `meanwhile`: called between.
fn tests(
    shell: &Shell,
    name: &str,
    packages: &[&Package],
    filter: &[String],
    all: bool,
    meanwhile: impl FnOnce(),
) -> Result<Vec<Part>, Failure> {
    let begun = Instant::now();
    let mut compiled = Part::new(format!("{name}: compiled"));
    let told = compile(shell, name, packages).and_then(|()| match name {
        E2E => build::programs(shell, Profile::Dev),
        _ => build::runner(shell, Profile::Dev),
    });
    compiled.took = begun.elapsed();
    match told {
        Ok(told) => {
            meanwhile();
            let run = run_tests(shell, name, packages, &told, filter, all)?;
            Ok(vec![compiled, run])
        }
        Err(Failure::Failed { program }) => {
            compiled.failed.push(program);
            Ok(vec![compiled])
        }
        Err(other) => Err(other),
    }
}

/// Programs of tests that run at once, of the crates' each with as many threads as there are cores, of scenarios with one: most tests wait, for
/// timeouts, engines and programs that were killed. Two scenarios at once leave two cores 60 % idle.
const LANES: usize = 2;
const LANES_OF_SCENARIOS: usize = 3;

/// What takes longest is begun first, so that nothing long is left alone at the end; the others follow by name.
const FIRST: [&str; 8] = [
    "as_native",
    "own_batch_jobs",
    "rpc_engines",
    "bad_input",
    "engines_carried",
    "rpc_found",
    "rpc",
    "limits",
];

/// What of these packages has tests, as options of cargo.
fn programs(packages: &[&Package]) -> Vec<Vec<String>> {
    let tested: BTreeSet<&Tested> = packages.iter().flat_map(|p| &p.tested).collect();
    let mut options: Vec<Vec<&str>> = Vec::new();
    for tested in tested {
        match tested {
            Tested::Library => options.push(vec!["--lib"]),
            Tested::Documents => options.push(vec!["--doc"]),
            Tested::Programs => options.push(vec!["--bins"]),
            Tested::File(name) => options.push(vec!["--test", name]),
        }
    }
    let place = |option: &Vec<&str>| FIRST.iter().position(|first| option.contains(first));
    options.sort_by_key(|option| place(option).unwrap_or(FIRST.len()));
    options
        .into_iter()
        .map(|option| option.into_iter().map(str::to_owned).collect())
        .collect()
}

fn run_tests(
    shell: &Shell,
    name: &str,
    packages: &[&Package],
    told: &Told,
    filter: &[String],
    all: bool,
) -> Result<Part, Failure> {
    let begun = Instant::now();
    let part = Mutex::new(Part::new(name));
    let lanes = match name {
        E2E => LANES_OF_SCENARIOS,
        _ => LANES,
    };
    let ended = lanes::each(lanes, programs(packages), |options| {
        let program = options.last().map_or("", |word| word.trim_matches('-'));
        // All packages are selected each time: with fewer, cargo builds what they need anew, with fewer features.
        let mut command = shell.cargo(["test", "--no-fail-fast"]);
        // Skips of passed tests are among what they print.
        command
            .args(selection(packages))
            .args(&options)
            .arg("--")
            .args(filter)
            .arg("--show-output");
        if name == E2E {
            // Each starts a site or some, and engines.
            command.args(["--test-threads", "1"]);
        }
        if all {
            command.arg("--include-ignored");
        }
        let log = shell
            .path("target/x")
            .join(format!("{}-{program}.log", name.replace(' ', "-")));
        let mut said = Vec::new();
        let well = shell::watch(command.envs(told.clone()), &log, |line| {
            said.push(line.to_owned())
        })?;
        // Told as a whole, so that no other's lines stand between.
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = part.failed.len();
        let mut shown = false;
        for line in said {
            part.line(&line);
            shown = (shown || line == "failures:" || line.starts_with("error"))
                && !line.starts_with("test result");
            let summary = ["     Running", "   Doc-tests", "test result", "x: "];
            if shown || summary.iter().any(|start| line.starts_with(start)) {
                eprintln!("{line}");
            }
        }
        if !well && part.failed.len() == failed {
            part.failed
                .push(format!("{} (see {})", shell::line(&command), log.display()));
        }
        Ok(())
    });
    ended.into_iter().collect::<Result<(), Failure>>()?;
    let mut part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
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

//! All automation: `cargo xtask COMMAND`, or `./x COMMAND`, which also sees to the tools. Not in it: what is installed.

mod architecture;
mod build;
mod crates;
mod errors;
mod fail;
mod fuzz;
mod java;
mod lanes;
mod lint;
mod markdown;
mod rings;
mod shell;
mod sources;
mod tally;
mod test;
mod vectors;

use build::Profile;
use fail::Failure;
use shell::Shell;
use std::process::ExitCode;

const HELP: &str = "\
./x demo                        a tour, with timings
./x test [PART...]              everything, or parts: lint, unit, a crate's name, java, fuzz, e2e
         --strict               a skipped test fails, unless xtask/ledger.toml names it
         --all                  also what takes long
./x lint                        format, clippy, cargo-deny, rings, documents
./x build [--dev]               target/release/bin (or target/debug/bin): kumiko and its programs
./x e2e [FILTER]                black-box scenarios
./x bench [NAME...]             measurements
./x vectors                     the tests that read spec/*/vectors
./x fuzz [TARGET] [--seconds N] one decoder for longer, or all
./x docs                        draws what is drawn in ARCHITECTURE.md; builds the API pages
./x advisories                  known vulnerabilities below us (needs the network)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("x: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    let Some((command, rest)) = arguments.split_first() else {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    let shell = Shell::find()?;
    match command.as_str() {
        "build" => {
            let profile = if rest.iter().any(|a| a == "--dev") {
                Profile::Dev
            } else {
                Profile::Release
            };
            build::programs(&shell, profile)?;
            println!(
                "kumiko and what it needs beside it are in {}",
                profile.bin(&shell).display()
            );
            Ok(ExitCode::SUCCESS)
        }
        "test" => test::run(&shell, rest),
        "lint" => lint::run(&shell),
        "e2e" => test::e2e(&shell, rest),
        "demo" => {
            let told = build::programs(&shell, Profile::Release)?;
            let kumiko = Profile::Release.bin(&shell).join("kumiko");
            let mut tour = shell.command(&kumiko);
            let ended = tour.arg("demo").args(rest).envs(told.clone()).status_of()?;
            if ended != ExitCode::SUCCESS {
                return Ok(ended);
            }
            let mut jojo = shell.command(shell.path("testbeds/jojo/demo"));
            jojo.arg(kumiko).envs(told).status_of()
        }
        "bench" => {
            let told = build::programs(&shell, Profile::Release)?;
            let mut bench = shell.cargo(["run", "-q", "--release", "-p", "kumiko-bench", "--"]);
            bench.args(rest).envs(told).status_of()
        }
        "vectors" => {
            vectors::check(&shell)?;
            shell
                .cargo([
                    "test",
                    "--workspace",
                    "--no-fail-fast",
                    "-q",
                    "--",
                    "vector",
                ])
                .status_of()
        }
        "fuzz" => fuzz::run(&shell, rest),
        "docs" => {
            architecture::draw(&shell)?;
            shell.cargo(["doc", "--workspace", "--no-deps"]).status_of()
        }
        "advisories" => crates::advisories(&shell),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        other => Err(Failure::NoSuchCommand {
            given: other.to_owned(),
        }),
    }
}

/// Runs a command in the foreground and passes its verdict on.
trait StatusOf {
    fn status_of(&mut self) -> Result<ExitCode, Failure>;
}

impl StatusOf for std::process::Command {
    fn status_of(&mut self) -> Result<ExitCode, Failure> {
        let status = self.status().map_err(|cause| Failure::Start {
            program: shell::line(self),
            cause,
        })?;
        Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

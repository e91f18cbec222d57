//! `kumiko` as it is typed: a command in a sandbox is run at once, all else is kumiko-grid's, which stands beside.

use kumiko_entry::{line, sandbox};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

const GRID: &str = "kumiko-grid";
/// As a shell has it for a program that is not there.
const NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    let run = line::sandbox_run(std::env::args_os().skip(1));
    match run {
        Some(run) => run_here(&run),
        None => hand_on(),
    }
}

fn run_here(run: &sandbox::Run) -> ExitCode {
    kumiko_linux::signals::end_with_closed_pipes();
    match sandbox::run(run) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("kumiko: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

fn hand_on() -> ExitCode {
    let error = match std::env::current_exe() {
        Err(error) => error,
        Ok(own) => {
            let mut words = std::env::args_os();
            let name = words.next().unwrap_or_else(|| "kumiko".into());
            let mut grid = Command::new(own.with_file_name(GRID));
            grid.arg0(name).args(words).exec()
        }
    };
    eprintln!("kumiko: {GRID} cannot be started, which is to stand beside this program: {error}");
    ExitCode::from(NOT_FOUND)
}

//! The CRIU of this machine, and whether it does for what links nothing (spec/checkpoint, K50, K51). What is known of versions is
//! kumiko-checkpoint's. Not here: dumping.

use crate::machine::{Machine, Obstacle};
use kumiko_checkpoint::{Criu, Kernel, LINE_MOST_BYTES};
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::this_process::kernel_release;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// It prints its version in milliseconds; a machine under load, or a program on a slow file server, may take longer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Where packages put it, which is not in everybody's PATH.
const BESIDE_PATH: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

const INSTALL: &str = "install CRIU 4.2 or newer where PATH leads (Debian's testing suite has it)";

/// One that does here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    pub program: PathBuf,
    pub version: Criu,
}

/// Looks for it in `path`, asks it for its version, and judges that with this kernel and this account.
pub fn criu(machine: &Machine, path: Option<&OsStr>) -> Result<Usable, Obstacle> {
    let obstacle = |why: String, remedy: &str| Obstacle {
        why,
        remedy: remedy.to_owned(),
    };
    // It works within a guest's own namespaces, as nobody in particular.
    machine.user_namespaces.clone()?;
    let program =
        find(path).ok_or_else(|| obstacle("there is no program criu".to_owned(), INSTALL))?;
    let shown = program.display();
    let line = first_line(&program).map_err(|error| {
        let remedy = format!("look what `{shown} --version` says");
        obstacle(format!("{shown}: {error}"), &remedy)
    })?;
    let judged = Criu::read(&line).and_then(|version| {
        version.fits(Kernel::read(&kernel_release())?)?;
        Ok(version)
    });
    match judged {
        Ok(version) => Ok(Usable { program, version }),
        Err(unfit) => Err(obstacle(format!("{shown}: {unfit}"), INSTALL)),
    }
}

/// The first one that may be executed, as execvp(3) looks, then where packages put it.
fn find(path: Option<&OsStr>) -> Option<PathBuf> {
    let named = path.map(std::env::split_paths).into_iter().flatten();
    let all = named.chain(BESIDE_PATH.map(PathBuf::from));
    // A relative entry would have it depend on where one stands.
    let mut all = all.filter(|directory| directory.is_absolute());
    all.find_map(|directory| {
        let program = directory.join("criu");
        is_program(&program).then_some(program)
    })
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// What it prints first when it is asked for its version. It is gone afterwards, whatever it does.
fn first_line(program: &Path) -> io::Result<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let read = match child.stdout.take() {
        Some(stdout) => read_line(stdout, ANSWERS_WITHIN),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    };
    let _ = child.kill(); // it may have ended by itself
    child.wait()?;
    read
}

/// Up to the first line's end, or the end, or as much as a version's line may have.
fn read_line(mut from: impl Read + std::os::fd::AsFd, within: Duration) -> io::Result<String> {
    let poll = Poll::new()?;
    poll.add(&from, 0, Interest::Read)?;
    let until = Instant::now() + within;
    let mut line = [0; LINE_MOST_BYTES];
    let mut filled = 0;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it said nothing within {} s", within.as_secs()),
            ));
        }
        if poll.wait::<1>(Some(left))?.next().is_none() {
            continue;
        }
        let rest = line.get_mut(filled..).unwrap_or_default();
        let got = from.read(rest)?;
        filled += got;
        let said = line.get(..filled).unwrap_or_default();
        if got == 0 || filled == LINE_MOST_BYTES || said.contains(&b'\n') {
            let said = String::from_utf8_lossy(said);
            return Ok(said.lines().next().unwrap_or_default().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What a script in the place of criu makes of it.
    fn said_of(script: &str) -> Result<String, Obstacle> {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("criu");
        // By another process: a child of another test's might hold it open for writing still, and execve(2) say ETXTBSY.
        let written = Command::new("sh")
            .arg("-c")
            .arg("printf '#!/bin/sh\n%s\n' \"$1\" >\"$2\" && chmod 755 \"$2\"")
            .args(["sh", script])
            .arg(&program)
            .status();
        assert!(written.unwrap().success());
        let found = criu(&Machine::assume(), Some(directory.path().as_os_str()));
        found.map(|usable| {
            assert_eq!(usable.program, program);
            usable.version.to_string()
        })
    }

    #[test]
    fn whatever_stands_in_its_place_is_judged_by_its_first_line() {
        let check = |script, expected: &str| {
            let said = match said_of(script) {
                Ok(version) => version,
                Err(obstacle) => obstacle.why,
            };
            assert!(said.contains(expected), "{script}: {said}");
        };
        check("[ \"$*\" = --version ] && echo 'Version: 4.2.1'", "4.2.1");
        check("echo 'Version: 1000.0'; echo 'GitID: x'", "1000.0");
        check("echo 'Version: 4.1.1'", "CRIU 4.1.1 is older than 4.2");
        check("echo 'Version: 3.17.1'", "CRIU 3.17.1 ");
        check("exit 127", "it does not say its version, but \"\"");
        check("printf '\\377\\376'", "it does not say its version, but");
        check(
            "yes Version",
            "it does not say its version, but \"Version\"",
        );
        check("cat /dev/zero", "it does not say its version, but");
    }

    #[test]
    fn one_that_says_nothing_is_not_waited_for() {
        let (quiet, _held) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = read_line(quiet, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_line_may_come_in_pieces() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            use std::io::Write;
            for piece in ["Vers", "ion: 4", ".2", "\nGitID: v4.2\n"] {
                theirs.write_all(piece.as_bytes()).unwrap();
            }
        });
        let line = read_line(ours, Duration::from_secs(60)).unwrap();
        assert_eq!(line, "Version: 4.2");
        writer.join().unwrap();
    }

    #[test]
    fn without_user_namespaces_none_is_asked() {
        let mut machine = Machine::assume();
        let obstacle = Obstacle {
            why: "no".to_owned(),
            remedy: "none".to_owned(),
        };
        machine.user_namespaces = Err(obstacle.clone());
        assert_eq!(criu(&machine, None), Err(obstacle));
    }
}

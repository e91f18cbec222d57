//! What is built otherwise than by plain cargo: the programs as users get them, the runner static.

use crate::fail::Failure;
use crate::shell::{self, Shell};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Dev => "dev",
            Profile::Release => "release",
        }
    }

    /// Where cargo puts its programs.
    pub fn folder(self, shell: &Shell) -> PathBuf {
        shell.path(match self {
            Profile::Dev => "target/debug",
            Profile::Release => "target/release",
        })
    }
}

/// Variables that tell a child where the programs are.
pub type Told = Vec<(&'static str, PathBuf)>;

/// Builds `kumiko` and the runner: `KUMIKO_BIN`, `KUMIKO_RUN`. A copy of the static runner is put beside `kumiko`, where
/// cargo puts a dynamic one whenever it builds the tests: so this comes again before what looks there.
pub fn programs(shell: &Shell, profile: Profile) -> Result<Told, Failure> {
    shell::ok(&mut shell.cargo(["build", "-p", "kumiko", "--profile", profile.name()]))?;
    let mut told = runner(shell, profile)?;
    let folder = profile.folder(shell);
    for (_, made) in &told {
        replace(made, &folder.join("kumiko-run"))?;
    }
    told.push(("KUMIKO_BIN", folder.join("kumiko")));
    Ok(told)
}

/// Builds the runner only: `KUMIKO_RUN`. Static, so that it starts without a loader and in any room; not
/// position-independent, which saves relocations at each start.
pub fn runner(shell: &Shell, profile: Profile) -> Result<Told, Failure> {
    shell::ok(&mut shell.cargo_flagged(
        [
            "build",
            "-p",
            "kumiko-runner",
            "--bin",
            "kumiko-run",
            "--profile",
            profile.name(),
        ],
        "-Ctarget-feature=+crt-static -Crelocation-model=static",
    ))?;
    // With a target by name cargo puts its folder between: target/TRIPLE/debug.
    let made = shell.path("target").join(&shell.triple);
    let made = made
        .join(profile.folder(shell).file_name().unwrap_or_default())
        .join("kumiko-run");
    Ok(vec![("KUMIKO_RUN", made)])
}

/// Puts a copy in place by renaming: what stands there may be running, or be one file with cargo's own.
fn replace(from: &Path, to: &Path) -> Result<(), Failure> {
    let fresh = to.with_extension("fresh");
    let wrong = |cause| Failure::File {
        path: to.to_owned(),
        cause,
    };
    fs::copy(from, &fresh).map_err(wrong)?;
    fs::rename(&fresh, to).map_err(wrong)
}

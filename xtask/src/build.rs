//! What is built besides by plain cargo: the programs as users get them, the runner static.

use crate::fail::Failure;
use crate::shell::{self, Shell};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
}

/// The two programs of a profile.
#[derive(Debug)]
pub struct Programs {
    pub kumiko: PathBuf,
    pub runner: PathBuf,
}

impl Programs {
    /// Tells a child where the programs are, by `KUMIKO_BIN` and `KUMIKO_RUN`.
    pub fn told_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("KUMIKO_BIN", &self.kumiko)
            .env("KUMIKO_RUN", &self.runner)
    }
}

/// Builds `kumiko` and the runner, which is put beside it.
pub fn programs(shell: &Shell, profile: Profile) -> Result<Programs, Failure> {
    let flag: &[&str] = if profile == Profile::Release {
        &["--release"]
    } else {
        &[]
    };
    shell::ok(
        &mut shell.cargo(
            ["build", "-p", "kumiko"]
                .into_iter()
                .chain(flag.iter().copied()),
        ),
    )?;
    let folder = shell.path(if profile == Profile::Release {
        "target/release"
    } else {
        "target/debug"
    });
    let made = runner(shell, profile)?;
    let beside = folder.join("kumiko-run");
    replace(&made, &beside)?;
    Ok(Programs {
        kumiko: folder.join("kumiko"),
        runner: beside,
    })
}

/// Builds the runner: static, so that it starts without a loader and runs in any room, and not position-independent,
/// which saves relocations at each start.
pub fn runner(shell: &Shell, profile: Profile) -> Result<PathBuf, Failure> {
    let flag: &[&str] = if profile == Profile::Release {
        &["--release"]
    } else {
        &[]
    };
    shell::ok(
        &mut shell.cargo_flagged(
            ["build", "-p", "kumiko-runner", "--bin", "kumiko-run"]
                .into_iter()
                .chain(flag.iter().copied()),
            "-Ctarget-feature=+crt-static -Crelocation-model=static",
        ),
    )?;
    let folder = if profile == Profile::Release {
        "release"
    } else {
        "debug"
    };
    Ok(shell
        .path("target")
        .join(&shell.triple)
        .join(folder)
        .join("kumiko-run"))
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

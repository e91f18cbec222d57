//! What is built otherwise than by plain cargo: the programs as users get them, those that start often static.

use crate::fail::Failure;
use crate::java;
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

    /// Where they are put together.
    pub fn bin(self, shell: &Shell) -> PathBuf {
        self.folder(shell).join("bin")
    }
}

/// Variables that tell a child where the programs are.
pub type Told = Vec<(&'static str, PathBuf)>;

/// Builds all programs and puts them together as they are installed, in `bin` of cargo's folder: `KUMIKO_BIN`,
/// `KUMIKO_RUN`, `KUMIKO_FERRY`, `KUMIKO_JOJO_JAR`; the C libraries: `KUMIKO_LIB`, their folder; Python's package: `KUMIKO_PYTHON`, a folder for
/// PYTHONPATH. What cargo itself leaves beside that folder also works, but that a command in a sandbox starts later.
pub fn programs(shell: &Shell, profile: Profile) -> Result<Told, Failure> {
    compile(shell, profile)?;
    let grid = profile.folder(shell).join("kumiko");
    let ferry = profile.folder(shell).join("kumiko-ferry");
    let entry = lean(shell, profile, "kumiko-entry", "kumiko-entry")?;
    let runner = lean(shell, profile, "kumiko-runner", "kumiko-run")?;
    let bin = profile.bin(shell);
    fs::create_dir_all(&bin).map_err(|cause| Failure::File {
        path: bin.clone(),
        cause,
    })?;
    for (made, name) in [
        (&grid, "kumiko-grid"),
        (&entry, "kumiko"),
        (&runner, "kumiko-run"),
    ] {
        replace(made, &bin.join(name))?;
    }
    // It travels in scripts, of which engines take a few MB.
    let stripped = profile.folder(shell).join("kumiko-ferry.stripped");
    let mut strip = shell.command("strip");
    shell::ok(strip.arg("-o").arg(&stripped).arg(&ferry))?;
    replace(&stripped, &bin.join("kumiko-ferry"))?;
    let mut told = java::jar(shell, profile)?;
    told.extend([
        ("KUMIKO_BIN", bin.join("kumiko")),
        ("KUMIKO_RUN", bin.join("kumiko-run")),
        ("KUMIKO_FERRY", bin.join("kumiko-ferry")),
        ("KUMIKO_LIB", profile.folder(shell)),
        ("KUMIKO_PYTHON", python(shell, profile)?),
    ]);
    Ok(told)
}

/// What cargo has to do for that.
pub fn compile(shell: &Shell, profile: Profile) -> Result<(), Failure> {
    let packages = [
        "kumiko",
        "kumiko-capi",
        "kumiko-checkpoint-c",
        "kumiko-python",
        "kumiko-ferry",
    ];
    let what: Vec<&str> = match profile {
        // Of all crates, so that what is below is compiled with the same features as for tests, and not once more.
        Profile::Dev => vec![
            "--workspace",
            "--lib",
            "--bin",
            "kumiko",
            "--bin",
            "kumiko-ferry",
        ],
        Profile::Release => packages.iter().flat_map(|name| ["-p", name]).collect(),
    };
    let what = ["build", "--profile", profile.name()]
        .into_iter()
        .chain(what);
    shell::ok(&mut shell.cargo(what))?;
    lean(shell, profile, "kumiko-entry", "kumiko-entry")?;
    lean(shell, profile, "kumiko-runner", "kumiko-run").map(drop)
}

/// Puts Python's package together, as a wheel would.
fn python(shell: &Shell, profile: Profile) -> Result<PathBuf, Failure> {
    let from = shell.path("bindings/python/kumiko");
    let root = profile.folder(shell).join("python");
    let package = root.join("kumiko");
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |cause| Failure::File { path, cause }
    };
    fs::create_dir_all(&package).map_err(wrong(&package))?;
    for entry in fs::read_dir(&from).map_err(wrong(&from))? {
        let entry = entry.map_err(wrong(&from))?;
        if entry.path().is_file() {
            replace(&entry.path(), &package.join(entry.file_name()))?;
        }
    }
    let native = profile.folder(shell).join("lib_kumiko.so");
    replace(&native, &package.join("_kumiko.abi3.so"))?;
    Ok(root)
}

/// Builds the runner, and the ferry that may stand beside it, only: `KUMIKO_RUN`, `KUMIKO_FERRY`.
pub fn runner(shell: &Shell, profile: Profile) -> Result<Told, Failure> {
    let made = lean(shell, profile, "kumiko-runner", "kumiko-run")?;
    let what = ["build", "--profile", profile.name(), "--workspace"];
    let only = ["--bin", "kumiko-ferry"];
    shell::ok(&mut shell.cargo(what.into_iter().chain(only)))?;
    let ferry = profile.folder(shell).join("kumiko-ferry");
    Ok(vec![("KUMIKO_RUN", made), ("KUMIKO_FERRY", ferry)])
}

/// Builds a program that has to start fast. Static, so that it starts without a loader and in any room; not
/// position-independent, which saves relocations at each start.
fn lean(shell: &Shell, profile: Profile, package: &str, bin: &str) -> Result<PathBuf, Failure> {
    let what = ["build", "-p", package, "--bin", bin, "--profile"];
    shell::ok(&mut shell.cargo_flagged(
        what.into_iter().chain([profile.name()]),
        "-Ctarget-feature=+crt-static -Crelocation-model=static",
    ))?;
    // With a target by name cargo puts its folder between: target/TRIPLE/debug.
    let made = shell.path("target").join(&shell.triple);
    let folder = profile.folder(shell);
    Ok(made.join(folder.file_name().unwrap_or_default()).join(bin))
}

/// Puts a copy in place by renaming: what stands there may be running, or be one file with cargo's own.
pub fn replace(from: &Path, to: &Path) -> Result<(), Failure> {
    let fresh = to.with_extension("fresh");
    let wrong = |cause| Failure::File {
        path: to.to_owned(),
        cause,
    };
    fs::copy(from, &fresh).map_err(wrong)?;
    fs::rename(&fresh, to).map_err(wrong)
}

//! The ways by which a guest's calls are reached, ours and others', each with the same file mapped into its view; and the
//! guest itself, compiled here (bench/mechanisms). Not here: what is measured.

use crate::fail::{Failure, While};
use crate::peers::bubblewrap;
use crate::proc;
use crate::wait::{self, SAMPLE_WITHIN};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Rules of the policy: what a fence of 100 rules costs is asked for, and the others get no fewer.
const RULES: usize = 100;
/// Where the guest finds the folder; as deep as the folder is on the host.
const MAPPED: &str = "/mapped/00";
const FILE: &str = "of/file";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Native,
    /// One of ours, by name.
    Ours(&'static str),
    BareNotify,
    BareTrace,
    Proot,
    Bubblewrap,
    Strace,
}

impl Way {
    pub const ALL: [Way; 10] = [
        Way::Native,
        Way::Ours("namespace"),
        Way::Ours("library"),
        Way::Ours("notify"),
        Way::Ours("ptrace"),
        Way::BareNotify,
        Way::BareTrace,
        Way::Bubblewrap,
        Way::Proot,
        Way::Strace,
    ];

    pub const OURS: [&'static str; 4] = ["namespace", "library", "notify", "ptrace"];

    pub fn name(self) -> &'static str {
        match self {
            Way::Native => "native",
            Way::Ours(name) => name,
            Way::BareNotify => "bare notify",
            Way::BareTrace => "bare ptrace",
            Way::Proot => "PRoot",
            Way::Bubblewrap => "bubblewrap",
            Way::Strace => "strace",
        }
    }

    /// Calls a sample, so that one takes some 30 ms.
    pub fn calls(self) -> usize {
        match self {
            Way::Native | Way::Bubblewrap | Way::Ours("namespace" | "library") => 12_800,
            Way::Ours(_) | Way::BareNotify | Way::BareTrace => 1_600,
            Way::Proot | Way::Strace => 800,
        }
    }
}

/// What a guest of opens.c prints, s.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The median stretch of one process.
    pub median_s: f64,
    /// A call and core, all of it.
    pub wall_s: f64,
}

/// One run of the guest.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    pub opens: bool,
    /// Below the mapped folder.
    pub path: &'a str,
    pub calls: usize,
    pub processes: usize,
    /// On one core, with whoever watches over it.
    pub pinned: bool,
}

impl Guest<'_> {
    pub fn opening(calls: usize) -> Guest<'static> {
        Guest {
            opens: true,
            path: FILE,
            calls,
            processes: 1,
            pinned: true,
        }
    }
}

/// A folder with a file, the programs and the policies.
#[derive(Debug)]
pub struct Place {
    kumiko: PathBuf,
    folder: TempDir,
    programs: TempDir,
}

impl Place {
    pub fn new(kumiko: PathBuf) -> Result<Place, Failure> {
        let making = || "making folders for the guests";
        // Of two parts: the same depth as what it is mapped to.
        let folder = tempfile::Builder::new()
            .prefix("kb")
            .tempdir_in("/tmp")
            .doing(making)?;
        let programs = tempfile::tempdir().doing(making)?;
        fs::create_dir(folder.path().join("of")).doing(making)?;
        fs::write(folder.path().join(FILE), "x\n").doing(making)?;
        let place = Place {
            kumiko,
            folder,
            programs,
        };
        place.compile("opens", &place.folder.path().join("opens"))?;
        for bare in ["notify", "trace"] {
            place.compile(bare, &place.programs.path().join(bare))?;
        }
        let rule = |number: usize| {
            format!("\"/mapped/{number:02}\" = {{ access = \"read\", real = \"/job\" }}\n")
        };
        let rules: String = (0..RULES).map(rule).collect();
        let policy = format!("[paths]\n{rules}");
        fs::write(place.policy(), policy).doing(making)?;
        Ok(place)
    }

    fn compile(&self, name: &str, to: &Path) -> Result<(), Failure> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("mechanisms");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(to);
        cc.arg(sources.join(format!("{name}.c")));
        wait::output(&mut cc, SAMPLE_WITHIN).map(drop)
    }

    pub fn kumiko(&self) -> &Path {
        &self.kumiko
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn policy(&self) -> PathBuf {
        self.programs.path().join("policy.toml")
    }

    /// `program` with these words, reached by this way; those that map show the folder at [`MAPPED`].
    pub fn command(&self, way: Way, program: &str, words: &[String]) -> Command {
        let own = |name: &str| self.programs.path().join(name);
        let here = self.folder.path();
        let mapping = |sign: &str, swap: bool| {
            let (real, mapped) = (here.display().to_string(), MAPPED.to_owned());
            match swap {
                true => format!("{real}{sign}{mapped}"),
                false => format!("{mapped}{sign}{real}"),
            }
        };
        let mut command = match way {
            Way::Native => Command::new(program),
            Way::Ours(mechanism) => {
                let mut command = Command::new(&self.kumiko);
                command.args(["sandbox", "run", "--mechanism", mechanism, "--policy"]);
                command
                    .arg(self.policy())
                    .arg("--dir")
                    .arg(here)
                    .args(["--", program]);
                command
            }
            Way::BareNotify | Way::BareTrace => {
                let name = if way == Way::BareNotify {
                    "notify"
                } else {
                    "trace"
                };
                let mut command = Command::new(own(name));
                command.arg(mapping("=", false)).arg(program);
                command
            }
            Way::Proot => {
                let mut command = Command::new("proot");
                command.arg("-b").arg(mapping(":", true)).arg(program);
                command
            }
            Way::Bubblewrap => {
                let mut command = bubblewrap::view(here);
                command.arg("--bind").arg(here).args([MAPPED, program]);
                command
            }
            Way::Strace => {
                let mut command = Command::new("strace");
                command.args([
                    "-f",
                    "--seccomp-bpf",
                    "-o",
                    "/dev/null",
                    "-e",
                    "trace=open,openat",
                    program,
                ]);
                command
            }
        };
        command.args(words);
        command
    }

    /// Runs the guest once.
    pub fn run(&self, way: Way, guest: &Guest<'_>) -> Result<Told, Failure> {
        let inside = matches!(way, Way::Ours(_) | Way::Bubblewrap);
        let maps = !matches!(way, Way::Native | Way::Strace);
        let program = match inside {
            true => "/job/opens".to_owned(),
            false => self.folder.path().join("opens").display().to_string(),
        };
        let base = match maps {
            true => MAPPED.to_owned(),
            false => self.folder.path().display().to_string(),
        };
        let words = [
            if guest.opens { "open" } else { "getppid" }.to_owned(),
            format!("{base}/{}", guest.path),
            guest.calls.to_string(),
            guest.processes.to_string(),
        ];
        let command = self.command(way, &program, &words);
        let said = wait::output(&mut pinned(command, guest.pinned), SAMPLE_WITHIN)
            .map_err(|failure| absent(way, failure))?;
        let said = String::from_utf8_lossy(&said.stdout);
        let mut figures = said
            .split_whitespace()
            .map_while(|word| word.parse::<f64>().ok());
        match (figures.next(), figures.next()) {
            (Some(median), Some(wall)) => Ok(Told {
                median_s: median * 1e-9,
                wall_s: wall * 1e-9,
            }),
            _ => Err(Failure::unexpected(format!("the guest said {said:?}"))),
        }
    }
}

/// A program that is not there has a package that it comes with.
pub fn absent(way: Way, failure: Failure) -> Failure {
    let (program, package) = match way {
        Way::Proot => ("proot", "proot"),
        Way::Bubblewrap => ("bwrap", "bubblewrap"),
        Way::Strace => ("strace", "strace"),
        _ => return failure,
    };
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    });
    match found {
        true => failure,
        false => Failure::NoPeer { program, package },
    }
}

fn pinned(command: Command, pinned: bool) -> Command {
    if !pinned {
        return command;
    }
    let mut taskset = Command::new("taskset");
    taskset.args(["-c", &proc::last_core().to_string()]);
    taskset.arg(command.get_program()).args(command.get_args());
    taskset
}

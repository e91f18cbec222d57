//! Where guests of these rows run: a folder on a disk with the guest's program in it, natively or in a sandbox with a
//! limit. Not here: what they are to reach.

use crate::fail::{Failure, While};
use crate::guard::{self, Guard};
use crate::wait::{self, SAMPLE_WITHIN};
use kumiko_policy::NetworkLimiter;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The paper's limiter as a library that is put into a guest.
pub const INSIDE: &str = "paper.so";

/// Who holds a guest to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// Nobody: the same program beside them.
    Native,
    /// One of our mechanisms, by name.
    Ours(&'static str),
    /// Our library in the guest, by one of its limiters.
    Inside(NetworkLimiter),
}

#[derive(Debug)]
pub struct Place {
    kumiko: PathBuf,
    folder: TempDir,
}

impl Place {
    pub fn new(kumiko: PathBuf, beneath: &Path) -> Result<Place, Failure> {
        let making = || format!("making a folder for guests in {}", beneath.display());
        fs::create_dir_all(beneath).doing(making)?;
        let beneath = std::path::absolute(beneath).doing(making)?;
        let folder = tempfile::Builder::new()
            .prefix("guests-")
            .tempdir_in(beneath)
            .doing(making)?;
        let place = Place { kumiko, folder };
        for limiter in NetworkLimiter::ALL {
            let text = format!("complete = false\nlimiter = \"{}\"\n", limiter.name());
            fs::write(place.policy(limiter), text).doing(making)?;
        }
        let inside = ["-DINSIDE", "-shared", "-fPIC"];
        for (source, flags, name) in [
            ("guest.c", &[][..], "guest"),
            ("paper.c", &[], "paper"),
            ("paper.c", &inside, INSIDE),
        ] {
            let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("limits");
            let mut cc = Command::new("cc");
            cc.args(["-O2", "-pthread"]).args(flags).arg("-o");
            cc.arg(place.folder().join(name)).arg(sources.join(source));
            wait::output(&mut cc, SAMPLE_WITHIN)?;
        }
        Ok(place)
    }

    pub fn kumiko(&self) -> &Path {
        &self.kumiko
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The guest with these words; a word that begins with `/job/` names what is in the folder.
    pub fn guest(&self, keeper: Keeper, limit: Option<&str>, words: &[&str]) -> Command {
        let folder = self.folder();
        let mut command = match keeper {
            Keeper::Native => {
                let mut command = Command::new(folder.join("guest"));
                command.args(words.iter().map(|word| match word.strip_prefix("/job/") {
                    Some(name) => folder.join(name).into_os_string(),
                    None => (*word).into(),
                }));
                return command;
            }
            Keeper::Ours(_) | Keeper::Inside(_) => Command::new(&self.kumiko),
        };
        command.args(["sandbox", "run"]);
        match keeper {
            Keeper::Native => {}
            Keeper::Ours(mechanism) => drop(command.args(["--mechanism", mechanism])),
            Keeper::Inside(limiter) => drop(command.arg("--policy").arg(self.policy(limiter))),
        }
        if let Some(limit) = limit {
            command.args(["--limit", limit]);
        }
        command.arg("--dir").arg(folder).args(["--", "/job/guest"]);
        command.args(words);
        command
    }

    fn policy(&self, limiter: NetworkLimiter) -> PathBuf {
        self.folder().join(format!("{}.toml", limiter.name()))
    }

    /// Runs it to its end: the figure that it prints.
    pub fn figure(command: &mut Command) -> Result<f64, Failure> {
        let said = wait::output(command, SAMPLE_WITHIN)?;
        number(&String::from_utf8_lossy(&said.stdout))
    }
}

fn number(said: &str) -> Result<f64, Failure> {
    said.trim()
        .parse()
        .map_err(|_| Failure::unexpected(format!("the guest said {said:?}")))
}

/// A guest beside the measurement; ended when dropped.
pub struct Beside {
    pub pid: u32,
    stdout: std::process::ChildStdout,
    _guard: Guard,
}

impl Beside {
    pub fn start(mut command: Command) -> Result<Beside, Failure> {
        let _up = guard::starting();
        let line = wait::line(&command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child: Child = command.spawn().doing(|| format!("starting {line}"))?;
        let pid = child.id();
        let stdout = child.stdout.take();
        let guard = guard::process(child);
        let stdout = stdout.ok_or_else(|| Failure::unexpected(format!("{line}: no stdout")))?;
        Ok(Beside {
            pid,
            stdout,
            _guard: guard,
        })
    }

    /// Waits for the end of what it says.
    pub fn figure(mut self) -> Result<f64, Failure> {
        let mut said = String::new();
        let read = self.stdout.read_to_string(&mut said);
        read.doing(|| "reading what the guest says")?;
        number(&said)
    }
}

//! Programs that make calls when told on stdin, and tell on stdout what they took. Made by the C compiler for the run. Not here: what is
//! asked of them.

use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::guard::{self, Guard};
use crate::site::{Place, Site};
use crate::wait;
use kumiko_testkit::engine::Engine;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tempfile::TempDir;

const MADE_WITHIN: Duration = Duration::from_secs(60);
/// Of libgridrpc.a, as bindings/c/README.md has it.
const LIBRARIES: [&str; 7] = [
    "-lm",
    "-lgridrpc",
    "-lssl",
    "-lcrypto",
    "-lpthread",
    "-ldl",
    "-lm",
];
const LIBRARY: &str = "target/release";
/// Debian's own, with Debian's numpy.
pub const PYTHON: &str = "/usr/bin/python3";

/// A site with routines, and all that calls them.
pub struct World {
    folder: TempDir,
    site: Site,
    /// After its site.
    _engine: Option<Engine>,
}

/// What is made for a site, and where that computes.
#[derive(Clone, Copy)]
pub struct Routines<'a> {
    pub idl: &'static str,
    /// Of `kumiko rpc gen`.
    pub made: &'a [&'a str],
    /// None: on the site's own host; else by a pilot in a slot of this engine.
    pub engine: Option<&'static str>,
}

/// One program that calls.
pub struct Driver {
    _process: Guard,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

/// Where something of the build lies: as told, else in its usual place.
fn told(variable: &str, usual: &str) -> Result<PathBuf, Failure> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let path = named.unwrap_or_else(|| PathBuf::from(usual));
    std::path::absolute(&path).doing(|| format!("finding {}", path.display()))
}

impl World {
    pub fn new(bench: &Bench) -> Result<World, Failure> {
        let routines = Routines {
            idl: "bench.idl",
            made: &[],
            engine: None,
        };
        World::with(bench, routines)
    }

    pub fn with(bench: &Bench, routines: Routines<'_>) -> Result<World, Failure> {
        let folder = tempfile::tempdir().doing(|| "making a folder for programs that call")?;
        for (name, text) in [
            ("raw.c", include_str!("raw.c")),
            ("call.c", include_str!("call.c")),
            ("call.py", include_str!("call.py")),
            ("others.py", include_str!("others.py")),
            ("bench.idl", include_str!("bench.idl")),
            ("paper.c", include_str!("paper.c")),
            ("paper.idl", include_str!("paper.idl")),
            ("elimination.h", include_str!("elimination.h")),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).doing(|| format!("writing {}", path.display()))?;
        }
        let mut engine = None;
        if let Some(name) = routines.engine {
            let up = Engine::own(name, &[], "bench");
            let not = || Failure::unexpected(format!("{name} cannot be brought up here"));
            engine = Some((name, up.ok_or_else(not)?));
        }
        let start = engine
            .as_ref()
            .map(|(name, _)| ["--batch", name, "--pilots", "1"]);
        let environment = engine.as_ref().map(|(_, engine)| engine.environment());
        let place = Place {
            through: &[],
            before: &[],
            start: start.as_ref().map_or(&[], |words| words),
            environment: environment.as_deref().unwrap_or_default(),
        };
        let site = Site::at(bench, &place)?;
        let idl = folder.path().join(routines.idl);
        let (idl, into) = (idl.to_string_lossy(), folder.path().to_string_lossy());
        let mut made = site.command(&["rpc", "gen", &idl, "--into", &into]);
        made.args(routines.made)
            .env("KUMIKO_LIB", told("KUMIKO_LIB", LIBRARY)?);
        let made = wait::output(&mut made, MADE_WITHIN)?;
        let made = String::from_utf8_lossy(&made.stdout).into_owned();
        let words: Vec<&str> = ["rpc", "register"]
            .into_iter()
            .chain(made.lines())
            .collect();
        wait::output(&mut site.command(&words), MADE_WITHIN)?;
        Ok(World {
            folder,
            site,
            _engine: engine.map(|(_, engine)| engine),
        })
    }

    pub fn site_pid(&self) -> Result<u32, Failure> {
        self.site.pid()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cc(&self, name: &str, more: &[&str]) -> Result<PathBuf, Failure> {
        let program = self.path(name);
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"])
            .arg(&program)
            .arg(self.path(&format!("{name}.c")))
            .args(more);
        wait::output(&mut cc, MADE_WITHIN)?;
        Ok(program)
    }

    /// The site's contact, with a durability.
    fn contact(&self, durability: &str) -> Result<PathBuf, Failure> {
        let from = self.site.home().join("contact.toml");
        let text =
            std::fs::read_to_string(&from).doing(|| format!("reading {}", from.display()))?;
        let path = self.path(&format!("{durability}.toml"));
        let text = format!("durability = \"{durability}\"\n{text}");
        std::fs::write(&path, text).doing(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// The chain of processes with nothing in it, and its client.
    pub fn raw(&self) -> Result<(Driver, Driver), Failure> {
        let program = self.cc("raw", &["-lssl", "-lcrypto"])?;
        let home = self.site.home();
        let mut server = Command::new(&program);
        server.arg("server");
        server.args([home.join("hostcert.pem"), home.join("hostkey.pem")]);
        let server = Driver::start(&mut server)?;
        let port = server.line()?;
        let client = Driver::start(Command::new(&program).args(["client", &port]))?;
        Ok((server, client))
    }

    pub fn c(&self, durability: &str) -> Result<Driver, Failure> {
        self.linked("call", durability)
    }

    /// It calls the routines of paper.idl.
    pub fn paper(&self, durability: &str) -> Result<Driver, Failure> {
        self.linked("paper", durability)
    }

    fn linked(&self, name: &str, durability: &str) -> Result<Driver, Failure> {
        let library = told("KUMIKO_LIB", LIBRARY)?;
        let header = std::path::absolute("bindings/c").doing(|| "finding bindings/c")?;
        let (library, header) = (option("-L", &library), option("-I", &header));
        let mut more = vec![header.as_str(), library.as_str()];
        more.extend(LIBRARIES);
        let program = self.cc(name, &more)?;
        Driver::start(Command::new(program).arg(self.contact(durability)?))
    }

    pub fn python(&self, durability: &str) -> Result<Driver, Failure> {
        let package = told("KUMIKO_PYTHON", "target/release/python")?;
        let mut command = Command::new(PYTHON);
        command
            .arg(self.path("call.py"))
            .arg(self.contact(durability)?)
            .env("PYTHONPATH", package)
            .env("KUMIKO_HOME", self.site.home());
        Driver::start(&mut command)
    }
}

fn option(flag: &str, path: &Path) -> String {
    format!("{flag}{}", path.display())
}

impl Driver {
    pub fn start(command: &mut Command) -> Result<Driver, Failure> {
        let _permit = guard::starting();
        let line = wait::line(command);
        let mut child: Child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .doing(|| format!("starting {line}"))?;
        let lost = || Failure::unexpected(format!("{line} has no pipes"));
        let stdin = child.stdin.take().ok_or_else(lost)?;
        let stdout = child.stdout.take().ok_or_else(lost)?;
        let process = guard::process(child);
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Driver {
            _process: process,
            stdin,
            lines,
        })
    }

    fn line(&self) -> Result<String, Failure> {
        match self.lines.recv_timeout(wait::SAMPLE_WITHIN) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Failure::unexpected("a program that calls ended early"))
            }
            Err(RecvTimeoutError::Timeout) => Err(Failure::Deadline {
                what: "the answer of a program that calls".to_owned(),
                within: wait::SAMPLE_WITHIN,
            }),
        }
    }

    /// The two figures that it tells of `count` calls of this kind.
    pub fn ask(&mut self, what: &str, count: usize) -> Result<(f64, f64), Failure> {
        writeln!(self.stdin, "{what} {count}").doing(|| "telling a program to call")?;
        let line = self.line()?;
        let mut figures = line.split_whitespace().map(str::parse);
        match (figures.next(), figures.next()) {
            (Some(Ok(first)), Some(Ok(second))) => Ok((first, second)),
            _ => Err(Failure::unexpected(format!(
                "a program that calls said {line}"
            ))),
        }
    }
}

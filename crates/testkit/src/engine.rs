//! Engines of testbeds/: brought up once for all tests of a process, and gone with it. Not here: how they are brought up.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// Of a testbed's `run`: it cannot be brought up on this machine.
const NOT_HERE: i32 = 3;

/// One that runs. Dropped it goes down, and so it does when this process is killed.
#[derive(Debug)]
pub struct Engine {
    pub directory: tempfile::TempDir,
    name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Engine {
    /// The one that the tests of this process share; None: it cannot run here, which is said.
    pub fn shared(name: &'static str, test: &str) -> Option<&'static Engine> {
        static SLURM: OnceLock<Option<Engine>> = OnceLock::new();
        static CONDOR: OnceLock<Option<Engine>> = OnceLock::new();
        static CRIU: OnceLock<Option<Engine>> = OnceLock::new();
        let place = match name {
            "slurm" => &SLURM,
            "condor" => &CONDOR,
            "criu" => &CRIU,
            other => panic!("there is no testbed of {other}"),
        };
        let engine = place.get_or_init(|| Engine::up(name, &[])).as_ref();
        said(engine, name, test)
    }

    /// One of its own, for a test that does it harm.
    pub fn own(name: &'static str, environment: &[(&str, &str)], test: &str) -> Option<Engine> {
        said(Engine::up(name, environment), name, test)
    }

    fn up(name: &'static str, environment: &[(&str, &str)]) -> Option<Engine> {
        let run = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../testbeds")
            .join(name)
            .join("run");
        let directory = tempfile::Builder::new()
            .prefix("kumiko-engine-")
            .tempdir()
            .expect("a directory");
        let mut child = Command::new(run)
            .arg(directory.path())
            .envs(environment.iter().copied())
            .env("TESTBED_REMOVE", "yes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the testbed's script");
        let stdin = child.stdin.take();
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        if !line.starts_with("ready") {
            let status = child.wait().expect("our child");
            assert_eq!(status.code(), Some(NOT_HERE), "testbeds/{name}/run failed");
            return None;
        }
        Some(Engine {
            directory,
            name,
            child,
            stdin,
        })
    }

    /// What the engine's commands need in their environment to find it, and themselves.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let directory = self.directory.path();
        let mut environment: Vec<(&'static str, OsString)> = match self.name {
            "slurm" => vec![("SLURM_CONF", directory.join("slurm.conf").into())],
            "criu" => Vec::new(),
            _ => vec![("CONDOR_CONFIG", directory.join("condor_config").into())],
        };
        let own = directory.join("bin");
        if own.exists() {
            let mut path = own.into_os_string();
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            environment.push(("PATH", path));
        }
        environment
    }

    /// One of its commands.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.envs(self.environment());
        command
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait(); // it takes its daemons along
    }
}

fn said<E>(engine: Option<E>, name: &str, test: &str) -> Option<E> {
    if engine.is_none() {
        crate::skip(test, &format!("{name} that can be brought up"));
    }
    engine
}

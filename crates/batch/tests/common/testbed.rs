//! Engines of testbeds/, brought up once for all tests of a process, and gone with it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Of a testbed's `run`: it cannot be brought up on this machine.
const NOT_HERE: i32 = 3;

pub struct Testbed {
    pub directory: TempDir,
    pub child: Child,
    /// Closed, also when this process is killed, it goes down.
    _stdin: ChildStdin,
}

impl Testbed {
    pub fn slurm(test: &str) -> Option<&'static Testbed> {
        static SLURM: OnceLock<Result<Testbed, String>> = OnceLock::new();
        told(test, SLURM.get_or_init(|| up("slurm", &[])))
    }
}

impl Testbed {
    pub fn condor(test: &str) -> Option<&'static Testbed> {
        static CONDOR: OnceLock<Result<Testbed, String>> = OnceLock::new();
        told(test, CONDOR.get_or_init(|| up("condor", &[])))
    }
}

fn told(test: &str, testbed: &'static Result<Testbed, String>) -> Option<&'static Testbed> {
    match testbed {
        Ok(testbed) => Some(testbed),
        Err(missing) => {
            eprintln!("SKIP {test}: missing {missing}");
            None
        }
    }
}

/// One of its own, for a test that does it harm.
pub fn up(engine: &str, environment: &[(&str, &str)]) -> Result<Testbed, String> {
    let run = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testbeds")
        .join(engine)
        .join("run");
    let directory = tempfile::Builder::new()
        .prefix("kumiko-engine-")
        .tempdir()
        .unwrap();
    let mut child = Command::new(run)
        .arg(directory.path())
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    if !line.starts_with("ready") {
        let status = child.wait().unwrap();
        assert_eq!(
            status.code(),
            Some(NOT_HERE),
            "testbeds/{engine}/run failed"
        );
        return Err(format!("{engine} that can be brought up"));
    }
    Ok(Testbed {
        directory,
        child,
        _stdin: stdin,
    })
}

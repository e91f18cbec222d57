//! Black-box scenarios: the real `kumiko` program in a throw-away home, as a person would use it.
//! Each test reads as a session.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // this crate is all test

pub mod adversity;
pub mod clock;
mod disk;
pub mod globus;
pub mod info;
pub mod staging;

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything takes on a loaded machine; reached only when something hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The program under test: KUMIKO_BIN, else the one beside the test's own target folder.
pub fn kumiko() -> PathBuf {
    if let Some(path) = std::env::var_os("KUMIKO_BIN") {
        return path.into();
    }
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder.pop();
    let path = folder.join("kumiko");
    assert!(
        path.exists(),
        "{} is not built: run `./x build` or set KUMIKO_BIN",
        path.display()
    );
    path
}

/// What a program in C links, as bindings/c/README.md has it.
pub const GRIDRPC_LIBRARIES: [&str; 7] = [
    "-lm",
    "-lgridrpc",
    "-lssl",
    "-lcrypto",
    "-lpthread",
    "-ldl",
    "-lm",
];

/// A person with an empty home, and what they started. Everything ends with it.
#[derive(Debug)]
pub struct Person {
    /// Taken off before the home is removed.
    disk: Option<disk::Disk>,
    pub home: tempfile::TempDir,
    /// Variables besides those of a fresh login, instead of them if they have the name of one.
    pub variables: Vec<(&'static str, OsString)>,
}

impl Default for Person {
    fn default() -> Self {
        Self::new()
    }
}

impl Person {
    pub fn new() -> Person {
        Person {
            disk: None,
            home: tempfile::Builder::new()
                .prefix("kumiko-e2e-")
                .tempdir()
                .unwrap(),
            variables: Vec::new(),
        }
    }

    /// With a personal site running on a free port.
    pub fn with_site() -> Person {
        let person = Person::new();
        person.start_site();
        person
    }

    /// Puts a disk of its own at the person's KUMIKO_HOME. False: it cannot be mounted.
    pub fn with_disk(&mut self, options: &str) -> bool {
        self.disk = disk::Disk::at(&self.kumiko_home(), options);
        self.disk.is_some()
    }

    /// Fills that disk to the last byte, until what this gives is removed.
    pub fn fill_disk(&self) -> PathBuf {
        self.disk.as_ref().unwrap().fill()
    }

    pub fn start_site(&self) {
        self.ok(["site", "start", "--listen", "127.0.0.1:0"]);
    }

    pub fn kumiko_home(&self) -> PathBuf {
        self.home.path().join("kumiko")
    }

    /// `kumiko ARGS` in this person's environment: only what a fresh login has.
    pub fn kumiko<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Command {
        let mut command = Command::new(kumiko());
        command.args(args).current_dir(self.home.path());
        self.environment(&mut command);
        command
    }

    /// Any other program in the same environment (curl, sh, grid-proxy-init, ...).
    pub fn program<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &self,
        name: &str,
        args: I,
    ) -> Command {
        let mut command = Command::new(name);
        command.args(args).current_dir(self.home.path());
        self.environment(&mut command);
        command
    }

    fn environment(&self, command: &mut Command) {
        let bin = kumiko().parent().unwrap().to_path_buf();
        command
            .env_clear()
            .env(
                "PATH",
                format!(
                    "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                    bin.display()
                ),
            )
            .env("HOME", self.home.path())
            .env("KUMIKO_HOME", self.kumiko_home())
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm");
        for name in ["RUST_BACKTRACE", "KUMIKO_RUN"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }

    /// Runs, demands success, gives stdout.
    #[track_caller]
    pub fn ok<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> String {
        let output = finish(self.kumiko(args).stdin(Stdio::null()));
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs, whatever comes.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Output {
        finish(self.kumiko(args).stdin(Stdio::null()))
    }

    /// The site's process, as it says itself.
    pub fn site_pid(&self) -> u32 {
        let text = std::fs::read_to_string(self.kumiko_home().join("run/site.json")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["pid"].as_u64().unwrap() as u32
    }

    /// kill -9, and gone.
    pub fn kill_site(&self) {
        let pid = self.site_pid();
        kill(pid, "KILL");
        until("the site is gone", || !alive(pid));
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        // Jobs first: a runner outlives its site on purpose.
        let _ = self
            .kumiko(["job", "cancel", "all", "--grace", "0"])
            .stdin(Stdio::null())
            .output();
        let _ = self.kumiko(["site", "stop"]).stdin(Stdio::null()).output();
    }
}

/// Output of a command, killed at the deadline.
pub fn finish(command: &mut Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    collect(child)
}

/// As `finish`, with standard input.
pub fn finish_with(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = collect(child);
    writer.join().unwrap();
    output
}

/// Waits for a child whose output is piped.
pub fn collect(mut child: Child) -> Output {
    fn read(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            bytes
        })
    }
    let out = read(child.stdout.take().unwrap());
    let err = read(child.stderr.take().unwrap());
    let status = wait(&mut child);
    Output {
        status,
        stdout: out.join().unwrap(),
        stderr: err.join().unwrap(),
    }
}

/// Waits for a child; one that outlives the deadline is killed and the test fails.
pub fn wait(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > DEADLINE {
            let _ = child.kill();
            panic!("still running after {DEADLINE:?}");
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Looks until it is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(
            begun.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

pub fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success(), "kill -{signal} {pid}");
}

/// Has stopped processes go on until all have ended: the first that goes on may end the others.
pub fn go_on_to_the_end(pids: &[u32]) {
    for pid in pids.iter().map(u32::to_string) {
        Command::new("kill").args(["-CONT", &pid]).output().unwrap();
    }
    until("those that were stopped end", || {
        !pids.iter().any(|pid| alive(*pid))
    });
}

/// The process that has locked a spool.
pub fn runner_of(spool: &Path) -> u32 {
    let name = spool.display().to_string();
    let mut found = None;
    until("a runner has the spool", || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        found = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .find(|pid: &u32| {
                let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
                let paths = open.into_iter().flatten().flatten();
                paths
                    .filter_map(|fd| std::fs::read_link(fd.path()).ok())
                    .any(|path| path.starts_with(&name) && path.ends_with("status.new"))
            });
        found.is_some()
    });
    found.unwrap()
}

/// Kills a process, until it is gone.
pub fn dead(pid: u32) {
    kill(pid, "KILL");
    until("it is dead", || {
        !Path::new("/proc").join(pid.to_string()).exists()
    });
}

/// Is there a process of this number that is not a zombie.
pub fn alive(pid: u32) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).is_ok_and(
        |stat| {
            !stat
                .rsplit(')')
                .next()
                .unwrap_or("")
                .trim_start()
                .starts_with('Z')
        },
    )
}

/// What a command said, for a failed assertion.
pub fn told(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A test that cannot run here says which capability is missing; the house lists these lines.
pub fn skip(test: &str, missing: &str) {
    eprintln!("SKIP {test}: missing {missing}");
}

pub fn has_program(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|d| d.join(name).is_file()))
}

//! A guest under test: what it is given, what it printed, how it ended.
#![allow(dead_code)]

pub mod asker;
pub mod case;
pub mod changer;

use kumiko_policy::Policy;
use kumiko_sandbox::{
    Choice, Ended, Guest, Launch, Machine, Room, SandboxError, Streams, choose, open,
    prepare_for_dumps,
};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Far above what any case takes, on a machine that is busy with others.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A directory of the test's own, removed at its end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("kumiko-sandbox-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A file or, with a closing slash, a directory; gives its path.
    pub fn put(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        if name.ends_with('/') {
            std::fs::create_dir_all(&path).unwrap();
        } else {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
        }
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The mechanism that this run of the tests is about.
pub fn mechanism() -> String {
    std::env::var("KUMIKO_MECHANISM").unwrap_or("namespace".to_owned())
}

/// Has a room namespaces of its own, and so what only they can give: sizes of temporary places, a loopback, numbers of
/// terminals, an account that is nobody else's?
pub fn has_namespaces() -> bool {
    ["namespace", DUMPED].contains(&mechanism().as_str())
}

/// Has a guest what only a filter of its system calls gives?
pub fn has_filter() -> bool {
    mechanism() != DUMPED
}

/// `namespace` as it is for guests that CRIU may dump: with no filter of system calls.
pub const DUMPED: &str = "dumped";

/// None, said on stderr: what the mechanism needs is missing here.
pub fn machine(test: &str) -> Option<Machine> {
    machine_for(test, &mechanism())
}

pub fn machine_for(test: &str, mechanism: &str) -> Option<Machine> {
    let machine = Machine::probe();
    let mechanism = match mechanism {
        DUMPED => "namespace",
        other => other,
    };
    let kind = kumiko_policy::MechanismKind::from_name(mechanism).unwrap();
    match machine.admits(kind) {
        Ok(()) => Some(machine),
        Err(obstacle) => {
            let what = if mechanism == "namespace" {
                "user namespaces"
            } else {
                "Landlock 6"
            };
            eprintln!("SKIP {test}: missing {what} ({})", obstacle.why);
            None
        }
    }
}

/// Compiles a program of C to job/a, and gives its path; None, said: there is no compiler.
pub fn compiled(test: &str, scratch: &Scratch, source: &str) -> Option<String> {
    let (code, program) = (scratch.put("a.c", source), scratch.path("job/a"));
    let made = std::process::Command::new("gcc")
        .args(["-O1", "-w", "-pthread", "-o", &program, &code])
        .status();
    match made {
        Ok(status) => {
            assert!(status.success(), "{test}: not compiled");
            Some(program)
        }
        Err(_) => {
            eprintln!("SKIP {test}: missing gcc");
            None
        }
    }
}

pub struct Outcome {
    pub ended: Ended,
    pub stdout: String,
    pub stderr: String,
}

pub fn room(policy: &Policy, job: &Path) -> Result<Box<dyn Room>, SandboxError> {
    room_under(&mechanism(), policy, job)
}

pub fn room_under(
    mechanism: &str,
    policy: &Policy,
    job: &Path,
) -> Result<Box<dyn Room>, SandboxError> {
    if mechanism == DUMPED {
        choose(policy, Some("namespace"), &Machine::assume())?;
        return prepare_for_dumps(policy, job);
    }
    let choice: Choice = choose(policy, Some(mechanism), &Machine::assume())?;
    open(&choice).prepare(policy, job)
}

/// Starts a program and waits for its end.
pub fn run(
    room: &mut dyn Room,
    program: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<Outcome, SandboxError> {
    run_within(DEADLINE, room, program, arguments, environment)
}

pub fn run_within(
    time: Duration,
    room: &mut dyn Room,
    program: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<Outcome, SandboxError> {
    let arguments: Vec<String> = arguments.iter().map(|s| s.to_string()).collect();
    let environment: Vec<_> = environment
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_string()))
        .collect();
    let null = File::open("/dev/null").unwrap();
    let (mut out, mut err) = (temporary(), temporary());
    let mut guest = room.start(&Launch {
        program,
        arguments: &arguments,
        environment: &environment,
        directory: None,
        streams: Streams::Given {
            stdin: null.as_fd(),
            stdout: out.as_fd(),
            stderr: err.as_fd(),
        },
    })?;
    let ended = wait_within(time, &mut guest);
    Ok(Outcome {
        ended,
        stdout: text(&mut out),
        stderr: text(&mut err),
    })
}

/// A shell script under a policy, in a room of its own.
pub fn shell(policy: &Policy, job: &Path, script: &str) -> Outcome {
    let mut room = room(policy, job).unwrap();
    run(&mut *room, "/bin/sh", &["-c", script], &[]).unwrap()
}

pub fn wait(guest: &mut Guest) -> Ended {
    wait_within(DEADLINE, guest)
}

pub fn wait_within(time: Duration, guest: &mut Guest) -> Ended {
    let until = Instant::now() + time;
    loop {
        if let Some(ended) = guest.try_wait() {
            return ended;
        }
        let left = until.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "the guest did not end within {time:?}");
        let poll = kumiko_linux::poll::Poll::new().unwrap();
        poll.add(guest.pidfd(), 0, kumiko_linux::poll::Interest::Read)
            .unwrap();
        let _ = poll.wait::<1>(Some(left));
    }
}

/// A nameless file.
pub fn temporary() -> File {
    let path = Scratch::new();
    let file = path.0.join("f");
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(file)
        .unwrap()
}

pub fn text(file: &mut File) -> String {
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Supervisors that this process has.
pub fn guards() -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let mut rest = stat.rsplit(')').next().unwrap().split_whitespace();
        let parent: u32 = rest.nth(1).unwrap().parse().unwrap();
        if stat.contains("(kumiko-guard)") && parent == std::process::id() {
            found.push(entry.file_name().to_str().unwrap().parse().unwrap());
        }
    }
    found
}

/// A guest that starts more than can be counted, in sessions of their own; the pipe that all of them hold.
pub fn bomb(mechanism: &str, job: &Path) -> (File, Box<dyn Room>) {
    let mut room = room_under(mechanism, &Policy::default(), job).unwrap();
    let (ours, theirs) = kumiko_linux::spooling::pipe().unwrap();
    let null = File::open("/dev/null").unwrap();
    let script = "ulimit -u 300 2>/dev/null; for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'trap \"\" TERM HUP; while :; do (sleep 0.05) ; done' &); done; echo up; \
                  while :; do sh -c ':'; done";
    room.start(&Launch {
        program: "sh",
        arguments: &["-c".to_owned(), script.to_owned()],
        environment: &[],
        directory: None,
        streams: Streams::Given {
            stdin: null.as_fd(),
            stdout: theirs.as_fd(),
            stderr: null.as_fd(),
        },
    })
    .unwrap();
    drop(theirs);
    let mut out = File::from(ours);
    let mut up = [0; 3];
    out.read_exact(&mut up).unwrap();
    (out, room)
}

pub fn ends(out: &mut File, what: &str) {
    let poll = kumiko_linux::poll::Poll::new().unwrap();
    poll.add(&*out, 0, kumiko_linux::poll::Interest::Read)
        .unwrap();
    let event = poll.wait::<1>(Some(DEADLINE)).unwrap().next();
    assert!(
        event.is_some(),
        "{what}: the pipe is still held after {DEADLINE:?}"
    );
    assert_eq!(out.read(&mut [0; 1]).unwrap(), 0, "{what}");
}

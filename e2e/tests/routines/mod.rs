//! A person with a site and routines at it, and files of NumPy. What the scenarios of GridRPC share.
#![allow(dead_code)] // each scenario uses a part

use kumiko_e2e::{Person, finish, kill, kumiko, skip, told, until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub struct Caller {
    pub person: Person,
}

/// Whether it, or a process that it was started by, was told of this folder: as runners are of their spool.
fn runs_below(mut pid: u32, folder: &str) -> bool {
    while pid > 1 {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(folder) {
            return true;
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name in brackets: the state, and the parent (proc_pid_stat(5)).
        let rest = stat.rsplit(')').next();
        let parent = rest.and_then(|rest| rest.split_whitespace().nth(1));
        pid = parent.map_or(0, |parent| parent.parse().unwrap());
    }
    false
}

/// The IDL files that are shown to users.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rpc")
}

impl Caller {
    pub fn new() -> Caller {
        Caller {
            person: Person::with_site(),
        }
    }

    /// With these of the examples made here and registered.
    pub fn with(names: &[&str]) -> Caller {
        let caller = Caller::new();
        caller.make(names, &[]);
        caller
    }

    /// With the checkpoint library in them.
    pub fn with_checkpoints(names: &[&str]) -> Caller {
        let mut caller = Caller::new();
        caller.make_with_checkpoints(names);
        caller
    }

    pub fn make_with_checkpoints(&mut self, names: &[&str]) {
        let library = library("libkumikockpt.a", "kumiko-checkpoint-c");
        let library = ("KUMIKO_LIB", library.into_os_string());
        self.person.variables.push(library);
        self.make(names, &["--checkpoint"]);
    }

    pub fn make(&self, names: &[&str], options: &[&str]) {
        let caller = self;
        let home = caller.person.home.path();
        for name in names {
            for ending in ["idl", "c", "py"] {
                let file = format!("{name}.{ending}");
                let from = examples().join(&file);
                if from.exists() {
                    std::fs::copy(from, home.join(&file)).unwrap();
                }
            }
            if home.join(format!("{name}.c")).exists() {
                let object = format!("{name}.o");
                let source = format!("{name}.c");
                let mut cc = Command::new("cc");
                cc.args(["-O2", "-c", &source, "-o", &object]);
                let output = finish(cc.current_dir(home));
                assert!(output.status.success(), "{}", told(&output));
            }
            caller.gen_and_register(name, options);
        }
    }

    /// Of a file of IDL or Python that is here.
    pub fn gen_and_register(&self, name: &str, options: &[&str]) {
        let python = format!("{name}.py");
        let file = match self.person.home.path().join(&python).exists() {
            true => python,
            false => format!("{name}.idl"),
        };
        let mut words = vec!["rpc", "gen", &file];
        words.extend(options);
        let made = self.person.ok(words);
        let mut words = vec!["rpc", "register"];
        words.extend(made.lines());
        self.person.ok(words);
    }

    /// As an argument.
    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.person.home.path().join(name), bytes).unwrap();
        format!("@{name}")
    }

    /// What came back, by name.
    #[track_caller]
    pub fn call(&self, words: &[&str]) -> Value {
        let mut all = vec!["--output", "json", "rpc", "call"];
        all.extend(words);
        serde_json::from_str(&self.person.ok(all)).unwrap()
    }

    /// One that is recorded from its first moment, if nothing else is said: whoever is killed then.
    pub fn begin(&self, words: &[&str]) -> Child {
        let mut all = vec!["--output", "json", "rpc", "call"];
        if !words.contains(&"--durability") {
            all.extend(["--durability", "full"]);
        }
        all.extend(words);
        let mut command = self.person.kumiko(all);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    #[track_caller]
    pub fn end_text(&self, call: Child) -> String {
        let output = call.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub fn end(&self, call: Child) -> Value {
        serde_json::from_str(&self.end_text(call)).unwrap()
    }

    /// kill -9, and a new site at the same port, since clients look for it there.
    pub fn kill_and_start_again(&self) {
        self.kill_and_start_again_after(|| {});
    }

    /// After something that happens while there is no site.
    pub fn kill_and_start_again_after(&self, meanwhile: impl FnOnce()) {
        self.start_again_after(|| {
            self.person.kill_site();
            meanwhile();
        });
    }

    /// After something that ends the site.
    pub fn start_again_after(&self, end: impl FnOnce()) {
        let told = self.person.kumiko_home().join("run/site.json");
        let told = std::fs::read_to_string(told).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        end();
        let address = told["address"].as_str().unwrap();
        self.person.ok(["site", "start", "--listen", address]);
    }

    /// Where the process of a routine that computes has its checkpoints, when it has passed so many safe points; and how many.
    pub fn checkpoints(&self, points: u64) -> (PathBuf, u64) {
        let mut found = None;
        until("safe points are passed", || {
            let workers = std::fs::read_dir(self.state().join("workers"));
            let workers = workers.into_iter().flatten().flatten();
            found = workers
                .filter_map(|worker| std::fs::read_dir(worker.path().join("job")).ok())
                .flat_map(|job| job.flatten())
                .map(|one| one.path())
                .filter(|path| path.extension().is_some_and(|kind| kind == "checkpoint"))
                .find_map(|path| {
                    let counted = std::fs::read(path.join("points")).ok()?;
                    let counted = u64::from_le_bytes(counted.try_into().ok()?);
                    (counted >= points).then_some((path, counted))
                });
            found.is_some()
        });
        found.unwrap()
    }

    /// A file of this name in the working directory of a routine's process.
    pub fn in_a_worker(&self, name: &str) -> Option<PathBuf> {
        let workers = std::fs::read_dir(self.state().join("workers")).ok()?;
        let files = workers
            .flatten()
            .map(|one| one.path().join("job").join(name));
        files.into_iter().find(|file| file.exists())
    }

    pub fn state(&self) -> PathBuf {
        self.person.kumiko_home().join("state/rpc")
    }

    /// Processes of routines of this person's site, other than these.
    fn pids(&self, but: &[u32]) -> Vec<u32> {
        let mut found = Vec::new();
        let home = self.person.home.path().to_str().unwrap();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // A routine in Python is its interpreter's first file.
            let mut words = line.split(|byte| *byte == 0).take(3);
            if !words.any(|word| word == b"/job/routine") || but.contains(&pid) {
                continue;
            }
            if runs_below(pid, home) {
                found.push(pid);
            }
        }
        found
    }

    pub fn routine_pids(&self, count: usize, but: &[u32]) -> Vec<u32> {
        let mut found = Vec::new();
        until("routines run", || {
            found = self.pids(but);
            found.len() >= count
        });
        found
    }

    pub fn routine_pid(&self, but: &[u32]) -> u32 {
        self.routine_pids(1, but)[0]
    }

    /// How many records of the site's log of calls hold this.
    /// Of calls of programs: short ones too.
    pub fn has_all_recorded(&self) {
        let contact = self.person.kumiko_home().join("contact.toml");
        let text = std::fs::read_to_string(&contact).unwrap();
        std::fs::write(contact, format!("durability = \"full\"\n{text}")).unwrap();
    }

    pub fn count_in_log(&self, what: &str) -> i64 {
        self.ask_log(
            "count(*) FROM records WHERE body LIKE '%' || ?1 || '%'",
            what,
        )
    }

    /// Of how many arguments and results the log has the bytes.
    pub fn bytes_in_log(&self) -> i64 {
        self.ask_log("count(*) FROM bytes WHERE name > ?1", "")
    }

    fn ask_log(&self, select: &str, what: &str) -> i64 {
        let log = self.state().join("calls.db");
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let log = rusqlite::Connection::open_with_flags(log, flags).unwrap();
        log.busy_timeout(kumiko_e2e::DEADLINE).unwrap();
        let count = log.query_row(&format!("SELECT {select}"), [what], |row| row.get(0));
        count.unwrap()
    }

    /// The number of the one call that was begun from here and is open.
    pub fn open_call(&self) -> String {
        let folder = self.person.kumiko_home().join("rpc/calls");
        let names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|one| one.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names.len(), 1, "{names:?}");
        names[0].rsplit_once('@').unwrap().1.to_owned()
    }

    /// No bytes of calls lie at the site, nor words of them here.
    #[track_caller]
    pub fn nothing_is_left(&self) {
        for folder in ["arguments", "results", "checkpoints", "dumps"] {
            until(&format!("no {folder} of calls are left"), || {
                let entries = std::fs::read_dir(self.state().join(folder));
                entries.map_or(true, |mut entries| entries.next().is_none())
            });
        }
        until("no bytes of calls are left in the log", || {
            self.bytes_in_log() == 0
        });
        let notes = std::fs::read_dir(self.person.kumiko_home().join("rpc/calls"));
        assert!(notes.map_or(true, |mut notes| notes.next().is_none()));
    }
}

/// A routine of the examples that gives each line of a file a number, killed half-way: each line is there once.
pub fn lines_are_numbered_once(caller: &Caller, routine: &str, pause: &str) {
    let home = caller.person.home.path();
    let line = |number: u64| format!("line {}", "x".repeat((number % 7) as usize));
    let text: String = (0..60).map(|number| line(number) + "\n").collect();
    std::fs::write(home.join("lines"), text).unwrap();
    // Python's comes behind the files, C's before.
    let words = match routine {
        "walks/number" => [routine, "lines", pause],
        _ => [routine, pause, "lines"],
    };
    let others = caller.pids(&[]);
    let call = caller.begin(&[&words[..], &["--out", "to=numbered"]].concat());
    let (folder, _) = caller.checkpoints(20);
    assert!(folder.join("to.file").exists());
    kill(caller.routine_pid(&others), "KILL");
    let result = caller.end(call);
    let numbered = std::fs::read_to_string(home.join("numbered")).unwrap();
    let expected: String = (0..60)
        .map(|number| format!("{number} {}\n", line(number)))
        .collect();
    assert_eq!(numbered, expected);
    let told = match result["told"].is_array() {
        true => result["told"].clone(),
        false => ["passed", "of_the_last", "began_at"]
            .iter()
            .map(|name| result[name][0].clone())
            .collect(),
    };
    let [all, last, began_at]: [u64; 3] = serde_json::from_value(told).unwrap();
    assert!(all == 60 && began_at >= 19, "{result}");
    assert_eq!(last, 60 - (began_at - 1));
    caller.nothing_is_left();
}

/// The folder of a library for C: named by KUMIKO_LIB, else that of the programs under test.
pub fn library(name: &str, package: &str) -> PathBuf {
    let named = std::env::var_os("KUMIKO_LIB").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| kumiko().parent().unwrap().to_path_buf());
    assert!(
        folder.join(name).exists(),
        "{} has no {name}: cargo build -p {package}",
        folder.display()
    );
    folder
}

/// Debian's own, whose packages ./x installs.
pub const PYTHON: &str = "/usr/bin/python3";

/// The folder of the package: named by KUMIKO_PYTHON, else beside the programs under test.
fn package() -> PathBuf {
    let named = std::env::var_os("KUMIKO_PYTHON").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| kumiko().parent().unwrap().join("python"));
    assert!(
        folder.join("kumiko/_kumiko.abi3.so").exists(),
        "{} has no package kumiko: ./x build --dev",
        folder.display()
    );
    folder
}

/// False: said, and skipped.
pub fn numpy_is_here(test: &str) -> bool {
    let numpy = Command::new(PYTHON).args(["-c", "import numpy"]).output();
    if numpy.is_ok_and(|output| output.status.success()) {
        return true;
    }
    skip(test, "numpy (Debian package python3-numpy)");
    false
}

pub fn python(caller: &Caller, arguments: &[&str]) -> Command {
    python_of(&caller.person, arguments)
}

pub fn python_of(person: &Person, arguments: &[&str]) -> Command {
    let mut command = person.program(PYTHON, arguments);
    command
        .env("PYTHONPATH", package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    command
}

/// A file of NumPy.
pub fn npy(shape: &[u64], elements: &[f64]) -> Vec<u8> {
    npy_of("<f8", shape, elements)
}

pub fn npy_of(descr: &str, shape: &[u64], parts: &[f64]) -> Vec<u8> {
    let bytes = parts.iter().flat_map(|part| part.to_le_bytes());
    with_header(descr, shape, bytes.collect())
}

pub fn npy_of_whole(shape: &[u64], elements: &[i64]) -> Vec<u8> {
    let bytes = elements.iter().flat_map(|part| part.to_le_bytes());
    with_header("<i8", shape, bytes.collect())
}

fn with_header(descr: &str, shape: &[u64], bytes: Vec<u8>) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    file.extend(text.as_bytes());
    file.extend(bytes);
    file
}

//! Jojo as a person uses it: `kumiko jojo` over a real sshd at each host of a cluster behind its head node
//! (testbeds/jojo), and with one level at a site, inside its sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, finish, has_program, kill, kumiko, skip, told, wait};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What testbeds/jojo/run ends with where it cannot be had.
const BED_IS_MISSING: i32 = 77;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Where the classes of an example are (java/build).
fn classes(example: &str) -> PathBuf {
    let folder = root().join("target/java/examples").join(example);
    assert!(folder.is_dir(), "{}: run java/build", folder.display());
    folder
}

/// False, said: there is no Java here.
fn java_is_here(test: &str) -> bool {
    let here = has_program("java");
    if !here {
        skip(test, "java");
    }
    here
}

/// Where `java` is, beside the usual places: `Person` gives a login's PATH.
fn path() -> String {
    format!(
        "{}:{}",
        kumiko().parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    )
}

fn jojo(person: &Person, example: &str, args: &[&str]) -> Command {
    let mut command = person.kumiko(["jojo"].iter().chain(args));
    command
        .env("PATH", path())
        .env("CLASSPATH", classes(example))
        .stdin(Stdio::null());
    if let Some(jar) = std::env::var_os("KUMIKO_JOJO_JAR") {
        command.env("KUMIKO_JOJO_JAR", jar);
    }
    command
}

/// `script` at the client of a cluster of two workers, in the folder of the example pi; None, said: there is no such cluster here.
fn at_a_cluster(test: &str, script: &str) -> Option<Output> {
    if !java_is_here(test) {
        return None;
    }
    let mut command = Command::new(root().join("testbeds/jojo/run"));
    command
        .args(["2", "--", "sh", "-euc", script])
        .current_dir(root().join("java/jojo-examples/pi"))
        .env("PATH", path())
        .env("CLASSPATH", classes("pi"))
        .stdin(Stdio::null());
    let output = finish(&mut command);
    if output.status.code() == Some(BED_IS_MISSING) {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let missing = said.lines().find_map(|l| l.split_once(": missing "));
        skip(
            test,
            missing.map_or("a cluster of namespaces", |(_, what)| what),
        );
        return None;
    }
    Some(output)
}

fn pi(text: &str) -> f64 {
    let line = text.lines().find_map(|l| l.split_once("PI = "));
    line.unwrap_or_else(|| panic!("no PI in: {text}"))
        .1
        .trim()
        .parse()
        .unwrap()
}

#[track_caller]
fn is_pi(output: &Output) {
    assert!(output.status.success(), "{}", told(output));
    let pi = pi(&String::from_utf8_lossy(&output.stdout));
    assert!((3.1..3.2).contains(&pi), "{}", told(output));
}

#[test]
fn the_papers_programs_run_from_its_configuration_as_printed() {
    // Its four hosts are more than the bed's two: the same file, shortened by two lines.
    let script = "! ssh -o ProxyJump=none -o ConnectTimeout=2 pad00 true 2>/dev/null
        sed '/pad02/d; /pad03/d' jojo.conf >$JOJO_BED/jojo.conf
        kumiko jojo $JOJO_BED/jojo.conf pi.prop";
    let test = "the_papers_programs_run_from_its_configuration_as_printed";
    if let Some(output) = at_a_cluster(test, script) {
        is_pi(&output);
    }
}

#[test]
fn a_master_at_the_head_serves_workers_that_the_client_cannot_reach() {
    let script = "sed 's/00-03/00-01/' cluster.toml >$JOJO_BED/cluster.toml
        kumiko jojo check $JOJO_BED/cluster.toml
        kumiko jojo $JOJO_BED/cluster.toml pi.prop
        for host in head pad00 pad01; do
            ssh $host 'ls /tmp/jojo.* 2>/dev/null; pgrep -f [s]ilf.jojo.boot' >&2 && exit 9 || true
        done";
    let test = "a_master_at_the_head_serves_workers_that_the_client_cannot_reach";
    if let Some(output) = at_a_cluster(test, script) {
        is_pi(&output);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.matches("  ok: Java ").count(), 3, "{}", told(&output));
    }
}

#[test]
fn one_level_of_the_tree_runs_at_a_site_inside_its_sandbox() {
    let test = "one_level_of_the_tree_runs_at_a_site_inside_its_sandbox";
    if !java_is_here(test) {
        return;
    }
    let person = Person::with_site();
    let nodes = |code: &str, worker: &str| {
        format!(
            "[root]\ncode = \"{worker}\"\n\
             [[node]]\nhost = \"local\"\nname = \"site\"\nrjavaProtocol = \"gram\"\ncode = \"{code}\"\n\
             [[node]]\nunder = \"site\"\nhost = \"local\"\nname = \"w[0-1]\"\ncode = \"{worker}\"\n"
        )
    };
    person.file(
        "pi.toml",
        &nodes("PiMaster", "PiWorker").replacen("PiWorker", "Idle", 1),
    );
    person.file("hello.toml", &nodes("Hello", "Hello"));
    let prop = root().join("java/jojo-examples/pi/pi.prop");
    is_pi(&finish(&mut jojo(
        &person,
        "pi",
        &["pi.toml", prop.to_str().unwrap()],
    )));
    let hello = finish(&mut jojo(&person, "hello", &["hello.toml"]));
    let said = String::from_utf8_lossy(&hello.stdout);
    for node in ["site", "w0", "w1"] {
        // The directory of a job, as its guest sees it.
        let line = format!("[{node}] hello from {node}, in /job\n");
        assert!(said.contains(&line), "{}", told(&hello));
    }
}

/// Numbers of the processes that were started with this word among their arguments.
fn processes_with(word: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if command.split(|b| *b == 0).any(|arg| arg == word.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

#[test]
fn a_worker_and_a_subtree_die_in_mid_run_and_each_result_counts_once() {
    let test = "a_worker_and_a_subtree_die_in_mid_run_and_each_result_counts_once";
    if !java_is_here(test) {
        return;
    }
    let example = root().join("java/jojo-examples/jobs");
    let person = Person::new();
    let mark = format!("e2e-{}", std::process::id());
    let conf = std::fs::read_to_string(example.join("jojo.toml")).unwrap();
    person.file(
        "jojo.toml",
        &conf.replace("-Djojo.node=", &format!("-Djojo.node={mark}-")),
    );
    person.file("jobs.prop", "jobs=200\ntrials=200000\n");
    let run = |victims: &[(&str, &str)]| {
        let mut child = jojo(&person, "jobs", &["jojo.toml", "jobs.prop"])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut said = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            for (_, node) in victims.iter().filter(|(at, _)| *at == line) {
                let pids = processes_with(&format!("-Djojo.node={mark}-{node}"));
                assert_eq!(pids.len(), 1, "{node}");
                kill(pids[0], "KILL");
            }
            said.push(line);
        }
        assert!(wait(&mut child).success(), "{said:?}");
        said
    };
    let whole = run(&[]);
    let broken = run(&[("done: 40", "worker0"), ("done: 80", "head1")]);
    let pi = |said: &[String]| said.iter().find(|l| l.starts_with("PI = ")).cloned();
    assert_eq!(pi(&broken), pi(&whole), "{broken:?}");
    assert!(pi(&whole).unwrap().ends_with(" of 200 jobs"), "{whole:?}");
    assert!(broken.contains(&"lost: head1".to_owned()), "{broken:?}");
    let results: Vec<&String> = broken.iter().filter(|l| l.starts_with("done: ")).collect();
    assert_eq!(results.len(), 200);
}

#[test]
fn what_cannot_be_run_is_told_by_file_line_and_column() {
    let test = "what_cannot_be_run_is_told_by_file_line_and_column";
    if !java_is_here(test) {
        return;
    }
    let person = Person::new();
    let conf = person.file(
        "jojo.conf",
        "<node host=\"root\">\n  <code>A</code>\n  <nod host=\"x\"/>\n</node>\n",
    );
    for args in [&["jojo.conf"][..], &["check", "jojo.conf"]] {
        let output = finish(&mut jojo(&person, "pi", args));
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("jojo.conf:3:3: <nod> is unknown"), "{said}");
    }
    std::fs::write(
        &conf,
        "<node host=\"root\"><code>Idle</code><node host=\"no-such-host.invalid\"><code>Idle</code></node></node>",
    )
    .unwrap();
    for args in [&["jojo.conf"][..], &["check", "jojo.conf"]] {
        let output = finish(&mut jojo(&person, "pi", args));
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("no-such-host.invalid"), "{said}");
    }
}

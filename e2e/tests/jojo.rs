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

// -- watch ------------------------------------------------------------------------------------------------------------

/// The events of `--json`, all of them.
fn events(stdout: &[u8]) -> Vec<serde_json::Value> {
    let lines = std::str::from_utf8(stdout).unwrap().lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn a_program_is_watched_from_its_start_to_its_end_and_reported() {
    let test = "a_program_is_watched_from_its_start_to_its_end_and_reported";
    if !java_is_here(test) {
        return;
    }
    let person = Person::new();
    let example = root().join("java/jojo-examples/queens");
    let file = |name: &str| example.join(name).to_str().unwrap().to_owned();
    let (conf, prop) = (file("jojo.toml"), file("queens.prop"));
    let report = person.file("report.html", "");

    let output = finish(&mut jojo(
        &person,
        "queens",
        &["watch", "--report", "report.html", &conf, &prop],
    ));
    assert!(output.status.success(), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("best: 73, proven"), "{}", told(&output));
    assert!(!said.contains("nodes up"), "{}", told(&output));
    let view = String::from_utf8_lossy(&output.stderr);
    assert!(view.contains("nodes up"), "{}", told(&output));
    assert!(view.contains("s: done"), "{}", told(&output));
    assert!(!view.contains('\u{1b}'), "a screen without a terminal");
    let page = std::fs::read_to_string(report).unwrap();
    for piece in ["nodes up", "<svg", "done, status 0", "Best: 73."] {
        assert!(page.contains(piece), "{piece:?} is not in {page}");
    }

    let output = finish(&mut jojo(
        &person,
        "queens",
        &["watch", "--json", &conf, &prop],
    ));
    let events = events(&output.stdout);
    assert_eq!(events[0]["jojo"], 1, "{}", told(&output));
    let [.., last, end] = events.as_slice() else {
        panic!("{}", told(&output));
    };
    assert_eq!((&end["end"], &end["status"]), (&"done".into(), &0.into()));
    let client = &last["nodes"][0];
    assert_eq!(client["figures"]["best"], 73, "{last}");
    let work = |node: &serde_json::Value| node["figures"]["work"].as_u64();
    let nodes = last["nodes"].as_array().unwrap();
    assert!(nodes.iter().filter_map(work).sum::<u64>() > 0, "{last}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("best: 73, proven"), "{}", told(&output));

    // What was kept is shown again, to the same end.
    std::fs::write(person.file("kept.json", ""), &output.stdout).unwrap();
    let again = person.ok(["jojo", "watch", "--from", "kept.json"]);
    assert!(
        again.contains("best 73") && again.contains("s: done"),
        "{again}"
    );
}

#[test]
fn a_running_program_is_watched_and_tells_who_was_lost_until_it_is_killed() {
    let test = "a_running_program_is_watched_and_tells_who_was_lost_until_it_is_killed";
    if !java_is_here(test) {
        return;
    }
    let person = Person::new();
    let none = finish(&mut jojo(&person, "jobs", &["watch"]));
    assert_eq!(none.status.code(), Some(1), "{}", told(&none));
    assert!(
        told(&none).contains("no program of Jojo"),
        "{}",
        told(&none)
    );

    let mark = format!("e2e-watch-{}", std::process::id());
    let example = root().join("java/jojo-examples/jobs");
    let conf = std::fs::read_to_string(example.join("jojo.toml")).unwrap();
    person.file(
        "jojo.toml",
        &conf.replace("-Djojo.node=", &format!("-Djojo.node={mark}-")),
    );
    person.file("jobs.prop", "jobs=200000\ntrials=200000\n");
    let mut program = jojo(&person, "jobs", &["jojo.toml", "jobs.prop"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // As one leaves it that was killed: nobody answers there.
    let folder = person
        .kumiko_home()
        .parent()
        .unwrap()
        .join(".cache/jojo-run");
    kumiko_e2e::until("the program's socket", || {
        folder.join(program.id().to_string()).exists()
    });
    drop(std::os::unix::net::UnixListener::bind(folder.join("1")).unwrap());

    let mut watch = jojo(&person, "jobs", &["watch", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut killed = false;
    let mut lost = false;
    for line in BufReader::new(watch.stdout.take().unwrap()).lines() {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let nodes = event["nodes"].as_array();
        let messages = |n: &serde_json::Value| n["up"][0].as_u64().unwrap_or(0);
        if !killed && nodes.is_some_and(|nodes| nodes.iter().map(messages).sum::<u64>() > 10) {
            let pids = processes_with(&format!("-Djojo.node={mark}-worker0"));
            assert_eq!(pids.len(), 1);
            kill(pids[0], "KILL");
            killed = true;
        }
        if event.get("lost").is_some() {
            assert_eq!(event["name"], "worker0", "{event}");
            lost = true;
            program.kill().unwrap();
        }
    }
    let _ = program.kill();
    wait(&mut program);
    assert_eq!((killed, lost), (true, true));
    assert_eq!(wait(&mut watch).code(), Some(1));
    assert!(!folder.join("1").exists(), "what nobody answers at is left");
}

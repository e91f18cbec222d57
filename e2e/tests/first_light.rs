//! A person starts a site and gets a program run there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, collect, finish, finish_with, kill, told, until};
use std::process::Stdio;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_site_starts_with_nothing_configured_and_says_where_its_things_are() {
    let person = Person::new();
    let said = person.ok(["site", "start", "--listen", "127.0.0.1:0"]);
    let home = person.kumiko_home();
    assert!(said.contains(home.to_str().unwrap()), "{said}");
    for file in [
        "hostcert.pem",
        "grid-mapfile",
        "policy.toml",
        "certificates",
        "ca",
        "site.toml",
    ] {
        assert!(home.join(file).exists(), "{file}");
    }
    assert!(person.ok(["site", "status"]).contains("up"), "status");
    person.ok(["site", "start"]); // a second start finds it running
    person.ok(["site", "stop"]);
    let down = person.run(["site", "status"]);
    assert_eq!(down.status.code(), Some(1), "{}", told(&down));
}

#[test]
fn a_program_runs_and_its_output_and_exit_status_come_back() {
    let person = Person::with_site();
    let check = |command: &[&str], stdout: &str, stderr: &str, status: i32| {
        let mut args = vec!["job", "run", "--"];
        args.extend(command);
        let output = person.run(args);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{command:?}: {}",
            told(&output)
        );
        assert_eq!(
            text(&output.stdout),
            stdout,
            "{command:?}: {}",
            told(&output)
        );
        assert!(
            text(&output.stderr).contains(stderr),
            "{command:?}: {}",
            told(&output)
        );
    };
    check(&["echo", "hello"], "hello\n", "", 0);
    check(
        &["/bin/sh", "-c", "echo out; echo err >&2; exit 7"],
        "out\n",
        "err",
        7,
    );
    check(
        &["sh", "-c", "printf 'a\\0b\\377' | od -An -tx1"],
        " 61 00 62 ff\n",
        "",
        0,
    );
    check(&["sh", "-c", "kill -TERM $$"], "", "", 128 + 15);
    check(&["/no/such/program"], "", "/no/such/program", 127);
    check(&["/etc/passwd"], "", "/etc/passwd", 126);
}

#[test]
fn flags_of_a_job_reach_it() {
    let person = Person::with_site();
    let run = |args: &[&str]| {
        let mut all = vec!["job", "run"];
        all.extend(args);
        let output = person.run(all);
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        run(&["--env", "COLOUR=blue", "--", "sh", "-c", "echo $COLOUR"]),
        "blue\n"
    );
    assert_eq!(run(&["--workdir", "/tmp", "--", "pwd"]), "/tmp\n");
    let mut ranks: Vec<String> = run(&[
        "--count",
        "3",
        "--",
        "sh",
        "-c",
        "echo $KUMIKO_RANK/$KUMIKO_COUNT",
    ])
    .lines()
    .map(str::to_owned)
    .collect();
    ranks.sort();
    assert_eq!(ranks, ["0/3", "1/3", "2/3"]);
    let late = person.run(["job", "run", "--time", "200ms", "--", "sleep", "50"]);
    assert_eq!(late.status.code(), Some(125), "{}", told(&late));
    assert!(text(&late.stderr).contains("time limit"), "{}", told(&late));
}

#[test]
fn a_folder_is_sent_and_results_come_back() {
    let person = Person::with_site();
    person.file("work/in.txt", "3 4 5");
    person.file("work/sub/keep.txt", "untouched");
    person.ok([
        "job",
        "run",
        "--dir",
        "work",
        "--stdin",
        "in.txt",
        "--",
        "sh",
        "-c",
        "wc -w > out.txt; mkdir -p new; cp out.txt new/",
    ]);
    let work = person.home.path().join("work");
    assert_eq!(
        std::fs::read_to_string(work.join("out.txt"))
            .unwrap()
            .trim(),
        "3"
    );
    assert_eq!(
        std::fs::read_to_string(work.join("new/out.txt"))
            .unwrap()
            .trim(),
        "3"
    );
    assert_eq!(
        std::fs::read_to_string(work.join("sub/keep.txt")).unwrap(),
        "untouched"
    );
}

#[test]
fn submitted_jobs_are_listed_waited_for_and_removed() {
    let person = Person::with_site();
    let first = person.ok([
        "job",
        "submit",
        "--name",
        "one",
        "--",
        "sh",
        "-c",
        "echo 1; exit 3",
    ]);
    let first = first.trim();
    let waited = person.run(["job", "wait", first]);
    assert_eq!(waited.status.code(), Some(3), "{}", told(&waited));
    assert_eq!(person.ok(["job", "log", first]), "1\n");
    let shown: serde_json::Value =
        serde_json::from_str(&person.ok(["--output", "json", "job", "show", first])).unwrap();
    assert_eq!(shown[0]["name"], "one");
    assert_eq!(shown[0]["outcome"]["exited"]["status"], 3);
    let same = person.ok(["job", "submit", "--key", "k1", "--", "true"]);
    assert_eq!(
        same,
        person.ok(["job", "submit", "--key", "k1", "--", "true"]),
        "one key, one job"
    );
    assert!(person.ok(["job", "list"]).contains("one"));
    person.ok(["job", "wait", "last"]);
    person.ok(["job", "remove", "all"]);
    assert_eq!(person.ok(["--output", "lines", "job", "list"]), "");
}

#[test]
fn a_job_is_cancelled_with_term_and_then_kill() {
    let person = Person::with_site();
    let polite = person.ok([
        "job",
        "submit",
        "--",
        "sh",
        "-c",
        "trap 'echo bye; exit 0' TERM; echo up; sleep 100 & wait",
    ]);
    let polite = polite.trim();
    until("it is up", || {
        person.ok(["job", "show", polite]).contains("active")
            && person
                .ok(["--output", "json", "job", "show", polite])
                .contains("\"stdout_bytes\": 3")
    });
    person.ok(["job", "cancel", polite]);
    person.run(["job", "wait", polite]);
    assert_eq!(person.ok(["job", "log", polite]), "up\nbye\n");
    let stubborn = person.ok([
        "job",
        "submit",
        "--",
        "sh",
        "-c",
        "trap '' TERM; sleep 100; sleep 100",
    ]);
    person.ok(["job", "cancel", "--grace", "50ms", stubborn.trim()]);
    let waited = person.run(["job", "wait", stubborn.trim()]);
    assert_eq!(waited.status.code(), Some(125), "{}", told(&waited));
    assert!(
        person
            .ok(["job", "show", stubborn.trim()])
            .contains("cancelled")
    );
}

#[test]
fn exec_passes_streams_both_ways_and_the_status_back() {
    let person = Person::with_site();
    let blob: Vec<u8> = (0..3_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let output = finish_with(&mut person.kumiko(["exec", "local", "--", "cat"]), &blob);
    assert!(output.status.success(), "{}", told(&output));
    assert!(
        output.stdout == blob,
        "3 MB came back changed ({} bytes)",
        output.stdout.len()
    );
    let output = finish_with(
        &mut person.kumiko([
            "exec",
            "local",
            "--",
            "sh",
            "-c",
            "read a; echo got $a; exit 9",
        ]),
        b"x\n",
    );
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(9), "got x\n"),
        "{}",
        told(&output)
    );
    let lines = finish(
        person
            .kumiko(["exec", "local", "--", "seq", "1000000"])
            .stdin(Stdio::null()),
    );
    assert_eq!(lines.stdout.len(), 6_888_896, "a million lines");
}

#[test]
fn exec_gives_a_terminal_when_asked() {
    let person = Person::with_site();
    let output = person.run([
        "exec",
        "-t",
        "local",
        "--",
        "sh",
        "-c",
        "test -t 0 && test -t 1 && stty size && tty",
    ]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(
        text(&output.stdout).contains("/dev/pts/"),
        "{}",
        told(&output)
    );
    let plain = person.run(["exec", "-T", "local", "--", "test", "-t", "0"]);
    assert_eq!(plain.status.code(), Some(1), "{}", told(&plain));
}

#[test]
fn interrupting_run_cancels_the_job() {
    let person = Person::with_site();
    let child = person
        .kumiko(["job", "run", "--", "sh", "-c", "echo up; sleep 100"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the job runs", || {
        person.ok(["job", "list"]).contains("active")
    });
    kill(child.id(), "INT");
    let output = collect(child);
    assert_eq!(output.status.code(), Some(125), "{}", told(&output));
    until("it is cancelled", || {
        person.ok(["job", "list"]).contains("cancelled")
    });
}

#[test]
fn wrong_use_is_told_apart_from_failure() {
    let person = Person::new();
    let check = |args: &[&str], status: i32, says: &str| {
        let output = person.run(args);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{args:?}: {}",
            told(&output)
        );
        assert!(
            text(&output.stderr).contains(says),
            "{args:?}: {}",
            told(&output)
        );
    };
    check(&["job", "list"], 1, "kumiko site start");
    check(&["job"], 2, "Usage");
    check(
        &["job", "run", "--time", "soon", "--", "true"],
        2,
        "duration",
    );
    check(&["job", "list", "--site", "pad:x"], 2, "address");
    check(
        &["job", "run", "--site", "127.0.0.1:1", "--", "true"],
        125,
        "kumiko identity proxy",
    );
    person.start_site();
    check(&["job", "show", "7"], 1, "7");
    check(&["job", "show", "seven"], 2, "seven");
    check(
        &["job", "run", "--policy", "none.toml", "--", "true"],
        125,
        "none.toml",
    );
    check(&["job", "run", "--", "./prog"], 127, "--dir");
    person.ok(["site", "stop"]);
    check(&["job", "list"], 1, "refused");
}

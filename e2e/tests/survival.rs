//! `kill -9` of the site: jobs go on, output and status are kept, watchers resume, nothing runs twice.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, collect, told, until};
use std::process::Stdio;

/// A job that counts its own starts in its directory, runs until told, then exits with 5.
const COUNTED: &str = "echo start >> starts; echo begun; until test -e go; do sleep 0.02; done; echo done; cat starts; exit 5";

#[test]
fn a_job_survives_kill_9_of_the_site_and_ends_while_it_is_down() {
    let person = Person::with_site();
    let job = person.ok(["job", "submit", "--", "sh", "-c", COUNTED]);
    let job = job.trim();
    until("it has begun", || {
        person.ok(["job", "log", "--follow=no", job]) == "begun\n"
    });
    let view: serde_json::Value =
        serde_json::from_str(&person.ok(["--output", "json", "job", "show", job])).unwrap();
    let directory = person.kumiko_home().join("state/jobs").join(job);
    assert!(directory.exists(), "{view}");
    person.kill_site();
    std::fs::write(directory.join("go"), "").unwrap();
    until("the runner has written the status", || {
        !person.run(["site", "status"]).status.success()
            && std::process::Command::new("find")
                .args([
                    person.kumiko_home().join("state/spool").as_os_str(),
                    "-name".as_ref(),
                    "status".as_ref(),
                ])
                .output()
                .is_ok_and(|found| !found.stdout.is_empty())
    });
    person.start_site();
    let waited = person.run(["job", "wait", job]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    assert_eq!(person.ok(["job", "log", job]), "begun\ndone\nstart\n");
}

#[test]
fn one_who_follows_a_job_never_notices_the_crash() {
    let person = Person::with_site();
    let address = std::fs::read_to_string(person.kumiko_home().join("contact.toml")).unwrap();
    let port = address
        .lines()
        .find_map(|l| l.strip_prefix("port = "))
        .unwrap()
        .to_owned();
    let follower = person
        .kumiko(["job", "run", "--", "sh", "-c", COUNTED])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("it has begun", || {
        person.ok(["job", "list"]).contains("active")
    });
    let job = person.ok(["--output", "lines", "job", "list"]);
    let job: serde_json::Value = serde_json::from_str(job.lines().next().unwrap()).unwrap();
    let directory = person
        .kumiko_home()
        .join("state/jobs")
        .join(job["id"].to_string());
    until("it counts", || directory.join("starts").exists());
    person.kill_site();
    person.ok(["site", "start", "--listen", &format!("127.0.0.1:{port}")]);
    std::fs::write(directory.join("go"), "").unwrap();
    let output = collect(follower);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "begun\ndone\nstart\n",
        "{}",
        told(&output)
    );
}

#[test]
fn stopping_and_starting_with_a_job_running_is_how_the_program_is_upgraded() {
    let person = Person::with_site();
    let job = person.ok(["job", "submit", "--", "sh", "-c", COUNTED]);
    let job = job.trim();
    let directory = person.kumiko_home().join("state/jobs").join(job);
    until("it counts", || directory.join("starts").exists());
    let said = person.ok(["site", "stop"]);
    assert!(said.contains("1 job"), "{said}");
    person.start_site();
    assert!(person.ok(["job", "show", job]).contains("active"));
    std::fs::write(directory.join("go"), "").unwrap();
    assert_eq!(person.run(["job", "wait", job]).status.code(), Some(5));
    assert_eq!(person.ok(["job", "log", job]), "begun\ndone\nstart\n");
}

#[test]
fn an_exec_session_lives_through_a_crash_of_the_site() {
    let person = Person::with_site();
    let address = std::fs::read_to_string(person.kumiko_home().join("contact.toml")).unwrap();
    let port = address
        .lines()
        .find_map(|l| l.strip_prefix("port = "))
        .unwrap()
        .to_owned();
    let mut child = person
        .kumiko([
            "exec",
            "local",
            "--",
            "sh",
            "-c",
            "while read line; do echo \"<$line>\"; done; exit 4",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    use std::io::Write;
    for number in 0..500 {
        writeln!(stdin, "{number}").unwrap();
        if number == 250 {
            until("it runs", || person.ok(["job", "list"]).contains("active"));
            person.kill_site();
            person.ok(["site", "start", "--listen", &format!("127.0.0.1:{port}")]);
        }
    }
    drop(stdin);
    let output = collect(child);
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    let expected: Vec<String> = (0..500).map(|n| format!("<{n}>\n")).collect();
    let expected = expected.concat();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        expected,
        "{}",
        told(&output)
    );
}

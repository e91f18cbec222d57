//! Guests that mean harm, and what comes of it: nothing, and the site serves on.
//! Not here: what they do to files (hostile_files.rs), strangers (bad_input.rs), what a policy shows (guests.rs).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::{compiled, serves, text};
use kumiko_e2e::{Person, alive, kill, told, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Output, Stdio};

/// The person runs `sh -c SCRIPT` as a job.
fn sh(person: &Person, script: &str) -> Output {
    person.run(["job", "run", "--", "sh", "-c", script])
}

/// Processes whose command line holds this.
fn processes(word: &str) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").unwrap();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid: &u32| {
            alive(*pid)
                && std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| text(&line).contains(word))
        })
        .collect()
}

/// Of attempts: one that waits for the next is none of them.
fn runners(person: &Person) -> Vec<u32> {
    let spools = person.kumiko_home().join("state/spool");
    let mut runners = processes(&spools.display().to_string());
    let spare = processes("--spare");
    runners.retain(|pid| !spare.contains(pid));
    runners
}

fn spawned(person: &Person, args: &[&str]) -> Child {
    let mut command = person.kumiko(args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_guest_reaches_nothing_of_its_runner_of_another_of_the_site_or_of_the_host() {
    let person = Person::with_site();
    let test = "a_guest_reaches_nothing_of_its_runner_of_another_of_the_site_or_of_the_host";
    let Some(folder) = compiled(test, &person, include_str!("guests/attacker.c"), "attacker")
    else {
        return;
    };
    let devices =
        ["/dev/null", "/dev/zero", "/dev/tty"].map(|path| std::fs::metadata(path).unwrap().mode());
    let victim = person.ok(["job", "submit", "--", "sleep", "300"]);
    until("the victim runs", || {
        person.ok(["job", "show", victim.trim()]).contains("active")
    });
    let site = person.site_pid();
    let mut child = spawned(
        &person,
        &[
            "job",
            "run",
            "--dir",
            folder.to_str().unwrap(),
            "--stdin",
            "-",
            "--",
            "./attacker",
        ],
    );
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut breaches = String::new();
    loop {
        let mut line = String::new();
        assert!(
            said.read_line(&mut line).unwrap() > 0,
            "it ended early: {breaches}"
        );
        if line == "ready\n" {
            break;
        }
        breaches.push_str(&line);
    }
    let mut targets: Vec<String> = runners(&person).iter().map(u32::to_string).collect();
    assert!(
        targets.len() >= 2,
        "the victim's runner and its own: {targets:?}"
    );
    targets.push(site.to_string());
    targets.push(std::process::id().to_string());
    targets.extend(processes("sleep\u{0}300").iter().map(u32::to_string));
    let home = person.kumiko_home();
    for path in [
        "",
        "state/events.db",
        "state/spool",
        "hostkey.pem",
        "user/userkey.pem",
        "run/lock",
    ] {
        targets.push(home.join(path).display().to_string());
    }
    for attempt in std::fs::read_dir(home.join("state/spool")).unwrap() {
        let spool = attempt.unwrap().path();
        targets.extend(
            ["control", "status.new", "stdout", "attempt.json"]
                .map(|name| spool.join(name).display().to_string()),
        );
    }
    child
        .stdin
        .take()
        .unwrap()
        .write_all(format!("{}\n", targets.join("\n")).as_bytes())
        .unwrap();
    said.read_to_string(&mut breaches).unwrap();
    child.stdout = None;
    assert!(kumiko_e2e::wait(&mut child).success(), "{breaches}");
    // With no stdin at all it has other descriptors.
    let empty = person.run([
        "job",
        "run",
        "--dir",
        folder.to_str().unwrap(),
        "--",
        "./attacker",
    ]);
    assert!(empty.status.success(), "{}", told(&empty));
    breaches.push_str(&text(&empty.stdout));
    assert!(
        breaches.matches("tried").count() == 2 && !breaches.contains("BREACH"),
        "{breaches}"
    );
    assert_eq!(
        devices,
        ["/dev/null", "/dev/zero", "/dev/tty"].map(|path| std::fs::metadata(path).unwrap().mode())
    );
    assert_eq!(person.site_pid(), site);
    assert!(
        person.ok(["job", "show", victim.trim()]).contains("active"),
        "the victim lives"
    );
    serves(&person);
}

#[test]
fn what_a_guest_leaves_behind_dies_with_it() {
    let person = Person::with_site();
    // A number that no other process of this machine has in its command line.
    let word = format!("9{}.25", std::process::id());
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sh -c \"trap '' HUP INT TERM; sleep {word}; sleep {word}\" >/dev/null 2>&1 &) ; done; \
         until test $(ls -d /proc/[0-9]* | wc -l) -gt 20; do :; done; exit 3"
    );
    let output = sh(&person, &script);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    until("all that it left is gone", || processes(&word).is_empty());
    let output = sh(&person, &format!("(sleep {word} &); echo held open")); // and its pipes with it
    assert_eq!(output.stdout, b"held open\n", "{}", told(&output));
    serves(&person);
}

#[test]
fn a_guest_that_ignores_every_signal_ends_all_the_same() {
    let person = Person::with_site();
    let script = "trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU PIPE; echo up; while :; do sleep 1000; done";
    let description = serde_json::json!({"executable": "sh", "arguments": ["-c", script], "time_limit_s": 1, "grace_ms": 50});
    person.file("stubborn.json", &description.to_string());
    let output = person.run(["job", "run", "--description", "stubborn.json"]);
    assert_eq!(output.status.code(), Some(125), "{}", told(&output));
    assert!(text(&output.stderr).contains("time"), "{}", told(&output));
    let job = person.ok([
        "job",
        "submit",
        "--",
        "sh",
        "-c",
        &format!("kill -STOP $$; {script}"),
    ]);
    person.ok(["job", "cancel", "--grace", "50ms", job.trim()]);
    person.run(["job", "wait", job.trim()]);
    until("it is over", || {
        person.ok(["job", "show", job.trim()]).contains("cancelled")
    });
    until("no runner is left", || runners(&person).is_empty());
}

#[test]
fn a_guest_cannot_hold_up_the_start_of_its_siblings_for_long() {
    let person = Person::with_site();
    let test = "a_guest_cannot_hold_up_the_start_of_its_siblings_for_long";
    let source = "#include <signal.h>\nint main(void) { for (;;) kill(-1, SIGSTOP); }\n";
    let Some(folder) = compiled(test, &person, source, "stopper") else {
        return;
    };
    let folder = folder.to_str().unwrap();
    let job = person.ok([
        "job",
        "submit",
        "--dir",
        folder,
        "--count",
        "60",
        "--",
        "./stopper",
    ]);
    person.ok(["job", "cancel", "--grace", "0", job.trim()]);
    person.run(["job", "wait", job.trim()]);
    until("no runner is left", || runners(&person).is_empty());
    serves(&person);
}

#[test]
fn streams_that_a_guest_mistreats_hurt_nobody() {
    let person = Person::with_site();
    let megabytes = vec![b'x'; 3_000_000];
    let check = |script: &str, status: i32, stdout: &str| {
        let mut exec = person.kumiko(["exec", "local", "--", "sh", "-c", script]);
        let output = kumiko_e2e::finish_with(&mut exec, &megabytes);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{script}: {}",
            told(&output)
        );
        assert_eq!(text(&output.stdout), stdout, "{script}");
    };
    check("sleep 0.2; exit 5", 5, "");
    check("exec <&-; echo deaf; exit 6", 6, "deaf\n");
    check("exec >&- 2>&-; sleep 0.1; exit 7", 7, "");
    check("head -c 3; echo; exit 8", 8, "xxx\n");
    check("exec 0<&- 1>&- 2>&-; kill -9 $$", 137, "");
    serves(&person);
}

#[test]
fn endless_output_ends_at_the_quota_and_is_kept_up_to_it() {
    let person = Person::new();
    person.file("kumiko/site.toml", "output_quota_bytes = 100000\n");
    person.start_site();
    for script in ["yes", "yes >&2"] {
        let output = sh(&person, script);
        assert_eq!(output.status.code(), Some(125), "{}", told(&output));
        let kept = output.stdout.len() + output.stderr.len();
        assert!((100_000..110_000).contains(&kept), "{script}: {kept} bytes");
        let words = text(&output.stderr);
        assert!(
            words.lines().last().unwrap_or_default().contains("quota"),
            "{}",
            &words[words.len().min(300)..]
        );
    }
    serves(&person);
}

#[test]
fn a_client_that_is_killed_leaves_a_job_that_can_be_found_and_ended() {
    let person = Person::with_site();
    for verb in [&["job", "run"][..], &["exec", "local"][..]] {
        let mut args = verb.to_vec();
        args.extend(["--", "sh", "-c", "echo up; sleep 600"]);
        let mut child = spawned(&person, &args);
        let mut line = [0; 3];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut line)
            .unwrap();
        kill(child.id(), "KILL");
        child.wait().unwrap();
        person.ok(["job", "cancel", "last", "--grace", "0"]);
        until("it has ended", || {
            person.ok(["job", "show", "last"]).contains("cancelled")
        });
    }
    serves(&person);
}

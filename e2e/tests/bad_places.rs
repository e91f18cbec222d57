//! Files, directories and disks of a site that are broken, closed, gone or full: the one that is wrong is named, nothing
//! that was acknowledged is lost, and the site serves on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::{port, refused, serves, text};
use kumiko_e2e::{Person, finish, skip, told, until, wait};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;

#[test]
fn keys_that_others_can_read_are_refused() {
    let person = Person::with_site();
    let home = person.kumiko_home();
    let key = home.join("user/userkey.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    refused(
        &person.run(["job", "run", "--", "true"]),
        125,
        &["userkey.pem", "600"],
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    serves(&person);
    person.ok(["site", "stop"]);
    fs::set_permissions(home.join("hostkey.pem"), fs::Permissions::from_mode(0o640)).unwrap();
    refused(
        &person.run(["site", "start", "--listen", "127.0.0.1:0"]),
        1,
        &["hostkey.pem", "600"],
    );
    fs::set_permissions(home.join("hostkey.pem"), fs::Permissions::from_mode(0o600)).unwrap();
    person.start_site();
    serves(&person);
}

#[test]
fn files_of_the_site_that_are_broken_while_it_runs_are_told_and_mended_without_a_restart() {
    let person = Person::with_site();
    let home = person.kumiko_home();
    let ca = fs::read_dir(home.join("certificates"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let ca: Vec<_> = ca.collect();
    let hashed = |ending: &str| {
        ca.iter()
            .find(|path| path.extension().is_some_and(|e| e == ending))
            .unwrap()
            .clone()
    };
    let rows: [(_, &str, &[&str]); 5] = [
        (home.join("policy.toml"), "[paths\n", &["policy.toml", "1:"]),
        (
            home.join("policy.toml"),
            "nonsense = 7\n",
            &["policy.toml", "nonsense"],
        ),
        (home.join("grid-mapfile"), "\"/O=no end of quote\n", &[]),
        (hashed("signing_policy"), "access_id_CA X509 nothing\n", &[]),
        (hashed("0"), "no certificate\n", &[]),
    ];
    for (path, broken, says) in rows {
        let good = fs::read_to_string(&path).unwrap();
        fs::write(&path, broken).unwrap();
        // It may hold to what it read last; if not, it says which file is wrong. Nothing falls over.
        let output = person.run(["job", "run", "--", "echo", "in"]);
        if !output.status.success() || !says.is_empty() {
            refused(&output, 125, says);
        }
        fs::write(&path, good).unwrap();
        until("it is mended", || {
            person.run(["job", "run", "--", "true"]).status.success()
        });
    }
    fs::remove_file(home.join("policy.toml")).unwrap();
    refused(
        &person.run(["job", "run", "--", "true"]),
        125,
        &["policy.toml"],
    );
}

#[test]
fn a_site_with_a_broken_file_does_not_start_and_says_which() {
    let person = Person::with_site();
    person.ok(["site", "stop"]);
    let home = person.kumiko_home();
    let rows: [(&str, &[u8], &[&str]); 8] = [
        ("site.toml", b"listen = 7\n", &["site.toml", "listen"]),
        ("site.toml", b"nonsense = 7\n", &["site.toml", "nonsense"]),
        ("site.toml", b"\xff\xfe", &["site.toml"]),
        ("policy.toml", b"[[[", &["policy.toml"]),
        ("grid-mapfile", b"\"/O=x\n", &["grid-mapfile", "1"]),
        (
            "hostcert.pem",
            b"-----BEGIN CERTIFICATE-----\nMII\n",
            &["hostcert.pem"],
        ),
        ("hostkey.pem", b"", &["hostkey.pem"]),
        (
            "state/events.db",
            b"this is no database, and it is long enough to be seen as none",
            &["events.db"],
        ),
    ];
    for (name, broken, says) in rows {
        let path = home.join(name);
        let good = fs::read(&path).unwrap();
        fs::write(&path, broken).unwrap();
        let output = person.run(["site", "start", "--listen", "127.0.0.1:0"]);
        refused(&output, 1, says);
        fs::write(&path, good).unwrap();
    }
    person.start_site();
    serves(&person);
}

#[test]
fn places_that_cannot_be_used_are_named() {
    let person = Person::new();
    person.file("a-file", "");
    let start = |home: &str| {
        let mut command = person.kumiko(["site", "start", "--listen", "127.0.0.1:0"]);
        finish(command.env("KUMIKO_HOME", home).stdin(Stdio::null()))
    };
    let file = person.home.path().join("a-file").display().to_string();
    refused(&start(&file), 1, &["a-file"]);
    refused(&start(&format!("{file}/below")), 1, &["a-file/below"]);
    refused(&start("/proc/kumiko"), 1, &["/proc/kumiko"]);
    let without = |names: &[&str], args: &[&str]| {
        let mut command = person.kumiko(args);
        for name in names {
            command.env_remove(name);
        }
        finish(command.stdin(Stdio::null()))
    };
    refused(
        &without(&["HOME", "KUMIKO_HOME"], &["job", "list"]),
        2,
        &["HOME", "--home"],
    );
    let sandbox = without(&["HOME", "KUMIKO_HOME"], &["sandbox", "run", "--", "true"]);
    assert!(
        sandbox.status.success(),
        "a sandbox needs no home: {}",
        told(&sandbox)
    );
    person.start_site();
    let taken = port(&person);
    let mut second = person.kumiko(["site", "start", "--listen", &format!("127.0.0.1:{taken}")]);
    let second = finish(
        second
            .env("KUMIKO_HOME", person.home.path().join("second"))
            .stdin(Stdio::null()),
    );
    refused(&second, 1, &[&taken.to_string(), "--listen"]);
    let alone = without(&["HOME"], &["job", "run", "--", "echo", "in"]);
    assert_eq!(alone.stdout, b"in\n", "{}", told(&alone));
}

#[test]
fn a_home_with_a_name_longer_than_sockets_take_serves_too() {
    let person = Person::new();
    let long = person
        .home
        .path()
        .join("x".repeat(120))
        .join("y".repeat(120));
    let run = |args: &[&str]| {
        finish(
            person
                .kumiko(args)
                .env("KUMIKO_HOME", &long)
                .stdin(Stdio::null()),
        )
    };
    let started = run(&["site", "start", "--listen", "127.0.0.1:0"]);
    assert!(started.status.success(), "{}", told(&started));
    let output = run(&["job", "run", "--", "echo", "far"]);
    assert_eq!(output.stdout, b"far\n", "{}", told(&output));
    let job = text(&run(&["job", "submit", "--", "sleep", "600"]).stdout);
    let cancelled = run(&["job", "cancel", "--grace", "0", job.trim()]);
    assert!(cancelled.status.success(), "{}", told(&cancelled));
    let stopped = run(&["site", "stop"]);
    assert!(stopped.status.success(), "{}", told(&stopped));
}

#[test]
fn a_read_only_home_is_refused_and_a_site_stays_down() {
    let test = "a_read_only_home_is_refused_and_a_site_stays_down";
    let mut person = Person::new();
    if fs::metadata(person.home.path()).unwrap().uid() != 0 {
        let home = person.kumiko_home();
        fs::create_dir(&home).unwrap();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o500)).unwrap();
        let output = person.run(["site", "start", "--listen", "127.0.0.1:0"]);
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
        return refused(&output, 1, &["kumiko"]);
    }
    if !has_disk(test, &mut person, "size=1m,ro") {
        return;
    }
    refused(
        &person.run(["site", "start", "--listen", "127.0.0.1:0"]),
        1,
        &["kumiko", "ead-only"],
    );
}

/// False: that it cannot be mounted was said.
fn has_disk(test: &str, person: &mut Person, options: &str) -> bool {
    let mounted = person.with_disk(options);
    if !mounted {
        skip(test, "the right to mount (run as root)");
    }
    mounted
}

#[test]
fn a_full_disk_is_told_loses_no_word_that_was_given_and_passes() {
    let test = "a_full_disk_is_told_loses_no_word_that_was_given_and_passes";
    let mut person = Person::new();
    if !has_disk(test, &mut person, "size=24m") {
        return;
    }
    person.start_site();
    serves(&person);
    let kept = person.ok([
        "job",
        "submit",
        "--",
        "sh",
        "-c",
        "echo before; until test -e go; do sleep 0.05; done; echo after; exit 3",
    ]);
    let kept = kept.trim();
    until("it has begun", || {
        person.ok(["job", "log", "--follow=no", kept]) == "before\n"
    });
    // Output that fills the disk.
    let output = person.run(["job", "run", "--", "sh", "-c", "head -c 60000000 /dev/zero"]);
    refused(&output, 125, &["disk"]);
    // To the last byte.
    person.fill_disk();
    let mut said = String::new();
    until("a submission is refused", || {
        let output = person.run(["job", "submit", "--", "true"]);
        said = text(&output.stderr);
        !output.status.success()
    });
    assert!(said.contains("disk") && said.contains("full"), "{said}");
    let folder = person.file("work/file", &"x".repeat(100_000));
    let sent = person.run([
        "job",
        "run",
        "--dir",
        folder.parent().unwrap().to_str().unwrap(),
        "--",
        "true",
    ]);
    refused(&sent, 125, &["full"]);
    assert!(
        person.ok(["job", "list"]).contains("active"),
        "it can still be asked"
    );
    // What gives room back is taken down all the same: nobody but its owner need help.
    person.ok(["job", "remove", "3"]);
    fs::write(
        person
            .kumiko_home()
            .join("state/jobs")
            .join(kept)
            .join("go"),
        "",
    )
    .unwrap();
    assert_eq!(person.run(["job", "wait", kept]).status.code(), Some(3));
    assert_eq!(person.ok(["job", "log", kept]), "before\nafter\n");
    until("it takes jobs again", || {
        person.run(["job", "run", "--", "true"]).status.success()
    });
}

#[test]
fn a_site_whose_own_log_finds_no_room_goes_on_without_it() {
    let person = Person::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    let mut site = person.kumiko(["site", "start", "--foreground", "--listen", "127.0.0.1:0"]);
    site.stdout(Stdio::null()).stderr(full.unwrap());
    let mut site = site.spawn().unwrap();
    until("it serves", || {
        let ended = site.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}");
        person.run(["job", "list"]).status.success()
    });
    serves(&person);
    person.ok(["site", "stop"]);
    assert!(wait(&mut site).success());
}

#[test]
fn a_spool_that_is_gone_or_closed_is_told_and_hurts_no_other_job() {
    let person = Person::with_site();
    let job = person.ok(["job", "submit", "--", "echo", "lost"]);
    let job = job.trim();
    person.ok(["job", "wait", job]);
    let spool = person
        .kumiko_home()
        .join("state/spool")
        .join(format!("{job}.1"));
    assert!(spool.exists());
    fs::remove_file(spool.join("stdout")).unwrap();
    fs::create_dir(spool.join("stdout")).unwrap();
    refused(&person.run(["job", "log", job]), 1, &["stdout"]);
    fs::remove_dir_all(&spool).unwrap();
    refused(&person.run(["job", "log", job]), 1, &[job]);
    person.ok(["job", "show", job]);
    let living = person.ok(["job", "submit", "--", "sh", "-c", "sleep 0.3; exit 4"]);
    let _ = fs::remove_dir_all(
        person
            .kumiko_home()
            .join("state/spool")
            .join(format!("{}.1", living.trim())),
    );
    let waited = person.run(["job", "wait", living.trim()]);
    assert!(!waited.status.success(), "{}", told(&waited));
    serves(&person);
    person.kill_site();
    person.start_site();
    serves(&person);
}

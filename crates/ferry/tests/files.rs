//! A host that has none of the site's folders has them by its ferry (spec/jobs/pilots.md, PL50 to PL57): a mount namespace in which they
//! are hidden stands for it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod site;

use kumiko_ferry::files::Files;
use kumiko_linux::{process, spooling, unix_socket};
use site::{Site, Wire, told, until};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

#[test]
fn a_host_reads_and_writes_as_the_site_does() {
    let Some(site) = Site::new("a_host_reads_and_writes_as_the_site_does") else {
        return;
    };
    let jobs = site.path("jobs");
    fs::write(jobs.join("in"), vec![7; 3_000_000]).unwrap();
    let line = format!(
        "set -e; cd {}; sha256sum <in; mkdir -m 750 d; cp in d/copy; ln -s copy d/link; ln d/copy d/other; mv d/copy d/moved; \
         printf more >>d/moved; truncate -s 10 in; chmod 640 in; stat -c '%a %s %U' in; touch -d @1000 in; ls d; cat d/link 2>/dev/null || echo broken; \
         rm d/other; mkfifo pipe; (echo through >pipe &); cat pipe; fallocate -l 4096 room; stat -c %s room",
        jobs.display()
    );
    let said = site.run(&line);
    let digest = Command::new("sha256sum")
        .arg(jobs.join("d/moved"))
        .output()
        .unwrap();
    assert!(digest.status.success());
    assert_eq!(
        said.lines().skip(1).collect::<Vec<_>>(),
        [
            "640 10 root",
            "link",
            "moved",
            "other",
            "broken",
            "through",
            "4096"
        ]
    );
    assert_eq!(fs::metadata(jobs.join("d/moved")).unwrap().len(), 3_000_004);
    assert_eq!(
        fs::read_link(jobs.join("d/link")).unwrap(),
        Path::new("copy")
    );
    assert_eq!(fs::metadata(jobs.join("in")).unwrap().len(), 10);
    assert!(!jobs.join("d/other").exists());
}

/// The first line that it says.
fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.as_mut().unwrap());
    said.read_line(&mut line).unwrap();
    line
}

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;

fn kill(pid: i32, signal: i32) {
    let pidfd = process::pidfd(pid).unwrap();
    process::signal(pidfd.as_fd(), signal).unwrap();
}

fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_host_sees_at_once_what_the_site_changes() {
    let Some(site) = Site::new("a_host_sees_at_once_what_the_site_changes") else {
        return;
    };
    let jobs = site.path("jobs");
    let file = fs::File::create(jobs.join("f")).unwrap();
    (&file).write_all(b"one").unwrap();
    // From before, so that the host's kernel keeps it.
    file.set_modified(SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    let line = format!(
        "cd {}; cat f; cat f; touch begun; until test -e go; do sleep 0.01; done; cat f; until test -e on; do sleep 0.01; done; cat f; ls",
        jobs.display()
    );
    let host = site.begin(&line);
    until("it has read it", || jobs.join("begun").exists());
    fs::write(jobs.join("f"), "two").unwrap();
    fs::write(jobs.join("go"), "").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    fs::write(jobs.join("new"), "six").unwrap();
    fs::rename(jobs.join("new"), jobs.join("f")).unwrap();
    fs::remove_file(jobs.join("go")).unwrap();
    fs::write(jobs.join("on"), "").unwrap();
    let said = told(&host.wait_with_output().unwrap());
    assert!(said.contains("oneonetwosixbegun\nf\non\n"), "{said}");
}

#[test]
fn a_program_travels_once_to_a_host_which_looks_at_what_it_kept() {
    let Some(site) = Site::new("a_program_travels_once_to_a_host_which_looks_at_what_it_kept")
    else {
        return;
    };
    let text = "#!/bin/sh\necho right\n";
    let program = site.top.path().join("program");
    fs::write(&program, text).unwrap();
    let digest = Command::new("sha256sum")
        .arg(&program)
        .output()
        .unwrap()
        .stdout;
    let digest = String::from_utf8(digest).unwrap()[..64].to_owned();
    let own = site.path("spool/programs").join(&digest);
    fs::create_dir_all(&own).unwrap();
    let own = own.join("kumiko-run");
    fs::copy(&program, &own).unwrap();
    let change = |path: &Path, text: &str| {
        let executable = fs::Permissions::from_mode(0o700);
        fs::write(path, text).unwrap();
        fs::set_permissions(path, executable).unwrap();
    };
    change(&own, text);
    let run = format!("{}; sleep 0.3", own.display());
    assert_eq!(site.run(&run), "right\n");
    let kept = site.cache().join(&digest);
    assert_eq!(fs::read_to_string(&kept).unwrap(), text);
    // It is not asked for any more.
    change(&own, "#!/bin/sh\necho by the site\n");
    assert_eq!(site.run(&run), "right\n");
    change(&own, text);
    change(&kept, "#!/bin/sh\necho harmed\n");
    assert_eq!(site.run(&run), "right\n");
    assert_eq!(fs::read_to_string(&kept).unwrap(), text);
    // What is not what its name says is not kept; and nothing where others may write.
    fs::remove_file(&kept).unwrap();
    change(&own, "#!/bin/sh\necho false\n");
    assert_eq!(site.run(&run), "false\n");
    assert_eq!(fs::read_dir(site.cache()).unwrap().count(), 0);
    change(&own, text);
    fs::set_permissions(site.cache(), fs::Permissions::from_mode(0o770)).unwrap();
    assert_eq!(site.run(&run), "right\n");
    assert_eq!(fs::read_dir(site.cache()).unwrap().count(), 0);
}

#[test]
fn the_key_of_the_landing_is_not_shown() {
    let Some(site) = Site::new("the_key_of_the_landing_is_not_shown") else {
        return;
    };
    let landing = site.path("spool/landing");
    fs::create_dir_all(landing.join("ca/private")).unwrap();
    fs::write(landing.join("ca/private/ca-key.pem"), "secret").unwrap();
    fs::write(landing.join("address"), "here").unwrap();
    let line = format!(
        "cd {}; ls; cat ca/private/ca-key.pem 2>&1; mv ca other 2>&1; rm -r ca 2>&1; ln -s ca/private way; cat way/ca-key.pem 2>&1; \
         mkdir ca 2>&1; ls ..",
        landing.display()
    );
    let said = site.run(&line);
    assert!(!said.contains("secret"), "{said}");
    assert!(said.starts_with("address\ncat: "), "{said}");
    assert!(said.ends_with("landing\npilot-1\n"), "{said}");
    assert!(landing.join("ca/private/ca-key.pem").exists());
}

#[test]
fn a_lock_of_the_hosts_is_one_at_the_site_and_ends_with_what_holds_it() {
    let Some(site) =
        Site::new("a_lock_of_the_hosts_is_one_at_the_site_and_ends_with_what_holds_it")
    else {
        return;
    };
    let lock = site.place().join("lock");
    let line = format!(
        "exec 9>{}; flock 9; echo held; exec sleep 600",
        lock.display()
    );
    let mut host = site.begin(&line);
    assert_eq!(line_of(&mut host), "held\n");
    let file = fs::File::open(&lock).unwrap();
    assert!(!spooling::try_lock(&file).unwrap());
    // What was started ends with its ferry.
    host.kill().unwrap();
    host.wait().unwrap();
    until("it is free", || spooling::try_lock(&file).unwrap());
    // And one that waits for the site's gets it.
    let mut host = site.begin(&line);
    std::thread::sleep(Duration::from_millis(500));
    spooling::unlock(&file).unwrap();
    assert_eq!(line_of(&mut host), "held\n");
    host.kill().unwrap();
    host.wait().unwrap();
}

#[test]
fn what_was_started_is_told_of_an_end_and_its_exit_status_is_the_ferrys() {
    let Some(site) =
        Site::new("what_was_started_is_told_of_an_end_and_its_exit_status_is_the_ferrys")
    else {
        return;
    };
    let ended = site.begin("exit 7").wait().unwrap();
    assert_eq!(ended.code(), Some(7));
    let mut host = site.begin("trap 'exit 9' TERM; echo begun; while :; do sleep 0.01; done");
    assert_eq!(line_of(&mut host), "begun\n");
    kill(i32::try_from(host.id()).unwrap(), 15);
    assert_eq!(host.wait().unwrap().code(), Some(9));
    // Nothing is left of what it came with.
    assert_eq!(fs::read_dir(site.tmp()).unwrap().count(), 0);
}

#[test]
fn a_host_goes_on_after_its_connection_was_cut_and_nothing_is_lost_or_done_twice() {
    let Some(site) =
        Site::new("a_host_goes_on_after_its_connection_was_cut_and_nothing_is_lost_or_done_twice")
    else {
        return;
    };
    let wire = Wire::to(site.address());
    let jobs = site.path("jobs");
    let mut expected = Vec::new();
    for number in 1..=300 {
        writeln!(expected, "{number}").unwrap();
    }
    // Each of these fails if it is done twice.
    let line = format!(
        "set -e; cd {}; i=1; while [ $i -le 300 ]; do echo $i >>lines; mkdir d$i; rmdir d$i; i=$((i+1)); done",
        jobs.display()
    );
    let mut host = site.begin_by(&wire.address, &line);
    let mut cuts = 0;
    let ended = loop {
        match host.try_wait().unwrap() {
            Some(ended) => break ended,
            None => cuts += usize::from(wire.cut() > 0),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let mut complaint = String::new();
    host.stderr
        .take()
        .unwrap()
        .read_to_string(&mut complaint)
        .unwrap();
    assert!(ended.success(), "{complaint}");
    assert!(cuts > 1, "{cuts}");
    assert_eq!(fs::read(jobs.join("lines")).unwrap(), expected);
}

#[test]
fn what_runs_on_a_host_ends_when_its_files_are_lost_and_the_next_has_them_again() {
    let Some(site) =
        Site::new("what_runs_on_a_host_ends_when_its_files_are_lost_and_the_next_has_them_again")
    else {
        return;
    };
    let mut host = site.begin("echo begun; exec sleep 600");
    assert_eq!(line_of(&mut host), "begun\n");
    let server = site.server();
    kill(server, 9);
    until("it is gone", || {
        !is_there(server) || unix_socket::connect(&site.path("spool-files/here")).is_err()
    });
    // As the site does when it sees that.
    let (spool, jobs) = (site.path("spool"), site.path("jobs"));
    let at = "127.0.0.1".parse().unwrap();
    let again = Files::open(&site.program(), &spool, &at, vec![spool.clone(), jobs]);
    again.unwrap();
    let ended = host.wait_with_output().unwrap();
    let told = told(&ended);
    assert_eq!(ended.status.code(), Some(4), "{told}");
    assert!(
        told.contains("the connection to the site's machine is lost, and its files with it"),
        "{told}"
    );
    assert_eq!(site.run("echo again"), "again\n");
}

#[test]
fn a_host_that_is_killed_while_it_keeps_a_program_is_gone() {
    let Some(site) = Site::new("a_host_that_is_killed_while_it_keeps_a_program_is_gone") else {
        return;
    };
    let own = site.path("spool/programs").join("0".repeat(64));
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("kumiko-run"), vec![0; 60_000_000]).unwrap();
    // Who reads of it is answered no more.
    let server = site.server();
    let mut host = site.begin("exec sleep 600");
    let begun = || fs::read_dir(site.cache()).is_ok_and(|mut kept| kept.next().is_some());
    until("it keeps the program", begun);
    kill(server, SIGSTOP);
    let ferry = process::pidfd(i32::try_from(host.id()).unwrap()).unwrap();
    host.kill().unwrap();
    let is_gone = process::ends_within(ferry.as_fd(), Duration::from_secs(10)).unwrap();
    kill(server, SIGCONT);
    assert!(is_gone);
    host.wait().unwrap();
}

#[test]
fn of_what_the_site_has_removed_nothing_stays_open_for_long() {
    let Some(site) = Site::new("of_what_the_site_has_removed_nothing_stays_open_for_long") else {
        return;
    };
    let jobs = site.path("jobs");
    // Each of these is a directory and two files.
    let attempts = 400;
    let line = format!(
        "cd {}; i=0; while [ $i -lt {attempts} ]; do until cat $i/in; do sleep 0.002; done; touch $i/seen; i=$((i+1)); done",
        jobs.display()
    );
    let host = site.begin(&format!("{{ {line}; }} >/dev/null 2>&1"));
    let server = format!("/proc/{}/fd", site.server());
    let mut most = 0;
    for number in 0..attempts {
        let own = jobs.join(number.to_string());
        fs::create_dir(&own).unwrap();
        fs::write(own.join("new"), "in").unwrap();
        fs::rename(own.join("new"), own.join("in")).unwrap();
        until("it has seen it", || own.join("seen").exists());
        most = most.max(fs::read_dir(&server).unwrap().count());
        fs::remove_dir_all(&own).unwrap();
    }
    let ended = host.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", told(&ended));
    assert!(most < attempts * 2, "{most}");
}

#[test]
fn who_has_no_place_any_more_has_no_files() {
    let Some(site) = Site::new("who_has_no_place_any_more_has_no_files") else {
        return;
    };
    let mut host = site.begin("echo begun; exec sleep 600");
    assert_eq!(line_of(&mut host), "begun\n");
    // One that was stolen, or is from before.
    let stolen = fs::read(site.place().join("files.pem")).unwrap();
    site.files.tickets(&site.place(), 1).unwrap();
    let newest = fs::read(site.place().join("files.pem")).unwrap();
    let line = ["true".to_owned()];
    fs::write(site.place().join("files.pem"), &stolen).unwrap();
    let script = site.files.script(&site.place(), &line, None).unwrap();
    fs::write(site.place().join("files.pem"), &newest).unwrap();
    let hidden = format!(
        "mount -t tmpfs none {}; exec sh -s",
        site.path("").display()
    );
    let mut thief = Command::new("unshare")
        .args(["--mount", "sh", "-c", &hidden])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thief
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    assert_eq!(thief.wait_with_output().unwrap().status.code(), Some(4));
    // And who is in is let go.
    fs::remove_dir_all(site.place()).unwrap();
    assert_eq!(host.wait().unwrap().code(), Some(4));
}

#[test]
fn a_host_that_cannot_show_files_says_so_to_the_site() {
    let Some(site) = Site::new("a_host_that_cannot_show_files_says_so_to_the_site") else {
        return;
    };
    let line = ["true".to_owned()];
    let script = site.files.script(&site.place(), &line, None).unwrap();
    let hidden = format!(
        "mount -t tmpfs none {}; mount --bind /dev/null /dev/fuse; exec sh -s",
        site.path("").display()
    );
    let mut host = Command::new("unshare")
        .args(["--mount", "sh", "-c", &hidden])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    host.stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    assert_eq!(host.wait().unwrap().code(), Some(4));
    let log = site.place().join("ferry.log");
    until("it is told", || log.exists());
    let told = fs::read_to_string(log).unwrap();
    assert!(
        told.contains("(/dev/fuse), so that it cannot show the site's folders"),
        "{told}"
    );
}

#[test]
fn a_host_whose_folder_is_full_or_runs_nothing_takes_another() {
    let Some(site) = Site::new("a_host_whose_folder_is_full_or_runs_nothing_takes_another") else {
        return;
    };
    for options in ["size=200k", "noexec"] {
        let tmp = site.tmp();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&tmp)
            .status();
        assert!(mounted.unwrap().success());
        let said = site
            .begin("echo begun")
            .wait_with_output()
            .map(|output| told(&output));
        let left = fs::read_dir(&tmp).unwrap().count();
        let unmounted = Command::new("umount").arg(&tmp).status();
        assert!(unmounted.unwrap().success());
        let said = said.unwrap();
        assert!(said.contains("begun"), "{options}: {said}");
        assert_eq!(left, 0, "{options}");
    }
}

#[test]
fn a_host_without_any_such_folder_says_so_and_is_left_nothing() {
    let Some(site) = Site::new("a_host_without_any_such_folder_says_so_and_is_left_nothing") else {
        return;
    };
    let script = site.script(&site.address(), "echo never");
    let none = "exec <\"$1\"; all='/tmp /var/tmp /dev/shm'; for t in $all; do mount -t tmpfs -o size=200k none $t || exit 1; done; \
                TMPDIR=/tmp sh -s; code=$?; find $all -mindepth 1; exit $code";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", none, "host"])
        .arg(script)
        .output()
        .unwrap();
    let told = told(&output);
    assert_eq!(output.status.code(), Some(73), "{told}");
    assert!(output.stdout.is_empty(), "{told}");
    assert!(told.contains("no folder with room for a program"), "{told}");
}

#[test]
fn a_full_disk_at_the_site_is_one_on_the_host() {
    let Some(site) = Site::new("a_full_disk_at_the_site_is_one_on_the_host") else {
        return;
    };
    let full = site.path("jobs");
    let line = format!(
        "cd {} && LC_ALL=C cat /dev/zero 2>&1 >zeros; LC_ALL=C ls -s zeros >/dev/null && echo there",
        full.display()
    );
    // The server's own, which the host asks.
    let server = site.server().to_string();
    let mounted = Command::new("nsenter")
        .args([
            "-t", &server, "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "none",
        ])
        .arg(&full)
        .status()
        .unwrap();
    assert!(mounted.success());
    let output = site.begin(&line).wait_with_output().unwrap();
    let unmounted = Command::new("umount").arg(&full).status().unwrap();
    assert!(unmounted.success());
    let told = told(&output);
    assert!(
        told.contains("No space left on device") && told.contains("there"),
        "{told}"
    );
}

#[test]
fn what_answers_ends_when_the_spools_are_gone() {
    let Some(site) = Site::new("what_answers_ends_when_the_spools_are_gone") else {
        return;
    };
    let server = site.server();
    drop(site);
    until("it has ended", || !is_there(server));
}

//! Programs that ask about files, and change them, by every call that can, where the view is the host's own: each mechanism
//! tells them what the kernel tells them with no sandbox, to the number of the error. They make and truncate what they name,
//! by whoever runs this: none of their names leads out of the case's own directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::asker::ASKER;
use common::case::{MECHANISMS, check_under};
use common::changer::CHANGER;
use common::*;
use kumiko_policy::{Policy, parse};
use kumiko_sandbox::{Ended, Launch, Streams};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

/// Of ten thousands of calls, on a machine that is busy with others.
const LONG: Duration = Duration::from_secs(600);

/// What a program of C prints in `{dir}/work`, which guests see by its own name: with no sandbox, by an account without
/// capabilities, as guests are; then under each mechanism. What the first run makes is there for all others. `read_only`:
/// of the case's directories, those that the policy shows so, and that are mounted so with no sandbox.
fn check(test: &str, source: &str, read_only: &[&str], mechanisms: &[&str]) {
    let scratch = Scratch::new();
    let directory = scratch.put("work/", "");
    scratch.put("job/", "");
    for name in [
        "shown/file",
        "shown/deep/er/file",
        "shown/shut/key",
        "shown/gone/key",
        "written/file",
        "other/file",
    ] {
        scratch.put(name, "content\n");
    }
    for (to, name) in [
        ("file", "link"),
        ("../other/file", "out"),
        ("deep", "way"),
        ("nothing", "nowhere"),
        ("round", "round"),
    ] {
        std::os::unix::fs::symlink(to, scratch.0.join("shown").join(name)).unwrap();
    }
    let fill = |text: &str| text.replace("{dir}", scratch.0.to_str().unwrap());
    let Some(program) = compiled(test, &scratch, &fill(source)) else {
        return;
    };
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let argument = if read_only.is_empty() {
        ""
    } else {
        "read only"
    };
    let mut made = native(&program, &[]);
    made.arg("make").current_dir(&directory).output().unwrap();
    let shut: Vec<_> = read_only.iter().map(|name| scratch.path(name)).collect();
    let mut native = native(&program, &shut);
    let native = native.arg(argument).current_dir(&directory).output();
    let native = native.unwrap();
    if let Some(3) = native.status.code() {
        let why = String::from_utf8_lossy(&native.stderr).into_owned();
        return eprintln!("SKIP {test}: missing mounts of one's own ({})", why.trim());
    }
    let native = lines(&String::from_utf8_lossy(&native.stdout));
    assert!(native.len() > 50, "{test}: {native:?}");
    let mut text = format!("[paths]\n'{}' = 'write'\n", scratch.0.to_str().unwrap());
    for path in &shut {
        text += &format!("'{path}' = 'read'\n");
    }
    let mut policy = Policy::default();
    policy.paths.extend(parse(&text, "case").unwrap().paths);
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    let mut wrong = String::new();
    for mechanism in mechanisms.iter().copied() {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let mut room = room_under(mechanism, &policy, &scratch.0.join("job")).unwrap();
        let null = File::open("/dev/null").unwrap();
        let (mut out, mut err) = (temporary(), temporary());
        let mut guest = room
            .start(&Launch {
                program: &program,
                arguments: &[argument.to_owned()],
                environment: &[],
                directory: Some(&directory),
                streams: Streams::Given {
                    stdin: null.as_fd(),
                    stdout: out.as_fd(),
                    stderr: err.as_fd(),
                },
            })
            .unwrap();
        let ended = wait_within(LONG, &mut guest);
        assert_eq!(
            ended,
            Ended::Exited(0),
            "{mechanism}: {}",
            common::text(&mut err)
        );
        let told = lines(&common::text(&mut out));
        let differ: Vec<_> = native
            .iter()
            .zip(&told)
            .filter(|(native, told)| native != told)
            .collect();
        assert_eq!(native.len(), told.len(), "{test} under {mechanism}");
        if !differ.is_empty() {
            let count = differ.len();
            wrong += &format!("{test} under {mechanism}: {count} differ: {differ:#?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A program with no sandbox and without capabilities, some directories mounted read-only; status 3: that cannot be done.
fn native(program: &str, read_only: &[String]) -> Command {
    let is_root = kumiko_linux::is_root();
    let mut words = Vec::new();
    if !read_only.is_empty() {
        let own: &[_] = if is_root {
            &[]
        } else {
            &["--user", "--map-root-user"]
        };
        words.extend(["unshare", "--mount"].iter().chain(own).copied());
        let mount = "until [ \"$1\" = -- ]; do mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" || exit 3; shift; done; \
                     shift; cd \"$PWD\" && exec \"$@\"";
        words.extend(["sh", "-c", mount, "sh"]);
        words.extend(read_only.iter().map(String::as_str).chain(["--"]));
    }
    words.push("setpriv");
    if is_root || !read_only.is_empty() {
        words.extend([
            "--inh-caps=-all",
            "--bounding-set=-all",
            "--ambient-caps=-all",
        ]);
    }
    words.extend(["--no-new-privs", program]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// Of the case's own directory alone, as it is opened to write, made and truncated with no sandbox, too.
const PATHS: &str = r#""{dir}/shown/file", "{dir}/shown/deep/er/file", "{dir}/shown/deep", "{dir}/shown/deep/", "{dir}/shown/file/",
    "{dir}/shown", "{dir}/shown/.", "{dir}//shown/./deep///er/file", "{dir}/shown/deep/../file", "{dir}/shown/../other/file",
    "{dir}/shown/link", "{dir}/shown/out", "{dir}/shown/way/er/file", "{dir}/shown/nowhere", "{dir}/shown/round", "{dir}/shown/link/x",
    "{dir}/shown/shut", "{dir}/shown/shut/key", "{dir}/shown/none", "{dir}/shown/none/x", "{dir}/shown/file/x", "{dir}/other/file",
    "{dir}/written/file", "{dir}/written", "file", "deep/er/file", "./file", "../other/file", "link", "way", "way/", "nowhere", "round", ".",
    "", "none", "shut/key", long_name, long_path"#;
const BASES: &str = r#""{dir}/shown", "{dir}/written""#;

#[test]
fn what_is_asked_of_files_is_told_as_with_no_sandbox() {
    let source = ASKER.replace("PATHS", PATHS).replace("BASES", BASES);
    let test = "what_is_asked_of_files_is_told_as_with_no_sandbox";
    check(test, &source, &[], &MECHANISMS);
}

#[test]
fn what_is_asked_of_files_in_a_read_only_tree_is_told_as_with_no_sandbox() {
    let source = ASKER.replace("PATHS", PATHS).replace("BASES", BASES);
    let test = "what_is_asked_of_files_in_a_read_only_tree_is_told_as_with_no_sandbox";
    check(test, &source, &["shown"], &MECHANISMS);
}

/// It takes minutes: the mechanisms by halves, at the same time.
#[test]
fn what_changes_files_is_told_as_with_no_sandbox_and_leaves_the_same() {
    let test = "what_changes_files_is_told_as_with_no_sandbox_and_leaves_the_same";
    check(test, CHANGER, &[], &MECHANISMS[..3]);
}

#[test]
fn what_changes_files_under_ptrace_is_told_as_with_no_sandbox_and_leaves_the_same() {
    let test = "what_changes_files_under_ptrace_is_told_as_with_no_sandbox_and_leaves_the_same";
    check(test, CHANGER, &[], &MECHANISMS[3..]);
}

#[test]
fn what_would_change_a_read_only_tree_is_told_as_with_no_sandbox() {
    let test = "what_would_change_a_read_only_tree_is_told_as_with_no_sandbox";
    check(test, CHANGER, &["work"], &MECHANISMS);
}

/// What goes through a pipe changes no tree; under ptrace the guest opens it itself, in a domain that knows trees alone.
#[test]
fn a_pipe_in_a_read_only_tree_is_opened_to_write() {
    let source = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
int main(int c, char **v) {
  if (c > 1) mkfifo("{dir}/shown/pipe", 0666);
  printf("%d ", open("{dir}/shown/pipe", O_RDONLY | O_NONBLOCK) < 0 ? errno : 0);
  printf("%d", open("{dir}/shown/pipe", O_RDWR | O_NONBLOCK) < 0 ? errno : 0);
}
"#;
    let test = "a_pipe_in_a_read_only_tree_is_opened_to_write";
    for (mechanism, guest) in [
        ("namespace", "0 0"),
        ("library", "0 0"),
        ("notify", "0 0"),
        ("ptrace", "0 13"),
    ] {
        check_under(mechanism, test, source, "", Some("0 0"), guest);
    }
}

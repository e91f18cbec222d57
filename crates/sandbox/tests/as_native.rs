//! Programs that ask about files, and change them, by every call that can, where the view is the host's own: each mechanism
//! tells them what the kernel tells them with no sandbox, to the number of the error. They make and truncate what they name,
//! by whoever runs this: none of their names leads out of the case's own directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::asker::ASKER;
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

const MECHANISMS: [&str; 4] = ["namespace", "library", "notify", "ptrace"];

/// What a program of C prints in `{dir}/work`, which guests see by its own name: with no sandbox, by an account without
/// capabilities, as guests are; then under each mechanism. What the first run makes is there for all others.
fn check(test: &str, source: &str) {
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
    let setpriv = [
        "setpriv",
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--ambient-caps=-all",
        "--no-new-privs",
        &program,
    ];
    let words = if kumiko_linux::is_root() {
        &setpriv[..]
    } else {
        &setpriv[5..]
    };
    let mut native = Command::new(words[0]);
    native.args(&words[1..]).current_dir(&directory);
    native.output().unwrap();
    let native = lines(&String::from_utf8_lossy(&native.output().unwrap().stdout));
    assert!(native.len() > 50, "{test}: {native:?}");
    let text = format!("[paths]\n'{}' = 'write'\n", scratch.0.to_str().unwrap());
    let mut policy = Policy::default();
    policy.paths.extend(parse(&text, "case").unwrap().paths);
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    let mut wrong = String::new();
    for mechanism in MECHANISMS {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let mut room = room_under(mechanism, &policy, &scratch.0.join("job")).unwrap();
        let null = File::open("/dev/null").unwrap();
        let (mut out, mut err) = (temporary(), temporary());
        let mut guest = room
            .start(&Launch {
                program: &program,
                arguments: &[],
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
    check(test, &source);
}

#[test]
fn what_changes_files_is_told_as_with_no_sandbox_and_leaves_the_same() {
    let test = "what_changes_files_is_told_as_with_no_sandbox_and_leaves_the_same";
    check(test, CHANGER);
}

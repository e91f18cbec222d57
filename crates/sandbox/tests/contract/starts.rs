//! Duty 12: what is not executed is told as P22 of spec/policy says, under each mechanism alike.

use crate::common::*;
use crate::{executable, site};
use kumiko_sandbox::{Launch, SandboxError, Streams};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::process::Command;

const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ENOTDIR: i32 = 20;
const ENAMETOOLONG: i32 = 36;
const ELOOP: i32 = 40;

/// What is there; those of `work/first` and `work/second` are looked for in this order.
fn names(host: &Scratch) {
    for name in [
        "script",
        "second/tool",
        "second/after",
        "second/under",
        "second/closed",
        "closed/tool",
    ] {
        executable(&host.put(&format!("work/{name}"), "#!/bin/sh\n"));
    }
    for name in ["plain", "first/tool", "first/refused"] {
        host.put(&format!("work/{name}"), "#!/bin/sh\n");
    }
    for name in ["sub/", "first/after/", "first/under/x/"] {
        host.put(&format!("work/{name}"), "");
    }
    let work = host.path("work");
    for (name, line) in [
        ("orphan", "#!/no/such/interpreter".to_owned()),
        ("below", format!("#!{work}/script/x")),
        ("refused", format!("#!{work}/plain")),
        ("first/closed", format!("#!{work}/plain")),
    ] {
        executable(&host.put(&format!("work/{name}"), &format!("{line}\n")));
    }
    let mut before = "/bin/sh".to_owned();
    for number in 0..7 {
        let script = host.put(&format!("work/deep{number}"), &format!("#!{before}\n"));
        executable(&script);
        before = script;
    }
    for (to, name) in [("round", "round"), ("none", "nowhere"), ("script", "link")] {
        symlink(to, host.path(&format!("work/{name}"))).unwrap();
    }
}

/// A program, what is wrong with it for the kernel with no sandbox, and the exit status of P22.
type Row<'a> = (&'a str, Option<i32>, i32);

fn rows(long: &str) -> Vec<Row<'_>> {
    vec![
        ("./script", None, 0),
        ("script/../script", Some(ENOTDIR), 127),
        ("./link", None, 0),
        ("", Some(ENOENT), 127),
        ("none", Some(ENOENT), 127),
        ("./none", Some(ENOENT), 127),
        ("./none/x", Some(ENOENT), 127),
        ("./script/x", Some(ENOTDIR), 127),
        ("./script/", Some(ENOTDIR), 127),
        ("./nowhere", Some(ENOENT), 127),
        ("./round", Some(ELOOP), 127),
        ("./round/x", Some(ELOOP), 127),
        (long, Some(ENAMETOOLONG), 127),
        ("./plain", Some(EACCES), 126),
        ("./sub", Some(EACCES), 126),
        ("./sub/", Some(EACCES), 126),
        ("/", Some(EACCES), 126),
        ("./.", Some(EACCES), 126),
        ("./orphan", Some(ENOENT), 126),
        ("./below", Some(ENOTDIR), 126),
        ("./refused", Some(EACCES), 126),
        ("./deep4", None, 0),
        ("./deep5", Some(ELOOP), 126),
        // By the guest's PATH: what may not be executed is passed over, and told where nothing else is there.
        ("tool", None, 0),
        ("after", None, 0),
        ("under", None, 0),
        ("closed", None, 0),
        ("refused", Some(EACCES), 126),
        ("orphan", Some(ENOENT), 126),
        ("first", Some(EACCES), 126),
        // What the policy closes.
        ("./closed/tool", None, 126),
        ("./gone/tool", None, 127),
        ("../unlisted", None, 127),
    ]
}

#[test]
fn what_is_not_executed_is_told_by_one_rule() {
    let Some(_) = machine("what_is_not_executed_is_told_by_one_rule") else {
        return;
    };
    let host = Scratch::new();
    names(&host);
    executable(&host.put("work/gone/tool", "#!/bin/sh\n"));
    executable(&host.put("unlisted", "#!/bin/sh\n"));
    host.put("job/", "");
    let work = host.path("work");
    // Relative ones begin where the guest does.
    let path = format!("first:none::{work}/second");
    let policy = site(&format!(
        "[paths]\n'{work}' = 'read'\n'{work}/closed' = 'denied'\n'{work}/gone' = 'hidden'"
    ));
    let long = format!("./{}", "x".repeat(300));
    let mut room = room(&policy, &host.0.join("job")).unwrap();
    let mut wrong = String::new();
    for (program, native, status) in rows(&long) {
        let mut bare = Command::new(program);
        let bare = bare.env("PATH", &path).current_dir(&work).status();
        let told = bare.err().map(|error| error.raw_os_error().unwrap());
        if told != native {
            wrong += &format!("{program:?} with no sandbox: {told:?}, not {native:?}\n");
        }
        let null = File::open("/dev/null").unwrap();
        let started = room.start(&Launch {
            program,
            arguments: &[],
            environment: &[("PATH".to_owned(), path.clone())],
            directory: Some(&work),
            streams: Streams::Given {
                stdin: null.as_fd(),
                stdout: null.as_fd(),
                stderr: null.as_fd(),
            },
        });
        let told = started.map(|mut guest| wait(&mut guest));
        let got = told.as_ref().err().map_or(0, SandboxError::exit_status);
        if got != status {
            wrong += &format!("{program:?}: {got}, not {status}: {told:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A copy of whoever wrote it, in which another program is about to be executed, has it open still.
#[test]
fn a_program_that_is_being_written_for_a_moment_more_is_executed() {
    if machine("a_program_that_is_being_written_for_a_moment_more_is_executed").is_none() {
        return;
    }
    let host = Scratch::new();
    executable(&host.put("job/program", "#!/bin/sh\necho began\n"));
    // Another process: what this one has open its guests have as well, until they execute.
    let writer = "exec 3>>job/program; echo; exec >&-; sleep 0.05";
    let mut writer = Command::new("sh")
        .args(["-c", writer])
        .current_dir(&host.0)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::copy(writer.stdout.as_mut().unwrap(), &mut std::io::sink()).unwrap();
    let mut room = room(&site(""), &host.0.join("job")).unwrap();
    let ran = run(&mut *room, "/job/program", &[], &[]).unwrap();
    assert_eq!(ran.stdout, "began\n", "{}", ran.stderr);
    assert!(writer.wait().unwrap().success());
}

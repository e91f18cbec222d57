//! Duties 6, 7 and 8: what a guest is given, and how it ends.

use crate::common::*;
use kumiko_policy::Policy;
use kumiko_sandbox::{Ended, Launch, Streams};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

#[test]
fn the_environment_given_reaches_the_guest_and_nothing_else_does() {
    let Some(_) = machine("the_environment_given_reaches_the_guest_and_nothing_else_does") else {
        return;
    };
    let job = Scratch::new();
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let given = [
        ("LD_PRELOAD", "/job/nothing.so"),
        ("B", "two words"),
        ("HOME", "/tmp"),
    ];
    let got = run(&mut *room, "env", &[], &given).unwrap();
    let mut lines: Vec<&str> = got.stdout.lines().collect();
    lines.sort();
    let path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
    assert_eq!(
        lines,
        [
            "B=two words",
            "HOME=/tmp",
            "LD_PRELOAD=/job/nothing.so",
            path,
            "TMPDIR=/tmp"
        ]
    );
    assert!(
        got.stderr.contains("nothing.so"),
        "the guest's own loader reads it: {}",
        got.stderr
    );
    let got = run(
        &mut *room,
        "sh",
        &[
            "-c",
            "ls /proc/self/fd | wc -l; umask; grep -E 'SigIgn|SigBlk' /proc/self/status | grep -c 0000000000000000",
        ],
        &[],
    )
    .unwrap();
    assert_eq!(
        got.stdout.split_whitespace().collect::<Vec<_>>(),
        ["4", "0022", "2"],
        "{}",
        got.stderr
    );
}

#[test]
fn guests_of_one_room_see_each_other() {
    let Some(_) = machine("guests_of_one_room_see_each_other") else {
        return;
    };
    let job = Scratch::new();
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    // It is what it is called when its start is told, whatever else the machine does.
    let arguments = ["1000".to_owned()];
    let launch = Launch {
        program: "sleep",
        arguments: &arguments,
        environment: &[],
        directory: None,
        streams: Streams::Given {
            stdin: null.as_fd(),
            stdout: null.as_fd(),
            stderr: null.as_fd(),
        },
    };
    let mut first = room.start(&launch).unwrap();
    let mut second = room.start(&launch).unwrap();
    let got = run(&mut *room, "sh", &["-c", "cat /proc/[0-9]*/comm | sort | uniq -c | grep sleep | awk '{print $1}'; echo shared >/tmp/x"], &[]).unwrap();
    assert_eq!(got.stdout.trim(), "2", "{}", got.stderr);
    assert_eq!(
        run(&mut *room, "cat", &["/tmp/x"], &[]).unwrap().stdout,
        "shared\n"
    );
    assert_eq!((first.try_wait(), second.try_wait()), (None, None));
    first.signal(15);
    assert_eq!(wait(&mut first), Ended::Signalled(15));
    assert_eq!(second.try_wait(), None);
    room.kill_all();
    assert_eq!(wait(&mut second), Ended::Signalled(9));
    assert!(
        room.start(&launch).is_err(),
        "a room that was killed takes no more guests"
    );
}

#[test]
fn nothing_is_left_of_a_room_that_was_killed() {
    let Some(_) = machine("nothing_is_left_of_a_room_that_was_killed") else {
        return;
    };
    let (mut out, mut guest, mut room) = daemon(&Scratch::new());
    room.kill_all();
    assert_eq!(wait(&mut guest), Ended::Signalled(9));
    ends(&mut out);
}

#[test]
fn nothing_is_left_of_a_room_that_was_dropped() {
    let Some(_) = machine("nothing_is_left_of_a_room_that_was_dropped") else {
        return;
    };
    let (mut out, _guest, room) = daemon(&Scratch::new());
    drop(room);
    ends(&mut out);
}

/// A guest that ignores what can be ignored, with a process of another session in the background; all hold the pipe.
fn daemon(
    job: &Scratch,
) -> (
    std::fs::File,
    kumiko_sandbox::Guest,
    Box<dyn kumiko_sandbox::Room>,
) {
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let (mut out, theirs) = pipe();
    let null = std::fs::File::open("/dev/null").unwrap();
    let script = "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM HUP; echo up; while :; do sleep 100; done' &); while :; do sleep 100; done";
    let guest = room
        .start(&Launch {
            program: "sh",
            arguments: &["-c".to_owned(), script.to_owned()],
            environment: &[],
            directory: None,
            streams: Streams::Given {
                stdin: null.as_fd(),
                stdout: theirs.as_fd(),
                stderr: null.as_fd(),
            },
        })
        .unwrap();
    drop(theirs);
    let mut up = [0; 3];
    out.read_exact(&mut up).unwrap();
    (out, guest, room)
}

fn pipe() -> (std::fs::File, std::os::fd::OwnedFd) {
    let (ours, theirs) = kumiko_linux::spooling::pipe().unwrap();
    (ours.into(), theirs)
}

/// Nobody holds the other end any more.
fn ends(out: &mut std::fs::File) {
    let poll = kumiko_linux::poll::Poll::new().unwrap();
    poll.add(&*out, 0, kumiko_linux::poll::Interest::Read)
        .unwrap();
    let event = poll.wait::<1>(Some(DEADLINE)).unwrap().next();
    assert!(event.is_some(), "the pipe is still held after {DEADLINE:?}");
    assert_eq!(out.read(&mut [0; 1]).unwrap(), 0);
}

/// Run by the next test in a process of its own: holds a room until it is killed.
#[test]
fn inner_keeper_of_a_room() {
    if std::env::var_os("KUMIKO_INNER").is_none() {
        return;
    }
    let mut room = room(&Policy::default(), std::path::Path::new("/var/tmp")).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let arguments = [
        "-c".to_owned(),
        "(setsid sh -c 'echo up >&2; sleep 1000' &); sleep 1000".to_owned(),
    ];
    let _guest = room
        .start(&Launch {
            program: "sh",
            arguments: &arguments,
            environment: &[],
            directory: None,
            streams: Streams::Given {
                stdin: null.as_fd(),
                stdout: null.as_fd(),
                stderr: std::io::stderr().as_fd(),
            },
        })
        .unwrap();
    let _ = std::io::stdin().read(&mut [0; 1]);
}

#[test]
fn nothing_is_left_when_the_runner_dies() {
    let Some(_) = machine("nothing_is_left_when_the_runner_dies") else {
        return;
    };
    let (mut out, theirs) = pipe();
    let mut keeper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::inner_keeper_of_a_room", "--nocapture"])
        .env("KUMIKO_INNER", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(theirs)
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    out.read_exact(&mut up).unwrap();
    assert_eq!(&up, b"up\n");
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    ends(&mut out);
}

#[test]
fn exits_are_the_guests_own() {
    let Some(_) = machine("exits_are_the_guests_own") else {
        return;
    };
    let job = Scratch::new();
    for (script, expected) in [
        ("exit 0", Ended::Exited(0)),
        ("exit 1", Ended::Exited(1)),
        ("exit 255", Ended::Exited(255)),
        ("kill -KILL $$", Ended::Signalled(9)),
        ("kill -SEGV $$", Ended::Signalled(11)),
        // Killed by a broken pipe: the runner's own ignoring of it is not handed on.
        ("(kill -PIPE $$); sleep 1000", Ended::Signalled(13)),
    ] {
        assert_eq!(
            shell(&Policy::default(), &job.0, script).ended,
            expected,
            "{script}"
        );
    }
}

#[test]
fn a_terminal_controls_its_guest() {
    let Some(_) = machine("a_terminal_controls_its_guest") else {
        return;
    };
    let job = Scratch::new();
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let mut guest = room
        .start(&Launch {
            program: "sh",
            arguments: &[
                "-c".to_owned(),
                "echo ready >/dev/tty; stty size; tty; ls /dev/pts; exec sleep 1000".to_owned(),
            ],
            environment: &[],
            directory: None,
            streams: Streams::Terminal {
                rows: 33,
                columns: 101,
            },
        })
        .unwrap();
    let mut master = std::fs::File::from(guest.take_terminal().unwrap());
    let told = read_until(&mut master, "ptmx\r\n");
    let number = own_number(told.split("/dev/pts/").nth(1).unwrap());
    let expected = format!("ready\r\n33 101\r\n/dev/pts/{number}\r\n{number}  ptmx\r\n");
    assert_eq!(told, expected);
    master.write_all(&[3]).unwrap(); // ^C
    assert_eq!(wait(&mut guest), Ended::Signalled(2));
}

/// What a terminal tells until it ends so.
fn read_until(master: &mut std::fs::File, end: &str) -> String {
    let poll = kumiko_linux::poll::Poll::new().unwrap();
    poll.add(&*master, 0, kumiko_linux::poll::Interest::Read)
        .unwrap();
    let mut told = String::new();
    while !told.ends_with(end) {
        let ready = poll.wait::<1>(Some(DEADLINE)).unwrap().next();
        assert!(ready.is_some(), "told after {DEADLINE:?}: {told:?}");
        let mut more = [0; 64];
        let count = master.read(&mut more).unwrap();
        told.push_str(std::str::from_utf8(&more[..count]).unwrap());
    }
    told
}

/// The number that a text begins with; that of a room's first terminal, where it has a /dev/pts of its own.
fn own_number(text: &str) -> u32 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn every_terminal_of_a_room_is_its_own() {
    let Some(_) = machine("every_terminal_of_a_room_is_its_own") else {
        return;
    };
    let job = Scratch::new();
    let mut room = room(&Policy::default(), &job.0).unwrap();
    let mut masters = Vec::new();
    let mut numbers = Vec::new();
    for expected in ["/dev/pts/0\r\n", "/dev/pts/1\r\n"] {
        let mut guest = room
            .start(&Launch {
                program: "sh",
                arguments: &["-c".to_owned(), "tty; exec sleep 1000 <&0".to_owned()],
                environment: &[],
                directory: None,
                streams: Streams::Terminal {
                    rows: 24,
                    columns: 80,
                },
            })
            .unwrap();
        let mut master = std::fs::File::from(guest.take_terminal().unwrap());
        let told = read_until(&mut master, "\n");
        if has_namespaces() {
            assert_eq!(told, expected);
        }
        numbers.push(own_number(told.strip_prefix("/dev/pts/").unwrap()));
        assert!(guest.take_terminal().is_none());
        masters.push(master); // its number is free when it is closed
    }
    assert_ne!(numbers[0], numbers[1]);
}

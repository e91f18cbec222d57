//! Guests whose supervisor stands still. A program of its own: it stops every supervisor that it has.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::spooling::pipe;
use kumiko_policy::Policy;
use kumiko_sandbox::{Ended, Guest, Launch, Room, Streams};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const SCRIPT: &str = "echo up; read word; mkdir made; echo $word";

/// A supervisor is found as the one that this process has.
static ALONE: Mutex<()> = Mutex::new(());

struct Case {
    room: Box<dyn Room>,
    guest: Guest,
    out: File,
    feed: File,
    supervisor: i32,
}

/// A guest that waits for a word, and what it prints.
fn begun(mechanism: &str, scratch: &Scratch) -> Case {
    scratch.put("job/", "");
    let mut room = room_under(mechanism, &Policy::default(), &scratch.0.join("job")).unwrap();
    let (ours, theirs) = pipe().unwrap();
    let (input, feed) = pipe().unwrap();
    let null = File::open("/dev/null").unwrap();
    let guest = room
        .start(&Launch {
            program: "sh",
            arguments: &["-c".to_owned(), SCRIPT.to_owned()],
            environment: &[],
            directory: None,
            streams: Streams::Given {
                stdin: input.as_fd(),
                stdout: theirs.as_fd(),
                stderr: null.as_fd(),
            },
        })
        .unwrap();
    drop((theirs, input));
    let mut out = File::from(ours);
    out.read_exact(&mut [0; 3]).unwrap();
    let [supervisor] = *guards() else {
        panic!("{mechanism}: of one room there is one supervisor");
    };
    Case {
        room,
        guest,
        out,
        feed: feed.into(),
        supervisor,
    }
}

fn signal(name: &str, process: i32) {
    let sent = Command::new("kill")
        .args([name, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// A signal is sent at once and takes hold of each thread when that is next on a processor.
fn stop(process: i32) {
    signal("-STOP", process);
    let until = Instant::now() + DEADLINE;
    let stands = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    let threads = || std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    while !threads().all(|thread| stands(thread.unwrap())) {
        assert!(Instant::now() < until, "{process} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn guests_stand_still_while_who_watches_them_does_and_go_on_with_it() {
    let test = "guests_stand_still_while_who_watches_them_does_and_go_on_with_it";
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for mechanism in ["notify", "ptrace", "library"] {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = Scratch::new();
        let mut case = begun(mechanism, &scratch);
        stop(case.supervisor);
        case.feed.write_all(b"word\n").unwrap();
        let poll = Poll::new().unwrap();
        poll.add(&case.out, 0, Interest::Read).unwrap();
        // However long that were, nothing would come.
        let told = poll.wait::<1>(Some(Duration::from_millis(200)));
        assert!(told.unwrap().next().is_none(), "{mechanism}: it went on");
        assert!(!scratch.0.join("job/made").exists(), "{mechanism}");
        signal("-CONT", case.supervisor);
        let ended = wait(&mut case.guest);
        let mut word = String::new();
        case.out.read_to_string(&mut word).unwrap();
        assert_eq!(
            (word.as_str(), ended),
            ("word\n", Ended::Exited(0)),
            "{mechanism}"
        );
    }
}

#[test]
fn a_room_is_taken_down_whose_supervisor_stands_still() {
    let test = "a_room_is_taken_down_whose_supervisor_stands_still";
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for mechanism in ["notify", "ptrace", "library"] {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = Scratch::new();
        let mut case = begun(mechanism, &scratch);
        stop(case.supervisor);
        drop(case.room);
        ends(&mut case.out, mechanism);
        assert!(guards().is_empty(), "{mechanism}");
    }
}

//! `kumiko sandbox run` typed at a terminal, which script(1) plays.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, has_program, skip, wait};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::Instant;

/// A shell script on a terminal of its own.
struct Session {
    script: Child,
    keys: ChildStdin,
    screen: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Session {
    fn start(person: &Person, commands: &str) -> Session {
        let mut script = person
            .program("script", ["-qefc", commands, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = script.stdout.take().unwrap();
        let (to, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let _ = to.send(bytes[..count].to_vec());
            }
        });
        Session {
            keys: script.stdin.take().unwrap(),
            script,
            screen,
            seen: String::new(),
        }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Until the screen shows this, after what was waited for before; gives what stood before it.
    #[track_caller]
    fn sees(&mut self, wanted: &str) -> String {
        let until = Instant::now() + kumiko_e2e::DEADLINE;
        loop {
            if let Some((before, after)) = self.seen.split_once(wanted) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.seen = after;
                return before;
            }
            match self.screen.recv_timeout(until - Instant::now()) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("{wanted:?} is not on the screen: {:?}", self.seen),
            }
        }
    }

    #[track_caller]
    fn ends(mut self, status: i32) {
        let ended = wait(&mut self.script);
        assert_eq!(ended.code(), Some(status), "{}", self.seen);
    }
}

#[test]
fn a_shell_in_the_sandbox_has_job_control_on_a_terminal_of_its_own() {
    if !has_program("script") {
        return skip("job control in the sandbox", "script(1)");
    }
    let person = Person::new();
    let mut session = Session::start(
        &person,
        "stty rows 33 cols 101; kumiko sandbox run -- bash --norc --noediting -i; echo status $?; stty -a",
    );
    session.types("tty; stty size; echo $TERM. | tr x X\n");
    let before = session.sees("Xterm.\r\n");
    assert!(before.contains("/dev/pts/0\r\n33 101\r\n"), "{before}");
    assert!(!before.contains("no job control"), "{before}");
    session
        .types("bash -c 'trap \"echo goes on\" CONT; echo wa\"\"its; while :; do read x; done'\n");
    session.sees("waits");
    session.types("\x1a"); // ^Z
    session.sees("Stopped");
    session.types("fg\n");
    session.sees("\ngoes on");
    session.types("\x03"); // ^C
    session.sees("\nbash-"); // its prompt
    session.types("echo then $?; exit 7\n");
    session.sees("then 130");
    session.sees("status 7");
    // Our own terminal is as it was.
    let ours = session.sees("echoke");
    assert!(ours.contains(" echo "), "{ours}");
    session.ends(0);
}

#[test]
fn a_terminal_that_changes_its_size_changes_the_guests() {
    if !has_program("script") {
        return skip("window size in the sandbox", "script(1)");
    }
    let person = Person::new();
    // stty sets the rows and then the columns: two changes, of which the guest may see the first.
    let mut session = Session::start(
        &person,
        "mkfifo go; (read x <go; stty rows 44 cols 55 </dev/tty) & \
         kumiko sandbox run -- sh -c \
         'trap \"stty size; stty size | grep -q 55 && exit 3\" WINCH; echo ready; while :; do read x; done'",
    );
    session.sees("ready");
    std::fs::write(person.home.path().join("go"), "\n").unwrap();
    session.sees("44 55");
    session.ends(3);
}

#[test]
fn what_is_not_all_terminal_stays_as_it_is() {
    if !has_program("script") {
        return skip("redirection out of the sandbox", "script(1)");
    }
    let person = Person::new();
    let mut session = Session::start(
        &person,
        "kumiko sandbox run -- sh -c 'test -t 1 || echo none' >file; cat file; \
         echo typed | kumiko sandbox run -- cat",
    );
    session.sees("none");
    session.sees("typed");
    session.ends(0);
}

//! Duty 10: guests that run follow policies that are changed (spec/policy P78), whatever they had done before.

use crate::common::*;
use crate::{HOST, site};
use kumiko_linux::spooling::pipe;
use kumiko_policy::Policy;
use kumiko_sandbox::{Launch, Room, Streams};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::Instant;

/// A shell that does what it is told, line by line.
pub struct Told {
    room: Box<dyn Room>,
    lines: File,
    answers: BufReader<File>,
}

impl Told {
    pub fn begin(policy: &Policy, host: &Scratch) -> Told {
        let mut room = room(policy, &host.0.join("job")).unwrap();
        let (stdin, lines) = pipe().unwrap();
        let (answers, stdout) = pipe().unwrap();
        let null = File::options().write(true).open("/dev/null").unwrap();
        let script = "while read -r line; do eval \"$line\"; echo .; done";
        let guest = room.start(&Launch {
            program: "/bin/sh",
            arguments: &["-c".to_owned(), script.to_owned()],
            environment: &[],
            directory: None,
            streams: Streams::Given {
                stdin: stdin.as_fd(),
                stdout: stdout.as_fd(),
                stderr: null.as_fd(),
            },
        });
        guest.unwrap();
        Told {
            room,
            lines: File::from(lines),
            answers: BufReader::new(File::from(answers)),
        }
    }

    /// What it prints for a line of shell.
    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.lines, "{line}").unwrap();
        let mut all = String::new();
        loop {
            let mut answer = String::new();
            assert!(self.answers.read_line(&mut answer).unwrap() > 0, "{line}");
            if answer == ".\n" {
                return all.trim().replace('\n', " ");
            }
            all += &answer;
        }
    }

    /// Once the change is heard of, and ever after: `rows` of lines and what they print then.
    pub fn follows(&mut self, now: &Policy, rows: &[(&str, &str)]) -> Vec<String> {
        let not = self.room.follow(now).unwrap();
        let (line, expected) = rows[0];
        let until = Instant::now() + DEADLINE;
        while self.ask(line) != expected {
            assert!(Instant::now() < until, "{line}: {}", self.ask(line));
        }
        for (line, expected) in rows {
            assert_eq!(self.ask(line), *expected, "{line}");
        }
        not
    }
}

const SHOWN: &str = "[paths]\n\"/pub\" = { access = \"read\", real = \"{dir}/real\" }\n\
                     \"/rw\" = { access = \"write\", real = \"{dir}/rw\" }\n";

fn host() -> Scratch {
    let host = Scratch::new();
    for (name, content) in HOST {
        host.put(name, content);
    }
    host.put("job/", "");
    host
}

#[test]
fn guests_that_run_see_no_more_of_what_is_taken_away_until_it_is_given_back() {
    let test = "guests_that_run_see_no_more_of_what_is_taken_away_until_it_is_given_back";
    let Some(_) = machine(test) else { return };
    let host = host();
    let policy = |text: &str| site(&text.replace("{dir}", host.0.to_str().unwrap()));
    let mut told = Told::begin(&policy(SHOWN), &host);
    // By the shell itself, and by a program that it starts.
    let all: [(&str, &str); 5] = [
        ("true </pub/file && echo yes || echo no", "yes"),
        ("cat /pub/file; echo", "content"),
        ("cat /pub/sub/file; echo", "deeper"),
        ("echo a >/rw/new && cat /rw/new || echo no", "a"),
        ("test -d /pub/gone/kept && echo yes || echo no", "yes"),
    ];
    for (line, expected) in all {
        assert_eq!(told.ask(line), expected, "{line}");
    }
    // A part of it, and not to be written to any more.
    let part = "[paths]\n\"/pub\" = \"hidden\"\n\"/pub/sub\" = { access = \"read\", real = \"{dir}/real/sub\" }\n\
                \"/rw\" = { access = \"read\", real = \"{dir}/rw\" }\n";
    let not = told.follows(
        &policy(part),
        &[
            ("true </pub/file && echo yes || echo no", "no"),
            ("cat /pub/file || echo no", "no"),
            ("cat /pub/sub/file; echo", "deeper"),
            ("ls /pub", "sub"),
            ("echo b >/rw/new || echo no", "no"),
            ("cat /rw/new", "a"),
            ("cat /usr/bin/true >/dev/null && echo yes", "yes"),
        ],
    );
    assert_eq!(not, [] as [&str; 0]);
    // None of it, and others of it.
    let closed = "[paths]\n\"/pub\" = \"denied\"\n\"/rw\" = { access = \"write\", real = \"{dir}/rw\" }\n\"/rw/file\" = \"hidden\"\n";
    told.follows(
        &policy(closed),
        &[
            ("ls /pub || echo no", "no"),
            ("cat /pub/sub/file || echo no", "no"),
            ("cat /rw/file", ""),
            ("echo c >/rw/new && cat /rw/new || echo no", "c"),
        ],
    );
    let mut all = all.to_vec();
    all[3] = ("echo d >/rw/new && cat /rw/new || echo no", "d");
    all.push(("cat /rw/file; echo", "content"));
    told.follows(&policy(SHOWN), &all);
    // What it did not begin with is not shown.
    let more = format!("{SHOWN}\"/more\" = {{ access = \"read\", real = \"{{dir}}/temp\" }}\n");
    told.follows(&policy(&more), &[("cat /more/file || echo no", "no")]);
}

#[test]
fn guests_that_run_reach_what_the_policy_of_now_lets_them() {
    let test = "guests_that_run_reach_what_the_policy_of_now_lets_them";
    let Some(_) = machine(test) else { return };
    let host = host();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let policy = |network: &str| site(network);
    let connect =
        format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo yes || echo no");
    let mut told = Told::begin(&policy(""), &host);
    assert_eq!(told.ask(&connect), "yes");
    let mut denied = policy("");
    denied.reach = kumiko_policy::parse("[network]\ndeny = [\"127.0.0.0/8\"]", "case")
        .unwrap()
        .reach;
    let none = policy("network = \"none\"");
    for now in [denied, none] {
        if has_namespaces() {
            assert_eq!(told.room.follow(&now).unwrap(), ["network and addresses"]);
            continue;
        }
        told.follows(&now, &[(&connect, "no")]);
        told.follows(&policy(""), &[(&connect, "yes")]);
    }
}

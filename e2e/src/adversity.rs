//! What tests of bad input and of hostile guests share: failures that must say something, REST by curl, C programs.

use crate::{Person, collect, finish, has_program, skip, told};
use std::path::PathBuf;
use std::process::{Output, Stdio};

/// A C program of this folder, in a folder of its own to be sent as `--dir`; None, said: there is no compiler.
pub fn compiled(test: &str, person: &Person, source: &str, name: &str) -> Option<PathBuf> {
    if !has_program("cc") {
        skip(test, "cc");
        return None;
    }
    let folder = person.home.path().join(format!("{name}-folder"));
    std::fs::create_dir_all(&folder).unwrap();
    let source_file = person.file(&format!("{name}.c"), source);
    let mut cc = person.program("cc", ["-O1", "-Wall", "-o"]);
    cc.arg(folder.join(name))
        .arg(source_file)
        .stdin(Stdio::null());
    let output = finish(&mut cc);
    assert!(output.status.success(), "{}", told(&output));
    Some(folder)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn port(person: &Person) -> u16 {
    let contact = std::fs::read_to_string(person.kumiko_home().join("contact.toml")).unwrap();
    let port = contact
        .lines()
        .find_map(|line| line.strip_prefix("port = "));
    port.unwrap().parse().unwrap()
}

/// The site still runs jobs.
#[track_caller]
pub fn serves(person: &Person) {
    let output = person.run(["job", "run", "--", "echo", "serving"]);
    assert_eq!(
        output.stdout,
        b"serving\n",
        "the site serves: {}",
        told(&output)
    );
}

/// It failed with this status, and said all of these.
#[track_caller]
pub fn refused(output: &Output, status: i32, says: &[&str]) {
    assert_eq!(output.status.code(), Some(status), "{}", told(output));
    let said = text(&output.stderr);
    for word in says {
        assert!(said.contains(word), "{word:?} is not said in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// `curl` with the owner's certificate.
#[derive(Debug)]
pub struct Rest<'a> {
    person: &'a Person,
    base: String,
}

impl Rest<'_> {
    pub fn new(person: &Person) -> Rest<'_> {
        let contact = std::fs::read_to_string(person.kumiko_home().join("contact.toml")).unwrap();
        let port = contact
            .lines()
            .find_map(|line| line.strip_prefix("port = "))
            .unwrap();
        Rest {
            person,
            base: format!("https://localhost:{port}"),
        }
    }

    pub fn get(&self, path: &str) -> (u16, Vec<u8>) {
        self.ask(&[], path)
    }

    /// Status and body.
    pub fn ask(&self, more: &[&str], path: &str) -> (u16, Vec<u8>) {
        let home = self.person.kumiko_home();
        let mut curl = self.person.program(
            "curl",
            [
                "-s",
                "--path-as-is",
                "--max-time",
                "30",
                "-w",
                "%{stderr}%{http_code}",
            ],
        );
        curl.arg("--cert")
            .arg(home.join("user/usercert.pem"))
            .arg("--key")
            .arg(home.join("user/userkey.pem"));
        curl.arg("--capath")
            .arg(home.join("certificates"))
            .args(more)
            .arg(format!("{}{path}", self.base));
        let output = collect(
            curl.stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        (
            text(&output.stderr).trim().parse().unwrap_or(0),
            output.stdout,
        )
    }
}

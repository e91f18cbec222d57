//! The README's session, typed as it stands there. In what it shows, `...` stands for anything.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, finish, told};
use std::path::Path;
use std::process::Stdio;

const BEGIN: &str = "<!-- session: run by e2e -->";
const END: &str = "<!-- end of session -->";

/// Commands with what they are shown to print.
fn session(readme: &str) -> Vec<(String, String)> {
    let (_, rest) = readme
        .split_once(BEGIN)
        .expect("the README marks its session");
    let (block, _) = rest
        .split_once(END)
        .expect("the README marks the end of its session");
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in block
        .lines()
        .filter(|l| !l.starts_with("```") && !l.is_empty())
    {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push((command.to_owned(), String::new())),
            None => {
                let (_, shown) = steps.last_mut().expect("a command before its output");
                shown.push_str(line);
                shown.push('\n');
            }
        }
    }
    steps
}

fn matches(shown: &str, said: &str) -> bool {
    let pieces: Vec<&str> = shown.split("...").collect();
    let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
    if pieces.len() == 1 {
        return shown == said;
    }
    let Some(mut rest) = said.strip_prefix(first) else {
        return false;
    };
    for piece in &pieces[1..pieces.len() - 1] {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn dots_stand_for_anything() {
    let check = |shown: &str, said: &str, expected: bool| {
        assert_eq!(matches(shown, said), expected, "{shown:?} {said:?}")
    };
    check("a\n", "a\n", true);
    check("a\n", "b\n", false);
    check("a...c\n", "a b c\n", true);
    check("a...c...e\n", "a b c d e\n", true);
    check("a...c\n", "a b\n", false);
    check("...\n", "anything\nat all\n", true);
}

#[test]
fn the_readmes_session_runs_as_typed() {
    let readme =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md"))
            .unwrap();
    let steps = session(&readme);
    assert!(steps.len() >= 5, "{steps:?}");
    let person = Person::new();
    for (command, shown) in steps {
        // Its own port may be taken on a machine that runs tests.
        let mut shell = person.program("sh", ["-c", &command]);
        let output = finish(
            shell
                .env("KUMIKO_LISTEN", "127.0.0.1:0")
                .stdin(Stdio::null()),
        );
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(
            matches(&shown, &said),
            "$ {command}\nshould print\n{shown}\n{}",
            told(&output)
        );
    }
}

//! Routines that call their callers back, whatever dies in between: each question is put to the caller's function once. And files that go
//! to routines and come back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compiled;
mod routines;
mod runners;

use kumiko_e2e::{alive, kill, until};
use routines::Caller;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

/// `callback/count`, called by the example; and when its function has been asked so many times.
fn counting(caller: &Caller, times: u32, asked: u32) -> (Child, BufReader<impl Read + use<>>) {
    let mut program = caller
        .person
        .program("./callback", [times.to_string(), "10000".to_owned()]);
    let mut child = program
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    for number in 0..asked {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, format!("tell {number}\n"));
    }
    (child, lines)
}

/// Each number was told once, in order, and the sum is right.
#[track_caller]
fn right((mut child, mut lines): (Child, BufReader<impl Read>), times: u32, asked: u32) {
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    let numbers = (asked..times).map(|number| format!("tell {number}\n"));
    let sum = u64::from(times) * (u64::from(times) + 1) / 2;
    let end = format!("sum {sum}, asked {times} times\n");
    assert_eq!(rest, numbers.chain([end]).collect::<String>());
}

#[test]
fn a_routine_finds_roots_of_functions_that_only_its_caller_has() {
    let caller = Caller::with(&["callback"]);
    compiled::calls_back(&caller);
    let refused = caller
        .person
        .run(["rpc", "call", "callback/count", "1", "0"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("call it from C or Python"), "{said}");
}

#[test]
fn a_routine_that_is_killed_between_callbacks_begins_anew_and_asks_nothing_twice() {
    let caller = Caller::with(&["callback"]);
    compiled::example(&caller, "callback");
    let call = counting(&caller, 60, 20);
    let pid = caller.routine_pid(&[]);
    kill(pid, "KILL");
    right(call, 60, 20);
    caller.nothing_is_left();
}

#[test]
fn a_routine_with_checkpoints_goes_on_between_callbacks_where_it_was() {
    let caller = Caller::with_checkpoints(&["callback"]);
    compiled::example(&caller, "callback");
    let call = counting(&caller, 60, 20);
    let pid = caller.routine_pid(&[]);
    kill(pid, "KILL");
    right(call, 60, 20);
    assert_eq!(caller.count_in_log("\"planned\":%\"checkpoint\":"), 1);
    caller.nothing_is_left();
}

#[test]
fn an_answer_that_cannot_be_kept_just_now_is_waited_with_and_its_question_is_not_asked_again() {
    let caller = Caller::with(&["callback"]);
    compiled::example(&caller, "callback");
    let rpc = caller.person.kumiko_home().join("state/rpc");
    let (kept, away) = (rpc.join("callbacks"), rpc.join("away"));
    std::fs::rename(&kept, &away).unwrap();
    let (child, mut lines) = counting(&caller, 60, 1);
    std::fs::rename(&away, &kept).unwrap();
    for number in 1..20 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, format!("tell {number}\n"));
    }
    kill(caller.routine_pid(&[]), "KILL");
    right((child, lines), 60, 20);
    caller.nothing_is_left();
}

#[test]
fn a_site_that_is_killed_between_callbacks_asks_nothing_twice() {
    let caller = Caller::with(&["callback"]);
    compiled::example(&caller, "callback");
    let call = counting(&caller, 60, 20);
    let pid = caller.routine_pid(&[]);
    caller.kill_and_start_again();
    right(call, 60, 20);
    until("the process of before has ended", || {
        !Path::new(&format!("/proc/{pid}")).exists()
    });
    caller.nothing_is_left();
}

#[test]
fn processes_of_a_site_that_is_removed_end_also_where_they_wait_for_their_caller() {
    let caller = Caller::with(&["callback"]);
    compiled::example(&caller, "callback");
    let (mut child, _lines) = counting(&caller, 60, 20);
    let pid = caller.routine_pid(&[]);
    caller.person.kill_site();
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(caller.person.kumiko_home()).unwrap();
    until("its process has ended, and its runner", || {
        let (pilots, runners) = runners::pilots_and_runners(&caller.person);
        !alive(pid) && pilots.is_empty() && runners.is_empty()
    });
}

#[test]
fn a_file_goes_in_and_another_comes_back_whatever_its_size() {
    let caller = Caller::with(&["files"]);
    let home = caller.person.home.path();
    let text = "what goes in, ";
    for (times, durability) in [
        (0, "full"),
        (1, "none"),
        (1, "record"),
        (100_000, "full"),
        (100_000, "none"),
    ] {
        let content = text.repeat(times);
        std::fs::write(home.join("in.txt"), &content).unwrap();
        let words = [
            "files/upper",
            "in.txt",
            "--out",
            "to=out.txt",
            "--durability",
            durability,
        ];
        let result = caller.call(&words);
        let bytes = serde_json::json!([content.len()]);
        assert_eq!(result["bytes"], bytes, "{times} {durability}");
        let came = std::fs::read_to_string(home.join("out.txt")).unwrap();
        assert!(came == content.to_uppercase(), "{times} {durability}");
    }
    // In and out: where it was, or elsewhere.
    std::fs::write(home.join("log"), "one\n").unwrap();
    caller.call(&["files/stamp", "two", "log"]);
    caller.call(&["files/stamp", "three", "log", "--out", "log=other"]);
    let read = |name: &str| std::fs::read_to_string(home.join(name)).unwrap();
    assert_eq!(
        (read("log"), read("other")),
        ("one\ntwo\n".to_owned(), "one\ntwo\nthree\n".to_owned())
    );
    // Nothing lies beside them.
    let names = home.read_dir().unwrap().flatten();
    let hidden = names.filter(|one| one.file_name().to_string_lossy().contains(".txt."));
    assert_eq!(hidden.count(), 0);
    caller.nothing_is_left();
}

#[test]
fn what_is_wrong_with_a_file_is_told_by_its_name() {
    let caller = Caller::with(&["files"]);
    let check = |words: &[&str], status: i32, expected: &str| {
        let output = caller.person.run([&["rpc", "call"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    };
    check(
        &["files/upper", "none.txt", "--out", "to=x"],
        1,
        "none.txt: No such file",
    );
    check(&["files/upper", "steps"], 1, "steps: No such file");
    std::fs::write(caller.person.home.path().join("in.txt"), "x").unwrap();
    check(
        &["files/upper", "in.txt"],
        2,
        "say where it goes by --out to=FILE",
    );
    check(
        &["files/upper", "in.txt", "--out", "to=no/such/x"],
        1,
        "No such file",
    );
    check(&["files/upper", ".", "--out", "to=x"], 1, "it is no file");
}

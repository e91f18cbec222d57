//! Arrays of texts and of files: they go in and come back, by each interface, and to functions of the caller's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compiled;
mod routines;

use kumiko_e2e::{finish, has_program, skip, told};
use routines::{Caller, numpy_is_here, python};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/lists")
        .join(name)
}

/// With the examples, and with these files of tests/lists.
fn caller(names: &[&str]) -> Caller {
    let caller = Caller::with(&["lines"]);
    for name in names {
        let idl = format!("{name}.idl");
        std::fs::copy(beside(&idl), caller.person.home.path().join(&idl)).unwrap();
        caller.gen_and_register(name, &[]);
    }
    caller
}

fn read(caller: &Caller, name: &str) -> String {
    std::fs::read_to_string(caller.person.home.path().join(name)).unwrap()
}

#[test]
fn the_command_takes_and_shows_lists_and_keeps_them_in_files() {
    let caller = caller(&["lists"]);
    let words = caller.call(&["lines/words", "to be  or", "4"]);
    assert_eq!(
        words,
        json!({"count": [3], "words": ["to", "be", "or", null]})
    );
    let said = caller
        .person
        .ok(["rpc", "call", "lines/words", "to be", "3"]);
    assert_eq!(said, "count = 2\nwords = \"to\" \"be\" null\n");
    let second = caller.call(&["lists/every_second", r#"["a", "b", "c", "d"]"#]);
    assert_eq!(second, json!({"lines": ["B", "D"], "others": [0]}));

    caller.file("whole", b"a\nb\nc\n");
    caller.call(&["lines/deal", "whole", "2", "--out", r#"parts=["p1", "p2"]"#]);
    assert_eq!(
        (read(&caller, "p1"), read(&caller, "p2")),
        ("a\nc\n".to_owned(), "b\n".to_owned())
    );
    caller.file("parts.json", br#"["p2", "p1"]"#);
    caller.call(&["lines/join", "@parts.json", "--out", "whole=joined"]);
    assert_eq!(read(&caller, "joined"), "b\na\nc\n");
    // INOUT: where they were, or elsewhere, in lists of their shape.
    let lists = r#"[["p1", "p2"]["whole", "joined"]]"#.replace("][", "], [");
    caller.call(&["lists/mark", "2", &lists, "x"]);
    assert_eq!(read(&caller, "p2"), "b\nx 1\n");
    caller.call(&[
        "lists/mark",
        "2",
        &lists,
        "y",
        "--out",
        r#"logs=["1", "2", "3", "4"]"#
            .replace(
                "[\"1\", \"2\", \"3\", \"4\"]",
                "[[\"1\", \"2\"], [\"3\", \"4\"]]",
            )
            .as_str(),
    ]);
    assert_eq!(
        (read(&caller, "4"), read(&caller, "p1")),
        ("b\na\nc\nx 3\ny 3\n".to_owned(), "a\nc\nx 0\n".to_owned())
    );

    // Texts that are kept can be given again.
    caller.call(&["lines/words", "b a", "3", "--out", "words=kept.json"]);
    assert_eq!(read(&caller, "kept.json"), "[\"b\",\"a\",null]\n");
    let again = caller.call(&["lists/every_second", "@kept.json"]);
    assert_eq!(again["lines"], json!(["A"]));
    caller.call(&["lists/nothing", "2", "--out", r#"parts=["empty"]"#]);
    assert_eq!(read(&caller, "empty"), "");

    for (words, says) in [
        (
            &["lines/deal", "whole", "2"][..],
            "say where they go by --out parts=",
        ),
        (
            &["lines/deal", "whole", "2", "--out", "parts=p1"],
            "it takes files, as",
        ),
        (
            &["lines/deal", "whole", "2", "--out", r#"parts=["p1"]"#],
            "1 files are named, and by its sizes it has 2",
        ),
        (
            &["lines/join", r#"["p1", "nowhere"]"#, "--out", "whole=w"],
            "nowhere",
        ),
        (
            &["lines/join", r#"["p1", null]"#, "--out", "whole=w"],
            "a file has a name",
        ),
        (
            &[
                "lists/fails",
                r#"["a", "why"]"#,
                "--out",
                r#"parts=["f1", "f2"]"#,
            ],
            "why",
        ),
    ] {
        let failed = caller.person.run([&["rpc", "call"], words].concat());
        let said = told(&failed);
        assert!(
            !failed.status.success() && said.contains(says),
            "{words:?}: {said}"
        );
    }
    assert!(!caller.person.home.path().join("f1").exists());
    caller.nothing_is_left();
}

#[test]
fn a_program_in_c_and_its_functions_take_and_give_them() {
    let caller = caller(&["lists"]);
    compiled::compile(&caller, &beside("lists.c"), "lists");
    let output = finish(&mut caller.person.program("./lists", [""; 0]));
    assert!(output.status.success(), "{}", told(&output));
    let expected = "3: to be or none\n\
        own ONE own THREE, others 0\n\
        part1:a|c|\npart2:b|\njoined:a|c|b|\nit is told which\n\
        part1:a|c|mark 0|\npart2:b|mark 1|\nwhole:a|b|c|mark 2|\njoined:a|c|b|mark 3|\n\
        it is told why\npart1:a|c|mark 0|\n\
        hello none, 3: one two 0 1 0 0 0\na|c|mark 0|\n\
        hello none, 3: asked 1 two 0 101 0 0 0\ntold|\n\
        none none, 3: asked 2 two 0 201 0 0 0\ntold|\n\
        zero asked 3 two, sum 915, asked 3\n\
        told1:one|more 3 none|\ntold2:second|\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    caller.nothing_is_left();
}

#[test]
fn a_program_in_python_and_its_functions_take_and_give_lists() {
    if !numpy_is_here("a_program_in_python_and_its_functions_take_and_give_lists") {
        return;
    }
    let caller = caller(&["lists"]);
    let output = finish(&mut python(
        &caller,
        &[beside("lists.py").to_str().unwrap()],
    ));
    assert!(output.status.success(), "{}", told(&output));
    let expected = [
        "Result(count=3, words=['to', 'be', 'or', None])",
        r"Result(lines=['own', 'ONE', 'own', 'THR\udce9E'], others=0)",
        "lists/every_second, lines: <class 'str'> is given, and it takes a list of texts",
        "None",
        r"['a\nmark 0\n', 'b\nmark 1\n', 'c\nmark 2\n', 'd\nmark 3\n']",
        "Result(text=None, none=[None, None]) ''",
        "3 [None, 'one', 'two'] [0 1 0 3 0 5] hello a\nmark 0\n [True, True]",
        "3 [None, 'asked', None] [  0 101   0 103   0 105] hello told\n [True, True]",
        "3 [None, 'asked', None] [  0 201   0 203   0 205] None told\n [True, True]",
        "Result(answers=['zero', 'asked', None], sum=915)",
        r"['one\nmore none\n', 'second\n']",
        "lines: 2 texts come back, and the routine takes (3,)",
    ];
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, expected.join("\n") + "\n");
}

#[test]
fn routines_in_python_take_and_give_lists() {
    if !numpy_is_here("routines_in_python_take_and_give_lists") {
        return;
    }
    let caller = caller(&[]);
    std::fs::copy(
        beside("listed.py"),
        caller.person.home.path().join("listed.py"),
    )
    .unwrap();
    caller.gen_and_register("listed", &[]);
    let output = finish(&mut python(
        &caller,
        &[beside("listed_calls.py").to_str().unwrap()],
    ));
    assert!(output.status.success(), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    let (said, raised) = said.trim_end().rsplit_once('\n').unwrap();
    let expected = [
        "Result(same=['none!', 'b'], more=[[None, None], ['more', None]], result_1=['TO', None], result_2='to -')",
        "2",
        "['log a', 'log b', 'new', '']",
        "['toa one', 'bea']",
    ];
    assert_eq!(said, expected.join("\n"));
    assert!(
        raised.ends_with("ended by ValueError: result: it is to be a list of 1"),
        "{raised}"
    );
    caller.nothing_is_left();
}

#[test]
fn a_routine_in_fortran_has_them_as_arrays_of_characters() {
    const NAME: &str = "a_routine_in_fortran_has_them_as_arrays_of_characters";
    if !has_program("gfortran") {
        skip(NAME, "gfortran");
        return;
    }
    if !numpy_is_here(NAME) {
        return;
    }
    let caller = caller(&[]);
    let mut compiler = Command::new("gfortran");
    compiler
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-fcheck=all", "-c"])
        .arg(beside("turned.f90"))
        .current_dir(caller.person.home.path());
    let output = finish(&mut compiler);
    assert!(output.status.success(), "{}", told(&output));
    std::fs::copy(
        beside("turned.idl"),
        caller.person.home.path().join("turned.idl"),
    )
    .unwrap();
    caller.gen_and_register("turned", &[]);
    let script = "import kumiko, pathlib\n\
        for name in 'ab': pathlib.Path(name).write_text(name * 3)\n\
        f = lambda k, s, one: print(s, one.read_text()) or ['so', None]\n\
        print(kumiko.rpc('turned/turn')(['one', 'longer than others'], ['x', None], ['a', 'b'], f))";
    let output = finish(&mut python(&caller, &["-c", script]));
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "['one', 'two words'] aaa\n\
         Result(same=['x-aaa', '-bbb'], back=['longer than others/so/', 'one'])\n"
    );
}

#[test]
fn lists_that_come_back_are_taken_by_another_client_and_a_site_that_was_killed_has_them() {
    let caller = caller(&["lists"]);
    let mut call = caller.begin(&[
        "lists/slow",
        "1500",
        r#"["a", null, "b"]"#,
        "--out",
        r#"parts=["p1", "p2", "p3"]"#,
    ]);
    caller.routine_pid(&[]);
    let id = caller.open_call();
    call.kill().unwrap();
    call.wait().unwrap();
    caller.kill_and_start_again();
    let said = caller.person.ok(["--output", "json", "rpc", "attach", &id]);
    let result: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(result, json!({"lines": ["A", null, "B"]}));
    let parts = ["p1", "p2", "p3"].map(|name| read(&caller, name));
    assert_eq!(parts, ["a", "", "b"]);
    caller.nothing_is_left();
}

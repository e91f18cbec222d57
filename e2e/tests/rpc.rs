//! A person makes routines out of IDL, offers them at their site, and calls them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{Person, finish, kill, kumiko, told, until};
use routines::{Caller, npy};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

#[test]
fn linpack_is_made_registered_listed_and_solves_what_it_is_given() {
    let caller = Caller::with(&["linpack"]);
    let listed = caller.person.ok(["rpc", "list"]);
    assert!(listed.contains("linpack/dgesv(IN int n"), "{listed}");
    assert!(listed.contains("Solves a x = b"), "{listed}");
    let a = caller.file(
        "A.npy",
        &npy(&[3, 3], &[4., 1., 0., 1., 5., 2., 0., 2., 6.]),
    );
    let b = caller.file("b.npy", &npy(&[3], &[6., 17., 22.]));
    // The size is told by the arrays.
    let result = caller.call(&["linpack/dgesv", &a, &b]);
    assert_eq!(result["info"], json!([0]));
    let x: Vec<f64> = serde_json::from_value(result["b"].clone()).unwrap();
    for (found, expected) in x.iter().zip([1., 2., 3.]) {
        assert!((found - expected).abs() < 1e-12, "{x:?}");
    }
    // Said all the same, and into a file, which NumPy could read.
    caller.call(&["linpack/dgesv", "3", &a, &b, "--out", "b=x.npy"]);
    let written = std::fs::read(caller.person.home.path().join("x.npy")).unwrap();
    assert!(written.starts_with(b"\x93NUMPY"));
    assert_eq!(written.len() % 64, 24);
}

#[test]
fn a_throw_away_site_offers_routines_and_leaves_nothing() {
    let person = Person::new();
    let mut start = person.kumiko(["site", "start", "--demo"]);
    start
        .env("TMPDIR", person.home.path())
        .stdout(Stdio::piped());
    let mut site = start.spawn().unwrap();
    let lines = BufReader::new(site.stdout.as_mut().unwrap()).lines();
    let place = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("export KUMIKO_HOME=")?.1.to_owned()))
        .unwrap();
    let ok = |words: &[&str]| {
        let mut command = person.kumiko(words);
        let output = finish(command.env("KUMIKO_HOME", &place).stdin(Stdio::null()));
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ok(&["rpc", "list"]).contains("linpack/dgesv(IN int n"));
    let said = ok(&["--output", "json", "rpc", "call", "pi/trial", "7", "100000"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let hits = said["hits"][0].as_f64().unwrap();
    assert!(
        (hits / 25_000. - std::f64::consts::PI).abs() < 0.05,
        "{said}"
    );
    kill(site.id(), "INT");
    assert!(site.wait().unwrap().success());
    assert!(!Path::new(&place).exists());
}

/// `y = a x`, where the rows of `a` lie side by side, or those of its transpose.
fn product(a: &[f64], x: &[f64], transposed: bool) -> Vec<f64> {
    let n = x.len();
    let element = |i: usize, j: usize| {
        if transposed {
            a[j * n + i]
        } else {
            a[i * n + j]
        }
    };
    let row = |i: usize| (0..n).map(|j| element(i, j) * x[j]).sum();
    (0..n).map(row).collect()
}

#[track_caller]
fn is_near(result: &serde_json::Value, name: &str, expected: &[f64]) {
    let found: Vec<f64> = serde_json::from_value(result[name].clone()).unwrap();
    assert_eq!(found.len(), expected.len());
    for (one, expected) in found.iter().zip(expected) {
        assert!((one - expected).abs() < 1e-9, "{found:?}");
    }
}

#[test]
fn linpacks_pair_and_lapack_solve_what_they_are_given() {
    const N: usize = 20;
    let caller = Caller::with(&["linpack", "lapack"]);
    let a: Vec<f64> = (0..N * N)
        .map(|i| f64::from((i * i * 7919 % 101) as u32) - 50.)
        .collect();
    let x: Vec<f64> = (0..N).map(|i| f64::from(i as u32) - 7.).collect();
    let square = npy(&[N as u64, N as u64], &a);
    let [rows, columns] = [false, true].map(|transposed| {
        let b = npy(&[N as u64], &product(&a, &x, transposed));
        caller.file(&format!("b{transposed}.npy"), &b)
    });
    let square = caller.file("a.npy", &square);
    let solved = caller.call(&["lapack/dgesv", &square, &rows]);
    assert_eq!(solved["info"], json!([0]));
    is_near(&solved, "b", &x);
    is_near(&caller.call(&["linpack/dgesv", &square, &rows]), "b", &x);
    let zeros = caller.file("zeros.npy", &npy(&[2, 2], &[0.0; 4]));
    let two = caller.file("two.npy", &npy(&[2], &[1.0; 2]));
    assert_eq!(
        caller.call(&["lapack/dgesv", &zeros, &two])["info"],
        json!([1])
    );
    // By columns, which lie further apart than they are long.
    let apart: Vec<f64> = a
        .chunks(N)
        .flat_map(|one| [one, &[9.0; 3]].concat())
        .collect();
    let apart = caller.file("apart.npy", &npy(&[N as u64, N as u64 + 3], &apart));
    let files = ["--out", "a=factors.npy", "--out", "ipvt=pivots.npy"];
    let factors = caller.call(&[&["linpack/dgefa", &apart][..], &files].concat());
    assert_eq!(factors["info"], json!([0]));
    let with = ["linpack/dgesl", "@factors.npy", "@pivots.npy"];
    for (b, job) in [(&columns, "0"), (&rows, "1")] {
        is_near(&caller.call(&[&with[..], &[b, job]].concat()), "b", &x);
    }
    assert_eq!(caller.call(&["linpack/dgefa", &zeros])["info"], json!([2]));
}

#[test]
fn arrays_go_from_files_to_files_without_being_whole_in_memory() {
    let caller = Caller::with(&["samples"]);
    let count = 5_000_000;
    let numbers: Vec<f64> = (0..2 * count).map(|one| f64::from(one) - 0.5).collect();
    caller.file(
        "z.npy",
        &routines::npy_of("<c16", &[count as u64], &numbers),
    );
    // 80 MB each way, and 64 MiB of memory.
    let script = "ulimit -d 65536 && exec \"$@\"";
    let program = kumiko();
    let words = ["-c", script, "sh", program.to_str().unwrap(), "rpc"];
    let call = ["call", "samples/conjugate", "@z.npy", "--out", "c=c.npy"];
    let run = |words: &[&str]| finish(&mut caller.person.program("sh", words));
    let called = run(&[&words[..], &call].concat());
    assert!(called.status.success(), "{}", told(&called));
    let c = std::fs::read(caller.person.home.path().join("c.npy")).unwrap();
    let (header, elements) = c.split_at(c.len() - 16 * count as usize);
    assert!(header.starts_with(b"\x93NUMPY") && header.len() % 64 == 0);
    let expected = numbers.iter().enumerate().map(|(at, one)| match at % 2 {
        0 => *one,
        _ => -one,
    });
    let found = elements.chunks_exact(8);
    let found = found.map(|one| f64::from_le_bytes(one.try_into().unwrap()));
    assert!(found.eq(expected));
    // Of which only a part finds room: all of it is at the site.
    let script = "trap '' XFSZ && ulimit -f 1000 && exec \"$@\"";
    let little = ["-c", script, "sh", program.to_str().unwrap(), "rpc"];
    let call = [
        "call",
        "samples/conjugate",
        "@z.npy",
        "--out",
        "c=again.npy",
    ];
    let called = run(&[&little[..], &call].concat());
    let said = told(&called);
    let (_, id) = said.split_once("`kumiko rpc attach ").expect(&said);
    let (id, why) = id.split_once('`').unwrap();
    assert!(why.contains("again.npy: File too large"), "{said}");
    let again = ["rpc", "attach", id, "--out", "c=again.npy"];
    caller.person.ok(again);
    let again = std::fs::read(caller.person.home.path().join("again.npy")).unwrap();
    assert!(again == c);
    caller.nothing_is_left();
    // Where it cannot be written nothing is begun, and nothing else is left.
    let call = ["call", "samples/conjugate", "@z.npy", "--out", "c=no/c.npy"];
    let called = run(&[&words[..], &call].concat());
    assert!(
        told(&called).contains("writing no/c.npy"),
        "{}",
        told(&called)
    );
    let all = std::fs::read_dir(caller.person.home.path()).unwrap();
    let names = all.map(|one| one.unwrap().file_name().into_string().unwrap());
    let new: Vec<String> = names.filter(|name| name.ends_with(".new")).collect();
    assert!(new.is_empty(), "{new:?}");
}

#[test]
fn a_file_that_is_cut_off_while_it_is_sent_ends_its_call_and_nothing_of_it_is_kept() {
    let caller = Caller::with(&["samples"]);
    let count = 1 << 24;
    caller.file("z.npy", &routines::npy_of("<c16", &[count], &[]));
    let z = caller.person.home.path().join("z.npy");
    let z = std::fs::File::options().append(true).open(z).unwrap();
    let header = z.metadata().unwrap().len();
    // 256 MiB, of which no disk has any.
    z.set_len(header + 16 * count).unwrap();
    let call = caller.begin(&["samples/conjugate", "@z.npy", "--out", "c=c.npy"]);
    let arguments = caller.state().join("arguments");
    until("some of it has come", || {
        std::fs::read_dir(&arguments).unwrap().next().is_some()
    });
    z.set_len(header).unwrap();
    let called = call.wait_with_output().unwrap();
    assert_eq!(called.status.code(), Some(1), "{}", told(&called));
    let words = "z.npy: it is shorter than it was: leave files alone until the call";
    assert!(told(&called).contains(words), "{}", told(&called));
    caller.nothing_is_left();
    assert!(!caller.person.home.path().join("c.npy").exists());
}

#[test]
fn every_kind_of_argument_goes_in_and_comes_back() {
    let caller = Caller::with(&["samples"]);
    let check = |words: &[&str], expected: serde_json::Value| {
        assert_eq!(caller.call(words), expected, "{words:?}");
    };
    check(&["samples/null"], json!({}));
    let x = caller.file("x.npy", &npy(&[5], &[1., 2., 3., 4., 5.]));
    check(&["samples/sum", &x], json!({"s": [15.0]}));
    check(&["samples/every_other", &x], json!({"x": [4.0, 8.0]}));
    check(
        &["samples/measure", "two words"],
        json!({"length": [9], "first": [b't']}),
    );
    check(
        &["samples/measure", ""],
        json!({"length": [0], "first": [0]}),
    );
    // Of texts too only what travels.
    let words = r#"[["no", "no"], ["ab", null], ["no", null], ["", "組子"]]"#;
    let lengths = json!({"lengths": [-1, -1, 2, -1, -1, -1, 0, 6]});
    check(&["samples/measure_all", words], lengths.clone());
    check(&["samples/measure_all", "4", "2", words], lengths);
    let words: Vec<[String; 1]> = (0..20_000)
        .map(|number| ["x".repeat(number % 90)])
        .collect();
    let words = caller.file("words.json", &serde_json::to_vec(&words).unwrap());
    let back = caller.call(&["samples/measure_all", &words]);
    let back: Vec<i64> = serde_json::from_value(back["lengths"].clone()).unwrap();
    assert_eq!(back.len(), 20_000);
    for (number, length) in back.iter().enumerate() {
        let expected = if number % 2 == 1 {
            number as i64 % 90
        } else {
            -1
        };
        assert_eq!(*length, expected, "{number}");
    }
    check(
        &[
            "samples/widths",
            "-1",
            "-300",
            "70000",
            "5000000000",
            "0.5",
            "-2.25",
        ],
        json!({"all": [-1.0, -300.0, 70000.0, 5e9, 0.5, -2.25]}),
    );
    let z = routines::npy_of("<c16", &[2], &[1., 2., 3., -4.]);
    let z = caller.file("z.npy", &z);
    check(
        &["samples/conjugate", &z],
        json!({"c": [[1.0, -2.0], [3.0, 4.0]]}),
    );
    // More than stands beside the words: in files.
    let many: Vec<f64> = (0..100_000).map(f64::from).collect();
    let big = caller.file("big.npy", &npy(&[100_000], &many));
    check(&["samples/sum", &big], json!({"s": [4_999_950_000.0]}));
    let back = caller.call(&["samples/every_other", &big]);
    let back: Vec<f64> = serde_json::from_value(back["x"].clone()).unwrap();
    assert_eq!((back.len(), back[49_999]), (50_000, 199_998.0));
    for durability in ["none", "record", "full", "auto"] {
        let words = ["samples/sum", &x, "--durability", durability];
        check(&words, json!({"s": [15.0]}));
        let words = ["samples/sum", &big, "--durability", durability];
        check(&words, json!({"s": [4_999_950_000.0]}));
    }
}

#[test]
fn a_call_is_cancelled_by_its_caller_or_by_its_number() {
    let caller = Caller::with(&["samples"]);
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[0]));
    let begin = || {
        let call = caller.begin(&["samples/slow", "100000", "10000", &done]);
        caller.routine_pid(&[]);
        call
    };
    let ends = |call: std::process::Child, status: i32| {
        let output = call.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains("was cancelled"), "{said}");
        caller.nothing_is_left();
    };
    let call = begin();
    kill(call.id(), "INT");
    ends(call, 130);
    let call = begin();
    let id = caller.open_call();
    caller.person.ok(["rpc", "cancel", &id]);
    ends(call, 1);
    for (id, expected) in [
        (&id[..], "is over"),
        ("7-7", "7"),
        ("seven", "names no call"),
    ] {
        let output = caller.person.run(["rpc", "cancel", id]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(expected),
            "{said}"
        );
    }
}

#[test]
fn what_cannot_be_called_is_said_and_what_crashes_is_not_tried_for_ever() {
    let caller = Caller::with(&["samples"]);
    let check = |words: &[&str], status: i32, expected: &str| {
        let output = caller.person.run([&["rpc", "call"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    };
    check(
        &["samples/none"],
        1,
        "no routine samples/none is registered",
    );
    check(&["../samples/null"], 1, "no routine");
    check(
        &["samples/sum"],
        2,
        "takes 2 arguments (n, x), and 0 are given",
    );
    check(&["samples/measure", "@x.npy", "1"], 2, "takes 1 arguments");
    for (words, expected) in [
        ("word", "it takes texts, as [\"a\", null]"),
        ("[1]", "1 is there, and it takes a list"),
        ("[[1]]", "1 is there, and it takes a text or null"),
        (r#"[["a"], ["b", "c"]]"#, "different lengths"),
    ] {
        check(&["samples/measure_all", words], 2, expected);
    }
    check(
        &["samples/measure_all", "5", "1", r#"[["a"]]"#],
        1,
        "words: 1 texts are given, and by its sizes it has 2",
    );
    check(
        &["samples/measure_all", r#"[["a"], ["b\u0000"]]"#],
        1,
        "a text has no zero byte",
    );
    check(&["samples/crash", "one"], 2, "is not a number");
    check(&["samples/crash", "99999999999"], 1, "does not fit");
    let x = caller.file("x.npy", &npy(&[3], &[1., 2., 3.]));
    check(
        &["samples/sum", "5", &x],
        1,
        "x: 24 bytes of elements are given",
    );
    check(
        &["samples/crash", "1"],
        1,
        "crashed twice alike: it ended by signal 11",
    );
    check(&["samples/crash", "2"], 1, "signal 6");
    check(&["samples/crash", "3"], 1, "status 3");
    // None of it is left at the site.
    caller.nothing_is_left();
}

#[test]
fn an_idl_file_that_is_wrong_says_where_and_makes_nothing() {
    let caller = Caller::new();
    let idl = caller.person.home.path().join("bad.idl");
    std::fs::write(&idl, "Module m;\nDefine f(IN int n, IN double a[m]) { }\n").unwrap();
    let output = caller.person.run(["rpc", "gen", "--check", "bad.idl"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("line 2, column 32: m is no parameter"),
        "{said}"
    );
    std::fs::write(&idl, "Module m;\nDefine f(IN int n) { no such thing; }\n").unwrap();
    let output = caller.person.run(["rpc", "gen", "bad.idl"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cc -O2") && said.contains("error:"), "{said}");
    let left: Vec<_> = std::fs::read_dir(caller.person.home.path())
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with("m."))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_routine_that_is_killed_computes_again_from_the_arguments_that_were_kept() {
    let caller = Caller::with(&["samples"]);
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[100]));
    let words = ["samples/slow", "200", "10000", &done];
    let call = caller.begin(&words);
    let first = caller.routine_pid(&[]);
    kill(first, "KILL");
    let second = caller.routine_pid(&[first]);
    assert_ne!(first, second);
    // What the first had counted is not counted twice.
    assert_eq!(caller.end(call), json!({"done": [300]}));
    caller.nothing_is_left();
}

#[test]
fn a_site_that_is_killed_loses_no_call_and_what_computes_goes_on() {
    let caller = Caller::with(&["samples"]);
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[0]));
    let words = ["samples/slow", "400", "10000", &done];
    let calls: Vec<_> = (0..3).map(|_| caller.begin(&words)).collect();
    let pids = caller.routine_pids(3, &[]);
    until("three calls are recorded as started", || {
        caller.count_in_log("\"started\"") == 3
    });
    caller.kill_and_start_again();
    for call in calls {
        assert_eq!(caller.end(call), json!({"done": [400]}));
    }
    // Nobody else computed them.
    assert_eq!(caller.count_in_log("\"planned\""), 3);
    assert_eq!(pids.len(), 3);
    caller.nothing_is_left();
}

#[test]
fn a_process_that_is_kept_ends_when_its_site_does_not_come_back() {
    let caller = Caller::new();
    let idl = "Module left; CompileOptions \"-DKUMIKO_IDLE_MS=2000\"; Define null() { }";
    std::fs::write(caller.person.home.path().join("left.idl"), idl).unwrap();
    caller.gen_and_register("left", &[]);
    caller.call(&["left/null"]);
    let pid = caller.routine_pid(&[]);
    caller.person.kill_site();
    let process = std::path::PathBuf::from(format!("/proc/{pid}"));
    until("it has ended", || !process.exists());
}

#[test]
fn a_client_that_is_killed_takes_its_result_later() {
    let caller = Caller::with(&["samples"]);
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[5]));
    let words = ["samples/slow", "100", "10000", &done];
    let mut call = caller.begin(&words);
    caller.routine_pid(&[]);
    call.kill().unwrap();
    call.wait().unwrap();
    let id = caller.open_call();
    let output = caller.person.ok(["--output", "json", "rpc", "attach", &id]);
    let result: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(result, json!({"done": [105]}));
    caller.nothing_is_left();
    // It was taken once.
    let again = caller.person.run(["rpc", "attach", &id]);
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn files_that_a_machine_has_forgotten_are_made_again_from_the_log() {
    let caller = Caller::with(&["samples"]);
    let forget = |folder: &str| {
        let files = std::fs::read_dir(caller.state().join(folder)).unwrap();
        let emptied = |file: std::fs::DirEntry| std::fs::write(file.path(), "");
        let count = files.map(|file| emptied(file.unwrap()).unwrap()).count();
        assert_eq!(count, 1, "files in {folder}");
    };
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[5]));
    let call = caller.begin(&["samples/slow", "100", "20000", &done]);
    let first = caller.routine_pid(&[]);
    caller.kill_and_start_again_after(|| {
        kill(first, "KILL");
        forget("arguments");
    });
    let next = caller.routine_pid(&[first]);
    assert_eq!(caller.end(call), json!({"done": [105]}));
    // Larger ones, which lie in files of their own at the host too; and a result that nobody has fetched.
    let idl = "Module held; Globals { #include <unistd.h> }
        Define twice(IN int n, IN double x[n], OUT double y[n])
        { usleep(1000000); for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }";
    std::fs::write(caller.person.home.path().join("held.idl"), idl).unwrap();
    caller.gen_and_register("held", &[]);
    let many: Vec<f64> = (0..10_000).map(f64::from).collect();
    let many = caller.file("many.npy", &npy(&[10_000], &many));
    let mut call = caller.begin(&["held/twice", &many]);
    let second = caller.routine_pid(&[first, next]);
    call.kill().unwrap();
    call.wait().unwrap();
    caller.kill_and_start_again_after(|| {
        kill(second, "KILL");
        forget("arguments");
    });
    until("there is a result", || {
        caller.count_in_log("\"finished\":{\"out_bytes\":80000}") == 1
    });
    caller.kill_and_start_again_after(|| {
        forget("results");
        // Where it cannot be made the site says so, and begins nothing.
        let results = std::fs::read_dir(caller.state().join("results")).unwrap();
        let result = results.map(|one| one.unwrap().path()).next().unwrap();
        std::fs::remove_file(&result).unwrap();
        std::fs::create_dir(&result).unwrap();
        let refused = caller.person.run(["site", "start"]);
        let said = told(&refused);
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains(result.to_str().unwrap()), "{said}");
        std::fs::remove_dir(&result).unwrap();
    });
    let id = caller.open_call();
    let attach = ["rpc", "attach", &id, "--out", "y=back.npy"];
    caller.person.ok(attach);
    let back = std::fs::read(caller.person.home.path().join("back.npy")).unwrap();
    let bytes = (0..10_000).flat_map(|one| f64::from(2 * one).to_le_bytes());
    assert!(back.ends_with(&bytes.collect::<Vec<u8>>()));
    caller.nothing_is_left();
}

#[test]
#[ignore = "takes most of a minute: `./x test --all`"]
fn bytes_that_nobody_fetches_are_in_the_log_for_a_while_only() {
    let caller = Caller::with(&["samples"]);
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[5]));
    let mut call = caller.begin(&["samples/slow", "100", "20000", &done]);
    let first = caller.routine_pid(&[]);
    call.kill().unwrap();
    call.wait().unwrap();
    until("there is a result", || caller.bytes_in_log() == 2);
    until("the log has none of it", || caller.bytes_in_log() == 0);
    caller.kill_and_start_again_after(|| kill(first, "KILL"));
    let id = caller.open_call();
    let output = caller.person.ok(["--output", "json", "rpc", "attach", &id]);
    let result: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(result, json!({"done": [105]}));
    caller.nothing_is_left();
}

#[test]
fn a_site_that_is_killed_while_arguments_and_results_travel_has_each_block_once() {
    let caller = Caller::with(&["samples"]);
    let many: Vec<f64> = (0..4_000_000).map(f64::from).collect();
    let big = caller.file("big.npy", &npy(&[4_000_000], &many));
    let words = ["samples/every_other", &big, "--out", "x=back.npy"];
    // Blocks arrive: 64 of them.
    let call = caller.begin(&words);
    until("some blocks have arrived", || {
        caller.count_in_log("\"received\"") >= 5
    });
    caller.kill_and_start_again();
    caller.end_text(call);
    let back = std::fs::read(caller.person.home.path().join("back.npy")).unwrap();
    let expected: Vec<u8> = (0..2_000_000)
        .flat_map(|i| (f64::from(2 * i + 1) * 2.).to_le_bytes())
        .collect();
    assert!(back.ends_with(&expected));
    // And on the way back.
    let call = caller.begin(&words);
    until("a second result is there", || {
        caller.count_in_log("\"finished\"") >= 2
    });
    std::fs::remove_file(caller.person.home.path().join("back.npy")).ok();
    caller.kill_and_start_again();
    let output = call.wait_with_output().unwrap();
    if output.status.success() && !caller.person.home.path().join("back.npy").exists() {
        return; // it had all of it before the site was killed
    }
    let back = std::fs::read(caller.person.home.path().join("back.npy")).unwrap();
    assert!(back.ends_with(&expected));
}

#[test]
fn a_call_that_is_not_to_outlive_the_site_is_made_anew_by_its_client() {
    let caller = Caller::with(&["samples"]);
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[1]));
    let slow = ["samples/slow", "150", "10000", &done];
    let call = caller.begin(&[&slow[..], &["--durability", "none"]].concat());
    caller.routine_pid(&[]);
    caller.kill_and_start_again();
    assert_eq!(caller.end(call), json!({"done": [151]}));
    assert_eq!(caller.count_in_log("\"invoked\""), 0);
}

#[test]
fn a_site_that_is_stopped_forgets_no_call_that_began_in_memory() {
    let caller = Caller::with(&["samples"]);
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[1]));
    let call = caller.begin(&[
        "samples/slow",
        "200",
        "10000",
        &done,
        "--durability",
        "auto",
    ]);
    caller.routine_pid(&[]);
    let id = caller.open_call();
    caller.start_again_after(|| {
        caller.person.ok(["site", "stop"]);
    });
    assert_eq!(caller.end(call), json!({"done": [201]}));
    // It has the name that it had.
    caller.person.ok(["rpc", "show", &id]);
    caller.nothing_is_left();
}

#[test]
fn a_call_that_begins_in_memory_is_recorded_when_it_lasts() {
    let caller = Caller::with(&["samples"]);
    let done = caller.file("done.npy", &routines::npy_of_whole(&[1], &[1]));
    let auto = ["--durability", "auto"];
    let slow = ["samples/slow", "200", "10000", &done];
    let call = caller.begin(&[&slow[..], &auto].concat());
    let first = caller.routine_pid(&[]);
    caller.kill_and_start_again();
    assert_eq!(caller.count_in_log("\"invoked\""), 0);
    caller.routine_pid(&[first]);
    until("it is recorded", || {
        caller.count_in_log("\"invoked\"") == 1 && caller.bytes_in_log() == 1
    });
    let id = caller.open_call();
    caller.kill_and_start_again();
    assert_eq!(caller.end(call), json!({"done": [201]}));
    assert_eq!(caller.count_in_log("\"planned\""), 1, "it went on");
    caller.nothing_is_left();
    let record = caller.person.ok(["rpc", "show", &id]);
    assert!(record.contains("its caller has the outcome"), "{record}");
}

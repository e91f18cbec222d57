//! A call finds a site that computes its routine by what an index tells, and the next one where that is gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compiled;
#[allow(dead_code)] // what other scenarios use of it
#[path = "placement/grid.rs"]
mod grid;
mod routines;

use grid::Grid;
use kumiko_e2e::{Person, finish, kill, told, until};
use routines::{Caller, npy, python_of};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn call(grid: &Grid, words: &[&str]) -> Output {
    let index = &grid.index.address;
    let all = ["--output", "lines", "rpc", "call", "--durability", "full"];
    grid.me
        .run(all.iter().chain(&["--index", index]).chain(words))
}

/// In Python, in C: the configured site is the small one, and the index is asked for a better one.
fn programs_find_it_too(grid: &Grid, large: &Caller, small: &Caller) {
    let contact = small.person.kumiko_home().join("contact.toml");
    let contact = std::fs::read_to_string(contact).unwrap();
    let with = |index: &str| {
        // Their sites record what they compute, by which they are counted.
        let text = format!("durability = \"full\"\n{contact}index = \"{index}\"\n");
        std::fs::write(grid.me.kumiko_home().join("contact.toml"), text).unwrap();
    };
    let counts = || [large, small].map(|site| site.count_in_log("\"planned\""));
    compiled::compile(
        small,
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled/found.c"),
        "found",
    );
    let program = small.person.home.path().join("found");
    let check = |command: &mut Command, expected: &str, more: [i64; 2]| {
        let before = counts();
        // Nothing was called from here before: sites stand as the index has them.
        let cache = grid.me.home.path().join("no-cache");
        let _ = std::fs::remove_dir_all(&cache);
        let output = finish(command.env("XDG_CACHE_HOME", &cache));
        let said = told(&output);
        assert!(output.status.success() && said.contains(expected), "{said}");
        let after = counts();
        assert_eq!([after[0] - before[0], after[1] - before[1]], more, "{said}");
    };
    with(&grid.index.address);
    let in_c = || {
        let line = format!("echo one | {}", program.display());
        grid.me.program("sh", ["-c", &line])
    };
    check(&mut in_c(), "sum 7\n", [1, 0]);
    let script = "import kumiko, sys\nx = __import__('array').array('d', [1, 2, 4])\n";
    let in_python = |line: &str| {
        let script = format!("{script}print('sum', {line})");
        python_of(&grid.me, &["-c", &script])
    };
    check(
        &mut in_python("kumiko.rpc('samples/sum')(x)"),
        "sum 7.0\n",
        [1, 0],
    );
    let smallest = "kumiko.find('samples/sum', rank='slots_free')(x)";
    check(&mut in_python(smallest), "sum 7.0\n", [0, 1]);
    for (line, expected) in [
        (
            "kumiko.find('samples/sum', 'slots >= 64')",
            "it does not meet slots >= 64",
        ),
        ("kumiko.find('samples/none')", "no site of "),
        (
            "kumiko.find('samples/sum', 'slots >')",
            "what sites are to be like",
        ),
    ] {
        let output = finish(&mut in_python(line));
        let said = told(&output);
        assert!(
            !output.status.success() && said.contains(expected),
            "{said}"
        );
    }
    // No index answers: the configured site.
    with("localhost:1");
    check(&mut in_c(), "the configured site is taken", [0, 1]);
    check(
        &mut in_python("kumiko.rpc('samples/sum')(x)"),
        "the configured site is taken",
        [0, 1],
    );
}

fn contact_port(site: &Person) -> u16 {
    let contact = std::fs::read_to_string(site.kumiko_home().join("contact.toml")).unwrap();
    let port = contact
        .lines()
        .find_map(|line| line.strip_prefix("port = "));
    port.unwrap().parse().unwrap()
}

/// By any process of this machine (proc(5), /proc/net/tcp: 01 is established, 08 that the other end has closed).
fn is_connected_to(port: u16) -> bool {
    let remote = format!(":{port:04X}");
    let is_open = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(2).is_some_and(|to| to.ends_with(&remote))
            && matches!(fields.get(3), Some(&"01" | &"08"))
    };
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        table.lines().any(is_open)
    })
}

/// As found.c.
const IN_PYTHON: &str = "
import kumiko, sys
from array import array
total, slow = kumiko.rpc('samples/sum'), kumiko.rpc('samples/slow')
for line in sys.stdin:
    if line == 'one\\n':
        s = total(array('d', [1, 2, 4]))
    else:
        begun = [slow.submit(10, 100000, array('q', [0])) for _ in range(6)]
        s = sum(one.result()[0] for one in begun)
    print('sum', int(s), flush=True)
";

/// A program that answers a line with a line, and what its sites computed for that.
struct Program<'a> {
    child: Child,
    sites: [&'a Caller; 2],
}

impl Program<'_> {
    fn begin<'a>(command: &mut Command, sites: [&'a Caller; 2]) -> Program<'a> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        Program { child, sites }
    }

    fn counts(&self) -> [i64; 2] {
        self.sites.map(|site| site.count_in_log("\"planned\""))
    }

    fn ask(&mut self, line: &str, expected: &str) -> [i64; 2] {
        let before = self.counts();
        let to = self.child.stdin.as_mut().unwrap();
        to.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut said = Vec::new();
        let from = self.child.stdout.as_mut().unwrap();
        while said.last() != Some(&b'\n') {
            let mut byte = [0];
            from.read_exact(&mut byte).expect("it answers");
            said.extend(byte);
        }
        assert_eq!(String::from_utf8_lossy(&said), format!("{expected}\n"));
        let after = self.counts();
        [after[0] - before[0], after[1] - before[1]]
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn each_call_of_a_program_has_the_best_site_and_the_next_when_that_is_gone() {
    let grid = Grid::new();
    let site = |name, capacity| Caller {
        person: grid.site(name, capacity),
    };
    let (small, large) = (
        site("small", "cpu_percent = 100"),
        site("large", "cpu_percent = 400"),
    );
    for site in [&small, &large] {
        site.make(&["samples"], &[]);
    }
    grid.tells("routine = samples/slow", 2);
    let contact = small.person.kumiko_home().join("contact.toml");
    let contact = std::fs::read_to_string(contact).unwrap();
    let text = format!(
        "durability = \"full\"\n{contact}index = \"{}\"\n",
        grid.index.address
    );
    std::fs::write(grid.me.kumiko_home().join("contact.toml"), text).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled/found.c");
    compiled::compile(&small, &source, "found");
    let program = small.person.home.path().join("found");
    let none: [&str; 0] = [];
    let mut in_c = grid.me.program(program.to_str().unwrap(), none);
    let mut in_python = python_of(&grid.me, &["-c", IN_PYTHON]);
    // What one has measured the other does not know.
    in_python.env("XDG_CACHE_HOME", grid.me.home.path().join("cache"));
    let mut programs = [&mut in_c, &mut in_python].map(|one| Program::begin(one, [&large, &small]));
    for program in &mut programs {
        assert_eq!(program.ask("one", "sum 7"), [1, 0]);
        // They are there at the same time: no site has them all.
        let computed = program.ask("many", "sum 60");
        assert!(computed.iter().all(|calls| *calls > 0), "{computed:?}");
        assert_eq!(computed.iter().sum::<i64>(), 6);
    }
    // The index still tells of it. Programs see that their sessions are cut: what was said to a dead site may have begun.
    let port = contact_port(&large.person);
    large.person.kill_site();
    until("nobody is connected to it", || !is_connected_to(port));
    for program in &mut programs {
        for _ in 0..2 {
            assert_eq!(program.ask("one", "sum 7"), [0, 1]);
        }
        assert_eq!(program.ask("many", "sum 60"), [0, 6]);
    }
    for program in programs {
        program.end();
    }
}

/// A site that stands still while its arguments come: the next one has them, from where they are; nobody, if the caller has interrupted it.
fn arguments_go_elsewhere(grid: &Grid, from: &Caller, to: &Caller, is_wanted: bool) {
    const ELEMENTS: u64 = 40_000_000;
    let path = grid.me.home.path().join("many.npy");
    let head = npy(&[ELEMENTS], &[]);
    std::fs::write(&path, &head).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(head.len() as u64 + 8 * ELEMENTS).unwrap();
    let computed = [from, to].map(|site| site.count_in_log("\"planned\""));
    let files = || {
        let entries = std::fs::read_dir(from.state().join("arguments"));
        let entries = entries.into_iter().flatten().flatten();
        entries.filter_map(|one| Some((one.path(), one.metadata().ok()?.len())))
    };
    // A site that was not heard keeps what it has until the call expires.
    let before: Vec<_> = files().map(|(path, _)| path).collect();
    let index = &grid.index.address;
    let words = [
        "--output",
        "lines",
        "rpc",
        "call",
        "--index",
        index,
        "--where",
        "",
        "--rank",
        "slots_free desc",
        "samples/sum",
        "@many.npy",
    ];
    let mut command = grid.me.kumiko(words);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // That it failed before is another matter: three times, and it is asked last.
    let _ = std::fs::remove_dir_all(grid.me.kumiko_home().join("rpc/failing"));
    let mut call = command.spawn().unwrap();
    let mut has_ended = false;
    until("some of the arguments are there", || {
        has_ended = call.try_wait().unwrap().is_some();
        has_ended || files().any(|(path, bytes)| bytes > 1 << 20 && !before.contains(&path))
    });
    if has_ended {
        panic!("{}", told(&call.wait_with_output().unwrap()));
    }
    kill(from.person.site_pid(), "STOP");
    if !is_wanted {
        kill(call.id(), "INT");
    }
    let output = call.wait_with_output().unwrap();
    kill(from.person.site_pid(), "CONT");
    let said = told(&output);
    let now = [from, to].map(|site| site.count_in_log("\"planned\""));
    assert_eq!(
        now,
        [computed[0], computed[1] + i64::from(is_wanted)],
        "{said}"
    );
    let (status, result) = if is_wanted {
        (0, "{\"s\":[0.0]}\n")
    } else {
        (130, "")
    };
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), result, "{said}");
}

#[test]
fn a_call_goes_to_the_best_site_that_has_its_routine_and_to_the_next_when_that_is_gone() {
    let grid = Grid::new();
    let small = Caller {
        person: grid.site("small", "cpu_percent = 100"),
    };
    let large = Caller {
        person: grid.site("large", "cpu_percent = 400"),
    };
    let x = npy(&[3], &[1., 2., 4.]);
    let home = grid.me.home.path().join("x.npy");
    std::fs::write(home, x).unwrap();
    let sum = ["--where", "", "samples/sum", "@x.npy"];

    let nobody = call(&grid, &sum);
    assert!(!nobody.status.success());
    let said = told(&nobody);
    assert!(said.contains("computes samples/sum"), "{said}");

    // The better one has not the routine.
    small.make(&["samples"], &[]);
    grid.tells("routine = samples/sum", 1);
    let output = call(&grid, &sum);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"s\":[7.0]}\n");

    large.make(&["samples"], &[]);
    grid.tells("routine = samples/sum", 2);
    programs_find_it_too(&grid, &large, &small);
    let wanting = call(&grid, &["--where", "slots >= 64", "samples/sum", "@x.npy"]);
    let said = told(&wanting);
    for words in [
        "no site of ",
        "large (localhost:",
        "it does not meet slots >= 64",
        "small (localhost:",
    ] {
        assert!(said.contains(words), "{words:?} in {said}");
    }
    // Arguments that cannot be are told at once, and by one site.
    let wrong = call(&grid, &["--where", "", "samples/sum", "5", "@x.npy"]);
    let said = told(&wrong);
    assert!(
        !wrong.status.success() && !said.contains("no site of"),
        "{said}"
    );
    // The better one takes no calls, which the index may not tell yet: it says so when it is asked, and the next computes.
    let invoked = large.count_in_log("\"invoked\"");
    let draining = large.person.kumiko_home().join("run/draining");
    std::fs::write(&draining, "").unwrap();
    for _ in 0..2 {
        let output = call(&grid, &sum);
        let said = told(&output);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "{\"s\":[7.0]}\n",
            "{said}"
        );
    }
    assert_eq!(large.count_in_log("\"invoked\""), invoked);
    std::fs::remove_file(draining).unwrap();
    grid.tells("routine = samples/sum and not draining = yes", 2);
    for is_wanted in [true, false] {
        arguments_go_elsewhere(&grid, &large, &small, is_wanted);
    }
    // The index still tells of the larger one: it is only not there any more.
    large.person.kill_site();
    let output = call(&grid, &sum);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "{\"s\":[7.0]}\n",
        "{}",
        told(&output)
    );
}

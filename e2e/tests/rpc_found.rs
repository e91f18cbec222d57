//! A call finds a site that computes its routine by what an index tells, and the next one where that is gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // what other scenarios use of it
#[path = "placement/grid.rs"]
mod grid;
mod routines;

use grid::Grid;
use kumiko_e2e::{kill, told, until};
use routines::{Caller, npy};
use std::fs::File;
use std::process::{Output, Stdio};

fn call(grid: &Grid, words: &[&str]) -> Output {
    let index = &grid.index.address;
    let all = ["--output", "lines", "rpc", "call", "--index", index];
    grid.me.run(all.iter().chain(words))
}

/// A site that stands still while its arguments come: the next one has them, from where they are.
fn arguments_go_elsewhere(grid: &Grid, from: &Caller, to: &Caller) {
    const ELEMENTS: u64 = 40_000_000;
    let path = grid.me.home.path().join("many.npy");
    let head = npy(&[ELEMENTS], &[]);
    std::fs::write(&path, &head).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(head.len() as u64 + 8 * ELEMENTS).unwrap();
    let computed = to.count_in_log("\"planned\"");
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
    let call = command.spawn().unwrap();
    let arguments = from.state().join("arguments");
    until("some of the arguments are there", || {
        let files = std::fs::read_dir(&arguments)
            .into_iter()
            .flatten()
            .flatten();
        files
            .flat_map(|one| one.metadata())
            .any(|meta| meta.len() > 1 << 20)
    });
    kill(from.person.site_pid(), "STOP");
    let output = call.wait_with_output().unwrap();
    kill(from.person.site_pid(), "CONT");
    let said = told(&output);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "{\"s\":[0.0]}\n",
        "{said}"
    );
    assert_eq!(to.count_in_log("\"planned\""), computed + 1);
    assert_eq!(from.count_in_log("\"planned\""), 0);
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
    assert_eq!(large.count_in_log("\"invoked\""), 0);
    std::fs::remove_file(draining).unwrap();
    grid.tells("routine = samples/sum and not draining = yes", 2);
    arguments_go_elsewhere(&grid, &large, &small);
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

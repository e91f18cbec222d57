//! One MPI program over two sites: MPICH's launcher runs here, its ranks in the sandbox of each site (spec/jobs/mpi.md, N30 to N34).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)] // what other scenarios use of it
#[path = "placement/grid.rs"]
mod grid;

use grid::{Grid, jobs, port};
use kumiko_e2e::{Person, collect, finish, has_program, kill, skip, told, until};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// MPICH's ranks wait at full speed: tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// The grid, and the program in a folder of the person's. None: MPICH is not here, which is said.
fn prepared(test: &str) -> Option<(MutexGuard<'static, ()>, Grid)> {
    if !has_program("mpicc.mpich") || !has_program("mpiexec.mpich") {
        skip(test, "mpich and libmpich-dev");
        return None;
    }
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let grid = Grid::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/sites.c");
    let work = grid.me.home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut compiler = Command::new("mpicc.mpich");
    compiler.args(["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"]);
    let made = finish(compiler.arg(work.join("sites")).arg(source));
    assert!(made.status.success(), "{}", told(&made));
    Some((turn, grid))
}

struct Two {
    _turn: MutexGuard<'static, ()>,
    grid: Grid,
    sites: [Person; 2],
}

impl Two {
    fn new(test: &str) -> Option<Two> {
        let (turn, grid) = prepared(test)?;
        let sites = [grid.silent_site(), grid.silent_site()];
        Some(Two {
            _turn: turn,
            grid,
            sites,
        })
    }

    fn across(&self, ranks: [u32; 2]) -> String {
        let [a, b] =
            [0, 1].map(|site| format!("localhost:{}:{}", port(&self.sites[site]), ranks[site]));
        format!("{a},{b}")
    }

    fn command(&self, ranks: [u32; 2], words: &[&str]) -> Command {
        let across = self.across(ranks);
        let line = [
            "job", "run", "--across", &across, "--dir", "work", "--", "./sites",
        ];
        self.grid.me.kumiko(line.iter().chain(words))
    }

    fn begin(&self, words: &[&str]) -> Child {
        let mut command = self.command([1, 1], words);
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
        piped.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Each site had one, and has none any more.
    #[track_caller]
    fn nothing_is_left(&self) {
        for site in &self.sites {
            until("the site's jobs are over", || {
                let list = site.ok(["--output", "lines", "job", "list", "--live"]);
                list.is_empty()
            });
        }
    }

    fn until_both_run(&self) {
        for site in &self.sites {
            until("its ranks run", || {
                let list = site.ok(["--output", "lines", "job", "list", "--live"]);
                list.contains("\"active\"")
            });
        }
    }
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn ranks_of_two_sites_are_one_program() {
    let Some(two) = Two::new("ranks_of_two_sites_are_one_program") else {
        return;
    };
    let ran = finish(&mut two.command([1, 2], &[]));
    assert!(ran.status.success(), "{}", told(&ran));
    let line = |rank: u32, near: u32| {
        format!("rank {rank} of 3, {near} near: sum 6, ring right, count {near}")
    };
    assert_eq!(
        lines(&ran),
        [line(0, 1), line(1, 2), line(2, 2)],
        "{}",
        told(&ran)
    );
    two.nothing_is_left();
}

#[test]
fn ranks_go_to_few_sites_that_have_room_and_are_there() {
    let test = "ranks_go_to_few_sites_that_have_room_and_are_there";
    let Some((_turn, grid)) = prepared(test) else {
        return;
    };
    let [a, b] = [("a", 1), ("b", 2)].map(|(name, slots)| {
        let site = grid.site(name, &format!("cpu_percent = {slots}00"));
        grid.tells(&format!("site = {name} and slots_host = {slots}"), 1);
        site
    });
    // One that is told of with room for all, and is not there.
    let _teller = grid.tell_of(&[("ghost", "localhost:1", 9)]);
    grid.tells("site = ghost and slots_host = 9", 1);
    let across = |ranks: &str, more: &[&str]| {
        let index = &grid.index.address;
        let line = ["job", "run", "--index", index, "--across", ranks];
        let line = line.iter().chain(more);
        grid.me.run(line.chain(&["--dir", "work", "--", "./sites"]))
    };
    let explained = |site: &Person, all: &[&str]| {
        let story = site.ok(["job", "explain", "last"]);
        for words in all {
            assert!(story.contains(words), "{words:?} in {story}");
        }
    };
    let shown = across("2", &["--where", "", "--dry-run"]);
    let text = told(&shown);
    assert!(shown.status.success(), "{text}");
    assert!(text.contains("ranks 2; transfer not told"), "{text}");
    assert!([&a, &b].iter().all(|site| jobs(site) == 0));

    let ran = across("2", &["--where", "site"]);
    let line = |rank: u32, ranks: u32, near: u32| {
        let sum = ranks * (ranks + 1) / 2;
        format!("rank {rank} of {ranks}, {near} near: sum {sum}, ring right, count {near}")
    };
    let expected = [line(0, 2, 2), line(1, 2, 2)];
    assert_eq!(lines(&ran), expected, "{}", told(&ran));
    let ghost = "ghost (localhost:1) not reached: ";
    explained(
        &b,
        &[
            "where site, from what localhost:",
            ") chosen: ranks 2; transfer not told; slots_free 2; waiting 0; latency 0.",
            ") not asked: room for 1; transfer not told; slots_free 1; waiting 0; latency 0.",
            ghost,
        ],
    );

    grid.tells("site = b and slots_host = 2", 1);
    let ran = across("3", &["--where", ""]);
    let expected = [line(0, 3, 2), line(1, 3, 2), line(2, 3, 1)];
    assert_eq!(lines(&ran), expected, "{}", told(&ran));
    let text = told(&ran);
    assert!(
        text.contains("kumiko: ranks 0 to 1 at b (localhost:"),
        "{text}"
    );
    let (two, one) = (" ranks 2; transfer", " ranks 1; transfer");
    explained(
        &b,
        &[
            &format!(") chosen:{two}"),
            &format!(") chosen too:{one}"),
            ghost,
        ],
    );
    explained(
        &a,
        &[
            &format!(") chosen too:{two}"),
            &format!(") chosen:{one}"),
            ghost,
        ],
    );

    for (ranks, more, status, words) in [
        (
            "4",
            &["--where", ""][..],
            125,
            "have room for 3 of 4 ranks now",
        ),
        ("4", &["--where", ""], 125, ghost),
        ("3", &[], 2, "--across 3 has no sites"),
        ("a:3", &["--where", ""], 2, "say how many ranks there are"),
    ] {
        grid.tells("slots_host and running = 0", 2);
        let refused = across(ranks, more);
        let text = told(&refused);
        assert_eq!(refused.status.code(), Some(status), "{text}");
        assert!(
            text.replace("): ", ") ").contains(words),
            "{words:?} in {text}"
        );
    }
}

#[test]
fn a_rank_that_fails_ends_all_of_them() {
    let Some(two) = Two::new("a_rank_that_fails_ends_all_of_them") else {
        return;
    };
    let ran = collect(two.begin(&["fail"]));
    assert_eq!(ran.status.code(), Some(3), "{}", told(&ran));
    two.nothing_is_left();
}

#[test]
fn told_to_end_it_ends_the_ranks_at_both_sites() {
    let Some(two) = Two::new("told_to_end_it_ends_the_ranks_at_both_sites") else {
        return;
    };
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let command = two.begin(&["wait"]);
        two.until_both_run();
        kill(command.id(), signal);
        let ended = collect(command);
        assert_eq!(ended.status.code(), Some(status), "{}", told(&ended));
        two.nothing_is_left();
    }
}

#[test]
fn ranks_whose_launcher_is_killed_end() {
    let Some(two) = Two::new("ranks_whose_launcher_is_killed_end") else {
        return;
    };
    let command = two.begin(&["wait"]);
    two.until_both_run();
    let children = format!("/proc/{0}/task/{0}/children", command.id());
    let mut launcher = String::new();
    until("the launcher is there", || {
        // Of any thread: what a runtime starts is its main thread's here.
        launcher = std::fs::read_to_string(&children).unwrap_or_default();
        !launcher.is_empty()
    });
    kill(launcher.trim().parse().unwrap(), "KILL");
    let ended = collect(command);
    assert_eq!(ended.status.code(), Some(137), "{}", told(&ended));
    two.nothing_is_left();
}

#[test]
fn what_cannot_be_is_said_and_nothing_is_left() {
    let Some(two) = Two::new("what_cannot_be_is_said_and_nothing_is_left") else {
        return;
    };
    let run = |across: &str, more: &[&str]| {
        let line = ["job", "run", "--across", across, "--dir", "work"];
        let line = line.iter().chain(more).chain(&["--", "./sites"]);
        two.grid.me.run(line)
    };
    let check = |output: Output, status: i32, words: &str| {
        let said = told(&output);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(words), "{said}");
        two.nothing_is_left();
    };
    let across = two.across([1, 1]);
    check(run("localhost", &[]), 2, "\"localhost\" is not SITE:RANKS");
    check(run(&across, &["--mpi"]), 2, "leave out --count and --mpi");
    check(run(&across, &["-n", "3"]), 2, "leave out --count and --mpi");
    // The other site's ranks end.
    let [there, _] = across.split(',').collect::<Vec<_>>()[..] else {
        panic!("{across}");
    };
    check(
        run(&format!("{there},localhost:1:1"), &[]),
        125,
        "localhost:1: ",
    );
    let policy = two.grid.me.file("none.toml", "network = \"none\"\n");
    let policy = policy.to_str().unwrap();
    check(
        run(&across, &["--policy", policy]),
        125,
        "the policy leaves the job no network",
    );
}

#[test]
fn ranks_go_on_though_their_site_is_killed() {
    let Some(two) = Two::new("ranks_go_on_though_their_site_is_killed") else {
        return;
    };
    let command = two.begin(&["steps"]);
    two.until_both_run();
    let [site, _] = &two.sites;
    let address = format!("127.0.0.1:{}", port(site));
    site.kill_site();
    site.ok(["site", "start", "--listen", &address]);
    let ended = collect(command);
    assert!(ended.status.success(), "{}", told(&ended));
    let steps = lines(&ended);
    let steps: Vec<&String> = steps
        .iter()
        .filter(|line| line.starts_with("step"))
        .collect();
    assert_eq!(steps.len(), 30, "{}", told(&ended));
    two.nothing_is_left();
}

//! `+(&...)(&...)`: jobs at three sites begin together or not at all, whoever fails or is killed before
//! (spec/jobs/together.md).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)] // what other scenarios use of it
#[path = "placement/grid.rs"]
mod grid;

use grid::{Grid, port};
use kumiko_e2e::adversity::refused;
use kumiko_e2e::{Person, collect, kill, runner_of, told, until};
use serde_json::Value;
use std::process::{Child, Stdio};

/// Three sites; jobs of the third wait while it is full.
struct Three {
    grid: Grid,
    sites: [Person; 3],
}

impl Three {
    fn new() -> Three {
        let grid = Grid::new();
        let sites = [
            grid.silent_site(),
            grid.silent_site(),
            grid.start(None, "cpu_percent = 100"),
        ];
        Three { grid, sites }
    }

    fn contact(&self, site: usize) -> String {
        format!("localhost:{}", port(&self.sites[site]))
    }

    /// A multirequest: for each part a site and what is said besides.
    fn request(&self, parts: &[(usize, &str)]) -> String {
        let part = |(site, more): &(usize, &str)| {
            format!("(&(resourceManagerContact={}){more})", self.contact(*site))
        };
        format!("+{}", parts.iter().map(part).collect::<String>())
    }

    /// The third takes nothing more until this job ends.
    fn fill(&self) -> String {
        let words = ["job", "submit", "--cpus", "1", "--", "sleep", "1000"];
        self.sites[2].ok(words).trim().to_owned()
    }

    fn submitting(&self, rsl: &str) -> Child {
        let words = ["job", "submit", "--cpus", "1", "--rsl", rsl];
        let mut command = self.grid.me.kumiko(words);
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
        piped.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Two are held, and the third waits for room.
    fn until_two_are_held(&self) {
        until("two subjobs are held", || {
            let held = |site: &Person| view(site, "last").is_some_and(|view| view["held"] == true);
            held(&self.sites[0]) && held(&self.sites[1])
        });
        until("the third site has its subjob", || {
            jobs(&self.sites[2]) == 2
        });
    }

    /// None has begun, and all are over.
    fn nothing_ran(&self) -> [Vec<String>; 3] {
        [0, 1, 2].map(|site| {
            let person = &self.sites[site];
            until("it is over", || {
                let view = view(person, "last");
                view.is_some_and(|view| !view["outcome"].is_null())
            });
            let kinds: Vec<String> = events(person, "last")
                .iter()
                .map(|event| event["kind"].as_str().unwrap().to_owned())
                .collect();
            assert!(!kinds.contains(&"started".to_owned()), "{site}: {kinds:?}");
            kinds
        })
    }
}

fn jobs(site: &Person) -> usize {
    grid::jobs(site)
}

fn view(site: &Person, job: &str) -> Option<Value> {
    let output = site.run(["--output", "json", "job", "show", job]);
    let views: Value = serde_json::from_slice(&output.stdout).ok()?;
    views.get(0).cloned()
}

fn events(site: &Person, job: &str) -> Vec<Value> {
    let lines = site.ok(["--output", "lines", "job", "watch", job]);
    let event = |line: &str| serde_json::from_str(line).unwrap();
    lines.lines().map(event).collect()
}

/// When the first event of this kind happened.
fn at_ms(events: &[Value], kind: &str) -> u64 {
    let found = events.iter().find(|event| event["kind"] == kind);
    let found = found.unwrap_or_else(|| panic!("no {kind} in {events:?}"));
    found["at_ms"].as_u64().unwrap()
}

#[test]
fn jobs_at_three_sites_begin_when_the_last_is_ready_and_are_one_to_whoever_asks() {
    let three = Three::new();
    let full = three.fill();
    let words = "(executable=/bin/sh)(arguments=-c \"echo $KUMIKO_SUBJOB of $KUMIKO_SUBJOBS; exit $KUMIKO_SUBJOB\")";
    let alone = format!(
        "(subjobCommsType=independent)(environment=(KUMIKO_SUBJOB 2)(KUMIKO_SUBJOBS x)){words}"
    );
    let rsl = three.request(&[(0, words), (1, words), (2, &alone)]);
    let running = three
        .grid
        .me
        .kumiko(["job", "run", "--cpus", "1", "--rsl", &rsl]);
    let running = { running }
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    three.until_two_are_held();
    let shown = three.sites[0].ok(["job", "explain", "last"]);
    assert!(
        shown.contains("it is subjob 0 of 3 of the request"),
        "{shown}"
    );
    assert!(shown.contains("Attempt 1 is held"), "{shown}");
    three.sites[2].ok(["job", "cancel", &full, "--grace", "0"]);

    let ran = collect(running);
    let mut lines: Vec<String> = String::from_utf8_lossy(&ran.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 3", "1 of 3", "2 of x"], "{}", told(&ran));
    assert_eq!(ran.status.code(), Some(1), "{}", told(&ran));
    let each = [0, 1, 2].map(|site| events(&three.sites[site], "last"));
    let held = each.iter().map(|events| at_ms(events, "held")).max();
    let started = each.iter().map(|events| at_ms(events, "started")).min();
    assert!(held <= started, "{each:?}");

    // Whoever knows one knows all.
    let sleep = "(executable=/bin/sleep)(arguments=1000)(label=one)";
    let rsl = three.request(&[(0, sleep), (1, sleep), (2, sleep)]);
    let me = &three.grid.me;
    let there = me.ok(["--output", "json", "job", "submit", "--rsl", &rsl]);
    let there: Value = serde_json::from_str(&there).unwrap();
    assert_eq!(there[1]["contact"], three.contact(1));
    assert_eq!(there[2]["label"], "one");
    let (at, job) = (three.contact(1), there[1]["job"].to_string());
    let one = ["--whole", "--site", &at, &job];
    let show = ["--output", "json", "job", "show"];
    let whole = me.ok(show.iter().chain(&one));
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let states: Vec<&Value> = (0..3).map(|place| &whole[place]["state"]).collect();
    assert_eq!(states, ["active", "active", "active"], "{whole}");
    me.ok(["job", "cancel", "--grace", "0"].iter().chain(&one));
    let waited = me.run(["job", "wait"].iter().chain(&one));
    assert_eq!(waited.status.code(), Some(125), "{}", told(&waited));
    for site in &three.sites {
        assert_eq!(view(site, "last").unwrap()["state"], "cancelled");
    }
}

#[test]
fn one_that_fails_inside_the_barrier_frees_all() {
    let three = Three::new();
    three.fill();
    let sleep = "(executable=/bin/sleep)(arguments=1000)";
    let rsl = three.request(&[(0, sleep), (1, sleep), (2, sleep)]);
    let submitting = three.submitting(&rsl);
    three.until_two_are_held();
    // The runner of the second is killed while it holds its attempt.
    let spools = three.sites[1].kumiko_home().join("state/spool");
    let id = view(&three.sites[1], "last").unwrap()["id"].to_string();
    let runner = runner_of(&spools.join(format!("{id}.1")));
    kill(runner, "KILL");
    let failed = collect(submitting);
    refused(
        &failed,
        1,
        &["nothing was started: subjob 1 ended before its program began"],
    );
    three.nothing_ran();
    assert_eq!(view(&three.sites[0], "last").unwrap()["state"], "cancelled");
    assert_eq!(view(&three.sites[2], "last").unwrap()["state"], "cancelled");

    // One that would not have begun is known before any is released.
    let rsl = three.request(&[(0, sleep), (1, "(executable=/no/such/program)")]);
    let failed = three.grid.me.run(["job", "run", "--rsl", &rsl]);
    assert_eq!(failed.status.code(), Some(125), "{}", told(&failed));
    assert!(
        told(&failed).contains("/no/such/program"),
        "{}",
        told(&failed)
    );
    until("the other is freed", || {
        view(&three.sites[0], "last").is_some_and(|view| view["state"] == "cancelled")
    });
    let kinds = events(&three.sites[0], "last");
    assert!(
        !kinds.iter().any(|event| event["kind"] == "started"),
        "{kinds:?}"
    );

    // Loose ones are left out: one that cannot begin, one whose site is not there.
    let parts = three.request(&[
        (0, "(executable=/bin/true)"),
        (
            1,
            "(executable=/no/such/program)(subjobStartType=loose-barrier)",
        ),
    ]);
    let gone = "(&(resourceManagerContact=\"localhost:1\")(executable=/bin/true)(subjobStartType=no-barrier))";
    let rsl = format!("{parts}{gone}");
    let ran = three.grid.me.run(["job", "run", "--rsl", &rsl]);
    assert!(ran.status.success(), "{}", told(&ran));
    for left_out in ["subjob 1 (localhost:", "subjob 2 (localhost:1) is left out"] {
        assert!(told(&ran).contains(left_out), "{}", told(&ran));
    }
}

#[test]
fn a_client_that_is_killed_inside_the_barrier_holds_nothing_for_long() {
    let three = Three::new();
    three.fill();
    let sleep = "(executable=/bin/sleep)(arguments=1000)";
    let rsl = three.request(&[(0, sleep), (1, sleep), (2, sleep)]);
    let submitting = three.submitting(&rsl);
    three.until_two_are_held();
    // A site that is started anew holds on what it held.
    three.sites[1].kill_site();
    three.sites[1].ok(["site", "start"]);
    kill(submitting.id(), "KILL");
    collect(submitting);
    for kinds in three.nothing_ran() {
        assert!(kinds.contains(&"unattended".to_owned()), "{kinds:?}");
    }
    let story = three.sites[0].ok(["job", "explain", "last"]);
    assert!(story.contains("was heard of for 10 s"), "{story}");
}

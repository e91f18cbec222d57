//! `kumiko job submit --where`: the best of three sites is picked, the next where it refuses, and all of it is explained; a
//! site that is cut off while it is asked has the job once or is named (spec/jobs/placement.md).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_macros, unused_imports)] // what other scenarios use of it
mod engines;
#[path = "placement/grid.rs"]
mod grid;

use grid::{Grid, Passes, Proxy, REQUEST_BYTES, jobs, port};
use kumiko_e2e::adversity::refused;
use kumiko_e2e::{Person, collect, told, until};
use std::process::Stdio;

fn explain(site: &Person, job: &str) -> String {
    site.ok(["job", "explain", job])
}

#[test]
fn the_best_site_is_picked_the_next_where_it_refuses_and_all_is_explained() {
    let grid = Grid::new();
    let a = grid.site("a", "cpu_percent = 100");
    let b = grid.site("b", "cpu_percent = 400");
    let c = grid.site("c", "cpu_percent = 200, processes = 100");
    let contact = |site: &Person| format!("localhost:{}", port(site));
    grid.tells("contact and slots_free", 3);

    // What would be done, and nothing is.
    let output = grid.submit(&["--where", "os = Linux", "--dry-run", "--", "true"]);
    let shown = told(&output);
    let place = |name: &str| {
        shown
            .find(&format!("\n{name}  "))
            .unwrap_or_else(|| panic!("{shown}"))
    };
    assert!(
        place("b") < place("c") && place("c") < place("a"),
        "{shown}"
    );
    assert!(shown.contains("slots_free 4; waiting 0"), "{shown}");
    assert_eq!([&a, &b, &c].map(jobs), [0, 0, 0]);

    // Room decides, and what is left of it as soon as it is told.
    let words = ["--where", "cpus >= 1", "--cpus", "4", "--", "sleep", "1000"];
    let (site, at, first) = grid.placed(&words);
    assert_eq!((site.as_str(), &at), ("b", &contact(&b)));
    let story = explain(&b, &first);
    for words in [
        "this site was chosen by who submitted it, where cpus >= 1, from what localhost:",
        "1. b (localhost:",
        "chosen: slots_free 4; waiting 0",
        "2. c (localhost:",
        "not asked: slots_free 2",
        "it would wait, for want of reserve_cpus >= 4",
    ] {
        assert!(story.contains(words), "{words:?} in {story}");
    }
    grid.tells("site = b and slots_free = 0 and reserve_cpus = 0", 1);
    assert_eq!(grid.placed(&["--where", "", "--", "true"]).0, "c");
    assert_eq!(
        grid.placed(&["--where", "", "--rank", "site", "--", "true"])
            .0,
        "a"
    );
    b.ok(["job", "cancel", &first, "--grace", "0"]);
    grid.tells("site = b and slots_free = 4", 1);

    // Refused for want of what only c has; then for its policy.
    let words = ["--where", "", "--reserve", "processes=5", "--", "true"];
    let (site, _, job) = grid.placed(&words);
    assert_eq!(site, "c");
    let story = explain(&c, &job);
    assert!(story.contains("1. b (localhost:"), "{story}");
    assert!(
        story.contains("refused: resources.processes: this site has no processes to reserve"),
        "{story}"
    );
    assert!(story.contains("(never_fits)"), "{story}");
    b.file("kumiko/policy.toml", "limits = 7\n");
    let output = grid.submit(&["--where", "not site = a", "--", "true"]);
    assert!(output.status.success(), "{}", told(&output));
    let said = told(&output);
    assert!(
        said.contains("kumiko: b (localhost:") && said.contains("policy.toml"),
        "{said}"
    );
    assert!(said.contains("\"site\": \"c\""), "{said}");
    let story = explain(&c, "last");
    for words in [
        "(site_policy)",
        "a (localhost:",
        "fell out: it does not meet not site = a",
    ] {
        assert!(story.contains(words), "{words:?} in {story}");
    }

    // Streams and the exit status come from wherever it runs.
    let words = [
        "job",
        "run",
        "--index",
        &grid.index.address,
        "--where",
        "site = c",
    ];
    let output = grid.me.run(
        words
            .iter()
            .chain(&["--", "sh", "-c", "echo there; exit 7"]),
    );
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(7), &b"there\n"[..]),
        "{}",
        told(&output)
    );
    // And whoever is told the contact has the job by it.
    let (_, at, job) = grid.placed(&["--where", "site = c", "--", "sh", "-c", "exit 3"]);
    let waited = grid.me.run(["job", "wait", "--site", &at, &job]);
    assert_eq!(waited.status.code(), Some(3), "{}", told(&waited));

    a.file("kumiko/policy.toml", "limits = 7\n");
    c.file("kumiko/policy.toml", "limits = 7\n");
    let before = [&a, &b, &c].map(jobs);
    let all = grid.submit(&["--where", "", "--", "true"]);
    refused(
        &all,
        1,
        &[
            "no site took the job",
            "a (localhost:",
            "b (localhost:",
            "c (localhost:",
            "site_policy",
        ],
    );
    let none = grid.submit(&["--where", "os = Linux and cpus >= 100000", "--", "true"]);
    refused(
        &none,
        1,
        &["none of the sites", "it does not meet cpus >= 100000"],
    );
    assert_eq!([&a, &b, &c].map(jobs), before);
}

#[test]
fn what_is_no_expression_no_name_or_no_index_is_told_with_its_place() {
    let grid = Grid::new();
    for (words, says) in [
        (
            ["--where", "cpus >=", "--", "true"],
            "--where: column 8: a value belongs here",
        ),
        (
            ["--where", "mem_free > 4", "--", "true"],
            "--where: column 12: ",
        ),
        (
            ["--where", "slosts_free > 4", "--", "true"],
            "tells of slosts_free",
        ),
    ] {
        refused(&grid.submit(&words), 2, &[says]);
    }
    let rank = ["--where", "", "--rank", "cpus, load up", "--", "true"];
    refused(&grid.submit(&rank), 2, &["--rank: column 6: "]);
    refused(
        &grid.submit(&["--where", "", "--", "true"]),
        1,
        &["knows no site"],
    );
    refused(
        &grid.submit(&["--rank", "site", "--", "true"]),
        2,
        &["--where"],
    );
    let alone = Person::with_site();
    refused(
        &alone.run(["job", "run", "--where", "", "--", "true"]),
        125,
        &["there is no index to ask", "--index"],
    );
    refused(
        &alone.run([
            "job",
            "submit",
            "--index",
            "localhost:1",
            "--where",
            "",
            "--",
            "true",
        ]),
        1,
        &["asking the index localhost:1"],
    );
}

#[test]
fn a_folder_goes_where_its_way_is_short_and_that_is_explained() {
    let grid = Grid::new();
    let (far, near) = (grid.silent_site(), grid.silent_site());
    let proxy = Proxy::to(port(&far));
    let contacts = [proxy.port, port(&near)].map(|port| format!("localhost:{port}"));
    let _teller = grid.tell_of(&[("far", &contacts[0], 50), ("near", &contacts[1], 10)]);
    grid.tells("contact", 2);
    let content = (0..1_500_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
    grid.me.file("work/input", "");
    std::fs::write(
        grid.me.home.path().join("work/input"),
        content.collect::<Vec<u8>>(),
    )
    .unwrap();
    proxy.let_pass(Passes::Slowly);
    let placed = |more: &[&str]| {
        let words = more.iter().copied().chain(["--", "true"]);
        let words: Vec<&str> = words.collect();
        grid.placed(&words)
    };
    // Nothing is known of either way, so the first one has more room.
    let folder = ["--where", "", "--dir", "work"];
    assert_eq!(placed(&folder).0, "far");
    let both = ["--where", "site = near", "--dir", "work"];
    assert_eq!(placed(&both).0, "near");
    // Of both it is known by now.
    let (site, _, job) = placed(&folder);
    assert_eq!(site, "near");
    let story = explain(&near, &job);
    for words in [
        "1. near (",
        "transfer 0; slots_free 10",
        "2. far (",
        "transfer ",
    ] {
        assert!(story.contains(words), "{words:?} in {story}");
    }
    // What takes no folder goes where the room is; what is asked for goes over it.
    assert_eq!(placed(&["--where", ""]).0, "far");
    assert_eq!(placed(&["--where", "bandwidth > 2MB"]).0, "near");
    let quick = [
        "--where",
        "transfer = 0",
        "--rank",
        "slots_free desc",
        "--dir",
        "work",
    ];
    assert_eq!(placed(&quick).0, "near");
}

#[test]
fn a_site_that_is_lost_while_it_is_asked_has_the_job_once_and_no_other_has_it() {
    let grid = Grid::new();
    let far = grid.silent_site();
    let near = grid.site("near", "cpu_percent = 100");
    let proxy = Proxy::to(port(&far));
    let contact = format!("localhost:{}", proxy.port);
    let _teller = grid.tell_of(&[
        ("gone", "localhost:1", 99),
        ("far", &contact, 50),
        ("near-by", "nonsense::", 98),
    ]);
    grid.tells("contact", 4);
    let big = format!("BIG={}", "x".repeat(REQUEST_BYTES));

    // Nobody answers at the first, the third is no address, the second is cut off and comes back.
    proxy.let_pass(Passes::NoAnswer);
    let words = [
        "--output",
        "json",
        "job",
        "submit",
        "--index",
        &grid.index.address,
    ];
    let more = ["--where", "", "--env", &big, "--", "true"];
    let mut submitting = grid.me.kumiko(words.iter().chain(&more));
    submitting.stdin(Stdio::null()).stdout(Stdio::piped());
    let submitting = submitting.stderr(Stdio::piped()).spawn().unwrap();
    until("the far site has the job", || jobs(&far) == 1);
    proxy.let_pass(Passes::All);
    let output = collect(submitting);
    assert!(output.status.success(), "{}", told(&output));
    assert!(
        told(&output).contains("\"site\": \"far\""),
        "{}",
        told(&output)
    );
    let story = explain(&far, "last");
    for words in [
        "1. gone (localhost:1) not reached",
        "2. near-by (nonsense::) not reached",
        "3. far (localhost:",
    ] {
        assert!(story.contains(words), "{words:?} in {story}");
    }
    assert_eq!((jobs(&far), jobs(&near)), (1, 0));

    // Cut off for good: it may have the job, so nobody else gets it.
    proxy.let_pass(Passes::NoAnswer);
    let more = [
        "--where",
        "site = far or site = near",
        "--patience",
        "20s",
        "--env",
        &big,
        "--",
        "true",
    ];
    let mut submitting = grid.me.kumiko(words.iter().chain(&more));
    submitting.stdin(Stdio::null()).stdout(Stdio::piped());
    let submitting = submitting.stderr(Stdio::piped()).spawn().unwrap();
    until("the far site has it", || jobs(&far) == 2);
    proxy.let_pass(Passes::Nothing);
    let output = collect(submitting);
    refused(
        &output,
        1,
        &[
            "was lost while it was asked, and may have taken the job",
            "--key",
        ],
    );
    assert_eq!((jobs(&far), jobs(&near)), (2, 0));

    // What it says to do then finds the job that there is.
    proxy.let_pass(Passes::All);
    let said = told(&output);
    let key = said
        .split("--key ")
        .nth(1)
        .unwrap()
        .split('`')
        .next()
        .unwrap();
    let again = [
        "job", "submit", "--site", &contact, "--key", key, "--env", &big, "--", "true",
    ];
    assert_eq!(grid.me.ok(again), "2\n");
    assert_eq!((jobs(&far), jobs(&near)), (2, 0));
}

#[test]
fn a_site_on_slurm_tells_its_slots_queues_jobs_and_pilots() {
    let test = "a_site_on_slurm_tells_its_slots_queues_jobs_and_pilots";
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    let info = ["--info=127.0.0.1:0", "--pilots", "1..1"];
    person.ok(engines::start("slurm").iter().chain(&info));
    // In the host's entry and in the gatekeeper's; each queue in one of its own.
    for (expression, entries) in [
        (
            "batch = slurm and slots = 64 and pilots = 1 and pilots_idle = 1 and slots_free and running >= 1",
            2,
        ),
        ("queue_open = yes and slots = 64", 2),
    ] {
        until(&format!("{entries} entries with {expression}"), || {
            let words = ["--output", "lines", "info", "query", "--all", expression];
            let told = person.run(words).stdout;
            told.iter().filter(|c| **c == b'\n').count() == entries
        });
    }
}

//! Fifty accounts with live jobs, over a restart in order and a kill of everything that is the site's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "many_accounts/place.rs"]
#[allow(dead_code)]
mod place;

use kumiko_e2e::{finish, has_program, skip, told, until};
use place::{Place, killed_together, succeeded};
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

const ACCOUNTS: usize = 50;

/// Live jobs of an account: enough to see that none is lost ...
const USUAL: usize = 4;
/// ... and the goal: 10,000 of all.
const GOAL: usize = 200;

/// What a live job is to the kernel: the runner, the process that makes its room, the first of the room, the guest.
const TASKS_A_JOB: usize = 4;
/// Of an agent: its threads, and a runner that waits for the next job.
const TASKS_AN_AGENT: usize = 48;
/// For the machine itself and this test.
const TASKS_BESIDE: usize = 500;
/// 0.67 MB were measured for each of 7,500.
const BYTES_A_JOB: usize = 1 << 20;

/// How many live jobs of an account this machine can hold, and what holds it back.
fn fits() -> (usize, String) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    // "0.00 0.01 0.05 2/180 1234": of the tasks that are there (proc(5)).
    let load = read("/proc/loadavg");
    let now = load.split([' ', '/']).nth(4).unwrap();
    let most = read("/proc/sys/kernel/pid_max");
    let memory = read("/proc/meminfo");
    let line = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kb = line.unwrap().trim_end_matches("kB").trim();
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let taken = number(now) + ACCOUNTS * TASKS_AN_AGENT + TASKS_BESIDE;
    let by_tasks = number(&most).saturating_sub(taken) / TASKS_A_JOB;
    let by_memory = number(kb) * 1024 / BYTES_A_JOB;
    let why = format!(
        "kernel.pid_max = {} holds {by_tasks}, memory {by_memory}",
        most.trim()
    );
    (by_tasks.min(by_memory) / ACCOUNTS, why)
}

#[test]
fn a_restart_of_fifty_accounts_loses_no_job() {
    check("a_restart_of_fifty_accounts_loses_no_job", USUAL);
}

#[test]
#[ignore = "some minutes, 30,000 processes and 6 GB"]
fn ten_thousand_jobs_of_fifty_accounts_are_held_and_a_restart_loses_none() {
    let (most, why) = fits();
    let each = GOAL.min(most);
    if each < GOAL {
        eprintln!(
            "{} live jobs, not {}: {why}",
            each * ACCOUNTS,
            GOAL * ACCOUNTS
        );
    }
    assert!(each >= USUAL, "{why}");
    check(
        "ten_thousand_jobs_of_fifty_accounts_are_held_and_a_restart_loses_none",
        each,
    );
}

fn check(test: &str, each: usize) {
    if !has_program("curl") {
        return skip(test, "curl");
    }
    let people: Vec<String> = (0..ACCOUNTS).map(|i| format!("person{i}")).collect();
    let names: Vec<&str> = people.iter().map(String::as_str).collect();
    let Some(place) = Place::new(test, &names, "") else {
        return;
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for half in names.chunks(ACCOUNTS / 2) {
            scope.spawn(|| half.iter().for_each(|name| submit(&place, name, each)));
        }
    });
    let told = |what: &str, since: Instant| {
        eprintln!(
            "{}: {what} in {:.1} s",
            each * ACCOUNTS,
            since.elapsed().as_secs_f64()
        );
    };
    told("submitted", begun);
    let held = |what: &str| {
        let since = Instant::now();
        until(what, || {
            names.iter().all(|name| views(&place, name).len() == each)
        });
        told(what, since);
    };
    held("all are active");
    let before = all_views(&place, &names);
    assert_eq!(guests(&place, &names), each * ACCOUNTS);

    let since = Instant::now();
    place.ok(["site", "stop"]);
    told("stopped", since);
    let since = Instant::now();
    place.start();
    told("started", since);
    held("all are active after a restart");
    assert_eq!(all_views(&place, &names), before, "no job was started anew");
    assert_eq!(guests(&place, &names), each * ACCOUNTS);

    let agents = names.iter().filter_map(|name| place.agent(name));
    let all: Vec<u32> = agents
        .chain([place.monitor(), place.front().unwrap()])
        .collect();
    killed_together(&all);
    let since = Instant::now();
    place.start();
    told("started after kill -9", since);
    held("all are active after kill -9 of the site");
    assert_eq!(all_views(&place, &names), before, "no job was started anew");
    assert_eq!(guests(&place, &names), each * ACCOUNTS);
}

/// One connection for all of a person's jobs.
fn submit(place: &Place, name: &str, jobs: usize) {
    let file = |name: &str| place.path(name).display().to_string();
    let mut command = std::process::Command::new("curl");
    place.as_person(name, &mut command);
    command.args([
        "-sS",
        "--fail",
        "-o",
        "/dev/null",
        "--cert",
        &file(&format!("{name}.pem")),
    ]);
    command.args(["--key", &file(&format!("{name}.key"))]);
    command.args(["--cacert", &file("site/ca/ca-cert.pem"), "-d"]);
    command.arg(r#"{"executable":"/bin/sleep","arguments":["3600"]}"#);
    command.arg(format!("https://{}/v1/jobs?n=[1-{jobs}]", place.site()));
    let output = finish(&mut command);
    assert!(output.status.success(), "{}", told(&output));
}

/// Number, attempt and start of a person's live jobs.
fn views(place: &Place, name: &str) -> Vec<[String; 3]> {
    let listed = succeeded(&place.run(name, ["--output", "lines", "job", "list", "--live"]));
    let views = listed.lines().map(|line| {
        let view: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(view["account"], name);
        (view["state"] == "active")
            .then(|| ["id", "epoch", "started_ms"].map(|field| view[field].to_string()))
    });
    views.flatten().collect()
}

fn all_views(place: &Place, names: &[&str]) -> Vec<Vec<[String; 3]>> {
    names.iter().map(|name| views(place, name)).collect()
}

/// Guests that run, as whoever they are.
fn guests(place: &Place, names: &[&str]) -> usize {
    let uids: Vec<u32> = names.iter().map(|name| place.uid(name)).collect();
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let words = std::fs::read(path.join("cmdline")).ok()?;
            let uid = std::fs::metadata(&path).ok()?.uid();
            (words == b"/bin/sleep\x003600\0" && uids.contains(&uid)).then_some(())
        })
        .count()
}

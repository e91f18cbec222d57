//! A site for many accounts, as root starts it: front, monitor, and an agent for each of three people.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "many_accounts/place.rs"]
mod place;

use kumiko_e2e::adversity::{refused, text};
use kumiko_e2e::{alive, collect, finish, has_program, skip, told, until};
use place::{FRONT, Place, killed, killed_together, succeeded};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];

/// A job that says that it has begun, and ends with 5 when it is told to.
const TOLD: [&str; 7] = [
    "job",
    "run",
    "--",
    "sh",
    "-c",
    "echo begun; until test -e go; do sleep 0.02; done; echo done; exit 5",
    "told",
];

fn submit_told(place: &Place, name: &str) -> String {
    let mut words = TOLD;
    words[1] = "submit";
    let job = place.says(name, words).trim().to_owned();
    until("it has begun", || {
        place.says(name, ["job", "log", "--follow=no", &job]) == "begun\n"
    });
    job
}

fn let_go(place: &Place, account: &str, job: &str) {
    std::fs::write(place.state(account).join("jobs").join(job).join("go"), "").unwrap();
}

#[test]
fn three_people_have_a_site_each_as_their_own_account() {
    let test = "three_people_have_a_site_each_as_their_own_account";
    let Some(place) = Place::new(test, &PEOPLE, "") else {
        return;
    };
    for name in PEOPLE {
        let uid = place.says(name, ["job", "run", "--", "id", "-u"]);
        assert_eq!(uid.trim(), place.uid(name).to_string());
        let echoed = kumiko_e2e::finish_with(
            &mut place.person(name, ["exec", &place.site(), "--", "cat"]),
            b"both ways",
        );
        assert_eq!(echoed.stdout, b"both ways", "{}", told(&echoed));
        assert_eq!(
            place
                .says(name, ["--output", "lines", "job", "list"])
                .lines()
                .count(),
            2
        );
    }
    let status: serde_json::Value =
        serde_json::from_str(&place.ok(["--output", "json", "site", "status"])).unwrap();
    assert_eq!(status["accounts"], serde_json::json!(PEOPLE));
    // A folder goes in and comes back, and belongs to the account meanwhile.
    let folder = place.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("in"), "20").unwrap();
    let script = "stat -c %u in; echo $(($(cat in) + 1)) > out";
    let there = place.says(
        "bob",
        [
            "job",
            "run",
            "--dir",
            folder.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            script,
        ],
    );
    assert_eq!(there.trim(), place.uid("bob").to_string());
    assert_eq!(std::fs::read_to_string(folder.join("out")).unwrap(), "21\n");
    for name in PEOPLE {
        let pid = place.agent(name).unwrap();
        let group = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        // Where there are groups that can be made, which the site says.
        if group.contains("0::") && !place.log().contains("no control group") {
            assert!(group.contains(&format!("/kumiko-{name}\n")), "{group}");
        }
    }
    let said = place.ok(["site", "stop"]);
    assert!(said.contains("the site is down"), "{said}");
    assert_eq!(place.front().or(place.agent("alice")), None);
}

#[test]
fn rest_reaches_the_account_too() {
    let test = "rest_reaches_the_account_too";
    if !has_program("curl") {
        return skip(test, "curl");
    }
    let Some(place) = Place::new(test, &["alice"], "") else {
        return;
    };
    let curl = |path: &str, more: &[&str]| {
        let mut command = std::process::Command::new("curl");
        place.as_person("alice", &mut command);
        let file = |name: &str| place.path(name).display().to_string();
        command.args([
            "-sS",
            "--cert",
            &file("alice.pem"),
            "--key",
            &file("alice.key"),
        ]);
        command
            .args(["--cacert", &file("site/ca/ca-cert.pem")])
            .args(more);
        command.arg(format!("https://{}{path}", place.site()));
        succeeded(&finish(&mut command))
    };
    let site: serde_json::Value = serde_json::from_str(&curl("/v1/site", &[])).unwrap();
    assert_eq!(site["account"], "alice");
    assert_eq!(site["subject"], place.subject("alice"));
    let job = r#"{"executable":"/usr/bin/id","arguments":["-u"]}"#;
    for protocol in ["--http1.1", "--http2"] {
        let made: serde_json::Value =
            serde_json::from_str(&curl("/v1/jobs", &[protocol, "-d", job])).unwrap();
        let path = format!("/v1/jobs/{}/stdout", made["job"]);
        assert_eq!(
            curl(&path, &[protocol]).trim(),
            place.uid("alice").to_string()
        );
    }
}

/// Enemies with a login: what the kernel keeps from them, without any sandbox.
#[test]
fn accounts_cannot_reach_each_others_credentials_spools_and_processes() {
    let test = "accounts_cannot_reach_each_others_credentials_spools_and_processes";
    if !has_program("setpriv") {
        return skip(test, "setpriv");
    }
    let Some(place) = Place::new(test, &PEOPLE, "") else {
        return;
    };
    let job = place
        .says(
            "alice",
            [
                "job",
                "submit",
                "--delegate=limited",
                "--",
                "sh",
                "-c",
                "cat $X509_USER_PROXY > copy; echo begun; sleep 600",
            ],
        )
        .trim()
        .to_owned();
    until("it has begun", || {
        place.says("alice", ["job", "log", "--follow=no", &job]) == "begun\n"
    });
    let state = place.state("alice");
    assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o7777, 0o700);
    let credential = state.join("jobs").join(&job).join("copy");
    assert!(
        std::fs::read_to_string(&credential)
            .unwrap()
            .contains("PRIVATE KEY")
    );
    let agent = place.agent("alice").unwrap();
    let (guest, runner) = place.guest_and_runner("alice", &["sleep", "600"]);
    let key = place.home().join("hostkey.pem");
    let log = place.home().join("agents/alice.log");
    let attempts = [
        ("a credential", format!("cat {}", credential.display())),
        ("the state", format!("ls {}", state.display())),
        (
            "the spools",
            format!("ls {}", state.join("spool").display()),
        ),
        (
            "the events",
            format!("cat {}", state.join("events.db").display()),
        ),
        (
            "the home",
            format!("ls {}", place.path("homes/alice").display()),
        ),
        ("the agent's end", format!("kill -9 {agent}")),
        ("the agent's memory", format!("cat /proc/{agent}/environ")),
        ("the agent's descriptors", format!("ls /proc/{agent}/fd/")),
        ("the guest's end", format!("kill -9 {guest}")),
        ("the runner's end", format!("kill -9 {runner}")),
        ("the runner's descriptors", format!("ls /proc/{runner}/fd/")),
        ("the monitor's end", format!("kill -9 {}", place.monitor())),
        (
            "the monitor's descriptors",
            format!("ls /proc/{}/fd/", place.monitor()),
        ),
        ("the log", format!("echo x >> {}", log.display())),
        (
            "the marks",
            format!("ls {}", place.home().join("state/awake").display()),
        ),
        (
            "the authority's key",
            format!("ls {}", place.home().join("ca/private").display()),
        ),
        (
            "the grid-mapfile",
            format!("echo x >> {}", place.home().join("grid-mapfile").display()),
        ),
        (
            "the policy",
            format!("echo x >> {}", place.home().join("policy.toml").display()),
        ),
    ];
    let own = [
        ("the host's key", format!("cat {}", key.display())),
        (
            "the front's end",
            format!("kill -9 {}", place.front().unwrap()),
        ),
        (
            "the front's memory",
            format!("cat /proc/{}/environ", place.front().unwrap()),
        ),
    ];
    for enemy in [place.uid("bob"), FRONT] {
        for (what, attempt) in &attempts {
            let output = place.shell_as(enemy, attempt);
            assert!(
                !output.status.success(),
                "{enemy} has {what}: {}",
                told(&output)
            );
            let said = text(&output.stderr).to_lowercase();
            let refused = said.contains("permission denied") || said.contains("not permitted");
            assert!(refused, "{enemy}, {what}: {said}");
        }
    }
    for (what, attempt) in &own {
        let output = place.shell_as(place.uid("bob"), attempt);
        assert!(
            !output.status.success(),
            "bob has {what}: {}",
            told(&output)
        );
    }
    assert!(alive(agent) && alive(runner) && alive(guest));
    // By the door: jobs are numbered by account, so this is bob's first, which there is not.
    let show = place.run("bob", ["job", "show", &job]);
    refused(&show, 1, &["no job"]);
    assert!(
        place
            .says("alice", ["job", "show", &job])
            .contains("active")
    );
}

#[test]
fn whoever_is_mapped_to_root_or_to_the_system_is_refused_by_name() {
    let test = "whoever_is_mapped_to_root_or_to_the_system_is_refused_by_name";
    let Some(place) = Place::new(test, &["alice"], "") else {
        return;
    };
    let accounts = place.path("accounts");
    let more = "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/:/bin/sh\ntoor:x:0:0::/root:/bin/sh\n";
    let before = std::fs::read_to_string(&accounts).unwrap();
    std::fs::write(&accounts, format!("{before}{more}")).unwrap();
    place.enrol("mallory");
    let check = |account: &str, says: &str| {
        let map = place
            .operator(["site", "map", &place.subject("mallory"), account])
            .output();
        refused(&map.unwrap(), 1, &["cannot be served"]);
        // The command refuses; an editor does not.
        place.write_mapfile(&format!("\"{}\" {account}\n", place.subject("mallory")));
        let run = place.run("mallory", ["job", "run", "--", "id"]);
        refused(&run, 125, &[says]);
        assert_eq!(place.agent(account), None);
        let state = place.home().join("state/accounts");
        assert_eq!(std::fs::read_dir(state).unwrap().count(), 0, "{account}");
    };
    let not_served = "not served here";
    check("root", not_served);
    check("daemon", not_served);
    check("toor", not_served);
    check("kumiko", not_served);
    check("nobody-at-all", not_served);
    check("..", not_served);
}

#[test]
fn a_changed_mapfile_counts_for_the_next_connection() {
    let test = "a_changed_mapfile_counts_for_the_next_connection";
    let Some(place) = Place::new(test, &["alice", "bob"], "") else {
        return;
    };
    let run = || place.run("alice", ["job", "run", "--", "id", "-u"]);
    let as_account = |account: &str| {
        let output = run();
        assert_eq!(
            text(&output.stdout).trim(),
            place.uid(account).to_string(),
            "{}",
            told(&output)
        );
    };
    as_account("alice");
    let line = |account: &str| format!("\"{}\" {account}\n", place.subject("alice"));
    for _ in 0..3 {
        place.write_mapfile(&line("bob"));
        as_account("bob");
        place.write_mapfile("# nobody\n");
        refused(&run(), 125, &["not in the grid-mapfile"]);
        place.write_mapfile("\"/CN=unfinished");
        refused(&run(), 125, &["cannot read its grid-mapfile"]);
        place.write_mapfile(&line("alice"));
        as_account("alice");
    }
    place.ok(["site", "drain"]);
    refused(&run(), 125, &["takes no new jobs"]);
    assert!(place.says("alice", ["job", "list"]).contains("done"));
}

#[test]
fn an_agent_with_nothing_to_do_goes_and_comes_back_with_its_jobs() {
    let test = "an_agent_with_nothing_to_do_goes_and_comes_back_with_its_jobs";
    let Some(place) = Place::new(test, &["alice", "bob"], "idle_s = 1") else {
        return;
    };
    let job = submit_told(&place, "alice");
    assert_eq!(place.says("bob", ["job", "run", "--", "echo", "1"]), "1\n");
    until("bob's agent has gone", || place.agent("bob").is_none());
    assert!(!place.home().join("state/awake/bob").exists());
    let first = place.agent("alice").expect("an agent with a job stays");
    let_go(&place, "alice", &job);
    until("alice's agent has gone", || place.agent("alice").is_none());
    let waited = place.run("alice", ["job", "wait", &job]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    assert_ne!(place.agent("alice"), Some(first));
    // Many come while it goes: nobody is lost.
    for round in 0..30 {
        let word = round.to_string();
        assert_eq!(
            place.says("bob", ["job", "run", "--", "echo", &word]),
            format!("{word}\n")
        );
        std::thread::park_timeout(std::time::Duration::from_millis(100 * (round % 12)));
    }
}

#[test]
fn kill_9_of_front_agent_and_monitor_costs_no_job_and_clients_go_on() {
    let test = "kill_9_of_front_agent_and_monitor_costs_no_job_and_clients_go_on";
    let Some(place) = Place::new(test, &["alice"], "") else {
        return;
    };
    let check = |what: &str, kill: &dyn Fn()| {
        let follower = place
            .person("alice", TOLD)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let job = std::cell::RefCell::new(String::new());
        until("it has begun", || {
            let listed = place.says("alice", ["--output", "lines", "job", "list", "--live"]);
            let Some(line) = listed.lines().next() else {
                return false;
            };
            let view: serde_json::Value = serde_json::from_str(line).unwrap();
            *job.borrow_mut() = view["id"].to_string();
            place.says("alice", ["job", "log", "--follow=no", &job.borrow()]) == "begun\n"
        });
        let job = job.into_inner();
        kill();
        let_go(&place, "alice", &job);
        let output = collect(follower);
        assert_eq!(output.status.code(), Some(5), "{what}: {}", told(&output));
        assert_eq!(
            text(&output.stdout),
            "begun\ndone\n",
            "{what}: {}",
            told(&output)
        );
    };
    check("the front", &|| {
        let (front, agent) = (place.front().unwrap(), place.agent("alice"));
        killed(front);
        until("another front", || {
            place.front().is_some_and(|pid| pid != front)
        });
        assert_eq!(place.agent("alice"), agent);
    });
    check("the agent", &|| {
        let agent = place.agent("alice").unwrap();
        killed(agent);
        until("another agent", || {
            place.agent("alice").is_some_and(|pid| pid != agent)
        });
    });
    check("the monitor", &|| {
        let (front, agent) = (place.front().unwrap(), place.agent("alice").unwrap());
        killed(place.monitor());
        until("the others end with it", || !alive(front) && !alive(agent));
        place.start();
        until("its agent is started for its job", || {
            place.agent("alice").is_some()
        });
    });
    check("all of them", &|| {
        killed_together(&[
            place.monitor(),
            place.front().unwrap(),
            place.agent("alice").unwrap(),
        ]);
        place.start();
    });
}

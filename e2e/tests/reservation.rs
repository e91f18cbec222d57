//! Jobs reserve parts of the host: they wait until there is room, also over a kill of the site; the information service
//! tells what is left; and an edit of the site's policy reaches what runs (spec/policy, P70 to P77).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::refused;
use kumiko_e2e::{Person, collect, finish, has_program, skip, told, until};
use std::process::{Command, Stdio};

const SITE: &str = "listen = \"127.0.0.1:0\"\ninfo = \"127.0.0.1:0\"\n\
                    capacity = { cpu_percent = 250, memory_mib = 1000, network_kbyte_s = 5000 }\n";

fn with_capacity() -> Person {
    let person = Person::new();
    person.file("kumiko/site.toml", SITE);
    person.file("kumiko/info.toml", "host_name = \"here.example\"\n");
    person.ok(["site", "start"]);
    person
}

fn explain(person: &Person, job: &str) -> String {
    person.ok(["job", "explain", job])
}

fn runs(person: &Person, job: &str) {
    until("it runs", || explain(person, job).contains("It runs."));
}

/// A job that stays.
fn submit(person: &Person, reserve: &[&str]) -> String {
    let reserve = reserve.iter().flat_map(|one| ["--reserve", one]);
    let words = ["job", "submit"].into_iter().chain(reserve);
    let job = person.ok(words.chain(["--", "sleep", "1000"]));
    job.trim().to_owned()
}

/// What the information service says of an attribute of the host.
fn left(person: &Person, attribute: &str) -> Option<String> {
    let words = ["--output", "json", "info", "query", "--all"];
    let output = person.run(words.into_iter().chain(["host = here.example"]));
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let value = &all.as_array()?.first()?["attributes"][attribute][0];
    value.as_str().map(str::to_owned)
}

#[test]
fn jobs_wait_for_what_they_reserve_over_a_kill_of_the_site_and_the_index_tells_what_is_left() {
    let person = with_capacity();
    let tells = |cpus: &str, memory: &str| {
        until("what is left is told", || {
            left(&person, "kumiko-reserve-cpus").as_deref() == Some(cpus)
                && left(&person, "kumiko-reserve-memMB").as_deref() == Some(memory)
        });
    };
    tells("2.5", "1000");
    assert_eq!(
        left(&person, "kumiko-reserve-netBytesPerSec").as_deref(),
        Some("5000000")
    );
    assert_eq!(left(&person, "kumiko-reserve-diskBytesPerSec"), None);
    let first = submit(&person, &["memory=700MiB", "cpu=150%"]);
    runs(&person, &first);
    assert!(explain(&person, &first).contains("memory limit of 700 MiB: "));
    tells("1", "300");
    let second = submit(&person, &["memory=600MiB"]);
    let third = submit(&person, &["memory=200MiB"]);
    let free = submit(&person, &["cpu=50%"]);
    runs(&person, &free);
    let lacks =
        "Now 600 MiB of memory are reserved, 300 MiB of 1000 MiB are left, 1 jobs hold the rest.";
    assert!(explain(&person, &second).contains(lacks));
    assert!(explain(&person, &third).contains("1 that came before it wait too"));
    refused(
        &person.run(["job", "run", "--memory", "1001", "--", "true"]),
        125,
        &["resources.memory_mib", "1000 MiB in all"],
    );
    refused(
        &person.run(["job", "run", "--reserve", "disk=1MB/s", "--", "true"]),
        125,
        &["resources.disk_kbyte_s", "[capacity]"],
    );
    // Whoever waits beside their job has its output as if it had begun at once.
    let words = ["job", "run", "--reserve", "network=1", "--", "true"];
    assert!(!person.run(words).status.success(), "network is no name");
    let mut beside = person.kumiko(["job", "run", "--reserve", "cpu=100%", "--", "echo", "ran"]);
    beside.stdin(Stdio::null()).stdout(Stdio::piped());
    let beside = beside.stderr(Stdio::piped()).spawn().unwrap();
    until("it waits", || {
        explain(&person, "last").contains("Now 100 % of one processor")
    });
    person.ok(["job", "cancel", &free, "--grace", "0"]);
    let beside = collect(beside);
    assert_eq!(beside.stdout, b"ran\n", "{}", told(&beside));
    let free = submit(&person, &["cpu=50%"]);
    runs(&person, &free);
    // No job may have more than it reserves, whoever asks.
    refused(
        &person.run(["sandbox", "set", &first, "memory=701MiB"]),
        1,
        &["701", "memory limit of 700 MiB"],
    );

    person.kill_site();
    person.ok(["site", "start"]);
    tells("0.5", "300");
    assert!(explain(&person, &second).contains(lacks));
    person.ok(["job", "cancel", &first, "--grace", "0"]);
    runs(&person, &second);
    runs(&person, &third);
    tells("2", "200");
    person.ok(["job", "cancel", "all", "--grace", "0"]);
    tells("2.5", "1000");
    ask_by_ldap(&person);
}

/// The same to a client that is not ours, with a filter that compares numbers.
fn ask_by_ldap(person: &Person) {
    if !has_program("ldapsearch") {
        return skip(
            "jobs_wait_for_what_they_reserve_over_a_kill_of_the_site_and_the_index_tells_what_is_left",
            "ldap-utils",
        );
    }
    let address = std::fs::read_to_string(person.kumiko_home().join("info/address")).unwrap();
    let address = address.lines().next().unwrap().to_owned();
    let search = |filter: &str| {
        let mut search = Command::new("ldapsearch");
        search
            .args(["-x", "-LLL", "-H", &format!("ldap://{address}")])
            .args(["-b", "o=grid", filter, "kumiko-reserve-memMB"])
            .stdin(Stdio::null());
        let output = finish(&mut search);
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let enough = search("(kumiko-reserve-memMB>=1000)");
    assert!(enough.contains("kumiko-reserve-memMB: 1000"), "{enough}");
    assert!(!search("(kumiko-reserve-memMB>=1001)").contains("kumiko-reserve-memMB"));
    let job = submit(person, &["memory=1MiB"]);
    runs(person, &job);
    until("it is told", || {
        !search("(kumiko-reserve-memMB>=1000)").contains("kumiko-reserve-memMB")
    });
}

#[test]
fn an_edit_of_the_sites_policy_and_limits_of_the_owner_hold_for_what_runs_and_after_a_kill() {
    let person = Person::with_site();
    let policy = |text: &str| person.file("kumiko/policy.toml", text);
    let job = submit(&person, &[]);
    runs(&person, &job);
    policy("[limits]\nmemory_mib = 2000\n");
    until("the job has the new limit", || {
        explain(&person, &job).contains("by changed policies of the site, the organisation or the user: memory limit of 2000 MiB")
    });
    person.ok(["sandbox", "set", &job, "memory=1500MiB"]);
    let set = "by its owner: memory limit of 1500 MiB";
    assert!(explain(&person, &job).contains(set));
    person.kill_site();
    // Edited while the site is down, by a file that takes the place of the other.
    let new = person.file("kumiko/policy.new", "[limits]\nmemory_mib = 1000\n");
    std::fs::rename(new, person.kumiko_home().join("policy.toml")).unwrap();
    person.ok(["site", "start", "--listen", "127.0.0.1:0"]);
    until("the job has the lower one", || {
        explain(&person, &job).contains("memory limit of 1000 MiB")
    });
    policy("[limits]\nwall_time_s = 1\n");
    until("the job ends for its limit", || {
        explain(&person, &job).contains("wall time limit of 1 s")
            && explain(&person, &job).contains("It ended")
    });
    let record = explain(&person, &job);
    // What the owner had asked for came back as the site's limit went.
    assert!(
        record.matches("memory limit of 1500 MiB").count() == 2,
        "{record}"
    );
    // A text that is none changes nothing for what runs, and takes nobody in.
    policy("");
    let job = submit(&person, &[]);
    runs(&person, &job);
    policy("limits = 7\n");
    refused(
        &person.run(["job", "run", "--", "true"]),
        125,
        &["the site's policy", "policy.toml"],
    );
    assert!(explain(&person, &job).contains("It runs."));
}

//! Hosts of a real engine are drained: nothing more begins there, nothing is lost, and it is said when they are free.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports, unused_macros)]
mod engines;

use engines::{COUNTED, directory, said, start};
use kumiko_e2e::{Person, finish, told, until};

fn submit(person: &Person, flags: &[&str], script: &str) -> String {
    let line = ["job", "submit"].into_iter().chain(flags.iter().copied());
    let line = line.chain(["--", "sh", "-c", script]);
    person.ok(line).trim().to_owned()
}

fn begun(person: &Person, job: &str) {
    until("it has begun", || {
        directory(person, job).join("starts").exists()
    });
}

/// Lets one of those go on, and waits for its end; it ran once.
fn let_go(person: &Person, job: &str) {
    std::fs::write(directory(person, job).join("go"), "").unwrap();
    let waited = person.run(["job", "wait", job]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    assert_eq!(person.ok(["job", "log", job]), "begun\ndone\nstart\n");
}

/// Where Slurm has, or had, what has this name after the site's own part: an attempt, or a pilot.
fn host_of(person: &Person, name: &str) -> String {
    let spools = person.kumiko_home().join("state/spool/site");
    let site = std::fs::read_to_string(spools).unwrap();
    let tag = format!("kumiko-{site}-{name}");
    let line = ["--noheader", "--states=all", "--name", &tag, "-o", "%N"];
    said(person, "squeue", &line)
}

fn other(host: &str) -> &'static str {
    match host {
        "n1" => "n2",
        "n2" => "n1",
        host => panic!("it ran on {host:?}"),
    }
}

fn says(person: &Person, line: &str) {
    until(&format!("the status says {line:?}"), || {
        person.ok(["site", "status"]).contains(line)
    });
}

#[test]
fn a_host_of_slurm_is_drained_and_no_job_is_lost() {
    let test = "a_host_of_slurm_is_drained_and_no_job_is_lost";
    let Some(person) = engines::person("slurm", test) else {
        return;
    };
    let first = submit(&person, &[], COUNTED);
    begun(&person, &first);
    let host = host_of(&person, &format!("{first}.1"));
    let all = ["--cpus", "32"];
    let filling = submit(&person, &all, COUNTED);
    begun(&person, &filling);
    assert_eq!(host_of(&person, &format!("{filling}.1")), other(&host));
    // It waits for a whole host, and would get the one that is freed.
    let waiting = submit(&person, &all, COUNTED);
    person.ok(["site", "drain", &host]);
    says(
        &person,
        &format!("host {host}   draining: 1 job of the engine is left"),
    );
    person.kill_site();
    person.ok(start("slurm"));
    let late = submit(&person, &all, COUNTED);
    let_go(&person, &first);
    says(&person, &format!("host {host}   drained"));
    let_go(&person, &filling);
    for job in [&waiting, &late] {
        begun(&person, job);
        assert_eq!(host_of(&person, &format!("{job}.1")), other(&host));
        let_go(&person, job);
    }
    // The other way round.
    person.ok(["site", "drain", "--undo", &host]);
    person.ok(["site", "drain", other(&host)]);
    says(&person, &format!("host {}   drained", other(&host)));
    assert!(
        !person
            .ok(["site", "status"])
            .contains(&format!("host {host} "))
    );
    let job = submit(&person, &[], COUNTED);
    begun(&person, &job);
    assert_eq!(host_of(&person, &format!("{job}.1")), host);
    let_go(&person, &job);
    // What the engine does not have hinders nothing.
    person.ok(["site", "drain", "nowhere"]);
    says(&person, "host nowhere   no host of the batch system");
    assert_eq!(person.ok(["job", "run", "--", "echo", "well"]), "well\n");
    for wrong in [&["drain", "--undo", "n9"][..], &["drain", "a b"]] {
        let refused = person.run(["site"].iter().chain(wrong));
        assert!(!refused.status.success(), "{wrong:?}");
    }
}

/// Counts its starts, and ends in its second one, or when it is told.
const AGAIN: &str = "echo start >> starts; wc -l < starts; test $(wc -l < starts) -ge 2 && exit 5; until test -e go; do sleep 0.02; done";

#[test]
fn what_may_run_again_leaves_a_host_that_is_drained_now_though_the_site_is_killed() {
    let test = "what_may_run_again_leaves_a_host_that_is_drained_now_though_the_site_is_killed";
    let Some(person) = engines::person("slurm", test) else {
        return;
    };
    let again = submit(&person, &["--rerun", "--cpus", "2"], AGAIN);
    begun(&person, &again);
    let host = host_of(&person, &format!("{again}.1"));
    person.ok(["site", "drain", other(&host)]);
    let stays = submit(&person, &[], COUNTED);
    begun(&person, &stays);
    person.ok(["site", "drain", "--undo", other(&host)]);
    person.ok(["site", "drain", "--now", &host]);
    let named = format!("host {host}   draining: 1 job of the engine is left (job {stays} comes");
    until("it was told to leave", || {
        let told = person.ok(["job", "explain", &again]);
        told.contains(&format!("is to leave {host}, which is drained"))
    });
    person.kill_site();
    person.ok(start("slurm"));
    let waited = person.run(["job", "wait", &again]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    let story = person.ok(["job", "explain", &again]);
    // The one that was to run when the site was killed, or the next, if it had not been handed over.
    let goes = |number: &u32| story.contains(&format!("attempt {number} goes to"));
    let last = (1..).take_while(goes).last().unwrap();
    assert_eq!(
        host_of(&person, &format!("{again}.{last}")),
        other(&host),
        "{story}"
    );
    assert_eq!(person.ok(["job", "log", &again]), "2\n");
    for words in [
        "it may run again from its start",
        "the job runs again, from its start",
    ] {
        assert!(story.contains(words), "{story}");
    }
    says(&person, &named);
    let_go(&person, &stays);
    says(&person, &format!("host {host}   drained"));
}

#[test]
fn a_pilot_on_a_drained_host_gives_its_slot_back_once_it_is_idle() {
    let test = "a_pilot_on_a_drained_host_gives_its_slot_back_once_it_is_idle";
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    person.ok(start("slurm").into_iter().chain(["--pilots", "1..1"]));
    let first = submit(&person, &[], COUNTED);
    begun(&person, &first);
    let host = host_of(&person, "pilot-1");
    person.ok(["site", "drain", &host]);
    says(&person, &format!("host {host}   draining: 1 job"));
    // By the next pilot, while the first still has its job.
    assert_eq!(
        person.ok(["job", "run", "--", "echo", "elsewhere"]),
        "elsewhere\n"
    );
    assert_eq!(host_of(&person, "pilot-2"), other(&host));
    let_go(&person, &first);
    says(&person, &format!("host {host}   drained"));
}

#[test]
fn nothing_begins_on_a_drained_host_of_htcondor() {
    let test = "nothing_begins_on_a_drained_host_of_htcondor";
    let Some(person) = engines::person("condor", test) else {
        return;
    };
    let names = finish(&mut person.program("condor_status", ["-af", "Machine"]));
    let names = String::from_utf8(names.stdout).unwrap();
    let machine = names.lines().next().unwrap();
    let hosts = ["hosta", "hostb"].map(|startd| format!("{startd}@{machine}"));
    let first = submit(&person, &[], COUNTED);
    begun(&person, &first);
    // By their startds' names, of which the job has one.
    for host in &hosts {
        person.ok(["site", "drain", host]);
    }
    let draining = || {
        hosts.iter().filter(|host| {
            let line = format!("host {host}   draining: 1 job");
            person.ok(["site", "status"]).contains(&line)
        })
    };
    until("one has the job, and the other is drained", || {
        draining().count() == 1 && person.ok(["site", "status"]).contains("   drained\n")
    });
    let waiting = submit(&person, &[], COUNTED);
    until("the engine has it", || {
        person
            .ok(["job", "explain", &waiting])
            .contains("Now condor says")
    });
    let_go(&person, &first);
    until("both are drained", || {
        person
            .ok(["site", "status"])
            .matches("   drained\n")
            .count()
            == 2
    });
    assert!(!directory(&person, &waiting).join("starts").exists());
    person.ok(["site", "drain", "--undo", &hosts[1]]);
    begun(&person, &waiting);
    let_go(&person, &waiting);
}

#[test]
fn what_may_run_again_leaves_a_slot_that_htcondor_takes_back() {
    let test = "what_may_run_again_leaves_a_slot_that_htcondor_takes_back";
    let Some(person) = engines::user("condor", test) else {
        return;
    };
    person.ok(start("condor").into_iter().chain(["--pilots", "1..1"]));
    let again = submit(&person, &["--rerun"], COUNTED);
    begun(&person, &again);
    engines::vacate(&person, "spool");
    let leaves = |job: &str| person.ok(["job", "explain", job]).contains("is to leave");
    until("it has begun again", || {
        let starts = std::fs::read_to_string(directory(&person, &again).join("starts"));
        starts.unwrap() == "start\nstart\n"
    });
    assert!(leaves(&again), "{}", person.ok(["job", "explain", &again]));
    std::fs::write(directory(&person, &again).join("go"), "").unwrap();
    let waited = person.run(["job", "wait", &again]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    // One that may not comes to its end there: its pilot has one processor, so what comes later goes to another.
    let once = submit(&person, &[], COUNTED);
    begun(&person, &once);
    engines::vacate(&person, "spool");
    assert_eq!(
        person.ok(["job", "run", "--", "echo", "elsewhere"]),
        "elsewhere\n"
    );
    assert!(!leaves(&once));
    let_go(&person, &once);
}

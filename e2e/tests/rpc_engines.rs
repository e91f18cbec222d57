//! Calls of routines that a real engine's slots compute, by the same programs that call a site of fork.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compiled;
#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;
mod runners;

use kumiko_e2e::{finish, go_on_to_the_end, kill, until};
use routines::{Caller, npy, npy_of_whole};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;

const PILOTS: [&str; 2] = ["--pilots", "2"];

fn calls_are_computed_in_pilots(engine: &'static str, test: &str) {
    let Some(person) = engines::user(engine, test) else {
        return;
    };
    person.ok(engines::start(engine).into_iter().chain(PILOTS));
    let caller = Caller { person };
    caller.make(&["samples", "callback"], &[]);
    // Beside the words, and in files.
    let few = caller.file("few.npy", &npy(&[3], &[1., 2., 3.]));
    assert_eq!(caller.call(&["samples/sum", &few]), json!({"s": [6.0]}));
    let many: Vec<f64> = (0..100_000).map(f64::from).collect();
    let many = caller.file("many.npy", &npy(&[100_000], &many));
    let back = caller.call(&["samples/every_other", &many]);
    let back: Vec<f64> = serde_json::from_value(back["x"].clone()).unwrap();
    assert_eq!((back.len(), back[49_999]), (50_000, 199_998.0));
    // All by pilots, on the engine's hosts.
    let spools = caller.person.kumiko_home().join("state/rpc/spool");
    assert!(spools.join("pilot-1").exists());
    // The program in C is the one that calls sites of fork.
    compiled::calls_back(&caller);
    // A host is lost: its pilot dies, and what it computed is computed by the next one, under a higher epoch.
    let done = caller.file("done.npy", &npy_of_whole(&[1], &[100]));
    let slow = |steps: &'static str| {
        let started = caller.count_in_log("\"started\"");
        let call = caller.begin(&["samples/slow", steps, "10000", &done]);
        until("it is recorded as started", || {
            caller.count_in_log("\"started\"") > started
        });
        call
    };
    let call = slow("800");
    let (pilots, _) = runners::pilots_and_runners(&caller.person);
    assert!(!pilots.is_empty());
    pilots.iter().for_each(|pilot| kill(*pilot, "KILL"));
    assert_eq!(caller.end(call), json!({"done": [900]}));
    assert!(caller.count_in_log("\"planned\":{\"epoch\":2") >= 1);
    // The site is lost: the slot computes on.
    let call = slow("300");
    let planned = caller.count_in_log("\"planned\"");
    let run = caller.person.kumiko_home().join("run/site.json");
    let run: Value = serde_json::from_str(&std::fs::read_to_string(run).unwrap()).unwrap();
    caller.person.kill_site();
    let mut start = engines::start(engine);
    start[3] = run["address"].as_str().unwrap();
    caller.person.ok(start.into_iter().chain(PILOTS));
    assert_eq!(caller.end(call), json!({"done": [400]}));
    assert_eq!(caller.count_in_log("\"planned\""), planned);
    caller.nothing_is_left();
}

/// A call of samples/slow that is recorded as started, with the processes of the runner beside it.
fn slow(caller: &Caller, steps: &str, done: &str) -> (std::process::Child, Vec<u32>) {
    let started = caller.count_in_log("\"started\"");
    let call = caller.begin(&["samples/slow", steps, "10000", done]);
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") > started
    });
    let (_, runners) = runners::pilots_and_runners(&caller.person);
    (call, runners)
}

#[test]
fn a_call_whose_host_falls_silent_is_computed_elsewhere_and_has_one_result() {
    let test = "a_call_whose_host_falls_silent_is_computed_elsewhere_and_has_one_result";
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    person.ok(engines::start("slurm").into_iter().chain(PILOTS));
    let caller = Caller { person };
    caller.make(&["samples"], &[]);
    let done = caller.file("done.npy", &npy_of_whole(&[1], &[100]));
    let count = |what: &str| caller.count_in_log(what);
    // Stopped, as by a host that is paused: it would have its result soon after it goes on.
    let (call, mut host) = slow(&caller, "600", &done);
    host.push(caller.routine_pid(&[]));
    host.iter().for_each(|pid| kill(*pid, "STOP"));
    until("its host is suspect", || count("\"suspected\"") == 1);
    until("it is computed elsewhere", || {
        count("\"epoch\":2,\"host\"") == 1
    });
    assert_eq!(count("host_lost"), 1);
    go_on_to_the_end(&host);
    assert_eq!(caller.end(call), json!({"done": [700]}));
    assert_eq!((count("\"planned\""), count("\"finished\"")), (2, 1));

    // A link that is cut for a while is no loss.
    let (call, _) = slow(&caller, "1200", &done);
    let spools = caller.person.kumiko_home().join("state/rpc/spool");
    let entries = std::fs::read_dir(&spools).unwrap().flatten();
    let newest = entries
        .map(|one| one.path())
        .filter(|path| path.join("stdout").exists() && !path.join("status").exists())
        .max()
        .unwrap();
    let (control, away) = (newest.join("control"), newest.join("control.away"));
    std::fs::rename(&control, &away).unwrap();
    // It takes the place of the site's.
    let taken = UnixStream::connect(&away).unwrap();
    until("its host is suspect", || count("\"suspected\"") == 2);
    std::fs::rename(&away, &control).unwrap();
    until("it is heard again", || count("\"trusted\"") == 1);
    drop(taken);
    assert_eq!(caller.end(call), json!({"done": [1300]}));
    assert_eq!((count("\"planned\""), count("\"finished\"")), (3, 2));
    caller.nothing_is_left();
}

/// Where Slurm has the one pilot of the site's calls.
fn host_of_calls(caller: &Caller) -> String {
    let spool = caller.person.kumiko_home().join("state/rpc/spool/site");
    let tag = format!("kumiko-{}-", std::fs::read_to_string(spool).unwrap());
    let line = ["--noheader", "--states=running", "--me", "-o", "%j %N"];
    let text = engines::said(&caller.person, "squeue", &line);
    let own: Vec<&str> = text.lines().filter(|line| line.starts_with(&tag)).collect();
    let [one] = own[..] else {
        panic!("it has {own:?}");
    };
    one.split_once(' ').unwrap().1.to_owned()
}

fn is_drained(caller: &Caller, host: &str) {
    let line = format!("host {host}   drained");
    until("the host is drained", || {
        caller.person.ok(["site", "status"]).contains(&line)
    });
}

#[test]
fn a_call_with_checkpoints_leaves_a_drained_host_at_once_and_loses_nothing() {
    let test = "a_call_with_checkpoints_leaves_a_drained_host_at_once_and_loses_nothing";
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    person.ok(engines::start("slurm").into_iter().chain(["--pilots", "1"]));
    let mut caller = Caller { person };
    caller.make_with_checkpoints(&["steps"]);
    let x = caller.file("x.npy", &npy(&[1000], &[0.; 1000]));
    // At step 40 it hangs, if it is the first that computes it.
    let call = caller.begin(&["steps/relax", "100", "40", "2", &x, "--out", "x=back.npy"]);
    caller.checkpoints(41);
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") == 1
    });
    let host = host_of_calls(&caller);
    caller.person.ok(["site", "drain", &host]);
    let told: [u64; 3] = serde_json::from_value(caller.end(call)["told"].clone()).unwrap();
    let [steps, of_the_last, checkpoint] = told;
    assert!([40, 41].contains(&checkpoint), "{told:?}");
    assert_eq!((steps, of_the_last), (100, 100 - (checkpoint - 1)));
    is_drained(&caller, &host);
    assert_ne!(host_of_calls(&caller), host);
    caller.nothing_is_left();
}

/// The pilot that has the process which computes a call last, or computed it.
fn pilot_of_call(caller: &Caller, id: &str) -> String {
    let record = caller.person.ok(["rpc", "show", id]);
    let last = record
        .rsplit_once(" goes to worker ")
        .unwrap_or_else(|| panic!("{record}"));
    let worker = last.1.split(',').next().unwrap();
    let spools = caller.person.kumiko_home().join("state/rpc/spool");
    let mut given = String::new();
    until("a pilot has it", || {
        given =
            std::fs::read_to_string(spools.join(format!("{worker}.1/pilot"))).unwrap_or_default();
        !given.is_empty()
    });
    given.split(' ').next().unwrap().to_owned()
}

/// A call of steps/relax that hangs at its step 40, if it is the first that computes it; and its number.
fn hanging(caller: &Caller, x: &str) -> (std::process::Child, String) {
    let started = caller.count_in_log("\"started\"");
    let call = caller.begin(&["steps/relax", "100", "40", "2", x, "--out", "x=back.npy"]);
    caller.checkpoints(41);
    until("it is recorded as started", || {
        caller.count_in_log("\"started\"") > started
    });
    (call, caller.open_call())
}

#[test]
fn a_call_with_checkpoints_leaves_a_slot_that_htcondor_takes_back_and_loses_nothing() {
    let test = "a_call_with_checkpoints_leaves_a_slot_that_htcondor_takes_back_and_loses_nothing";
    let Some(person) = engines::user("condor", test) else {
        return;
    };
    person.ok(engines::start("condor")
        .into_iter()
        .chain(["--pilots", "1"]));
    let mut caller = Caller { person };
    caller.make_with_checkpoints(&["steps"]);
    let x = caller.file("x.npy", &npy(&[1000], &[0.; 1000]));
    let (call, _) = hanging(&caller, &x);
    engines::vacate(&caller.person, "rpc/spool");
    let told: [u64; 3] = serde_json::from_value(caller.end(call)["told"].clone()).unwrap();
    let [steps, of_the_last, checkpoint] = told;
    assert!([40, 41].contains(&checkpoint), "{told:?}");
    assert_eq!((steps, of_the_last), (100, 100 - (checkpoint - 1)));
    // Before HTCondor ended anything.
    assert_eq!(caller.count_in_log("\"preempted\""), 1);
    caller.nothing_is_left();
}

/// `sloty@host` of HTCondor's: where the pilots of calls are.
fn hosts_of_pilots(caller: &Caller) -> Vec<String> {
    let pilots = engines::pilots(&caller.person, "rpc/spool");
    let line = ["-constraint", &pilots, "-af", "RemoteHost"];
    let text = engines::said(&caller.person, "condor_q", &line);
    let host = |line: &str| line.rsplit('@').next().unwrap_or_default().to_owned();
    text.lines().map(host).collect()
}

#[test]
fn a_call_whose_slot_is_taken_back_by_condor_vacate_job_goes_on_at_another_host() {
    let test = "a_call_whose_slot_is_taken_back_by_condor_vacate_job_goes_on_at_another_host";
    let Some((engine, person)) = engines::networked(test) else {
        return;
    };
    person.ok(engines::start("condor")
        .into_iter()
        .chain(["--pilots", "1"]));
    let mut caller = Caller { person };
    caller.make_with_checkpoints(&["steps"]);
    let x = caller.file("x.npy", &npy(&[1000], &[0.; 1000]));
    let (call, id) = hanging(&caller, &x);
    let before = hosts_of_pilots(&caller);
    let [first] = &before[..] else {
        panic!("they are at {before:?}");
    };
    engines::owner_is_back(&engine, first);
    until("nothing starts there", || {
        let line = ["-constraint", "Start =!= true", "-af", "Machine"];
        let asked = finish(&mut caller.person.program("condor_status", line));
        String::from_utf8(asked.stdout).unwrap().contains(first)
    });
    engines::vacate(&caller.person, "rpc/spool");
    let told: [u64; 3] = serde_json::from_value(caller.end(call)["told"].clone()).unwrap();
    let [steps, of_the_last, checkpoint] = told;
    assert!([40, 41].contains(&checkpoint), "{told:?}");
    assert_eq!((steps, of_the_last), (100, 100 - (checkpoint - 1)));
    let after = hosts_of_pilots(&caller);
    assert!(!after.is_empty() && !after.contains(first), "{after:?}");
    let record = caller.person.ok(["rpc", "show", &id]);
    for words in [
        "attempt 1 lost its place",
        "attempt 2 goes to worker 2, from checkpoint",
    ] {
        assert!(record.contains(words), "{record}");
    }
    caller.nothing_is_left();
}

#[test]
fn a_call_migrates_to_the_host_that_is_named_and_to_none_that_has_no_pilot() {
    let test = "a_call_migrates_to_the_host_that_is_named_and_to_none_that_has_no_pilot";
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    person.ok(engines::start("slurm").into_iter().chain(PILOTS));
    let mut caller = Caller { person };
    caller.make_with_checkpoints(&["steps"]);
    let x = caller.file("x.npy", &npy(&[1000], &[0.; 1000]));
    let (call, id) = hanging(&caller, &x);
    let first = host_of_calls(&caller);
    let nodes = finish(&mut caller.person.program("sinfo", ["-hN", "-o", "%N"]));
    let nodes = String::from_utf8(nodes.stdout).unwrap();
    let other = nodes.lines().find(|node| node.trim() != first).unwrap();
    let other = other.trim();
    let refused = |host: &str| {
        let output = caller.person.run(["rpc", "migrate", &id, "--to", host]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let expected = format!("no pilot of this site takes calls on \"{host}\"");
        assert!(said.contains(&expected), "{said}");
        said
    };
    assert!(refused(other).contains(&format!("there are some on {first}")));
    // The next pilot has no room beside the first.
    let line = ["--parsable", "--nodelist", &first, "--cpus-per-task", "31"];
    let line = line.into_iter().chain(["--wrap", "exec sleep 600"]);
    let filling = finish(&mut caller.person.program("sbatch", line));
    let filling = String::from_utf8(filling.stdout).unwrap();
    until("the first host is full", || {
        let line = ["--noheader", "--jobs", filling.trim(), "-o", "%T"];
        engines::said(&caller.person, "squeue", &line) == "RUNNING"
    });
    caller.call(&["steps/relax", "10", "100", "0", &x, "--out", "x=few.npy"]);
    assert_eq!(pilot_of_call(&caller, &id), "1");
    let both = refused("nowhere");
    assert!(both.contains(&first) && both.contains(other), "{both}");
    // Whatever process is warm and idle on the other host.
    caller.person.ok(["rpc", "migrate", &id, "--to", &first]);
    let resumed = |call| {
        let told: [u64; 3] = serde_json::from_value(caller.end(call)["told"].clone()).unwrap();
        assert!([40, 41].contains(&told[2]), "{told:?}");
    };
    resumed(call);
    assert_eq!(pilot_of_call(&caller, &id), "1");
    let record = caller.person.ok(["rpc", "show", &id]);
    let words = format!("attempt 1 is to go on at {first}, as its caller asked");
    assert!(record.contains(&words), "{record}");
    // And the other way, from where it is.
    let (call, id) = hanging(&caller, &x);
    let (to, pilot) = match pilot_of_call(&caller, &id).as_str() {
        "1" => (other, "2"),
        _ => (first.as_str(), "1"),
    };
    caller.person.ok(["rpc", "migrate", &id, "--to", to]);
    resumed(call);
    assert_eq!(pilot_of_call(&caller, &id), pilot);
    finish(&mut caller.person.program("scancel", [filling.trim()]));
    caller.nothing_is_left();
}

#[test]
fn calls_leave_a_drained_host_and_are_computed_elsewhere() {
    let test = "calls_leave_a_drained_host_and_are_computed_elsewhere";
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    person.ok(engines::start("slurm").into_iter().chain(["--pilots", "1"]));
    let caller = Caller { person };
    caller.make(&["samples"], &[]);
    let done = caller.file("done.npy", &npy_of_whole(&[1], &[100]));
    let slow = |steps: &'static str| {
        let started = caller.count_in_log("\"started\"");
        let call = caller.begin(&["samples/slow", steps, "10000", &done]);
        until("it is recorded as started", || {
            caller.count_in_log("\"started\"") > started
        });
        call
    };
    // It comes to its end there, and the next is elsewhere.
    let call = slow("400");
    let host = host_of_calls(&caller);
    caller.person.ok(["site", "drain", &host]);
    assert_eq!(caller.end(call), json!({"done": [500]}));
    is_drained(&caller, &host);
    let again = || caller.count_in_log("\"planned\":{\"epoch\":2");
    assert_eq!(again(), 0);
    let call = slow("400");
    let other = host_of_calls(&caller);
    assert_ne!(host, other);
    // At once: it begins anew, on the one that is not drained any more.
    caller.person.ok(["site", "drain", "--undo", &host]);
    caller.person.ok(["site", "drain", "--now", &other]);
    is_drained(&caller, &other);
    assert_eq!(caller.end(call), json!({"done": [500]}));
    assert_eq!(again(), 1);
    caller.nothing_is_left();
}

#[test]
fn calls_are_computed_in_pilots_of_slurm() {
    calls_are_computed_in_pilots("slurm", "calls_are_computed_in_pilots_of_slurm");
}

#[test]
fn calls_are_computed_in_pilots_of_htcondor() {
    calls_are_computed_in_pilots("condor", "calls_are_computed_in_pilots_of_htcondor");
}

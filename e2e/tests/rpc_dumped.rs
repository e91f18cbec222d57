//! Routines that link nothing and go on where they were, from a dump by CRIU, in the midst of their call (spec/rpc P85 to P88).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dumping;
#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;
mod runners;

use dumping::Dumping;
use kumiko_e2e::{dead, go_on_to_the_end, kill, told, until};
use routines::{Caller, npy, numpy_is_here, python};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

/// Adds x to y at each step, until a file says that it is enough: y is memory that is the file of the result, x is one that is private to
/// it, and both are changed at each step. What it counts in its own file, it has open.
const ADDS: &str = r#"Module adds;

Globals { #include <stdio.h> }
Globals { #include <unistd.h> }

Define up(IN int n, INOUT double x[n], OUT double y[n], OUT long told[2])
"y: x times steps; x: with steps added. told: steps, and lines of its file."
{
    long steps = 0, lines = 0;
    FILE *file = fopen("lines", "w+");
    if (!file) _exit(1);
    while (access("enough", F_OK)) {
        for (int i = 0; i < n; i++) {
            y[i] += x[i];
            x[i] += 1;
        }
        fprintf(file, "%ld\n", ++steps);
        fflush(file);
        usleep(2000);
    }
    rewind(file);
    for (int c; (c = fgetc(file)) != EOF; ) lines += c == '\n';
    fclose(file);
    told[0] = steps;
    told[1] = lines;
}

Define asks(IN int times, OUT int *sum, f(IN int x, OUT int y[1])) "sum: of what f says of 1, 2, ..., now and then"
{
    *sum = 0;
    for (int i = 1, said; i <= times; i++) {
        f(i, &said);
        *sum += said;
        usleep(20000);
    }
}
"#;

/// With the threads of numpy's library.
const TURNS: &str = r#"import os
import time

import numpy

import kumiko
from kumiko import Array, InOut


@kumiko.routine
def turn(x: InOut["float64", "n"]) -> int:
    """Turns x by a right angle until a file says that it is enough; how often."""
    quarter = numpy.kron(numpy.eye(len(x) // 2), [[0.0, -1.0], [1.0, 0.0]])
    turns = 0
    with open("lines", "w") as file:
        while not os.path.exists("enough"):
            x[:] = quarter @ x
            turns += 1
            print(turns, file=file, flush=True)
            time.sleep(0.002)
    return turns
"#;

/// Calls it with so many questions, and says how often each was asked; the third is answered after so many seconds.
const ANSWERS: &str = r#"import collections
import sys
import time

import kumiko

asked = collections.Counter()
times, seconds = int(sys.argv[1]), float(sys.argv[2])

def double(x):
    asked[int(x)] += 1
    if x == 3:
        time.sleep(seconds)
    return [2 * x]

print(kumiko.rpc("adds/asks")(times, double), sorted(set(asked.values())), len(asked))
"#;

/// More than travels beside the words: files of arguments, and of the result.
const ELEMENTS: usize = 10_000;

/// All jobs of the pool are taken from their hosts at once.
static TURN: Mutex<()> = Mutex::new(());

struct Place {
    caller: Caller,
    dumping: Dumping,
}

impl Place {
    fn new(test: &str) -> Option<Place> {
        Place::of(dumping::new(test)?)
    }

    fn of((person, dumping): (kumiko_e2e::Person, Dumping)) -> Option<Place> {
        let caller = Caller { person };
        dumping.start(&caller.person);
        caller.person.file("adds.idl", ADDS);
        caller.gen_and_register("adds", &[]);
        Some(Place { caller, dumping })
    }

    fn begin(&self) -> Child {
        let start: Vec<f64> = (0u32..).take(ELEMENTS).map(f64::from).collect();
        let n = ELEMENTS.to_string();
        let x = self.caller.file("x.npy", &npy(&[ELEMENTS as u64], &start));
        let outs = ["--out", "x=x.out.npy", "--out", "y=y.out.npy"];
        let call = [&["adds/up", &n, &x][..], &outs].concat();
        self.caller.begin(&call)
    }

    /// Folders of workers with such a thing in them.
    fn workers(&self, with: &str) -> Vec<PathBuf> {
        let workers = std::fs::read_dir(self.caller.state().join("workers"));
        let workers = workers.into_iter().flatten().flatten();
        let paths = workers.map(|one| one.path().join(with));
        paths.filter(|path| path.exists()).collect()
    }

    /// Where the dump of this number lies, once it is whole.
    fn dumped(&self, number: u64) -> PathBuf {
        let name = format!("dumps/{number}");
        until("it is dumped", || !self.workers(&name).is_empty());
        self.workers(&name).remove(0)
    }

    fn kill_and_start_again_after(&self, meanwhile: impl FnOnce()) {
        let person = &self.caller.person;
        let file = person.kumiko_home().join("run/site.json");
        let text = std::fs::read_to_string(file).unwrap();
        let site: Value = serde_json::from_str(&text).unwrap();
        person.kill_site();
        meanwhile();
        self.dumping
            .start_at(person, site["address"].as_str().unwrap());
    }

    /// How far each has counted; of those that have nothing to do there may be some.
    fn counts(&self) -> HashMap<PathBuf, usize> {
        let all = self.workers("job/lines").into_iter();
        let lines = |file: PathBuf| {
            let text = std::fs::read_to_string(&file).ok()?;
            Some((file, text.lines().count()))
        };
        all.filter_map(lines).collect()
    }

    /// Waits until so many count further: the files in which they do.
    #[track_caller]
    fn counting(&self, processes: usize) -> Vec<PathBuf> {
        let (begun, mut counting) = (self.counts(), Vec::new());
        until("they count", || {
            let goes_on = |(file, lines): &(PathBuf, usize)| {
                *lines > begun.get(file).copied().unwrap_or(0) + 20
            };
            let now = self.counts().into_iter().filter(goes_on);
            counting = now.map(|(file, _)| file).collect();
            counting.len() >= processes
        });
        counting
    }

    /// Has the routine end by itself, once it has counted further; what it gives.
    #[track_caller]
    fn end(&self, call: Child, processes: usize) -> Value {
        let counting = self.counting(processes).into_iter();
        let enough: Vec<PathBuf> = counting.map(|one| one.with_file_name("enough")).collect();
        enough
            .iter()
            .for_each(|one| std::fs::write(one, "").unwrap());
        let result = self.caller.end(call);
        for one in enough {
            let _ = std::fs::remove_file(one); // it goes with its worker
        }
        result
    }

    /// Each step was done once.
    #[track_caller]
    fn ends_well(&self, call: Child) {
        self.is_right(call, 1);
        self.caller.nothing_is_left();
    }

    #[track_caller]
    fn is_right(&self, call: Child, processes: usize) {
        let result = self.end(call, processes);
        let told: [u64; 2] = serde_json::from_value(result["told"].clone()).unwrap();
        let [steps, lines] = told;
        assert_eq!(steps, lines);
        let steps_before = (0..steps).sum::<u64>() as f64;
        let expected: [Vec<f64>; 2] = {
            let start = (0u32..).take(ELEMENTS).map(f64::from);
            let x = start.clone().map(|x| x + steps as f64);
            let y = start.map(|x| x * steps as f64 + steps_before);
            [x.collect(), y.collect()]
        };
        for (name, expected) in ["x.out.npy", "y.out.npy"].iter().zip(expected) {
            let back = std::fs::read(self.caller.person.home.path().join(name)).unwrap();
            let bytes: Vec<u8> = expected.into_iter().flat_map(f64::to_le_bytes).collect();
            assert!(back.ends_with(&bytes), "{name} is another");
        }
    }

    fn record(&self) -> String {
        let id = self.caller.open_call();
        self.caller.person.ok(["rpc", "show", &id])
    }
}

#[test]
fn a_call_that_is_interrupted_while_it_is_dumped_leaves_nothing() {
    let test = "a_call_that_is_interrupted_while_it_is_dumped_leaves_nothing";
    let Some(place) = Place::new(test) else {
        return;
    };
    for _ in 0..2 {
        let call = place.begin();
        until("it is being dumped", || {
            !place.workers("dumps/new").is_empty()
        });
        kill(call.id(), "INT");
        let output = call.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", told(&output));
        until("its process is gone", || place.workers("job").is_empty());
        place.caller.nothing_is_left();
    }
}

#[test]
fn a_routine_that_links_nothing_goes_on_whoever_is_killed() {
    let test = "a_routine_that_links_nothing_goes_on_whoever_is_killed";
    let Some(place) = Place::new(test) else {
        return;
    };
    let caller = &place.caller;
    let listed = caller.person.ok(["rpc", "list"]);
    let line = |name: &str| listed.lines().find(|line| line.contains(name)).unwrap();
    assert!(line("adds/up").ends_with("[dump]"), "{listed}");
    // Its process is dumped, answers, and is told another call.
    let call = place.begin();
    place.dumped(1);
    let first = caller.routine_pid(&[]);
    place.ends_well(call);
    let call = place.begin();
    assert_eq!(caller.routine_pid(&[]), first);
    place.dumped(2);
    dead(first);
    let second = caller.routine_pid(&[first]);
    let dumped = |number: i64| caller.count_in_log("\"planned\":%\"checkpoint\":") == number;
    until("it is planned from its dump", || dumped(1));
    let record = place.record();
    assert!(
        record.contains("computes: it is dumped by CRIU "),
        "{record}"
    );
    // The one that goes on is dumped too; and it is found again by the next site, and lost without one.
    place.dumped(3);
    place.kill_and_start_again_after(|| {});
    place.dumped(4);
    place.kill_and_start_again_after(|| dead(second));
    caller.routine_pid(&[first, second]);
    until("it is planned from its dump again", || dumped(2));
    place.ends_well(call);
}

#[test]
fn a_call_whose_dumps_are_of_no_use_begins_anew_and_has_its_result() {
    let test = "a_call_whose_dumps_are_of_no_use_begins_anew_and_has_its_result";
    let Some(place) = Place::new(test) else {
        return;
    };
    let caller = &place.caller;
    let call = place.begin();
    place.dumped(2);
    let first = caller.routine_pid(&[]);
    place.kill_and_start_again_after(|| {
        dead(first);
        for number in ["1", "2"] {
            for dump in place.workers(&format!("dumps/{number}")) {
                std::fs::write(dump.join("pages-1.img.lz4"), "torn").unwrap();
            }
        }
    });
    caller.routine_pid(&[first]);
    until("it is planned anew", || {
        caller.count_in_log("\"bad_checkpoint\"") > 0 && !place.workers("job/lines").is_empty()
    });
    let record = place.record();
    let last = record
        .lines()
        .rfind(|line| line.contains("goes to"))
        .unwrap();
    assert!(last.ends_with("from the beginning"), "{record}");
    place.ends_well(call);
}

#[test]
fn a_call_migrates_from_its_dump_and_is_not_dumped_where_the_site_does_not_say_so() {
    let test = "a_call_migrates_from_its_dump_and_is_not_dumped_where_the_site_does_not_say_so";
    let Some(place) = Place::new(test) else {
        return;
    };
    let caller = &place.caller;
    let call = place.begin();
    place.dumped(1);
    let id = caller.open_call();
    caller.person.ok(["rpc", "migrate", &id]);
    until("it goes on from its dump", || {
        caller.count_in_log("\"planned\":%\"checkpoint\":") == 1
    });
    place.ends_well(call);

    place.dumping.policy(&caller.person, "");
    until("the policy holds", || {
        let listed = caller.person.ok(["rpc", "list"]);
        !listed.contains("[dump]")
    });
    let call = place.begin();
    until("it is recorded as started", || {
        caller.count_in_log("it would begin anew") == 1
    });
    let id = caller.open_call();
    let refused = caller.person.run(["rpc", "migrate", &id]);
    assert!(!refused.status.success());
    place.ends_well(call);
}

#[test]
fn a_call_that_htcondor_takes_from_its_host_goes_on_from_its_dump() {
    let test = "a_call_that_htcondor_takes_from_its_host_goes_on_from_its_dump";
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(place) = dumping::on_condor(test).and_then(Place::of) else {
        return;
    };
    let caller = &place.caller;
    let call = place.begin();
    place.dumped(1);
    engines::said(&caller.person, "condor_vacate_job", &["-all"]);
    until("it goes on from its dump", || {
        caller.count_in_log("\"planned\":%\"checkpoint\":") == 1
    });
    place.ends_well(call);
}

#[test]
fn a_call_whose_pilot_slurm_ends_goes_on_from_its_dump() {
    let test = "a_call_whose_pilot_slurm_ends_goes_on_from_its_dump";
    let Some(place) = dumping::on_slurm(test).and_then(Place::of) else {
        return;
    };
    let caller = &place.caller;
    let call = place.begin();
    place.dumped(1);
    engines::said(&caller.person, "scancel", &["--me"]);
    until("it goes on from its dump", || {
        caller.count_in_log("\"planned\":%\"checkpoint\":") == 1
    });
    place.ends_well(call);
}

#[test]
fn a_call_whose_host_is_silent_goes_on_from_a_copy_of_its_dump() {
    let test = "a_call_whose_host_is_silent_goes_on_from_a_copy_of_its_dump";
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(place) = dumping::on_condor(test).and_then(Place::of) else {
        return;
    };
    let caller = &place.caller;
    let call = place.begin();
    let mut newest = 0;
    let host = loop {
        newest += 1;
        place.dumped(newest);
        let (_, host) = runners::pilots_and_runners(&caller.person);
        host.iter().for_each(|pid| kill(*pid, "STOP"));
        // Its process goes on, and writes; but for one that stands still for its next dump.
        let before = place.counts();
        std::thread::sleep(std::time::Duration::from_millis(200));
        if place.counts() != before {
            break host;
        }
        host.iter().for_each(|pid| kill(*pid, "CONT"));
    };
    until("its host is suspect", || {
        caller.count_in_log("\"suspected\"") == 1
    });
    until("it is planned from its dump", || {
        caller.count_in_log("\"planned\":%\"checkpoint\":") == 1
    });
    place.is_right(call, 2);
    go_on_to_the_end(&host);
    caller.nothing_is_left();
}

#[test]
fn a_routine_in_python_goes_on_from_its_dump() {
    let test = "a_routine_in_python_goes_on_from_its_dump";
    if !numpy_is_here(test) {
        return;
    }
    let Some(place) = Place::new(test) else {
        return;
    };
    let caller = &place.caller;
    caller.person.file("turns.py", TURNS);
    caller.gen_and_register("turns", &[]);
    let x = caller.file("x.npy", &npy(&[100], &[1.0; 100]));
    let call = caller.begin(&["turns/turn", &x]);
    place.dumped(1);
    let first = caller.routine_pid(&[]);
    dead(first);
    caller.routine_pid(&[first]);
    let result = place.end(call, 1);
    let turns = result["result"][0].as_u64().unwrap();
    let expected = match turns % 4 {
        0 => [1.0, 1.0],
        1 => [-1.0, 1.0],
        2 => [-1.0, -1.0],
        _ => [1.0, -1.0],
    };
    let x: Vec<f64> = serde_json::from_value(result["x"].clone()).unwrap();
    assert_eq!(x, expected.repeat(50));
    assert_eq!(caller.count_in_log("\"planned\":%\"checkpoint\":"), 1);
}

/// Of a routine that asks its caller, killed once it is dumped; what its caller says in the end.
fn asks(test: &str, times: &str, seconds: &str) -> Option<String> {
    if !numpy_is_here(test) {
        return None;
    }
    let place = Place::new(test)?;
    let caller = &place.caller;
    caller.person.file("answers.py", ANSWERS);
    let mut calling = python(caller, &["answers.py", times, seconds]);
    let calling = calling.stdout(Stdio::piped()).stderr(Stdio::piped());
    let calling = calling.spawn().unwrap();
    place.dumped(1);
    let first = caller.routine_pid(&[]);
    dead(first);
    let output = calling.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(caller.count_in_log("\"planned\":%\"checkpoint\":"), 1);
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_routine_goes_on_from_its_dump_and_its_caller_is_asked_once() {
    let test = "a_routine_goes_on_from_its_dump_and_its_caller_is_asked_once";
    if let Some(said) = asks(test, "200", "0") {
        assert_eq!(said, "40200 [1] 200\n");
    }
}

#[test]
fn a_routine_goes_on_from_its_dump_where_it_waits_for_its_caller() {
    let test = "a_routine_goes_on_from_its_dump_where_it_waits_for_its_caller";
    if let Some(said) = asks(test, "5", "4") {
        assert_eq!(said, "30 [1] 5\n");
    }
}

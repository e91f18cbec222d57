//! Batch jobs that somebody hands to HTCondor or Slurm himself, whose program `kumiko-run --self-checkpointing` runs: they begin again
//! where they were (spec/jobs/runner.md, R40 to R47).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dumping;
#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;

use engines::said;
use kumiko_e2e::{Person, finish, has_program, kill, kumiko, skip, told, until};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints a line at each step, of 20 ms, and writes it to a file that stays open.
const COUNTS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int words, char **word) {
    struct timespec pause_20_ms = {0, 20000000};
    FILE *trace = fopen("trace", "w");
    if (words != 3 || !trace)
        return 1;
    for (int i = 1; i <= atoi(word[1]); i++) {
        nanosleep(&pause_20_ms, 0);
        printf("%d\n", i);
        fprintf(trace, "%d\n", i);
        fflush(0);
    }
    return atoi(word[2]);
}
"#;
/// The same with the library, which makes no checkpoint by itself in less than an hour.
const LINKED: &str = r#"
#include "kumiko_ckpt.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int words, char **word) {
    struct timespec pause_20_ms = {0, 20000000};
    long i = 1;
    if (words != 3)
        return 1;
    kumiko_ckpt_state("i", &i, sizeof i);
    FILE *trace = kumiko_ckpt_fopen("trace", "trace", "w");
    kumiko_ckpt_every(3600);
    unsigned long resumed = kumiko_ckpt_resumed();
    if (!trace)
        return 2;
    if (resumed)
        printf("goes on at %ld\n", i);
    /* Another process makes no checkpoints, and ends as ever. */
    pid_t child = fork();
    if (!child)
        for (;;)
            pause();
    kill(child, SIGTERM);
    if (waitpid(child, 0, 0) != child)
        return 3;
    for (; i <= atoi(word[1]); i++) {
        kumiko_ckpt_point();
        nanosleep(&pause_20_ms, 0);
        fprintf(trace, "%ld\n", i);
        fflush(0);
    }
    return atoi(word[2]);
}
"#;

fn runner() -> PathBuf {
    kumiko().with_file_name("kumiko-run")
}

fn compile(person: &Person, source: &str) {
    let source = person.file("program.c", source);
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c/kumiko");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-I"]).arg(headers).arg(&source).arg("-L");
    cc.arg(routines::library("libkumikockpt.a", "kumiko-checkpoint-c"));
    cc.args(["-lm", "-lkumikockpt", "-lpthread", "-ldl", "-lm", "-o"]);
    let output = finish(cc.arg(person.home.path().join("count")));
    assert!(output.status.success(), "{}", told(&output));
}

fn read(person: &Person, name: &str) -> String {
    std::fs::read_to_string(person.home.path().join(name)).unwrap_or_default()
}

fn lines(person: &Person, name: &str) -> usize {
    read(person, name).lines().count()
}

/// Each step stands there once.
#[track_caller]
fn is_right(person: &Person, name: &str, steps: usize) {
    let mut expected = String::new();
    (1..=steps).for_each(|step| writeln!(expected, "{step}").unwrap());
    let read = read(person, name);
    assert!(read == expected, "{name}: {read}");
}

/// Hands it to HTCondor, each start at another host than the one before. `says`: what `kumiko-run` is told besides.
fn submit(person: &Person, says: &str, steps: usize) -> String {
    let path = person.variables.iter().find(|(name, _)| *name == "PATH");
    let path = path.unwrap().1.to_string_lossy();
    let text = format!(
        "executable = {}\n\
         arguments = --self-checkpointing ck {says}-- ./count {steps} 7\n\
         transfer_input_files = count\n\
         should_transfer_files = YES\n\
         when_to_transfer_output = ON_EXIT_OR_EVICT\n\
         checkpoint_exit_code = 85\n\
         transfer_checkpoint_files = ck, trace\n\
         transfer_output_files = ck, trace\n\
         requirements = regexp(ifThenElse(MY.NumJobStarts % 2 == 0, \"hosta\", \"hostb\"), TARGET.Name)\n\
         environment = \"PATH={path} KUMIKO_CHECKPOINT_FAILURES_S=1\"\n\
         output = out\nerror = err\nlog = log\nqueue\n",
        runner().display()
    );
    person.file("job.sub", &text);
    let told = said(person, "condor_submit", &["-terse", "job.sub"]);
    let job = told.split(' ').next().unwrap().to_owned();
    until("it is there", || hosts(person).len() == 1);
    job
}

/// On which hosts it was, in turn.
fn hosts(person: &Person) -> Vec<String> {
    let log = read(person, "log");
    let begun = log
        .lines()
        .filter(|line| line.contains("Job executing on host"));
    let hosts = begun.filter_map(|line| line.split("sock=").nth(1));
    hosts
        .map(|host| host.chars().take("hosta".len()).collect())
        .collect()
}

/// Steps that it has written on the host where it is.
fn steps_there(person: &Person) -> usize {
    let log = read(person, "log");
    let scratch = log.split("CondorScratchDir = \"").last().unwrap();
    let trace = Path::new(scratch.split('"').next().unwrap()).join("trace");
    std::fs::read_to_string(trace).map_or(0, |trace| trace.lines().count())
}

/// Its slot is taken once it has made some steps there.
fn vacate(person: &Person, job: &str, how: &[&str]) {
    let (starts, begun) = (hosts(person).len(), steps_there(person));
    until("it counts", || steps_there(person) > begun + 60);
    said(person, "condor_vacate_job", &[how, &[job]].concat());
    until("it begins again", || hosts(person).len() > starts);
}

#[track_caller]
fn ends_with_7(person: &Person) {
    until("it ends", || read(person, "log").contains("Job terminated"));
    let log = read(person, "log");
    assert!(log.contains("Normal termination (return value 7)"), "{log}");
}

#[test]
fn a_program_that_links_nothing_goes_on_where_htcondor_starts_it_again() {
    let test = "a_program_that_links_nothing_goes_on_where_htcondor_starts_it_again";
    let Some((person, _dumping)) = dumping::on_condor(test) else {
        return;
    };
    compile(&person, COUNTS);
    let job = submit(&person, "", 450);
    vacate(&person, &job, &[]);
    vacate(&person, &job, &[]);
    ends_with_7(&person);
    assert_eq!(hosts(&person), ["hosta", "hostb", "hosta"]);
    is_right(&person, "trace", 450);
    is_right(&person, "out", 450);
    let notes = read(&person, "err");
    let went_on = notes
        .lines()
        .filter(|line| line.contains("and goes on from its dump"));
    assert_eq!(went_on.count(), 2, "{notes}");
}

#[test]
fn a_program_that_makes_checkpoints_now_and_then_loses_what_came_after_the_last_at_most() {
    let test =
        "a_program_that_makes_checkpoints_now_and_then_loses_what_came_after_the_last_at_most";
    let Some((person, _dumping)) = dumping::on_condor(test) else {
        return;
    };
    compile(&person, COUNTS);
    let job = submit(&person, "--every 1 ", 300);
    until("it is there", || hosts(&person).len() == 1);
    // It is not told before it is killed.
    vacate(&person, &job, &["-fast"]);
    ends_with_7(&person);
    assert_eq!(hosts(&person), ["hosta", "hostb"]);
    is_right(&person, "trace", 300);
    is_right(&person, "out", 300);
    // It went on in its slot several times, too.
    let notes = read(&person, "err");
    let starts = notes
        .lines()
        .filter(|line| line.contains("it is dumped by CRIU"));
    assert!(starts.count() > 3, "{notes}");
}

#[test]
fn a_program_that_links_the_library_makes_its_checkpoint_when_its_slot_is_taken() {
    let test = "a_program_that_links_the_library_makes_its_checkpoint_when_its_slot_is_taken";
    if !has_program("cc") {
        return skip(test, "cc");
    }
    let Some(person) = engines::user("condor", test) else {
        return;
    };
    compile(&person, LINKED);
    let job = submit(&person, "", 300);
    vacate(&person, &job, &[]);
    ends_with_7(&person);
    assert_eq!(hosts(&person), ["hosta", "hostb"]);
    is_right(&person, "trace", 300);
    let out = read(&person, "out");
    let step = out.trim().strip_prefix("goes on at ").map(str::parse);
    let step: usize = step.unwrap_or_else(|| panic!("{out}")).unwrap();
    assert!(step > 30, "{out}");
}

/// Hands it to Slurm; its number there.
fn to_slurm(person: &Person, steps: usize) -> String {
    let script = format!(
        "#!/bin/sh\n#SBATCH --requeue --output=out --error=err\n\
         exec {} --self-checkpointing ck -- ./count {steps} 7\n",
        runner().display()
    );
    person.file("job.sh", &script);
    said(person, "sbatch", &["--parsable", "job.sh"])
}

#[test]
fn slurm_says_that_time_is_up_and_what_is_requeued_goes_on() {
    let test = "slurm_says_that_time_is_up_and_what_is_requeued_goes_on";
    let Some((person, _dumping)) = dumping::on_slurm(test) else {
        return;
    };
    compile(&person, COUNTS);
    let job = to_slurm(&person, 400);
    until("it counts", || lines(&person, "trace") > 60);
    let before = lines(&person, "trace");
    // What `--signal=B:USR1@SECONDS` has Slurm do when so much is left.
    said(&person, "scancel", &["--batch", "--signal=USR1", &job]);
    let went_on = |from: u64| {
        let notes = read(&person, "err");
        let dump = notes.split("and goes on from its dump ").nth(1);
        let dump = dump.and_then(|dump| dump.lines().next()?.parse().ok());
        dump.filter(|dump| *dump > from)
    };
    until("it goes on", || went_on(0).is_some());
    assert!(lines(&person, "trace") >= before);
    // A preemption, or a person, has it begin again, and tells all its processes to end: it goes on from its newest dump.
    let dump = went_on(0).unwrap();
    until("it counts on", || lines(&person, "trace") > before + 60);
    said(&person, "scontrol", &["requeue", &job]);
    until("it goes on once more", || went_on(dump).is_some());
    until("it ends", || said(&person, "squeue", &["-h"]).is_empty());
    is_right(&person, "trace", 400);
    is_right(&person, "out", 400);
}

#[test]
fn what_slurm_tells_to_end_makes_its_checkpoint_if_it_links_the_library() {
    let test = "what_slurm_tells_to_end_makes_its_checkpoint_if_it_links_the_library";
    if !has_program("cc") {
        return skip(test, "cc");
    }
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    compile(&person, LINKED);
    let job = to_slurm(&person, 200);
    until("it counts", || lines(&person, "trace") > 60);
    said(&person, "scontrol", &["requeue", &job]);
    until("it goes on", || read(&person, "out").contains("goes on at"));
    until("it ends", || said(&person, "squeue", &["-h"]).is_empty());
    is_right(&person, "trace", 200);
    let out = read(&person, "out");
    let step: usize = out.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(step > 60, "{out}");
}

/// As the engines run it, by hand.
fn by_hand(person: &Person, words: &str, script: &str) -> Command {
    let mut command = person.program(runner().to_str().unwrap(), ["--self-checkpointing"]);
    command
        .args(words.split_whitespace())
        .args(["--", "sh", "-c", script]);
    command
}

#[test]
fn it_ends_as_its_program_does_and_says_what_is_wrong() {
    let person = Person::new();
    let ended = |words: &str, script: &str| finish(&mut by_hand(&person, words, script));
    let output = ended("ck", "echo out; echo err >&2; test -w /job && exit 3");
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.ends_with("err\n"), "{errors}");
    assert_eq!(ended("ck", "kill -9 $$").status.code(), Some(137));
    assert_eq!(ended("ck", "echo x > /etc/x").status.code(), Some(2));
    let output = ended("ck", "touch /tmp/own && pwd && echo $TMPDIR");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/job\n/job\n");
    // What makes no checkpoint is not told that it is to.
    let output = ended("ck --every 1", "sleep 2; echo done");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    for (words, status, expected) in [
        ("../ck", 2, "is not a path below"),
        ("ck --every never", 2, "a whole number of seconds"),
        ("ck --policy none.toml", 125, "none.toml"),
    ] {
        let output = ended(words, "exit 0");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let mut missing = person.program(runner().to_str().unwrap(), ["--self-checkpointing", "ck"]);
    let output = finish(missing.args(["--", "./nothing"]));
    assert_eq!(output.status.code(), Some(127), "{}", told(&output));
}

#[test]
fn a_program_dies_with_it_and_is_told_what_it_is_told() {
    let person = Person::new();
    let begun = |script: &str| {
        let child = by_hand(&person, "ck", script).spawn().unwrap();
        until("it has begun", || lines(&person, "begun") == 1);
        child
    };
    let ends = |signal: &str| {
        let mut child = begun(
            "echo $$ > begun; trap 'echo told > told; exit 4' USR1; while :; do sleep 0.02; done",
        );
        kill(child.id(), signal);
        let status = child.wait().unwrap();
        std::fs::remove_file(person.home.path().join("begun")).unwrap();
        status.code()
    };
    // It makes no checkpoints, and has a word of its own for that.
    assert_eq!(ends("USR1"), Some(4));
    assert_eq!(read(&person, "told"), "told\n");
    assert_eq!(ends("TERM"), Some(143));
    assert_eq!(ends("INT"), Some(130));
    // Nobody else sleeps for so long.
    let mark = (1_000_000 + std::process::id()).to_string();
    let sleeps = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let mut words = all.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
        words.any(|words| words == format!("sleep\0{mark}\0").into_bytes())
    };
    let mut child = begun(&format!("echo $$ > begun; sleep {mark}; echo"));
    until("its program sleeps", sleeps);
    kill(child.id(), "KILL");
    child.wait().unwrap();
    until("its program is dead", || !sleeps());
}

//! A job whose program links the checkpoint library migrates when its owner says so, and goes on where it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports, unused_macros)]
mod engines;
mod routines;

use engines::said;
use kumiko_e2e::{Person, finish, has_program, skip, told, until};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// It hangs at its step 40, if it began at the beginning. Each step is told in a file.
const PROGRAM: &str = r#"
#include "kumiko_ckpt.h"
#include <stdio.h>
#include <unistd.h>
int main(void) {
    long i = 0;
    kumiko_ckpt_state("i", &i, sizeof i);
    FILE *trace = kumiko_ckpt_fopen("trace", "trace", "w");
    kumiko_ckpt_every(0);
    unsigned long resumed = kumiko_ckpt_resumed();
    long first = i;
    for (; i < 100; i++) {
        kumiko_ckpt_point();
        while (i == 40 && first == 0) {
            fprintf(trace, "lost");
            fflush(trace);
            fclose(fopen("hangs", "w"));
            pause();
        }
        fprintf(trace, "%ld\n", i);
    }
    printf("%s %ld\n", resumed ? "resumed" : "begun", i - first);
    return 0;
}
"#;

/// It makes no checkpoint by itself within the hour. How far it is it tells in a file, also in steps that a later start does again.
const RARELY: &str = r#"
#include "kumiko_ckpt.h"
#include <stdio.h>
#include <unistd.h>
int main(void) {
    long i = 0;
    kumiko_ckpt_state("i", &i, sizeof i);
    kumiko_ckpt_every(3600);
    unsigned long resumed = kumiko_ckpt_resumed();
    FILE *starts = fopen("starts", "a");
    fprintf(starts, "%s at %ld\n", resumed ? "resumed" : "begun", i);
    fclose(starts);
    for (;; i++) {
        kumiko_ckpt_point();
        FILE *at = fopen("at", "w");
        fprintf(at, "%ld\n", i);
        fclose(at);
        usleep(2000);
    }
    return 0;
}
"#;

fn compile(person: &Person) {
    compile_this(person, PROGRAM);
}

fn compile_this(person: &Person, source: &str) {
    let source = person.file("program/steps.c", source);
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c/kumiko");
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(headers).arg(&source).arg("-L");
    cc.arg(routines::library("libkumikockpt.a", "kumiko-checkpoint-c"));
    cc.args(["-lm", "-lkumikockpt", "-lpthread", "-ldl", "-lm", "-o"]);
    let output = finish(cc.arg(source.with_file_name("steps")));
    assert!(output.status.success(), "{}", told(&output));
}

#[track_caller]
fn refused(person: &Person, words: &[&str], expected: &str) {
    let output = person.run(["job", "migrate"].iter().chain(words));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_job_that_migrates_goes_on_from_its_newest_checkpoint() {
    let test = "a_job_that_migrates_goes_on_from_its_newest_checkpoint";
    if !has_program("cc") {
        return skip(test, "cc");
    }
    let person = Person::with_site();
    compile(&person);
    let submit = |options: &[&str]| {
        let words = ["job", "submit", "--dir", "program"].iter();
        let words = words.chain(options).chain(&["--", "./steps"]);
        let job = person.ok(words).trim().to_owned();
        let directory = person.kumiko_home().join("state/jobs").join(&job);
        until("it hangs", || directory.join("hangs").exists());
        job
    };
    let job = submit(&["--rerun"]);
    let other = submit(&[]);
    refused(&person, &[&other], "submit it with --rerun");
    person.ok(["job", "migrate", &job]);
    let waited = person.run(["job", "wait", &job]);
    assert_eq!(waited.status.code(), Some(0), "{}", told(&waited));
    let said = person.ok(["job", "log", &job]);
    let steps = said.trim().strip_prefix("resumed ");
    let steps: u64 = steps.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    assert!([60, 61].contains(&steps), "{said}");
    let trace = person
        .kumiko_home()
        .join("state/jobs")
        .join(&job)
        .join("trace");
    let trace = std::fs::read_to_string(trace).unwrap();
    assert_eq!(
        trace,
        (0..100).map(|step| format!("{step}\n")).collect::<String>()
    );
    let why = person.ok(["job", "explain", &job]);
    let words = "its owner has it migrate: attempt 1 is told to end";
    assert!(why.contains(words), "{why}");
    refused(&person, &[&job], "it has ended");
    assert!(person.ok(["job", "list"]).contains("active"), "the other");
    person.ok(["job", "cancel", &other, "--grace", "0"]);
}

#[test]
fn a_job_that_is_to_leave_makes_a_checkpoint_first() {
    let test = "a_job_that_is_to_leave_makes_a_checkpoint_first";
    if !has_program("cc") {
        return skip(test, "cc");
    }
    let person = Person::with_site();
    compile_this(&person, RARELY);
    let line = [
        "job", "submit", "--rerun", "--dir", "program", "--", "./steps",
    ];
    let job = person.ok(line).trim().to_owned();
    let directory = person.kumiko_home().join("state/jobs").join(&job);
    let at = || {
        let at = std::fs::read_to_string(directory.join("at")).unwrap_or_default();
        at.trim().parse::<u64>().unwrap_or(0)
    };
    for starts in 2..4 {
        let begun = at();
        until("it has come on", || at() > begun + 50);
        let before = at();
        person.ok(["job", "migrate", &job]);
        let said = || std::fs::read_to_string(directory.join("starts")).unwrap_or_default();
        until("it begins again", || said().lines().count() == starts);
        let said = said();
        let resumed = said.lines().last().unwrap().strip_prefix("resumed at ");
        let resumed: u64 = resumed.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
        assert!(resumed >= before, "{before}, then {said}");
    }
    // A cancel asks for none.
    let before = std::time::Instant::now();
    person.ok(["job", "cancel", &job, "--grace", "50000"]);
    person.run(["job", "wait", &job]);
    assert!(before.elapsed().as_secs() < 40);
}

/// Counts its starts, and ends in its third one, or when it is told.
const THRICE: &str = "echo start >> starts; test $(wc -l < starts) -ge 3 && exit 5; until test -e go; do sleep 0.02; done";

fn begun(person: &Person, job: &str, times: usize) {
    let starts = engines::directory(person, job).join("starts");
    until(&format!("job {job} has begun {times} times"), || {
        std::fs::read_to_string(&starts).is_ok_and(|starts| starts.lines().count() == times)
    });
}

/// The number of the pilot that has, or had, an attempt.
fn pilot_of(person: &Person, attempt: &str) -> String {
    let spool = person.kumiko_home().join("state/spool").join(attempt);
    let given = std::fs::read_to_string(spool.join("pilot")).unwrap();
    given.split(' ').next().unwrap().to_owned()
}

fn submit(person: &Person, flags: &[&str], script: &str) -> String {
    let line = [&["job", "submit"], flags, &["--", "sh", "-c", script]].concat();
    let job = person.ok(line).trim().to_owned();
    begun(person, &job, 1);
    job
}

/// As the engine has it.
fn first_pilot(person: &Person) -> String {
    let site = person.kumiko_home().join("state/spool/site");
    let site = std::fs::read_to_string(site).unwrap();
    format!("kumiko-{site}-pilot-1")
}

/// From its pilot on the first host, where there is no room for another, to the other host, and back.
fn there_and_back(person: &Person, job: &str, first: &str, other: &str) {
    let stays = submit(person, &[], engines::COUNTED);
    assert_eq!(pilot_of(person, &format!("{stays}.1")), "2");
    std::fs::write(engines::directory(person, &stays).join("go"), "").unwrap();
    assert_eq!(person.run(["job", "wait", &stays]).status.code(), Some(5));
    assert_eq!(pilot_of(person, &format!("{job}.1")), "1");
    person.ok(["job", "migrate", job, "--to", other]);
    begun(person, job, 2);
    assert_eq!(pilot_of(person, &format!("{job}.2")), "2");
    // Its first pilot has room, and so has that where it is.
    person.ok(["job", "migrate", job, "--to", first]);
    let waited = person.run(["job", "wait", job]);
    assert_eq!(waited.status.code(), Some(5), "{}", told(&waited));
    assert_eq!(pilot_of(person, &format!("{job}.3")), "1");
}

#[test]
fn a_job_migrates_to_the_host_that_is_named_and_to_none_that_has_no_pilot() {
    let test = "a_job_migrates_to_the_host_that_is_named_and_to_none_that_has_no_pilot";
    let Some(person) = engines::user("slurm", test) else {
        return;
    };
    person.ok(engines::start("slurm").into_iter().chain(["--pilots", "2"]));
    let job = submit(&person, &["--rerun"], THRICE);
    let pilot = first_pilot(&person);
    let first = said(
        &person,
        "squeue",
        &["--noheader", "--name", &pilot, "-o", "%N"],
    );
    let nodes = said(&person, "sinfo", &["-hN", "-o", "%N"]);
    let mut nodes = nodes.lines().map(str::trim);
    let other = nodes.find(|node| *node != first).unwrap();
    let no_pilot = format!("takes jobs on \"{other}\": there are some on {first}");
    refused(&person, &[&job, "--to", other], &no_pilot);
    // The engine's own, for it asks for what a pilot does not give.
    let alone = submit(&person, &["--rerun", "--memory", "64"], THRICE);
    refused(
        &person,
        &[&alone, "--to", &first],
        "no pilot of this site has it",
    );
    person.ok(["job", "cancel", &alone, "--grace", "0"]);
    // The next pilot has no room beside the first.
    let line = ["--parsable", "--nodelist", &first, "--cpus-per-task", "31"];
    let line = [&line[..], &["--wrap", "exec sleep 600"]].concat();
    let filling = said(&person, "sbatch", &line);
    until("the first host is full", || {
        let line = ["--noheader", "--jobs", &filling, "-o", "%T"];
        said(&person, "squeue", &line) == "RUNNING"
    });
    there_and_back(&person, &job, &first, other);
    let why = person.ok(["job", "explain", &job]);
    let words = format!("its owner has it migrate to {other}: attempt 1 is told to end");
    assert!(why.contains(&words), "{why}");
    said(&person, "scancel", &[&filling]);
}

#[test]
fn a_job_migrates_to_the_host_of_htcondor_that_is_named() {
    let test = "a_job_migrates_to_the_host_of_htcondor_that_is_named";
    let Some(person) = engines::user("condor", test) else {
        return;
    };
    person.ok(engines::start("condor")
        .into_iter()
        .chain(["--pilots", "2"]));
    let job = submit(&person, &["--rerun"], THRICE);
    let pilot = format!("KumikoTag == \"{}\"", first_pilot(&person));
    let line = ["-constraint", &pilot, "-af", "RemoteHost"];
    let slot = said(&person, "condor_q", &line);
    let (_, first) = slot.split_once('@').unwrap();
    let startds = said(&person, "condor_status", &["-af", "Name"]);
    let mut others = startds.lines().filter_map(|slot| slot.split_once('@'));
    let (_, other) = others.find(|(_, host)| *host != first).unwrap();
    // The next pilot has no room beside the first.
    let there = format!("regexp(\"@{first}$\", Name)");
    let filling = format!(
        "executable=/bin/sleep\narguments=600\nrequest_cpus=31\nrequirements={there}\nqueue\n"
    );
    person.file("filling.sub", &filling);
    let number = said(&person, "condor_submit", &["-terse", "filling.sub"]);
    let number = number.split('.').next().unwrap().to_owned();
    until("the first host is full", || {
        said(&person, "condor_q", &[&number, "-af", "JobStatus"]) == "2"
    });
    there_and_back(&person, &job, first, other);
    said(&person, "condor_rm", &[&number]);
}

/// Of examples/mpi, with one rank.
#[test]
fn a_kernel_that_is_killed_goes_on_from_its_checkpoint() {
    let test = "a_kernel_that_is_killed_goes_on_from_its_checkpoint";
    if !has_program("mpicc.mpich") {
        return skip(test, "mpicc.mpich (of libmpich-dev)");
    }
    let person = Person::new();
    let home = person.home.path();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("mpicc.mpich");
    compiler.args([
        "-O2",
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DCHECKPOINT",
        "-I",
    ]);
    compiler
        .arg(own.join("../bindings/c"))
        .arg(own.join("../examples/mpi/lu.c"));
    compiler
        .arg("-L")
        .arg(routines::library("libkumikockpt.a", "kumiko-checkpoint-c"));
    compiler.args(["-lm", "-lkumikockpt", "-lpthread", "-ldl", "-lm", "-o"]);
    let made = finish(compiler.arg(home.join("lu")));
    assert!(made.status.success(), "{}", told(&made));
    let checkpoints = home.join("checkpoints");
    std::fs::create_dir(&checkpoints).unwrap();
    let kernel = || {
        let mut kernel = Command::new(home.join("lu"));
        kernel.arg("A").env("KUMIKO_CHECKPOINT", &checkpoints);
        kernel
    };
    let mut killed = kernel().spawn().unwrap();
    until("it has a checkpoint", || {
        checkpoints.join("1.whole").exists()
    });
    killed.kill().unwrap();
    assert_eq!(killed.wait().unwrap().signal(), Some(9));
    let went_on = finish(&mut kernel());
    let said = told(&went_on);
    assert!(went_on.status.success(), "{said}");
    assert!(
        said.contains("1 ranks: right") && said.contains(", from checkpoint 1"),
        "{said}"
    );
}

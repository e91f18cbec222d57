//! A job whose program links the checkpoint library migrates when its owner says so, and goes on where it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod routines;

use kumiko_e2e::{Person, finish, has_program, skip, told, until};
use std::path::Path;
use std::process::Command;

/// It hangs at its step 40, if it began at the beginning.
const PROGRAM: &str = r#"
#include "kumiko_ckpt.h"
#include <stdio.h>
#include <unistd.h>
int main(void) {
    long i = 0;
    kumiko_ckpt_state("i", &i, sizeof i);
    kumiko_ckpt_every(0);
    unsigned long resumed = kumiko_ckpt_resumed();
    long first = i;
    for (; i < 100; i++) {
        kumiko_ckpt_point();
        while (i == 40 && first == 0) {
            fclose(fopen("hangs", "w"));
            pause();
        }
    }
    printf("%s %ld\n", resumed ? "resumed" : "begun", i - first);
    return 0;
}
"#;

fn compile(person: &Person) {
    let source = person.file("program/steps.c", PROGRAM);
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c/kumiko");
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(headers).arg(&source).arg("-L");
    cc.arg(routines::library("libkumikockpt.a", "kumiko-checkpoint-c"));
    cc.args(["-lkumikockpt", "-lpthread", "-ldl", "-lm", "-o"]);
    let output = finish(cc.arg(source.with_file_name("steps")));
    assert!(output.status.success(), "{}", told(&output));
}

fn refused(person: &Person, job: &str, expected: &str) {
    let output = person.run(["job", "migrate", job]);
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
    refused(&person, &other, "submit it with --rerun");
    person.ok(["job", "migrate", &job]);
    let waited = person.run(["job", "wait", &job]);
    assert_eq!(waited.status.code(), Some(0), "{}", told(&waited));
    let said = person.ok(["job", "log", &job]);
    let steps = said.trim().strip_prefix("resumed ");
    let steps: u64 = steps.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    assert!([60, 61].contains(&steps), "{said}");
    let why = person.ok(["job", "explain", &job]);
    let words = "its owner has it migrate: attempt 1 is told to end";
    assert!(why.contains(words), "{why}");
    refused(&person, &job, "it has ended");
    assert!(person.ok(["job", "list"]).contains("active"), "the other");
    person.ok(["job", "cancel", &other, "--grace", "0"]);
}

//! What `kumiko sandbox probe` says of CRIU (spec/checkpoint, K50, K51), and that it is so: a program that links nothing is dumped
//! in namespaces of its own, and goes on in others, where a machine's CRIU is said to be usable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::{compiled, text};
use kumiko_e2e::{Person, finish, told};
use kumiko_testkit::engine::Engine;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

/// Counts into a file that stays open, a line at each step; with a word, under a filter of system calls that lets all pass.
const COUNTS: &str = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count > 1) {
        struct sock_filter lets_all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {1, lets_all};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (!words[1][0] || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
            return 2;
    }
    FILE *out = fopen("counted", "w");
    if (!out)
        return 1;
    struct timespec pause = {0, 2000000};
    for (long i = 1;; i++) {
        fprintf(out, "%ld\n", i);
        fflush(out);
        nanosleep(&pause, 0);
    }
}
"#;

/// Begins, is dumped after its line 20 and ends by that; the shell is the namespace's first process, and reaps it. What this test was
/// started with open is no file of these namespaces, and closed. The number that the program has is free in namespaces that come next.
const DUMP: &str = r#"
for descriptor in /proc/self/fd/*; do
    descriptor=${descriptor##*/}
    [ $descriptor -le 2 ] || eval "exec $descriptor>&-"
done
ip link set lo up
echo 999 >/proc/sys/kernel/ns_last_pid
setsid ./counts $1 </dev/null >/dev/null 2>&1 &
counts=$!
until [ -e counted ] && [ "$(wc -l <counted)" -ge 20 ]; do
    kill -0 $counts || exit 1
    sleep 0.01
done
mkdir image
criu --unprivileged dump -t $counts -D image -o log || { grep Error image/log >&2; exit 1; }
wc -l <counted
"#;

/// Goes on, until it has counted 20 more.
const RESTORE: &str = r#"
ip link set lo up
criu --unprivileged restore -d -D image -o log || { grep Error image/log >&2; exit 1; }
until [ "$(wc -l <counted)" -ge $1 ]; do
    kill -0 1000 || exit 1
    sleep 0.01
done
kill -KILL 1000
"#;

fn probe(person: &Person) -> Value {
    let said = person.ok(["--output", "json", "sandbox", "probe"]);
    serde_json::from_str::<Value>(&said).unwrap()["criu"].take()
}

/// In user, process, mount, IPC and network namespaces of its own.
fn within(person: &Person, folder: &Path, script: &str, argument: &str) -> String {
    let output = tried_within(person, folder, script, argument);
    assert!(output.status.success(), "{}", told(&output));
    text(&output.stdout)
}

fn tried_within(person: &Person, folder: &Path, script: &str, argument: &str) -> Output {
    let own = ["--user", "--map-root-user", "--pid", "--fork", "--mount"];
    let rest = [
        "--ipc",
        "--net",
        "--mount-proc",
        "bash",
        "-uc",
        script,
        "bash",
    ];
    let mut all = person.program("unshare", own.into_iter().chain(rest));
    finish(all.arg(argument).current_dir(folder))
}

#[test]
fn a_criu_that_is_too_old_is_named_with_its_reason() {
    let mut person = Person::new();
    let fake = person.file("bin/criu", "#!/bin/sh\necho Version: 3.17.1\n");
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", fake.parent().unwrap().display());
    person.variables.push(("PATH", path.into()));
    let said = probe(&person);
    assert_eq!(said["usable"], false, "{said}");
    let why = said["why"].as_str().unwrap();
    // Where there are no user namespaces, that is what is told; and on older kernels it can run, and is too old.
    let all = person.ok(["--output", "json", "sandbox", "probe"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    let mut mechanisms = all["mechanisms"].as_array().unwrap().iter();
    let namespace = mechanisms.find(|one| one["name"] == "namespace").unwrap();
    match namespace["admitted"] == true {
        true => assert!(why.contains("CRIU 3.17.1 "), "{said}"),
        false => assert_eq!(namespace["why"], said["why"]),
    }
    let told = person.ok(["sandbox", "probe"]);
    assert!(told.contains("CRIU, under namespace: no; "), "{told}");
    assert!(told.contains(why), "{told}");
}

#[test]
fn where_criu_is_usable_a_program_that_links_nothing_goes_on_in_other_namespaces() {
    let test = "where_criu_is_usable_a_program_that_links_nothing_goes_on_in_other_namespaces";
    let Some(criu) = Engine::shared("criu", test) else {
        return;
    };
    let mut person = Person::new();
    let Some(folder) = compiled(test, &person, COUNTS, "counts") else {
        return;
    };
    let path = criu.environment().pop().unwrap();
    person.variables.push(path);
    let said = probe(&person);
    assert_eq!(said["usable"], true, "{said}");
    assert_eq!(said["version"], "4.2.1", "{said}");

    let reached = within(&person, &folder, DUMP, "");
    let reached: usize = reached.trim().parse().unwrap();
    let further = (reached + 20).to_string();
    within(&person, &folder, RESTORE, &further);
    let counted = std::fs::read_to_string(folder.join("counted")).unwrap();
    for (i, line) in counted.lines().enumerate() {
        assert_eq!(line, (i + 1).to_string());
    }
    assert!(counted.lines().count() >= reached + 20);
}

/// As all guests have one (docs/decisions/0025-criu.md).
#[test]
fn what_has_a_filter_of_system_calls_is_not_dumped_without_privileges() {
    let test = "what_has_a_filter_of_system_calls_is_not_dumped_without_privileges";
    let Some(criu) = Engine::shared("criu", test) else {
        return;
    };
    let mut person = Person::new();
    let Some(folder) = compiled(test, &person, COUNTS, "counts") else {
        return;
    };
    person.variables.push(criu.environment().pop().unwrap());
    let refused = tried_within(&person, &folder, DUMP, "filtered");
    let said = told(&refused);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("suspending seccomp failed"), "{said}");
}

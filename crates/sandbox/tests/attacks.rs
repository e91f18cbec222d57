//! Guests that attack: each case runs with no sandbox first, where it must succeed, then under each mechanism.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use kumiko_policy::{Policy, parse};
use std::process::Command;

const MECHANISMS: [&str; 4] = ["namespace", "library", "notify", "ptrace"];

/// The default policy, with a directory of the case shown.
fn policy(scratch: &Scratch, more: &str) -> Policy {
    let text = format!("[paths]\n'{}' = 'read'\n{more}", scratch.path("shown"));
    let mut policy = Policy::default();
    policy.paths.extend(parse(&text, "case").unwrap().paths);
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    policy
}

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.put("shown/file", "shown");
    scratch.put("shown/open/key", "shown");
    scratch.put("shown/shut/key", "secret");
    scratch.put("other/open/key", "secret");
    scratch.put("other/file", "secret");
    scratch.put("job/", "");
    scratch
}

/// What a program of C prints, natively and under each mechanism.
fn check(test: &str, source: &str, more: &str, native: &str, guest: &str) {
    for mechanism in MECHANISMS {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = scratch();
        let fill = |text: &str| text.replace("{dir}", scratch.0.to_str().unwrap());
        let (code, program) = (scratch.put("a.c", &fill(source)), scratch.path("job/a"));
        let made = Command::new("gcc")
            .args(["-O1", "-pthread", "-o", &program, &code])
            .status();
        if !made.is_ok_and(|status| status.success()) {
            return eprintln!("SKIP {test}: missing gcc");
        }
        let got = Command::new(&program)
            .arg("until it succeeds")
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&got.stdout),
            native,
            "{test} with no sandbox"
        );
        let policy = policy(&scratch, &fill(more));
        let mut room = room_under(mechanism, &policy, &scratch.0.join("job")).unwrap();
        let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
        assert_eq!(
            got.stdout, guest,
            "{test} under {mechanism}: {}",
            got.stderr
        );
    }
}

/// Another process changes the words while they are looked at.
const RACE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int c, char **v) {
  static const char a[] = "{dir}/shown/open/key", b[] = "{dir}/HIDDEN";
  volatile char *path = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  strcpy((char *)path, a);
  pid_t child = fork();
  for (long i = 0; !child; i++) for (int at = 0; at < sizeof a; at++) path[at] = i % 2 ? a[at] : b[at];
  int seen = 0, right = 0;
  /* With no sandbox until both were seen; as a guest, who is to see one alone, often. */
  for (int i = 0; !right || (c > 1 ? !seen : i < 3000); i++) {
    char text[16] = {0};
    int fd = open((char *)path, O_RDONLY);
    if (fd >= 0 && read(fd, text, 15) > 0) { seen |= !strcmp(text, "secret"); right |= !strcmp(text, "shown"); }
    close(fd);
  }
  kill(child, SIGKILL);
  waitpid(child, 0, 0);
  printf("%s%s", right ? "shown " : "", seen ? "secret" : "");
}
"#;

#[test]
fn words_that_change_while_they_are_looked_at_open_nothing_that_is_not_shown() {
    let test = "words_that_change_while_they_are_looked_at_open_nothing_that_is_not_shown";
    let source = RACE.replace("HIDDEN", "other/open/key");
    check(test, &source, "", "shown secret", "shown ");
}

#[test]
fn words_that_change_while_they_are_looked_at_open_nothing_that_is_closed() {
    let test = "words_that_change_while_they_are_looked_at_open_nothing_that_is_closed";
    let source = RACE.replace("HIDDEN", "shown/shut/key");
    check(
        test,
        &source,
        "'{dir}/shown/shut' = 'denied'",
        "shown secret",
        "shown ",
    );
}

#[test]
fn a_descriptor_of_a_directory_leads_nowhere_else() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  const char *ways[] = {"../other/file", "../shown/../other/file", "../../../../../../../../{dir}/other/file"};
  int got = 0, fd = open("{dir}/shown", O_RDONLY | O_DIRECTORY), path = open("{dir}/shown", O_PATH);
  for (int i = 0; i < 3; i++) got += openat(fd, ways[i], O_RDONLY) >= 0, got += openat(path, ways[i], O_RDONLY) >= 0;
  fchdir(path);
  got += open("../other/file", O_RDONLY) >= 0;
  symlink("{dir}/other/file", "/tmp/kumiko-attack-link");
  got += open("/tmp/kumiko-attack-link", O_RDONLY) >= 0;
  unlink("/tmp/kumiko-attack-link");
  printf("%d %d", fd >= 0 && path >= 0, got);
}
"#;
    check(
        "a_descriptor_of_a_directory_leads_nowhere_else",
        source,
        "",
        "1 8",
        "1 0",
    );
}

#[test]
fn limits_are_told_as_the_kernel_tells_them() {
    let source = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
  char *path = malloc(65536);
  memset(path, 'a', 65535);
  path[0] = '/', path[65535] = 0;
  int long_path = open(path, O_RDONLY) < 0 ? errno : 0;
  path[300] = 0;
  int long_name = open(path, O_RDONLY) < 0 ? errno : 0;
  int nowhere = open((char *)8, O_RDONLY) < 0 ? errno : 0;
  struct rlimit few = {64, 64};
  setrlimit(RLIMIT_NOFILE, &few);
  int count = 0, full;
  while (open("/etc/hosts", O_RDONLY) >= 0) count++;
  full = errno;
  close(10);
  printf("%d %d %d %d %d", long_path, long_name, nowhere, full, open("/etc/hosts", O_RDONLY));
}
"#;
    // ENAMETOOLONG, EFAULT, EMFILE; the number that became free.
    check(
        "limits_are_told_as_the_kernel_tells_them",
        source,
        "",
        "36 36 14 24 10",
        "36 36 14 24 10",
    );
}

#[test]
fn what_watches_over_guests_is_out_of_their_reach() {
    let test = "what_watches_over_guests_is_out_of_their_reach";
    for mechanism in MECHANISMS {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = scratch();
        let mut room =
            room_under(mechanism, &policy(&scratch, ""), &scratch.0.join("job")).unwrap();
        // The first guest has the supervisor started.
        run(&mut *room, "true", &[], &[]).unwrap();
        for pid in guards().into_iter().chain([std::process::id() as i32]) {
            let script = format!(
                "print kill(0, {pid}) ? 'signalled' : '', -e '/proc/{pid}/stat' ? 'seen' : '', \
                 syscall(101, 16, {pid}, 0, 0) == 0 ? 'traced' : '', \
                 syscall(434, {pid}, 0) >= 0 && '{mechanism}' ne 'namespace' ? 'held' : '', 'done'"
            );
            let got = run(&mut *room, "perl", &["-e", &script], &[]).unwrap();
            assert_eq!(got.stdout, "done", "{mechanism}: {}", got.stderr);
        }
    }
}

#[test]
fn of_guests_that_go_on_starting_others_none_is_left() {
    let test = "of_guests_that_go_on_starting_others_none_is_left";
    for mechanism in MECHANISMS {
        if machine_for(test, mechanism).is_some() {
            let (mut out, mut room) = bomb(mechanism, &scratch().0.join("job"));
            room.kill_all();
            ends(&mut out, mechanism);
        }
    }
}

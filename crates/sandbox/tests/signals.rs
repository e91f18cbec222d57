//! Signals that reach a guest while a call of it waits for somebody: it is broken off or goes on as with no sandbox.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use kumiko_policy::Policy;
use std::process::Command;

/// Opening a pipe with a name and connecting to a full queue: with a handler that wants calls broken off, with one that
/// does not (what lets the call go on happens after the handler has run), and stopped meanwhile.
const WAITING: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
static int heard[2], calls;
static void handler(int s) { calls++; write(heard[1], "x", 1); }
static void each_tenth(int on, int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  struct itimerval often = {{0, on ? 50000 : 0}, {0, on ? 50000 : 0}};
  if (on) sigaction(SIGALRM, &action, 0), pipe2(heard, O_NONBLOCK);
  setitimer(ITIMER_REAL, &often, 0);
}
/* After the handler has run. */
static void wait_heard(void) {
  char byte;
  fcntl(heard[0], F_SETFL, 0);
  read(heard[0], &byte, 1);
}
static struct sockaddr_un name = {.sun_family = AF_UNIX};
static int full(void) {
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(s, (void *)&name, sizeof(sa_family_t));
  socklen_t size = sizeof name;
  getsockname(s, (void *)&name, &size);
  listen(s, 0);
  while (!connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), (void *)&name, size));
  return s;
}
static int connected(void) {
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  int told = connect(s, (void *)&name, sizeof(sa_family_t) + 6) ? errno : 0;
  close(s);
  return told;
}
static int opened(void) { return open("pipe", O_RDONLY) < 0 ? errno : 0; }
static char state(pid_t pid) {
  char path[32], text[256] = {0};
  sprintf(path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY);
  read(fd, text, 255);
  close(fd);
  char *after = strrchr(text, ')');
  return after ? after[2] : 0;
}
int main(void) {
  mkfifo("pipe", 0600);
  each_tenth(1, 0);
  printf("%d ", opened());
  each_tenth(0, 0);
  each_tenth(1, SA_RESTART);
  /* A writer stays: one that comes and goes while the opening is broken off once more is missed. */
  pid_t child = fork();
  if (!child) { wait_heard(); open("pipe", O_WRONLY); pause(); }
  printf("%d ", opened());
  each_tenth(0, 0);
  kill(child, SIGKILL);
  wait(0);
  int listening = full();
  each_tenth(1, 0);
  printf("%d ", connected());
  each_tenth(0, 0);
  each_tenth(1, SA_RESTART);
  if (!fork()) { wait_heard(); accept(listening, 0, 0); accept(listening, 0, 0); _exit(0); }
  printf("%d ", connected());
  each_tenth(0, 0);
  wait(0);
  pid_t parent = getpid();
  child = fork();
  if (!child) {
    kill(parent, SIGSTOP);
    while (!strchr("Tt", state(parent))) usleep(1000); /* small where it is traced */
    kill(parent, SIGCONT);
    open("pipe", O_WRONLY);
    pause();
  }
  printf("%d ", opened());
  kill(child, SIGKILL);
  wait(0);
  printf("%s", calls >= 4 ? "heard" : "not heard");
}
"#;

#[test]
fn a_call_that_waits_is_broken_off_as_with_no_sandbox() {
    let test = "a_call_that_waits_is_broken_off_as_with_no_sandbox";
    for mechanism in ["namespace", "notify", "ptrace", "library"] {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = Scratch::new();
        scratch.put("job/", "");
        scratch.put("native/", "");
        let Some(program) = compiled(test, &scratch, WAITING) else {
            return;
        };
        let native = Command::new(&program)
            .current_dir(scratch.0.join("native"))
            .output()
            .unwrap();
        // EINTR where it is wanted.
        let expected = "4 0 4 0 0 heard";
        assert_eq!(
            String::from_utf8_lossy(&native.stdout),
            expected,
            "with no sandbox"
        );
        let mut room = room_under(mechanism, &Policy::default(), &scratch.0.join("job")).unwrap();
        let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
        assert_eq!(
            got.stdout, expected,
            "{mechanism}: {:?} {}",
            got.ended, got.stderr
        );
    }
}

/// Programs that are killed, or stopped for a moment, somewhere in their start.
const STARTING: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  int wrong = 0;
  for (int i = 0; i < 200; i++) {
    pid_t child = fork();
    if (!child) { chdir("/"); chdir("/job"); execl("/bin/true", "true", (char *)0); _exit(9); }
    usleep(i * 15);
    int status, stopped = i % 2;
    kill(child, stopped ? SIGSTOP : SIGKILL);
    if (stopped) kill(child, SIGCONT);
    waitpid(child, &status, 0);
    wrong += status != 0 && (stopped || status != SIGKILL);
  }
  printf("%d", wrong);
}
"#;

#[test]
fn who_is_killed_or_stopped_while_it_starts_holds_up_nobody() {
    let test = "who_is_killed_or_stopped_while_it_starts_holds_up_nobody";
    for mechanism in ["namespace", "notify", "ptrace", "library"] {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = Scratch::new();
        scratch.put("job/", "");
        if compiled(test, &scratch, STARTING).is_none() {
            return;
        }
        let mut room = room_under(mechanism, &Policy::default(), &scratch.0.join("job")).unwrap();
        let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
        assert_eq!(got.stdout, "0", "{mechanism}: {:?}", got.ended);
    }
}

//! Job control on a terminal, as a shell has it: the same with no sandbox and under each mechanism.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use kumiko_linux::poll::{Interest, Poll};
use kumiko_linux::terminal;
use kumiko_policy::Policy;
use kumiko_sandbox::{Ended, Launch, Streams};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// The leader of a session with a terminal, and its jobs. A line with `?` asks for a key.
const SHELL: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
static pid_t me;
#define T(call) do { errno = 0; int r = (call); dprintf(1, #call " %d/%d\n", r < 0 ? -1 : 0, r < 0 ? errno : 0); } while (0)
/* Each in a group of its own, or in that of another. */
static pid_t job(void (*run)(void), pid_t group) {
  pid_t child = fork();
  if (!child) {
    setpgid(0, group);
    signal(SIGTTOU, SIG_DFL);
    run();
    _exit(0);
  }
  setpgid(child, group);
  return child;
}
static void changes(const char *what, pid_t child, int options) {
  int status;
  pid_t got = waitpid(child, &status, options);
  dprintf(1, "%s: ", what);
  if (got <= 0) dprintf(1, "none %d\n", errno);
  else if (WIFSTOPPED(status)) dprintf(1, "stopped %d\n", WSTOPSIG(status));
  else if (WIFCONTINUED(status)) dprintf(1, "continued\n");
  else if (WIFSIGNALED(status)) dprintf(1, "killed %d\n", WTERMSIG(status));
  else dprintf(1, "exited %d\n", WEXITSTATUS(status));
}
static void forward(pid_t child) {
  tcsetpgrp(0, child);
  kill(-child, SIGCONT);
  changes("forward", child, WCONTINUED);
}
static void back(void) { tcsetpgrp(0, me); }
static void reads(void) {
  char line[16] = {0};
  long count = read(0, line, 15);
  dprintf(1, "it reads %ld %s", count, line);
  _exit(7);
}
static void writes(void) { dprintf(1, "it writes\n"); }
static void takes(void) { tcsetpgrp(0, getpgrp()); dprintf(1, "it has it\n"); }
static void takes_quietly(void) { signal(SIGTTOU, SIG_IGN); takes(); }
static void sets(void) { struct termios is; tcgetattr(0, &is); tcsetattr(0, TCSANOW, &is); }
static void waits(void) { for (;;) pause(); }
static void waits_for_size(void) {
  sigset_t set;
  int heard;
  sigemptyset(&set), sigaddset(&set, SIGWINCH), sigprocmask(SIG_BLOCK, &set, 0);
  signal(SIGTTOU, SIG_IGN), tcsetpgrp(0, getpgrp());
  dprintf(1, "size?\n");
  sigwait(&set, &heard);
  dprintf(1, "it hears %d\n", heard);
}
static int pipes[2];
static void leaves_one_stopped(void) {
  pid_t child = fork();
  if (!child) { setpgid(0, 0); for (;;) raise(SIGSTOP); }
  waitpid(child, 0, WUNTRACED);
}
static void executes(void) { fcntl(pipes[1], F_SETFD, FD_CLOEXEC); execl("/bin/sleep", "sleep", "1000", (char *)0); }
int main(void) {
  struct termios is;
  for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none), sigprocmask(SIG_SETMASK, &none, 0);
  signal(SIGTTOU, SIG_IGN);
  me = getpid();
  dprintf(1, "leads %d %d %d %d\n", getsid(0) == me, getpgrp() == me, tcgetpgrp(0) == me, tcgetsid(0) == me);
  tcgetattr(0, &is), is.c_lflag &= ~ECHO, tcsetattr(0, TCSANOW, &is);
  T(setpgid(0, 0)); T(setsid()); T(setpgid(99999999, 0)); T(setpgid(0, -1)); T(tcsetpgrp(0, 99999999)); T(tcsetpgrp(0, -1)); T(getpgid(99999999)); T(kill(-99999999, 0));
  pipe(pipes);
  T(tcsetpgrp(pipes[0], me)); T(tcgetpgrp(pipes[0]));
  pid_t child = job(reads, 0);
  changes("reads", child, WUNTRACED);
  dprintf(1, "apart %d %d\n", getpgid(child) == child, getsid(child) == me);
  T(setpgid(child, 99999999));
  forward(child);
  dprintf(1, "has it %d\nsuspend?\n", tcgetpgrp(0) == child);
  changes("suspended", child, WUNTRACED);
  back();
  kill(-child, SIGCONT);
  changes("behind", child, WUNTRACED);
  forward(child);
  dprintf(1, "line?\n");
  changes("reads", child, WUNTRACED);
  back();
  child = job(writes, 0);
  changes("writes", child, WUNTRACED);
  is.c_lflag |= TOSTOP, tcsetattr(0, TCSANOW, &is);
  child = job(writes, 0);
  changes("writes", child, WUNTRACED);
  tcsetpgrp(0, child);
  kill(-child, SIGCONT);
  changes("writes", child, 0);
  back();
  is.c_lflag &= ~TOSTOP, tcsetattr(0, TCSANOW, &is);
  void (*others[])(void) = {takes, sets};
  for (int i = 0; i < 2; i++) {
    child = job(others[i], 0);
    changes("touches", child, WUNTRACED);
    kill(child, SIGKILL);
    changes("touches", child, 0);
  }
  child = job(takes_quietly, 0);
  changes("takes", child, 0);
  dprintf(1, "taken %d\n", tcgetpgrp(0) != me);
  back();
  child = job(waits, 0);
  tcsetpgrp(0, child);
  dprintf(1, "interrupt?\n");
  changes("waits", child, 0);
  back();
  child = job(waits, 0);
  tcsetpgrp(0, child);
  dprintf(1, "quit?\n");
  changes("waits", child, 0);
  back();
  child = job(waits_for_size, 0);
  changes("waits", child, 0);
  back();
  pid_t first = job(waits, 0), second = job(waits, first);
  dprintf(1, "together %d\n", getpgid(second) == first);
  kill(-first, SIGSTOP);
  changes("first", first, WUNTRACED), changes("second", second, WUNTRACED);
  kill(-first, SIGCONT);
  changes("first", first, WCONTINUED), changes("second", second, WCONTINUED);
  T(setpgid(second, me)); T(setpgid(second, first)); T(setpgid(first, second));
  kill(-first, SIGTERM);
  changes("first", first, 0), changes("second", second, 0);
  changes("nobody", -first, WNOHANG);
  child = job(executes, 0);
  close(pipes[1]), read(pipes[0], &is, 1);
  T(setpgid(child, me));
  kill(-child, SIGHUP);
  changes("executes", child, 0);
  pipe(pipes);
  child = job(leaves_one_stopped, 0);
  changes("leaves", child, 0);
  close(pipes[1]);
  dprintf(1, "hung up %d\n", (int)read(pipes[0], &is, 1));
  dprintf(1, "over\n");
}
"#;

/// What is done on the terminal when it is asked for.
const ANSWERS: [(&str, &[u8]); 5] = [
    ("suspend?\r\n", b"\x1a"),
    ("line?\r\n", b"word\n"),
    ("interrupt?\r\n", b"\x03"),
    ("quit?\r\n", b"\x1c"),
    ("size?\r\n", b""),
];

/// All that is told until it is over.
fn session(master: &mut File) -> String {
    let poll = Poll::new().unwrap();
    poll.add(&*master, 0, Interest::Read).unwrap();
    let mut told = String::new();
    while !told.ends_with("over\r\n") {
        let ready = poll.wait::<1>(Some(DEADLINE)).unwrap().next();
        assert!(ready.is_some(), "told after {DEADLINE:?}: {told}");
        let mut byte = [0];
        let count = master.read(&mut byte);
        assert_eq!(count.ok(), Some(1), "told: {told}");
        told.push(char::from(byte[0]));
        match ANSWERS.iter().find(|(asked, _)| told.ends_with(asked)) {
            Some((_, b"")) => terminal::set_size(&*master, 40, 120).unwrap(),
            Some((_, keys)) => master.write_all(keys).unwrap(),
            None => {}
        }
    }
    told
}

fn natively(program: &str) -> String {
    let (master, slave) = terminal::open(24, 80).unwrap();
    let mut command = Command::new("setsid");
    command.args(["--ctty", program]);
    let stream = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(stream()).stdout(stream()).stderr(stream());
    let mut child = command.spawn().unwrap();
    let told = session(&mut File::from(master));
    child.wait().unwrap();
    told
}

#[test]
fn jobs_are_stopped_and_go_on_as_with_no_sandbox() {
    let test = "jobs_are_stopped_and_go_on_as_with_no_sandbox";
    let scratch = Scratch::new();
    scratch.put("job/", "");
    let Some(program) = compiled(test, &scratch, SHELL) else {
        return;
    };
    let native = natively(&program);
    for seen in ["stopped 20", "stopped 21", "stopped 22", "it reads 5 word"] {
        assert!(native.contains(seen), "with no sandbox: {native}");
    }
    for mechanism in ["namespace", "library", "notify", "ptrace"] {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let mut room = room_under(mechanism, &Policy::default(), &scratch.0.join("job")).unwrap();
        let launch = Launch {
            program: "/job/a",
            arguments: &[],
            environment: &[],
            directory: None,
            streams: Streams::Terminal {
                rows: 24,
                columns: 80,
            },
        };
        let mut guest = room.start(&launch).unwrap();
        let mut master = File::from(guest.take_terminal().unwrap());
        assert_eq!(session(&mut master), native, "{mechanism}");
        assert_eq!(wait(&mut guest), Ended::Exited(0), "{mechanism}");
    }
}

//! Guests that use up what their supervisor has to answer with: others of the room go on.

use crate::common::case::*;

/// Calls that wait take a thread and descriptors of a supervisor: more of them than a process usually may have open.
#[test]
fn while_a_thousand_calls_wait_others_are_answered() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static int begun[2];
static void *wait_for(void *none) {
  write(begun[1], "", 1);
  open("pipe", O_RDONLY);
  pause();
}
int main(void) {
  pthread_attr_t small;
  pthread_t other;
  char byte;
  int threads = 0, opened = 0;
  mkfifo("pipe", 0600);
  pipe(begun);
  pthread_attr_init(&small), pthread_attr_setstacksize(&small, 65536);
  pid_t flood = fork();
  if (!flood) {
    for (int i = 0; i < 1100; i++) pthread_create(&other, &small, wait_for, 0);
    pause();
  }
  for (; threads < 1100 && read(begun[0], &byte, 1) == 1; threads++);
  usleep(200000); /* or they would be counted before they wait */
  for (int i = 0; i < 40; i++) {
    int fd = open("{dir}/shown/file", O_RDONLY), path = open("{dir}/shown", O_PATH);
    opened += fd >= 0 && path >= 0 && !access("{dir}/shown/open", X_OK);
    close(fd), close(path);
  }
  kill(flood, SIGKILL);
  waitpid(flood, 0, 0);
  printf("%d %d", threads, opened);
}
"#;
    check(
        "while_a_thousand_calls_wait_others_are_answered",
        source,
        "",
        "1100 40",
        "1100 40",
    );
}

/// Descriptors that a guest opens are its own: a supervisor that kept one of each would have none left.
#[test]
fn whoever_has_all_descriptors_that_it_may_leaves_others_theirs() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  struct rlimit few;
  int full = 0, pipes[2], opened = 0, status;
  getrlimit(RLIMIT_NOFILE, &few);
  few.rlim_cur = few.rlim_max < 1200 ? few.rlim_max : 1200;
  setrlimit(RLIMIT_NOFILE, &few);
  pipe(pipes);
  pid_t children[2];
  for (int i = 0; i < 2; i++) if (!(children[i] = fork())) {
    while (open("{dir}/shown/file", O_RDONLY) >= 0);
    int first = errno == EMFILE, path = open("{dir}/shown", O_PATH) < 0 && errno == EMFILE;
    int made = open("made", O_CREAT | O_WRONLY, 0600) < 0 && errno == EMFILE;
    write(pipes[1], first && path && made ? "+" : "-", 1);
    pause();
  }
  for (char told; full < 2 && read(pipes[0], &told, 1) == 1 && told == '+'; full++);
  for (int i = 0; i < 40; i++) {
    int fd = open("{dir}/shown/file", O_RDONLY);
    opened += fd >= 0, close(fd);
  }
  printf("%d %d", full, opened);
  for (int i = 0; i < 2; i++) kill(children[i], SIGKILL), waitpid(children[i], &status, 0);
}
"#;
    check(
        "whoever_has_all_descriptors_that_it_may_leaves_others_theirs",
        source,
        "",
        "2 40",
        "2 40",
    );
}

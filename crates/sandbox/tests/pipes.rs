//! Pipes with names: who opens one meets whoever opens its other end, once, as with no sandbox.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::case::*;

/// One writes a byte and closes its end, the other reads to the end: in each round one of them waits for the other, and it is
/// told which was before. An end that was open for a moment more would let somebody go on who then finds nobody.
const MEET: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  int to[2], from[2], right = 0;
  char byte, text[8];
  mkfifo("pipe", 0600);
  pipe(to), pipe(from);
  signal(SIGPIPE, SIG_IGN);
  pid_t child = fork();
  if (!child) {
    close(to[1]), close(from[0]);
    for (int i = 0; read(to[0], &byte, 1) == 1; i++) {
      if (i % 2) usleep(1000); /* so that either is the first */
      int fd = open("pipe", O_WRONLY);
      byte = write(fd, "x", 1) == 1 ? '+' : '-';
      close(fd);
      write(from[1], &byte, 1);
    }
    _exit(0);
  }
  close(to[0]), close(from[1]);
  for (int i = 0; i < 100; i++) {
    write(to[1], "", 1);
    if (i % 2 == 0) usleep(1000);
    alarm(20); /* who waits for nobody */
    int fd = open("pipe", O_RDONLY), all = 0, count;
    while ((count = read(fd, text, sizeof text)) > 0) all += count;
    close(fd);
    right += read(from[0], &byte, 1) == 1 && byte == '+' && all == 1;
  }
  close(to[1]);
  waitpid(child, 0, 0);
  printf("%d", right);
}
"#;

#[test]
fn who_opens_a_pipe_with_a_name_meets_whoever_opens_its_other_end() {
    let test = "who_opens_a_pipe_with_a_name_meets_whoever_opens_its_other_end";
    check(test, MEET, "", "100", "100");
}

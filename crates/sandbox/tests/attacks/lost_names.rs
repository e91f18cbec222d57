//! Files that are open and have lost their name, or never had one: they are reached by their descriptor as with no sandbox.

use crate::common::case::*;
use crate::common::*;
use kumiko_sandbox::{Launch, Streams};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::process::Command;

fn check_as_native(test: &str, source: &str, expected: &str) {
    check(test, source, "", expected, expected);
}

#[test]
fn what_has_no_name_is_opened_by_its_descriptor() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
static int is_right(int fd) {
  char text[16] = {0};
  return fd >= 0 && pread(fd, text, 15, 0) == 4 && !strcmp(text, "text");
}
static int with_text(int fd) { write(fd, "text", 4); return fd; }
static int other_name(int fd) {
  char way[64];
  sprintf(way, "/proc/self/fd/%d", fd);
  int told = linkat(AT_FDCWD, way, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW) ? errno : 0;
  if (!told && !is_right(open("linked", O_RDWR))) told = -1;
  unlink("linked");
  return told;
}
static void tried(const char *what, int fd) {
  const char *ways[] = {"/proc/self/fd/%d", "/dev/fd/%d", "/proc/thread-self/fd/%d", "/dev/stdin"};
  const int flags[] = {O_RDONLY, O_RDWR, O_RDWR | O_CREAT, O_RDONLY | O_NONBLOCK};
  int right = 0;
  dup2(fd, 0);
  for (int i = 0; i < 4; i++) {
    char way[64];
    struct stat about;
    sprintf(way, ways[i], fd);
    for (int f = 0; f < 4; f++) { int again = open(way, flags[f], 0600); right += is_right(again); close(again); }
    right += !stat(way, &about) && about.st_size == 4;
    right += !access(way, R_OK);
    right += !chmod(way, 0600);
  }
  printf("%s %d %d;", what, right, other_name(fd));
}
int main(void) {
  int lost = with_text(open("x", O_CREAT | O_RDWR, 0600)), nameless = with_text(open(".", O_TMPFILE | O_RDWR, 0600));
  unlink("x");
  tried("lost", lost);
  /* What would be taken for it, were its words believed. */
  int another = open("x (deleted)", O_CREAT | O_RDWR, 0600);
  tried("beside another", lost);
  write(another, "text", 4);
  tried("called so", another);
  unlink("x (deleted)");
  tried("nameless", nameless);
  tried("memory", with_text(memfd_create("x", 0)));
  fflush(stdout), system("ls");
}
"#;
    check_as_native(
        "what_has_no_name_is_opened_by_its_descriptor",
        source,
        // ENOENT of what has lost its last name, EXDEV of memory.
        "lost 28 2;beside another 28 2;called so 28 0;nameless 28 0;memory 28 18;a\n",
    );
}

#[test]
fn a_program_without_a_name_is_read_and_executed_again() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>
static void copied(int to) { int from = open("/proc/self/exe", O_RDONLY); while (sendfile(to, from, 0, 1 << 20) > 0); }
static void again(const char *program, const char *step) {
  if (fork()) { wait(0); return; }
  setenv("STEP", step, 1);
  execl(program, "again", NULL);
  printf("%s: not executed ", program), fflush(stdout), _exit(1);
}
int main(void) {
  const char *step = getenv("STEP");
  char begin[4] = {0}, way[32];
  if (!step) {
    int copy = open("copy", O_CREAT | O_WRONLY, 0700), memory = memfd_create("copy", 0);
    copied(copy), close(copy), copied(memory);
    again("./copy", "1");
    sprintf(way, "/proc/self/fd/%d", memory);
    again(way, "2");
    return 0;
  }
  unlink("copy");
  read(open("/proc/self/exe", O_RDONLY), begin, 4);
  printf("%s %d %d ", step, !memcmp(begin, "\177ELF", 4), open("/proc/self/exe", O_WRONLY) >= 0), fflush(stdout);
  if (*step < '3') again("/proc/self/exe", "3");
}
"#;
    check_as_native(
        "a_program_without_a_name_is_read_and_executed_again",
        source,
        "1 1 0 3 1 0 2 1 0 3 1 0 ",
    );
}

#[test]
fn a_file_that_was_given_is_opened_by_its_descriptor() {
    let test = "a_file_that_was_given_is_opened_by_its_descriptor";
    let given = || {
        let mut file = temporary();
        file.write_all(b"given").unwrap();
        file.rewind().unwrap();
        file
    };
    let native = Command::new("cat")
        .arg("/dev/stdin")
        .stdin(given())
        .output();
    assert_eq!(native.unwrap().stdout, b"given");
    for mechanism in MECHANISMS {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = scratch();
        let policy = policy(&scratch, "");
        let mut room = room_under(mechanism, &policy, &scratch.0.join("job")).unwrap();
        let (stdin, mut stdout) = (given(), temporary());
        let null = File::open("/dev/null").unwrap();
        let mut guest = room
            .start(&Launch {
                program: "cat",
                arguments: &["/dev/stdin".to_owned()],
                environment: &[],
                directory: None,
                streams: Streams::Given {
                    stdin: stdin.as_fd(),
                    stdout: stdout.as_fd(),
                    stderr: null.as_fd(),
                },
            })
            .unwrap();
        wait(&mut guest);
        assert_eq!(text(&mut stdout), "given", "{mechanism}");
    }
}

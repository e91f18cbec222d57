//! What a program is executed by changes between the look at it and the kernel's: words, links, directories, scripts. No
//! instruction is executed of what is not shown.

use crate::common::case::*;

/// `shown/1` ends with status 0 and `other/2`, which is not shown, with 1; neither needs a loader, so that an execution is one
/// call. MAKE what WORDS name, and CHANGE it to and fro.
const EXECUTE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static char words[256];
static volatile int over;
static void exchange(const char *a, const char *b) { syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2); }
static void put(const char *name, const char *text) {
  int fd = open(name, O_CREAT | O_WRONLY | O_EXCL, 0755);
  if (fd >= 0) write(fd, text, strlen(text)), close(fd);
}
static void word(const char *to) { for (int at = 0; to[at]; at++) ((volatile char *)words)[at] = to[at]; }
static void *change(void *none) {
  while (!over) { CHANGE; }
  return 0;
}
int main(int c, char **v) {
  pthread_t other;
  if (c > 1)
    system("for i in 0 1; do printf 'void _start(void) { __asm__(\"syscall\" :: \"a\"(60), \"D\"(%d)); for (;;); }' $i |"
      " gcc -x c -nostdlib -static -o made$i -; done; mv made0 {dir}/shown/1; mv made1 {dir}/other/2");
  strcpy(words, WORDS);
  MAKE;
  pthread_create(&other, 0, change, 0);
  int seen = 0, right = 0;
  /* With no sandbox until both were seen; as a guest, who is to see one alone, often. */
  for (int i = 0; !right || (c > 1 ? !seen : i < 60); i++) {
    int status;
    pid_t child = vfork();
    if (!child) { execl(words, "x", NULL); _exit(7); }
    waitpid(child, &status, 0);
    right |= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    seen |= WIFEXITED(status) && WEXITSTATUS(status) == 1;
  }
  over = 1;
  pthread_join(other, 0);
  printf("%s%s", right ? "shown " : "", seen ? "secret" : "");
}
"#;

fn check_executed(test: &str, words: &str, make: &str, change: &str) {
    let source = EXECUTE
        .replace("WORDS", words)
        .replace("MAKE", make)
        .replace("CHANGE", change);
    check(test, &source, "", "shown secret", "shown ");
}

#[test]
fn words_that_another_thread_changes_execute_nothing_that_is_not_shown() {
    check_executed(
        "words_that_another_thread_changes_execute_nothing_that_is_not_shown",
        r#""{dir}/shown/1""#,
        "",
        r#"word("{dir}/other/2"), word("{dir}/shown/1")"#,
    );
}

#[test]
fn a_link_that_is_exchanged_executes_nothing_that_is_not_shown() {
    check_executed(
        "a_link_that_is_exchanged_executes_nothing_that_is_not_shown",
        r#""one""#,
        r#"symlink("{dir}/shown/1", "one"), symlink("{dir}/other/2", "two")"#,
        r#"exchange("one", "two")"#,
    );
}

#[test]
fn a_directory_that_is_exchanged_executes_nothing_that_is_not_shown() {
    check_executed(
        "a_directory_that_is_exchanged_executes_nothing_that_is_not_shown",
        r#""d/2""#,
        r#"mkdir("d", 0700), symlink("{dir}/shown/1", "d/2"), symlink("{dir}/other", "way")"#,
        r#"exchange("d", "way")"#,
    );
}

#[test]
fn a_script_that_is_exchanged_is_read_by_no_interpreter_that_is_not_shown() {
    check_executed(
        "a_script_that_is_exchanged_is_read_by_no_interpreter_that_is_not_shown",
        r#""./one""#,
        r##"put("one", "#!{dir}/shown/1\n"), put("two", "#!{dir}/other/2\n")"##,
        r#"exchange("one", "two")"#,
    );
}

//! Words and names that change while a call is under way: what is not shown is neither executed, changed nor reached.

use crate::common::Scratch;
use crate::common::case::*;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

/// Another process changes one byte of the path, to and fro: `shown/1` may be executed, `shown/2` may not.
const EXECUTE: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int c, char **v) {
  static const char one[] = "{dir}/shown/1";
  if (c > 1) system("PREPARE");
  volatile char *path = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  strcpy((char *)path, one);
  pid_t child = fork();
  while (!child) path[sizeof one - 2] ^= '1' ^ '2';
  int seen = 0, right = 0;
  /* With no sandbox until both were seen; as a guest, who is to see one alone, often. */
  for (int i = 0; !right || (c > 1 ? !seen : i < 400); i++) {
    int status;
    pid_t other = vfork();
    if (!other) { execl((char *)path, "x", NULL); _exit(7); }
    waitpid(other, &status, 0);
    right |= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    seen |= WIFEXITED(status) && WEXITSTATUS(status) == 1;
  }
  kill(child, SIGKILL);
  waitpid(child, 0, 0);
  printf("%s%s", right ? "shown " : "", seen ? "secret" : "");
}
"#;

#[test]
fn words_that_change_while_they_are_looked_at_execute_nothing_that_is_hidden() {
    let prepare = "cp /bin/true {dir}/shown/1; cp /bin/false {dir}/shown/2";
    check(
        "words_that_change_while_they_are_looked_at_execute_nothing_that_is_hidden",
        &EXECUTE.replace("PREPARE", prepare),
        "'{dir}/shown/2' = 'hidden'",
        "shown secret",
        "shown ",
    );
}

#[test]
fn words_that_change_while_they_are_looked_at_execute_by_no_loader_that_is_hidden() {
    let prepare = "cp /bin/true {dir}/shown/1; cp /lib64/ld-linux-x86-64.so.2 {dir}/other/loader; \
                   echo 'int main(void) { return 1; }' | gcc -x c -o {dir}/shown/2 -Wl,--dynamic-linker={dir}/other/loader -";
    check(
        "words_that_change_while_they_are_looked_at_execute_by_no_loader_that_is_hidden",
        &EXECUTE.replace("PREPARE", prepare),
        "",
        "shown secret",
        "shown ",
    );
}

/// Another process exchanges the last name of a path for a link out of the view.
const EXCHANGE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
static void changed(void) {
  int fd = open("d/key", O_WRONLY | O_APPEND);
  write(fd, "x", 1), close(fd);
  close(open("d/key", O_WRONLY | O_CREAT | O_TRUNC, 0666));
  truncate("d/key", 0);
  chmod("d/key", 0777);
  chown("d/key", getuid(), getgid());
  utimensat(AT_FDCWD, "d/key", 0, 0);
  setxattr("d/key", "user.mine", "x", 1, 0);
  linkat(AT_FDCWD, "d/key", AT_FDCWD, "d/linked", AT_SYMLINK_FOLLOW), unlink("d/linked");
  rename("d/key", "d/moved"), rename("d/moved", "d/key");
}
int main(int c, char **v) {
  mkdir("d", 0700);
  close(open("d/key", O_CREAT | O_WRONLY, 0600));
  symlink("{dir}/other/file", "d/out");
  pid_t child = fork();
  while (!child) syscall(SYS_renameat2, AT_FDCWD, "d/key", AT_FDCWD, "d/out", 2);
  int seen = 0, right = 0;
  for (int i = 0; !right || (c > 1 ? !seen : i < 200); i++) {
    char text[16] = {0};
    int fd = open("d/key", O_RDONLY);
    if (fd >= 0) { read(fd, text, 15); if (strcmp(text, "secret")) right = 1; else seen = 1; }
    close(fd);
    if (c == 1) changed();
  }
  kill(child, SIGKILL);
  waitpid(child, 0, 0);
  printf("%s%s", right ? "shown " : "", seen ? "secret" : "");
}
"#;

#[test]
fn names_that_are_exchanged_for_links_lead_nowhere_else() {
    let test = "names_that_are_exchanged_for_links_lead_nowhere_else";
    for mechanism in MECHANISMS {
        let native = Some("shown secret");
        let Some(scratch) = check_under(mechanism, test, EXCHANGE, "", native, "shown ") else {
            continue;
        };
        let file = scratch.0.join("other/file");
        assert_eq!(std::fs::read(&file).unwrap(), b"secret", "{mechanism}");
        let about = std::fs::metadata(&file).unwrap();
        assert_eq!((about.mode() & 0o111, about.nlink()), (0, 1), "{mechanism}");
    }
}

/// Another process changes one byte of a path: in `w1` guests may write, in `w2` they may not.
const CHANGE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static void put(const char *path, const char *text) {
  int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
  write(fd, text, strlen(text)), close(fd);
}
static int is_changed(const char *path) {
  char text[16] = {0};
  int fd = open(path, O_RDONLY), changed = fd < 0 || read(fd, text, 15) != 6 || strcmp(text, "theirs");
  close(fd);
  return changed;
}
int main(int c, char **v) {
  static const char one[] = "{dir}/w1/file", other[] = "{dir}/w2/file";
  if (c > 1) mkdir("{dir}/w1", 0755), mkdir("{dir}/w2", 0755), put(other, "theirs");
  volatile char *path = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  strcpy((char *)path, one);
  pid_t child = fork();
  while (!child) path[sizeof one - 7] ^= '1' ^ '2';
  int seen = 0, right = 0;
  for (int i = 0; !right || (c > 1 ? !seen : i < 1500); i++) {
    put(one, "ours"), put("{dir}/w1/from", "ours");
    int done = i % 4 == 0 ? unlink((char *)path) : i % 4 == 1 ? rename((char *)path, "{dir}/w1/moved")
      : i % 4 == 2 ? rename("{dir}/w1/from", (char *)path) : chmod((char *)path, 0600);
    seen |= is_changed(other);
    right |= !done;
  }
  kill(child, SIGKILL);
  waitpid(child, 0, 0);
  if (c > 1) put(other, "theirs");
  printf("%s%s", right ? "changed " : "", seen ? "theirs" : "");
}
"#;

#[test]
fn words_that_change_while_they_are_looked_at_change_nothing_that_is_read_only() {
    check(
        "words_that_change_while_they_are_looked_at_change_nothing_that_is_read_only",
        CHANGE,
        "'{dir}/w1' = 'write'\n'{dir}/w2' = 'read'",
        "changed theirs",
        "changed ",
    );
}

/// Another process changes one byte of an address: `w1` is shown, and a socket in it the guest's own.
const CONNECT: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int c, char **v) {
  static const char one[] = "{dir}/w1/socket";
  struct sockaddr_un *name = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  name->sun_family = AF_UNIX;
  strcpy(name->sun_path, one);
  unlink(one);
  int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  bind(listening, (void *)name, sizeof *name);
  listen(listening, 8);
  pid_t child = fork();
  while (!child) ((volatile char *)name->sun_path)[sizeof one - 9] ^= '1' ^ '2';
  int seen = 0, right = 0;
  for (int i = 0; !right || (c > 1 ? !seen : i < 1500); i++) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (!connect(fd, (void *)name, sizeof *name)) {
      int accepted = accept(listening, 0, 0);
      if (accepted >= 0) right = 1, close(accepted); else seen = 1;
    }
    close(fd);
  }
  kill(child, SIGKILL);
  waitpid(child, 0, 0);
  unlink(one);
  printf("%s%s", right ? "connected " : "", seen ? "theirs" : "");
}
"#;

#[test]
fn words_that_change_while_they_are_looked_at_connect_to_nothing_that_is_not_shown() {
    let test = "words_that_change_while_they_are_looked_at_connect_to_nothing_that_is_not_shown";
    for mechanism in MECHANISMS {
        let listening = |scratch: &Scratch| {
            scratch.put("w1/", "");
            scratch.put("w2/", "");
            UnixListener::bind(scratch.path("w2/socket")).unwrap()
        };
        let more = "'{dir}/w1' = 'write'";
        let native = Some("connected theirs");
        check_where(
            mechanism,
            test,
            CONNECT,
            more,
            native,
            "connected ",
            listening,
        );
    }
}

/// Another thread changes the words; what answers within the process shares its memory. Between the two names there are
/// those of other lengths, and words that no zero ends.
const THREAD: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char right[] = "{dir}/shown/open/key", wrong[] = "{dir}/other/longest/key";
static volatile char path[256];
static volatile int over;
static void put(const char *words, int size) { for (int at = 0; at < size; at++) path[at] = words[at]; }
static void *change(void *none) {
  while (!over) put(wrong, sizeof wrong), put(right, sizeof right);
  return 0;
}
int main(int c, char **v) {
  pthread_t other;
  struct stat about;
  int seen = 0, known = 0, got = 0;
  put(right, sizeof right);
  pthread_create(&other, 0, change, 0);
  for (int i = 0; !got || (c > 1 ? !seen || !known : i < 800); i++) {
    char text[16] = {0};
    int fd = i % 2 ? open((char *)path, O_RDONLY) : syscall(SYS_open, path, O_RDONLY);
    if (fd >= 0 && read(fd, text, 15) > 0) seen |= !strcmp(text, "secret"), got |= !strcmp(text, "shown");
    close(fd);
    known |= !stat((char *)path, &about) && about.st_size == 6;
  }
  over = 1;
  pthread_join(other, 0);
  printf("%s%s%s", got ? "shown " : "", seen ? "secret " : "", known ? "known" : "");
}
"#;

#[test]
fn words_that_another_thread_changes_open_nothing_that_is_not_shown() {
    let test = "words_that_another_thread_changes_open_nothing_that_is_not_shown";
    for mechanism in MECHANISMS {
        let hidden = |scratch: &Scratch| scratch.put("other/longest/key", "secret");
        let native = Some("shown secret known");
        check_where(mechanism, test, THREAD, "", native, "shown ", hidden);
    }
}

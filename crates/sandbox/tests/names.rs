//! What guests are told of where they and their files are: names of the view, under every mechanism.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::case::*;
use common::*;
use std::process::Command;

/// Of a program that is executed by a name that it has not on the host: a line of what is not as the view has it.
const TOLD: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>
static char text[1 << 16];
static void is(const char *what, const char *right) {
  char got[4096] = {0};
  readlink(what, got, sizeof got - 1);
  if (strcmp(got, right)) printf("%s is %s\n", what, got);
}
static void holds(const char *file, const char *right, const char *wrong) {
  FILE *from = fopen(file, "r");
  text[fread(text, 1, sizeof text - 1, from)] = 0;
  if (!strstr(text, right) || (wrong && strstr(text, wrong))) printf("%s:\n%s", file, text);
  fclose(from);
}
int main(int c, char **v) {
  char way[64], other[4096];
  if (!getenv("AGAIN")) {
    int from = open("/proc/self/exe", O_RDONLY), to = open("/elsewhere/program", O_CREAT | O_WRONLY, 0700);
    while (sendfile(to, from, 0, 1 << 20) > 0);
    close(to), setenv("AGAIN", "", 1);
    execl("/elsewhere/program", "program", NULL);
    return puts("not executed"), 1;
  }
  int fd = open("/elsewhere/open/key", O_RDONLY);
  mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  sprintf(way, "/proc/self/fd/%d", fd), is(way, "/elsewhere/open/key");
  sprintf(way, "/proc/thread-self/fd/%d", fd), is(way, "/elsewhere/open/key");
  sprintf(way, "/dev/fd/%d", fd), is(way, "/elsewhere/open/key");
  is("/proc/self/exe", "/elsewhere/program");
  is("/proc/self/root", "/");
  chdir("/elsewhere/open"), is("/proc/self/cwd", "/elsewhere/open");
  if (strcmp(getcwd(other, sizeof other), "/elsewhere/open")) printf("works in %s\n", other);
  const char *maps[] = {"/proc/self/maps", "/proc/thread-self/maps", "/proc/self/smaps"};
  for (int i = 0; i < 3; i++) holds(maps[i], "/elsewhere/program", "{dir}/real"), holds(maps[i], "/elsewhere/open/key", "{dir}/real");
  holds("/proc/self/mounts", " /elsewhere ", 0), holds("/proc/mounts", " /elsewhere ", 0);
  holds("/proc/self/mountinfo", " /elsewhere ", MOUNTINFO);
  puts("as it is shown");
}
"#;

const MAPPED: &str = "'/elsewhere' = { real = '{dir}/real', access = 'write' }";

#[test]
fn names_in_proc_are_those_of_the_view() {
    let test = "names_in_proc_are_those_of_the_view";
    for mechanism in MECHANISMS {
        // There it names the real paths of what is shown (P15).
        let wrong = if mechanism == "namespace" {
            "0"
        } else {
            "\"{dir}/real\""
        };
        let source = TOLD.replace("MOUNTINFO", wrong);
        let real = |scratch: &Scratch| scratch.put("real/open/key", "shown");
        check_where(
            mechanism,
            test,
            &source,
            MAPPED,
            None,
            "as it is shown\n",
            real,
        );
    }
}

#[test]
fn sockets_are_bound_and_reached_by_names_of_the_view() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
static struct sockaddr_un name(const char *path) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  strcpy(name.sun_path, path);
  return name;
}
static int connected(const char *path) {
  struct sockaddr_un to = name(path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0), told = connect(fd, (void *)&to, sizeof to) ? errno : 0;
  close(fd);
  return told;
}
int main(void) {
  struct sockaddr_un at = name("/elsewhere/socket"), got = {0};
  struct stat about;
  socklen_t length = sizeof got;
  int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  umask(027);
  int bound = bind(listening, (void *)&at, sizeof at) ? errno : 0;
  listen(listening, 8);
  chdir("/elsewhere");
  symlink("/elsewhere/socket", "link");
  char way[64];
  sprintf(way, "/proc/self/fd/%d/socket", open(".", O_PATH));
  printf("%d %d %d %d %d ", bound, connected("/elsewhere/socket"), connected("socket"), connected("link"), connected(way));
  printf("%d %d ", connected("/elsewhere/none"), connected("{dir}/real/socket"));
  stat("socket", &about);
  getsockname(listening, (void *)&got, &length);
  printf("%d %o %s", S_ISSOCK(about.st_mode), about.st_mode & 0777, strncmp(got.sun_path, "/proc/self/fd/", 14) ? got.sun_path : "by descriptor");
}
"#;
    let test = "sockets_are_bound_and_reached_by_names_of_the_view";
    for mechanism in MECHANISMS {
        // P18.
        let own = if mechanism == "namespace" {
            "/elsewhere/socket"
        } else {
            "by descriptor"
        };
        let told = format!("0 0 0 0 0 2 2 1 750 {own}");
        let real = |scratch: &Scratch| scratch.put("real/", "");
        check_where(mechanism, test, source, MAPPED, None, &told, real);
    }
}

/// By the kernel, which has the host's names where there are no namespaces (P18).
#[test]
fn a_loader_is_looked_for_by_its_name() {
    let source = r#"
#include <stdlib.h>
int main(void) { return system("/job/b && echo executed || echo none"); }
"#;
    let test = "a_loader_is_looked_for_by_its_name";
    for mechanism in MECHANISMS {
        let program = |scratch: &Scratch| {
            scratch.put("real/", "");
            let made = "cp /lib64/ld-linux-x86-64.so.2 $0/real/loader && \
                        echo 'int main(void) { return 0; }' | gcc -x c -Wl,--dynamic-linker=/elsewhere/loader -o $0/job/b -";
            let made = Command::new("sh")
                .args(["-c", made])
                .arg(&scratch.0)
                .status();
            assert!(made.unwrap().success());
        };
        let told = if mechanism == "namespace" {
            "executed\n"
        } else {
            "none\n"
        };
        check_where(mechanism, test, source, MAPPED, None, told, program);
    }
}

/// Of scripts and programs, by name and by descriptor: their interpreters are those of the view, and never another file
/// that the host has by that name.
#[test]
fn interpreters_are_those_of_the_view() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
/* `held`: by a descriptor, with these flags. */
static void runs(const char *path, int held) {
  char *arguments[] = {"program", 0};
  int status, fd = held < 0 ? -1 : open(path, held);
  if (!fork()) {
    if (held < 0) execve(path, arguments, environ);
    else syscall(SYS_execveat, fd, "", arguments, environ, 0x1000);
    _exit(errno);
  }
  wait(&status);
  close(fd);
  printf("%d ", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}
int main(void) {
  const char *paths[] = {"/job/shown", "/job/hidden", "/job/chain", "/job/program", "/job/strange", "/bin/true"};
  for (int i = 0; i < 6; i++) runs(paths[i], -1), runs(paths[i], O_RDONLY), runs(paths[i], O_RDONLY | O_CLOEXEC), printf("; ");
  fflush(stdout);
  execl("/job/told", "told", "word", (char *)0);
}
"#;
    let more = "'{dir}/both' = { real = '{dir}/real', access = 'read' }";
    let made = r#"cd $0; mkdir real both
        cp /bin/sh real/sh; cp /bin/false both/sh; cp /lib64/ld-linux-x86-64.so.2 real/loader; cp real/loader both; cp /bin/sh other
        printf '#!%s/both/sh\nexit 42\n' $0 > job/shown; printf '#!%s/other/sh\nexit 42\n' $0 > job/hidden
        printf '#!/job/shown\n' > job/chain; printf '#!%s/both/sh -e\necho $# $1; false; exit 42\n' $0 > job/told
        chmod +x job/*
        for it in program:both strange:other; do
            echo 'int main(void) { return 7; }' | gcc -x c -Wl,--dynamic-linker=$0/${it#*:}/loader -o job/${it%:*} -
        done; cp real/loader other"#;
    let test = "interpreters_are_those_of_the_view";
    for mechanism in MECHANISMS {
        let begin = |scratch: &Scratch| {
            let mut sh = Command::new("sh");
            let made = sh.args(["-ec", made]).arg(&scratch.0).status();
            assert!(made.unwrap().success());
        };
        // A loader has to be the same file on the host (P18).
        let program = if mechanism == "namespace" {
            "7 7 7"
        } else {
            "2 2 2"
        };
        let told = format!("42 42 2 ; 2 2 2 ; 42 42 2 ; {program} ; 2 2 2 ; 0 0 0 ; 1 word\n");
        check_where(mechanism, test, source, more, None, &told, begin);
    }
}

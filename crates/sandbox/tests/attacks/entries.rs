//! Ways into the kernel, and into /proc, that only few programs take: open to none of them is what is closed otherwise.

use crate::common::case::*;

#[test]
fn entries_beside_the_usual_one_are_closed() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int child(void *none) { return 0; }
int main(void) {
  static char stack[65536];
  long got;
  asm volatile("int $0x80" : "=a"(got) : "a"(20) : "r8", "r9", "r10", "r11", "memory"); /* getpid of 32 bits */
  int old = got == getpid();
  long user_faults = syscall(323, O_CLOEXEC | 1); /* USER_MODE_ONLY: checkpoints are made with it */
  int pid = clone(child, stack + sizeof stack, CLONE_UNTRACED | 17, 0);
  int untraced = pid > 0;
  if (pid > 0) waitpid(pid, 0, __WALL);
  errno = 0;
  struct file_handle { unsigned bytes; int kind; char name[128]; } handle = {128};
  int mount, named = !syscall(303, AT_FDCWD, "/usr", &handle, &mount, 0);
  printf("%d %d %d %d", old, user_faults >= 0, untraced, named);
}
"#;
    let test = "entries_beside_the_usual_one_are_closed";
    for (mechanism, guest) in [
        ("namespace", "0 1 1 0"),
        ("notify", "0 1 1 0"),
        ("library", "0 1 1 0"),
        ("ptrace", "0 1 0 0"),
    ] {
        check_under(mechanism, test, source, "", Some("1 1 1 1"), guest);
    }
}

/// The kernel takes an int by the lower half of its register: the upper one turns nothing into something else.
#[test]
fn upper_halves_of_registers_are_nothing() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define HIGH 0xdead00000000L
#define HERE (HIGH | (unsigned)AT_FDCWD)
#define TOLD(call) ((call) < 0 ? errno : 0)
int main(int c, char **v) {
  struct stat about;
  long shown = open("{dir}/shown", O_RDONLY | O_DIRECTORY), file = open("file", O_CREAT | O_RDWR, 0600);
  mkdir("directory", 0700), symlink("file", "link"), unlink("linked");
  printf("socket %d ", TOLD(syscall(SYS_socket, HIGH | 1, HIGH | 2, HIGH)));
  long child = syscall(SYS_clone, HIGH | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (!child) _exit(0);
  printf("clone %d ", TOLD(child));
  printf("open %d %d %d %d ", TOLD(syscall(SYS_openat, HERE, "{dir}/shown/file", HIGH | O_RDONLY, HIGH)),
    TOLD(syscall(SYS_openat, HIGH | shown, "file", HIGH | O_RDONLY, 0)), TOLD(syscall(SYS_openat, HIGH | shown, "file", HIGH | O_WRONLY, 0)),
    TOLD(syscall(SYS_openat, HIGH | shown, "../other/file", HIGH, 0)));
  printf("fcntl %d %d ", TOLD(syscall(SYS_fcntl, HIGH | shown, HIGH | F_DUPFD, HIGH)), TOLD(syscall(SYS_fcntl, HIGH | file, HIGH | F_SETFL, HIGH | O_APPEND)));
  printf("names %d %d %d %d ", TOLD(syscall(SYS_linkat, HERE, "link", HERE, "linked", HIGH | AT_SYMLINK_FOLLOW)),
    TOLD(syscall(SYS_newfstatat, HERE, "link", &about, HIGH | AT_SYMLINK_NOFOLLOW)) || !S_ISLNK(about.st_mode),
    TOLD(syscall(SYS_fchownat, HERE, "link", -1L, -1L, HIGH | AT_SYMLINK_NOFOLLOW)), TOLD(syscall(SYS_unlinkat, HERE, "directory", HIGH | AT_REMOVEDIR)));
  printf("others %d %d ", TOLD(syscall(SYS_getsid, HIGH)), TOLD(syscall(SYS_userfaultfd, HIGH | O_CLOEXEC)) == EPERM);
  printf("unlink %d", TOLD(syscall(SYS_unlinkat, HIGH | shown, "longer", HIGH)));
  if (c > 1) close(open("{dir}/shown/longer", O_CREAT | O_WRONLY, 0644));
}
"#;
    let test = "upper_halves_of_registers_are_nothing";
    let user_faults = u8::from(!kumiko_linux::is_root());
    let native = format!(
        "socket 0 clone 0 open 0 0 0 0 fcntl 0 0 names 0 0 0 0 others 0 {user_faults} unlink 0"
    );
    for (mechanism, datagrams) in [
        ("namespace", 0),
        ("notify", 93),
        ("library", 93),
        ("ptrace", 93),
    ] {
        let guest = format!(
            "socket {datagrams} clone 1 open 0 0 30 2 fcntl 0 0 names 0 0 0 0 others 0 1 unlink 30"
        );
        check_under(mechanism, test, source, "", Some(&native), &guest);
    }
}

/// By a handle, which an account without capabilities cannot open at all; the case makes it.
#[test]
fn a_file_is_not_opened_by_its_handle() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static struct { struct file_handle head; char name[128]; } handle = {{128}};
int main(int c, char **v) {
  int mount, made;
  if (c > 1) {
    made = open("{dir}/shown/handle", O_CREAT | O_WRONLY, 0644);
    name_to_handle_at(AT_FDCWD, "{dir}/other/file", &handle.head, &mount, 0);
    write(made, &handle, sizeof handle);
  }
  read(open("{dir}/shown/handle", O_RDONLY), &handle, sizeof handle);
  int fd = open_by_handle_at(open("{dir}/shown", O_RDONLY), &handle.head, O_RDONLY);
  printf("%d", fd < 0 ? errno : 0);
}
"#;
    let native = if kumiko_linux::is_root() { "0" } else { "1" };
    check(
        "a_file_is_not_opened_by_its_handle",
        source,
        "",
        native,
        "1",
    );
}

#[test]
fn no_name_in_proc_leads_out() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  const char *ways[] = {"/proc/thread-self/root", "/proc/self/root", "/proc/self/task/%d/root", "/proc/%d/root", "/proc/thread-self/../%d/root",
    "/proc/self/cwd/../../../../../..", "/proc/thread-self/cwd/../../../../../..", "/proc/self/root/proc/self/root/..", "/proc/self/task/%d/cwd/../../../../../.."};
  char way[256], line[512], range[64];
  int right = 0, out = 0;
  for (int i = 0; i < 9; i++) {
    int length = sprintf(way, ways[i], (int)syscall(SYS_gettid));
    strcpy(way + length, "{dir}/shown/file");
    right += open(way, O_RDONLY) >= 0;
    strcpy(way + length, "{dir}/other/file");
    out += open(way, O_RDONLY) >= 0;
  }
  mmap(0, 4096, PROT_READ, MAP_PRIVATE, open("{dir}/shown/file", O_RDONLY), 0);
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) if (strstr(line, "shown/file")) {
    sscanf(line, "%60s", range);
    sprintf(way, "/proc/self/map_files/%s", range);
    out += open(way, O_WRONLY) >= 0;
  }
  printf("%d %d", right, out);
}
"#;
    let native = if kumiko_linux::is_root() {
        "9 10"
    } else {
        "9 9"
    };
    check("no_name_in_proc_leads_out", source, "", native, "9 0");
}

//! Guests that attack: each case runs with no sandbox first, where it must succeed, then under each mechanism.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

#[path = "../common/mod.rs"]
mod common;
mod entries;
mod executed;
mod floods;
mod lost_names;
mod races;

use common::case::*;
use common::*;

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
  char link[64];
  sprintf(link, "/tmp/kumiko-attack-link-%d", getpid());
  symlink("{dir}/other/file", link);
  got += open(link, O_RDONLY) >= 0;
  unlink(link);
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
                "$x = 'x' x 8; $i = pack('PQ', $x, 8); \
                 print kill(0, {pid}) ? 'signalled' : '', -e '/proc/{pid}/stat' ? 'seen' : '', \
                 syscall(101, 16, {pid}, 0, 0) == 0 ? 'traced' : '', \
                 syscall(434, {pid}, 0) >= 0 && '{mechanism}' ne 'namespace' ? 'held' : '', \
                 syscall(311, {pid}, $i, 1, $i, 1, 0) >= 0 ? 'written' : '', \
                 syscall(310, {pid}, $i, 1, $i, 1, 0) >= 0 ? 'read' : '', \
                 open(F, '/proc/{pid}/mem') ? 'opened' : '', open(F, '/proc/{pid}/fd/0') ? 'taken' : '', 'done'"
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

/// Another process exchanges a directory for a link out of the view, while files are opened and made below it.
const EXCHANGE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int c, char **v) {
  mkdir("d", 0700);
  close(open("d/key", O_CREAT | O_WRONLY, 0600));
  symlink("{dir}/other/open", "l");
  pid_t child = fork();
  while (!child) syscall(SYS_renameat2, AT_FDCWD, "d", AT_FDCWD, "l", 2);
  int seen = 0, right = 0;
  for (int i = 0; !right || (c > 1 ? !seen : i < 40); i++) {
    char text[16] = {0};
    int fd = open("d/key", O_RDONLY);
    if (fd >= 0) { if (read(fd, text, 15) > 0) seen = 1; else right = 1; }
    close(fd);
    close(open("d/made", O_CREAT | O_EXCL | O_WRONLY, 0600));
    mkdir("d/dir", 0700);
    symlink("x", "d/link");
    rename("d/made", "d/moved");
    chmod("d/key", 0600);
    chdir("d"); chdir("..");
    if (access("d", F_OK) && access("l", F_OK)) chdir("/job");
  }
  kill(child, SIGKILL);
  waitpid(child, 0, 0);
  printf("%s%s", right ? "shown " : "", seen ? "secret" : "");
}
"#;

#[test]
fn directories_that_are_exchanged_for_links_lead_nowhere_else() {
    let test = "directories_that_are_exchanged_for_links_lead_nowhere_else";
    let native = EXCHANGE.replace("chdir(\"d\"); chdir(\"..\");", "");
    for mechanism in MECHANISMS {
        // With no sandbox it is known to work by its first half alone: it would leave its own directory.
        check_under(mechanism, test, &native, "", Some("shown secret"), "shown ");
        let Some(scratch) = check_under(mechanism, test, EXCHANGE, "", None, "shown ") else {
            continue;
        };
        let left = std::fs::read_dir(scratch.0.join("other/open")).unwrap();
        let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["key"], "{mechanism}");
    }
}

#[test]
fn a_descriptor_that_is_passed_on_leads_nowhere_else() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static void pass(int to, int fd) {
  char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
  struct iovec part = {&byte, 1};
  struct msghdr all = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *c = CMSG_FIRSTHDR(&all);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  sendmsg(to, &all, 0);
}
static int taken(int from) {
  char room[CMSG_SPACE(sizeof(int))], byte;
  struct iovec part = {&byte, 1};
  struct msghdr all = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  int fd = -1;
  if (recvmsg(from, &all, 0) == 1 && CMSG_FIRSTHDR(&all)) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&all)), sizeof fd);
  return fd;
}
int main(void) {
  int ends[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  if (!fork()) {
    pass(ends[1], open("{dir}/shown", O_RDONLY | O_DIRECTORY));
    pass(ends[1], open("{dir}/shown/open", O_PATH));
    _exit(0);
  }
  int plain = taken(ends[0]), path = taken(ends[0]);
  int right = openat(plain, "file", O_RDONLY) >= 0 && openat(path, "key", O_RDONLY) >= 0;
  int out = 0;
  out += openat(plain, "../other/file", O_RDONLY) >= 0;
  out += openat(path, "../../other/file", O_RDONLY) >= 0;
  char way[64];
  sprintf(way, "/proc/self/fd/%d/../other/file", plain);
  out += open(way, O_RDONLY) >= 0;
  sprintf(way, "/dev/fd/%d/../../other/file", path);
  out += open(way, O_RDONLY) >= 0;
  fchdir(path);
  out += open("../../other/file", O_RDONLY) >= 0;
  printf("%d %d", right, out);
  wait(0);
}
"#;
    check(
        "a_descriptor_that_is_passed_on_leads_nowhere_else",
        source,
        "",
        "1 5",
        "1 0",
    );
}

#[test]
fn a_descriptor_for_its_path_alone_gives_no_right() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  int file = open("{dir}/shown/file", O_PATH), right = 0, out = 0;
  char way[64], text[8];
  sprintf(way, "/proc/self/fd/%d", file);
  right += open(way, O_RDONLY) >= 0;
  right += read(file, text, 1) < 0; /* EBADF, everywhere */
  out += open(way, O_WRONLY) >= 0;
  out += !truncate(way, 1);
  out += !chmod(way, 0600);
  out += !fchownat(file, "", 0, 0, AT_EMPTY_PATH) || !fchownat(file, "", getuid(), getgid(), AT_EMPTY_PATH);
  out += !linkat(AT_FDCWD, way, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW);
  out += open("{dir}/other/file", O_PATH) >= 0;
  out += openat(open("{dir}/shown", O_PATH), "../other/file", O_PATH) >= 0;
  printf("%d %d", right, out);
}
"#;
    check(
        "a_descriptor_for_its_path_alone_gives_no_right",
        source,
        "",
        "2 7",
        "2 0",
    );
}

/// What a supervisor puts below a thread's stack, or in pages for it, another thread writes over, wherever it may be.
const WORDS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char right[] = "/elsewhere/key", wrong[] = "{dir}/HIDDEN";
static char *volatile below;
static volatile int over, gone;
static inline long call(long n, long a, long b, long c, long d) {
  register long r10 asm("r10") = d;
  asm volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return n;
}
static void *change(void *none) {
  while (!below);
  while (!over)
    for (int at = 192; at < 1024; at += 64) memcpy((char *)((long)below & ~63) - at, wrong, sizeof wrong);
  gone = 1;
  return none;
}
int main(void) {
  pthread_t other;
  pthread_create(&other, 0, change, 0);
  long size = 0, got = 0, bad = 0;
  struct stat about;
  asm volatile("mov %%rsp, %0" : "=r"(below));
  /* No call of ours goes below the stack here. */
  for (int i = 0; i < 4000; i++) {
    long fd = call(SYS_openat, AT_FDCWD, (long)right, FLAGS, 0);
    if (fd < 0) continue;
    if (call(SYS_fstat, fd, (long)&about, 0, 0) == 0) { got++; bad += about.st_size != 5; }
    call(SYS_close, fd, 0, 0, 0);
  }
  over = 1;
  while (!gone); /* or our own words below the stack are written over */
  pthread_join(other, 0);
  printf("%s%s", got ? "shown " : "", bad ? "another" : "");
}
"#;

#[test]
fn what_a_supervisor_says_in_a_guests_place_no_other_thread_changes() {
    let test = "what_a_supervisor_says_in_a_guests_place_no_other_thread_changes";
    // Two that the policy shows: no domain stands between them.
    let more = "'/elsewhere' = { real = '{dir}/shown/open', access = 'read' }";
    for (mechanism, flags, hidden) in [
        ("ptrace", "O_RDONLY", "shown/longer"),
        ("ptrace", "O_PATH", "other/file"),
        ("notify", "O_RDONLY", "shown/longer"),
    ] {
        let source = WORDS.replace("FLAGS", flags).replace("HIDDEN", hidden);
        check_under(mechanism, test, &source, more, None, "shown ");
    }
    // There the words stand on the stack: what comes of others is seen afterwards, and ends the guest.
    let source = WORDS
        .replace("FLAGS", "O_PATH")
        .replace("HIDDEN", "other/file");
    if machine_for(test, "notify").is_none() {
        return;
    }
    let scratch = scratch();
    let fill = |text: &str| text.replace("{dir}", scratch.0.to_str().unwrap());
    if compiled(test, &scratch, &fill(&source)).is_none() {
        return;
    }
    let policy = policy(&scratch, &fill(more));
    let mut room = room_under("notify", &policy, &scratch.0.join("job")).unwrap();
    let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
    assert!(["", "shown "].contains(&&*got.stdout), "{}", got.stdout);
}

#[test]
fn pages_of_words_are_nobodys_to_change() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
int main(void) {
  unsigned long begin = 0, end = 0;
  char line[512], rights[8];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && begin >> 32 == 0x4a5d) break; else begin = 0;
  char *at = (char *)begin, *first = at; /* the first thread's */
  int page = sysconf(_SC_PAGESIZE), done = 0, fd;
  if (!begin) return printf("none"), 0;
  struct iovec from = {"x", 1}, to = {first, 1};
  done |= !mprotect(at, page, PROT_READ | PROT_WRITE) << 0;
  done |= !munmap(at, page) << 1;
  done |= (mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) << 2;
  done |= (mremap(at, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(0, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED) << 3;
  done |= !madvise(at, page, MADV_DONTNEED) << 4;
  done |= (process_vm_writev(getpid(), &from, 1, &to, 1, 0) == 1) << 5;
  if ((fd = open("/proc/self/mem", O_RDWR)) >= 0) done |= (pwrite(fd, "x", 1, begin) == 1) << 6;
  if ((fd = open("/proc/thread-self/mem", O_RDWR)) >= 0) done |= (pwrite(fd, "x", 1, begin) == 1) << 7;
  printf("%s %d %s", rights, done, fork() ? "parent " : "child ");
}
"#;
    let test = "pages_of_words_are_nobodys_to_change";
    let source = source.replace(
        " %s\", rights, done, fork() ? \"parent \" : \"child \")",
        "\", rights, done)",
    );
    check_under("ptrace", test, &source, "", Some("none"), "r--p 0");
}

#[test]
fn one_sandbox_in_another_is_told_what_it_cannot_have() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define TOLD(call) ((call) < 0 ? errno : 0)
int main(void) {
  struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  struct sock_fprog program = {1, &allow};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  pid_t child = fork();
  if (!child) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(errno);
    raise(SIGSTOP);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  int traced = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (WIFSTOPPED(status)) { ptrace(PTRACE_CONT, child, 0, 0); waitpid(child, &status, 0); }
  int listener = TOLD(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
  int filter = TOLD(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
  int domain = TOLD(syscall(444, 0, 0, 1)); /* Landlock's version */
  printf("trace %d listener %d filter %d domain %d", traced, listener, filter, domain);
}
"#;
    let test = "one_sandbox_in_another_is_told_what_it_cannot_have";
    let native = "trace 0 listener 0 filter 0 domain 0";
    for (mechanism, guest) in [
        ("namespace", "trace 0 listener 0 filter 0 domain 0"),
        ("notify", "trace 0 listener 16 filter 0 domain 95"),
        ("ptrace", "trace 1 listener 16 filter 0 domain 95"),
        ("library", "trace 1 listener 16 filter 0 domain 95"),
    ] {
        check_under(mechanism, test, source, "", Some(native), guest);
    }
}

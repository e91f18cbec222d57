//! The mechanism `library`: it answers as the supervisor does, what it does not reach is answered by that, and programs
//! of all kinds do not notice it. The contract's cases are run under it too (contract/).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::asker::ASKER;
use common::*;
use kumiko_policy::{Policy, parse};
use std::process::Command;

/// The default policy, with `{dir}/shown` and what it has closed and hidden in it, `{dir}/real` as /elsewhere, and a
/// directory to write to.
fn policy(scratch: &Scratch) -> Policy {
    let dir = scratch.0.to_str().unwrap();
    let text = format!(
        "[paths]\n'{dir}/shown' = 'read'\n'{dir}/shown/shut' = 'denied'\n'{dir}/shown/gone' = 'hidden'\n\
         '{dir}/written' = 'write'\n'/elsewhere' = {{ real = '{dir}/real', access = 'read' }}\n"
    );
    let mut policy = Policy::default();
    // The host's is where the case's own directory is.
    policy.paths.retain(|rule| rule.path.as_str() != "/tmp");
    policy.paths.extend(parse(&text, "case").unwrap().paths);
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    policy
}

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    for name in [
        "shown/file",
        "shown/deep/er/file",
        "shown/shut/key",
        "shown/gone/key",
        "real/file",
        "real/sub/file",
        "written/file",
        "other/file",
        "job/file",
        "job/sub/file",
    ] {
        scratch.put(name, "content\n");
    }
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, scratch.path(name)).unwrap();
    };
    // Where the account may make one: no guest is to open it here.
    let _ = Command::new("mknod")
        .args(["-m", "666", &scratch.path("shown/device"), "c", "1", "3"])
        .stderr(std::process::Stdio::null())
        .status();
    drop(std::os::unix::net::UnixListener::bind(
        scratch.path("shown/socket"),
    ));
    link("file", "shown/link");
    link("../other/file", "shown/out");
    link("deep", "shown/way");
    link("nothing", "shown/nowhere");
    link("round", "shown/round");
    link("/elsewhere/file", "job/link");
    scratch
}

/// Compiles a program of C to job/NAME; None, said: there is no compiler.
fn program(test: &str, scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> Option<()> {
    let source = source.replace("{dir}", scratch.0.to_str().unwrap());
    let code = scratch.put(&format!("{name}.c"), &source);
    let made = Command::new("gcc")
        .args([
            "-O1",
            "-w",
            "-pthread",
            "-o",
            &scratch.path(&format!("job/{name}")),
            &code,
        ])
        .args(flags)
        .status();
    match made {
        Ok(status) => {
            assert!(status.success(), "{test}: {name} was not compiled");
            Some(())
        }
        Err(_) => {
            eprintln!("SKIP {test}: missing gcc");
            None
        }
    }
}

/// What a program of C prints as a guest under the mechanism `library`.
fn check(test: &str, source: &str, flags: &[&str], expected: &str) {
    if machine_for(test, "library").is_none() {
        return;
    }
    let scratch = scratch();
    if program(test, &scratch, "a", source, flags).is_none() {
        return;
    }
    let mut room = room_under("library", &policy(&scratch), &scratch.0.join("job")).unwrap();
    let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
    assert_eq!(
        got.stdout, expected,
        "{test}: {:?} {}",
        got.ended, got.stderr
    );
}

/// Every way to write a path.
const PATHS: &str = r#""{dir}/shown/file", "{dir}/shown/deep/er/file", "{dir}/shown/deep", "{dir}/shown/deep/", "{dir}/shown/file/",
    "{dir}/shown", "{dir}/shown/.", "{dir}//shown/./deep///er/file", "{dir}/shown/deep/../file", "{dir}/shown/../other/file",
    "{dir}/shown/link", "{dir}/shown/out", "{dir}/shown/way/er/file", "{dir}/shown/nowhere", "{dir}/shown/round", "{dir}/shown/link/x",
    "{dir}/shown/shut", "{dir}/shown/shut/key", "{dir}/shown/gone", "{dir}/shown/gone/key", "{dir}/shown/none", "{dir}/shown/none/x",
    "{dir}/shown/file/x", "{dir}/shown/device", "{dir}/shown/socket", "{dir}/other/file", "{dir}/other", "{dir}", "/", "/etc", "/etc/passwd", "/nothing", "/elsewhere", "/elsewhere/file",
    "/elsewhere/sub/../file", "/elsewhere/sub/file", "{dir}/written/file", "{dir}/written", "/proc/self", "/proc/self/exe", "/proc/self/status",
    "/proc/1", "/dev/null", "/dev/tty", "/tmp", "/tmp/none", "/job", "/job/file", "file", "sub/file", "./file", "../job/file", "link", "sub", "sub/",
    ".", "..", "", "none", long_name, long_path, "passwd", "shown/file", "shown/shut/key", "shown/gone/key", "real/file""#;
const BASES: &str =
    r#""{dir}/shown", "/elsewhere", "/job", "/", "/etc", "/proc/self", "{dir}/written", "/dev""#;

#[test]
fn the_library_answers_as_the_supervisor_does() {
    let test = "the_library_answers_as_the_supervisor_does";
    if machine_for(test, "library").is_none() {
        return;
    }
    let scratch = scratch();
    let source = ASKER.replace("PATHS", PATHS).replace("BASES", BASES);
    if program(test, &scratch, "a", &source, &[]).is_none() {
        return;
    }
    let policy = policy(&scratch);
    let told = |mechanism: &str| -> Vec<String> {
        let mut room = room_under(mechanism, &policy, &scratch.0.join("job")).unwrap();
        let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
        assert_eq!(
            got.ended,
            kumiko_sandbox::Ended::Exited(0),
            "{}",
            got.stderr
        );
        got.stdout.lines().map(str::to_owned).collect()
    };
    // The first run makes what is missing where it may be made.
    told("notify");
    let (one, other) = (told("notify"), told("library"));
    assert_eq!(one.len(), other.len());
    let own = |line: &str| {
        // What is in them is a room's own.
        line.contains("/proc") || line.contains("/dev")
    };
    let mut compared = 0;
    for (one, other) in one.iter().zip(&other) {
        if !own(one) {
            assert_eq!(one, other);
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared} of {} lines", one.len());
}

#[test]
fn calls_that_no_library_makes_are_answered_too() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static long raw(long number, long a, long b, long c, long d) {
  long result;
  register long fourth asm("r10") = d;
  asm volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return result;
}
int main(void) {
  const char *shown = "/elsewhere/file", *unseen = "{dir}/other/file", *shut = "{dir}/shown/shut/key";
  struct { unsigned long flags, mode, resolve; } reads = {0}, writes = {O_WRONLY | O_TRUNC}, makes = {O_WRONLY | O_CREAT, 0600};
  printf("%d %ld %ld;", raw(257, -100, (long)shown, 0, 0) >= 0, raw(257, -100, (long)unseen, 0, 0), raw(257, -100, (long)shut, 0, 0));
  printf("%d %ld;", raw(437, -100, (long)shown, (long)&reads, 24) >= 0, raw(437, -100, (long)unseen, (long)&reads, 24));
  unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, "\xb8\x02\0\0\0\x0f\x05\xc3", 8);
  mprotect(code, 4096, PROT_READ | PROT_EXEC);
  long (*made)(const char *, int) = (void *)code;
  printf("%d %ld;", made(shown, 0) >= 0, made(unseen, 0));
  printf("%ld %ld\n", raw(437, -100, (long)"{dir}/shown/file", (long)&writes, 24), raw(437, -100, (long)"{dir}/shown/new", (long)&makes, 24));
}
"#;
    let expected = "1 -2 -13;1 -2;1 -2;-30 -30\n";
    let test = "calls_that_no_library_makes_are_answered_too";
    check(test, source, &[], expected);
    check(test, source, &["-static"], expected);
}

/// It may be jumped to; what it makes then is what the filter lets it make.
#[test]
fn the_library_s_own_instruction_writes_and_makes_nothing() {
    use kumiko_preload::{head, layout};
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
static long gate(long number, long a, const void *b, const void *c, long d) {
  long (*call)() = (void *)CALL;
  return call(number, a, b, c, d, 0L, 0L);
}
int main(void) {
  struct { unsigned long flags, mode, resolve; } how = {O_WRONLY | O_CREAT, 0600};
  printf("%ld ", gate(437, -100, "{dir}/other/new", &how, 24));
  printf("%ld ", gate(437, -100, "{dir}/other/file", (char *)HOWS + 8, 24));
  printf("%ld ", gate(257, -100, "{dir}/other/file", (void *)O_WRONLY, 0));
  printf("%ld ", gate(87, (long)"{dir}/other/file", 0, 0, 0));
  void *page = (void *)(HOWS & ~4095L);
  printf("%d %d ", mprotect(page, 4096, 7), munmap(page, 4096));
  printf("%d %d ", open("/proc/self/mem", O_RDWR), open("/proc/thread-self/mem", O_WRONLY));
  printf("%d %ld ", madvise(page, 4096, MADV_DONTNEED), ptrace(PTRACE_TRACEME, 0, 0, 0));
  printf("%d\n", mmap(page, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
}
"#;
    // The address of the function that the instruction is in stands 23 bytes before it.
    let call = head(layout::HEAD_GATE) - CALL_BYTES;
    let source = source
        .replace("CALL", &format!("{call:#x}"))
        .replace("HOWS", &format!("{:#x}L", head(layout::HEAD_HOWS)));
    check(
        "the_library_s_own_instruction_writes_and_makes_nothing",
        &source,
        &[],
        // By no description of its own it is answered as any other call: that one is none.
        "-2 -22 -2 -2 -1 -1 -1 -1 -1 -1 1\n",
    );
}

/// Bytes of `kumiko_call` before what follows its `syscall`: seven moves, and that.
const CALL_BYTES: u64 = 25;

#[test]
fn words_that_cannot_be_read_are_refused_as_the_kernel_does() {
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
static int tried(const char *path) { int fd = open(path, O_RDONLY); if (fd >= 0) close(fd); return fd < 0 ? errno : 0; }
int main(void) {
  char *two = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(two + 4096, 4096);
  const char *path = "/elsewhere/file";
  int length = strlen(path);
  memcpy(two + 4096 - length, path, length);
  int open_ended = tried(two + 4096 - length);
  memcpy(two + 4095 - length, path, length + 1);
  int whole = tried(two + 4095 - length);
  printf("%d %d ", open_ended, whole);
  printf("%d %d %d %d ", tried((char *)1), tried((char *)0x10000), tried((char *)-1), tried((char *)(1L << 63)));
  printf("%d %d ", stat(path, (void *)1) ? errno : 0, stat(path, (void *)(two + 4096)) ? errno : 0);
  munmap(two, 4096);
  printf("%d %d\n", readlink("/job/link", (void *)1, 9) < 0 ? errno : 0, fstat(0, (void *)1) ? errno : 0);
}
"#;
    check(
        "words_that_cannot_be_read_are_refused_as_the_kernel_does",
        source,
        &[],
        "14 0 14 14 14 14 14 14 14 14\n",
    );
}

/// A library that is opened at run time, with a site of its own that says what it has kept.
#[test]
fn a_library_that_comes_later_is_turned_and_notices_nothing() {
    let test = "a_library_that_comes_later_is_turned_and_notices_nothing";
    if machine_for(test, "library").is_none() {
        return;
    }
    let scratch = scratch();
    let later = r#"
asm(".globl later, site\nlater: push %rbx; push %r12; push %rbp\n"
    "mov %rdi, %rbp\n"
    "lea -512(%rsp), %rsp\n"
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movq %rsp, %xmm\\n; .endr\n"
    "movq $0x77, -8(%rsp); movq $0x78, -128(%rsp)\n"
    "mov $-100, %rdi; mov %rbp, %rsi; xor %edx, %edx; mov $0x55, %r8; mov $0x56, %r9; mov $0x57, %r10; mov $0x58, %r12; mov $0x59, %rbx; std\n"
    "site: mov $257, %eax; syscall\n"
    "cld; mov %rax, %rcx; xor %eax, %eax\n"
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movq %xmm\\n, %r11; cmp %rsp, %r11; jne 1f; .endr\n"
    "cmpq $0x77, -8(%rsp); jne 1f; cmpq $0x78, -128(%rsp); jne 1f\n"
    "cmp $-100, %rdi; jne 1f; cmp %rbp, %rsi; jne 1f; test %rdx, %rdx; jne 1f\n"
    "cmp $0x55, %r8; jne 1f; cmp $0x56, %r9; jne 1f; cmp $0x57, %r10; jne 1f; cmp $0x58, %r12; jne 1f; cmp $0x59, %rbx; jne 1f\n"
    "mov %rcx, %rax; jmp 2f\n"
    "1: mov $-9999, %rax\n"
    "2: lea 512(%rsp), %rsp; pop %rbp; pop %r12; pop %rbx; ret\n");
"#;
    let user = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
  void *lib = dlopen("/job/later.so", RTLD_NOW);
  if (!lib) { printf("%s\n", dlerror()); return 1; }
  long (*later)(const char *) = dlsym(lib, "later");
  long fd = later("/elsewhere/file");
  printf("%x %d ", *(unsigned char *)dlsym(lib, "site"), fd >= 0);
  printf("%ld %ld %ld\n", later("/elsewhere/none"), later("{dir}/other/file"), later("{dir}/shown/shut/key"));
}
"#;
    let made = program(test, &scratch, "later.so", later, &["-shared", "-fPIC"])
        .and_then(|()| program(test, &scratch, "a", user, &["-ldl"]));
    if made.is_none() {
        return;
    }
    let mut room = room_under("library", &policy(&scratch), &scratch.0.join("job")).unwrap();
    let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
    // A near jump stands there.
    assert_eq!(got.stdout, "e9 1 -2 -2 -13\n", "{}", got.stderr);
}

#[test]
fn threads_signals_and_children_open_files_at_once() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static volatile int wrong, interrupts;
static int opens(void) {
  int fd = open("/elsewhere/file", O_RDONLY);
  struct stat s;
  int right = fd >= 0 && !fstat(fd, &s) && s.st_size == 8 && !stat("/elsewhere/sub/file", &s) && open("/elsewhere/none", O_RDONLY) < 0;
  if (fd >= 0) close(fd);
  return right;
}
static void handler(int s) { interrupts++; if (!opens()) wrong++; }
static sigjmp_buf out;
static void leaves(int s) { siglongjmp(out, 1); }
static void *worker(void *_) { for (int i = 0; i < 2000; i++) if (!opens()) wrong++; return 0; }
int main(int c, char **v) {
  if (c > 1) return opens() ? 7 : 8;
  stack_t small = {malloc(16384), 0, 16384};
  sigaltstack(&small, 0);
  struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
  sigaction(SIGALRM, &a, 0);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, worker, 0);
  pthread_attr_t tiny;
  pthread_attr_init(&tiny);
  pthread_attr_setstacksize(&tiny, 16384);
  pthread_t on_tiny;
  pthread_create(&on_tiny, &tiny, worker, 0);
  for (int i = 0; i < 300; i++) { raise(SIGALRM); if (!opens()) wrong++; }
  for (int i = 0; i < 5; i++) {
    pid_t child;
    char *arguments[] = {"/job/a", "child", 0};
    int status;
    if (posix_spawn(&child, "/job/a", 0, 0, arguments, environ)) wrong += 100;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 7) wrong += 1000;
    if (!(child = vfork())) { execl("/job/a", "a", "child", 0); _exit(1); }
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 7) wrong += 10000;
    if (!(child = fork())) _exit(opens() ? 7 : 8);
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 7) wrong += 100000;
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  pthread_join(on_tiny, 0);
  mkfifo("/job/pipe", 0600);
  signal(SIGALRM, leaves);
  if (!sigsetjmp(out, 1)) { ualarm(20000, 20000); open("/job/pipe", O_RDONLY); wrong++; }
  ualarm(0, 0);
  if (!opens()) wrong++;
  printf("%d %d\n", wrong, interrupts);
}
"#;
    check(
        "threads_signals_and_children_open_files_at_once",
        source,
        &[],
        "0 300\n",
    );
}

/// Programs that people run, by what they print with no sandbox.
#[test]
fn programs_do_not_notice_it() {
    let test = "programs_do_not_notice_it";
    if machine_for(test, "library").is_none() {
        return;
    }
    let scripts = [
        (
            "bash",
            "for i in $(seq 200); do echo $i | cat | wc -c; done | sort | uniq -c",
        ),
        (
            "bash",
            "cd sub && ls -la | wc -l && find .. -name file | sort && cat ../file <(cat file) | md5sum",
        ),
        (
            "gcc",
            "printf '#include <stdio.h>\\nint main(void) { return !printf(\"built\\\\n\"); }' > p.c && gcc -O2 -o p p.c && ./p",
        ),
        (
            "git",
            "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; git init -q r && cd r && git config user.email a@b && git config user.name a \
             && echo x > f && git add f && git commit -qm one && git log --format=%s && git status --short && git fsck 2>&1",
        ),
        (
            "python3",
            "python3 -c 'import os, json, subprocess, threading; print(sorted(os.listdir(\"sub\")), os.path.exists(\"none\"), \
             subprocess.run([\"echo\", \"child\"], capture_output=True).stdout, json.dumps(os.stat(\"file\").st_size))'",
        ),
        (
            "perl",
            "perl -e 'use Cwd; open(F, \"<\", \"sub/file\") or die; print <F>; print -l \"link\" ? 1 : 0'",
        ),
        ("tar", "tar cf - sub file | tar tvf - | wc -l"),
    ];
    for (needs, script) in scripts {
        // Those that this machine has; a shell, a compiler and tar are everywhere that tests are.
        if !std::path::Path::new("/usr/bin").join(needs).exists() {
            continue;
        }
        let host = scratch();
        let native = Command::new("bash")
            .args(["-c", script])
            .env("PATH", "/usr/bin:/bin")
            .current_dir(host.0.join("job"))
            .output()
            .unwrap();
        let native = String::from_utf8_lossy(&native.stdout).into_owned();
        let guest = scratch();
        let mut room = room_under("library", &policy(&guest), &guest.0.join("job")).unwrap();
        let got = run(&mut *room, "bash", &["-c", script], &[]).unwrap();
        assert_eq!(
            got.stdout, native,
            "{script}\n{:?} {}",
            got.ended, got.stderr
        );
    }
}

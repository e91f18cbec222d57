//! The network's rate where the library in the guest keeps it (spec/policy P92): every call that moves data waits for it,
//! and nothing else does. A busy machine takes longer, never less: bounds from above are far from what is right.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use kumiko_policy::{Limited, NetworkLimiter, Policy};

/// What the programs below have in common: both ends of a connection, the time, a piece of 50 KB.
const HEAD: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { PIECE = 50000 };
static char piece[PIECE];
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static int ends[2];
static void connected(int kind) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
  socklen_t length = sizeof at;
  int heard = socket(AF_INET, kind, 0);
  if (bind(heard, (void *)&at, length) || getsockname(heard, (void *)&at, &length)) exit(90);
  if (kind == SOCK_STREAM) listen(heard, 1);
  ends[0] = socket(AF_INET, kind, 0);
  if (connect(ends[0], (void *)&at, length)) exit(91);
  ends[1] = kind == SOCK_STREAM ? accept(heard, 0, 0) : heard;
  int room = 4 << 20;
  for (int i = 0; i < 2; i++) setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), setsockopt(ends[i], SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
}
"#;

/// Whether this machine's C library makes its calls in the form that can be turned (P92): "glibc 2.36".
fn calls_are_seen() -> bool {
    let told = std::process::Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let minor = told.strip_prefix("glibc 2.").and_then(|m| m.parse().ok());
    minor.is_some_and(|minor: u32| minor < 41)
}

/// What a program prints under a limiter; None, said: something is missing here.
fn printed(test: &str, limiter: NetworkLimiter, kbyte_s: u64, source: &str) -> Option<String> {
    machine_for(test, "library")?;
    if !calls_are_seen() {
        eprintln!("SKIP {test}: missing glibc before 2.41");
        return None;
    }
    let scratch = Scratch::new();
    scratch.put("job/file", &"x".repeat(50_000));
    compiled(test, &scratch, &format!("{HEAD}{source}"))?;
    let mut policy = Policy {
        limiter: Some(limiter),
        ..Policy::default()
    };
    policy.limits.set(Limited::Network, Some(kbyte_s));
    let mut room = room_under("library", &policy, &scratch.0.join("job")).unwrap();
    let got = run(&mut *room, "/job/a", &[], &[]).unwrap();
    assert_eq!(got.stderr, "", "{test}: {:?} {}", got.ended, got.stdout);
    Some(got.stdout)
}

const BOTH: [NetworkLimiter; 2] = [NetworkLimiter::Deadline, NetworkLimiter::Paper];

#[test]
fn every_call_that_sends_or_receives_waits_for_what_it_moved() {
    let test = "every_call_that_sends_or_receives_waits_for_what_it_moved";
    // At 250 KB/s each piece is 200 ms; 100 of them the paper's formula gives, 20 the deadline.
    let source = r#"
static struct iovec part = {piece, PIECE}, halves[2] = {{piece, PIECE / 2}, {piece + PIECE / 2, PIECE / 2}};
static void *nothing(void *_) { return 0; }
static long sent(int how, int to) {
  struct msghdr one = {.msg_iov = halves, .msg_iovlen = 2};
  struct mmsghdr two[2] = {{{.msg_iov = halves, .msg_iovlen = 1}}, {{.msg_iov = halves + 1, .msg_iovlen = 1}}};
  int pipes[2], file = open("/job/file", O_RDONLY);
  switch (how) {
  case 0: return write(to, piece, PIECE);
  case 1: return writev(to, halves, 2);
  case 2: return send(to, piece, PIECE, 0);
  case 3: return sendmsg(to, &one, 0);
  case 4: return sendmmsg(to, two, 2, 0) == 2 ? two[0].msg_len + two[1].msg_len : -1;
  case 5: return sendfile(to, file, 0, PIECE);
  case 6: return sendto(to, piece, PIECE, 0, 0, 0);
  default: pipe(pipes); write(pipes[1], piece, PIECE); return splice(pipes[0], 0, to, 0, PIECE, 0);
  }
}
static long received(int how, int from) {
  struct msghdr one = {.msg_iov = halves, .msg_iovlen = 2};
  struct mmsghdr two[2] = {{{.msg_iov = halves, .msg_iovlen = 1}}, {{.msg_iov = halves + 1, .msg_iovlen = 1}}};
  int pipes[2];
  switch (how) {
  case 0: return read(from, piece, PIECE);
  case 1: return readv(from, halves, 2);
  case 2: return recv(from, piece, PIECE, 0);
  case 3: return recvmsg(from, &one, 0);
  case 4: return recvmmsg(from, two, 2, 0, 0) == 2 ? two[0].msg_len + two[1].msg_len : -1;
  case 5: return recvfrom(from, piece, PIECE, 0, 0, 0);
  default: pipe(pipes); return splice(from, 0, pipes[1], 0, PIECE, 0);
  }
}
int main(int c, char **v) {
  // With a thread C libraries make their calls at other places.
  for (int threads = 0; threads < 2; threads++) {
    connected(SOCK_STREAM);
    for (int how = 0; how < 8; how++) {
      usleep(200000);
      double begun = now();
      if (sent(how, ends[0]) != PIECE) printf("sent %d %d: %s\n", threads, how, strerror(errno));
      double took = now() - begun;
      if (took < 0.09) printf("sent %d %d: %f\n", threads, how, took);
      // Read where nobody counts it.
      for (long left = PIECE, got; left > 0 && (got = recv(ends[1], piece, left, 0)) > 0; ) left -= got;
    }
    for (int how = 0; how < 7; how++) {
      send(ends[0], piece, PIECE, 0);
      while (recv(ends[1], piece, PIECE, MSG_PEEK) < PIECE) usleep(1000);
      usleep(200000);
      double begun = now();
      if (received(how, ends[1]) != PIECE) printf("received %d %d: %s\n", threads, how, strerror(errno));
      double took = now() - begun;
      if (took < 0.09) printf("received %d %d: %f\n", threads, how, took);
    }
    pthread_t other;
    pthread_create(&other, 0, nothing, 0);
  }
  connected(SOCK_DGRAM);
  usleep(200000);
  double begun = now();
  for (int i = 0; i < 5; i++) send(ends[0], piece, PIECE / 5, 0);
  double took = now() - begun;
  if (took < 0.09) printf("datagrams: %f\n", took);
  printf("done\n");
}
"#;
    for limiter in BOTH {
        if let Some(said) = printed(test, limiter, 250, source) {
            assert_eq!(said, "done\n", "{limiter:?}");
        }
    }
}

#[test]
fn nothing_waits_that_moves_nothing_over_a_network() {
    let test = "nothing_waits_that_moves_nothing_over_a_network";
    // At 1 KB/s each piece would take 50 s.
    let source = r#"
int main(void) {
  int pipes[2], pair[2], file = open("/job/written", O_RDWR | O_CREAT, 0600);
  pipe(pipes);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  double begun = now();
  printf("%zd ", write(file, piece, PIECE));
  printf("%zd ", pread(file, piece, PIECE, 0));
  printf("%zd ", write(pipes[1], piece, PIECE));
  printf("%zd ", read(pipes[0], piece, PIECE));
  printf("%zd ", send(pair[0], piece, PIECE, 0));
  printf("%zd\n", recv(pair[1], piece, PIECE, MSG_WAITALL));
  connected(SOCK_STREAM);
  send(ends[0], piece, 10, 0);
  for (int i = 0; i < 10000; i++) while (recv(ends[1], piece, 10, MSG_PEEK) < 0);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  printf("%zd ", recv(ends[0], piece, PIECE, 0)), printf("%d ", errno == EAGAIN);
  printf("%zd ", write(-1, piece, PIECE)), printf("%d ", errno == EBADF);
  printf("%zd ", send(ends[0], (void *)8, PIECE, 0)), printf("%d\n", errno == EFAULT);
  printf("%d\n", now() - begun < 40);
}
"#;
    for limiter in BOTH {
        if let Some(said) = printed(test, limiter, 1, source) {
            let expected = "50000 50000 50000 50000 50000 50000\n-1 1 -1 1 -1 1\n1\n";
            assert_eq!(said, expected, "{limiter:?}");
        }
    }
}

#[test]
fn processes_and_programs_of_a_job_share_one_rate() {
    let test = "processes_and_programs_of_a_job_share_one_rate";
    // Eight at 1 MB/s send 200 KB each.
    let source = r#"
int main(int c, char **v) {
  if (c == 1) {
    double begun = now();
    for (int i = 0; i < 8; i++) if (!fork()) { if (i % 2) execl("/job/a", "a", "again", 0); c = 2; break; }
    if (c == 1) {
      while (wait(0) > 0);
      printf("%d\n", now() - begun >= 1.3);
      return 0;
    }
  }
  connected(SOCK_STREAM);
  for (int i = 0; i < 400; i++) if (send(ends[0], piece, 500, 0) != 500) return 1;
}
"#;
    for limiter in BOTH {
        if let Some(said) = printed(test, limiter, 1_000, source) {
            assert_eq!(said, "1\n", "{limiter:?}");
        }
    }
}

#[test]
fn signals_and_cancelled_threads_are_as_ever_and_waiting_goes_on() {
    let test = "signals_and_cancelled_threads_are_as_ever_and_waiting_goes_on";
    let source = r#"
static volatile int rang, cleaned;
static void ring(int s) { rang++; }
static void clean(void *_) { cleaned++; }
static void *waits(void *_) {
  pthread_cleanup_push(clean, 0);
  recv(ends[1], piece, PIECE, 0);
  pthread_cleanup_pop(0);
  return 0;
}
int main(void) {
  connected(SOCK_STREAM);
  struct sigaction a = {.sa_handler = ring};
  sigaction(SIGALRM, &a, 0);
  // A handler runs while it waits, and does not end it; nor is a call broken off that has moved something.
  ualarm(20000, 20000);
  double begun = now();
  long sent = send(ends[0], piece, PIECE, 0);
  printf("%ld %d %d ", sent, now() - begun >= 0.35, rang > 1);
  // A call that waits for others is broken off as the handler wants it.
  printf("%zd ", recv(ends[0], piece, 1, 0)), printf("%d ", errno == EINTR);
  ualarm(0, 0);
  while (recv(ends[1], piece, PIECE, 0) < 0);
  pthread_t thread;
  void *told;
  pthread_create(&thread, 0, waits, 0);
  usleep(100000);
  pthread_cancel(thread);
  pthread_join(thread, &told);
  printf("%d %d\n", told == PTHREAD_CANCELED, cleaned);
}
"#;
    for limiter in BOTH {
        if let Some(said) = printed(test, limiter, 100, source) {
            assert_eq!(said, "50000 1 1 -1 1 1 1\n", "{limiter:?}");
        }
    }
}

#[test]
fn programs_have_nothing_open_for_it_and_see_their_words_as_ever() {
    let test = "programs_have_nothing_open_for_it_and_see_their_words_as_ever";
    let source = r#"
int main(void) {
  printf("%d\n", open("/job/file", O_RDONLY));
}
"#;
    if let Some(said) = printed(test, NetworkLimiter::Deadline, 100, source) {
        assert_eq!(said, "3\n");
    }
}

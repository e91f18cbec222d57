//! Address rules (spec/policy P60 to P62): a guest connects to what they admit, and to nothing else by any way that there
//! is. Each case runs with no sandbox first, where everything is reached.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use kumiko_policy::{Policy, narrow, parse};
use kumiko_sandbox::{Machine, SandboxError, choose, open};
use std::net::TcpListener;
use std::process::Command;

const MECHANISMS: [&str; 2] = ["notify", "ptrace"];

fn policy(text: &str) -> Policy {
    narrow(&Policy::default(), &parse(text, "case").unwrap()).unwrap()
}

/// Prints an errno for each way to each port, 0 where it is reached. A word: run until the race is won.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static int four(const char *host, int port) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, host, &a.sin_addr);
  int told = connect(s, (void *)&a, sizeof a) ? errno : 0;
  close(s);
  return told;
}
static int six(const char *host, int port, int without) {
  int s = socket(AF_INET6, SOCK_STREAM, 0);
  if (s < 0) return without; /* a machine without IPv6 */
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  inet_pton(AF_INET6, host, &a.sin6_addr);
  int told = connect(s, (void *)&a, sizeof a) ? errno : 0;
  close(s);
  return told;
}
static struct sockaddr_in words;
static volatile int over;
static void *change(void *ports) {
  for (unsigned i = 0; !over; i++) *(volatile in_port_t *)&words.sin_port = htons(((int *)ports)[i & 1]);
  return 0;
}
/* Another thread changes the port: is the closed one ever reached? */
static int race(int open, int closed, int tries) {
  int ports[] = {open, closed}, won = 0;
  pthread_t other;
  words.sin_family = AF_INET, words.sin_addr.s_addr = htonl(INADDR_LOOPBACK), words.sin_port = htons(open);
  pthread_create(&other, 0, change, ports);
  for (int i = 0; i < tries && !won; i++) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in there = {0};
    socklen_t size = sizeof there;
    if (!connect(s, (void *)&words, sizeof words) && !getpeername(s, (void *)&there, &size))
      won = ntohs(there.sin_port) == closed;
    struct linger gone = {1, 0};
    setsockopt(s, SOL_SOCKET, SO_LINGER, &gone, sizeof gone);
    close(s);
  }
  over = 1;
  pthread_join(other, 0);
  return won;
}
int main(int count, char **words) {
  int open = atoi(words[1]), closed = atoi(words[2]), native = count > 3;
  printf("%d %d ", four("127.0.0.1", open), four("127.0.0.1", closed));
  printf("%d %d ", four("0.0.0.0", open), four("0.0.0.0", closed));
  printf("%d %d ", six("::ffff:127.0.0.1", open, 0), six("::ffff:127.0.0.1", closed, native ? 0 : 13));
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  printf("%d ", s < 0 ? errno : 0);
  s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(closed), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int sent = sendto(s, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (void *)&a, sizeof a);
  /* Natively it is as the machine is set up. */
  printf("%d ", native ? 0 : sent < 0 ? errno : 0);
  printf("%d\n", race(open, closed, native ? 1000000 : 300));
  return 0;
}
"#;

#[test]
fn guests_reach_the_addresses_that_are_allowed_and_no_others() {
    let test = "guests_reach_the_addresses_that_are_allowed_and_no_others";
    // What nobody accepts is connected all the same, as long as there is room in the queue.
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.each_ref().map(|l| l.local_addr().unwrap().port());
    for listener in listeners {
        std::thread::spawn(move || while listener.accept().is_ok() {});
    }
    let words = ports.map(|port| port.to_string());
    for mechanism in MECHANISMS {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = Scratch::new();
        scratch.put("job/", "");
        let (code, program) = (scratch.put("a.c", SOURCE), scratch.path("job/a"));
        let made = Command::new("gcc")
            .args(["-O1", "-pthread", "-o", &program, &code])
            .status();
        if !made.is_ok_and(|status| status.success()) {
            return eprintln!("SKIP {test}: missing gcc");
        }
        let native = Command::new(&program)
            .args(&words)
            .arg("native")
            .output()
            .unwrap();
        let native = String::from_utf8_lossy(&native.stdout).trim().to_owned();
        assert_eq!(native, "0 0 0 0 0 0 0 0 1", "with no sandbox");
        let rules = [
            format!("[network]\nallow = ['127.0.0.1:{}']\n", ports[0]),
            format!("[network]\ndeny = ['127.0.0.0/8:{}']\n", ports[1]),
        ];
        for rules in rules {
            let mut room = room_under(mechanism, &policy(&rules), &scratch.0.join("job")).unwrap();
            let words = words.each_ref().map(String::as_str);
            let got = run(&mut *room, "/job/a", &words, &[]).unwrap();
            // EACCES; EPROTONOSUPPORT for datagrams, EOPNOTSUPP for connecting by sending.
            let expected = "0 13 0 13 0 13 93 95 0";
            assert_eq!(
                got.stdout.trim(),
                expected,
                "{mechanism} {rules}{}",
                got.stderr
            );
        }
    }
}

#[test]
fn a_mechanism_that_does_not_know_addresses_is_not_taken() {
    let policy = policy("[network]\nallow = ['192.0.2.1']\n");
    let refused = choose(&policy, Some("namespace"), &Machine::assume()).unwrap_err();
    let expected = SandboxError::Addresses {
        mechanism: "namespace",
    };
    assert_eq!(refused, expected);
    let choice = choose(&policy, None, &Machine::assume()).unwrap();
    assert_eq!(choice.mechanism, "notify");
    let why = choice.why_not.iter().find(|(name, _)| name == "namespace");
    assert_eq!(why.unwrap().1, "does not hold guests to addresses");
    // Nor by who did not ask.
    let namespace = choose(&Policy::default(), Some("namespace"), &Machine::assume()).unwrap();
    let scratch = Scratch::new();
    let prepared = open(&namespace).prepare(&policy, &scratch.0);
    assert_eq!(prepared.err(), Some(expected));
}

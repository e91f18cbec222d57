//! Address rules (spec/policy P60 to P62): a guest connects and sends to what they admit and binds it, and nothing else by
//! any way that there is. Each case runs with no sandbox first, where everything is reached.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use kumiko_policy::{Policy, narrow, parse};
use kumiko_sandbox::{Machine, SandboxError, choose, open};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::Command;

const MECHANISMS: [&str; 3] = ["notify", "ptrace", "library"];

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
#include <sys/uio.h>
#include <unistd.h>
#include <sys/syscall.h>
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
static struct sockaddr_in at(int family, int port) {
  struct sockaddr_in a = {.sin_family = family, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return a;
}
/* Datagrams, six by five ways: a bit for each that fails. */
static int datagrams(int to) {
  struct sockaddr_in a = at(AF_INET, to), none = at(AF_UNSPEC, to);
  struct iovec parts[2] = {{"da", 2}, {"ta", 2}};
  struct mmsghdr all[2] = {{{.msg_name = &a, .msg_namelen = sizeof a, .msg_iov = parts, .msg_iovlen = 2}, 99},
                           {{.msg_name = &a, .msg_namelen = sizeof a, .msg_iov = parts, .msg_iovlen = 1}, 99}};
  int s = socket(AF_INET, SOCK_DGRAM, 0), told = 0;
  if (sendto(s, "data", 4, 0, (void *)&a, sizeof a) != 4) told |= 1;
  if (sendto(s, "data", 4, 0, (void *)&none, sizeof none) != 4) told |= 2;
  if (sendmsg(s, &all[0].msg_hdr, 0) != 4) told |= 4;
  for (int i = 0; i < 2;) {
    int n = syscall(SYS_sendmmsg, s, all + i, 2 - i, 0);
    if (n < 1 || all[i].msg_len != (i ? 2 : 4)) { told |= 8; break; }
    i += n;
  }
  if (connect(s, (void *)&a, sizeof a) || send(s, "data", 4, 0) != 4) told |= 16;
  close(s);
  return told;
}
static int bound(const char *host, int port) {
  int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in a = at(AF_INET, port);
  inet_pton(AF_INET, host, &a.sin_addr);
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  int told = bind(s, (void *)&a, sizeof a) ? errno : 0;
  close(s);
  return told;
}
/* With no sandbox, what arrives at the closed port is on stdin. */
static int send_race(int open, int closed, int tries) {
  int ports[] = {open, closed}, won = 0;
  pthread_t other;
  over = 0;
  words.sin_port = htons(open);
  pthread_create(&other, 0, change, ports);
  char text[16];
  struct iovec part = {"data", 4};
  struct msghdr all = {.msg_name = &words, .msg_namelen = sizeof words, .msg_iov = &part, .msg_iovlen = 1};
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  for (int i = 0; i < tries && !won; i++) {
    if (i % 2) sendto(s, "data", 4, 0, (void *)&words, sizeof words); else sendmsg(s, &all, 0);
    won = recv(0, text, sizeof text, MSG_DONTWAIT) > 0;
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
  printf("%d %d ", datagrams(open), native ? 0 : datagrams(closed));
  int s = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
  printf("%d ", native ? 0 : s < 0 ? errno : 0);
  s = socket(AF_INET, SOCK_STREAM, 0);
  char route[] = {131, 7, 4, 127, 0, 0, 1, 0}; /* loose source route, by the first address */
  printf("%d ", native ? 0 : setsockopt(s, IPPROTO_IP, IP_OPTIONS, route, sizeof route) ? errno : 0);
  struct sockaddr_in a = at(AF_INET, closed);
  int sent = sendto(s, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (void *)&a, sizeof a);
  /* Natively it is as the machine is set up. */
  printf("%d ", native ? 0 : sent < 0 ? errno : 0);
  /* The ports are taken: EADDRINUSE is as good as having them. */
  printf("%d %d %d %d ", bound("127.0.0.1", open) % 98, bound("127.0.0.1", closed) % 98,
         bound("0.0.0.0", closed) % 98, bound("0.0.0.0", 0));
  printf("%d ", race(open, closed, native ? 1000000 : 300));
  printf("%d\n", send_race(open, closed, native ? 1000000 : 300));
  return 0;
}
"#;

/// Those that [`SOURCE`] sends to what is open before it races; what does not fit into a socket is lost.
const DATAGRAMS: usize = 6;

/// Listeners of streams and of datagrams at one port.
fn both() -> (TcpListener, UdpSocket) {
    loop {
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(datagrams) = UdpSocket::bind(stream.local_addr().unwrap()) {
            datagrams.set_nonblocking(true).unwrap();
            return (stream, datagrams);
        }
    }
}

/// How many datagrams wait there; none does afterwards.
fn arrived(socket: &UdpSocket) -> usize {
    std::iter::from_fn(|| socket.recv(&mut [0; 16]).ok()).count()
}

#[test]
fn guests_reach_the_addresses_that_are_allowed_and_no_others() {
    let test = "guests_reach_the_addresses_that_are_allowed_and_no_others";
    let [(first, heard), (second, unheard)] = [(); 2].map(|()| both());
    let ports = [&first, &second].map(|l| l.local_addr().unwrap().port());
    for listener in [first, second] {
        std::thread::spawn(move || while listener.accept().is_ok() {});
    }
    let words = ports.map(|port| port.to_string());
    for mechanism in MECHANISMS {
        if machine_for(test, mechanism).is_none() {
            continue;
        }
        let scratch = Scratch::new();
        scratch.put("job/", "");
        let Some(program) = compiled(test, &scratch, SOURCE) else {
            return;
        };
        let native = Command::new(&program)
            .args(&words)
            .arg("native")
            .stdin(OwnedFd::from(unheard.try_clone().unwrap()))
            .output()
            .unwrap();
        let native = String::from_utf8_lossy(&native.stdout).trim().to_owned();
        assert_eq!(
            native, "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1",
            "with no sandbox"
        );
        assert!(arrived(&heard) >= DATAGRAMS, "with no sandbox");
        arrived(&unheard);
        let rules = [
            format!("[network]\nallow = ['127.0.0.1:{}']\n", ports[0]),
            format!("[network]\ndeny = ['127.0.0.0/8:{}']\n", ports[1]),
        ];
        for rules in rules {
            let mut room = room_under(mechanism, &policy(&rules), &scratch.0.join("job")).unwrap();
            let words = words.each_ref().map(String::as_str);
            let got = run(&mut *room, "/job/a", &words, &[]).unwrap();
            // EACCES; EPROTONOSUPPORT for what is neither TCP nor UDP, EPERM for a route, EOPNOTSUPP for connecting by
            // sending.
            let expected = "0 13 0 13 0 13 0 31 93 1 95 0 13 13 0 0 0";
            let what = format!("{mechanism} {rules}{}", got.stderr);
            assert_eq!(got.stdout.trim(), expected, "{what}");
            assert!(arrived(&heard) >= DATAGRAMS, "{what}");
            assert_eq!(arrived(&unheard), 0, "{what}");
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

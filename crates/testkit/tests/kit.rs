//! The kit itself: processes end with their guard, waits end at their deadline, the CA's credentials are what they say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, SystemTime};

use kumiko_identity::{GridMap, ProxyKind, Purpose, VerifyError, verify};
use kumiko_testkit::proxy::{Fault, Harm, Proxy, Way};
use kumiko_testkit::{Ca, Process, run, until};

#[test]
fn a_process_says_its_lines_and_ends_with_its_guard() {
    let mut process =
        Process::start(Command::new("sh").args(["-c", "echo one; echo two; exec sleep 1000"]));
    assert_eq!(process.line_with("two"), "two");
    let alive = format!("/proc/{}/stat", process.id());
    assert!(std::fs::exists(&alive).unwrap());
    drop(process);
    assert!(!std::fs::exists(&alive).unwrap());
}

#[test]
fn a_command_runs_to_its_end_with_all_it_says() {
    let output = run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
}

#[test]
#[should_panic(expected = "never said \"three\"; it said:\none\nand failed\n")]
fn a_line_that_never_comes_is_a_failure_that_shows_what_came() {
    let mut process =
        Process::start(Command::new("sh").args(["-c", "echo one; echo and failed >&2"]));
    process.line_with("three");
}

#[test]
fn until_asks_again() {
    let mut asked = 0;
    let answer = until("the third time", || {
        asked += 1;
        (asked == 3).then_some(asked)
    });
    assert_eq!(answer, 3);
}

#[test]
fn the_ca_makes_users_hosts_proxies_and_a_mapfile() {
    let ca = Ca::new();
    let (alice, host) = (ca.user("Alice"), ca.host("localhost"));
    let judge = |credential: &kumiko_identity::Credential, purpose: &Purpose| {
        verify(credential.chain(), &ca.trust(), SystemTime::now(), purpose)
    };
    let limited = ca.limited_proxy(&ca.proxy(&alice));
    let peer = judge(&limited, &Purpose::Client).unwrap();
    assert_eq!(
        (peer.identity, peer.kind),
        (ca.name("Alice"), ProxyKind::Limited)
    );
    for name in ["localhost", "127.0.0.1", "::1"] {
        judge(&host, &Purpose::Server(name.to_owned())).unwrap();
    }
    let expired = judge(&ca.expired_proxy(&alice), &Purpose::Client);
    assert!(matches!(expired, Err(VerifyError::Expired { .. })));
    let map = GridMap::parse(&Ca::mapfile(&[(&limited, "alice"), (&host, "daemon")])).unwrap();
    assert_eq!(map.lookup(alice.subject()), ["alice"]);
}

#[test]
fn a_proxy_does_its_harm_at_its_byte_and_once() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::before(upstream.local_addr().unwrap()).unwrap();
    let came = || {
        let mut near = TcpStream::connect(proxy.address()).unwrap();
        near.write_all(b"abcdefgh").unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        let mut bytes = String::new();
        let (mut far, _) = upstream.accept().unwrap();
        far.read_to_string(&mut bytes).unwrap();
        bytes
    };
    for (harm, expected) in [
        (Harm::Cut, "abc"),
        (Harm::HalfClose, "abc"),
        (Harm::Lose(2), "abcfgh"),
        (Harm::Twice, "abcdefghdefgh"),
        (Harm::Hold(Duration::from_millis(5)), "abcdefgh"),
    ] {
        let way = Way::Up;
        let after_bytes = 3;
        proxy.arm(Fault {
            way,
            after_bytes,
            between: false,
            harm,
        });
        assert_eq!(came(), expected, "{harm:?}");
        assert!(proxy.disarm(), "{harm:?}");
        assert_eq!(came(), "abcdefgh", "{harm:?}");
    }
}

#[test]
fn a_proxy_does_its_harm_between_records_too() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::before(upstream.local_addr().unwrap()).unwrap();
    let records = *b"abc\0\x02defgh\0\0ijk\0\x01l";
    for (after_bytes, expected) in [(0, 0), (1, 7), (7, 7), (8, 12)] {
        proxy.arm(Fault {
            way: Way::Up,
            after_bytes,
            between: true,
            harm: Harm::Cut,
        });
        let mut near = TcpStream::connect(proxy.address()).unwrap();
        let (mut far, _) = upstream.accept().unwrap();
        for byte in &records {
            // Who comes late finds it cut.
            let _ = near.write_all(&[*byte]);
        }
        let _ = near.shutdown(Shutdown::Write);
        let mut came = Vec::new();
        // It may be reset rather than ended.
        let _ = far.read_to_end(&mut came);
        assert_eq!(came, records[..expected], "after {after_bytes}");
        assert!(proxy.disarm());
    }
}

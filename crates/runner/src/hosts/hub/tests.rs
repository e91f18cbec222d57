//! A hub with callers on the loopback.

use super::*;
use kumiko_wire::meeting::encode;
use std::io::{Read, Write};
use std::net::Shutdown;

/// Far more than the loopback takes.
const WITHIN: Duration = Duration::from_secs(20);

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 92, 0, last).into()
}

struct Meeting {
    hub: Hub,
    door: Door,
}

impl Meeting {
    fn of(others: usize) -> Meeting {
        let hub = Hub::open(others).unwrap();
        let door = hub.door().unwrap();
        Meeting { hub, door }
    }

    fn call(&self, message: &Message) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.door.port)).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        meeting::send(&stream, message).unwrap();
        stream
    }

    fn here(&self, secret: &str, number: u32) -> TcpStream {
        self.call(&Message::Here {
            secret: secret.to_owned(),
            number,
            own: address(number as u8),
            first: address(100),
        })
    }

    fn host(&mut self, number: u32) -> TcpStream {
        let stream = self.here(&self.door.secret.clone(), number);
        let place = number as usize - 1;
        self.until(|hub| hub.hosts[place].is_some());
        stream
    }

    fn launch(&self, number: u8) -> TcpStream {
        self.call(&Message::Launch {
            secret: self.door.secret.clone(),
            address: address(number),
            command: b"true".to_vec(),
        })
    }

    /// All that failed meanwhile.
    fn until(&mut self, so: impl Fn(&Hub) -> bool) -> Vec<String> {
        let mut failed = Vec::new();
        while !so(&self.hub) {
            failed.extend(self.hub.turn(Some(WITHIN)).unwrap());
        }
        failed
    }

    fn turn(&mut self) -> Vec<String> {
        self.hub.turn(Some(WITHIN)).unwrap()
    }
}

fn heard(stream: &TcpStream) -> Message {
    meeting::hear(stream, &mut Vec::new()).unwrap()
}

fn is_over(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Ok(0) | Err(_))
}

#[test]
fn a_command_goes_to_the_host_that_is_named_and_its_end_to_who_called() {
    let mut f = Meeting::of(2);
    assert_eq!(f.hub.missing(), Some(1));
    let second = f.host(2);
    assert_eq!(f.hub.missing(), Some(1));
    let first = f.host(1);
    assert_eq!(f.hub.missing(), None);
    let all: Vec<_> = f.hub.addresses().collect();
    assert_eq!(all, [1, 2].map(|one| (address(one), address(100))));
    let callers = [f.launch(1), f.launch(2)];
    let called = |hub: &Hub| hub.hosts.iter().flatten().all(|host| host.launch.is_some());
    assert!(f.until(called).is_empty());
    for (host, caller, status) in [(second, &callers[1], 7), (first, &callers[0], 0)] {
        let command = b"true".to_vec();
        assert_eq!(heard(&host), Message::Run { command });
        let said = b"why".to_vec();
        meeting::send(&host, &Message::Ended { status, said }).unwrap();
        let failed = f.turn();
        assert_eq!(failed.len(), usize::from(status != 0), "{failed:?}");
        let said = Vec::new();
        assert_eq!(heard(caller), Message::Ended { status, said });
        // That it goes now is no failure.
        drop(host);
        assert!(f.turn().is_empty());
    }
}

#[test]
fn a_host_that_goes_before_its_command_ends_has_failed() {
    let mut f = Meeting::of(1);
    let host = f.host(1);
    let caller = f.launch(1);
    f.until(|hub| hub.hosts.iter().flatten().all(|host| host.launch.is_some()));
    host.shutdown(Shutdown::Both).unwrap();
    let failed = f.turn();
    assert!(
        failed.concat().contains("host 1 (10.92.0.1) is gone"),
        "{failed:?}"
    );
    let (status, said) = (NOT_REACHED, Vec::new());
    assert_eq!(heard(&caller), Message::Ended { status, said });
}

#[test]
fn a_host_runs_one_command_and_none_where_there_is_no_such_host() {
    let mut f = Meeting::of(1);
    let _host = f.host(1);
    let _first = f.launch(1);
    f.until(|hub| hub.hosts.iter().flatten().all(|host| host.launch.is_some()));
    for number in [1, 9] {
        let refused = f.launch(number);
        let token = f.hub.next;
        f.until(|hub| hub.callers.contains_key(&token));
        f.turn();
        let Message::Ended { status, said } = heard(&refused) else {
            panic!("not refused");
        };
        assert_eq!(status, NOT_REACHED);
        assert!(!said.is_empty());
    }
}

#[test]
fn who_does_not_know_the_secret_or_is_no_host_is_let_go() {
    let mut f = Meeting::of(1);
    let secret = f.door.secret.clone();
    let mut garbage = TcpStream::connect((Ipv4Addr::LOCALHOST, f.door.port)).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let run = Message::Run {
        command: Vec::new(),
    };
    let strangers = [
        garbage,
        f.here(&"0".repeat(secret.len()), 1),
        f.here(&secret, 2),
        f.call(&run),
    ];
    let (next, all) = (f.hub.next, strangers.len() as u64);
    f.until(|hub| hub.next == next + all && hub.callers.is_empty());
    for stranger in &strangers {
        assert!(is_over(stranger));
    }
    assert_eq!(f.hub.missing(), Some(1));
    // As often as they come, the host is heard.
    let port = f.door.port;
    let silent = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let silent: Vec<TcpStream> = (0..2 * UNKNOWN_MOST).map(|_| silent()).collect();
    let _host = f.host(1);
    assert!(f.hub.callers.len() <= UNKNOWN_MOST + 1);
    drop(silent);
}

#[test]
fn what_comes_in_pieces_counts_once_it_is_whole() {
    let mut f = Meeting::of(1);
    let mut bytes = Vec::new();
    let (secret, number) = (f.door.secret.clone(), 1);
    let (own, first) = (address(1), address(100));
    let here = Message::Here {
        secret,
        number,
        own,
        first,
    };
    encode(&here, &mut bytes);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, f.door.port)).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in &bytes[..bytes.len() - 1] {
        stream.write_all(&[*byte]).unwrap();
        f.turn();
    }
    assert_eq!(f.hub.missing(), Some(1));
    stream.write_all(b"\n").unwrap();
    f.until(|hub| hub.missing().is_none());
}

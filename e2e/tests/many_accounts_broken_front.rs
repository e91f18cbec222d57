//! What a front that was taken over can do and what it cannot: the test takes the front's line to the monitor, which root
//! may, and speaks in its place.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "many_accounts/place.rs"]
#[allow(dead_code)]
mod place;

use bytes::Bytes;
use kumiko_e2e::{alive, kill, until};
use kumiko_identity::{Certificate, Credential};
use kumiko_linux::packets::{Packet, Packets};
use kumiko_linux::process;
use kumiko_wire::monitor::{FromFront, MESSAGE_MOST_BYTES, NotIntroduced, ToFront};
use kumiko_wire::relay::{Door, Preface};
use place::Place;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The front's line, with the front stopped: nobody else hears the answers.
struct Broken {
    line: Packets,
    front: u32,
}

impl Broken {
    fn take(place: &Place) -> Broken {
        let front = place.front().unwrap();
        let handle = process::pidfd(front as i32).unwrap();
        let descriptors = std::fs::read_dir(format!("/proc/{front}/fd")).unwrap();
        let line = descriptors
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
            .filter_map(|number| process::descriptor_of(handle.as_fd(), number).ok())
            .find_map(|copy| Packets::from_fd(copy).ok());
        kill(front, "STOP");
        Broken {
            line: line.expect("the front has a line"),
            front,
        }
    }

    fn say(&self, message: &FromFront) {
        self.line.send(&message.encode(), None).unwrap();
    }

    fn hear(&self) -> (ToFront, Option<OwnedFd>) {
        let mut buffer = [0; MESSAGE_MOST_BYTES];
        let mut heard = None;
        until("the monitor answers", || {
            match self.line.receive(&mut buffer) {
                Ok(Packet::Message(bytes, stream)) => {
                    heard = Some((ToFront::decode(&buffer[..bytes]).unwrap(), stream));
                    true
                }
                Ok(Packet::End) => panic!("the monitor has closed the line"),
                Err(_) => false,
            }
        });
        heard.unwrap()
    }

    fn introduce(&self, subject: &str) -> Result<UnixStream, NotIntroduced> {
        let subject = subject.to_owned();
        self.say(&FromFront::Introduce { number: 9, subject });
        match self.hear() {
            (ToFront::Introduced { number: 9, .. }, Some(stream)) => Ok(stream.into()),
            (ToFront::Refused { number: 9, why }, None) => Err(why),
            other => panic!("{other:?}"),
        }
    }
}

fn chain(place: &Place, name: &str) -> Vec<Bytes> {
    let pem = std::fs::read(place.path(&format!("{name}.pem"))).unwrap();
    let chain = Certificate::bundle_from_pem(&pem).unwrap();
    chain.iter().map(|c| c.to_der().unwrap().into()).collect()
}

/// What an agent answers to one who shows this chain and asks by HTTP who it is; empty: it closes the stream.
fn answer(mut stream: UnixStream, chain: Vec<Bytes>) -> String {
    let preface = Preface {
        door: Door::Http1,
        peer: "192.0.2.1:1".parse().unwrap(),
        chain,
    };
    let request = b"GET /v1/site HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let all = [&preface.encode()[..], request].concat();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut answer = String::new();
    // An agent that closes with our request unread takes the stream back.
    let told = stream.write_all(&all);
    if let Err(error) = told.and_then(|()| stream.read_to_string(&mut answer).map(drop)) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no answer");
    }
    answer
}

#[test]
fn a_broken_front_reaches_no_agent_but_those_of_mapped_subjects_with_their_chains() {
    let test = "a_broken_front_reaches_no_agent_but_those_of_mapped_subjects_with_their_chains";
    let Some(place) = Place::new(test, &["alice", "bob"], "") else {
        return;
    };
    place.says("bob", ["job", "list"]);
    let text = std::fs::read_to_string(place.home().join("grid-mapfile")).unwrap();
    place.write_mapfile(&format!(
        "{text}\"/CN=System\" daemon\n\"/CN=Front\" kumiko\n\"/CN=Root\" root\n"
    ));
    let accounts = std::fs::read_to_string(place.path("accounts")).unwrap();
    std::fs::write(
        place.path("accounts"),
        format!("{accounts}root:x:0:0::/:\ndaemon:x:1:1::/:\n"),
    )
    .unwrap();
    let front = Broken::take(&place);
    let refused = [
        ("/CN=Root", NotIntroduced::NotServed),
        ("/CN=System", NotIntroduced::NotServed),
        ("/CN=Front", NotIntroduced::NotServed),
        ("/CN=Nobody", NotIntroduced::Unmapped),
        ("root", NotIntroduced::Unmapped),
        ("../../etc/passwd", NotIntroduced::Unmapped),
    ];
    for (subject, why) in refused {
        assert_eq!(front.introduce(subject).err(), Some(why), "{subject}");
    }
    let alice = place.subject("alice");
    let way = || front.introduce(&alice).expect("alice is mapped");
    // Another's chain, one of nobody's authority, none that can be read, and garbage instead of a preface.
    assert_eq!(answer(way(), chain(&place, "bob")), "");
    let forged = forged(&place, &alice);
    assert_eq!(answer(way(), forged), "");
    assert_eq!(answer(way(), vec![Bytes::from_static(b"not DER")]), "");
    let mut stream = way();
    stream.write_all(&[0xff; 64]).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
    // What is left to it, as SECURITY.md says: to act as one whose chain it has seen.
    let served = answer(way(), chain(&place, "alice"));
    assert!(served.contains("\"account\":\"alice\""), "{served}");
    kill(front.front, "CONT");
    place.says("bob", ["job", "list"]);
}

/// A chain of the right name, by an authority that nobody trusts.
fn forged(place: &Place, subject: &str) -> Vec<Bytes> {
    let ca = place.path("other-ca");
    let file = |name: &str| place.path(name).display().to_string();
    let own = subject.rsplit_once('/').unwrap().0;
    place.ok([
        "identity",
        "init-ca",
        &ca.display().to_string(),
        "--subject",
        &format!("{own}/CN=CA"),
    ]);
    let (key, request, out) = (
        file("forged.key"),
        file("forged.request"),
        file("forged.pem"),
    );
    place.ok([
        "identity",
        "request",
        "--subject",
        subject,
        "--key",
        &key,
        "--out",
        &request,
    ]);
    place.ok([
        "identity",
        "issue",
        "--ca",
        &file("other-ca"),
        "--out",
        &out,
        &request,
    ]);
    let credential = Credential::load_pair(out.as_ref(), key.as_ref()).unwrap();
    assert_eq!(credential.subject().to_string(), subject);
    chain(place, "forged")
}

#[test]
fn a_front_that_says_anything_else_is_replaced_and_the_site_goes_on() {
    let test = "a_front_that_says_anything_else_is_replaced_and_the_site_goes_on";
    let Some(place) = Place::new(test, &["alice"], "") else {
        return;
    };
    place.says("alice", ["job", "list"]);
    let (monitor, agent) = (place.monitor(), place.agent("alice").unwrap());
    let check = |what: &str, say: &dyn Fn(&Packets)| {
        let broken = Broken::take(&place);
        say(&broken.line);
        until(what, || !alive(broken.front));
        assert_eq!(
            place.says("alice", ["job", "run", "--", "echo", what]),
            format!("{what}\n")
        );
        assert_eq!(place.monitor(), monitor);
        assert_eq!(place.agent("alice"), Some(agent), "{what}");
    };
    let (one, _other) = UnixStream::pair().unwrap();
    let introduce = FromFront::Introduce {
        number: 1,
        subject: place.subject("alice"),
    };
    check("a word of an agent's", &|line| {
        line.send(
            &kumiko_wire::monitor::FromAgent::Idle { taken: 0 }.encode(),
            None,
        )
        .unwrap();
    });
    check("a word too long", &|line| {
        line.send(&[2; MESSAGE_MOST_BYTES + 1000], None).unwrap();
    });
    check("a descriptor", &|line| {
        line.send(&introduce.encode(), Some(one.as_fd())).unwrap();
    });
    check("a flood of questions", &|line| {
        // Until its own socket is full of answers that it does not hear.
        let mut sent = 0;
        while sent < 20_000 {
            match line.send(&introduce.encode(), None) {
                Ok(()) => sent += 1,
                Err(_) => std::thread::yield_now(),
            }
        }
        line.send(&[0], None)
            .or_else(|_| {
                std::thread::park_timeout(Duration::from_millis(100));
                line.send(&[0], None)
            })
            .unwrap();
    });
    assert!(place.log().contains("breaks the rules"), "{}", place.log());
}

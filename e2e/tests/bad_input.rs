//! Bad input from strangers, and credentials that do not do: a word that says what was tried, on what, whose fault it is
//! and what to try; and the site serves on.
//! Not here: broken files and disks (bad_places.rs), what befalls clients (bad_clients.rs).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::{port, refused, serves, text};
use kumiko_e2e::{Person, collect, has_program, skip, told, until};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn address(person: &Person) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port(person)))
}

/// Waits for the other end to close; what it sent.
fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(kumiko_e2e::DEADLINE)).unwrap();
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(e) => panic!("not closed: {e}"),
    }
    bytes
}

#[test]
fn strangers_that_are_silent_or_slow_are_let_go_while_others_are_served() {
    let person = Person::with_site();
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(address(&person)).unwrap())
        .collect();
    let mut slow = TcpStream::connect(address(&person)).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let dripping = std::thread::spawn({
        let done = done.clone();
        // The beginning of a ClientHello of 500 bytes, a byte at a time.
        move || {
            let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
            for byte in hello.iter().chain(std::iter::repeat(&7)) {
                if done.load(Ordering::Relaxed) || slow.write_all(&[*byte]).is_err() {
                    return slow;
                }
                std::thread::park_timeout(Duration::from_millis(50));
            }
            slow
        }
    });
    let half = TcpStream::connect(address(&person)).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    assert!(
        until_closed(half).is_empty(),
        "half a connection gets no word"
    );
    serves(&person);
    for stream in silent {
        assert!(
            until_closed(stream).is_empty(),
            "a stranger that says nothing hears nothing"
        );
    }
    serves(&person);
    done.store(true, Ordering::Relaxed);
    until_closed(dripping.join().unwrap());
}

#[test]
fn garbage_on_the_port_ends_the_connection_and_nothing_else() {
    let person = Person::with_site();
    let pieces: [&[u8]; 7] = [
        b"GET / HTTP/1.0\r\n\r\n",
        b"\0\0\0\0\0\0\0\0",
        &[0xff; 70_000],
        b"SSH-2.0-x\r\n",
        &[0x16, 3, 1, 0xff, 0xff, 1, 0xff, 0xff, 0xff],
        &[0x80, 0x2e, 1, 0, 2],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for piece in pieces {
        let mut stream = TcpStream::connect(address(&person)).unwrap();
        let _ = stream.write_all(piece);
        let _ = stream.shutdown(Shutdown::Write);
        let answer = until_closed(stream);
        assert!(answer.len() < 100, "an alert at most: {}", answer.len());
    }
    serves(&person);
}

/// `openssl s_client` with the owner's certificate.
fn s_client(person: &Person, more: &[&str]) -> Child {
    let home = person.kumiko_home();
    let mut command = person.program("openssl", ["s_client", "-quiet", "-connect"]);
    command
        .arg(address(person).to_string())
        .arg("-CApath")
        .arg(home.join("certificates"))
        .args(more);
    command
        .arg("-cert")
        .arg(home.join("user/usercert.pem"))
        .arg("-key")
        .arg(home.join("user/userkey.pem"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn whoever_is_known_and_talks_nonsense_is_answered_and_let_go() {
    let test = "whoever_is_known_and_talks_nonsense_is_answered_and_let_go";
    if !has_program("openssl") {
        return skip(test, "openssl");
    }
    let person = Person::with_site();
    let check = |alpn: &str, sent: &[u8], says: &str| {
        let with = ["-alpn", alpn];
        let mut client = s_client(&person, if alpn.is_empty() { &[] } else { &with });
        let mut stdin = client.stdin.take().unwrap();
        let _ = stdin.write_all(sent);
        let _ = stdin.flush();
        // It goes by itself, though our side stays open.
        let output = collect(client);
        drop(stdin);
        assert!(
            text(&output.stdout).contains(says),
            "{alpn} {sent:?}: {}",
            told(&output)
        );
    };
    check("http/1.1", b"NONSENSE\r\n\r\n", "400");
    // A client that still writes may see the end of the connection before the answer (431).
    check(
        "http/1.1",
        &[&b"GET / HTTP/1.1\r\nx: "[..], &[b'y'; 500_000]].concat(),
        "",
    );
    check(
        "http/1.1",
        b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: nine\r\n\r\n",
        "400",
    );
    check("h2", b"not a preface at all, not in the least", "");
    check("kumiko/1", &[0xff; 4096], "");
    check("kumiko/1", b"GET / HTTP/1.1\r\n\r\n", "");
    check("", b"", ""); // no ALPN is GRAM, for which there is no door yet
    serves(&person);
}

/// As `an_idle_http_connection_is_closed_and_half_a_request_is_too` of the gatekeeper, which does not wait for a minute.
#[test]
#[ignore = "takes a minute: `./x test --all`"]
fn a_request_of_which_the_head_never_ends_is_dropped() {
    let test = "a_request_of_which_the_head_never_ends_is_dropped";
    if !has_program("openssl") {
        return skip(test, "openssl");
    }
    let person = Person::with_site();
    let mut client = s_client(&person, &["-alpn", "http/1.1"]);
    let mut stdin = client.stdin.take().unwrap();
    let dripping = std::thread::spawn(move || {
        let head = b"GET /v1/jobs HTTP/1.1\r\nhost: x\r\nx: ";
        for byte in head.iter().chain(std::iter::repeat(&b'y')) {
            if stdin
                .write_all(&[*byte])
                .and_then(|()| stdin.flush())
                .is_err()
            {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
    });
    serves(&person);
    let begun = std::time::Instant::now();
    while client.try_wait().unwrap().is_none() {
        assert!(
            begun.elapsed() < 2 * kumiko_e2e::DEADLINE,
            "the head is still waited for"
        );
        std::thread::park_timeout(Duration::from_millis(50));
    }
    dripping.join().unwrap();
    serves(&person);
}

/// A person whose site trusts the authority of a virtual organisation too, which has given out certificates.
fn with_certificates() -> Person {
    let person = Person::with_site();
    let home = person.kumiko_home();
    let trust = home.join("certificates").display().to_string();
    person.ok([
        "identity",
        "init-ca",
        "vo",
        "--subject",
        "/O=Test/OU=vo/CN=VO CA",
    ]);
    person.ok(["identity", "trust", "vo", "--directory", &trust]);
    person.ok([
        "identity",
        "init-ca",
        "unknown",
        "--subject",
        "/O=Test/OU=unknown/CN=Unknown CA",
    ]);
    for (name, ca) in [("alice", "vo"), ("mallory", "vo"), ("eve", "unknown")] {
        let subject = format!("/O=Test/OU={ca}/CN={name}");
        let (key, request, certificate) = (
            format!("{name}.key"),
            format!("{name}.req"),
            format!("{name}.pem"),
        );
        person.ok([
            "identity",
            "request",
            "--subject",
            &subject,
            "--key",
            &key,
            "--out",
            &request,
        ]);
        person.ok([
            "identity",
            "issue",
            "--ca",
            ca,
            &request,
            "--out",
            &certificate,
        ]);
    }
    person.ok(["site", "map", "/O=Test/OU=vo/CN=alice"]);
    person.ok(["site", "map", "/O=Test/OU=unknown/CN=eve"]);
    person
}

/// A job at the person's site under a name of that site and with a credential, from outside of the personal site.
fn as_somebody(person: &Person, host: &str, credential: &[&str]) -> Output {
    let (certificate, key) = match credential {
        [proxy] => (*proxy, None),
        [certificate, key] => (*certificate, Some(*key)),
        _ => panic!("a proxy, or a certificate and its key"),
    };
    let home = person.home.path();
    let key = key.map_or(String::new(), |key| format!("key = {:?}\n", home.join(key)));
    let config = format!(
        "[sites.there]\naddress = \"{host}:{}\"\ntrust = {:?}\ncertificate = {:?}\n{key}",
        port(person),
        person.kumiko_home().join("certificates"),
        home.join(certificate),
    );
    person.file(".config/kumiko/kumiko.toml", &config);
    person.run(["job", "run", "--site", "there", "--", "echo", "in"])
}

#[test]
fn each_wrong_credential_is_refused_with_its_own_reason() {
    let person = with_certificates();
    until("the site has seen the new authority", || {
        as_somebody(&person, "localhost", &["alice.pem", "alice.key"])
            .status
            .success()
    });
    let proxy = |more: &[&str], from: &[&str], out: &str| {
        let mut args = vec![
            "identity",
            "proxy",
            "--cert",
            from[0],
            "--key",
            from[from.len() - 1],
            "--out",
            out,
        ];
        args.extend(more);
        person.run(args)
    };
    let alice = ["alice.pem", "alice.key"];
    assert!(proxy(&[], &alice, "full.pem").status.success());
    assert_eq!(
        as_somebody(&person, "localhost", &["full.pem"]).stdout,
        b"in\n"
    );
    assert!(
        proxy(&["--limited"], &alice, "limited.pem")
            .status
            .success()
    );
    refused(
        &as_somebody(&person, "localhost", &["limited.pem"]),
        125,
        &["limited proxy"],
    );
    // Below a limited proxy there are only limited ones; ours does not make others.
    let below = proxy(&[], &["limited.pem"], "below.pem");
    if below.status.success() {
        refused(
            &as_somebody(&person, "localhost", &["below.pem"]),
            125,
            &["limited"],
        );
    } else {
        refused(&below, 1, &["limited"]);
    }
    assert!(
        proxy(&["--path-length", "0"], &alice, "last.pem")
            .status
            .success()
    );
    let too_deep = proxy(&[], &["last.pem"], "deeper.pem");
    if too_deep.status.success() {
        refused(
            &as_somebody(&person, "localhost", &["deeper.pem"]),
            125,
            &["path"],
        );
    } else {
        refused(&too_deep, 1, &["path"]);
    }
    refused(
        &as_somebody(&person, "localhost", &["mallory.pem", "mallory.key"]),
        125,
        &["/O=Test/OU=vo/CN=mallory", "map"],
    );
    refused(
        &as_somebody(&person, "localhost", &["eve.pem", "eve.key"]),
        125,
        &["certificate"],
    );
    refused(
        &as_somebody(&person, "localhost", &["alice.pem", "mallory.key"]),
        125,
        &["alice.pem", "key"],
    );
    refused(
        &as_somebody(&person, "localhost", &["none.pem"]),
        125,
        &["none.pem"],
    );
    refused(
        &as_somebody(&person, "localhost.localdomain.invalid", &alice),
        125,
        &["localhost.localdomain.invalid"],
    );
    assert!(
        proxy(&["--valid", "1s"], &alice, "short.pem")
            .status
            .success()
    );
    until("it has expired", || {
        let output = as_somebody(&person, "localhost", &["short.pem"]);
        !output.status.success() && text(&output.stderr).contains("expired")
    });
    refused(
        &as_somebody(&person, "localhost", &["short.pem"]),
        125,
        &["expired", "kumiko identity proxy"],
    );
    serves(&person);
}

#[test]
fn a_site_of_another_name_is_not_talked_to() {
    let person = Person::with_site();
    // An address that the host certificate does not carry; all of 127/8 is this machine.
    person.ok(["site", "stop"]);
    person.ok(["site", "start", "--listen", "0.0.0.0:0"]);
    let output = as_somebody(
        &person,
        "127.9.9.9",
        &["kumiko/user/usercert.pem", "kumiko/user/userkey.pem"],
    );
    refused(&output, 125, &["127.9.9.9", "certificate"]);
    serves(&person);
}

#[test]
fn a_site_that_is_not_one_is_told_apart_from_one_that_refuses() {
    let person = Person::with_site();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"220 mail.example ESMTP\r\n");
        }
    });
    let home = person.kumiko_home();
    for (port, says) in [(port, "TLS"), (closed, "refused")] {
        let config = format!(
            "[sites.there]\naddress = \"127.0.0.1:{port}\"\ntrust = {:?}\ncertificate = {:?}\nkey = {:?}\n",
            home.join("certificates"),
            home.join("user/usercert.pem"),
            home.join("user/userkey.pem")
        );
        person.file(".config/kumiko/kumiko.toml", &config);
        refused(
            &person.run(["job", "run", "--site", "there", "--", "true"]),
            125,
            &["127.0.0.1", says],
        );
    }
}

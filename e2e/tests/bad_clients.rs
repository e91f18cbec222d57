//! What befalls clients: nonsense that they send, readers that leave, signals, links that are cut, crowds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::adversity::{port, refused, serves, text};
use kumiko_e2e::{Person, collect, finish, finish_with, kill, told, until, wait};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

fn address(person: &Person) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port(person)))
}

#[test]
fn descriptions_that_make_no_sense_are_refused_at_the_field() {
    let person = Person::with_site();
    let long = format!(
        "{{\"executable\":\"true\",\"arguments\":[\"{}\"]}}",
        "x".repeat(200_000)
    );
    let deep = "[".repeat(1_000_000);
    let big = format!(
        "{{\"executable\":\"true\",\"name\":\"{}\"}}",
        "x".repeat(10_000_000)
    );
    let rows: [(&str, &[&str]); 9] = [
        ("{", &["line 1"]),
        ("[]", &["object"]),
        ("{\"executable\":7}", &["executable", "string"]),
        ("{\"executable\":\"true\",\"nope\":1}", &["nope"]),
        ("{\"executable\":\"\"}", &["executable"]),
        ("{\"executable\":\"true\",\"count\":-1}", &["count"]),
        ("{\"executable\":\"a\\u0000b\"}", &["executable", "zero"]),
        (&deep, &[]),
        (&big, &[]),
    ];
    for (description, says) in rows {
        person.file("description.json", description);
        let output = person.run(["job", "submit", "--description", "description.json"]);
        let head: String = description.chars().take(60).collect();
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{head}: {}",
            told(&output)
        );
        assert!(
            output.stderr.len() < 2000,
            "{head}: {} bytes of complaint",
            output.stderr.len()
        );
        refused(&output, output.status.code().unwrap(), says);
    }
    person.file("description.json", &long);
    refused(
        &person.run(["job", "run", "--description", "description.json"]),
        125,
        &["arguments[0]", "put it in a file"],
    );
    serves(&person);
}

#[test]
fn a_client_whose_reader_leaves_goes_quietly_and_takes_its_job_along() {
    let person = Person::with_site();
    let check = |script: &str| {
        let output = finish(person.program("sh", ["-c", script]).stdin(Stdio::null()));
        assert!(
            !text(&output.stderr).contains("panicked"),
            "{script}: {}",
            told(&output)
        );
        output
    };
    for command in ["kumiko job run -- yes", "kumiko exec local -- yes"] {
        let output = check(&format!("{command} | head -n 1"));
        assert_eq!(output.stdout, b"y\n", "{command}: {}", told(&output));
        until("its job ends", || {
            !person.ok(["job", "list"]).contains("active")
        });
    }
    for command in [
        "job list",
        "--output json job list",
        "site map",
        "site status",
        "doctor",
        "identity show kumiko/user/usercert.pem",
        "--help",
    ] {
        check(&format!("kumiko {command} | :"));
        check(&format!("kumiko {command} > /dev/full"));
        check(&format!("kumiko {command} >&-"));
    }
    serves(&person);
}

#[test]
fn a_client_that_is_told_to_end_ends_and_its_job_with_it() {
    let person = Person::with_site();
    for verb in [&["job", "run"][..], &["exec", "local"][..]] {
        for signal in ["TERM", "HUP"] {
            let args = [verb, &["--", "sh", "-c", "echo up; sleep 600"]].concat();
            let mut child = person
                .kumiko(args)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut [0; 3])
                .unwrap();
            kill(child.id(), signal);
            let output = collect(child);
            assert!(
                !output.status.success(),
                "{verb:?} {signal}: {}",
                told(&output)
            );
            until("its job is over", || {
                !person.ok(["job", "list"]).contains("active")
            });
        }
    }
    serves(&person);
}

/// Between a client and a site: passes bytes on, and cuts every connection after so many of them.
fn cutting_proxy(site: SocketAddr, after_bytes: usize, cuts: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (client, server) = (client.unwrap(), TcpStream::connect(site).unwrap());
            let most = if number < cuts {
                after_bytes
            } else {
                usize::MAX
            };
            let (client_too, server_too) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || pass(client, server, usize::MAX));
            std::thread::spawn(move || pass(server_too, client_too, most));
        }
    });
    port
}

fn pass(mut from: TcpStream, mut to: TcpStream, most: usize) {
    let mut buffer = [0; 16 * 1024];
    let mut left = most;
    while left > 0 {
        let Ok(count @ 1..) = from.read(&mut buffer) else {
            break;
        };
        if to.write_all(&buffer[..count.min(left)]).is_err() {
            break;
        }
        left -= count.min(left);
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_link_that_is_cut_again_and_again_loses_and_repeats_nothing() {
    let person = Person::with_site();
    let port = cutting_proxy(address(&person), 700_000, 6);
    let home = person.kumiko_home();
    let config = format!(
        "[sites.there]\naddress = \"localhost:{port}\"\ntrust = {:?}\ncertificate = {:?}\nkey = {:?}\n",
        home.join("certificates"),
        home.join("user/usercert.pem"),
        home.join("user/userkey.pem")
    );
    person.file(".config/kumiko/kumiko.toml", &config);
    let input: Vec<u8> = (0..400_000u32)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect();
    let output = finish_with(&mut person.kumiko(["exec", "there", "--", "cat"]), &input);
    assert!(output.status.success(), "{}", told(&output));
    assert!(
        output.stdout == input,
        "{} bytes of {} came back",
        output.stdout.len(),
        input.len()
    );
    serves(&person);
}

#[test]
fn two_hundred_sessions_at_once_are_all_served() {
    let person = Person::with_site();
    let children: Vec<Child> = (0..200)
        .map(|number| {
            let mut command = person.kumiko(["exec", "local", "--", "echo", &number.to_string()]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for (number, mut child) in children.into_iter().enumerate() {
        let status = wait(&mut child);
        let output = child.wait_with_output().unwrap();
        assert!(status.success(), "{number}: {}", told(&output));
        assert_eq!(output.stdout, format!("{number}\n").into_bytes());
    }
    serves(&person);
}

//! Three levels of info servers as processes: what `ldapsearch` and `kumiko info` see at the top while things change,
//! are killed, and come back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::{Person, finish, has_program, kill, skip, told, until};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// One `kumiko info serve`, killed when dropped.
struct Server {
    child: Child,
    address: String,
    started: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(person: &Person, name: &str, listen: &str, settings: &str) -> Server {
        let text = format!("name = \"{name}\"\n{settings}");
        let config = person.file(&format!("{name}.toml"), &text);
        let state = person.home.path().join(format!("state-{name}"));
        let mut child = person
            .kumiko(["info", "serve", "--listen", listen])
            .args(["--config".as_ref(), config.as_os_str()])
            .args(["--state".as_ref(), state.as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (_, rest) = line
            .split_once("is up at ")
            .unwrap_or_else(|| panic!("{name} said {line:?}"));
        let (address, started) = rest.trim().split_once(", started ").unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        Server {
            child,
            address: format!("localhost:{port}"),
            started: started.to_owned(),
        }
    }

    fn listen(&self) -> String {
        self.address.replace("localhost", "127.0.0.1")
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A provider whose answer is a file that the test writes.
fn leaf_settings(person: &Person, above: &Server, load: &str) -> String {
    person.file("load", load);
    let dn = "{\"dn\": \"Mds-Host-hn=leaf.example\", \"attributes\": {\"objectClass\": [\"Mds\", \"MdsHost\"], \"Mds-Host-hn\": \"leaf.example\", \"kumiko-load-1min\": %s}}";
    person.file(
        "print",
        &format!(
            "printf '{dn}' $(cat {})\n",
            person.home.path().join("load").display()
        ),
    );
    format!(
        "host = false\n[[register]]\naddress = \"{}\"\nttl_ms = 2500\nheartbeat_ms = 500\n\
         [[provider]]\nname = \"leaf\"\ncommand = [\"sh\", \"{}\"]\nevery_ms = 100\nsandbox = false\n",
        above.address,
        person.home.path().join("print").display(),
    )
}

fn index_settings(above: Option<&Server>) -> String {
    let above = above.map_or(String::new(), |a| {
        format!(
            "[[register]]\naddress = \"{}\"\nttl_ms = 60000\nheartbeat_ms = 500\n",
            a.address
        )
    });
    format!("kind = \"index\"\nhost = false\n{above}")
}

fn hosts(person: &Person, at: &Server, expression: &str) -> String {
    let output = person.run([
        "info",
        "query",
        "--server",
        &at.address,
        "--attributes",
        "host",
        expression,
    ]);
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .skip(1)
        .collect()
}

#[test]
fn the_top_of_three_levels_answers_for_the_leaf_and_tells_its_changes_at_once() {
    let person = Person::new();
    let top = Server::start(&person, "top", "127.0.0.1:0", &index_settings(None));
    let middle = Server::start(
        &person,
        "middle",
        "127.0.0.1:0",
        &index_settings(Some(&top)),
    );
    let leaf = Server::start(
        &person,
        "leaf",
        "127.0.0.1:0",
        &leaf_settings(&person, &middle, "0.25"),
    );
    until("the leaf is known at the top", || {
        hosts(&person, &top, "load = 0.25") == "leaf.example"
    });
    if has_program("ldapsearch") {
        let found = finish(&mut person.program(
            "ldapsearch",
            [
                "-x",
                "-LLL",
                "-H",
                &format!("ldap://{}", top.listen()),
                "-b",
                "mds-vo-name=top, o=Grid",
                "(&(objectclass=MdsHost)(kumiko-load-1min<=0.5))",
                "kumiko-load-1min",
            ],
        ));
        assert_eq!(
            String::from_utf8_lossy(&found.stdout).trim(),
            "dn: Mds-Host-hn=leaf.example, Mds-Vo-name=middle, Mds-Vo-name=top, o=grid\nkumiko-load-1min: 0.25",
            "{}",
            told(&found)
        );
    } else {
        skip("the_top_of_three_levels_answers_for_the_leaf", "ldap-utils");
    }
    let mut watch = person
        .kumiko([
            "--output",
            "lines",
            "info",
            "watch",
            "--server",
            &top.address,
            "host = leaf.example",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = mpsc::channel();
    let out = watch.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let heard = |what: &str| {
        let begun = Instant::now();
        while begun.elapsed() < kumiko_e2e::DEADLINE {
            if let Ok(line) = lines.recv_timeout(Duration::from_millis(100)) {
                if line.contains(what) {
                    return;
                }
            }
        }
        panic!("the watch never said {what:?}");
    };
    heard("complete");
    person.file("load", "3.75");
    heard("3.75");
    drop(leaf);
    heard("kumiko-stale-since");
    heard("gone");
    let _ = watch.kill();
    let _ = watch.wait();
    // What is killed in the middle: the top shows the rest as stale, and the index that comes back knows its name.
    let _leaf = Server::start(
        &person,
        "leaf",
        "127.0.0.1:0",
        &leaf_settings(&person, &middle, "0.5"),
    );
    until("the leaf is back", || {
        hosts(&person, &top, "not stale_since") == "leaf.example"
    });
    let address = middle.listen();
    middle.kill();
    until("it is stale at the top", || {
        hosts(&person, &top, "stale_since") == "leaf.example"
    });
    let middle = Server::start(&person, "middle", &address, &index_settings(Some(&top)));
    assert!(
        middle.started.starts_with("warm") || middle.started == "cold",
        "{}",
        middle.started
    );
    until("it is fresh at the top", || {
        hosts(&person, &top, "not stale_since") == "leaf.example"
    });
}

#[test]
fn providers_that_hang_or_print_garbage_hold_up_nobody_and_are_told_of() {
    let person = Person::new();
    // No other run of this test has sleepers of this length.
    let length = 100_000 + std::process::id();
    let settings = "host = true\n\
        [[provider]]\nname = \"hung\"\ncommand = [\"sh\", \"-c\", \"sleep LENGTH & sleep LENGTH\"]\nevery_ms = 100\nlimit_ms = 300\nsandbox = false\n\
        [[provider]]\nname = \"mad\"\ncommand = [\"sh\", \"-c\", \"echo Segmentation fault\"]\nevery_ms = 100\nsandbox = false\n\
        [[provider]]\nname = \"endless\"\ncommand = [\"yes\"]\nevery_ms = 100\nsandbox = false\n";
    let settings = settings.replace("LENGTH", &length.to_string());
    let server = Server::start(&person, "one", "127.0.0.1:0", &settings);
    let complaints = || {
        let output = person.run([
            "info",
            "query",
            "--server",
            &server.address,
            "--all",
            "--attributes",
            "provider_status",
            "provider_status",
        ]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for word in [
        "longer than 0.3 s",
        "neither LDIF nor JSON",
        "more than 4194304 bytes",
    ] {
        until(&format!("{word:?} is told"), || complaints().contains(word));
    }
    assert_eq!(hosts(&person, &server, "cpus >= 1").lines().count(), 1);
    // What a provider left running is killed each time, and in the end.
    let sleeping = || {
        let output = finish(&mut person.program("ps", ["-eo", "args"]));
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        let own = format!("sleep {length}");
        all.lines().filter(|l| *l == own).count()
    };
    assert!(
        sleeping() <= 2,
        "{} are left of several readings",
        sleeping()
    );
    kill(server.child.id(), "TERM");
    until("nothing of the providers is left", || sleeping() == 0);
}

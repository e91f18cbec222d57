//! The info server that starts with a site, a personal one and one for many accounts: what it tells of the site, and that
//! it is kept up and ends with it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // what other scenarios use of it
#[path = "many_accounts/place.rs"]
mod place;

use kumiko_e2e::{Person, alive, finish, has_program, kill, skip, told, until};
use place::{FRONT, Place};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// `address` and process of the info server that keeps this.
fn told_by(state: &Path) -> Option<(String, u32)> {
    let text = std::fs::read_to_string(state.join("address")).ok()?;
    let (address, pid) = text.trim().split_once('\n')?;
    Some((address.to_owned(), pid.parse().ok()?))
}

/// What JSON lines of `kumiko info query` say of one attribute.
fn values(person: &Person, expression: &str, attribute: &str) -> Vec<String> {
    let words = ["--output", "json", "info", "query", "--all", expression];
    let output = person.run(words);
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let entries = all.as_array().into_iter().flatten();
    let of_entry =
        |e: &serde_json::Value| e["attributes"][attribute][0].as_str().map(str::to_owned);
    entries.filter_map(of_entry).collect()
}

#[test]
fn a_personal_site_tells_of_itself_and_keeps_its_info_server_up() {
    let person = Person::new();
    person.file(
        "kumiko/site.toml",
        "listen = \"127.0.0.1:0\"\ninfo = \"127.0.0.1:0\"\n",
    );
    person.file("kumiko/info.toml", "host_name = \"here.example\"\n");
    person.ok(["site", "start"]);
    let site: serde_json::Value =
        serde_json::from_str(&person.ok(["--output", "json", "site", "status"])).unwrap();
    let state = person.kumiko_home().join("info");
    let (address, first) = told_by(&state).unwrap();
    assert_eq!(site["info"], address.as_str());
    let port = site["running"]["address"]
        .as_str()
        .unwrap()
        .rsplit(':')
        .next()
        .unwrap();
    let contact = format!("localhost:{port}");
    for expression in ["service = gram and batch = fork", "host = here.example"] {
        until("the contact is told", || {
            values(&person, expression, "kumiko-contact") == [contact.clone()]
        });
    }
    assert_eq!(values(&person, "service = gram", "kumiko-draining"), ["no"]);
    person.ok(["site", "drain"]);
    until("it is told that the site drains", || {
        values(&person, "service = gram", "kumiko-draining") == ["yes"]
            && values(&person, "host = here.example", "kumiko-reserve-cpus") == ["0"]
    });
    kill(first, "KILL");
    until("another one is up", || {
        told_by(&state).is_some_and(|(_, pid)| pid != first)
    });
    until("it answers", || {
        values(&person, "host = here.example", "kumiko-contact") == [contact.clone()]
    });
    // The site's own end takes it along, however that comes.
    let (_, second) = told_by(&state).unwrap();
    person.kill_site();
    until("it ends with its site", || !alive(second));
    person.ok(["site", "start"]);
    let (_, third) = told_by(&state).unwrap();
    person.ok(["site", "stop"]);
    assert!(!alive(third), "stop waits for it");
}

#[test]
fn an_info_server_that_cannot_start_keeps_the_site_from_starting_and_says_why() {
    let person = Person::new();
    person.file("kumiko/info.toml", "nmae = \"x\"\n");
    let refused = person.run([
        "site",
        "start",
        "--listen",
        "127.0.0.1:0",
        "--info=127.0.0.1:0",
    ]);
    assert!(!refused.status.success());
    let said = told(&refused);
    assert!(
        said.contains("info.toml") && said.contains("nmae"),
        "{said}"
    );
}

#[test]
fn a_site_for_many_accounts_has_an_info_server_of_its_fronts_account() {
    let test = "a_site_for_many_accounts_has_an_info_server_of_its_fronts_account";
    let Some(place) = Place::new(test, &[], "") else {
        return;
    };
    place.ok(["site", "stop"]);
    let started = place.ok([
        "site",
        "start",
        "--listen",
        "127.0.0.1:0",
        "--info=127.0.0.1:0",
    ]);
    assert!(started.contains("is up"), "{started}");
    let state = place.home().join("info");
    until("the info server is up", || told_by(&state).is_some());
    let (address, pid) = told_by(&state).unwrap();
    assert_eq!(
        std::fs::metadata(format!("/proc/{pid}")).unwrap().uid(),
        FRONT
    );
    assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    if has_program("ldapsearch") {
        until("the gatekeeper is told of", || {
            let mut search = Command::new("ldapsearch");
            search.args([
                "-x",
                "-LLL",
                "-H",
                &format!("ldap://{address}"),
                "-b",
                "o=grid",
            ]);
            search.args([
                "(&(objectclass=MdsService)(Mds-Service-type=gram))",
                "kumiko-batch",
            ]);
            String::from_utf8_lossy(&finish(&mut search).stdout).contains("kumiko-batch: fork")
        });
    } else {
        skip(test, "ldap-utils");
    }
    kill(pid, "KILL");
    until("another one is up", || {
        told_by(&state).is_some_and(|(_, now)| now != pid)
    });
    let (_, pid) = told_by(&state).unwrap();
    place.ok(["site", "stop"]);
    assert!(!alive(pid), "stop waits for it");
}

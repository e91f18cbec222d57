//! Three levels of info servers as processes: what `ldapsearch` and `kumiko info` see at the top while things change,
//! are killed, and come back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_e2e::info::{Server, Watch, hosts, index_settings, leaf_settings, set_load};
use kumiko_e2e::{Person, finish, has_program, kill, skip, told, until};

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
        hosts(None, &person, &top, "load = 0.25") == "leaf.example"
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
    let watch = Watch::start(None, &person, &top, "host = leaf.example");
    watch.until("complete");
    set_load(&person, "3.75");
    watch.until("3.75");
    drop(leaf);
    watch.until("kumiko-stale-since");
    watch.until("gone");
    drop(watch);
    // What is killed in the middle: the top shows the rest as stale, and the index that comes back knows its name.
    let _leaf = Server::start(
        &person,
        "leaf",
        "127.0.0.1:0",
        &leaf_settings(&person, &middle, "0.5"),
    );
    until("the leaf is back", || {
        hosts(None, &person, &top, "not stale_since") == "leaf.example"
    });
    let address = middle.listen();
    middle.kill();
    until("it is stale at the top", || {
        hosts(None, &person, &top, "stale_since") == "leaf.example"
    });
    let middle = Server::start(&person, "middle", &address, &index_settings(Some(&top)));
    assert!(
        middle.started.starts_with("warm") || middle.started == "cold",
        "{}",
        middle.started
    );
    until("it is fresh at the top", || {
        hosts(None, &person, &top, "not stale_since") == "leaf.example"
    });
}

/// Three programs that are no providers, and one that is.
const PROVIDERS: &str = r#"host = true
[[provider]]
name = "hung"
command = ["sh", "-c", "sleep LENGTH & sleep LENGTH"]
every_ms = 100
limit_ms = 1000
sandbox = SANDBOX
[[provider]]
name = "mad"
command = ["sh", "-c", "echo Segmentation fault"]
every_ms = 100
sandbox = SANDBOX
[[provider]]
name = "endless"
command = ["yes"]
every_ms = 100
sandbox = SANDBOX
[[provider]]
name = "curious"
command = ["sh", "-c", "test -r SECRET && key=read || key=hidden; echo dn: Mds-Host-hn=curious; echo objectclass: MdsHost; echo Mds-Host-hn: curious; echo key: $key"]
every_ms = 100
sandbox = SANDBOX
"#;

/// `length`: no other run of these tests has sleepers of this length.
fn check_providers(person: &Person, sandbox: bool, length: u32) {
    let settings = PROVIDERS
        .replace("LENGTH", &length.to_string())
        .replace("SANDBOX", &sandbox.to_string())
        .replace(
            "SECRET",
            &person
                .kumiko_home()
                .join("hostkey.pem")
                .display()
                .to_string(),
        );
    let server = Server::start(person, "one", "127.0.0.1:0", &settings);
    let complaints = || {
        let words = ["info", "query", "--server", &server.address, "--all"];
        let more = ["--attributes", "provider_status", "provider_status"];
        let output = person.run(words.iter().chain(&more));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for word in [
        "longer than 1 s",
        "neither LDIF nor JSON",
        "more than 4194304 bytes",
    ] {
        until(&format!("{word:?} is told"), || complaints().contains(word));
    }
    // The room shows nothing of the account's files.
    let seen = if sandbox { "hidden" } else { "read" };
    until("the one that works is told", || {
        let words = ["info", "show", "--server", &server.address, "curious"];
        let output = person.run(words);
        String::from_utf8_lossy(&output.stdout).contains(&format!("key: {seen}"))
    });
    assert_eq!(hosts(None, person, &server, "cpus >= 1").lines().count(), 1);
    // What a provider left running is killed each time, and in the end.
    let sleeping = || {
        let output = finish(&mut person.program("ps", ["-eo", "args"]));
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        let own = format!("sleep {length}");
        all.lines().filter(|l| *l == own).count()
    };
    until("no more than one reading is under way", || sleeping() <= 2);
    kill(server.child.id(), "TERM");
    until("nothing of the providers is left", || sleeping() == 0);
}

#[test]
fn providers_that_hang_or_print_garbage_hold_up_nobody_and_are_told_of() {
    check_providers(&Person::new(), false, 100_000 + std::process::id());
}

#[test]
fn in_the_sandbox_providers_see_no_keys_and_are_ended_as_well() {
    let test = "in_the_sandbox_providers_see_no_keys_and_are_ended_as_well";
    let person = Person::new();
    if !person
        .run(["sandbox", "run", "--", "true"])
        .status
        .success()
    {
        return skip(test, "user namespaces");
    }
    check_providers(&person, true, 5_000_000 + std::process::id());
}

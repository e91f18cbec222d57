//! What a running guest follows of changed policies (P78): row by row, and over policies made at random, of which no pair
//! may show it what either of the two does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chance;

use chance::{Random, path};
use kumiko_policy::{
    GuestPath, MechanismKind, Network, Now, Policy, Real, Seen, begin, follow, heeded, parse,
};
use std::collections::BTreeMap;

fn policy(lines: &str) -> Policy {
    parse(&format!("[paths]\n{lines}"), "a policy").unwrap()
}

#[test]
fn a_guest_follows_what_is_taken_away_and_given_back_and_no_more() {
    let check = |began: &str, now: &str, at: &str, expected: Now| {
        let followed = follow(&policy(began), &policy(now));
        let got = followed.at(&path(at));
        assert_eq!(
            got, expected,
            "{began}\n->\n{now}\n{at}: {:?}",
            followed.paths
        );
    };
    let data = "\"/data\" = \"write\"";
    check(data, data, "/data/x", Now::AsBegun);
    check(data, "\"/data\" = \"read\"", "/data/x", Now::ReadOnly);
    check("\"/data\" = \"read\"", data, "/data/x", Now::AsBegun);
    check(data, "\"/data\" = \"hidden\"", "/data/x", Now::Hidden);
    check(data, "\"/data\" = \"denied\"", "/data", Now::Denied);
    check(data, "", "/data/x", Now::Hidden);
    check("", data, "/data/x", Now::AsBegun);
    let part = "\"/data\" = \"hidden\"\n\"/data/pub\" = \"read\"";
    check(data, part, "/data/x", Now::Hidden);
    check(data, part, "/data/pub/x", Now::ReadOnly);
    check(
        data,
        "\"/data\" = \"write\"\n\"/data/own\" = \"denied\"",
        "/data/own/x",
        Now::Denied,
    );
    check(
        data,
        "\"/data\" = \"write\"\n\"/data/own\" = \"denied\"",
        "/data/other",
        Now::AsBegun,
    );
    // Something of its own below what is closed is closed too, and a place of nobody's stays.
    let two = "\"/data\" = \"write\"\n\"/data/in\" = { access = \"read\", real = \"/other\" }";
    check(two, "\"/data\" = \"hidden\"", "/data/in/x", Now::Hidden);
    check("\"/tmp\" = \"temporary\"", "", "/tmp/x", Now::AsBegun);
    check(
        "\"/tmp\" = \"temporary\"",
        "\"/tmp\" = \"hidden\"",
        "/tmp/x",
        Now::Hidden,
    );
    // A name of the job's own for a file: what counts is whether the file is shown.
    let named = "\"/mnt\" = { access = \"write\", real = \"/data\" }";
    check(named, data, "/mnt/x", Now::AsBegun);
    check(named, "\"/data\" = \"read\"", "/mnt/x", Now::ReadOnly);
    check(
        named,
        "\"/data\" = \"read\"\n\"/data/own\" = \"hidden\"",
        "/mnt/own/x",
        Now::Hidden,
    );
    check(
        named,
        "\"/data\" = \"read\"\n\"/data/own\" = \"hidden\"",
        "/mnt/x",
        Now::ReadOnly,
    );
    check(named, "\"/else\" = \"write\"", "/mnt/x", Now::Hidden);
    // What was executed.
    let still = "\"/data\" = { access = \"write\", execute = false }";
    check(data, still, "/data/x", Now::NotExecuted);
    check(still, data, "/data/x", Now::AsBegun);
    check(still, still, "/data/x", Now::AsBegun);
    check(still, "\"/data\" = \"read\"", "/data/x", Now::ReadOnly);
    check(named, still, "/mnt/x", Now::NotExecuted);
    let read = "\"/data\" = { access = \"read\", execute = false }";
    check(data, read, "/data/x", Now::ReadAlone);
    let tools = format!("{read}\n\"/data/bin\" = \"read\"");
    check(data, &tools, "/data/bin/x", Now::ReadOnly);
    let other = format!("{read}\n\"/tools\" = {{ access = \"read\", real = \"/data\" }}");
    check(named, &other, "/mnt/x", Now::ReadOnly);
    check(
        "\"/tmp\" = \"temporary\"",
        "\"/tmp\" = { access = \"temporary\", execute = false }",
        "/tmp/x",
        Now::NotExecuted,
    );
    // Another file by the same name.
    check(
        "\"/etc/passwd\" = \"read\"",
        "\"/etc/passwd\" = { access = \"read\", real = \"/etc/hosts\" }",
        "/etc/passwd",
        Now::Hidden,
    );
    check(
        "\"/\" = \"read\"",
        "\"/usr\" = \"read\"",
        "/home/x",
        Now::Hidden,
    );
    check(
        "\"/\" = \"read\"",
        "\"/usr\" = \"read\"",
        "/usr/bin",
        Now::AsBegun,
    );
}

#[test]
fn addresses_are_those_of_now_and_what_is_not_followed_is_told() {
    let network = |text: &str| parse(text, "a policy").unwrap();
    let open = network("");
    let none = network("network = \"none\"");
    let some = network("[network]\nallow = [\"192.0.2.7:80\"]");
    let reaches = |began: &Policy, now: &Policy, address: &str| {
        let followed = follow(began, now);
        kumiko_policy::reaches(&followed.reach, address.parse().unwrap()).reached
    };
    assert!(reaches(&some, &open, "192.0.2.8:80"));
    assert!(!reaches(&open, &some, "192.0.2.8:80"));
    assert!(reaches(&open, &some, "192.0.2.7:80"));
    assert!(!reaches(&open, &none, "127.0.0.1:80"));
    assert_eq!(follow(&open, &none).not, [] as [&str; 0]);
    assert_eq!(follow(&none, &open).not.len(), 1);
    let alone = network("further_processes = false\nstrict = true");
    assert_eq!(follow(&open, &alone).not.len(), 2);
}

#[test]
fn what_one_mechanism_does_not_follow_is_told_and_refused_where_it_is_all() {
    let text = |text: &str| parse(text, "a policy").unwrap();
    let (open, none) = (text(""), text("network = \"none\""));
    let some = text("[network]\nallow = [\"192.0.2.7:80\"]");
    let denied = text("[network]\ndeny = [\"192.0.2.9\"]");
    let hidden = text("paths.\"/usr\" = \"hidden\"");
    // By namespace, and by notify; None: refused.
    let check = |began: &Policy, asked: &Policy, now: &Policy, expected: [Option<usize>; 2]| {
        let kinds = [MechanismKind::Namespace, MechanismKind::Notify];
        let told = kinds.map(|kind| heeded(began, asked, now, kind).ok().map(|not| not.len()));
        assert_eq!(told, expected, "{}", asked.in_words());
    };
    check(&open, &denied, &denied, [None, Some(1)]);
    check(&open, &none, &none, [None, Some(1)]);
    check(&some, &denied, &denied, [None, Some(0)]);
    check(&none, &none, &none, [Some(0); 2]);
    check(&open, &hidden, &open, [Some(0); 2]);
    // Somebody else said so before.
    check(&open, &hidden, &denied, [Some(1); 2]);
}

#[test]
fn an_attempt_begins_with_the_addresses_of_now_and_no_network_that_it_was_not_planned_with() {
    let text = |text: &str| parse(text, "a policy").unwrap();
    let planned = text("strict = true");
    let some = text("[network]\nallow = [\"192.0.2.7:80\"]");
    let none = text("network = \"none\"");
    let begun = begin(planned.clone(), &some);
    assert!(begun.has_address_rules() && begun.strict);
    assert_eq!(begin(planned.clone(), &none).network(), Network::None);
    assert_eq!(begin(some, &planned).reach, []);
    assert_eq!(begin(none.clone(), &planned), none);
}

fn drawn(random: &mut Random) -> Policy {
    random.rules(6, 2, |random, place| match random.one_in(2) {
        true => place.clone(),
        false => random.path(2),
    })
}

fn file(real: &Real) -> GuestPath {
    match real {
        Real::Host { root, beneath } => root.join(beneath),
        Real::Job { .. } => panic!("no rule shows the job's own"),
    }
}

/// Paths of so many names at most.
fn paths(most: usize) -> Vec<GuestPath> {
    let (mut all, mut last) = (Vec::new(), vec![String::new()]);
    for _ in 0..most {
        last = last
            .iter()
            .flat_map(|above| ["/a", "/b", "/c"].map(|name| format!("{above}{name}")))
            .collect();
        all.extend(last.iter().map(|text| path(text)));
    }
    all
}

#[test]
fn no_running_guest_sees_what_the_policy_of_now_does_not_show() {
    // A place of three names shows a file of four at most, which has a name of six at most.
    let (places, names) = (paths(3), paths(6));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..1_000 {
        let (began, now) = (drawn(&mut random), drawn(&mut random));
        let followed = follow(&began, &now);
        assert_eq!(follow(&began, &began).paths, [], "{began:?}");
        // Which files are shown by any name, written to by one, and executed by one.
        let mut shown: BTreeMap<GuestPath, (bool, bool)> = BTreeMap::new();
        for name in &names {
            let decision = now.explain(name);
            if let Seen::Shown { real, writable } = decision.seen {
                let (written, executed) = shown.entry(file(&real)).or_default();
                *written |= writable;
                *executed |= decision.execute;
            }
        }
        for at in &places {
            let begun = began.explain(at);
            let Seen::Shown { real, writable } = begun.seen else {
                continue;
            };
            let allowed = shown.get(&file(&real)).copied();
            let told = || format!("{began:?}\n{now:?}\n{at}: {:?}", followed.paths);
            match followed.at(at) {
                kept @ (Now::AsBegun | Now::ReadOnly | Now::NotExecuted | Now::ReadAlone) => {
                    let (written, executed) = allowed.unwrap_or_else(|| panic!("{}", told()));
                    assert!(!(writable && kept.writes()) || written, "{}", told());
                    assert!(
                        !(begun.execute && kept.executes()) || executed,
                        "{}",
                        told()
                    );
                    assert!(kept.writes() || writable, "{}", told());
                    assert!(kept.executes() || begun.execute, "{}", told());
                }
                Now::Denied => assert_eq!(now.explain(at).seen, Seen::Denied, "{}", told()),
                Now::Hidden => {
                    let by_name = now.explain(at).seen == Seen::Hidden;
                    assert!(by_name || allowed.is_none(), "{}", told());
                }
            }
        }
    }
}

//! What the owner of a running program asks for, word by word and text by text (P89).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_policy::{
    Change, GuestPath, Limits, Network, Policy, Seen, amend, amended, limits_of, parse,
    parse_amendment, parse_change, text_of,
};

fn changes(words: &[&str]) -> Vec<Change> {
    words
        .iter()
        .map(|word| parse_change(word).unwrap())
        .collect()
}

fn asked(words: &[&str]) -> Policy {
    parse_amendment(&text_of(&changes(words)).unwrap(), "the owner").unwrap()
}

#[test]
fn words_become_a_text_that_says_the_same() {
    let check = |words: &[&str], expected: &str| {
        assert_eq!(asked(words).in_words(), expected, "{words:?}");
    };
    check(&["/data=hidden"], "/data hidden");
    check(&["/a b/\"c\\=d=read"], "/a b/\"c\\=d read");
    check(
        &[
            "deny=*:25",
            "allow=192.0.2.0/24:443",
            "allow=[2001:db8::7]",
            "/x/=write",
        ],
        "/x write, allow 192.0.2.0/24:443, allow [2001:db8::7], deny *:25",
    );
    check(&["network=host", "network=none"], "network none");
    let mixed = changes(&["net=10MB/s", "/data=denied", "cpu=50%"]);
    let expected = Limits {
        network_kbyte_s: Some(10_000),
        cpu_percent: Some(50),
        ..Limits::default()
    };
    assert_eq!(limits_of(&mixed), expected);
    assert_eq!(text_of(&changes(&["net=10MB/s"])), None);
}

#[test]
fn what_is_no_change_says_what_would_be_one() {
    let check = |word: &str, expected: &str| {
        let error = parse_change(word).unwrap_err().to_string();
        assert!(error.contains(expected), "{word}: {error}");
    };
    check("/data", "none of read, write, denied, hidden");
    check("/data=temporary", "temporary place is made when");
    check("/../data=read", "names no path");
    check("deny=somewhere", "no address");
    check("network=mine", "neither host nor none");
    check("speed=9", "/PATH=ACCESS");
    check("", "NAME=AMOUNT");
}

#[test]
fn what_is_settled_at_the_start_is_not_changed() {
    let check = |text: &str, expected: &str| {
        let error = parse_amendment(text, "the owner").unwrap_err();
        assert_eq!(error.code(), "bad_policy");
        assert!(error.to_string().contains(expected), "{text}: {error}");
    };
    check("", "changes nothing");
    check("mechanism = \"notify\"", "the mechanism is chosen");
    check("further_processes = false", "further processes");
    check("strict = true", "what the mechanism must do");
    check("complete = true", "what the mechanism must do");
    check("limiter = \"outside\"", "who keeps the network");
    check("vo = \"a\"", "organisation");
    check("[limits]\nmemory_mib = 5", "net=10MB/s");
    check(
        "[paths]\n\"/tmp\" = \"temporary\"",
        "temporary places are made",
    );
    check("[paths]\n\"/job\" = \"hidden\"", "takes no rule");
    check("paths = 1", "the owner:1:");
    check(&" ".repeat(70_000), "longer than 65536");
}

#[test]
fn what_is_asked_later_takes_the_place_of_what_it_names() {
    let first = amend(
        None,
        &asked(&["/a=hidden", "/a/b=denied", "/c=read", "deny=*:25"]),
    );
    let check = |words: &[&str], expected: &str| {
        assert_eq!(
            amend(Some(&first), &asked(words)).in_words(),
            expected,
            "{words:?}"
        );
    };
    check(&["/a=write"], "/a write, /c read, deny *:25");
    check(&["/a/b=read"], "/a hidden, /a/b read, /c read, deny *:25");
    check(&["allow=*"], "/a hidden, /a/b denied, /c read, allow *");
    check(
        &["network=none"],
        "/a hidden, /a/b denied, /c read, network none, deny *:25",
    );
}

#[test]
fn what_is_above_may_be_less_by_now() {
    let above = |text: &str| parse(text, "the site").unwrap();
    let check = |text: &str, words: &[&str], at: &str, expected: bool| {
        let now = amended(&above(text), &asked(words));
        let shown = matches!(
            now.explain(&GuestPath::new(at).unwrap()).seen,
            Seen::Shown { .. }
        );
        assert_eq!(shown, expected, "{text} {words:?} {at}");
    };
    let both = "[paths]\n\"/a\" = \"write\"\n\"/b\" = \"read\"";
    check(both, &["/a=read", "/b=hidden"], "/a/x", true);
    check(both, &["/a=read", "/b=hidden"], "/b/x", false);
    check("[paths]\n\"/a\" = \"read\"", &["/a=write"], "/a", false);
    check("", &["/a=read"], "/a", false);
    check("[paths]\n\"/c\" = \"read\"", &["/a=read"], "/c", true);
    let none = amended(
        &above("network = \"none\""),
        &asked(&["network=host", "/a=hidden"]),
    );
    assert_eq!(none.network(), Network::None);
}

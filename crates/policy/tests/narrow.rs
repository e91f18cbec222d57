//! A lower policy only narrows (P7): rows for each sentence, and the property over policies made at random.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_policy::{GuestPath, NarrowError, Network, Policy, Real, Seen, narrow, parse};
use proptest::prelude::*;

const BASE: &str = r#"
network = "host"
limits = { disk_kbyte_s = 100 }
[paths]
"/usr" = "read"
"/usr/secret" = "denied"
"/etc/hosts" = "read"
"/data" = { access = "write", real = "/srv/data" }
"/data/old" = { access = "read", real = "/srv/old" }
"/tmp" = "temporary"
"#;

fn path(text: &str) -> GuestPath {
    GuestPath::new(text).unwrap()
}

fn narrowed(below: &str) -> Result<Policy, NarrowError> {
    narrow(&parse(BASE, "site").unwrap(), &parse(below, "job").unwrap())
}

/// What is seen at a path, in a word, with the real path.
fn seen(policy: &Policy, at: &str) -> String {
    match policy.explain(&path(at)).seen {
        Seen::Shown {
            real: Real::Host { root, beneath },
            writable,
        } => {
            format!(
                "{} {root}|{beneath}",
                if writable { "write" } else { "read" }
            )
        }
        Seen::Shown {
            real: Real::Job { beneath },
            writable,
        } => {
            format!("{} job|{beneath}", if writable { "write" } else { "read" })
        }
        other => format!("{other:?}").to_lowercase(),
    }
}

#[test]
fn a_lower_policy_maps_within_the_view_above() {
    let check = |below: &str, at: &str, expected: &str| {
        assert_eq!(
            seen(&narrowed(below).unwrap(), at),
            expected,
            "{below} at {at}"
        );
    };
    check("", "/usr/lib", "read /usr|lib");
    check("", "/home", "absent");
    check("", "/data/old/x", "read /srv/old|x");
    check(
        "[paths]\n'/etc/passwd' = { access = 'read', real = '/etc/hosts' }",
        "/etc/passwd",
        "read /etc/hosts|",
    );
    check(
        "file_path:\n/etc/passwd /etc/hosts 0",
        "/etc/passwd",
        "read /etc/hosts|",
    );
    check(
        "[paths]\n'/m' = { access = 'read', real = '/usr' }",
        "/m/lib",
        "read /usr|lib",
    );
    check(
        "[paths]\n'/m' = { access = 'read', real = '/usr' }",
        "/m/secret/x",
        "denied",
    );
    check(
        "[paths]\n'/m' = { access = 'write', real = '/data' }",
        "/m/x",
        "write /srv/data|x",
    );
    check(
        "[paths]\n'/m' = { access = 'write', real = '/data' }",
        "/m/old/x",
        "read /srv/old|x",
    );
    check(
        "[paths]\n'/m' = { access = 'read', real = '/data' }",
        "/m/x",
        "read /srv/data|x",
    );
    check("[paths]\n'/data' = 'read'", "/data/x", "read /srv/data|x");
    check("[paths]\n'/usr' = 'hidden'", "/usr/secret", "hidden");
    check("[paths]\n'/usr/lib' = 'denied'", "/usr/lib/x", "denied");
    check(
        "[paths]\n'/usr/lib' = 'denied'",
        "/usr/libx",
        "read /usr|libx",
    );
    check(
        "[paths]\n'/w' = { access = 'write', real = '/job/work' }",
        "/w/x",
        "write job|work/x",
    );
    check("", "/job/x", "write job|x");
    check("", "/proc/1", "made");
    check("", "/dev/shm", "made");
}

#[test]
fn a_lower_policy_that_asks_for_more_is_refused() {
    let check = |below: &str, expected: &str| {
        let error = narrowed(below).unwrap_err().to_string();
        assert!(error.contains(expected), "{below}: {error}");
    };
    check("[paths]\n'/home' = 'read'", "does not show");
    check(
        "[paths]\n'/x' = { access = 'read', real = '/home/me/.ssh' }",
        "does not show",
    );
    check(
        "[paths]\n'/x' = { access = 'read', real = '/usr/secret/key' }",
        "does not show",
    );
    check("[paths]\n'/usr' = 'write'", "read only");
    check(
        "[paths]\n'/x' = { access = 'write', real = '/data/old' }",
        "read only",
    );
    check(
        "[paths]\n'/x' = { access = 'read', real = '/tmp/y' }",
        "temporary",
    );
    check(
        "[paths]\n'/x' = { access = 'read', real = '/proc/1' }",
        "does not show",
    );
    let none = parse(
        "network = 'none'\nfurther_processes = false\nmechanism = 'ptrace'",
        "site",
    )
    .unwrap();
    let check = |below: &str, expected: NarrowError| {
        assert_eq!(
            narrow(&none, &parse(below, "job").unwrap()),
            Err(expected),
            "{below}"
        );
    };
    check("network = 'host'", NarrowError::Network);
    check("further_processes = true", NarrowError::FurtherProcesses);
    check(
        "mechanism = 'library'",
        NarrowError::Mechanism { above: "ptrace" },
    );
}

#[test]
fn the_lower_limit_holds() {
    let check = |below: &str, disk: Option<u64>| {
        assert_eq!(
            narrowed(below).unwrap().limits.disk_kbyte_s,
            disk,
            "{below}"
        );
    };
    check("", Some(100));
    check("limits = { disk_kbyte_s = 30 }", Some(30));
    check("limits = { disk_kbyte_s = 300 }", Some(100));
    assert_eq!(
        narrowed("network = 'none'").unwrap().network,
        Some(Network::None)
    );
    assert_eq!(narrowed("").unwrap().network, Some(Network::Host));
    assert!(narrowed("strict = true").unwrap().strict);
}

#[test]
fn figure_2_narrows_the_default_policy() {
    let text = include_str!("../../../spec/policy/vectors/valid/figure2.policy");
    let policy = narrow(&Policy::default(), &parse(text, "figure 2").unwrap()).unwrap();
    assert_eq!(seen(&policy, "/etc/passwd"), "read /etc/hosts|");
    assert_eq!(seen(&policy, "/usr/lib/x"), "read /usr|lib/x");
    assert_eq!(seen(&policy, "/usr/bin/x"), "read /usr|bin/x");
    assert_eq!(
        policy.limits.in_words(),
        ["disk limit of 30 KByte/s", "network limit of 30 KByte/s"]
    );
    assert_eq!(policy.further_processes, Some(true));
}

#[test]
fn the_default_policy_shows_nothing_private() {
    let policy = Policy::default();
    for private in [
        "/root/.ssh/id_rsa",
        "/home/me/.globus/userkey.pem",
        "/tmp/x509up_u0",
        "/etc/shadow",
        "/etc/grid-security/hostkey.pem",
        "/etc/ssl/private/key.pem",
        "/var/lib/kumiko",
        "/etc/kumiko",
        "/run/docker.sock",
        "/sys/kernel",
    ] {
        let seen = policy.explain(&path(private)).seen;
        assert!(
            matches!(seen, Seen::Absent | Seen::Temporary),
            "{private}: {seen:?}"
        );
    }
}

/// Few names, so that rules meet.
fn some_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|parts| format!("/{}", parts.join("/")))
}

fn some_policy() -> impl Strategy<Value = String> {
    let access = prop_oneof![
        some_path().prop_map(|real| format!("{{ access = 'read', real = '{real}' }}")),
        some_path().prop_map(|real| format!("{{ access = 'write', real = '{real}' }}")),
        Just("'denied'".to_owned()),
        Just("'hidden'".to_owned()),
        Just("'temporary'".to_owned()),
    ];
    prop::collection::btree_map(some_path(), access, 0..6).prop_map(|rules| {
        let lines: Vec<String> = rules
            .iter()
            .map(|(path, access)| format!("'{path}' = {access}"))
            .collect();
        format!("[paths]\n{}", lines.join("\n"))
    })
}

/// All paths that could matter: up to four parts of the three names.
fn all_paths() -> Vec<GuestPath> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..4 {
        let to = all.len();
        for at in from..to {
            for name in ["a", "b", "c"] {
                all.push(format!("{}/{name}", all[at]));
            }
        }
        from = to;
    }
    all.iter().skip(1).map(|text| path(text)).collect()
}

fn whole(real: &Real) -> String {
    match real {
        Real::Host { root, beneath } => root.join(beneath).to_string(),
        Real::Job { beneath } => format!("job:{beneath}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every real path that the narrowed policy shows was shown by the one above, and as writable.
    #[test]
    fn nothing_is_reached_that_was_not_reached_before(base in some_policy(), middle in some_policy(), below in some_policy()) {
        let base = parse(&base, "base").unwrap();
        let Ok(narrowed) = narrow(&base, &parse(&middle, "middle").unwrap()) else { return Ok(()) };
        let narrowed = narrow(&narrowed, &parse(&below, "below").unwrap()).unwrap_or(narrowed);
        let paths = all_paths();
        let mut shown = std::collections::BTreeMap::new();
        // One part deeper than the rules: what lies under a rule's real path can itself be under another rule.
        for at in &paths {
            if let Seen::Shown { real, writable } = base.explain(at).seen {
                *shown.entry(whole(&real)).or_insert(false) |= writable;
            }
        }
        for at in paths.iter().filter(|at| at.as_str().matches('/').count() < 4) {
            if let Seen::Shown { real, writable } = narrowed.explain(at).seen {
                let real = whole(&real);
                // Deeper than the paths tried: the nearest one above that was tried speaks for it.
                let mut found = None;
                let mut look = real.as_str();
                while found.is_none() && !look.is_empty() {
                    found = shown.get(look).copied();
                    look = look.rsplit_once('/').map_or("", |(above, _)| above);
                }
                prop_assert!(found.is_some(), "{at} shows {real}");
                prop_assert!(!writable || found == Some(true), "{at} writes {real}");
            }
        }
    }

    #[test]
    fn saying_nothing_changes_nothing(base in some_policy()) {
        let base = parse(&base, "base").unwrap();
        prop_assert_eq!(narrow(&base, &Policy::empty()).unwrap(), base);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,80}", lines in prop::collection::vec("(type:|file_path:|io_limit:|etc:|/a /b 1|disk 5|1\\(ptrace\\)|\\PC{0,9})", 0..8)) {
        let _ = parse(&text, "noise");
        let _ = parse(&lines.join("\n"), "noise");
    }
}

//! The choice among sites (spec/jobs/placement.md, PM10 to PM16): rows that read as stories, and what holds of any choice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_directory::ask::EntryView;
use kumiko_directory::choose::{Candidate, Judged, Wanted, candidates, choose, unknown};
use kumiko_directory::expr;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn site(name: &str, facts: &[(&str, &str)]) -> Candidate {
    let facts = facts
        .iter()
        .map(|(n, v)| ((*n).to_owned(), vec![(*v).to_owned()]));
    Candidate {
        site: name.to_owned(),
        contact: format!("{name}.example:2119"),
        attributes: facts.collect(),
    }
}

fn wanted(requirement: &str, needs: &[&str], hopes: &[&str], rank: Option<&str>) -> Wanted {
    let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    Wanted::new(requirement, &owned(needs), &owned(hopes), rank).unwrap()
}

fn names(judged: &[Judged]) -> Vec<&str> {
    judged
        .iter()
        .map(|one| one.candidate.site.as_str())
        .collect()
}

const SLOTS: &str = "kumiko-slots-free";
const WAITING: &str = "kumiko-jobs-waiting";

#[test]
fn more_room_then_shorter_queues_then_nearness_then_names_decide() {
    let check = |sites: Vec<Candidate>, rank: Option<&str>, expected: &[&str]| {
        let judged = choose(sites, &wanted("", &[], &[], rank));
        assert_eq!(names(&judged), expected);
    };
    let sites = || {
        vec![
            site("e", &[]),
            site("d", &[(SLOTS, "2"), (WAITING, "9")]),
            site("c", &[(SLOTS, "2"), (WAITING, "1")]),
            site(
                "b",
                &[
                    (SLOTS, "2"),
                    (WAITING, "1"),
                    ("kumiko-latency-seconds", "0.1"),
                ],
            ),
            site("a", &[(SLOTS, "1")]),
            site("f", &[(SLOTS, "10")]),
        ]
    };
    check(sites(), None, &["f", "b", "c", "d", "a", "e"]);
    check(
        sites(),
        Some("slots_free, site"),
        &["a", "b", "c", "d", "f", "e"],
    );
    check(
        sites(),
        Some("nobody desc"),
        &["a", "b", "c", "d", "e", "f"],
    );
}

#[test]
fn a_site_that_lacks_something_says_which_term_and_comes_last() {
    let sites = vec![
        site(
            "a",
            &[("Mds-Cpu-Total-count", "64"), ("kumiko-draining", "yes")],
        ),
        site(
            "b",
            &[("Mds-Cpu-Total-count", "4"), ("Mds-Os-name", "Linux")],
        ),
        site(
            "c",
            &[("Mds-Cpu-Total-count", "16"), ("Mds-Os-name", "linux")],
        ),
    ];
    let wanted = wanted(
        "cpus >= 8 and os = Linux",
        &["not draining = yes"],
        &[],
        None,
    );
    let judged = choose(sites, &wanted);
    assert_eq!(names(&judged), ["c", "a", "b"]);
    assert_eq!(judged[0].lacks, [""; 0]);
    assert_eq!(judged[1].lacks, ["os = Linux", "not draining = yes"]);
    assert_eq!(judged[2].lacks, ["cpus >= 8"]);
    assert_eq!(judged[2].why(), "it does not meet cpus >= 8");
}

#[test]
fn what_would_wait_comes_later_and_what_is_stale_after_that() {
    let sites = vec![
        site(
            "a",
            &[(SLOTS, "9"), ("kumiko-stale-since", "20261121220000Z")],
        ),
        site("b", &[(SLOTS, "8"), ("kumiko-reserve-memMB", "100")]),
        site("c", &[(SLOTS, "1"), ("kumiko-reserve-memMB", "4000")]),
        site("d", &[(SLOTS, "0")]),
    ];
    let hope = "reserve_mem >= 600MiB or not reserve_mem";
    let judged = choose(sites, &wanted("", &[], &[hope], None));
    assert_eq!(names(&judged), ["c", "d", "b", "a"]);
    assert!(judged.iter().all(Judged::can_be_asked));
    assert_eq!(judged[2].misses, [hope]);
    assert!(
        judged[2]
            .why()
            .contains("it would wait, for want of reserve_mem")
    );
    assert!(
        judged[3]
            .why()
            .ends_with("nothing was heard of it since 20261121220000Z")
    );
    assert_eq!(
        judged[0].why(),
        "slots_free 1; waiting not told; latency not told"
    );
}

#[test]
fn a_slip_in_a_name_is_found_and_a_site_counts_once() {
    let view = |dn: &str, facts: &[(&str, &str)]| EntryView {
        dn: dn.to_owned(),
        attributes: facts
            .iter()
            .map(|(n, v)| ((*n).to_owned(), vec![(*v).to_owned()]))
            .collect(),
        measured_ms: None,
    };
    let stale = ("kumiko-stale-since", "20261121220000Z");
    let found = candidates(vec![
        view("Mds-Host-hn=a", &[("kumiko-contact", "one:1"), stale]),
        view(
            "Mds-Host-hn=c",
            &[("kumiko-contact", "One:1"), ("colour", "red")],
        ),
        view(
            "Mds-Host-hn=b",
            &[("kumiko-contact", "one:1"), ("kumiko-site", "uno")],
        ),
        view(
            "Mds-Host-hn=d",
            &[("Mds-Host-hn", "d"), ("kumiko-contact", "two:1")],
        ),
        view("Mds-Host-hn=e", &[("kumiko-site", "none")]),
    ]);
    let told: Vec<(&str, &str)> = found
        .iter()
        .map(|one| (one.site.as_str(), one.contact.as_str()))
        .collect();
    assert_eq!(told, [("uno", "one:1"), ("d", "two:1")]);
    let names = |text: &str| expr::parse(text).unwrap().attributes;
    assert_eq!(
        unknown(&found, &names("slots_free > 1 and kumiko-site")),
        None
    );
    assert_eq!(unknown(&found, &names("slosts > 1")).unwrap(), "slosts");
}

/// Sites of few values, so that ties and gaps are common.
fn sites() -> impl Strategy<Value = Vec<Candidate>> {
    let some = || prop::option::of(0..3_u32);
    let facts = (some(), some(), some(), prop::bool::weighted(0.2));
    prop::collection::vec(facts, 0..12).prop_map(|all| {
        let named = |(at, (slots, waiting, cpus, stale)): (usize, _)| {
            let mut attributes = BTreeMap::new();
            let mut add = |name: &str, value: Option<u32>| {
                let values = value.map(|value| vec![value.to_string()]);
                attributes.extend(values.map(|values| (name.to_owned(), values)));
            };
            add(SLOTS, slots);
            add(WAITING, waiting);
            add("Mds-Cpu-Total-count", cpus);
            if stale {
                attributes.insert("kumiko-stale-since".to_owned(), vec!["2026".to_owned()]);
            }
            Candidate {
                site: format!("s{}", at % 5),
                contact: format!("s{at}.example:1"),
                attributes,
            }
        };
        all.into_iter().enumerate().map(named).collect()
    })
}

fn number(one: &Candidate, name: &str) -> Option<u32> {
    one.attributes.get(name)?.first()?.parse().ok()
}

proptest! {
    /// Nobody is lost or twice there; what is asked for is met by all that can be asked, and by none of the others; the
    /// order follows from the values and not from the order of the answer.
    #[test]
    fn a_choice_is_a_function_of_what_the_sites_tell(all in sites(), turn in 0..12_usize) {
        let wanted = wanted("cpus >= 1", &[], &["slots_free >= 1 or not slots_free"], None);
        let judged = choose(all.clone(), &wanted);
        let mut turned = all.clone();
        turned.rotate_left(if all.is_empty() { 0 } else { turn % all.len() });
        prop_assert_eq!(&judged, &choose(turned, &wanted));
        let mut contacts: Vec<_> = judged.iter().map(|one| &one.candidate.contact).collect();
        contacts.sort();
        let mut given: Vec<_> = all.iter().map(|one| &one.contact).collect();
        given.sort();
        prop_assert_eq!(contacts, given);
        // The same said by comparing one with the next.
        let key = |one: &Judged| {
            let candidate = &one.candidate;
            let cpus = number(candidate, "Mds-Cpu-Total-count");
            let slots = number(candidate, SLOTS);
            (
                cpus.is_none_or(|cpus| cpus < 1),
                candidate.attributes.contains_key("kumiko-stale-since"),
                slots == Some(0),
                slots.is_none(),
                u32::MAX - slots.unwrap_or(0),
                number(candidate, WAITING).map_or((true, 0), |waiting| (false, waiting)),
                candidate.site.clone(),
                candidate.contact.clone(),
            )
        };
        for pair in judged.windows(2) {
            prop_assert!(key(&pair[0]) < key(&pair[1]), "{:?}", pair);
        }
        for one in &judged {
            prop_assert_eq!(one.can_be_asked(), !key(one).0);
            prop_assert_eq!(one.misses.is_empty(), !key(one).2);
        }
    }
}

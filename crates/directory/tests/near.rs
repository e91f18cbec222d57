//! Ranks of one program among sites (spec/jobs/placement.md, PM41 to PM43): rows that read as stories, and what holds of any of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_directory::choose::{Candidate, Judged, Wanted, choose};
use kumiko_directory::near::{room, shares};
use proptest::prelude::*;

/// Its name, the free processors of its roomiest host, how many milliseconds it took to answer.
type Site = (&'static str, Option<u64>, Option<f64>);

fn candidate(name: &str, slots: Option<u64>, ms: Option<f64>) -> Candidate {
    let slots = slots.map(|slots| ("kumiko-slots-host".to_owned(), vec![slots.to_string()]));
    let seconds = ms.map(|ms| (ms / 1000.0).to_string());
    let latency = seconds.map(|s| ("kumiko-latency-seconds".to_owned(), vec![s]));
    Candidate {
        site: name.to_owned(),
        contact: format!("{name}.example:2119"),
        attributes: slots.into_iter().chain(latency).collect(),
    }
}

/// In the order of their names.
fn judged(sites: &[Site]) -> Vec<Judged> {
    let sites = sites
        .iter()
        .map(|(name, slots, ms)| candidate(name, *slots, *ms));
    let wanted = Wanted::new("", &[], &[], Some("site")).unwrap();
    choose(sites.collect(), &wanted)
}

#[track_caller]
fn check(sites: &[Site], ranks: u64, cpus: u64, in_order: bool, expected: Option<&[(&str, u64)]>) {
    let judged = judged(sites);
    let shares = shares(&judged, ranks, cpus, in_order);
    let told = shares.map(|shares| {
        let named = shares
            .iter()
            .map(|share| (judged[share.at].candidate.site.clone(), share.ranks));
        named.collect::<Vec<_>>()
    });
    let expected = expected.map(|all| {
        let owned = all.iter().map(|(name, ranks)| ((*name).to_owned(), *ranks));
        owned.collect::<Vec<_>>()
    });
    assert_eq!(told, expected);
}

#[test]
fn ranks_are_at_as_few_sites_as_have_room_and_of_these_at_near_ones() {
    let near = Some(0.5);
    let sites = [
        ("a", Some(4), near),
        ("b", Some(8), Some(60.0)),
        ("c", Some(4), near),
        ("d", Some(1), near),
    ];
    // One that has room for all is best, however far it is: its ranks share its memory.
    check(&sites, 8, 1, false, Some(&[("b", 8)]));
    check(&sites, 4, 1, false, Some(&[("a", 4)]));
    // Of two that are near and one that is far, the near ones; more need the far one.
    let sites = [
        ("a", Some(4), near),
        ("b", Some(6), Some(60.0)),
        ("c", Some(4), near),
    ];
    check(&sites, 7, 1, false, Some(&[("a", 4), ("c", 3)]));
    check(&sites, 9, 1, false, Some(&[("a", 4), ("b", 5)]));
    check(&sites, 14, 1, false, Some(&[("a", 4), ("b", 6), ("c", 4)]));
    check(&sites, 15, 1, false, None);
    // Ranks of two processors each.
    check(&sites, 5, 2, false, Some(&[("a", 2), ("b", 3)]));
    // Who orders them by something else has them in that order.
    check(&sites, 7, 1, true, Some(&[("a", 4), ("b", 3)]));
    check(&sites, 15, 1, true, None);
}

#[test]
fn a_factor_of_two_is_no_distance_and_what_was_never_asked_is_far() {
    let sites = [
        ("a", Some(4), Some(2.1)),
        ("b", Some(5), Some(3.9)),
        ("c", Some(9), None),
    ];
    check(&sites, 4, 1, false, Some(&[("b", 4)]));
    check(&sites, 9, 1, false, Some(&[("c", 9)]));
    check(
        &[("a", None, Some(1.0)), ("b", Some(1), Some(1.0))],
        2,
        1,
        false,
        None,
    );
}

#[test]
fn a_site_at_which_a_rank_would_wait_has_no_room() {
    let rooms = |requirement: &str, hope: &str| {
        let mut stale = candidate("b", Some(3), None);
        let since = (
            "kumiko-stale-since".to_owned(),
            vec!["20261121220000Z".to_owned()],
        );
        stale.attributes.extend([since]);
        let wanted = Wanted::new(requirement, &[], &[hope.to_owned()], Some("site")).unwrap();
        let judged = choose(vec![candidate("a", Some(3), None), stale], &wanted);
        judged.iter().map(|one| room(one, 1)).collect::<Vec<_>>()
    };
    assert_eq!(rooms("", ""), [3, 0]);
    assert_eq!(rooms("", "slots_host >= 4"), [0, 0]);
    assert_eq!(rooms("site = b", ""), [0, 0]);
}

proptest! {
    #[test]
    fn all_ranks_are_somewhere_with_room_or_there_is_none(
        rooms in prop::collection::vec((0u64..9, prop::option::of(0.0f64..100.0)), 0..9),
        ranks in 1u64..40,
        in_order: bool,
    ) {
        let sites = rooms.iter().enumerate().map(|(at, (slots, ms))| candidate(&at.to_string(), Some(*slots), *ms));
        let wanted = Wanted::new("", &[], &[], Some("site")).unwrap();
        let judged = choose(sites.collect(), &wanted);
        let all: u64 = rooms.iter().map(|(slots, _)| slots).sum();
        match shares(&judged, ranks, 1, in_order) {
            None => prop_assert!(all < ranks),
            Some(shares) => {
                prop_assert_eq!(shares.iter().map(|share| share.ranks).sum::<u64>(), ranks);
                prop_assert!(shares.windows(2).all(|two| two[0].at < two[1].at));
                for share in &shares {
                    prop_assert!(share.ranks > 0 && share.ranks <= room(&judged[share.at], 1));
                }
                if !in_order {
                    let mut most: Vec<u64> = rooms.iter().map(|(slots, _)| *slots).collect();
                    most.sort_unstable_by_key(|slots| std::cmp::Reverse(*slots));
                    let fewer: u64 = most.iter().take(shares.len() - 1).sum();
                    prop_assert!(fewer < ranks);
                }
            }
        }
    }
}

//! Starts of several jobs together (spec/jobs/together.md, T10 to T16): tables, and whatever order things are heard in.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_job::barrier::{Barrier, Order, Phase, Seen, Start};
use proptest::prelude::*;
use std::collections::BTreeSet;

use Order::{Cancel, Release};
use Start::{AtOnce, Loose, Strict};

fn over() -> Seen {
    Seen::Over("killed".into())
}

fn refused() -> Seen {
    Seen::Refused("full".into())
}

/// What is heard or done, and what is ordered then.
enum Step {
    See(usize, Seen, &'static [Order]),
    TimeUp(&'static [Order]),
    Cancel(&'static [Order]),
}

use Step::See;

fn check(starts: &[Start], steps: Vec<Step>) -> Barrier {
    let mut barrier = Barrier::new(starts);
    for (number, step) in steps.into_iter().enumerate() {
        let (orders, expected) = match step {
            Step::See(place, seen, expected) => (barrier.see(place, seen), expected),
            Step::TimeUp(expected) => (barrier.time_up(), expected),
            Step::Cancel(expected) => (barrier.cancel("interrupted"), expected),
        };
        assert_eq!(orders, expected, "{starts:?}, step {number}");
    }
    barrier
}

fn freed(barrier: &Barrier, why: &str) {
    match barrier.phase() {
        Phase::Freed(told) => assert!(told.contains(why), "{told}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_are_released_when_the_last_is_ready_and_not_before() {
    let barrier = check(
        &[Strict, Strict, AtOnce],
        vec![
            See(0, Seen::Taken, &[]),
            See(1, Seen::Taken, &[]),
            See(0, Seen::Held, &[]),
            See(0, Seen::Held, &[]),
            See(0, Seen::Again, &[]),
            See(1, Seen::Held, &[]),
            See(2, refused(), &[]),
            See(0, Seen::Held, &[Release(0), Release(1)]),
            See(1, Seen::Held, &[]),
            See(0, Seen::Begun, &[]),
            See(0, over(), &[]),
        ],
    );
    assert_eq!(barrier.phase(), &Phase::Released);
    assert!(!barrier.is_over(), "the second has not begun");
    assert!(barrier.holds(1) && !barrier.holds(0));
}

#[test]
fn one_strict_failure_frees_all_that_sites_have_and_those_that_they_take_later() {
    let barrier = check(
        &[Strict, Strict, Loose, AtOnce],
        vec![
            See(0, Seen::Taken, &[]),
            See(3, Seen::Taken, &[]),
            See(3, Seen::Begun, &[]),
            See(0, Seen::Held, &[]),
            See(1, refused(), &[Cancel(0), Cancel(3)]),
            See(2, Seen::Taken, &[Cancel(2)]),
            See(0, over(), &[]),
            See(2, over(), &[]),
            See(3, over(), &[]),
        ],
    );
    freed(&barrier, "subjob 1 was refused: full");
    assert!(barrier.is_over());
}

#[test]
fn a_loose_one_is_waited_for_and_left_out() {
    let barrier = check(
        &[Strict, Loose],
        vec![
            See(0, Seen::Taken, &[]),
            See(1, Seen::Taken, &[]),
            See(0, Seen::Held, &[]),
            See(1, over(), &[Release(0)]),
        ],
    );
    assert_eq!(barrier.phase(), &Phase::Released);
    let late = check(
        &[Strict, Loose, Loose],
        vec![
            See(0, Seen::Taken, &[]),
            See(1, Seen::Taken, &[]),
            See(0, Seen::Held, &[]),
            Step::TimeUp(&[Release(0), Cancel(1)]),
            // It was being submitted.
            See(2, Seen::Taken, &[Cancel(2)]),
            See(1, Seen::Held, &[]),
        ],
    );
    assert!(!late.holds(1) && !late.is_over());
    let alone = check(&[Loose], vec![See(0, refused(), &[])]);
    freed(&alone, "none of its subjobs is left");
}

#[test]
fn what_was_released_and_does_not_begin_frees_the_others() {
    let begin = || {
        vec![
            See(0, Seen::Taken, &[]),
            See(1, Seen::Taken, &[]),
            See(0, Seen::Held, &[]),
            See(1, Seen::Held, &[Release(0), Release(1)]),
            See(0, Seen::Begun, &[]),
        ]
    };
    let mut steps = begin();
    steps.push(See(1, over(), &[Cancel(0)]));
    freed(&check(&[Strict, Strict], steps), "ended before");
    let mut steps = begin();
    steps.push(Step::TimeUp(&[Cancel(0), Cancel(1)]));
    freed(&check(&[Strict, Strict], steps), "not ready in time");
    let mut steps = begin();
    steps.push(Step::Cancel(&[Cancel(0), Cancel(1)]));
    steps.push(Step::Cancel(&[]));
    freed(&check(&[Strict, Strict], steps), "interrupted");
}

/// What may be said of one subjob, in its order.
fn life() -> impl Strategy<Value = Vec<Seen>> {
    let ends = prop_oneof![
        3 => Just(Vec::new()),
        1 => Just(vec![over()]),
        1 => Just(vec![Seen::Unsure("cut".into())]),
    ];
    let taken =
        (0..3_usize, 0..3_usize, any::<bool>(), ends).prop_map(|(far, again, begun, end)| {
            let mut life = vec![Seen::Taken];
            for _ in 0..again {
                life.extend([Seen::Held, Seen::Again]);
            }
            if far > 0 {
                life.push(Seen::Held);
            }
            if far > 1 && begun {
                life.push(Seen::Begun);
            }
            life.extend(end);
            life
        });
    prop_oneof![
        6 => taken,
        1 => Just(vec![refused()]),
        1 => Just(vec![Seen::Unsure("cut".into())]),
    ]
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![4 => Just(Strict), 2 => Just(Loose), 1 => Just(AtOnce)]
}

/// The world beside the barrier: it knows what was said and ordered, and asks whether that fits.
struct Oracle {
    starts: Vec<Start>,
    barrier: Barrier,
    held: Vec<bool>,
    gone: Vec<bool>,
    had: Vec<bool>,
    released: BTreeSet<usize>,
    cancelled: BTreeSet<usize>,
}

impl Oracle {
    fn new(starts: &[Start]) -> Oracle {
        let none = vec![false; starts.len()];
        Oracle {
            starts: starts.to_vec(),
            barrier: Barrier::new(starts),
            held: none.clone(),
            gone: none.clone(),
            had: none,
            released: BTreeSet::new(),
            cancelled: BTreeSet::new(),
        }
    }

    fn see(&mut self, place: usize, seen: &Seen) {
        match seen {
            Seen::Taken => self.had[place] = true,
            Seen::Held | Seen::Begun => self.held[place] = true,
            Seen::Again => self.held[place] = false,
            Seen::Refused(_) | Seen::Unsure(_) | Seen::Over(_) => self.gone[place] = true,
        }
        let orders = self.barrier.see(place, seen.clone());
        self.carry_out(orders);
    }

    fn carry_out(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Release(place) => {
                    assert!(self.cancelled.is_empty() || *self.barrier.phase() == Phase::Released);
                    assert!(self.held[place] && !self.gone[place]);
                    assert!(self.released.insert(place), "released twice");
                    for (other, start) in self.starts.iter().enumerate() {
                        let ready = self.held[other] && !self.gone[other];
                        assert!(*start != Strict || ready, "{other} is not ready");
                    }
                }
                Cancel(place) => {
                    assert!(self.had[place] && !self.gone[place]);
                    assert!(self.cancelled.insert(place), "cancelled twice");
                }
            }
        }
        let alive = |place: &usize| self.had[*place] && !self.gone[*place];
        if let Phase::Freed(_) = self.barrier.phase() {
            for place in (0..self.starts.len()).filter(alive) {
                assert!(self.cancelled.contains(&place), "{place} is not freed");
            }
        }
    }
}

proptest! {
    #[test]
    fn in_whatever_order_things_are_heard_it_is_all_or_nothing(
        subjobs in proptest::collection::vec((start(), life()), 1..6),
        order in proptest::collection::vec((0..100_usize, 0..20_u8), 0..60),
    ) {
        let starts: Vec<Start> = subjobs.iter().map(|(start, _)| *start).collect();
        let mut oracle = Oracle::new(&starts);
        let mut lives: Vec<_> = subjobs.iter().map(|(_, life)| life.iter()).collect();
        for (place, what) in order {
            let place = place % starts.len();
            match what {
                0 => {
                    let orders = oracle.barrier.time_up();
                    oracle.carry_out(orders);
                }
                1 => {
                    let orders = oracle.barrier.cancel("interrupted");
                    oracle.carry_out(orders);
                }
                _ => {
                    if let Some(seen) = lives[place].next() {
                        oracle.see(place, seen);
                    }
                }
            }
        }
        // All comes to its end: sites do what they are told, and what is not held on is cancelled by them.
        for (place, life) in lives.into_iter().enumerate() {
            for seen in life {
                oracle.see(place, seen);
            }
        }
        if *oracle.barrier.phase() == Phase::Gathering {
            let orders = oracle.barrier.time_up();
            oracle.carry_out(orders);
        }
        for place in 0..starts.len() {
            let begins = oracle.released.contains(&place) && !oracle.cancelled.contains(&place);
            if begins && !oracle.gone[place] {
                oracle.see(place, &Seen::Begun);
            }
        }
        for place in oracle.cancelled.clone() {
            if !oracle.gone[place] {
                oracle.see(place, &over());
            }
        }
        prop_assert!(*oracle.barrier.phase() != Phase::Gathering);
        prop_assert!(oracle.barrier.is_over(), "{:?}", oracle.barrier);
    }

    #[test]
    fn without_a_failure_all_begin(count in 1..8_usize, order in any::<u64>()) {
        let mut barrier = Barrier::new(&vec![Strict; count]);
        let mut far = vec![0; count];
        let mut dice = order;
        let mut orders = Vec::new();
        while far.iter().any(|far| *far < 2) {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place = (dice >> 33) as usize % count;
            let seen = [Seen::Taken, Seen::Held].get(far[place]).cloned();
            far[place] += 1;
            if let Some(seen) = seen {
                prop_assert!(orders.is_empty());
                orders = barrier.see(place, seen);
            }
        }
        prop_assert_eq!(orders, (0..count).map(Release).collect::<Vec<_>>());
        for place in 0..count {
            barrier.see(place, Seen::Begun);
        }
        prop_assert!(barrier.is_over());
    }
}

//! The pool of pilots against a model of an engine that starts, kills and refuses them: nothing is handed out twice, no
//! pilot has more than fits, and all is done in the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_batch::engine::seen::{Seen, Time, Verdict};
use kumiko_batch::pilots::pool::{Do, Need, Number, Pool, Size, Told};
use kumiko_job::attempt::EngineCause;
use kumiko_job::id::{AttemptId, JobId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn id(job: u64) -> AttemptId {
    AttemptId {
        job: JobId(job),
        epoch: 1,
    }
}

fn size(least: u32, most: u32, cpus: u32) -> Size {
    Size {
        least,
        most,
        cpus,
        time_ms: None,
    }
}

/// Of an attempt without a limit.
fn need(cpus: u32) -> Need {
    Need {
        cpus,
        time_ms: None,
    }
}

fn told(seen: Seen) -> Told {
    Told {
        seen,
        time: None,
        hosts: Vec::new(),
        leaves: None,
    }
}

fn running() -> Seen {
    Seen::Running("RUNNING".into())
}

/// What is so outside of the pool.
#[derive(Default)]
struct World {
    now_ms: u64,
    /// Those that the engine was asked for, and has: up or not.
    pilots: BTreeMap<Number, bool>,
    /// By attempt: where it is, and whether it began.
    held: BTreeMap<AttemptId, (Number, bool)>,
    cpus: BTreeMap<AttemptId, u32>,
    done: BTreeSet<AttemptId>,
    /// Began, and went with its pilot.
    lost: BTreeSet<AttemptId>,
}

impl World {
    fn obey(&mut self, pool: &mut Pool, size: Size, todo: Vec<Do>) {
        for one in todo {
            match one {
                Do::Ask(number) => {
                    assert_eq!(self.pilots.insert(number, false), None);
                    assert!(self.pilots.len() <= size.most as usize, "{:?}", self.pilots);
                    pool.accepted(number, self.now_ms);
                }
                Do::Hand(number, attempt) => {
                    assert_eq!(self.pilots.get(&number), Some(&true), "handed to nobody");
                    assert!(!self.done.contains(&attempt) && !self.lost.contains(&attempt));
                    assert_eq!(
                        self.held.insert(attempt, (number, false)),
                        None,
                        "handed twice"
                    );
                    let used: u32 = self
                        .held
                        .iter()
                        .filter(|(_, (of, _))| *of == number)
                        .map(|(attempt, _)| self.cpus[attempt])
                        .sum();
                    assert!(used <= size.cpus, "{number} has {used}");
                }
                Do::Direct(attempt) => {
                    self.done.insert(attempt);
                }
                Do::Retire(_) | Do::Remove(_) | Do::Look => {}
            }
        }
    }

    fn seen(&self) -> BTreeMap<Number, Told> {
        let seen = |(number, up): (&Number, &bool)| {
            let seen = match up {
                true => running(),
                false => Seen::Waiting("PENDING".into()),
            };
            (*number, told(seen))
        };
        self.pilots.iter().map(seen).collect()
    }

    fn nth_pilot(&self, nth: usize, up: bool) -> Option<Number> {
        let all: Vec<Number> = self
            .pilots
            .iter()
            .filter(|(_, is)| **is == up)
            .map(|(number, _)| *number)
            .collect();
        (!all.is_empty()).then(|| all[nth % all.len()])
    }

    fn nth_held(&self, nth: usize) -> Option<AttemptId> {
        (!self.held.is_empty()).then(|| *self.held.keys().nth(nth % self.held.len()).unwrap())
    }

    fn step(&mut self, pool: &mut Pool, size: Size, (what, nth): (u8, usize)) {
        self.now_ms += 700;
        let now_ms = self.now_ms;
        let todo = match what {
            0 => {
                let job = self.cpus.len() as u64 + 1;
                let cpus = 1 + nth as u32 % size.cpus;
                self.cpus.insert(id(job), cpus);
                pool.submit(id(job), need(cpus), now_ms)
            }
            1 => match self.nth_pilot(nth, false) {
                Some(number) => {
                    self.pilots.insert(number, true);
                    let mut todo = pool.ready(number, now_ms, &BTreeMap::new(), now_ms);
                    if nth % 2 == 0 {
                        todo.extend(pool.looked(&self.seen(), now_ms, now_ms));
                    } else {
                        todo.extend(pool.unanswered(now_ms));
                    }
                    todo
                }
                None => Vec::new(),
            },
            2 => {
                if let Some(attempt) = self.nth_held(nth) {
                    self.held.get_mut(&attempt).unwrap().1 = true;
                }
                Vec::new()
            }
            3 => match self.nth_held(nth) {
                Some(attempt) => {
                    let (number, _) = self.held.remove(&attempt).unwrap();
                    self.done.insert(attempt);
                    pool.over(number, attempt, now_ms)
                }
                None => Vec::new(),
            },
            // Killed, with all that it has.
            4 => match self.nth_pilot(nth, true) {
                Some(number) => {
                    self.pilots.remove(&number);
                    let gone: Vec<_> = self
                        .held
                        .iter()
                        .filter(|(_, (of, _))| *of == number)
                        .map(|(attempt, (_, began))| (*attempt, *began))
                        .collect();
                    let began: BTreeSet<AttemptId> = gone
                        .iter()
                        .filter(|(_, began)| *began)
                        .map(|(attempt, _)| *attempt)
                        .collect();
                    for (attempt, _) in gone {
                        self.held.remove(&attempt);
                    }
                    self.lost.extend(&began);
                    pool.away(number, |attempt| began.contains(&attempt), now_ms)
                }
                None => Vec::new(),
            },
            // Came to nothing before it was up.
            5 => match self.nth_pilot(nth, false) {
                Some(number) => {
                    self.pilots.remove(&number);
                    pool.looked(&self.seen(), now_ms, now_ms)
                }
                None => pool.looked(&self.seen(), now_ms, now_ms),
            },
            _ => pool.tick(|_| true, now_ms),
        };
        self.obey(pool, size, todo);
    }
}

proptest! {
    #[test]
    fn whatever_becomes_of_pilots_each_attempt_is_done_once_or_went_with_its_pilot(
        least in 0u32..3, more in 1u32..4, cpus in 1u32..5,
        steps in proptest::collection::vec((0u8..7, any::<usize>()), 1..200),
    ) {
        let size = size(least, least + more, cpus);
        let (mut pool, mut world) = (Pool::new(size, 1), World::default());
        for step in steps {
            world.step(&mut pool, size, step);
        }
        // From here on all goes well, with time going by.
        for _ in 0..2_000 {
            for what in [6, 1, 3] {
                world.step(&mut pool, size, (what, 0));
            }
        }
        for attempt in world.cpus.keys() {
            prop_assert!(
                world.done.contains(attempt) != world.lost.contains(attempt),
                "{attempt}: done {}, lost {}", world.done.contains(attempt), world.lost.contains(attempt)
            );
        }
    }
}

#[test]
fn an_idle_pilot_goes_after_a_minute_but_for_the_least() {
    let mut pool = Pool::new(size(1, 2, 1), 1);
    assert_eq!(pool.submit(id(1), need(1), 0), [Do::Ask(1)]);
    assert_eq!(pool.submit(id(2), need(1), 0), [Do::Ask(2)]);
    for number in [1, 2] {
        pool.accepted(number, 0);
        assert_eq!(pool.ready(number, 5, &BTreeMap::new(), 10), [Do::Look]);
    }
    let seen = [(1, told(running())), (2, told(running()))].into();
    assert_eq!(
        pool.looked(&seen, 10, 10),
        [Do::Hand(1, id(1)), Do::Hand(2, id(2))]
    );
    assert_eq!(pool.over(1, id(1), 20), []);
    assert_eq!(pool.over(2, id(2), 30), []);
    assert_eq!(pool.tick(|_| true, 59_000), []);
    assert_eq!(pool.tick(|_| true, 70_000), [Do::Retire(1)]);
    assert_eq!(pool.tick(|_| true, 700_000), []);
}

#[test]
fn where_no_pilot_comes_up_attempts_go_to_the_engine_itself() {
    let mut pool = Pool::new(size(0, 1, 1), 1);
    let mut now_ms = 0;
    let mut todo = pool.submit(id(1), need(1), now_ms);
    let mut asked = 0;
    while !todo.contains(&Do::Direct(id(1))) {
        if let Some(Do::Ask(number)) = todo.iter().find(|one| matches!(one, Do::Ask(_))) {
            asked += 1;
            todo = pool.refused(*number, "no such partition".into(), now_ms);
            let rows = pool.rows();
            match &rows[..] {
                [] => {}
                [(_, Seen::Waiting(words), None)] => {
                    assert!(words.contains("no such partition"), "{words}")
                }
                other => panic!("{other:?}"),
            }
            continue;
        }
        now_ms += 1_000;
        assert!(now_ms < 60_000);
        todo = pool.tick(|_| true, now_ms);
    }
    assert_eq!(asked, 3);
}

#[test]
fn what_becomes_of_an_attempt_with_its_pilot_is_told_apart() {
    let ended = |cause| Seen::Over(Verdict::Ended(cause, "WORD".into()));
    let says = |seen: Option<Seen>, back: Option<u64>| {
        let mut pool = Pool::new(size(0, 1, 1), 1);
        pool.submit(id(1), need(1), 0);
        pool.accepted(1, 0);
        pool.ready(1, 5, &BTreeMap::new(), 10);
        pool.unanswered(10);
        pool.away(1, |_| true, 20);
        let seen = seen.map(|seen| (1, told(seen))).into_iter().collect();
        pool.looked(&seen, 30, 40);
        if let Some(began) = back {
            pool.ready(1, began, &BTreeMap::new(), 50);
        }
        let rows = pool.rows();
        rows.into_iter()
            .find(|(of, ..)| *of == id(1))
            .map(|(_, seen, _)| seen)
    };
    let kind = |seen: Option<Seen>| match seen {
        None => "unknown".to_owned(),
        Some(Seen::Over(Verdict::ByItself(_))) => "by itself".to_owned(),
        Some(Seen::Over(Verdict::NoRunner(_))) => "no runner".to_owned(),
        Some(Seen::Over(Verdict::Ended(cause, _))) => format!("{cause:?}"),
        Some(Seen::Running(_)) => "not said yet".to_owned(),
        Some(other) => format!("{other:?}"),
    };
    for (seen, back, expected) in [
        (Some(ended(EngineCause::Preempted)), None, "Preempted"),
        (Some(ended(EngineCause::Limit)), None, "Limit"),
        (Some(running()), None, "not said yet"),
        (Some(Seen::Waiting("Idle".into())), None, "Evicted"),
        // Started again by its engine, in the same place; or never gone, and its runner was killed.
        (Some(running()), Some(6), "Evicted"),
        (Some(running()), Some(5), "no runner"),
        (None, None, "unknown"),
    ] {
        assert_eq!(
            kind(says(seen.clone(), back)),
            expected,
            "{seen:?} {back:?}"
        );
    }
}

/// A pool with pilots that are up, each of which has so much of 100 s left.
fn up(size: Size, left_s: &[u64]) -> Pool {
    let mut pool = Pool::new(size, 1);
    let mut seen = BTreeMap::new();
    for (number, left_s) in (1..).zip(left_s) {
        pool.found(number, 0);
        let time = Time {
            left_ms: left_s * 1000,
            whole_ms: 100_000,
        };
        let one = Told {
            time: Some(time),
            ..told(running())
        };
        seen.insert(number, one);
    }
    pool.looked(&seen, 0, 0);
    for number in seen.keys() {
        assert_eq!(pool.ready(*number, 5, &BTreeMap::new(), 0), []);
    }
    pool
}

fn for_s(time_s: u64) -> Need {
    Need {
        cpus: 1,
        time_ms: Some(time_s * 1000),
    }
}

#[test]
fn an_attempt_goes_to_a_pilot_that_lasts_for_it_or_to_the_engine() {
    // Pilot 1 is the fuller one, and has little left.
    let mut pool = up(size(2, 2, 2), &[60, 90]);
    assert_eq!(pool.submit(id(1), for_s(10), 0), [Do::Hand(1, id(1))]);
    assert_eq!(pool.submit(id(2), for_s(80), 0), [Do::Hand(2, id(2))]);
    assert_eq!(pool.submit(id(3), need(1), 0), [Do::Hand(1, id(3))]);
    // No pilot was ever given so long.
    assert!(pool.serves(&for_s(100)) && !pool.serves(&for_s(101)));
    assert_eq!(pool.submit(id(4), for_s(101), 0), [Do::Direct(id(4))]);
    // Time goes by: what has no limit is not begun in the second half of a pilot.
    assert_eq!(pool.over(1, id(3), 11_000), []);
    assert_eq!(pool.submit(id(5), for_s(89), 11_000), []);
    let why = |pool: &Pool| match pool.rows().remove(0) {
        (_, Seen::Waiting(words), None) => words,
        other => panic!("{other:?}"),
    };
    assert!(why(&pool).contains("it needs 89 s"), "{}", why(&pool));
    assert_eq!(pool.cancel(id(5)), None);
    assert_eq!(pool.over(2, id(2), 12_000), []);
    assert_eq!(pool.submit(id(6), need(1), 12_000), [Do::Hand(2, id(6))]);
    assert_eq!(pool.over(2, id(6), 45_000), [Do::Retire(2), Do::Ask(3)]);
    assert_eq!(pool.submit(id(7), need(1), 45_000), []);
    assert!(why(&pool).contains("no time limit"), "{}", why(&pool));
}

#[test]
fn while_it_is_asked_how_long_a_pilot_lasts_no_other_is_asked_for() {
    let mut pool = Pool::new(size(0, 2, 1), 1);
    assert_eq!(pool.submit(id(1), need(1), 0), [Do::Ask(1)]);
    pool.accepted(1, 0);
    assert_eq!(pool.ready(1, 5, &BTreeMap::new(), 10), [Do::Look]);
    assert_eq!(pool.unanswered(20), [Do::Hand(1, id(1))]);
}

#[test]
fn one_that_waits_for_time_is_overtaken_only_where_it_would_get_none() {
    // One more pilot may come: meanwhile the one that is there is of use to others.
    let mut pool = up(size(0, 2, 1), &[60]);
    assert_eq!(pool.submit(id(1), for_s(80), 0), [Do::Ask(2)]);
    assert_eq!(pool.submit(id(2), for_s(10), 0), [Do::Hand(1, id(2))]);
    pool.accepted(2, 0);
    assert_eq!(pool.ready(2, 5, &BTreeMap::new(), 10), [Do::Look]);
    assert_eq!(pool.unanswered(20), [Do::Hand(2, id(1))]);
    // None may: it runs dry, goes, and makes room for one that lasts.
    let mut pool = up(size(0, 1, 1), &[60]);
    assert_eq!(pool.submit(id(1), for_s(10), 0), [Do::Hand(1, id(1))]);
    assert_eq!(pool.submit(id(2), for_s(80), 0), []);
    assert_eq!(pool.submit(id(3), for_s(10), 0), []);
    assert_eq!(pool.over(1, id(1), 1_000), [Do::Retire(1), Do::Ask(2)]);
}

fn on(host: &str) -> Told {
    Told {
        hosts: vec![format!("slot@{host}"), host.to_owned()],
        ..told(running())
    }
}

#[test]
fn what_is_wanted_on_a_host_goes_to_its_pilot_alone_and_holds_up_nobody_elsewhere() {
    let mut pool = up(size(2, 2, 1), &[100, 100]);
    pool.looked(&[(1, on("n1")), (2, on("n2"))].into(), 10, 10);
    let names = ["n1", "n2", "slot@n1", "slot@n2"].map(str::to_owned);
    assert_eq!(pool.hosts(), names.into());
    pool.want(id(1), "n2".into());
    assert_eq!(pool.submit(id(1), need(1), 20), [Do::Hand(2, id(1))]);
    assert!(pool.is_on(id(1), "n2") && !pool.is_on(id(1), "n1"));
    // Its pilot is full: it waits for that one, and who came later does not wait for it.
    pool.want(id(2), "n2".into());
    assert_eq!(pool.submit(id(2), need(1), 30), []);
    assert_eq!(pool.submit(id(3), need(1), 30), [Do::Hand(1, id(3))]);
    let rows = pool.rows();
    let why = rows.iter().find(|(one, ..)| *one == id(2)).unwrap();
    assert!(why.1.words().contains("; it is wanted on n2"), "{why:?}");
    assert_eq!(pool.over(1, id(3), 40), []);
    assert_eq!(pool.over(2, id(1), 50), [Do::Hand(2, id(2))]);
}

#[test]
fn what_is_wanted_on_a_host_that_takes_no_more_goes_elsewhere() {
    let mut pool = up(size(2, 2, 1), &[100, 100]);
    pool.looked(&[(1, on("n1")), (2, on("n2"))].into(), 10, 10);
    assert_eq!(pool.submit(id(1), need(1), 20).len(), 1);
    assert_eq!(pool.submit(id(2), need(1), 20).len(), 1);
    pool.want(id(3), "n2".into());
    assert_eq!(pool.submit(id(3), need(1), 30), []);
    assert_eq!(pool.going(2, 40), [Do::Ask(3)]);
    assert_eq!(pool.hosts(), ["n1", "slot@n1"].map(str::to_owned).into());
    let on_first = [id(1), id(2)]
        .into_iter()
        .find(|one| pool.is_on(*one, "n1"));
    assert_eq!(pool.over(1, on_first.unwrap(), 50), [Do::Hand(1, id(3))]);
}

#[test]
fn pilots_of_a_drained_host_take_nothing_more_and_are_followed_by_others() {
    let mut pool = up(size(1, 1, 2), &[100]);
    assert_eq!(pool.submit(id(1), need(1), 0), [Do::Hand(1, id(1))]);
    let leaves = Told {
        leaves: Some("n1".into()),
        ..told(running())
    };
    let todo = pool.looked(&[(1, leaves)].into(), 10, 10);
    assert_eq!(todo, [Do::Retire(1), Do::Ask(2)]);
    assert_eq!(
        pool.rows(),
        [(
            id(1),
            Seen::Running("pilot 1 has it".into()),
            Some("n1".into())
        )],
        "what it holds comes to its end there"
    );
    assert_eq!(pool.submit(id(2), need(1), 20), []);
    pool.accepted(2, 20);
    pool.ready(2, 5, &BTreeMap::new(), 30);
    assert_eq!(pool.unanswered(30), [Do::Hand(2, id(2))]);
    assert_eq!(pool.over(1, id(1), 40), []);
}

#[test]
fn no_other_pilot_is_asked_for_while_one_may_be_back() {
    let away = || {
        let mut pool = up(size(1, 1, 1), &[100]);
        assert_eq!(pool.submit(id(1), need(1), 20), [Do::Hand(1, id(1))]);
        assert_eq!(pool.away(1, |_| true, 1000), []);
        pool
    };
    let mut back = away();
    assert_eq!(back.tick(|_| false, 1500), []);
    let held = [(id(1), need(1))].into();
    assert_eq!(back.ready(1, 5, &held, 1600), []);
    assert_eq!(back.tick(|_| false, 3000), []);
    assert_eq!(away().tick(|_| false, 2000), [Do::Ask(2)]);
    let over = Seen::Over(Verdict::Ended(EngineCause::Removed, "gone".into()));
    for seen in [BTreeMap::new(), [(1, told(over))].into()] {
        assert_eq!(away().looked(&seen, 1100, 1100), [Do::Ask(2)]);
    }
}

#[test]
fn what_a_pilot_holds_whose_slot_is_taken_back_is_to_leave_until_it_began_anew() {
    let mut pool = up(size(1, 1, 1), &[100]);
    pool.looked(&[(1, on("n1"))].into(), 10, 10);
    assert_eq!(pool.submit(id(1), need(1), 20), [Do::Hand(1, id(1))]);
    assert_eq!(pool.recalled(id(1)), None);
    assert_eq!(pool.going(1, 30), [Do::Ask(2)]);
    assert_eq!(pool.recalled(id(1)), Some("slot@n1".into()));
    assert_eq!(pool.recalled(id(2)), None, "it holds nothing of this");
    // Retired alone, it says nothing of the slot.
    let mut retired = up(size(1, 1, 1), &[100]);
    assert_eq!(retired.submit(id(1), need(1), 20), [Do::Hand(1, id(1))]);
    assert_eq!(retired.retired(1, 30), [Do::Ask(2)]);
    assert_eq!(retired.recalled(id(1)), None);
    // The engine starts it again.
    pool.away(1, |_| true, 50);
    assert_eq!(pool.ready(1, 60, &BTreeMap::new(), 70), [Do::Look]);
    pool.looked(&[(1, on("n1"))].into(), 75, 75);
    assert_eq!(pool.submit(id(2), need(1), 80), [Do::Hand(1, id(2))]);
    assert_eq!(pool.recalled(id(2)), None);
}

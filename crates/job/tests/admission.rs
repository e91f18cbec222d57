//! Admission (spec/policy, P70 to P75) over random histories: never more is held than there is, nobody is overtaken to
//! their harm, everybody gets on, and the account is what replay makes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_job::admission::{Amounts, Capacity, Ledger, RESERVABLE};
use kumiko_job::attempt::{AttemptReport, Outcome};
use kumiko_job::contract::Caller;
use kumiko_job::description::{JobDescription, Resources, StageIn};
use kumiko_job::event::{Event, Record};
use kumiko_job::id::JobId;
use kumiko_job::respond::{self, Here, OutputBytes};
use kumiko_job::staging::Item;
use kumiko_job::state::{Job, Stage, apply};
use kumiko_policy::{Limited, Limits};
use std::collections::BTreeMap;
use std::sync::Arc;

const HISTORIES: u64 = 400;
const STEPS: u64 = 60;
const CAPACITY: u64 = 10;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// Of memory, network and processes; nothing can be reserved of the others.
fn capacity() -> Capacity {
    Capacity::new(&Limits {
        memory_mib: Some(CAPACITY),
        network_kbyte_s: Some(CAPACITY),
        processes: Some(CAPACITY),
        ..Limits::default()
    })
}

fn reserving(memory: u64, network: u64, processes: u64) -> JobDescription {
    let some = |amount: u64| (amount > 0).then_some(amount);
    JobDescription {
        resources: Resources {
            memory_mib: some(memory),
            network_kbyte_s: some(network),
            processes: some(processes),
            ..Resources::default()
        },
        ..JobDescription::new("/bin/true", &[])
    }
}

struct Site {
    jobs: BTreeMap<JobId, Job>,
    ledger: Ledger,
    begun: Vec<JobId>,
}

impl Site {
    fn new() -> Site {
        Site {
            jobs: BTreeMap::new(),
            ledger: Ledger::new(capacity()),
            begun: Vec::new(),
        }
    }

    fn here(has_room: bool) -> Here<'static> {
        Here {
            batch: "fork",
            boot: "b",
            has_room,
        }
    }

    fn record(&mut self, id: JobId, events: Vec<Event>) {
        for event in events {
            if matches!(event, Event::Planned { epoch: 1, .. }) {
                self.begun.push(id);
            }
            let before = self.jobs.get(&id);
            let number = before.map_or(0, |job| job.last_event) + 1;
            let record = Record {
                number,
                at_ms: 0,
                event,
            };
            let after = apply(id, before, &record).unwrap();
            self.ledger.step(before, &after);
            self.jobs.insert(id, after);
        }
    }

    fn submit(&mut self, id: u64, description: JobDescription) -> JobId {
        let id = JobId(id);
        capacity().admits(&description).unwrap();
        let caller = Caller {
            subject: "/CN=A".into(),
            account: "a".into(),
        };
        let here = Site::here(self.ledger.has_room(id, &description));
        self.record(
            id,
            respond::submit(&caller, None, Arc::new(description), None, here),
        );
        self.admit();
        id
    }

    /// What the manager does in every transaction.
    fn admit(&mut self) {
        for id in self.ledger.next() {
            let events = respond::admit(&self.jobs[&id], Site::here(true));
            assert_eq!(events.len(), 1, "{id} waits");
            self.record(id, events);
        }
        assert!(self.ledger.next().is_empty(), "one pass is enough");
    }

    fn end(&mut self, id: JobId, outcome: Outcome) {
        let job = &self.jobs[&id];
        let report = AttemptReport::Ended(outcome);
        let output = OutputBytes::default();
        let here = Site::here(true);
        let events = respond::report(job, job.last_epoch(), report, output, here);
        self.record(id, events);
        self.admit();
    }

    fn cancel(&mut self, id: JobId) {
        let events = respond::cancel(&self.jobs[&id], 0);
        self.record(id, events);
        self.admit();
    }

    fn staged(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        let here = Site::here(self.ledger.has_room(id, &job.description));
        let events = respond::moved(job, Item::In(0), None, Ok(1), here);
        self.record(id, events);
        self.admit();
    }

    fn are(&self, stage: impl Fn(&Stage) -> bool) -> Vec<JobId> {
        let all = self.jobs.values().filter(|job| stage(&job.stage));
        all.map(|job| job.id).collect()
    }

    fn wait(&self) -> Vec<JobId> {
        self.are(|stage| matches!(stage, Stage::Waiting { .. }))
    }

    fn run(&self) -> Vec<JobId> {
        self.are(|stage| matches!(stage, Stage::Planned(_)))
    }

    fn check(&self) {
        let held = |of: Limited| -> u64 {
            let running = self.run().into_iter().map(|id| &self.jobs[&id].description);
            running.map(|d| Amounts::of(d).get(of)).sum()
        };
        for of in RESERVABLE {
            let most = capacity().get(of).unwrap_or(0);
            assert!(held(of) <= most, "{of:?}: {} of {most}", held(of));
            assert_eq!(self.ledger.held().get(of), held(of));
        }
        let mut replayed = Ledger::new(capacity());
        for job in self.jobs.values() {
            replayed.step(None, job);
        }
        assert_eq!(replayed, self.ledger, "replay makes another account");
    }
}

#[test]
fn never_more_is_held_than_there_is_and_everybody_who_waits_gets_on() {
    let (mut waited, mut overtook) = (0_u64, 0_u64);
    for seed in 0..HISTORIES {
        let (mut dice, mut site) = (Dice(seed), Site::new());
        let mut last = 0;
        for _ in 0..STEPS {
            let pick = |dice: &mut Dice, from: Vec<JobId>| {
                let at = dice.roll(from.len().max(1) as u64) as usize;
                from.get(at).copied()
            };
            match dice.roll(8) {
                0..=3 => {
                    last += 1;
                    let mut amount = || match dice.roll(3) {
                        0 => 0,
                        1 => 1 + dice.roll(3),
                        _ => 1 + dice.roll(CAPACITY),
                    };
                    let mut description = reserving(amount(), amount(), amount());
                    if dice.roll(5) == 0 {
                        description.stage_in = vec![StageIn {
                            from: "https://a.example/x".into(),
                            to: "x".into(),
                            bytes: None,
                            sha256: None,
                        }];
                    }
                    site.submit(last, description);
                }
                4 => {
                    let staging = site.are(|stage| matches!(stage, Stage::StagingIn(_)));
                    if let Some(id) = pick(&mut dice, staging) {
                        site.staged(id);
                    }
                }
                5 => {
                    let all = site.are(|stage| !matches!(stage, Stage::Ended(_)));
                    if let Some(id) = pick(&mut dice, all) {
                        site.cancel(id);
                    }
                }
                end => {
                    let outcome = match end {
                        6 => Outcome::Exited { status: 0 },
                        _ => Outcome::not_begun("no trace".into()),
                    };
                    let running = site.run();
                    if let Some(id) = pick(&mut dice, running) {
                        site.end(id, outcome);
                    }
                }
            }
            site.check();
            waited += site.wait().len() as u64;
        }
        for id in site.are(|stage| matches!(stage, Stage::StagingIn(_))) {
            site.staged(id);
        }
        // Nobody comes any more: in as many steps as there are jobs all have been.
        for _ in 0..=last {
            for id in site.run() {
                site.end(id, Outcome::Exited { status: 0 });
                site.check();
            }
        }
        assert_eq!(site.wait(), [], "seed {seed}");
        overtook += site.begun.windows(2).filter(|two| two[0] > two[1]).count() as u64;
    }
    assert!(
        waited > HISTORIES && overtook > HISTORIES / 10,
        "{waited} {overtook}"
    );
}

/// A stream of small jobs that never ends does not starve a big one: from when it waits, nobody who wants what it lacks
/// begins before it; those who want something else do.
#[test]
fn who_comes_later_takes_nothing_that_an_earlier_one_waits_for() {
    let mut site = Site::new();
    let small = |site: &mut Site, id| site.submit(id, reserving(3, 0, 0));
    let mut running = vec![small(&mut site, 1), small(&mut site, 2)];
    let big = site.submit(3, reserving(10, 5, 0));
    assert_eq!(site.wait(), [big]);
    let (mut id, mut others) = (3, 0);
    while site.wait().contains(&big) {
        id += 1;
        let later = small(&mut site, id);
        assert!(site.wait().contains(&later), "it would fit, and waits");
        id += 1;
        // Five of the network are kept for the big one, the other five are free.
        let other = site.submit(id, reserving(0, 5, 1));
        assert!(site.run().contains(&other));
        site.end(other, Outcome::Exited { status: 0 });
        others += 1;
        site.end(running.pop().unwrap(), Outcome::Exited { status: 0 });
        site.check();
    }
    assert_eq!(others, 2);
    assert_eq!(site.run(), [big]);
    site.end(big, Outcome::Exited { status: 0 });
    assert_eq!(site.run().len(), 2, "those that came later go on");
}

#[test]
fn why_a_job_waits_is_told_in_numbers() {
    let mut site = Site::new();
    site.submit(1, reserving(4, 0, 0));
    site.submit(2, reserving(4, 0, 0));
    let check = |site: &Site, id, expected: Option<&str>| {
        assert_eq!(site.ledger.waits(JobId(id)).as_deref(), expected);
    };
    site.submit(3, reserving(5, 0, 0));
    site.submit(4, reserving(1, 1, 0));
    check(&site, 1, None);
    let lacks = "5 MiB of memory are reserved, 2 MiB of 10 MiB are left, 2 jobs hold the rest";
    check(&site, 3, Some(lacks));
    let behind = "1 MiB of memory are reserved, 2 MiB of 10 MiB are left, 2 jobs hold the rest; 1 that came before it wait too";
    check(&site, 4, Some(behind));
    // The operator gave less at the next start: what never fits stands in nobody's way.
    let mut less = Ledger::new(Capacity::new(&Limits {
        memory_mib: Some(4),
        network_kbyte_s: Some(1),
        ..Limits::default()
    }));
    for id in [3, 4] {
        less.step(None, &site.jobs[&JobId(id)]);
    }
    assert_eq!(less.next(), [JobId(4)]);
    let words = less.waits(JobId(3)).unwrap();
    assert!(words.contains("the site has only 4 MiB in all"), "{words}");
}

#[test]
fn what_can_never_be_left_is_refused_with_its_field_and_what_to_try() {
    let check = |resources: Resources, count: u32, expected: &[&str]| {
        let description = JobDescription {
            resources,
            count,
            ..JobDescription::new("/bin/true", &[])
        };
        let refusal = capacity().admits(&description).unwrap_err();
        assert_eq!(refusal.code, "never_fits");
        for words in expected {
            assert!(refusal.message.contains(words), "{}", refusal.message);
        }
        Capacity::UNBOUNDED.admits(&description).unwrap();
    };
    let none = Resources::default;
    check(
        Resources {
            memory_mib: Some(11),
            ..none()
        },
        1,
        &[
            "resources.memory_mib: ",
            "11 MiB",
            "has 10 MiB in all",
            "at most",
        ],
    );
    check(
        Resources {
            disk_kbyte_s: Some(1),
            ..none()
        },
        1,
        &[
            "resources.disk_kbyte_s: ",
            "no disk to reserve",
            "[capacity]",
        ],
    );
    check(
        Resources {
            cpus: Some(2),
            ..none()
        },
        3,
        &[
            "resources.cpus: ",
            "no processors to reserve",
            "cpu_percent",
        ],
    );
    let two = JobDescription {
        resources: Resources {
            cpus: Some(2),
            ..none()
        },
        count: 3,
        ..JobDescription::new("/bin/true", &[])
    };
    assert_eq!(Amounts::of(&two).limits().cpu_percent, Some(600));
}

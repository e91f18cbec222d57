//! Seeded histories of a site: kills, power cuts, a full disk, lost, repeated and late words of runners, impatient clients,
//! jumping clocks. The site of the simulator is the real meaning (`respond`, `apply`, `decide`) on a simulated log.
//!
//! Whatever happens: what was acknowledged is not lost, no guest runs twice, no two attempts of a job live, every job ends,
//! and the state is what replay makes. `KUMIKO_SEED=n` runs history n alone and tells it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clients;
mod reached;
mod staging;

use kumiko_job::attempt::{AttemptReport, Outcome};
use kumiko_job::contract::Caller;
use kumiko_job::decide::{Action, decide, new_actions};
use kumiko_job::description::JobDescription;
use kumiko_job::event::{Event, Record};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_job::respond::{self, Here, MAX_ATTEMPTS, OutputBytes};
use kumiko_job::staging::Item;
use kumiko_job::state::{Job, Stage, apply};
use reached::Reached;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

const HISTORIES: u64 = 100_000;
/// Random steps of a history, before everything is allowed to come to its end.
const STEPS: u64 = 60;
const JOBS: u64 = 4;
/// This client's job has a credential, and may run again.
const TRUSTED: usize = 1;
/// The client whose job needs somebody to be attached.
const ATTENDED: usize = 0;

/// The client whose job has files to move.
const STAGED: usize = 2;

/// The client whose job is held until it is released.
const HELD: usize = 3;

/// SplitMix64 (Steele, Lea, Flood 2014): small, and each seed a stream of its own.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn index(&mut self, length: usize) -> usize {
        self.roll(length as u64) as usize
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// An event in the log, and the transaction that brought it.
struct Line {
    job: JobId,
    record: Record,
    commit: u64,
}

/// The log: what is written survives a kill, what is synced a power cut.
#[derive(Default)]
struct Disk {
    records: Vec<Line>,
    commits: u64,
    synced: usize,
    full: bool,
    last_job: u64,
}

/// One process of the site.
#[derive(Default)]
struct Site {
    jobs: BTreeMap<JobId, Arc<Job>>,
    /// Actions that are still to be done, and whether they follow from an event of this very process.
    todo: VecDeque<(Action, bool)>,
    /// Reports that could not be recorded.
    backlog: Vec<(AttemptId, AttemptReport)>,
}

/// What is left of an attempt on its host.
#[derive(Clone, Debug, PartialEq)]
enum Trace {
    /// Forked, not yet in possession of its spool.
    OnItsWay,
    Fenced,
    /// Ready, and not released.
    Held {
        cancelled: bool,
    },
    Alive {
        cancelled: bool,
    },
    Over(Outcome),
}

#[derive(Default)]
struct Client {
    key: String,
    acknowledged: Option<JobId>,
    cancel_asked: bool,
    release_asked: bool,
    cancel_acknowledged: bool,
    remove_asked: bool,
    /// The event of the last renewal that was promised.
    renewed: u64,
}

struct World {
    dice: Dice,
    disk: Disk,
    site: Option<Site>,
    traces: BTreeMap<AttemptId, Trace>,
    /// Attempts that were started to be held.
    to_hold: BTreeSet<AttemptId>,
    /// Reports under way to the present process of the site.
    mail: Vec<(AttemptId, AttemptReport)>,
    clients: Vec<Client>,
    /// How often a guest of this job began: the oracle that no part of the site can see.
    began: BTreeMap<JobId, u32>,
    /// Jobs whose guest finds a credential.
    given: BTreeSet<JobId>,
    /// Files that were moved.
    moved: BTreeSet<(JobId, Item)>,
    boots: u64,
    now_ms: u64,
    description: Arc<JobDescription>,
    caller: Caller,
    tell: bool,
}

impl World {
    fn new(seed: u64, tell: bool) -> World {
        let client = |number| Client {
            key: format!("key {number}"),
            ..Client::default()
        };
        World {
            dice: Dice(seed),
            disk: Disk::default(),
            site: Some(Site::default()),
            traces: BTreeMap::new(),
            to_hold: BTreeSet::new(),
            mail: Vec::new(),
            clients: (0..JOBS).map(client).collect(),
            began: BTreeMap::new(),
            given: BTreeSet::new(),
            moved: BTreeSet::new(),
            boots: 0,
            now_ms: 1_000_000,
            description: Arc::new(JobDescription::new("/bin/true", &[])),
            caller: Caller {
                subject: "/CN=A".into(),
                account: "a".into(),
            },
            tell,
        }
    }

    fn say(&self, text: impl Fn() -> String) {
        if self.tell {
            eprintln!("{}", text());
        }
    }

    fn up(&mut self) -> &mut Site {
        self.site.as_mut().unwrap()
    }

    /// One transaction: all events or none. Says whether it was written.
    fn record(&mut self, id: JobId, events: Vec<Event>) -> bool {
        if events.is_empty() {
            return true;
        }
        if self.disk.full {
            return false;
        }
        let promise = events.iter().any(Event::is_promise);
        self.disk.commits += 1;
        let commit = self.disk.commits;
        for event in events {
            self.say(|| format!("  {id}: {event:?}"));
            let at_ms = self.now_ms;
            let site = self.up();
            let before = site.jobs.get(&id).cloned();
            let number = before.as_ref().map_or(0, |job| job.last_event) + 1;
            let record = Record {
                number,
                at_ms,
                event,
            };
            let after = Arc::new(apply(id, before.as_deref(), &record).unwrap());
            let actions = new_actions(before.as_deref(), &after);
            site.todo
                .extend(actions.into_iter().map(|action| (action, true)));
            site.jobs.insert(id, after);
            let job = id;
            self.disk.records.push(Line {
                job,
                record,
                commit,
            });
            self.disk.last_job = self.disk.last_job.max(id.0);
        }
        if promise {
            self.disk.synced = self.disk.records.len();
        }
        true
    }

    /// A credential is put into the directory of a job that lives.
    fn place(&mut self, id: JobId) {
        let job = self.up().jobs.get(&id).cloned();
        if job.is_some_and(|job| job.is_live() && job.credential.is_some()) {
            self.given.insert(id);
        }
    }

    fn remind(&mut self, id: JobId, number: u64) {
        if let Some(job) = self.up().jobs.get(&id).cloned() {
            self.record(id, respond::credential_ending(&job, number));
        }
    }

    /// Does one of the waiting actions; tasks overtake each other, but a command waits for its attempt.
    fn act(&mut self) {
        let waiting = self.up().todo.len();
        if waiting == 0 {
            return;
        }
        let index = self.dice.index(waiting);
        let disk_full = self.disk.full;
        let site = self.up();
        let (action, fresh) = site.todo[index];
        let too_early = match action {
            Action::Cancel { attempt, .. }
            | Action::Requeue(attempt)
            | Action::Release(attempt) => {
                let run = Action::Run(attempt);
                site.todo.iter().any(|(other, _)| *other == run)
            }
            Action::Erase { .. } | Action::Remind { .. } => disk_full,
            _ => false,
        };
        if too_early {
            return;
        }
        site.todo.remove(index);
        self.say(|| format!("does {action:?}, fresh {fresh}"));
        match action {
            Action::Run(attempt) if fresh => {
                self.place(attempt.job);
                let job = self.up().jobs.get(&attempt.job).cloned();
                if job.is_some_and(|job| job.hold_s().is_some() && !job.hold.released) {
                    self.to_hold.insert(attempt);
                }
                // One that was planned before, and forgotten in a power cut, is there.
                match self.traces.contains_key(&attempt) {
                    true => self.adopt(attempt),
                    false => drop(self.traces.insert(attempt, Trace::OnItsWay)),
                }
            }
            Action::Run(attempt) => self.adopt(attempt),
            Action::Cancel { attempt, .. } | Action::Requeue(attempt) => match self
                .traces
                .get_mut(&attempt)
            {
                Some(Trace::Alive { cancelled } | Trace::Held { cancelled }) => *cancelled = true,
                Some(trace @ Trace::OnItsWay) => {
                    *trace = Trace::Over(Outcome::Cancelled);
                    self.report(attempt, AttemptReport::Ended(Outcome::Cancelled));
                }
                _ => {}
            },
            Action::Release(attempt) => {
                if let Some(&Trace::Held { cancelled }) = self.traces.get(&attempt) {
                    self.begin(attempt);
                    self.traces.insert(attempt, Trace::Alive { cancelled });
                    self.report(attempt, started());
                }
            }
            Action::Attend { job, after_s } => self.leave(job, after_s, action),
            Action::Place { job, .. } => self.place(job),
            Action::Remind { job, number } => self.remind(job, number),
            Action::StageIn { job } | Action::Stream { job, .. } | Action::StageOut { job } => {
                self.stage(job, action);
            }
            Action::Discard { job } => drop(self.given.remove(&job)),
            Action::Settle(_) | Action::Unstage { .. } | Action::Limit { .. } => {}
            Action::Erase { job, last_epoch } => self.erase(job, last_epoch),
        }
    }

    /// The countdown of a job that needs somebody: there always was one, or it is over.
    fn leave(&mut self, id: JobId, after_s: u64, countdown: Action) {
        let Some(job) = self.up().jobs.get(&id).cloned() else {
            return;
        };
        if !self.dice.one_in(2) {
            // Somebody is there to the end; but what is held is held on for a while only.
            let held = job.is_live() && job.needs_somebody_s() == job.hold_s();
            let again = held.then_some((countdown, false));
            return self.up().todo.extend(again);
        }
        let events = respond::unattended(&job, after_s, self.dice.roll(3));
        if !self.record(id, events) {
            self.up().todo.push_back((countdown, false));
        }
    }

    fn erase(&mut self, job: JobId, last_epoch: u32) {
        for epoch in 1..=last_epoch {
            self.traces.remove(&AttemptId { job, epoch });
        }
        let before = self.disk.records[..self.disk.synced].iter();
        self.disk.synced = before.filter(|line| line.job != job).count();
        self.disk.records.retain(|line| line.job != job);
        self.up().jobs.remove(&job);
    }

    fn adopt(&mut self, attempt: AttemptId) {
        match self.traces.get(&attempt).cloned() {
            None | Some(Trace::OnItsWay | Trace::Fenced) => {
                self.traces.insert(attempt, Trace::Fenced);
                let outcome = Outcome::not_begun("no trace".into());
                self.report(attempt, AttemptReport::Ended(outcome));
            }
            Some(Trace::Held { .. }) => self.report(attempt, AttemptReport::Held),
            Some(Trace::Alive { .. }) => self.report(attempt, started()),
            Some(Trace::Over(outcome)) => self.report(attempt, AttemptReport::Ended(outcome)),
        }
    }

    /// A report sets out, maybe twice, if there is anybody to hear it.
    fn report(&mut self, attempt: AttemptId, report: AttemptReport) {
        if self.site.is_some() {
            if self.dice.one_in(8) {
                self.mail.push((attempt, report.clone()));
            }
            self.mail.push((attempt, report));
        }
    }

    /// Words of one attempt arrive in order, those of several in any, and some of them again.
    fn deliver(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let attempt = self.mail[self.dice.index(self.mail.len())].0;
        let first = self.mail.iter().position(|(of, _)| *of == attempt).unwrap();
        let (_, report) = if self.dice.one_in(10) {
            self.mail[first].clone()
        } else {
            self.mail.remove(first)
        };
        self.hear(attempt, report);
    }

    fn hear(&mut self, attempt: AttemptId, report: AttemptReport) {
        self.say(|| format!("hears {attempt}: {report:?}"));
        let Some(job) = self.up().jobs.get(&attempt.job).cloned() else {
            return;
        };
        let boot = self.boots.to_string();
        let here = Here {
            batch: "simulated",
            boot: &boot,
            has_room: true,
        };
        let bytes = OutputBytes::default();
        let events = respond::report(&job, attempt.epoch, report.clone(), bytes, here);
        if !self.record(attempt.job, events) {
            self.up().backlog.push((attempt, report));
        }
    }

    fn retry_backlog(&mut self) {
        for (attempt, report) in std::mem::take(&mut self.up().backlog) {
            self.hear(attempt, report);
        }
    }

    /// The link to a runner is cut and made again: what was under way is lost, what counts is said again.
    fn cut(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let attempt = self.mail[self.dice.index(self.mail.len())].0;
        self.say(|| format!("the link to {attempt} is cut"));
        self.mail.retain(|(of, _)| *of != attempt);
        self.up().todo.push_back((Action::Run(attempt), false));
    }

    /// One of the runners gets on, with or without a site.
    fn progress(&mut self) {
        if self.traces.is_empty() {
            return;
        }
        let index = self.dice.index(self.traces.len());
        let fate = self.dice.roll(8);
        let (&attempt, trace) = self.traces.iter().nth(index).unwrap();
        let next = match trace {
            Trace::OnItsWay if fate == 0 => Trace::Over(Outcome::NeverStarted {
                code: "no_such_program".into(),
                message: "no such program".into(),
            }),
            Trace::OnItsWay if self.to_hold.contains(&attempt) => Trace::Held { cancelled: false },
            Trace::OnItsWay => Trace::Alive { cancelled: false },
            Trace::Held { .. } if fate == 0 => Trace::Over(Outcome::Lost {
                message: "killed".into(),
            }),
            Trace::Held { cancelled: true } => Trace::Over(Outcome::Cancelled),
            Trace::Held { cancelled: false } => return,
            Trace::Alive { .. } if fate == 0 => Trace::Over(Outcome::Lost {
                message: "killed".into(),
            }),
            Trace::Alive { .. } if fate == 1 => Trace::Over(Outcome::TimeLimit),
            Trace::Alive { cancelled: true } => Trace::Over(Outcome::Cancelled),
            Trace::Alive { cancelled: false } => Trace::Over(Outcome::Exited {
                status: i32::from(fate == 2),
            }),
            Trace::Fenced | Trace::Over(_) => return,
        };
        self.say(|| format!("runner {attempt}: {next:?}"));
        match &next {
            Trace::Over(outcome) => self.report(attempt, AttemptReport::Ended(outcome.clone())),
            Trace::Held { .. } => self.report(attempt, AttemptReport::Held),
            _ => {
                self.begin(attempt);
                self.report(attempt, started());
            }
        }
        self.traces.insert(attempt, next);
    }

    fn begin(&mut self, attempt: AttemptId) {
        let began = self.began.entry(attempt.job).or_default();
        *began += 1;
        let began = *began;
        if let Some(job) = self.replay().get(&attempt.job) {
            // What a power cut has the site forget of one that may run again, it does again (J38).
            let most = match job.description.rerun {
                true => MAX_ATTEMPTS + u32::try_from(self.boots).unwrap(),
                false => 1,
            };
            assert!(began <= most, "the guest of job {} runs twice", attempt.job);
            self.check_files(job);
            let asked = self.clients[HELD].release_asked;
            assert!(asked || job.hold_s().is_none(), "it was not released");
        }
        let lives = |(id, trace): (&AttemptId, &Trace)| {
            id.job == attempt.job && matches!(trace, Trace::Alive { .. })
        };
        assert!(!self.traces.iter().any(lives), "two attempts live");
    }

    fn kill(&mut self) {
        self.say(|| "the site is killed".into());
        if let Some(dead) = self.site.take() {
            self.mail.clear();
            assert_eq!(dead.jobs, self.replay(), "replay makes another state");
        }
    }

    fn power_cut(&mut self) {
        self.say(|| "the power is cut".into());
        self.site = None;
        self.mail.clear();
        self.boots += 1;
        let unsynced = self.disk.records.len() - self.disk.synced;
        let mut kept = self.disk.synced + self.dice.index(unsynced + 1);
        // A transaction stays whole or goes whole.
        let commit = |index: usize| self.disk.records.get(index).map(|line| line.commit);
        while kept > self.disk.synced && commit(kept) == commit(kept - 1) {
            kept -= 1;
        }
        self.disk.records.truncate(kept);
        self.disk.synced = kept;
        // What runners wrote may be gone, even that they ever were: an end is synced, but not the way to it.
        let dice = &mut self.dice;
        self.traces.retain(|_, _| !dice.one_in(2));
        for trace in self.traces.values_mut() {
            match trace {
                Trace::Alive { .. } | Trace::Held { .. } => {
                    *trace = Trace::Over(Outcome::Lost {
                        message: "power cut".into(),
                    });
                }
                Trace::OnItsWay => *trace = Trace::Fenced,
                Trace::Fenced | Trace::Over(_) => {}
            }
        }
    }

    fn replay(&self) -> BTreeMap<JobId, Arc<Job>> {
        let mut jobs: BTreeMap<JobId, Arc<Job>> = BTreeMap::new();
        for Line { job, record, .. } in &self.disk.records {
            let after = apply(*job, jobs.get(job).map(Arc::as_ref), record).unwrap();
            jobs.insert(*job, Arc::new(after));
        }
        jobs
    }

    fn start(&mut self) {
        if self.site.is_some() {
            return;
        }
        self.say(|| "the site starts".into());
        let jobs = self.replay();
        let actions = jobs.values().flat_map(|job| decide(job));
        self.site = Some(Site {
            todo: actions.map(|action| (action, false)).collect(),
            jobs,
            backlog: Vec::new(),
        });
        self.check_promises();
    }

    fn check_promises(&mut self) {
        for index in 0..self.clients.len() {
            let job = self.job_of(index);
            let client = &self.clients[index];
            match (client.acknowledged, job) {
                (None, _) => {}
                (Some(id), None) => assert!(client.remove_asked, "job {id} is lost"),
                (Some(id), Some(job)) => {
                    assert!(
                        !client.cancel_acknowledged
                            || job.cancel_grace_ms.is_some()
                            || !job.is_live(),
                        "the cancel of job {id} is lost"
                    );
                    let given = job.credential.as_ref().map_or(0, |given| given.number);
                    assert!(given >= client.renewed, "a renewal of job {id} is lost");
                }
            }
        }
    }

    fn step(&mut self) {
        self.now_ms += self.dice.roll(10);
        let client = self.dice.index(self.clients.len());
        let choice = self.dice.roll(40);
        if choice >= 34 {
            return self.progress();
        }
        if self.site.is_none() {
            return match choice {
                0..=11 => self.start(),
                12 => self.power_cut(),
                _ => {}
            };
        }
        match choice {
            0 => self.kill(),
            1 if self.dice.one_in(3) => self.power_cut(),
            1 => self.now_ms = self.dice.roll(2_000_000),
            2 => self.disk.full = self.dice.one_in(2),
            3 => self.cancel(client),
            4 => self.remove(client),
            23 => self.renew(client),
            24 => self.redirect(client),
            25 => self.release(client),
            26 | 27 => self.drain_host_of(TRUSTED),
            5 => self.cut(),
            6 => self.retry_backlog(),
            7..=11 if !self.clients[client].remove_asked => self.submit(client),
            7..=22 => self.act(),
            _ => self.deliver(),
        }
    }

    /// No more faults: everything comes to its end.
    fn come_to_an_end(&mut self) {
        self.disk.full = false;
        self.start();
        for index in 0..self.clients.len() {
            while self.clients[index].acknowledged.is_none() {
                self.submit(index);
            }
        }
        for _ in 0..10_000 {
            let site = self.up();
            let waits = !site.todo.is_empty() || !site.backlog.is_empty();
            let runs = |trace: &Trace| {
                matches!(
                    trace,
                    Trace::OnItsWay | Trace::Held { .. } | Trace::Alive { .. }
                )
            };
            if !waits && self.mail.is_empty() && !self.traces.values().any(runs) {
                return;
            }
            self.retry_backlog();
            self.act();
            self.progress();
            self.deliver();
        }
        panic!("it never comes to rest");
    }

    fn was_left(&self, id: JobId) -> bool {
        let mut of_job = self.disk.records.iter().filter(|line| line.job == id);
        of_job.any(|line| matches!(line.record.event, Event::Unattended { .. }))
    }

    fn check_end(&mut self) {
        self.check_promises();
        let replayed = self.replay();
        assert_eq!(self.up().jobs, replayed);
        for index in 0..self.clients.len() {
            let Some(job) = self.job_of(index) else {
                continue;
            };
            let Stage::Ended(end) = &job.stage else {
                panic!("job {} never ends: {:?}", job.id, job.stage);
            };
            assert!(!self.given.contains(&job.id), "a credential stays");
            self.check_sent(&job, &end.outcome);
            let began = self.began.get(&job.id).copied().unwrap_or(0);
            match end.outcome {
                Outcome::Exited { .. } | Outcome::TimeLimit if index == TRUSTED => {
                    assert!(began >= 1);
                }
                Outcome::Exited { .. } | Outcome::TimeLimit => assert_eq!(began, 1),
                Outcome::Cancelled => {
                    let left = self.was_left(job.id);
                    let may_be_left = index == ATTENDED || index == HELD;
                    assert!(self.clients[index].cancel_asked || left && may_be_left);
                }
                Outcome::NeverStarted { .. } => assert!(began == 0 || index == TRUSTED),
                _ => {}
            }
        }
    }
}

fn started() -> AttemptReport {
    AttemptReport::Started {
        pid: 1,
        mechanism: "simulated".into(),
        not_enforced: Vec::new(),
        why: Vec::new(),
    }
}

fn history(seed: u64, tell: bool, reached: &mut Reached) {
    let mut world = World::new(seed, tell);
    for _ in 0..STEPS {
        world.step();
    }
    world.come_to_an_end();
    world.check_end();
    reached.count(&mut world);
}

/// Says which history went wrong, whatever it was.
struct Naming(u64);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("history {0} went wrong: KUMIKO_SEED={0} tells it", self.0);
        }
    }
}

#[test]
fn whatever_happens_nothing_acknowledged_is_lost_nothing_runs_twice_and_every_job_ends() {
    let mut reached = Reached::default();
    let seed = std::env::var("KUMIKO_SEED").ok();
    if let Some(seed) = seed.and_then(|seed| seed.parse().ok()) {
        return history(seed, true, &mut reached);
    }
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let share = |thread: u64| {
        let mut reached = Reached::default();
        for seed in (thread..HISTORIES).step_by(threads as usize) {
            let _naming = Naming(seed);
            history(seed, false, &mut reached);
        }
        reached
    };
    std::thread::scope(|scope| {
        let shares: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || share(thread)))
            .collect();
        for share in shares {
            reached.add(&share.join().unwrap());
        }
    });
    assert!(reached.least() > HISTORIES / 100, "{reached:?}");
}

//! What jobs reserve of a host, and whether it is left (spec/policy, P70 to P76). A function of the states of the jobs, so
//! that a site that was killed knows it again. Not here: what a host has (who asks the machine), recording (manager).

use crate::contract::Refusal;
use crate::description::JobDescription;
use crate::id::JobId;
use crate::state::{Job, Stage};
use kumiko_policy::{Limited, Limits};
use std::collections::BTreeMap;

/// What can be reserved, in the order of [`Amounts`].
pub const RESERVABLE: [Limited; 5] = [
    Limited::Cpu,
    Limited::Memory,
    Limited::Network,
    Limited::Disk,
    Limited::Processes,
];

/// How much of each of [`RESERVABLE`], in the units of [`Limits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([u64; RESERVABLE.len()]);

/// How much of each there is; None: it cannot be reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity([Option<u64>; RESERVABLE.len()]);

impl Amounts {
    /// What a job reserves: it is set aside for it, and the most that it may have.
    pub fn of(description: &JobDescription) -> Amounts {
        let asked = &description.resources;
        let instances = u64::from(description.count);
        let processors = asked.cpus.map(|cpus| u64::from(cpus) * 100 * instances);
        let amounts = [
            asked.cpu_percent.or(processors),
            asked.memory_mib,
            asked.network_kbyte_s,
            asked.disk_kbyte_s,
            asked.processes,
        ];
        Amounts(amounts.map(Option::unwrap_or_default))
    }

    pub fn get(&self, of: Limited) -> u64 {
        self.each()
            .find(|(one, _)| *one == of)
            .map_or(0, |(_, n)| n)
    }

    /// What is not nothing.
    pub fn each(&self) -> impl Iterator<Item = (Limited, u64)> {
        let all = RESERVABLE.into_iter().zip(self.0);
        all.filter(|(_, amount)| *amount > 0)
    }

    pub fn is_nothing(&self) -> bool {
        self.0 == [0; RESERVABLE.len()]
    }

    /// As limits: no job has more than it reserves.
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        for (of, amount) in self.each() {
            limits.set(of, Some(amount.min(of.most())));
        }
        limits
    }

    fn covers(&self, other: &Amounts) -> bool {
        self.0
            .iter()
            .zip(other.0)
            .all(|(have, wanted)| *have >= wanted)
    }

    fn with(&self, other: &Amounts, of_two: impl Fn(u64, u64) -> u64) -> Amounts {
        let mut amounts = self.0;
        for (amount, other) in amounts.iter_mut().zip(other.0) {
            *amount = of_two(*amount, other);
        }
        Amounts(amounts)
    }

    fn less(&self, other: &Amounts) -> Amounts {
        self.with(other, u64::saturating_sub)
    }
}

impl Capacity {
    /// Where somebody else keeps account: an engine.
    pub const UNBOUNDED: Capacity = Capacity([Some(u64::MAX); RESERVABLE.len()]);

    /// Of limits that are none of [`RESERVABLE`] nothing is taken.
    pub fn new(limits: &Limits) -> Capacity {
        Capacity(RESERVABLE.map(|of| limits.get(of)))
    }

    pub fn get(&self, of: Limited) -> Option<u64> {
        let mut all = RESERVABLE.into_iter().zip(self.0);
        all.find(|(one, _)| *one == of).and_then(|(_, n)| n)
    }

    fn amounts(&self) -> Amounts {
        Amounts(self.0.map(Option::unwrap_or_default))
    }

    /// Refuses what can never be left here, with its field.
    pub fn admits(&self, description: &JobDescription) -> Result<(), Refusal> {
        for (of, asked) in Amounts::of(description).each() {
            let field = field(of, description);
            match self.get(of) {
                Some(most) if asked <= most => {}
                Some(most) => {
                    let message = format!(
                        "{field}: the job reserves {}, and the site has {} in all: ask for at most that",
                        words(of, asked),
                        number(of, most)
                    );
                    return Err(Refusal::new("never_fits", message));
                }
                None => {
                    let message = format!(
                        "{field}: this site has no {} to reserve: leave it out, or ask its operator to set {} in [capacity] \
                         of site.toml",
                        name(of),
                        of.key()
                    );
                    return Err(Refusal::new("never_fits", message));
                }
            }
        }
        Ok(())
    }
}

fn field(of: Limited, description: &JobDescription) -> String {
    match of {
        Limited::Cpu if description.resources.cpu_percent.is_none() => "resources.cpus".to_owned(),
        of => format!("resources.{}", of.key()),
    }
}

fn name(of: Limited) -> &'static str {
    match of {
        Limited::Cpu => "processors",
        Limited::Memory => "memory",
        Limited::Network => "network",
        Limited::Disk => "disk",
        _ => "processes",
    }
}

fn number(of: Limited, amount: u64) -> String {
    match of {
        Limited::Cpu => format!("{amount} %"),
        Limited::Memory => format!("{amount} MiB"),
        Limited::Network | Limited::Disk => format!("{amount} KByte/s"),
        _ => amount.to_string(),
    }
}

fn words(of: Limited, amount: u64) -> String {
    match of {
        Limited::Cpu => format!("{amount} % of one processor"),
        Limited::Processes => format!("{amount} processes"),
        of => format!("{} of {}", number(of, amount), name(of)),
    }
}

/// What is held and who waits: the account that admission is decided by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    capacity: Capacity,
    held: Amounts,
    /// How many jobs hold something of each.
    holders: Amounts,
    /// In the order in which they were submitted.
    waiting: BTreeMap<JobId, Amounts>,
}

/// A job's part in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    Waits,
    Holds,
}

fn part(job: &Job) -> Part {
    match &job.stage {
        Stage::Waiting { last_epoch: 0 } => Part::Waits,
        // Before another attempt it keeps what it had.
        Stage::Waiting { .. } | Stage::Planned(_) | Stage::Running(..) => Part::Holds,
        Stage::StagingIn(_) | Stage::StagingOut(..) | Stage::Ended(_) | Stage::Removed { .. } => {
            Part::Nothing
        }
    }
}

impl Ledger {
    pub fn new(capacity: Capacity) -> Ledger {
        Ledger {
            capacity,
            held: Amounts::default(),
            holders: Amounts::default(),
            waiting: BTreeMap::new(),
        }
    }

    /// A job has gone from one state to the next.
    pub fn step(&mut self, before: Option<&Job>, after: &Job) {
        let (was, is) = (before.map_or(Part::Nothing, part), part(after));
        if was == is {
            return;
        }
        let amounts = Amounts::of(&after.description);
        let one = Amounts(amounts.0.map(|amount| u64::from(amount > 0)));
        match was {
            Part::Nothing => {}
            Part::Waits => drop(self.waiting.remove(&after.id)),
            Part::Holds => {
                self.held = self.held.less(&amounts);
                self.holders = self.holders.less(&one);
            }
        }
        match is {
            Part::Nothing => {}
            Part::Waits => drop(self.waiting.insert(after.id, amounts)),
            Part::Holds => {
                self.held = self.held.with(&amounts, u64::saturating_add);
                self.holders = self.holders.with(&one, u64::saturating_add);
            }
        }
    }

    pub fn held(&self) -> Amounts {
        self.held
    }

    /// How many jobs wait.
    pub fn queued(&self) -> usize {
        self.waiting.len()
    }

    /// What nobody holds. Less than nothing, which a capacity that was lowered may lead to, is nothing.
    pub fn left(&self) -> Capacity {
        let mut left = self.capacity;
        for (left, held) in left.0.iter_mut().zip(self.held.0) {
            *left = left.map(|have| have.saturating_sub(held));
        }
        left
    }

    /// Is what this job reserves left, after all that came before it have what they wait for?
    pub fn has_room(&self, id: JobId, description: &JobDescription) -> bool {
        let wanted = Amounts::of(description);
        wanted.is_nothing() || self.left_for(id).covers(&wanted)
    }

    fn left_for(&self, id: JobId) -> Amounts {
        let before = self.waiting.range(..id);
        before.fold(self.left().amounts(), |left, (_, wanted)| {
            left.less(&self.kept_for(wanted))
        })
    }

    /// What is kept for one that waits: nothing, if it would never fit (the capacity was lowered since it came).
    fn kept_for(&self, wanted: &Amounts) -> Amounts {
        match self.capacity.amounts().covers(wanted) {
            true => *wanted,
            false => Amounts::default(),
        }
    }

    /// Those that wait and may begin now. Each takes what is left after all before it have what they wait for, so that
    /// nobody who comes later can make an earlier one wait longer (P73).
    pub fn next(&self) -> Vec<JobId> {
        let mut left = self.left().amounts();
        let mut next = Vec::new();
        for (id, wanted) in &self.waiting {
            if left.covers(wanted) {
                next.push(*id);
            }
            left = left.less(&self.kept_for(wanted));
            if left.is_nothing() {
                break;
            }
        }
        next
    }

    /// What a waiting job waits for, in words; None: it does not wait.
    pub fn waits(&self, id: JobId) -> Option<String> {
        let wanted = self.waiting.get(&id)?;
        let left = self.left();
        let ahead = self.left_for(id);
        let before = self.waiting.range(..id).count();
        let missing = wanted.each().filter(|(of, n)| ahead.get(*of) < *n);
        let told = missing.map(|(of, wanted)| {
            let (have, all) = (left.get(of).unwrap_or(0), self.capacity.get(of).unwrap_or(0));
            if wanted > all {
                return format!(
                    "{} are reserved, and the site has only {} in all since its operator changed that",
                    words(of, wanted),
                    number(of, all)
                );
            }
            format!(
                "{} are reserved, {} of {} are left, {} jobs hold the rest",
                words(of, wanted),
                number(of, have),
                number(of, all),
                self.holders.get(of)
            )
        });
        let mut told: Vec<String> = told.collect();
        if before > 0 {
            told.push(format!("{before} that came before it wait too"));
        }
        Some(told.join("; "))
    }
}

//! Which attempt goes to which pilot, when another pilot is asked for, when one goes (spec/jobs/pilots.md, PL20 to PL35).
//! Pure: it is told what happens, with the time, and says what is to be done.

pub use super::pilot::{Began, Need, Number};
use super::pilot::{End, Pilot, State};
use crate::engine::seen::{Seen, Time, Verdict};
use kumiko_job::attempt::EngineCause;
use kumiko_job::census::PilotCensus;
use kumiko_job::id::AttemptId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An idle pilot above the least number goes after this: long enough for who looks at a result and runs the next one.
const IDLE_MS: u64 = 60_000;
/// After a pilot that did not come up the next is asked for later: by this, doubled with each one.
const BACK_OFF_MS: u64 = 2_000;
/// And no later than this.
const MOST_BACK_OFF_MS: u64 = 300_000;
/// How long it is told of an attempt that ended what became of its pilot: longer than its end is doubted (spec/jobs E13).
const TOLD_MS: u64 = 120_000;
/// So many pilots in a row that did not come up: attempts are handed to the engine themselves meanwhile, which then says
/// what is wrong with them.
const HOPELESS: u32 = 3;

/// How many pilots there may be, and how large each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub least: u32,
    pub most: u32,
    /// Processors of each.
    pub cpus: u32,
    /// How long each may be there; None: as long as its engine says.
    pub time_ms: Option<u64>,
}

/// What an engine says of a pilot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub seen: Seen,
    pub time: Option<Time>,
    /// By each name that the engine has for its host.
    pub hosts: Vec<String>,
    /// Its host, if that is drained.
    pub leaves: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Do {
    /// Hand the engine a pilot.
    Ask(Number),
    /// Have it start the attempt.
    Hand(Number, AttemptId),
    /// Have it take no more.
    Retire(Number),
    /// Hand the attempt to the engine itself.
    Direct(AttemptId),
    /// It is over, and nothing refers to its place any more.
    Remove(Number),
    /// Ask the engine how long it may be there.
    Look,
}

/// Of an attempt that began: its runner ended, or its pilot is away, or came back without it.
#[derive(Clone, Copy, Debug)]
struct Left {
    pilot: Number,
    began: Option<Began>,
    /// When it may be forgotten; None: once nobody asks after it.
    until_ms: Option<u64>,
}

impl Left {
    fn of(pilot: Number, began: Option<Began>) -> Left {
        Left {
            pilot,
            began,
            until_ms: None,
        }
    }
}

#[derive(Debug)]
pub struct Pool {
    size: Size,
    pilots: BTreeMap<Number, Pilot>,
    next: Number,
    /// First come, first served.
    waiting: VecDeque<(AttemptId, Need)>,
    /// Of those that wait: which host is wanted. Once its pilots take no more, any does.
    wanted: BTreeMap<AttemptId, String>,
    left: BTreeMap<AttemptId, Left>,
    /// How long the last pilot of which it is known may be there in all.
    whole_ms: Option<u64>,
    /// When it was decided last.
    now_ms: u64,
    failures: u32,
    ask_after_ms: u64,
    /// Why no pilot comes.
    trouble: Option<String>,
}

impl Pool {
    /// `next`: above the numbers of all pilots that there ever were a place of.
    pub fn new(size: Size, next: Number) -> Pool {
        Pool {
            size,
            pilots: BTreeMap::new(),
            next,
            waiting: VecDeque::new(),
            wanted: BTreeMap::new(),
            left: BTreeMap::new(),
            whole_ms: size.time_ms,
            now_ms: 0,
            failures: 0,
            ask_after_ms: 0,
            trouble: None,
        }
    }

    /// A pilot that a site before this one asked for.
    pub fn found(&mut self, number: Number, now_ms: u64) {
        self.pilots.insert(number, Pilot::new(State::Asked, now_ms));
        self.next = self.next.max(number + 1);
    }

    /// The engine took a pilot.
    pub fn accepted(&mut self, number: Number, now_ms: u64) {
        if let Some(pilot) = self.pilots.get_mut(&number) {
            if pilot.state == State::Asking {
                (pilot.state, pilot.since_ms) = (State::Asked, now_ms);
            }
        }
    }

    /// An attempt that a site before this one gave to that pilot, and that began.
    pub fn found_begun(&mut self, id: AttemptId, number: Number, began: Option<Began>) {
        self.left.insert(id, Left::of(number, began));
    }

    /// When that pilot began, if it was heard.
    pub fn began(&self, number: Number) -> Option<Began> {
        self.pilots.get(&number)?.began
    }

    /// Whether a pilot that is new, and has nothing to do, could have it.
    pub fn serves(&self, need: &Need) -> bool {
        self.size.most > 0 && need.cpus <= self.size.cpus && self.lasts(need)
    }

    fn lasts(&self, need: &Need) -> bool {
        match (self.whole_ms, need.time_ms) {
            (Some(whole_ms), Some(time_ms)) => time_ms <= whole_ms,
            _ => true,
        }
    }

    /// Said before it is submitted.
    pub fn want(&mut self, id: AttemptId, host: String) {
        self.wanted.insert(id, host);
    }

    /// Where pilots are that take attempts.
    pub fn hosts(&self) -> BTreeSet<String> {
        let open = self.pilots.values().filter(|pilot| pilot.is_open());
        open.flat_map(|pilot| pilot.hosts.clone()).collect()
    }

    pub fn is_held(&self, id: AttemptId) -> bool {
        let mut pilots = self.pilots.values();
        pilots.any(|pilot| pilot.held.contains_key(&id))
    }

    pub fn is_on(&self, id: AttemptId, host: &str) -> bool {
        let mut pilots = self.pilots.values();
        pilots.any(|pilot| pilot.held.contains_key(&id) && pilot.is_on(host))
    }

    pub fn submit(&mut self, id: AttemptId, need: Need, now_ms: u64) -> Vec<Do> {
        self.waiting.push_back((id, need));
        self.decide(now_ms)
    }

    /// It is not to begin any more. The pilot that has it, if one has.
    pub fn cancel(&mut self, id: AttemptId) -> Option<Number> {
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.wanted.remove(&id);
        let holds =
            |(number, pilot): (&Number, &Pilot)| pilot.held.contains_key(&id).then_some(*number);
        self.pilots.iter().find_map(holds)
    }

    /// A pilot is there, and has these.
    pub fn ready(
        &mut self,
        number: Number,
        began: Began,
        held: &BTreeMap<AttemptId, Need>,
        now_ms: u64,
    ) -> Vec<Do> {
        let Some(pilot) = self.pilots.get_mut(&number) else {
            return vec![Do::Retire(number)];
        };
        if pilot.state != State::Retired {
            pilot.state = State::Ready;
        }
        (pilot.idle_since_ms, pilot.heard_ms) = (now_ms, now_ms);
        (self.failures, self.trouble) = (0, None);
        if pilot.began.is_some_and(|before| before != began) {
            (pilot.end, pilot.recalled) = (End::NotSaid, false);
        }
        let look = (pilot.end == End::NotSaid).then_some(Do::Look);
        // It may have started what was given up with its connection.
        self.waiting.retain(|(id, _)| !held.contains_key(id));
        self.left.retain(|id, _| !held.contains_key(id));
        let before = std::mem::replace(&mut pilot.held, held.clone());
        for id in before.into_keys().filter(|id| !held.contains_key(id)) {
            self.left.insert(id, Left::of(number, pilot.began));
        }
        pilot.began = Some(began);
        let mut todo = self.decide(now_ms);
        todo.extend(look);
        todo
    }

    /// A runner has ended.
    pub fn over(&mut self, number: Number, id: AttemptId, now_ms: u64) -> Vec<Do> {
        if let Some(pilot) = self.pilots.get_mut(&number) {
            pilot.held.remove(&id);
            pilot.idle_since_ms = now_ms;
            let left = Left {
                until_ms: Some(now_ms + TOLD_MS),
                ..Left::of(number, pilot.began)
            };
            self.left.insert(id, left);
        }
        self.decide(now_ms)
    }

    /// A pilot takes no more.
    pub fn retired(&mut self, number: Number, now_ms: u64) -> Vec<Do> {
        if let Some(pilot) = self.pilots.get_mut(&number) {
            pilot.state = State::Retired;
        }
        self.decide(now_ms)
    }

    /// A pilot takes no more, for its engine takes the slot back.
    pub fn going(&mut self, number: Number, now_ms: u64) -> Vec<Do> {
        if let Some(pilot) = self.pilots.get_mut(&number) {
            pilot.recalled = true;
        }
        self.retired(number, now_ms)
    }

    /// The host of the pilot that has it, if the slot there is taken back.
    pub fn recalled(&self, id: AttemptId) -> Option<String> {
        let holds = |(_, pilot): &(&Number, &Pilot)| pilot.held.contains_key(&id);
        let (number, pilot) = self.pilots.iter().find(holds)?;
        let host = || pilot.hosts.first().cloned();
        let unknown = || format!("the host of pilot {number}");
        pilot.recalled.then(|| host().unwrap_or_else(unknown))
    }

    /// A pilot's connection broke. `began`: which of the attempts that it holds began; the others are given to another.
    pub fn away(
        &mut self,
        number: Number,
        began: impl Fn(AttemptId) -> bool,
        now_ms: u64,
    ) -> Vec<Do> {
        let Some(pilot) = self.pilots.get_mut(&number) else {
            return Vec::new();
        };
        let done = pilot.state == State::Retired && pilot.held.is_empty();
        pilot.is_missed = pilot.is_open() && !pilot.recalled;
        (pilot.state, pilot.seen, pilot.since_ms) = (State::Away, None, now_ms);
        for (id, need) in std::mem::take(&mut pilot.held) {
            match began(id) {
                true => drop(self.left.insert(id, Left::of(number, pilot.began))),
                false => self.waiting.push_front((id, need)),
            }
        }
        let mut todo = Vec::new();
        let referred = self.left.values().any(|left| left.pilot == number);
        if done && !referred {
            self.pilots.remove(&number);
            todo.push(Do::Remove(number));
        }
        todo.extend(self.decide(now_ms));
        todo
    }

    /// The engine would not take a pilot.
    pub fn refused(&mut self, number: Number, words: String, now_ms: u64) -> Vec<Do> {
        self.pilots.remove(&number);
        self.failed(words, now_ms);
        let mut todo = vec![Do::Remove(number)];
        todo.extend(self.decide(now_ms));
        todo
    }

    /// What the engine says of all pilots, to a question of `asked_ms`; those of which it says nothing it does not know.
    pub fn looked(&mut self, told: &BTreeMap<Number, Told>, asked_ms: u64, now_ms: u64) -> Vec<Do> {
        let mut todo = Vec::new();
        let mut troubles = Vec::new();
        let whole_ms = &mut self.whole_ms;
        self.pilots.retain(|number, pilot| {
            if pilot.state == State::Asking || asked_ms < pilot.since_ms {
                return true;
            }
            let told = told.get(number);
            let runs = told.filter(|told| matches!(told.seen, Seen::Running(_)));
            // One that was heard of, and of which the engine says nothing of use, is not bound by it.
            if runs.is_some() || (pilot.is_connected() && asked_ms >= pilot.heard_ms) {
                let time = runs.and_then(|told| told.time);
                pilot.end = End::of(time, asked_ms);
                *whole_ms = time.map(|time| time.whole_ms).or(*whole_ms);
            }
            pilot.leaves = told.and_then(|told| told.leaves.clone());
            pilot.hosts = told.map_or_else(Vec::new, |told| told.hosts.clone());
            let told = told.map(|told| told.seen.clone());
            let ended = matches!(told, None | Some(Seen::Over(_)));
            let words = told.as_ref().map_or("it does not know it", Seen::words);
            let trouble = format!("a pilot did not come up: it says {words}");
            pilot.seen = Some(told);
            // Of one that is connected the end of its connection tells.
            let failed = ended && pilot.state == State::Asked;
            if failed {
                troubles.push(trouble);
                todo.push(Do::Remove(*number));
            }
            !failed
        });
        for trouble in troubles {
            self.failed(trouble, now_ms);
        }
        todo.extend(self.decide(now_ms));
        todo
    }

    /// The engine did not answer. Pilots of which it never said how long they may be there are taken for some that may stay.
    pub fn unanswered(&mut self, now_ms: u64) -> Vec<Do> {
        let unknown = |pilot: &&mut Pilot| pilot.is_connected() && pilot.end == End::NotSaid;
        for pilot in self.pilots.values_mut().filter(unknown) {
            pilot.end = End::None;
        }
        self.decide(now_ms)
    }

    /// Time went by. `forgotten`: which attempts nobody asks after any more.
    pub fn tick(&mut self, forgotten: impl Fn(AttemptId) -> bool, now_ms: u64) -> Vec<Do> {
        self.left.retain(|id, left| match left.until_ms {
            Some(until_ms) => now_ms < until_ms,
            None => !forgotten(*id),
        });
        let waiting: BTreeSet<AttemptId> = self.waiting.iter().map(|(id, _)| *id).collect();
        self.wanted.retain(|id, _| waiting.contains(id));
        let mut todo = Vec::new();
        let left: Vec<Number> = self.left.values().map(|left| left.pilot).collect();
        self.pilots.retain(|number, pilot| {
            let over = matches!(pilot.seen, Some(None | Some(Seen::Over(_))));
            let keep = pilot.state != State::Away || !over || left.contains(number);
            if !keep {
                todo.push(Do::Remove(*number));
            }
            keep
        });
        todo.extend(self.decide(now_ms));
        todo
    }

    /// How many take attempts, and how many of those have none.
    pub fn census(&self) -> PilotCensus {
        let ready = || self.pilots.values().filter(|p| p.state == State::Ready);
        PilotCensus {
            ready: ready().count() as u64,
            idle: ready().filter(|pilot| pilot.held.is_empty()).count() as u64,
        }
    }

    /// Attempts that wait.
    pub fn waiting(&self) -> Vec<(AttemptId, Need)> {
        self.waiting.iter().copied().collect()
    }

    /// Whether an attempt waits here, or a pilot has or had it.
    pub fn knows(&self, id: AttemptId) -> bool {
        self.left.contains_key(&id)
            || self.waiting.iter().any(|(waiting, _)| *waiting == id)
            || self
                .pilots
                .values()
                .any(|pilot| pilot.held.contains_key(&id))
    }

    /// Whether the engine is to be asked after pilots of which nothing is heard.
    pub fn wants_word(&self) -> bool {
        let unheard = |pilot: &Pilot| pilot.is_to_come() || pilot.state == State::Away;
        self.pilots.values().any(unheard)
    }

    /// What is to be said of the attempts, as if an engine said it; and the drained host that they are on.
    pub fn rows(&self) -> Vec<(AttemptId, Seen, Option<String>)> {
        let mut rows = Vec::new();
        for (before, (id, need)) in self.waiting.iter().enumerate() {
            rows.push((
                *id,
                Seen::Waiting(self.why_it_waits(before, *id, need)),
                None,
            ));
        }
        for (number, pilot) in &self.pilots {
            let running = || Seen::Running(format!("pilot {number} has it"));
            rows.extend(
                pilot
                    .held
                    .keys()
                    .map(|id| (*id, running(), pilot.leaves.clone())),
            );
        }
        for (id, left) in &self.left {
            let seen = self.left_behind(*left);
            rows.extend(seen.map(|seen| (*id, seen, None)));
        }
        rows
    }

    /// What became of an attempt by its pilot's end; None: the engine does not know the pilot.
    fn left_behind(&self, left: Left) -> Option<Seen> {
        let number = left.pilot;
        let evicted = |words: &str| {
            let words = format!("{words}: its pilot {number} was started again");
            Some(Seen::Over(Verdict::Ended(EngineCause::Evicted, words)))
        };
        let pilot = self.pilots.get(&number)?;
        let connected = pilot.is_connected();
        match &pilot.seen {
            Some(Some(Seen::Ending(words))) => Some(Seen::Ending(words.clone())),
            // The engine did nothing to the pilot, so it was not the engine that ended the runner.
            _ if connected && pilot.began == left.began => Some(Seen::Over(Verdict::NoRunner(
                format!("pilot {number} lives, and its runner does not"),
            ))),
            Some(Some(Seen::Over(verdict))) => Some(Seen::Over(verdict.clone())),
            Some(None) => None,
            Some(Some(seen)) if connected => evicted(seen.words()),
            Some(Some(Seen::Waiting(words) | Seen::Held(words))) => evicted(words),
            Some(Some(seen)) => Some(Seen::Running(seen.words().to_owned())),
            None => Some(Seen::Running(format!(
                "nothing yet of pilot {number}, which had it"
            ))),
        }
    }

    fn why_it_waits(&self, before: usize, id: AttemptId, need: &Need) -> String {
        let mut words = format!("it waits for a pilot, behind {before} others");
        if let Some(host) = self.wanted_on(id) {
            words.push_str(&format!("; it is wanted on {host}"));
        }
        let mut up = self
            .pilots
            .values()
            .filter(|pilot| pilot.is_open())
            .peekable();
        if up.peek().is_some() && !up.any(|pilot| pilot.has_time(need, self.now_ms)) {
            words.push_str(&match need.time_ms {
                Some(time_ms) => format!(
                    "; it needs {} s with its grace, and no pilot has so much left",
                    time_ms.div_ceil(1000)
                ),
                None => "; it has no time limit, and no pilot has half of its own left".to_owned(),
            });
        }
        let to_come = |pilot: &&Pilot| pilot.is_to_come();
        if let Some(trouble) = &self.trouble {
            words.push_str(&format!("; {trouble}"));
        } else if let Some(Some(Some(seen))) =
            self.pilots.values().find(to_come).map(|pilot| &pilot.seen)
        {
            words.push_str(&format!("; of the next pilot it says {}", seen.words()));
        }
        words
    }

    fn failed(&mut self, words: String, now_ms: u64) {
        let back_off = BACK_OFF_MS << self.failures.min(10);
        self.failures += 1;
        self.ask_after_ms = now_ms + back_off.min(MOST_BACK_OFF_MS);
        self.trouble = Some(words);
    }

    fn decide(&mut self, now_ms: u64) -> Vec<Do> {
        self.now_ms = now_ms;
        let mut todo = Vec::new();
        self.send_on(&mut todo);
        self.hand(&mut todo, now_ms);
        if self.failures >= HOPELESS
            && !self
                .pilots
                .values()
                .any(|pilot| pilot.state == State::Ready)
        {
            todo.extend(self.waiting.drain(..).map(|(id, _)| Do::Direct(id)));
        }
        self.retire(&mut todo, now_ms);
        if now_ms >= self.ask_after_ms {
            self.ask(&mut todo, now_ms);
        }
        todo
    }

    /// What no pilot lasts for the engine gets.
    fn send_on(&mut self, todo: &mut Vec<Do>) {
        if self.waiting.iter().all(|(_, need)| self.lasts(need)) {
            return;
        }
        let (kept, sent) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(_, need)| self.lasts(need));
        self.waiting = kept;
        let sent: VecDeque<(AttemptId, Need)> = sent;
        todo.extend(sent.into_iter().map(|(id, _)| Do::Direct(id)));
    }

    /// Each in its turn goes to the fullest pilot that has room and time, so that others become idle. One that waits is
    /// overtaken only to pilots that have no time for it, and only while it may yet get another.
    fn hand(&mut self, todo: &mut Vec<Do>, now_ms: u64) {
        let most = self.size.cpus;
        let full = self.is_full();
        let open = self.pilots.values().filter(|pilot| pilot.is_open()).count();
        let mut kept: BTreeSet<Number> = BTreeSet::new();
        let mut place = 0;
        while let Some((id, need)) = self.waiting.get(place).copied() {
            let wanted = self.wanted_on(id).map(str::to_owned);
            let has_time = |pilot: &Pilot| {
                let is_there = wanted.as_ref().is_none_or(|host| pilot.is_on(host));
                pilot.is_open() && is_there && pilot.has_time(&need, now_ms)
            };
            let suits =
                |(number, pilot): &(&Number, &mut Pilot)| !kept.contains(number) && has_time(pilot);
            let room = self
                .pilots
                .iter_mut()
                .filter(suits)
                .filter(|(_, pilot)| pilot.free(most) >= need.cpus)
                .min_by_key(|(_, pilot)| pilot.free(most));
            if let Some((number, pilot)) = room {
                pilot.held.insert(id, need);
                self.waiting.remove(place);
                self.wanted.remove(&id);
                todo.push(Do::Hand(*number, id));
                continue;
            }
            let waited_for = self.pilots.iter().filter(|(_, pilot)| has_time(pilot));
            kept.extend(waited_for.map(|(number, _)| *number));
            // What waits for one host holds up nobody on others.
            if (full && wanted.is_none()) || kept.len() == open {
                return;
            }
            place += 1;
        }
    }

    /// The host that it waits for.
    fn wanted_on(&self, id: AttemptId) -> Option<&str> {
        let host = self.wanted.get(&id)?;
        let mut pilots = self.pilots.values();
        let takes = pilots.any(|pilot| pilot.is_open() && pilot.is_on(host));
        takes.then_some(host)
    }

    /// No other pilot comes, as long as none of these goes.
    fn is_full(&self) -> bool {
        let live = || self.pilots.values().filter(|pilot| pilot.may_take());
        live().count() >= self.size.most as usize && !live().any(Pilot::is_to_come)
    }

    /// As many as what waits has use for, within bounds.
    fn ask(&mut self, todo: &mut Vec<Do>, now_ms: u64) {
        let count = |pilots: &BTreeMap<Number, Pilot>, which: &dyn Fn(&Pilot) -> bool| {
            let count = pilots.values().filter(|pilot| which(pilot)).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let waiting: u64 = self
            .waiting
            .iter()
            .map(|(_, need)| u64::from(need.cpus))
            .sum();
        loop {
            let live = count(&self.pilots, &|pilot| {
                pilot.may_take() || pilot.may_be_back(now_ms)
            });
            let asked = count(&self.pilots, &Pilot::is_to_come);
            let served = u64::from(asked) * u64::from(self.size.cpus);
            if live >= self.size.most || (live >= self.size.least && served >= waiting) {
                return;
            }
            let number = self.next;
            self.next += 1;
            self.pilots
                .insert(number, Pilot::new(State::Asking, now_ms));
            todo.push(Do::Ask(number));
        }
    }

    /// Those whose host is drained, whatever they hold; those that are idle, and have little time left, or none for what is the
    /// first to wait; and those that have been idle for long, but for the least.
    fn retire(&mut self, todo: &mut Vec<Do>, now_ms: u64) {
        let live = self
            .pilots
            .values()
            .filter(|pilot| pilot.may_take())
            .count();
        let first = self.waiting.front().map(|(_, need)| *need);
        let full = self.is_full();
        let mut spare = live.saturating_sub(self.size.least as usize);
        for (number, pilot) in &mut self.pilots {
            if pilot.state != State::Ready {
                continue;
            }
            let idle = pilot.held.is_empty() && pilot.end != End::NotSaid;
            let no_time = |need: Need| full && !pilot.has_time(&need, now_ms);
            let spent = idle && (pilot.is_old(now_ms) || first.is_some_and(no_time));
            let rests = idle && now_ms.saturating_sub(pilot.idle_since_ms) >= IDLE_MS;
            let goes = pilot.leaves.is_some() || spent || (rests && spare > 0);
            if goes {
                if pilot.leaves.is_none() {
                    spare = spare.saturating_sub(1);
                }
                pilot.state = State::Retired;
                todo.push(Do::Retire(*number));
            }
        }
    }
}

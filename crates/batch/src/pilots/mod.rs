//! Pilots before an engine (spec/jobs/pilots.md): attempts that need no more than processors go to pilots, which hold slots of
//! the engine; all others to the engine itself. To whoever follows an attempt this is an engine as any other.
//!
//! Not here: who gets what (`pool`), the connection to a pilot (`line`).

mod line;
mod pilot;
pub mod pool;

pub use pool::{Need, Size};

use crate::able::Able;
use crate::engine::order::{self, Order, PILOT, prefix};
use crate::engine::program::{GIVEN, Program};
use crate::engine::seen::{Row, Seen, Verdict};
use crate::engine::{Engine, Trouble};
use crate::spool;
use kumiko_job::attempt::EngineCause;
use kumiko_job::census::PilotCensus;
use kumiko_job::description::Resources;
use kumiko_job::id::{AttemptId, JobId};
use kumiko_wire::pilot::{BEATS, PilotCommand};
use line::Line;
use pool::{Began, Do, Number, Pool, Told};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How often it is looked whether a pilot has been idle for long, or may be asked for again.
const TICK: Duration = Duration::from_secs(1);

/// What pilots a site has.
#[derive(Clone, Debug)]
pub struct Pilots {
    pub size: Size,
    /// What each asks of the engine.
    pub resources: Resources,
}

/// An engine, with pilots before it.
#[derive(Debug)]
pub struct Piloted<E: Engine> {
    inner: Arc<Inner<E>>,
    ticking: AbortHandle,
}

#[derive(Debug)]
struct Inner<E> {
    engine: E,
    site: String,
    root: PathBuf,
    runner: Program,
    pilots: Pilots,
    begun: Instant,
    state: Mutex<State>,
    /// A pilot's slot is taken back.
    recalls: Notify,
}

#[derive(Debug)]
struct State {
    pool: Pool,
    lines: HashMap<Number, Line>,
    /// Of attempts in the pool's queue.
    orders: HashMap<AttemptId, Order>,
    /// Handed on to the engine by the pool, which would not have them: its words.
    refused: HashMap<AttemptId, String>,
}

impl<E: Engine> Piloted<E> {
    /// `root`, `runner`, `site`: as for the engine itself. Needs a tokio runtime around it; it blocks, briefly.
    pub fn new(
        engine: E,
        site: String,
        root: PathBuf,
        runner: impl Into<Program>,
        pilots: Pilots,
    ) -> Self {
        let found = found(&root);
        let mut pool = Pool::new(
            pilots.size,
            found.pilots.last().map_or(1, |number| number + 1),
        );
        for number in &found.pilots {
            pool.found(*number, 0);
        }
        for (id, number, began) in &found.begun {
            pool.found_begun(*id, *number, *began);
        }
        let state = State {
            pool,
            lines: HashMap::new(),
            orders: HashMap::new(),
            refused: HashMap::new(),
        };
        let inner = Arc::new(Inner {
            engine,
            site,
            root,
            runner: runner.into(),
            pilots,
            begun: Instant::now(),
            state: Mutex::new(state),
            recalls: Notify::new(),
        });
        for number in found.pilots {
            inner.listen_to(number);
        }
        for (id, need) in found.waiting {
            inner.enter(id, inner.order(id, need));
        }
        let ticking = tokio::spawn(tick(Arc::downgrade(&inner)));
        Piloted {
            inner,
            ticking: ticking.abort_handle(),
        }
    }

    /// What can be asked at any time how many pilots there are; None: none are wanted.
    pub fn counter(&self) -> impl Fn() -> Option<PilotCensus> + Send + 'static {
        let inner = Arc::downgrade(&self.inner);
        move || {
            let inner = inner.upgrade()?;
            (inner.pilots.size.most > 0).then(|| inner.state().pool.census())
        }
    }
}

impl<E: Engine> Drop for Piloted<E> {
    fn drop(&mut self) {
        self.ticking.abort();
        self.inner.state().lines.clear();
    }
}

async fn tick<E: Engine>(inner: Weak<Inner<E>>) {
    while let Some(now) = inner.upgrade() {
        let root = &now.root;
        let forgotten = |id: AttemptId| !root.join(id.to_string()).exists();
        let todo = {
            let mut state = now.state();
            state.refused.retain(|id, _| !forgotten(*id));
            state.pool.tick(forgotten, now.now_ms())
        };
        now.act(todo);
        drop(now);
        tokio::time::sleep(TICK).await;
    }
}

impl<E: Engine> Inner<E> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn place(&self, number: Number) -> PathBuf {
        self.root.join(format!("{PILOT}{number}"))
    }

    fn order(&self, id: AttemptId, need: Need) -> Order {
        Order {
            tag: order::tag(&self.site, id),
            site: self.site.clone(),
            runner: self.runner.clone(),
            option: None,
            spool: self.root.join(id.to_string()),
            hosts: 1,
            cpus: need.cpus,
            time_limit_ms: need.time_ms,
            resources: Resources::default(),
            avoids: Vec::new(),
            wanted_on: None,
        }
    }

    fn enter(self: &Arc<Self>, id: AttemptId, order: Order) {
        let need = need(&order);
        let todo = {
            let mut state = self.state();
            if let Some(host) = &order.wanted_on {
                state.pool.want(id, host.clone());
            }
            state.orders.insert(id, order);
            state.pool.submit(id, need, self.now_ms())
        };
        self.act(todo);
    }

    /// Asks the engine, and has the pool hear of the pilots; all that it says.
    async fn look(self: &Arc<Self>) -> Result<Vec<Row>, Trouble> {
        let asked_ms = self.now_ms();
        let answer = self.engine.look(&self.site).await;
        let todo = match &answer {
            Ok(rows) => {
                let told = pilots_of(rows, &prefix(&self.site));
                self.state().pool.looked(&told, asked_ms, self.now_ms())
            }
            Err(_) => self.state().pool.unanswered(self.now_ms()),
        };
        self.act(todo);
        answer
    }

    /// Does what the pool wants done.
    fn act(self: &Arc<Self>, todo: Vec<Do>) {
        for one in todo {
            match one {
                Do::Ask(number) => self.ask(number),
                Do::Hand(number, id) => {
                    let began = {
                        let mut state = self.state();
                        state.orders.remove(&id);
                        state.pool.began(number).unwrap_or_default()
                    };
                    // First, so that whoever finds the attempt begun finds whose it is; by rename, of which whoever follows it hears.
                    let spool = self.root.join(id.to_string());
                    let (given, new) = (spool.join(GIVEN), spool.join("pilot.new"));
                    let written = std::fs::write(&new, format!("{number} {began}"));
                    if let Err(error) = written.and_then(|()| std::fs::rename(new, given)) {
                        tracing::warn!(attempt = %id, %error, "whose pilot has it is not written down");
                    }
                    self.say(number, PilotCommand::Start(id));
                }
                Do::Retire(number) => self.say(number, PilotCommand::Retire),
                Do::Direct(id) => self.direct(id),
                Do::Look => {
                    let inner = Arc::clone(self);
                    // That there is no answer the pool has heard.
                    tokio::spawn(async move { inner.look().await });
                }
                Do::Remove(number) => {
                    self.state().lines.remove(&number);
                    let place = self.place(number);
                    if let Some(words) = spool::complaint(&place) {
                        tracing::warn!(
                            number,
                            words,
                            "the ferry of a pilot that is gone complained"
                        );
                    }
                    if let Err(error) = std::fs::remove_dir_all(&place) {
                        if error.kind() != ErrorKind::NotFound {
                            tracing::warn!(place = %place.display(), %error, "a pilot's place is not removed");
                        }
                    }
                }
            }
        }
    }

    /// To one that is away it is said in vain: what is lost by that the pool hears of.
    fn say(&self, number: Number, command: PilotCommand) {
        if let Some(line) = self.state().lines.get(&number) {
            line.say(command);
        }
    }

    fn ask(self: &Arc<Self>, number: Number) {
        let place = self.place(number);
        let order = order::pilot(
            &self.site,
            &self.runner,
            place.clone(),
            number,
            self.pilots.size.time_ms,
            &self.pilots.resources,
        );
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let made = spool::private_dir(&inner.root, &place)
                .and_then(|()| std::fs::write(place.join(BEATS), ""));
            let asked = match made {
                Ok(()) => inner.engine.submit(&order).await,
                Err(error) => Err(Trouble::unreachable(
                    "making a pilot's place",
                    error.to_string(),
                )),
            };
            match asked {
                Ok(()) => {
                    inner.state().pool.accepted(number, inner.now_ms());
                    inner.listen_to(number);
                }
                Err(trouble) => {
                    tracing::warn!(engine = E::NAME, %trouble, "no pilot is to be had");
                    let words = format!("no pilot is to be had: {trouble}");
                    let todo = inner.state().pool.refused(number, words, inner.now_ms());
                    inner.act(todo);
                }
            }
        });
    }

    /// Hears a pilot out, from when it comes up until it is removed.
    fn listen_to(self: &Arc<Self>, number: Number) {
        let line = Line::open(
            self.place(number),
            self.runner.clone(),
            number,
            Arc::downgrade(self),
        );
        self.state().lines.insert(number, line);
    }

    /// Hands an attempt on to the engine.
    fn direct(self: &Arc<Self>, id: AttemptId) {
        // One that was a pilot's before has none any more.
        let again = || Some(self.order(id, need_in(&self.root.join(id.to_string()))?));
        let Some(order) = self.state().orders.remove(&id).or_else(again) else {
            return;
        };
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let _ = std::fs::remove_file(order.spool.join(GIVEN)); // then a later site asks for a pilot again
            match inner.engine.submit(&order).await {
                Ok(()) => {}
                Err(Trouble::Refused { words }) => {
                    inner.state().refused.insert(id, words);
                }
                Err(trouble) => {
                    tracing::warn!(attempt = %id, %trouble, "it waits until its engine answers");
                    inner.enter(id, order);
                }
            }
        });
    }
}

impl<E: Engine> line::Heard for Inner<E> {
    fn ready(self: &Arc<Self>, number: Number, since_ms: u64, held: &[AttemptId]) {
        let gone = Need {
            cpus: 1,
            time_ms: None,
        };
        let need = |id: &AttemptId| {
            let place = self.root.join(id.to_string());
            self.runner.ring(&place);
            (*id, need_in(&place).unwrap_or(gone)) // it has a moment to live
        };
        let held = held.iter().map(need).collect();
        let todo = self
            .state()
            .pool
            .ready(number, since_ms, &held, self.now_ms());
        self.act(todo);
    }

    fn over(self: &Arc<Self>, number: Number, id: AttemptId) {
        let todo = self.state().pool.over(number, id, self.now_ms());
        self.act(todo);
    }

    fn retired(self: &Arc<Self>, number: Number) {
        let todo = self.state().pool.retired(number, self.now_ms());
        self.act(todo);
    }

    fn going(self: &Arc<Self>, number: Number) {
        let todo = self.state().pool.going(number, self.now_ms());
        self.act(todo);
        self.recalls.notify_one();
    }

    fn away(self: &Arc<Self>, number: Number) {
        let root = &self.root;
        let began = |id: AttemptId| root.join(id.to_string()).join("stdout").exists();
        let todo = {
            let mut state = self.state();
            let todo = state.pool.away(number, began, self.now_ms());
            for (id, need) in state.pool.waiting() {
                state
                    .orders
                    .entry(id)
                    .or_insert_with(|| self.order(id, need));
            }
            todo
        };
        self.act(todo);
    }
}

impl<E: Engine> Engine for Piloted<E> {
    const NAME: &'static str = E::NAME;
    const ABLE: Able = E::ABLE;
    const LOG: Option<&'static str> = E::LOG;

    async fn submit(&self, order: &Order) -> Result<(), Trouble> {
        let inner = &self.inner;
        let plain = order.resources
            == Resources {
                cpus: order.resources.cpus,
                ..Resources::default()
            };
        let id = attempt(&order.tag, &prefix(&inner.site));
        match id {
            Some(id) if plain && inner.state().pool.serves(&need(order)) => {
                std::fs::write(order.spool.join(GIVEN), "").map_err(|error| {
                    Trouble::unreachable("writing to the spool", error.to_string())
                })?;
                inner.enter(id, order.clone());
                Ok(())
            }
            _ => inner.engine.submit(order).await,
        }
    }

    async fn look(&self, site: &str) -> Result<Vec<Row>, Trouble> {
        let inner = &self.inner;
        let mut rows = inner.look().await?;
        let (own, refused) = {
            let state = inner.state();
            (state.pool.rows(), state.refused.clone())
        };
        let refused = refused.into_iter().map(|(id, words)| {
            let verdict = Verdict::Ended(EngineCause::Removed, format!("no: {words}"));
            (id, Seen::Over(verdict), None)
        });
        rows.extend(
            own.into_iter()
                .chain(refused)
                .map(|(id, seen, leaves)| Row {
                    leaves,
                    ..Row::new(order::tag(site, id), String::new(), seen)
                }),
        );
        Ok(rows)
    }

    async fn cancel(&self, tag: &str) -> Result<(), Trouble> {
        let inner = &self.inner;
        let Some(id) = attempt(tag, &prefix(&inner.site)) else {
            return inner.engine.cancel(tag).await;
        };
        let (ours, number) = {
            let mut state = inner.state();
            let ours = state.pool.knows(id);
            state.orders.remove(&id);
            (ours, state.pool.cancel(id))
        };
        if let Some(number) = number {
            inner.say(number, PilotCommand::Kill(id));
        }
        match ours {
            true => Ok(()),
            false => inner.engine.cancel(tag).await,
        }
    }

    async fn avoid(
        &self,
        site: &str,
        hosts: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Trouble> {
        self.inner.engine.avoid(site, hosts).await
    }

    fn hosts(&self) -> BTreeSet<String> {
        self.inner.state().pool.hosts()
    }

    fn is_on(&self, id: AttemptId, host: &str) -> bool {
        self.inner.state().pool.is_on(id, host)
    }

    fn is_piloted(&self, id: AttemptId) -> bool {
        self.inner.state().pool.is_held(id)
    }

    fn recalled(&self, id: AttemptId) -> Option<String> {
        self.inner.state().pool.recalled(id)
    }

    async fn recalls(&self) {
        self.inner.recalls.notified().await;
    }

    fn read(&self, log: &[u8]) -> Option<Seen> {
        self.inner.engine.read(log)
    }
}

/// The attempt that a tag is of.
fn attempt(tag: &str, prefix: &str) -> Option<AttemptId> {
    id(tag.strip_prefix(prefix)?)
}

fn id(name: &str) -> Option<AttemptId> {
    let (job, epoch) = name.split_once('.')?;
    Some(AttemptId {
        job: JobId(job.parse().ok()?),
        epoch: epoch.parse().ok()?,
    })
}

/// The pilot that a tag is of.
fn pilot(tag: &str, prefix: &str) -> Option<Number> {
    tag.strip_prefix(prefix)?.strip_prefix(PILOT)?.parse().ok()
}

/// What is said of the pilots; of one that is there twice, what may still run.
fn pilots_of(rows: &[Row], prefix: &str) -> BTreeMap<Number, Told> {
    let mut pilots: BTreeMap<Number, Told> = BTreeMap::new();
    for row in rows {
        let Some(number) = pilot(&row.tag, prefix) else {
            continue;
        };
        let better = |best: &Told| row.seen > best.seen;
        if pilots.get(&number).is_none_or(better) {
            let told = Told {
                seen: row.seen.clone(),
                time: row.time,
                hosts: row.hosts.clone(),
                leaves: row.leaves.clone(),
            };
            pilots.insert(number, told);
        }
    }
    pilots
}

fn need(order: &Order) -> Need {
    Need {
        cpus: order.cpus,
        time_ms: order.time_limit_ms,
    }
}

/// What a site before this one left among the spools.
#[derive(Default)]
struct Found {
    /// Ascending.
    pilots: Vec<Number>,
    begun: Vec<(AttemptId, Number, Option<Began>)>,
    /// Not begun; the older job first.
    waiting: Vec<(AttemptId, Need)>,
}

fn found(root: &Path) -> Found {
    let mut found = Found::default();
    let names = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(_) => return found, // the root is still to be made, or what makes a spool says what is wrong
    };
    for name in names.flatten().map(|entry| entry.file_name()) {
        let Some(name) = name.to_str() else {
            continue;
        };
        if let Some(number) = name.strip_prefix(PILOT).and_then(|n| n.parse().ok()) {
            found.pilots.push(number);
        } else if let Some(id) = id(name) {
            sort(root, id, &mut found);
        }
    }
    found.pilots.sort_unstable();
    found
        .waiting
        .sort_unstable_by_key(|(id, _)| (id.job.0, id.epoch));
    found
}

fn sort(root: &Path, id: AttemptId, found: &mut Found) {
    let spool = root.join(id.to_string());
    let Ok(given) = std::fs::read_to_string(spool.join(GIVEN)) else {
        return;
    };
    let there = |name: &str| spool.join(name).exists();
    match (there("status"), there("stdout")) {
        (true, _) => {}
        (false, true) => {
            let (number, began) = given.split_once(' ').unwrap_or((&given, ""));
            if let Ok(number) = number.parse() {
                found.begun.push((id, number, began.parse().ok()));
            }
        }
        (false, false) => {
            if let Some(need) = need_in(&spool) {
                found.waiting.push((id, need));
            }
        }
    }
}

/// What the attempt in a spool asks for.
fn need_in(spool: &Path) -> Option<Need> {
    let spec = spool::attempt(spool).ok()?;
    Some(Need {
        cpus: order::cpus(&spec),
        time_ms: order::time_limit_ms(&spec),
    })
}

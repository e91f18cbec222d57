//! The site's calls: what clients say is decided by `kumiko-call`, recorded, and then done (spec/rpc P24, P50 to P68). Recovery is replay: what the
//! states ask for is done again. Not here: streams (`talk`), processes (`worker`).

mod asked;
mod keep;
mod policies;
mod recover;
mod run;

use crate::book::{Book, Unrecorded, VOLATILE};
use crate::callbacks::Asked;
use crate::log::{Along, LogError};
use crate::orders::Orders;
use crate::pace::Pace;
use crate::pending::{Pending, Told};
use crate::pool::{Ask, Pool};
use crate::registry::{Registry, Routine};
use crate::store::{Arriving, Held, Store};
use crate::talk::{INLINE_BYTES, goes_without_saying, wants_first};
pub use crate::worker::Reports;
use crate::worker::{Order, Recovery, Shop};
use bytes::Bytes;
use kumiko_call::call::{Call, Outcome, Stage};
use kumiko_call::decide::Action;
use kumiko_call::event::{End, Invocation};
use kumiko_call::id::CallId;
use kumiko_call::ledger::{Ledger, is_passing};
use kumiko_call::message::{FromClient, ToClient};
use kumiko_call::respond;
use kumiko_idl::Limits;
use kumiko_job::contract::{BatchSystem, Caller, Refusal};
use kumiko_job::rerun;
use kumiko_linux::spooling;
use kumiko_policy::Policy;
use kumiko_wire::routine::SMALL_BYTES;
use kumiko_wire::rpc::Durability;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often it is looked whether somebody has been away for too long.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// A site that ends waits for so long for its disk, and for processes that have nothing to do.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// Arguments that are held in memory for calls that need not outlive the site; more lie in files.
const MEMORY_BYTES: u64 = 64 << 20;
/// With less room on the disk than this besides its arguments, no call is taken: what there is goes to logs.
const ROOM_BYTES: u64 = 64 << 20;

/// Computes what a caller's routine may see and use.
pub type Effective = Box<dyn Fn(&Caller) -> Result<Policy, Refusal> + Send + Sync>;

pub struct Setup {
    /// Holds the log, and the bytes of calls; made (0700) if missing.
    pub directory: PathBuf,
    pub registry: Registry,
    /// All calls run as this account: who starts the site.
    pub account: String,
    pub effective: Effective,
    /// Processes of routines at once.
    pub workers: usize,
    /// Most that a call may take.
    pub limits: Limits,
    pub grace_ms: u64,
    pub time_limit_ms: Option<u64>,
    /// `batch` runs them on other hosts, which may fall silent.
    pub elsewhere: bool,
    /// What runs them can be dumped, or that is not known.
    pub may_dump: bool,
}

impl Setup {
    /// What `batch` of [`Calls::open`] is given.
    pub fn spools(&self) -> PathBuf {
        self.directory.join("spool")
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("directory", &self.directory)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The calls of one site.
pub struct Calls<B> {
    pub(crate) inner: Arc<Inner<B>>,
}

impl<B> fmt::Debug for Calls<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

pub(crate) struct Inner<B> {
    setup: Setup,
    registry: Registry,
    orders: Orders,
    logged: Book,
    volatile: Book,
    shop: Arc<Shop<B>>,
    /// What is known of calls besides their states.
    live: Mutex<HashMap<CallId, Arc<Live>>>,
    memory_bytes: AtomicU64,
    pub pace: Pace,
    /// Clients whose record alone is to outlive the machine; after the site was started anew theirs is as all others'.
    records: Mutex<HashSet<u64>>,
    /// How often policies were changed.
    changes: AtomicU64,
}

/// A call that is not done.
pub(crate) struct Live {
    /// None: it cannot be computed any more, since its routine is gone.
    order: Option<Order>,
    arriving: Arriving,
    /// The highest of its attempts.
    epoch: AtomicU32,
    /// Counts changes of its state.
    changes: watch::Sender<u64>,
    /// It is not wanted any more.
    cancelled: watch::Sender<bool>,
    result: Mutex<Option<Held>>,
    asked: asked::Open,
    /// Names of bytes that the log has, since then.
    along: Mutex<Vec<(String, Instant)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: BatchSystem> Calls<B> {
    /// Replays the log and does what the states ask for. `batch` is given where its reports go, and holds its spools in the
    /// folder that it is given. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// A folder or the log cannot be used.
    pub async fn open(
        setup: Setup,
        batch: impl FnOnce(PathBuf, Arc<Reports>) -> B,
    ) -> Result<Calls<B>, OpenError> {
        let root = setup.directory.clone();
        let file = |path: &Path| {
            let path = path.to_owned();
            move |cause| OpenError::File { path, cause }
        };
        let store = Store::open(&root).map_err(file(&root))?;
        let workers = root.join("workers");
        let spools = setup.spools();
        for folder in [&workers, &spools] {
            std::fs::create_dir_all(folder).map_err(file(folder))?;
        }
        let chance = {
            use std::hash::{BuildHasher, RandomState};
            RandomState::new().hash_one(std::process::id())
        };
        let logged = Book::logged(&root.join("calls.db"), chance)?;
        let left = numbers(&workers).map_err(file(&workers))?;
        let hosts = logged.look(|ledger| {
            let of = |call: &Call| {
                call.attempt()
                    .and_then(|attempt| host_number(&attempt.host))
            };
            ledger.calls().filter_map(of).collect::<Vec<u64>>()
        });
        let last = left.iter().chain(&hosts).max().copied().unwrap_or(0);
        let reports = Arc::new(Reports::default());
        let shop = Arc::new(Shop {
            batch: batch(spools, Arc::clone(&reports)),
            pool: Arc::new(Pool::new(setup.workers, last)),
            store: Arc::new(store),
            reports,
            root: workers,
            grace_ms: setup.grace_ms,
            time_limit_ms: setup.time_limit_ms,
            elsewhere: setup.elsewhere,
        });
        let inner = Arc::new(Inner {
            registry: setup.registry.clone(),
            orders: Orders::new(setup.may_dump),
            logged,
            volatile: Book::volatile(chance),
            shop,
            live: Mutex::default(),
            memory_bytes: AtomicU64::new(0),
            pace: Pace::default(),
            records: Mutex::default(),
            changes: AtomicU64::new(0),
            setup,
        });
        inner.recover(&left).await?;
        tokio::spawn(look_now_and_then(Arc::downgrade(&inner)));
        tokio::spawn(keep::keep_what_lasts(Arc::downgrade(&inner)));
        let pool = Arc::clone(&inner.shop.pool);
        tokio::spawn(place_when_freed(Arc::downgrade(&inner), pool));
        Ok(Calls { inner })
    }

    /// What runs their routines.
    pub fn batch(&self) -> &B {
        &self.inner.shop.batch
    }

    /// Processes that leave get no more calls, and end once they compute none. A call of a routine with checkpoints goes on
    /// elsewhere at once; so does any if `leaves` says so. `leaves`: None, it may stay.
    pub fn leave(&self, leaves: impl Fn(kumiko_job::id::AttemptId) -> Option<bool>) {
        self.inner
            .shop
            .pool
            .leave(|number| leaves(crate::worker::attempt(number)));
    }

    /// Whether there is a call that its client or its routine has not done with yet; a result that waits is none.
    pub fn is_busy(&self) -> bool {
        let is_open = |call: &Call| !matches!(call.stage, Stage::Kept(_) | Stage::Done { .. });
        let busy = |book: &Book| book.look(|ledger| ledger.calls().any(is_open));
        busy(&self.inner.logged) || busy(&self.inner.volatile)
    }

    /// No call begins any more; those that compute go on, and are found again.
    pub async fn close(&self) {
        self.inner.shop.pool.close();
        // What begins in memory is known to the next site too.
        self.inner.keep_older(Duration::ZERO);
        let logged = &self.inner.logged;
        let kept = logged.on_disk(logged.look(|ledger| ledger.last_record));
        let _ = tokio::time::timeout(CLOSE_WITHIN, kept).await;
        // Idle processes end at once; who does not is ended by the next site.
        let gone = async {
            while self.inner.shop.pool.ending() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_WITHIN, gone).await;
    }
}

/// Names of folders that are numbers.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        numbers.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u64>().ok()),
        );
    }
    Ok(numbers)
}

/// Where a call is that has no routine any more.
const NOWHERE: &str = "nowhere";

fn gone_routine() -> End {
    End::Refused {
        message: "its routine is not registered here any more, or may not run".to_owned(),
    }
}

fn host(number: u64) -> String {
    format!("worker {number}")
}

fn host_number(host: &str) -> Option<u64> {
    host.strip_prefix("worker ")?.parse().ok()
}

impl<B: BatchSystem> Inner<B> {
    pub(crate) fn book(&self, client: u64) -> &Book {
        match client >= VOLATILE {
            true => &self.volatile,
            false => &self.logged,
        }
    }

    pub(crate) fn book_for(&self, durability: Durability) -> &Book {
        match durability {
            Durability::None => &self.volatile,
            Durability::Record | Durability::Full | Durability::Auto => &self.logged,
        }
    }

    pub(crate) fn routine(&self, name: &str) -> Result<Arc<Routine>, Refusal> {
        match self.orders.routine(&self.registry, name) {
            Ok(Some(routine)) => Ok(routine),
            Ok(None) => Err(Refusal::new(
                "no_routine",
                format!(
                    "no routine {name} is registered here; `kumiko rpc list` shows those that are"
                ),
            )),
            Err(error) => Err(unusable(&error)),
        }
    }

    pub(crate) fn routines(&self) -> Result<Vec<Arc<Routine>>, Refusal> {
        self.registry.all().map_err(|error| unusable(&error))
    }

    pub(crate) fn live(&self, call: CallId) -> Option<Arc<Live>> {
        lock(&self.live).get(&call).cloned()
    }

    /// Would a call of this caller's go on from a dump? One that would be refused does not.
    pub(crate) fn is_dumped(&self, subject: &str, routine: Arc<Routine>) -> bool {
        let order = self.order_of(subject, routine);
        order.is_ok_and(|order| order.recovery() == Recovery::Dump)
    }

    /// What the caller's call would be computed by.
    fn order(&self, subject: &str, routine: &str) -> Result<Order, Refusal> {
        let routine = self.routine(routine)?;
        self.order_of(subject, routine)
    }

    fn order_of(&self, subject: &str, routine: Arc<Routine>) -> Result<Order, Refusal> {
        self.orders.order(subject, routine, || {
            let caller = Caller {
                subject: subject.to_owned(),
                account: self.setup.account.clone(),
            };
            (self.setup.effective)(&caller)
        })
    }

    /// Makes room for a call that is about to be recorded.
    pub(crate) fn prepare(
        &self,
        subject: &str,
        id: CallId,
        invocation: &Invocation,
    ) -> Result<Arc<Live>, Refusal> {
        if let Some(live) = self.live(id) {
            return Ok(live);
        }
        let order = self.order(subject, &invocation.routine)?;
        let least = order.routine.signature.heads_bytes();
        if invocation.in_bytes < least || invocation.in_bytes > self.setup.limits.call_bytes {
            return Err(Refusal::new(
                "bad_arguments",
                format!(
                    "{} bytes of arguments cannot be those of {}: it takes at least {least}, and this site at most {}",
                    invocation.in_bytes, invocation.routine, self.setup.limits.call_bytes
                ),
            ));
        }
        let held = self.memory_bytes.load(Ordering::Relaxed);
        let may_be = id.client >= VOLATILE || is_passing(id.client) && invocation.blocks() <= 1;
        let in_memory = may_be
            && invocation.in_bytes <= SMALL_BYTES
            && held + invocation.in_bytes <= MEMORY_BYTES;
        let no_room = |why: &dyn fmt::Display| {
            Refusal::new(
                "rpc_no_room",
                format!("the site has no room for the call's arguments: {why}"),
            )
        };
        if !in_memory {
            let free = spooling::free_bytes(&self.setup.directory).map_err(|e| no_room(&e))?;
            if invocation.in_bytes.saturating_add(ROOM_BYTES) > free {
                return Err(no_room(&format!(
                    "they are {} bytes, {ROOM_BYTES} are left for others, and {free} are free: the site's owner is to make room",
                    invocation.in_bytes
                )));
            }
        }
        self.enter(id, invocation, Some(order), in_memory)
            .map_err(|error| no_room(&error))
    }

    fn enter(
        &self,
        id: CallId,
        invocation: &Invocation,
        order: Option<Order>,
        in_memory: bool,
    ) -> io::Result<Arc<Live>> {
        let bytes = invocation.in_bytes;
        let arriving = self.shop.store.arriving(id, bytes, in_memory)?;
        if in_memory {
            self.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let live = Arc::new(Live {
            order,
            arriving,
            epoch: AtomicU32::new(0),
            changes: watch::channel(0).0,
            cancelled: watch::channel(false).0,
            result: Mutex::new(None),
            asked: asked::Open::default(),
            along: Mutex::default(),
        });
        lock(&self.live).insert(id, Arc::clone(&live));
        Ok(live)
    }

    /// Takes back what was prepared for a call that was not recorded, or is over: a word of it may come twice, and late.
    pub(crate) fn unprepare(&self, id: CallId) {
        let call = self.book(id.client).call(id);
        if call.is_none_or(|call| matches!(call.stage, Stage::Done { .. })) {
            self.erase(id);
        }
    }

    fn erase(&self, id: CallId) {
        let Some(live) = lock(&self.live).remove(&id) else {
            return;
        };
        if !live.arriving.is_file() {
            let bytes = live.arriving.bytes();
            self.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        let along = std::mem::take(&mut *lock(&live.along));
        let began_in_memory = id.client >= VOLATILE || is_passing(id.client);
        if began_in_memory && along.is_empty() && live.has_no_files() {
            return;
        }
        let epochs = live.epoch.load(Ordering::Relaxed);
        self.shop.store.erase(id, epochs);
        if !along.is_empty() {
            let names = along.into_iter().map(|(name, _)| name).collect();
            self.book(id.client).erase_along(names);
        }
    }

    /// Answers a client about a call, after what follows is recorded, and these bytes along with it; and has it done. That it wants the
    /// first block is answered before.
    pub(crate) async fn client(
        self: &Arc<Self>,
        subject: &str,
        message: &FromClient,
        along: Option<Along>,
    ) -> Result<ToClient, Unrecorded> {
        let call = message.call();
        let book = self.book(call.map_or(0, |call| call.client));
        let decide = |ledger: &Ledger| respond::to_client(ledger, subject, message);
        let pending = book.ask_along(decide, call, along, |call| self.placing(call))?;
        self.has_along(call, pending.along());
        if !book.is_logged() || pending.record() == 0 {
            return Ok(self.recorded(book, call, pending).await);
        }
        // What is not told does not wait until it is recorded: the client's next word may be recorded with it.
        let say = pending.say();
        let untold = goes_without_saying(message, say) || wants_first(message, say);
        let untold = untold.then(|| say.clone());
        let record = pending.record();
        // Whoever listens may go before it is recorded; what follows is done all the same.
        let calls = Arc::clone(self);
        let recorded =
            tokio::spawn(async move { calls.recorded(&calls.logged, call, pending).await });
        if let Some(untold) = untold {
            return Ok(untold);
        }
        let told = recorded.await;
        self.logged.on_disk(record).await;
        told.map_err(|_| Unrecorded::Bug("it was not seen to its end"))
    }

    async fn recorded(
        self: &Arc<Self>,
        book: &Book,
        call: Option<CallId>,
        pending: Pending<ToClient>,
    ) -> ToClient {
        let told = self.settled(book, pending).await;
        if let Some(call) = call {
            if !matches!(told.say, ToClient::Refused { .. }) {
                book.hear(call);
            }
        }
        self.act(book, told)
    }

    pub(crate) async fn register(
        &self,
        subject: &str,
        durability: Durability,
    ) -> Result<ToClient, Unrecorded> {
        let book = self.book_for(durability);
        let passing = durability == Durability::Auto;
        let message = FromClient::Register { passing };
        let pending = book.ask(|ledger| respond::to_client(ledger, subject, &message))?;
        let told = book.recorded(pending).await;
        if let ToClient::Registered { client } = told.say {
            let sequence = 0;
            book.hear(CallId { client, sequence });
            if durability == Durability::Record {
                lock(&self.records).insert(client);
            }
        }
        Ok(told.say)
    }

    /// Waits until what follows may be done (P23): processes of this host end with the machine, and know nothing that it forgets.
    async fn settled<T>(&self, book: &Book, pending: Pending<T>) -> Told<T> {
        match self.setup.elsewhere {
            true => book.recorded(pending).await,
            // Said ahead of the next call, which would wait for a disk that this one asks for.
            false if pending.erases() => book.recorded_in_time(pending).await,
            false => book.written(pending).await,
        }
    }

    /// Does what has to be done, and lets those know who wait.
    fn act<T>(self: &Arc<Self>, book: &Book, told: Told<T>) -> T {
        for action in told.actions {
            self.one(book, action);
        }
        for call in told.changed {
            if let Some(live) = self.live(call) {
                live.changes.send_modify(|count| *count += 1);
            }
        }
        told.say
    }

    fn one(self: &Arc<Self>, book: &Book, action: Action) {
        match action {
            Action::Place { .. } => self.place(book),
            Action::Run { attempt, host, .. } => match host_number(&host) {
                Some(number) => self.run(attempt, number),
                None => self.end(attempt, gone_routine(), None),
            },
            // A worker sees it whenever it gets to this call, and in no other.
            Action::Cancel { attempt, .. } => {
                if let Some(live) = self.live(attempt.call) {
                    live.cancelled.send_replace(true);
                }
            }
            Action::Leave { attempt, host } => {
                if let Some(number) = host_number(&host) {
                    // A worker that has gone has ended what it had.
                    let _ = self.shop.pool.ask(number, Ask::Migrate(attempt));
                }
            }
            // By the running time of the site, now and then.
            Action::Expire { .. } => {}
            Action::Erase { call } => self.erase(call),
        }
    }

    /// A call that is wanted on this host can begin there.
    pub(crate) fn may_begin_on(&self, host: &str) -> Result<(), Refusal> {
        let hosts = self.shop.batch.hosts();
        match rerun::no_pilot("calls", host, &hosts) {
            None => Ok(()),
            Some(message) => Err(Refusal::new("rpc_no_host", message)),
        }
    }

    /// Bytes of this client's calls are to outlive the machine.
    pub(crate) fn is_synced(&self, client: u64) -> bool {
        self.book(client).is_logged() && !lock(&self.records).contains(&client)
    }

    /// A block of a result that is kept.
    pub(crate) async fn part(&self, call: &Call, number: u64) -> io::Result<Bytes> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let Stage::Kept(Outcome::Result { out_bytes, .. }) = &call.stage else {
            return Err(gone());
        };
        let block_bytes = call.invocation.block_bytes;
        let offset = number.saturating_mul(block_bytes);
        let bytes = out_bytes.saturating_sub(offset).min(block_bytes);
        let live = self.live(call.id).ok_or_else(gone)?;
        let held = lock(&live.result).clone().ok_or_else(gone)?;
        match held {
            Held::Memory(_) => held.read(offset, bytes),
            Held::File(_) if bytes <= INLINE_BYTES && self.pace.is_quick() => {
                self.pace.of(|| held.read(offset, bytes))
            }
            Held::File(_) => tokio::task::spawn_blocking(move || held.read(offset, bytes))
                .await
                .map_err(io::Error::other)?,
        }
    }
}

async fn look_now_and_then<B: BatchSystem>(calls: Weak<Inner<B>>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match calls.upgrade() {
            Some(calls) => calls.look().await,
            None => return,
        }
    }
}

/// Places calls when a process has gone: one of another routine may take its place.
async fn place_when_freed<B: BatchSystem>(calls: Weak<Inner<B>>, pool: Arc<Pool>) {
    loop {
        pool.freed().await;
        let Some(calls) = calls.upgrade() else { return };
        calls.place(&calls.logged);
        calls.place(&calls.volatile);
    }
}

fn unusable(error: &dyn fmt::Display) -> Refusal {
    Refusal::new(
        "rpc_registry",
        format!("the site's registry of routines cannot be used: {error}"),
    )
}

impl Live {
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What its routine asks its caller's functions now, and in which attempt.
    pub(crate) fn asked(&self) -> Option<(u32, Asked)> {
        self.asked.now()
    }

    pub(crate) fn arriving(&self) -> &Arriving {
        &self.arriving
    }

    /// Another attempt begins where the one before it was, and not anew.
    pub(crate) fn goes_on(&self) -> bool {
        let order = self.order.as_ref();
        order.is_some_and(|order| order.recovery() != Recovery::Restart)
    }

    /// Neither arguments nor a result, answers of callbacks or checkpoints.
    fn has_no_files(&self) -> bool {
        !self.arriving.is_file()
            && matches!(*lock(&self.result), Some(Held::Memory(_)) | None)
            && self.asked.kept_nothing()
            && !self.goes_on()
    }
}

//! What the batch systems of engines have in common (spec/jobs/engines.md): an attempt is handed over under a tag, its runner
//! tells its end itself, and the engine is asked where there is no runner to be reached. There is no record of what was
//! handed over besides the engine's own: after a crash it is asked for the tag.
//!
//! Not here: any engine's words.

mod bells;
pub mod drained;
mod follow;
pub mod order;
pub mod program;
pub mod seen;
pub mod tool;

use crate::able::{Able, only};
use crate::spool;
use bells::Bells;
use follow::{Answer, Live};
use kumiko_job::attempt::{AttemptCommand, AttemptSpec};
use kumiko_job::contract::{AttemptSink, BatchError, BatchSystem, Refusal};
use kumiko_job::description::JobDescription;
use kumiko_job::id::AttemptId;
use order::{Order, tag};
use program::Program;
use seen::{Row, Seen};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Between two questions, while somebody waits for an engine's word: what it is asked for it mostly cannot tell sooner.
const PERIOD: Duration = Duration::from_secs(2);
/// At least, when a word is wanted at once: what many want at the same time is one question.
const GAP: Duration = Duration::from_millis(100);
/// An engine is busy with our questions for one part in so many at most.
const SHARE: u32 = 20;
/// The file in the root that holds the site's part of all tags.
const SITE: &str = "site";

/// Why an engine's command came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The engine answered, and it was no.
    #[error("{words}")]
    Refused { words: String },
    /// Nobody answered, or not in time, or not so that it could be understood.
    #[error("{tried} was of no use: {cause}")]
    Unreachable { tried: String, cause: String },
}

impl Trouble {
    pub fn unreachable(tried: &str, cause: String) -> Trouble {
        Trouble::Unreachable {
            tried: tried.to_owned(),
            cause,
        }
    }
}

/// An engine's commands, and what its words mean. Each may be called at any time, and again.
pub trait Engine: Send + Sync + 'static {
    const NAME: &'static str;
    const ABLE: Able;
    /// Hands an attempt over; accepted when it returns.
    fn submit(&self, order: &Order) -> impl Future<Output = Result<(), Trouble>> + Send;
    /// All attempts of a site that the engine knows of, by one question.
    fn look(&self, site: &str) -> impl Future<Output = Result<Vec<Row>, Trouble>> + Send;
    /// Ends what has this tag, however often it is there. None is fine.
    fn cancel(&self, tag: &str) -> impl Future<Output = Result<(), Trouble>> + Send;
    /// What of the site's waits is to begin on none of these hosts, and may on any other. Which of them the engine has.
    fn avoid(
        &self,
        site: &str,
        hosts: &BTreeSet<String>,
    ) -> impl Future<Output = Result<BTreeSet<String>, Trouble>> + Send;
    /// The hosts of its pilots that take attempts.
    fn hosts(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
    /// Whether a pilot there has this.
    fn is_on(&self, _id: AttemptId, _host: &str) -> bool {
        false
    }
    /// Whether a pilot has this.
    fn is_piloted(&self, _id: AttemptId) -> bool {
        false
    }
    /// The host of the pilot that has this, if the engine takes the slot there back.
    fn recalled(&self, _id: AttemptId) -> Option<String> {
        None
    }
    /// Comes back once it takes one back.
    fn recalls(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
    /// A file in the spool that the engine writes what it does to.
    const LOG: Option<&'static str> = None;
    /// What that file says; None: nothing yet.
    fn read(&self, _log: &[u8]) -> Option<Seen> {
        None
    }
}

/// Why an attempt is to leave its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// The site drains it.
    Drained(String),
    /// The engine takes the slot there back, and will end what is in it.
    Recalled(String),
}

/// The batch system of a site whose attempts an engine runs. Needs a tokio runtime around it. Dropping it leaves the
/// attempts to themselves: a later one with the same root finds them by their tags.
pub struct Cluster<E: Engine> {
    shared: Arc<Shared<E>>,
    tasks: [AbortHandle; 2],
}

/// What the attempts of one `Cluster` have in common.
struct Shared<E> {
    engine: E,
    root: PathBuf,
    runner: Program,
    site: String,
    sink: Arc<dyn AttemptSink>,
    live: Mutex<HashMap<AttemptId, Arc<Live>>>,
    bells: Bells,
    /// Number of the last question that was begun.
    round: AtomicU64,
    /// Somebody wants an answer now.
    wanted: Notify,
    /// The last question had no answer, which was said.
    unanswered: AtomicBool,
}

impl<E: Engine> Cluster<E> {
    /// `site`: of [`site`]. `root`: holds the spools, and is there on every host of the engine; `runner`: kumiko-run.
    pub fn new(
        engine: E,
        site: String,
        root: PathBuf,
        runner: impl Into<Program>,
        sink: Arc<dyn AttemptSink>,
    ) -> Self {
        let shared = Arc::new(Shared {
            engine,
            root,
            runner: runner.into(),
            site,
            sink,
            live: Mutex::default(),
            bells: Bells::new(),
            round: AtomicU64::new(0),
            wanted: Notify::new(),
            unanswered: AtomicBool::new(false),
        });
        let asking = tokio::spawn(keep_asking(Arc::downgrade(&shared)));
        let bells = Arc::clone(&shared);
        let ringing = tokio::spawn(async move { bells.bells.ring_all().await });
        Self {
            shared,
            tasks: [asking.abort_handle(), ringing.abort_handle()],
        }
    }

    /// Drains these hosts, and no others any more (spec/jobs E20): which of them the engine has.
    ///
    /// # Errors
    /// The engine does not answer: nothing is changed.
    pub async fn drain(&self, hosts: &BTreeSet<String>) -> Result<BTreeSet<String>, Trouble> {
        self.shared.engine.avoid(&self.shared.site, hosts).await
    }

    /// The host that the attempt is to leave, as the engine said last.
    pub fn leaves(&self, id: AttemptId) -> Option<Leaves> {
        let drained = || self.shared.live().get(&id)?.leaving();
        match self.shared.engine.recalled(id) {
            Some(host) => Some(Leaves::Recalled(host)),
            None => drained().map(Leaves::Drained),
        }
    }

    /// Comes back once there are more with [`Leaves::Recalled`].
    pub async fn recalls(&self) {
        self.shared.engine.recalls().await;
    }

    /// How many jobs of the engine the site has on each of these hosts.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn on(&self, hosts: &BTreeSet<String>) -> Result<BTreeMap<String, u64>, Trouble> {
        let rows = self.shared.ask().await?;
        let on = |host: &String| {
            let there = |row: &&Row| !matches!(row.seen, Seen::Over(_)) && row.hosts.contains(host);
            (host.clone(), rows.iter().filter(there).count() as u64)
        };
        Ok(hosts.iter().map(on).collect())
    }
}

/// The site's part of all tags, as it stands in the root of its spools: made with that once, so that two sites of one account do not take each other's attempts for theirs.
pub fn site(root: &Path) -> io::Result<String> {
    let path = root.join(SITE);
    let made = || -> io::Result<String> {
        spool::private_dir(root, root).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })?;
        let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let site: String = random
            .chars()
            .filter(char::is_ascii_hexdigit)
            .take(12)
            .collect();
        let new = root.join("site.new");
        std::fs::write(&new, &site)?;
        std::fs::File::open(&new)?.sync_all()?;
        std::fs::rename(new, &path)?;
        Ok(site)
    };
    match std::fs::read_to_string(&path) {
        Ok(site) if !site.is_empty() && site.chars().all(|c| c.is_ascii_hexdigit()) => Ok(site),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not what a site wrote there", path.display()),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => made(),
        Err(error) => Err(error),
    }
}

impl<E: Engine> Shared<E> {
    fn spool(&self, id: AttemptId) -> PathBuf {
        self.root.join(id.to_string())
    }

    fn live(&self) -> MutexGuard<'_, HashMap<AttemptId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the first question that begins after this.
    fn next_round(&self) -> u64 {
        self.round.load(Ordering::Acquire) + 1
    }

    /// The attempt's entry, which is new if the second value says so.
    fn enter(&self, id: AttemptId) -> (Arc<Live>, bool) {
        let mut live = self.live();
        if let Some(known) = live.get(&id) {
            return (Arc::clone(known), false);
        }
        let new = Arc::new(Live::new(id, tag(&self.site, id)));
        live.insert(id, Arc::clone(&new));
        (new, true)
    }

    async fn ask(&self) -> Result<Vec<Row>, Trouble> {
        let round = self.round.fetch_add(1, Ordering::AcqRel) + 1;
        let answer = self.engine.look(&self.site).await;
        let all: Vec<Arc<Live>> = self.live().values().cloned().collect();
        match &answer {
            Ok(rows) => {
                if self.unanswered.swap(false, Ordering::Relaxed) {
                    tracing::info!(engine = E::NAME, "the engine answers again");
                }
                let mut by_tag: HashMap<&str, &Row> = HashMap::with_capacity(rows.len());
                for row in rows {
                    let best = by_tag.entry(&row.tag).or_insert(row);
                    if row.seen > best.seen {
                        *best = row;
                    }
                }
                for live in all {
                    let row = by_tag.get(live.tag());
                    live.set_leaving(row.and_then(|row| row.leaves.clone()));
                    let answer = match row {
                        Some(row) => Answer::Seen(row.seen.clone()),
                        None => Answer::Absent,
                    };
                    live.tell(round, answer);
                }
            }
            Err(trouble) => {
                if !self.unanswered.swap(true, Ordering::Relaxed) {
                    tracing::warn!(engine = E::NAME, %trouble, "the engine does not say what becomes of its jobs");
                }
                for live in all {
                    live.tell(round, Answer::None(trouble.to_string()));
                }
            }
        }
        answer
    }
}

async fn keep_asking<E: Engine>(shared: Weak<Shared<E>>) {
    loop {
        let begun = Instant::now();
        let Some(now) = shared.upgrade() else {
            return;
        };
        let any = now.live().values().any(|live| live.wants_word());
        if any {
            let _ = now.ask().await; // who waits for an answer was told
            let pause = PERIOD.max(begun.elapsed() * SHARE);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = async { tokio::time::sleep(GAP).await; now.wanted.notified().await } => {}
            }
        } else {
            now.wanted.notified().await;
        }
    }
}

impl<E: Engine> Drop for Cluster<E> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.shared
            .live()
            .drain()
            .for_each(|(_, live)| live.leave());
    }
}

impl<E: Engine> std::fmt::Debug for Cluster<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Cluster");
        shown.field("engine", &E::NAME);
        shown.field("root", &self.shared.root);
        shown.field("live", &self.shared.live().len());
        shown.finish_non_exhaustive()
    }
}

impl<E: Engine> BatchSystem for Cluster<E> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn admits(&self, description: &JobDescription) -> Result<(), Refusal> {
        only(description, &E::ABLE, E::NAME)
    }

    fn waits(&self, id: AttemptId) -> Option<String> {
        let live = self.shared.live().get(&id).cloned()?;
        live.waits(E::NAME)
    }

    fn hosts(&self) -> BTreeSet<String> {
        self.shared.engine.hosts()
    }

    fn is_on(&self, id: AttemptId, host: &str) -> bool {
        self.shared.engine.is_on(id, host)
    }

    fn is_piloted(&self, id: AttemptId) -> bool {
        self.shared.engine.is_piloted(id)
    }

    async fn start(&self, spec: AttemptSpec) -> Result<(), BatchError> {
        let (live, _) = self.shared.enter(spec.id);
        live.start(&self.shared, spec).await
    }

    async fn adopt(&self, id: AttemptId) {
        let (live, new) = self.shared.enter(id);
        if new {
            live.adopt(&self.shared);
        }
    }

    async fn command(&self, id: AttemptId, command: AttemptCommand) {
        let live = self.shared.live().get(&id).cloned();
        if let Some(live) = live {
            live.command(command).await;
        }
    }

    fn spool(&self, id: AttemptId) -> PathBuf {
        self.shared.spool(id)
    }

    async fn forget(&self, id: AttemptId) {
        self.command(id, AttemptCommand::Settled).await;
        let shared = Arc::clone(&self.shared);
        let removed = tokio::task::spawn_blocking(move || spool::remove(&shared.root, id)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(attempt = %id, %error, "a spool is not removed");
        }
    }
}

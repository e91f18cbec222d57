//! One process of a routine, from its start to its end: it is an attempt of a batch system, so that a runner stands beside it, its
//! policy holds, and it outlives the site (spec/rpc P60 to P67). It owns no socket: words go in by its stdin, answers come by its
//! stdout, arguments and results lie in files that it maps. `answers`: what it says;
//! `checkpoints`: what it leaves; `given`: what it is given to do, and whom it tells of it. Not here: which worker computes what (`pool`), what follows (`calls`).

mod answers;
mod checkpoints;
mod given;
mod silence;
mod words;

use self::answers::Heard;
pub use self::given::{Done, Follow, Order, Over, Run, Seen, unheard};
use self::given::{is_cancelled, next_said};
use self::silence::{BEAT_MS, LOOK, Silence};
use self::words::Words;
use crate::pool::{Ask, Pool};
use crate::store::{Held, Store, call_file};
use kumiko_call::event::End;
use kumiko_idl::Placed;
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, Outcome, OutputStream};
use kumiko_job::contract::{AttemptSink, BatchError, BatchSystem};
use kumiko_job::description::{OutputMode, Resources, Stdin};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_linux::{Dir, spooling};
use kumiko_policy::{Access, GuestPath, Origin, Policy, Real, Rule};
use kumiko_wire::routine::{self, SMALL_BYTES};
use std::collections::{BTreeMap, HashMap};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// Where a routine's program sees arguments: read-only, so that those of a call that is tried again are those that were sent.
const ARGUMENTS: &str = "/arguments";
/// In a worker's folder, where its guest cannot reach: the digest of its program.
const PROGRAM: &str = "program";
/// A process that had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(60);
/// For a process to end by itself when no more calls come.
const END_WITHIN: Duration = Duration::from_secs(5);
/// For a process that a site has left alone: as long as it waits for another call by itself (spec/rpc P64).
const ALONE_MS: u64 = 600_000;
/// Of what a routine prints and nobody has taken, a runner keeps so much: sixteen times what is taken at once.
const QUOTA_BYTES: u64 = 4 << 20;
/// A call that computes for longer is recorded as started: shorter ones need no event more.
const STARTED_AFTER: Duration = Duration::from_millis(200);

/// What all workers have in common.
#[derive(Debug)]
pub struct Shop<B> {
    pub batch: B,
    pub pool: Arc<Pool>,
    pub store: Arc<Store>,
    pub reports: Arc<Reports>,
    /// Holds a folder for each worker.
    pub root: PathBuf,
    pub grace_ms: u64,
    pub time_limit_ms: Option<u64>,
    /// Processes run on other hosts.
    pub elsewhere: bool,
}

/// Passes reports on to the worker whose they are.
#[derive(Debug, Default)]
pub struct Reports {
    to: Mutex<HashMap<u64, UnboundedSender<AttemptReport>>>,
}

impl Reports {
    fn of(&self, number: u64) -> UnboundedReceiver<AttemptReport> {
        let (to, reports) = unbounded_channel();
        let mut all = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(number, to);
        reports
    }

    fn forget(&self, number: u64) {
        let mut all = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&number);
    }
}

impl AttemptSink for Reports {
    fn report(&self, id: AttemptId, report: AttemptReport) {
        let all = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(to) = all.get(&id.job.0) {
            // A worker that has gone has no use for it.
            let _ = to.send(report);
        }
    }
}

/// How a worker begins.
#[derive(Debug)]
pub enum Begin {
    New(Order, Box<Run>),
    /// It runs already and may be computing this, which it was told if the second value says so.
    Adopt(Box<Run>, bool),
    /// It is left of another process of the site and is to end.
    Leave,
}

/// Starts a worker's life. Its number was promised by the pool, or is that of an older process.
pub fn begin<B: BatchSystem>(shop: &Arc<Shop<B>>, number: u64, begin: Begin) {
    let (asks, asked) = unbounded_channel();
    match &begin {
        Begin::New(order, _) => shop.pool.enter(number, Some(order), asks),
        Begin::Adopt(..) | Begin::Leave => shop.pool.adopt(number, asks),
    }
    let worker = Worker {
        shop: Arc::clone(shop),
        number,
        asked,
        reports: shop.reports.of(number),
        stdout: None,
        words: Words::default(),
        printed: [0, 0],
        read: 0,
        consumed: [0, 0],
        ended: None,
        silence: Silence::default(),
        lost: false,
        waiting: Vec::new(),
    };
    tokio::spawn(worker.live(begin));
}

fn ended_by(what: &str, error: &io::Error) -> End {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => End::NoSpace,
        _ => End::Killed {
            cause: format!("{what}: {error}"),
        },
    }
}

/// The attempt that a worker of this number is.
pub fn attempt(number: u64) -> AttemptId {
    AttemptId {
        job: JobId(number),
        epoch: 1,
    }
}

/// Whether it asks for the end of this call here, which goes on elsewhere then.
fn is_to_leave(ask: &Ask, run: &Run) -> bool {
    match ask {
        Ask::Leave { any } => *any || run.checkpoints,
        Ask::Migrate(attempt) => *attempt == run.attempt,
        Ask::Run(_) | Ask::End => false,
    }
}

struct Worker<B> {
    shop: Arc<Shop<B>>,
    number: u64,
    asked: UnboundedReceiver<Ask>,
    reports: UnboundedReceiver<AttemptReport>,
    /// The spool's.
    stdout: Option<File>,
    words: Words,
    /// Bytes in the spool of stdout and stderr, and those that may be freed.
    printed: [u64; 2],
    consumed: [u64; 2],
    /// Bytes of stdout that were looked at.
    read: u64,
    ended: Option<Outcome>,
    silence: Silence,
    /// Its host was given up: whatever it does now, nobody listens.
    lost: bool,
    /// Answers that are not complete.
    waiting: Vec<u8>,
}

impl<B: BatchSystem> Worker<B> {
    fn id(&self) -> AttemptId {
        attempt(self.number)
    }

    fn folder(&self) -> PathBuf {
        self.shop.root.join(self.number.to_string())
    }

    /// The process's own.
    fn job(&self) -> PathBuf {
        self.folder().join("job")
    }

    async fn live(mut self, begin: Begin) {
        match begin {
            Begin::New(order, mut run) => match self.start(&order, run.wanted_on.clone()).await {
                Ok(()) => self.compute(*run).await,
                Err(end) => {
                    self.ended = Some(Outcome::Cancelled);
                    run.over(Done::ended(end), None);
                }
            },
            Begin::Adopt(run, told) => self.adopt(*run, told).await,
            Begin::Leave => {
                self.shop.batch.adopt(self.id()).await;
                self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
            }
        }
        let mut idle = Instant::now();
        while self.ended.is_none() && !self.lost {
            if self.silence.is_lost() && self.shop.pool.retire(self.number) {
                self.lost = true;
                break;
            }
            tokio::select! {
                ask = self.asked.recv() => match ask {
                    Some(Ask::Run(run)) => {
                        self.compute(*run).await;
                        idle = Instant::now();
                    }
                    // Having nothing to do it is told to end.
                    Some(Ask::Leave { .. } | Ask::Migrate(_)) => {}
                    Some(Ask::End) | None => break,
                },
                report = self.reports.recv() => self.note(report),
                () = tokio::time::sleep_until(idle + IDLE) => {
                    if self.shop.pool.retire(self.number) {
                        break;
                    }
                    idle = Instant::now();
                }
                () = tokio::time::sleep(LOOK), if self.silence.is_expected() => self.silence.look(),
            }
        }
        self.end().await;
    }

    async fn command(&self, command: AttemptCommand) {
        self.shop.batch.command(self.id(), command).await;
    }

    async fn start(&mut self, order: &Order, wanted_on: Option<String>) -> Result<(), End> {
        let spec = self
            .prepare(order, wanted_on)
            .map_err(|error| ended_by("its folder cannot be made", &error))?;
        self.shop
            .batch
            .start(spec)
            .await
            .map_err(|error| match error {
                BatchError::Spool { .. } => End::NoSpace,
                _ => End::Killed {
                    cause: error.to_string(),
                },
            })
    }

    fn prepare(&self, order: &Order, wanted_on: Option<String>) -> io::Result<AttemptSpec> {
        let folder = self.folder();
        let job_directory = self.job();
        let arguments = folder.join("arguments");
        for one in [&job_directory, &arguments] {
            DirBuilder::new().recursive(true).mode(0o700).create(one)?;
        }
        std::fs::write(folder.join(PROGRAM), &order.routine.digest)?;
        // A copy: the routine may write to its own folder.
        std::fs::copy(&order.routine.program, job_directory.join("routine"))?;
        Ok(AttemptSpec {
            id: self.id(),
            executable: format!("{}/routine", kumiko_policy::JOB_DIRECTORY),
            arguments: vec![ARGUMENTS.to_owned()],
            environment: BTreeMap::new(),
            directory: None,
            job_directory,
            stdin: Stdin::Live,
            output: OutputMode::Flow,
            terminal: None,
            count: 1,
            mpi: None,
            time_limit_ms: self.shop.time_limit_ms,
            resources: Resources::default(),
            grace_ms: self.shop.grace_ms,
            output_quota_bytes: QUOTA_BYTES,
            policy: with_arguments(&order.policy, &arguments)?,
            mechanism: None,
            hold_ms: None,
            alone_ms: Some(ALONE_MS),
            beat_ms: self.shop.elsewhere.then_some(BEAT_MS),
            dumps: None,
            wanted_on,
        })
    }

    /// Tells the process, and waits for its answer or its end.
    async fn compute(&mut self, run: Run) {
        if let Err(error) = self.give_checkpoint(&run).await {
            tracing::warn!(attempt = %run.attempt, %error, "a checkpoint cannot be resumed from");
            return self.done(run, Done::ended(End::BadCheckpoint));
        }
        let linked = match self.tell(&run) {
            Ok(linked) => linked,
            Err(error) => {
                let end = ended_by("its arguments cannot be given", &error);
                let done = self.unfinished(&run, end).await;
                return self.done(run, done);
            }
        };
        let end = self.answered(run).await;
        if let Some(linked) = linked {
            let _ = std::fs::remove_file(linked);
        }
        if let Some((run, done)) = end {
            let over =
                (run.checkpoints && matches!(done, Done::Finished(..))).then_some(run.attempt);
            self.done(run, done);
            if let Some(attempt) = over {
                self.drop_checkpoints(attempt).await;
            }
        }
    }

    fn done(&self, mut run: Run, done: Done) {
        let is_free = self.ended.is_none() && !self.lost;
        run.over(done, is_free.then_some(self.number));
    }

    fn tell(&mut self, run: &Run) -> io::Result<Option<PathBuf>> {
        let mut said = routine::call(run.attempt, &run.plan);
        let mut linked = None;
        if run.plan.in_bytes <= SMALL_BYTES {
            said.extend_from_slice(&run.arguments.read(0, run.plan.in_bytes)?);
        } else {
            let Held::File(path) = &run.arguments else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let link = self
                .folder()
                .join("arguments")
                .join(call_file(run.attempt.call));
            // What an attempt before left here.
            let _ = std::fs::remove_file(&link);
            std::fs::hard_link(path, &link)?;
            linked = Some(link);
        }
        self.words.add(said);
        Ok(linked)
    }

    /// A runner says that it has started on each new connection: what went over the one before may be lost (spec/jobs R23, R25), also
    /// that it is to end.
    async fn say_again(&mut self, is_to_end: bool) {
        if self.words.go_back() {
            self.cancel_if(is_to_end).await;
        }
    }

    async fn cancel_if(&self, is_to_end: bool) {
        if is_to_end {
            let grace_ms = self.shop.grace_ms;
            self.command(AttemptCommand::Cancel { grace_ms }).await;
        }
    }

    async fn answered(&mut self, mut run: Run) -> Option<(Run, Done)> {
        let mut started = Box::pin(tokio::time::sleep(STARTED_AFTER));
        let mut told = false;
        let mut cancelling = false;
        let mut leaving = run.leaving;
        self.cancel_if(leaving).await;
        self.silence.begin();
        loop {
            match self.hear(&run) {
                Err(end) => {
                    self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
                    self.until_ended().await;
                    let done = self.unfinished(&run, end).await;
                    return Some((run, done));
                }
                Ok(Some(Heard::Result(result))) => {
                    let done = self.result(&run, result).await;
                    return Some((run, done));
                }
                Ok(Some(Heard::Fails(end))) => return Some((run, Done::ended(end))),
                Ok(Some(Heard::Asks(asked))) => {
                    run.follower.see(Seen::Asks(asked));
                    continue;
                }
                Ok(None) => {}
            }
            if let Some(outcome) = &self.ended {
                let end = match leaving {
                    true => End::Preempted,
                    false => self.end_of(outcome),
                };
                let done = self.unfinished(&run, end).await;
                return Some((run, done));
            }
            if let Some(done) = self.given_up(&mut run).await {
                return Some((run, done));
            }
            let (batch, id) = (&self.shop.batch, attempt(self.number));
            tokio::select! {
                report = self.reports.recv() => self.note(report),
                // A process that an engine has not begun yet takes it later, and one whose runner stands still perhaps never.
                () = self.words.say(batch, id) => {}
                () = tokio::time::sleep(LOOK), if self.silence.is_expected() => self.silence.look(),
                was_cancelled = is_cancelled(&mut run.cancelled), if !cancelling => {
                    cancelling = true;
                    if was_cancelled {
                        let grace_ms = self.shop.grace_ms;
                        self.command(AttemptCommand::Cancel { grace_ms }).await;
                    }
                }
                (number, data) = next_said(&mut run.said) => {
                    self.words.add(routine::said(run.attempt, number, &data));
                }
                // One that computes is asked for nothing else; the site goes down and leaves it alone.
                ask = self.asked.recv() => {
                    if is_to_leave(&ask?, &run) && !leaving && !cancelling {
                        leaving = true;
                        self.cancel_if(leaving).await;
                    }
                }
                () = &mut started, if !told && self.words.are_taken() => {
                    told = true;
                    run.follower.see(Seen::Started);
                }
            }
            let is_to_end = leaving || *run.cancelled.borrow();
            self.say_again(is_to_end).await;
            self.free();
        }
    }

    /// Says what is to be thought of its host; something, if it is given up.
    async fn given_up(&mut self, run: &mut Run) -> Option<Done> {
        if let Some(doubt) = self.silence.news() {
            run.follower.see(Seen::Doubt(doubt));
        }
        self.lost = self.silence.is_lost();
        match self.lost {
            true => Some(Done::Lost(self.kept(run).await)),
            false => None,
        }
    }

    /// One that was told its call by an older process of the site, or was not.
    async fn adopt(&mut self, mut run: Run, told: bool) {
        self.shop.batch.adopt(self.id()).await;
        // The offsets of its words are not known any more: it takes no other call.
        let spool = self.shop.batch.spool(self.id()).join("stdout");
        let from = File::open(&spool).and_then(spooling::first_data);
        self.read = from.ok().flatten().unwrap_or(0);
        // Whether it waits for its caller's function is not known either: the next one has the answers that were given.
        let told = told && !run.plan.places.contains(&Placed::Callback);
        let mut cancelling = false;
        let mut leaving = run.leaving;
        self.cancel_if(leaving).await;
        self.silence = Silence::expecting(self.shop.elsewhere && told);
        loop {
            match self.find_answer(&run) {
                Some(Heard::Result(result)) => {
                    let done = self.result(&run, result).await;
                    run.over(done, None);
                    break;
                }
                Some(Heard::Fails(end)) => {
                    run.over(Done::ended(end), None);
                    break;
                }
                Some(Heard::Asks(_)) | None => {}
            }
            if let Some(outcome) = &self.ended {
                let end = match leaving {
                    true => End::Preempted,
                    false if told => self.end_of(outcome),
                    // Whatever it did, that was without its site's words.
                    false => End::Killed {
                        cause: "its site died".to_owned(),
                    },
                };
                let done = self.unfinished(&run, end).await;
                run.over(done, None);
                return;
            }
            // Whether it has heard of the call is not known: another process computes it, unless it has answered.
            if !told {
                self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
            }
            if let Some(done) = self.given_up(&mut run).await {
                run.over(done, None);
                return;
            }
            tokio::select! {
                report = self.reports.recv() => self.note(report),
                () = tokio::time::sleep(LOOK), if self.silence.is_expected() => self.silence.look(),
                was_cancelled = is_cancelled(&mut run.cancelled), if !cancelling => {
                    cancelling = true;
                    if was_cancelled {
                        self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
                    }
                }
                ask = self.asked.recv() => match ask {
                    None => return,
                    Some(ask) if is_to_leave(&ask, &run) && !leaving && !cancelling => {
                        leaving = true;
                        self.cancel_if(leaving).await;
                    }
                    Some(_) => {}
                },
            }
        }
        self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
    }

    fn note(&mut self, report: Option<AttemptReport>) {
        if let Some(report) = &report {
            self.silence.hear(report);
        }
        match report {
            Some(AttemptReport::Output { stream, length }) => {
                let at = usize::from(stream == OutputStream::Stderr);
                if let Some(printed) = self.printed.get_mut(at) {
                    *printed = length.max(*printed);
                }
            }
            Some(AttemptReport::Started { .. }) => self.words.doubt(),
            Some(AttemptReport::StdinTaken { offset }) => self.words.take(offset),
            Some(AttemptReport::Ended(outcome)) => self.ended = Some(outcome),
            Some(_) => {}
            None => {
                self.ended.get_or_insert(Outcome::Lost {
                    message: "the site has lost sight of it".to_owned(),
                });
            }
        }
    }

    async fn until_ended(&mut self) {
        while self.ended.is_none() {
            let report = self.reports.recv().await;
            self.note(report);
        }
    }

    /// First out of what is picked; then what was picked meanwhile is given back.
    async fn leave_pool(&mut self) {
        self.shop.pool.gone(self.number);
        self.asked.close();
        while let Some(ask) = self.asked.recv().await {
            if let Ask::Run(run) = ask {
                unheard(*run);
            }
        }
    }

    async fn end(mut self) {
        if self.lost {
            // Another takes its place; it is told to end as soon as it can be, and its folder stays until it has.
            self.leave_pool().await;
            self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
            self.until_ended().await;
        } else if self.ended.is_none() {
            let offset = self.words.end();
            let ended = async {
                self.command(AttemptCommand::StdinEnd { offset }).await;
                self.until_ended().await;
            };
            if tokio::time::timeout(END_WITHIN, ended).await.is_err() {
                self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
                self.until_ended().await;
            }
        }
        self.leave_pool().await;
        self.shop.batch.forget(self.id()).await;
        self.shop.reports.forget(self.number);
        let (root, number) = (self.shop.root.clone(), self.number.to_string());
        let removed =
            tokio::task::spawn_blocking(move || Dir::open(&root)?.remove_all(&number)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(worker = self.number, %error, "a routine's folder is not removed");
        }
    }
}

/// The policy, with the folder of arguments to be read.
pub(crate) fn with_arguments(policy: &Policy, folder: &Path) -> io::Result<Policy> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let path = GuestPath::new(ARGUMENTS).map_err(|error| wrong(&error.to_string()))?;
    let root = folder
        .to_str()
        .ok_or_else(|| wrong("the site's folder has a name that is no text"))?;
    let root = GuestPath::new(root).map_err(|error| wrong(&error.to_string()))?;
    let mut policy = policy.clone();
    policy.paths.retain(|rule| rule.path != path);
    policy.paths.push(Rule {
        path,
        access: Access::Read {
            real: Real::Host {
                root,
                beneath: String::new(),
            },
            optional: false,
        },
        execute: true,
        origin: Origin {
            source: "arguments of calls".to_owned(),
            line: 0,
        },
    });
    policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(policy)
}

//! One process of a routine, from its start to its end: it is an attempt of a batch system, so that a runner stands beside it, its
//! policy holds, and it outlives the site (spec/rpc P60 to P67). It owns no socket: words go in by its stdin, answers come by its
//! stdout, arguments and results lie in files that it maps. `answers`: what it says;
//! `checkpoints`: what it leaves; `given`: what it is given to do, and whom it tells of it; `prepare`: what it begins with. Not here: which worker computes what (`pool`), what follows (`calls`).

mod answers;
mod checkpoints;
mod given;
mod prepare;
mod silence;
mod words;

use self::answers::Heard;
pub use self::given::{Done, Follow, Order, Over, Recovery, Run, Seen, unheard};
use self::given::{is_cancelled, next_said};
use self::prepare::Unprepared;
pub(crate) use self::prepare::with_arguments;
use self::silence::{LOOK, Silence};
use self::words::Words;
use crate::dumps::{JOB, told_in};
use crate::pool::{Ask, Pool};
use crate::store::{Held, Store, call_file};
use kumiko_call::event::End;
use kumiko_call::id::AttemptId as CallAttempt;
use kumiko_idl::Placed;
use kumiko_job::attempt::{
    AttemptCommand, AttemptReport, DUMPED, NOT_DUMPED, Outcome, OutputStream,
};
use kumiko_job::contract::{AttemptSink, BatchError, BatchSystem};
use kumiko_job::id::{AttemptId, JobId};
use kumiko_linux::{Dir, spooling};
use kumiko_wire::routine::{self, SMALL_BYTES};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// In a worker's folder, where its guest cannot reach: the digest of its program.
const PROGRAM: &str = "program";
/// A process that had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(60);
/// For a process to end by itself when no more calls come.
const END_WITHIN: Duration = Duration::from_secs(5);
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
        told: None,
        dumps: None,
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
        Ask::Leave { any } => *any || run.recovery != Recovery::Restart,
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
    /// Of a process that went on from a dump: it answers this attempt, that before.
    told: Option<CallAttempt>,
    /// What its runner says of dumps.
    dumps: Option<String>,
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
        self.folder().join(JOB)
    }

    /// The attempt that the process was told, and answers.
    fn told(&self, run: &Run) -> CallAttempt {
        let told = self.told.filter(|told| told.call == run.attempt.call);
        told.unwrap_or(run.attempt)
    }

    /// Its process went on from a dump, and was told the call before.
    fn goes_on(&self, run: &Run) -> bool {
        self.told.is_some_and(|told| told.call == run.attempt.call)
    }

    async fn live(mut self, begin: Begin) {
        match begin {
            Begin::New(order, mut run) => match self.start(&order, &run).await {
                Ok(()) => self.compute(*run).await,
                Err(end) => {
                    self.ended = Some(Outcome::Cancelled);
                    let done = match run.recovery {
                        Recovery::Dump => self.unfinished(&run, end).await,
                        _ => Done::ended(end),
                    };
                    run.over(done, None);
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

    async fn start(&mut self, order: &Order, run: &Run) -> Result<(), End> {
        let spec = self.prepare(order, run).map_err(|error| match error {
            Unprepared::Folder(error) => ended_by("its folder cannot be made", &error),
            Unprepared::Dump(error) => {
                tracing::warn!(attempt = %run.attempt, %error, "a dump cannot be gone on from");
                End::BadCheckpoint
            }
        })?;
        if self.shop.elsewhere {
            // On another host it may outlive this machine, whose next site is not to give its number again: calls need not be recorded.
            let root = Dir::open(&self.shop.root).and_then(|root| root.sync());
            root.map_err(|error| ended_by("its folder cannot be kept", &error))?;
        }
        if self.goes_on(run) {
            // They are a part of its memory.
            let given = self.give_arguments(run);
            given.map_err(|error| ended_by("its arguments cannot be given", &error))?;
        }
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

    /// Tells the process, and waits for its answer or its end.
    async fn compute(&mut self, run: Run) {
        if let Err(error) = self.give_checkpoint(&run).await {
            tracing::warn!(attempt = %run.attempt, %error, "a checkpoint cannot be resumed from");
            return self.done(run, Done::ended(End::BadCheckpoint));
        }
        if run.recovery == Recovery::Dump && !self.goes_on(&run) {
            // One that was being made when the call before was answered.
            self.drop_dumps().await;
        }
        if let Err(error) = self.tell(&run) {
            let end = ended_by("its arguments cannot be given", &error);
            let done = self.unfinished(&run, end).await;
            return self.done(run, done);
        }
        let linked = self.linked(&run);
        let end = self.answered(run).await;
        if let Some(linked) = linked {
            let _ = std::fs::remove_file(linked);
        }
        if let Some((run, done)) = end {
            let makes_some = run.recovery == Recovery::Checkpoint;
            let is_over = makes_some && matches!(done, Done::Finished(..));
            let over = is_over.then_some(run.attempt);
            // Before it is told another call, for its dumps would be taken for that one's.
            if run.recovery == Recovery::Dump && self.ended.is_none() {
                self.drop_dumps().await;
            }
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

    fn tell(&mut self, run: &Run) -> io::Result<()> {
        if self.goes_on(run) {
            return Ok(());
        }
        self.give_arguments(run)?;
        let mut said = routine::call(run.attempt, &run.plan);
        if run.plan.in_bytes <= SMALL_BYTES {
            said.extend_from_slice(&run.arguments.read(0, run.plan.in_bytes)?);
        }
        self.words.add(said);
        Ok(())
    }

    /// Where the process sees its arguments, if they do not stand beside the words.
    fn linked(&self, run: &Run) -> Option<PathBuf> {
        let name = call_file(run.attempt.call);
        let is_large = run.plan.in_bytes > SMALL_BYTES;
        is_large.then(|| self.folder().join("arguments").join(name))
    }

    fn give_arguments(&self, run: &Run) -> io::Result<()> {
        let Some(link) = self.linked(run) else {
            return Ok(());
        };
        let Held::File(path) = &run.arguments else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // What an attempt before left here.
        let _ = std::fs::remove_file(&link);
        std::fs::hard_link(path, link)
    }

    /// A runner says that it has started on each new connection: what went over the one before may be lost (spec/jobs R23, R25), also
    /// that it is to end.
    async fn say_again(&mut self, run: &Run, is_cancelled: bool, leaves: bool) {
        if !self.words.go_back() {
            return;
        }
        if is_cancelled {
            let grace_ms = self.shop.grace_ms;
            self.command(AttemptCommand::Cancel { grace_ms }).await;
        } else {
            self.leave_if(leaves, run).await;
        }
    }

    async fn leave_if(&self, leaves: bool, run: &Run) {
        if leaves {
            self.ask_for_checkpoint(run).await;
            let grace_ms = self.shop.grace_ms;
            self.command(AttemptCommand::Vacate { grace_ms }).await;
        }
    }

    async fn answered(&mut self, mut run: Run) -> Option<(Run, Done)> {
        let mut started = Box::pin(tokio::time::sleep(STARTED_AFTER));
        let mut told = false;
        let mut cancelling = false;
        let mut leaving = run.leaving;
        self.leave_if(leaving, &run).await;
        self.silence.begin();
        loop {
            match self.hear(&run) {
                Err(end) => {
                    self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
                    self.until_ended().await;
                    let done = match run.recovery {
                        // It may have gone on from another call's: nobody does again.
                        Recovery::Dump => Done::ended(end),
                        _ => self.unfinished(&run, end).await,
                    };
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
                        self.leave_if(leaving, &run).await;
                    }
                }
                () = &mut started, if !told && self.words.are_taken() => {
                    told = true;
                    run.follower.see(Seen::Started(self.recovery(&run)));
                }
            }
            let is_cancelled = *run.cancelled.borrow();
            self.say_again(&run, is_cancelled, leaving).await;
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
        self.told = told_in(&self.folder(), run.attempt.call);
        // The offsets of its words are not known any more: it takes no other call.
        let spool = self.shop.batch.spool(self.id()).join("stdout");
        let from = File::open(&spool).and_then(spooling::first_data);
        self.read = from.ok().flatten().unwrap_or(0);
        // Whether it waits for its caller's function is not known either: the next one has the answers that were given.
        let told = told && !run.plan.places.contains(&Placed::Callback);
        let mut cancelling = false;
        let mut leaving = run.leaving;
        self.leave_if(leaving, &run).await;
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
                        self.leave_if(leaving, &run).await;
                    }
                    Some(_) => {}
                },
            }
        }
        self.command(AttemptCommand::Cancel { grace_ms: 0 }).await;
    }

    /// For the call's record.
    fn recovery(&self, run: &Run) -> String {
        let of_dumps = self.dumps.clone();
        match run.recovery {
            Recovery::Checkpoint => "it makes checkpoints".to_owned(),
            Recovery::Dump => of_dumps.unwrap_or_else(|| "it may be dumped".to_owned()),
            Recovery::Restart => "it would begin anew".to_owned(),
        }
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
            Some(AttemptReport::Started { why, .. }) => {
                let of_dumps =
                    |one: &String| one.starts_with(DUMPED) || one.starts_with(NOT_DUMPED);
                self.dumps = why.into_iter().find(of_dumps);
                self.words.doubt();
            }
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

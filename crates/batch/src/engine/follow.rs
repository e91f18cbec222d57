//! One attempt that an engine holds, from being handed over to its end. The runner's own word counts first, then the
//! engine's log, then its answer; none of these ends an attempt whose runner has its lock.

use super::order::Order;
use super::seen::{Seen, Trace, Verdict, outcome};
use super::{Engine, Shared, Trouble};
use crate::link::Link;
use crate::spool::{self, Left};
use kumiko_job::attempt::{AttemptCommand, AttemptReport, AttemptSpec, EngineCause, Outcome};
use kumiko_job::contract::BatchError;
use kumiko_job::id::AttemptId;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How long an end that may be the engine's doing waits for the engine's word. Slurm says COMPLETING for KillWait, 30 s.
const DOUBT: Duration = Duration::from_secs(60);
/// Before an engine that could not be reached is asked the same again.
const AGAIN: Duration = Duration::from_secs(5);
/// How often the engine is told to drop what was ended here already. It harms nobody if it stays: it is fenced.
const CANCELS: u32 = 20;
/// Of an engine's log of one attempt: some ten lines, or a hundred if it was moved about.
const LOG_BYTES: u64 = 1 << 20;
/// No cancel was asked for.
const NO_CANCEL: u64 = u64::MAX;

/// What an engine answered, as far as one attempt is concerned.
#[derive(Clone, Debug)]
pub enum Answer {
    Seen(Seen),
    /// It does not know the tag.
    Absent,
    /// It did not answer, or could not be understood.
    None(String),
}

/// Where the runner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    NotYet,
    Connected,
    Over,
}

/// Whether the engine has it.
enum Handed {
    Yes,
    /// It could not be reached.
    NotYet(Box<Order>),
}

pub struct Live {
    id: AttemptId,
    tag: String,
    /// Set once the engine has accepted the attempt, or it is held for it.
    accepted: OnceCell<()>,
    task: OnceLock<AbortHandle>,
    link: Link,
    reach: watch::Sender<Reach>,
    /// Look again.
    bell: Notify,
    answer: watch::Sender<(u64, Answer)>,
    /// The least grace that a cancel asked for.
    cancel_grace_ms: AtomicU64,
    /// It is cancelled because it is to leave its host, and its link says so.
    vacates: AtomicBool,
    /// The drained host that it is on.
    leaving: Mutex<Option<String>>,
}

impl Live {
    pub fn new(id: AttemptId, tag: String) -> Self {
        Self {
            id,
            tag,
            accepted: OnceCell::new(),
            task: OnceLock::new(),
            link: Link::new(id),
            reach: watch::Sender::new(Reach::NotYet),
            bell: Notify::new(),
            answer: watch::Sender::new((0, Answer::None("it was not asked yet".to_owned()))),
            cancel_grace_ms: AtomicU64::new(NO_CANCEL),
            vacates: AtomicBool::new(false),
            leaving: Mutex::new(None),
        }
    }

    pub fn set_leaving(&self, host: Option<String>) {
        *self.leaving.lock().unwrap_or_else(PoisonError::into_inner) = host;
    }

    pub fn leaving(&self) -> Option<String> {
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.clone()
    }

    pub fn tag(&self) -> &str {
        &self.tag
    }

    pub fn wake(&self) {
        self.bell.notify_one();
    }

    pub fn tell(&self, round: u64, answer: Answer) {
        self.answer.send_replace((round, answer));
    }

    /// Without a runner that can be reached only the engine knows.
    pub fn wants_word(&self) -> bool {
        *self.reach.borrow() == Reach::NotYet
    }

    pub fn waits(&self, engine: &str) -> Option<String> {
        if !self.wants_word() {
            return None;
        }
        Some(match &self.answer.borrow().1 {
            Answer::Seen(seen) => format!("{engine} says {}", seen.words()),
            Answer::Absent => format!("{engine} does not know it yet"),
            Answer::None(why) => format!("{engine} says nothing: {why}"),
        })
    }

    /// Lets go of the attempt; it goes on by itself.
    pub fn leave(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
        self.link.hang_up();
        self.reach.send_replace(Reach::Over);
    }

    /// Hands the attempt over, once; whoever asks meanwhile or later gets the same answer.
    pub async fn start<E: Engine>(
        self: &Arc<Self>,
        shared: &Arc<Shared<E>>,
        spec: AttemptSpec,
    ) -> Result<(), BatchError> {
        let begin = || async {
            let order = Order::new(&shared.site, &spec, &shared.runner, shared.spool(self.id));
            let path = order.spool.clone();
            let root = shared.root.clone();
            let made = blocking(move || Ok(spool::make(&root, &spec))).await;
            let new = made.map_err(|error| spool::failed(&path, &error))??;
            let handed = match new {
                false => Handed::Yes,
                true => match shared.engine.submit(&order).await {
                    Ok(()) => Handed::Yes,
                    Err(Trouble::Refused { words }) => {
                        let (root, id) = (shared.root.clone(), self.id);
                        // One that stays is of an attempt that ended.
                        let _ = blocking(move || spool::remove(&root, id)).await;
                        return Err(BatchError::Refused {
                            engine: E::NAME,
                            words,
                        });
                    }
                    Err(trouble) => {
                        tracing::warn!(attempt = %self.id, %trouble, "it is held until its engine answers");
                        Handed::NotYet(Box::new(order))
                    }
                },
            };
            self.follow(shared, handed);
            Ok(())
        };
        let started = self.accepted.get_or_try_init(begin).await;
        if started.is_err() {
            shared.live().remove(&self.id);
        }
        started.map(|_| ())
    }

    pub fn adopt<E: Engine>(self: &Arc<Self>, shared: &Arc<Shared<E>>) {
        if self.accepted.set(()).is_ok() {
            self.follow(shared, Handed::Yes);
        }
    }

    fn follow<E: Engine>(self: &Arc<Self>, shared: &Arc<Shared<E>>, handed: Handed) {
        let (live, shared) = (Arc::clone(self), Arc::clone(shared));
        let task = tokio::spawn(async move {
            live.attend(&shared, handed).await;
            live.link.hang_up();
            live.link.no_more_stdin();
            live.reach.send_replace(Reach::Over);
            shared.live().remove(&live.id);
        });
        let _ = self.task.set(task.abort_handle()); // an attempt is followed once
    }

    /// Passes on what becomes of the attempt, until its end was passed on.
    async fn attend<E: Engine>(self: &Arc<Self>, shared: &Arc<Shared<E>>, mut handed: Handed) {
        let path = shared.spool(self.id);
        let mut rope = shared.bells.hang(&path, self);
        let mut answers = self.answer.subscribe();
        // Answers to questions from before say nothing.
        let mut since = shared.next_round();
        let mut began = false;
        let mut doubtful: Option<(Outcome, Instant)> = None;
        let mut submit_at = Instant::now() + AGAIN;
        let mut cancel_at = None;
        shared.wanted.notify_one();
        loop {
            // Of one that ends after this the runner, which waits to be heard, is asked for all of it.
            let mut status = spool::status(&path);
            if doubtful.is_none() {
                if let Ok(stream) = shared.runner.connect(&path).await {
                    let told = self.hear_out(shared, stream).await;
                    match told {
                        Heard::End => return,
                        Heard::Doubt(outcome) => {
                            doubtful = Some((outcome, Instant::now() + DOUBT));
                        }
                        Heard::Nothing => {}
                    }
                    status = spool::status(&path);
                    since = shared.next_round();
                    shared.wanted.notify_one();
                }
            }
            // The runner's own word, if nothing is to be added to it.
            match status {
                Ok(outcome) if !outcome.may_be_an_engines() || self.cancelled() => {
                    return self.report(shared, outcome).await;
                }
                Ok(outcome) if doubtful.is_none() => {
                    doubtful = Some((outcome, Instant::now() + DOUBT));
                }
                _ => {}
            }
            if let Some((outcome, until)) = &doubtful {
                if *until <= Instant::now() {
                    return self.report(shared, outcome.clone()).await;
                }
            } else if !path.exists() || self.cancelled() {
                // What has no spool was never handed over; what is not to begin, and has not, never will.
                match settle(&path).await {
                    Ok(left @ (Left::NotBegun | Left::Told(_))) => {
                        let cancelled = self.cancelled();
                        self.conclude(shared, left, None).await;
                        if cancelled {
                            self.drop_at_engine(shared).await;
                        }
                        return;
                    }
                    // A runner that is about to be reached ends it better than its engine.
                    _ if *cancel_at.get_or_insert_with(|| Instant::now() + AGAIN)
                        <= Instant::now() =>
                    {
                        if let Err(error) = shared.engine.cancel(&self.tag).await {
                            tracing::warn!(attempt = %self.id, %error, "its engine does not end it");
                        }
                        // What the engine said before counts (E11): with a host whose runner is looked for as long as this none would come in time.
                        cancel_at = Some(Instant::now() + AGAIN);
                    }
                    _ => {}
                }
            } else if let Some(host) = self.leaving() {
                // What has not begun there is to begin elsewhere (E22): the host may be a sick one.
                if let Ok(left @ Left::NotBegun) = settle(&path).await {
                    let words = format!("that it is on {host}, which is drained");
                    let verdict = Verdict::Ended(EngineCause::Evicted, words);
                    self.conclude(shared, left, Some(&verdict)).await;
                    return self.drop_at_engine(shared).await;
                }
            }
            // What was asked before it began says of that nothing, whenever it is heard.
            if !began && path.join("stdout").exists() {
                began = true;
                since = shared.next_round();
                shared.wanted.notify_one();
            }
            let verdict = match self.word(shared, &path, &mut rope, since) {
                Word::Over(verdict) => Some(verdict),
                Word::Living => {
                    handed = Handed::Yes;
                    None
                }
                Word::Nothing => None,
            };
            let resubmit = match (&verdict, &handed) {
                (Some(None), Handed::NotYet(order)) => Some(order),
                _ => None,
            };
            if let Some(order) = resubmit {
                if submit_at <= Instant::now() {
                    match shared.engine.submit(order).await {
                        Ok(()) => handed = Handed::Yes,
                        Err(Trouble::Refused { words }) => {
                            let outcome = Outcome::NeverStarted {
                                code: "engine_refused".to_owned(),
                                message: format!("{} refused the attempt: {words}", E::NAME),
                            };
                            // Fenced, for the engine may have taken it before, without a word.
                            let _ = settle(&path).await;
                            return self.report(shared, outcome).await;
                        }
                        Err(_) => {}
                    }
                    since = shared.next_round();
                    submit_at = Instant::now() + AGAIN;
                }
            } else if let Some(verdict) = verdict {
                match settle(&path).await {
                    Ok(Left::Alive) => since = shared.next_round(),
                    Ok(left) => {
                        self.conclude(shared, left, verdict.as_ref()).await;
                        // These an engine may keep, and would run again.
                        if let Some(Verdict::Ended(
                            EngineCause::Held | EngineCause::Evicted | EngineCause::Limit,
                            _,
                        )) = verdict
                        {
                            self.drop_at_engine(shared).await;
                        }
                        return;
                    }
                    Err(error) => {
                        tracing::error!(attempt = %self.id, %error, "its spool cannot be read");
                        since = shared.next_round();
                    }
                }
            }
            tokio::select! {
                () = self.bell.notified() => {}
                _ = answers.changed() => {}
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    /// What the engine says that counts: its log, or its answer to a question from after `since`.
    fn word<E: Engine>(
        self: &Arc<Self>,
        shared: &Shared<E>,
        path: &Path,
        rope: &mut super::bells::Rope<'_>,
        since: u64,
    ) -> Word {
        let mut word = Word::Nothing;
        if let Some(name) = E::LOG {
            let log = path.join(name);
            rope.with_log(&log, self);
            let read = read_log(&log).ok();
            match read.and_then(|log| shared.engine.read(&log)) {
                Some(Seen::Over(verdict)) => return Word::Over(Some(verdict)),
                Some(_) => word = Word::Living,
                None => {}
            }
        }
        let (round, answer) = self.answer.borrow().clone();
        if round < since {
            return word;
        }
        match answer {
            Answer::Seen(seen) => {
                // Of the answer only: while a log says that it waits, the next line may say why.
                let seen = match path.join("stdout").exists() {
                    true => seen.of_one_that_began(),
                    false => seen,
                };
                match seen {
                    Seen::Over(verdict) => Word::Over(Some(verdict)),
                    _ => Word::Living,
                }
            }
            Answer::Absent => Word::Over(None),
            Answer::None(_) => word,
        }
    }

    async fn hear_out<E: Engine>(
        &self,
        shared: &Shared<E>,
        stream: std::os::unix::net::UnixStream,
    ) -> Heard {
        self.link.connected(Ok(stream));
        let Some(stream) = self.link.connection() else {
            return Heard::Nothing;
        };
        self.reach.send_replace(Reach::Connected);
        let grace_ms = self.cancel_grace_ms.load(Ordering::Acquire);
        if grace_ms != NO_CANCEL && !self.vacates.load(Ordering::Acquire) {
            self.link.command(AttemptCommand::Cancel { grace_ms }).await;
        }
        let mut doubt = None;
        let ended = self
            .link
            .listen(&stream, |report| match report {
                AttemptReport::Ended(outcome)
                    if outcome.may_be_an_engines() && !self.cancelled() =>
                {
                    doubt = Some(outcome);
                    ControlFlow::Break(())
                }
                report => {
                    shared.sink.report(self.id, report);
                    ControlFlow::Continue(())
                }
            })
            .await;
        self.link.hang_up();
        match doubt {
            _ if ended && doubt.is_none() => Heard::End,
            Some(outcome) => {
                self.reach.send_replace(Reach::NotYet);
                Heard::Doubt(outcome)
            }
            None => {
                self.reach.send_replace(Reach::NotYet);
                Heard::Nothing
            }
        }
    }

    async fn conclude<E: Engine>(&self, shared: &Shared<E>, left: Left, verdict: Option<&Verdict>) {
        let trace = match left {
            Left::Told(outcome) => Trace::Told(outcome),
            Left::NotBegun => Trace::NotBegun,
            Left::Silent | Left::Alive => Trace::Silent,
        };
        let mut outcome = outcome(E::NAME, trace, verdict, self.cancelled());
        let spool = shared.spool(self.id);
        let complaint = blocking(move || Ok(spool::complaint(&spool))).await;
        if let (Outcome::NeverStarted { message, .. }, Ok(Some(words))) = (&mut outcome, complaint)
        {
            message.push_str(&format!("; on the host, {words}"));
        }
        self.report(shared, outcome).await;
    }

    async fn report<E: Engine>(&self, shared: &Shared<E>, outcome: Outcome) {
        let path = shared.spool(self.id);
        let told = blocking(move || Ok(spool::told(&path, outcome))).await;
        for report in told.into_iter().flatten() {
            shared.sink.report(self.id, report);
        }
        self.reach.send_replace(Reach::Over);
    }

    /// Takes what is over from the engine's queue.
    async fn drop_at_engine<E: Engine>(&self, shared: &Shared<E>) {
        for _ in 0..CANCELS {
            match shared.engine.cancel(&self.tag).await {
                Err(Trouble::Unreachable { .. }) => tokio::time::sleep(AGAIN).await,
                Ok(()) => return,
                Err(error) => {
                    return tracing::warn!(attempt = %self.id, %error, "its engine does not drop it");
                }
            }
        }
    }

    fn cancelled(&self) -> bool {
        self.cancel_grace_ms.load(Ordering::Acquire) != NO_CANCEL
    }

    pub async fn command(&self, command: AttemptCommand) {
        match &command {
            AttemptCommand::Cancel { grace_ms } => {
                self.vacates.store(false, Ordering::Release);
                self.cancel_grace_ms.fetch_min(*grace_ms, Ordering::AcqRel);
                self.wake();
            }
            AttemptCommand::Vacate { grace_ms } => {
                let first = self.cancel_grace_ms.fetch_min(*grace_ms, Ordering::AcqRel);
                if first == NO_CANCEL {
                    self.vacates.store(true, Ordering::Release);
                }
                self.wake();
            }
            // One that is not connected hears of it when it is.
            AttemptCommand::Settled | AttemptCommand::Release => {}
            _ => {
                // It is for the guest, which is still to come.
                let mut reach = self.reach.subscribe();
                if !matches!(
                    reach
                        .wait_for(|reach| *reach != Reach::NotYet)
                        .await
                        .as_deref(),
                    Ok(Reach::Connected)
                ) {
                    return;
                }
            }
        }
        self.link.command(command).await;
    }
}

/// What came of listening to a runner.
enum Heard {
    /// It told its end, which was passed on.
    End,
    /// It told an end that the engine may have made.
    Doubt(Outcome),
    /// It let go of us, or is gone.
    Nothing,
}

/// What counts of what the engine says.
enum Word {
    Nothing,
    /// It has it still.
    Living,
    /// It is over; None: the engine does not know it.
    Over(Option<Verdict>),
}

fn read_log(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut log = Vec::new();
    std::fs::File::open(path)?
        .take(LOG_BYTES)
        .read_to_end(&mut log)?;
    Ok(log)
}

async fn settle(path: &Path) -> io::Result<Left> {
    let path = path.to_owned();
    blocking(move || spool::settle(&path)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

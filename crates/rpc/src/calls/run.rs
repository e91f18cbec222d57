//! Attempts of calls: placed, run by workers, and followed to their ends (spec/rpc P24, P35, P66). Not here: what a worker does.

use super::{Inner, NOWHERE, gone_routine, host, lock};
use crate::book::{Book, Unrecorded, VOLATILE};
use crate::log::Along;
use crate::pool::Ask;
use crate::registry::Routine;
use crate::store::{Arriving, Held, LOGGED_BYTES};
use crate::worker::{self, Begin, Done, Follow, Order, Over, Recovery, Run, Seen};
use kumiko_call::call::Call;
use kumiko_call::event::{End, Event};
use kumiko_call::id::AttemptId;
use kumiko_call::ledger::{Known, Ledger, is_passing};
use kumiko_call::message::FromHost;
use kumiko_call::respond;
use kumiko_idl::{Limits, Placed, Plan};
use kumiko_job::contract::BatchSystem;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// After the first attempt that found no room; after each fruitless one twice as long, which makes half a minute for all of them.
const ROOM_AFTER: Duration = Duration::from_millis(250);

/// Does what follows from what is seen of one attempt.
struct Follower<B> {
    calls: Arc<Inner<B>>,
    attempt: AttemptId,
    /// More than its end was seen of it: that is done in its order.
    seen: Option<UnboundedSender<Seen>>,
}

impl<B> fmt::Debug for Follower<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl<B: BatchSystem> Follow for Follower<B> {
    fn see(&mut self, seen: Seen) {
        let (calls, attempt) = (Arc::clone(&self.calls), self.attempt);
        match (&self.seen, seen) {
            (None, Seen::Over(over)) => {
                let is_result = matches!(over.0, Done::Finished(..));
                let over = async move { calls.over(attempt, over).await };
                match is_result {
                    true => as_far_as_now(over),
                    // What follows may end at once too, and so on.
                    false => drop(tokio::spawn(over)),
                }
            }
            (None, seen) => {
                let (tell, all) = unbounded_channel();
                tokio::spawn(async move { calls.follow(attempt, all).await });
                let _ = tell.send(seen);
                self.seen = Some(tell);
            }
            // Nobody listens when the site goes down.
            (Some(tell), seen) => drop(tell.send(seen)),
        }
    }
}

/// Goes on by itself only where it has to wait: whom it is for is not woken for nothing.
fn as_far_as_now(future: impl Future<Output = ()> + Send + 'static) {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    if future.as_mut().poll(&mut context).is_pending() {
        tokio::spawn(future);
    }
}

impl<B: BatchSystem> Inner<B> {
    /// The event by which a call that waits has a worker, if there is one.
    pub(super) fn placing(&self, call: &Call) -> Option<Event> {
        match self.live(call.id)?.order.as_ref() {
            Some(order) => {
                let batch = &self.shop.batch;
                let is_dumped = order.recovery() == Recovery::Dump && !call.checkpoints.is_empty();
                let number = match &call.wanted_on {
                    // It goes on as a process of its own.
                    _ if is_dumped => self.shop.pool.pick(order, |_| false),
                    Some(host) => {
                        let is_there = |number| batch.is_on(worker::attempt(number), host);
                        self.shop.pool.pick_there(order, is_there)
                    }
                    None => self.shop.pool.pick(order, |_| true),
                }?;
                respond::placed(call, &host(number))
            }
            None => respond::placed(call, NOWHERE),
        }
    }

    /// Gives calls that wait to workers, as long as there are some.
    pub(crate) fn place(self: &Arc<Self>, book: &Book) {
        while let Some(placed) = book.next_waiting(|call| self.placing(call)) {
            let pending = match placed {
                Ok(pending) => pending,
                Err(error) => return tracing::error!(%error, "a call cannot be placed"),
            };
            match book.at_once(pending) {
                Ok(told) => self.act(book, told),
                Err(pending) => {
                    let calls = Arc::clone(self);
                    tokio::spawn(async move {
                        let book = &calls.logged;
                        let told = calls.settled(book, pending).await;
                        calls.act(book, told);
                        calls.place(book);
                    });
                    return;
                }
            }
        }
    }

    /// Has a worker compute an attempt that is recorded, and records its end.
    pub(super) fn run(self: &Arc<Self>, attempt: AttemptId, number: u64) {
        match self.make_run(attempt) {
            // It is over already.
            None => self.shop.pool.idle(number),
            Some(Err(end)) => self.end(attempt, end, Some(number)),
            Some(Ok((run, order))) => {
                let ask = Ask::Run(Box::new(run));
                if let Err(Ask::Run(run)) = self.shop.pool.ask(number, ask) {
                    // A number is never a second worker's: the first may still be taking its folder away.
                    match self.shop.pool.is_promised(number) {
                        true => worker::begin(&self.shop, number, Begin::New(order, run)),
                        false => worker::unheard(*run),
                    }
                }
            }
        }
    }

    pub(super) fn end(self: &Arc<Self>, attempt: AttemptId, end: End, free: Option<u64>) {
        let calls = Arc::clone(self);
        tokio::spawn(async move { calls.ended(attempt, end, free).await });
    }

    async fn follow(self: &Arc<Self>, attempt: AttemptId, mut all: UnboundedReceiver<Seen>) {
        // None: the site goes down, and the next one finds the worker again.
        while let Some(seen) = all.recv().await {
            match seen {
                Seen::Started(recovery) => {
                    let recovery = Some(recovery);
                    self.host(&FromHost::Beat { attempt, recovery }).await;
                }
                Seen::Doubt(doubt) => self.doubt(attempt, doubt).await,
                Seen::Asks(asked) => self.asks(attempt, asked).await,
                Seen::Over(over) => return self.over(attempt, over).await,
            }
        }
    }

    async fn over(self: &Arc<Self>, attempt: AttemptId, (done, free): Over) {
        if let Some(live) = self.live(attempt.call) {
            live.asked.close(attempt.epoch);
        }
        let mut along = None;
        let end = match done {
            Done::Ended(end, checkpoints) => {
                if !checkpoints.is_empty() {
                    self.keep(attempt.call);
                }
                for number in checkpoints {
                    self.host(&FromHost::Checkpoint { attempt, number }).await;
                }
                end
            }
            Done::Lost(made) => {
                if !made.is_empty() {
                    self.keep(attempt.call);
                }
                let lost = |call: &Call| respond::to_loss(call, attempt.epoch, &made);
                self.note(attempt, lost).await;
                return self.place_all();
            }
            Done::Finished(held, out_bytes) => match self.along(attempt, &held, out_bytes) {
                Ok(result) => {
                    along = result;
                    if let Some(live) = self.live(attempt.call) {
                        *lock(&live.result) = Some(held);
                    }
                    End::Finished { out_bytes }
                }
                Err(error) => End::Killed {
                    cause: format!("its result cannot be read: {error}"),
                },
            },
        };
        self.ended_along(attempt, end, along, free).await;
    }

    /// A result that goes to the disk along with the event that counts it.
    fn along(&self, attempt: AttemptId, held: &Held, bytes: u64) -> io::Result<Option<Along>> {
        let is_so = (1..=LOGGED_BYTES).contains(&bytes) && self.is_synced(attempt.call.client);
        let along = || {
            let name = attempt.to_string();
            let data = held.read(0, bytes)?;
            Ok(Along { name, data })
        };
        is_so.then(along).transpose()
    }

    async fn ended(self: &Arc<Self>, attempt: AttemptId, end: End, free: Option<u64>) {
        self.ended_along(attempt, end, None, free).await;
    }

    async fn ended_along(
        self: &Arc<Self>,
        attempt: AttemptId,
        end: End,
        along: Option<Along>,
        free: Option<u64>,
    ) {
        if end == End::NoSpace {
            self.until_there_may_be_room(attempt).await;
        }
        let message = FromHost::Ended { attempt, end };
        let decide = |ledger: &Ledger| respond::to_host(ledger, &message);
        self.record(attempt, decide, along, free).await;
        self.place_all();
    }

    /// It is tried again as soon as its end is recorded.
    async fn until_there_may_be_room(&self, attempt: AttemptId) {
        let call = self.book(attempt.call.client).call(attempt.call);
        let (Some(call), Some(live)) = (call, self.live(attempt.call)) else {
            return;
        };
        if call.fruitless + 1 >= respond::MOST_FRUITLESS {
            return; // that was the last
        }
        let pause = ROOM_AFTER.saturating_mul(1 << call.fruitless);
        let mut cancelled = live.cancelled.subscribe();
        let unwanted = cancelled.wait_for(|is| *is);
        let _ = tokio::time::timeout(pause, unwanted).await;
    }

    fn place_all(self: &Arc<Self>) {
        self.place(&self.logged);
        self.place(&self.volatile);
    }

    /// Its host is suspect, or no longer (P37).
    async fn doubt(self: &Arc<Self>, attempt: AttemptId, doubt: bool) {
        self.note(attempt, |call| {
            let living = call.attempt().map(|one| one.epoch);
            let event = match doubt {
                _ if living != Some(attempt.epoch) => None,
                true => respond::to_silence(call, respond::SUSPECT_MS),
                false => respond::to_sign(call, attempt.epoch),
            };
            event.into_iter().collect()
        })
        .await;
    }

    /// What follows for the call from what is seen of an attempt.
    async fn note(self: &Arc<Self>, attempt: AttemptId, events: impl Fn(&Call) -> Vec<Event>) {
        let decide = |ledger: &Ledger| respond::Answer {
            events: match ledger.find(attempt.call) {
                Known::Call(_, call) => events(call),
                _ => Vec::new(),
            },
            say: (),
        };
        self.record(attempt, decide, None, None).await;
    }

    /// What a host says; said until it is recorded (P35).
    async fn host(self: &Arc<Self>, message: &FromHost) {
        let decide = |ledger: &Ledger| respond::to_host(ledger, message);
        self.record(message.attempt(), decide, None, None).await;
    }

    /// The worker, if one is given, is free for what is recorded behind this.
    async fn record<T>(
        self: &Arc<Self>,
        attempt: AttemptId,
        decide: impl Fn(&Ledger) -> respond::Answer<T>,
        along: Option<Along>,
        free: Option<u64>,
    ) {
        let book = self.book(attempt.call.client);
        let call = Some(attempt.call);
        loop {
            match book.ask_along(&decide, call, along.clone(), |_| None) {
                Ok(pending) => {
                    self.has_along(call, pending.along());
                    if self.is_awaited(attempt) {
                        book.hurry(&pending);
                    }
                    self.free(free);
                    let told = self.settled(book, pending).await;
                    self.act(book, told);
                    return;
                }
                Err(Unrecorded::Stuck) => tokio::time::sleep(Duration::from_millis(200)).await,
                Err(error) => {
                    tracing::error!(%error, %attempt, "what became of a call cannot be recorded");
                    return self.free(free);
                }
            }
        }
    }

    /// Somebody waits for the outcome of its call now.
    fn is_awaited(&self, attempt: AttemptId) -> bool {
        let live = self.live(attempt.call);
        live.is_some_and(|live| live.changes.receiver_count() > 0)
    }

    fn free(self: &Arc<Self>, worker: Option<u64>) {
        if let Some(number) = worker {
            self.shop.pool.idle(number);
            self.place_all();
        }
    }

    /// None: the call is not there any more. An end: its arguments cannot be what the routine takes.
    pub(super) fn make_run(
        self: &Arc<Self>,
        attempt: AttemptId,
    ) -> Option<Result<(Run, Order), End>> {
        let live = self.live(attempt.call)?;
        live.epoch.fetch_max(attempt.epoch, Ordering::Relaxed);
        let Some(order) = live.order.clone() else {
            return Some(Err(gone_routine()));
        };
        let client = attempt.call.client;
        let call = self.book(client).call(attempt.call);
        let living = call.as_ref().and_then(|call| call.attempt());
        let living = living.filter(|one| one.epoch == attempt.epoch);
        let plan = match plan(&order.routine, &live.arriving, self.setup.limits) {
            Ok(plan) => plan,
            Err(message) => return Some(Err(End::Refused { message })),
        };
        let follower = Follower {
            calls: Arc::clone(self),
            attempt,
            seen: None,
        };
        let run = Run {
            attempt,
            program: order.routine.digest.clone(),
            arguments: live.arriving.held(),
            recovery: order.recovery(),
            checkpoint: living.and_then(|one| one.checkpoint),
            leaving: living.is_some_and(|one| one.leaving),
            wanted_on: living.and_then(|one| one.wanted_on.clone()),
            in_memory: client >= VOLATILE || is_passing(client),
            sync: self.is_synced(client),
            said: live
                .asked
                .begin(attempt.epoch, plan.places.contains(&Placed::Callback)),
            cancelled: live.cancelled.subscribe(),
            plan,
            follower: Box::new(follower),
        };
        Some(Ok((run, order)))
    }
}

/// Where the arguments stand, by those that came. Reads a few bytes.
fn plan(routine: &Routine, arriving: &Arriving, limits: Limits) -> Result<Plan, String> {
    let signature = &routine.signature;
    let heads = arriving
        .held()
        .read(0, signature.heads_bytes())
        .map_err(|error| format!("the arguments cannot be read: {error}"))?;
    let heads = signature.heads(&heads).unwrap_or_default();
    let plan = signature
        .plan(&heads, limits)
        .map_err(|error| error.to_string())?;
    let came = arriving.bytes();
    match plan.in_bytes == came {
        true => Ok(plan),
        false => Err(format!(
            "{came} bytes of arguments came, and by its sizes the call has {}",
            plan.in_bytes
        )),
    }
}

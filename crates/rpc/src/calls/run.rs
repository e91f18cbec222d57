//! Attempts of calls: placed, run by workers, and followed to their ends (spec/rpc P24, P35, P66). Not here: what a worker does.

use super::{Inner, NOWHERE, gone_routine, host, lock};
use crate::book::{Book, Unrecorded};
use crate::callbacks::Asked;
use crate::pool::Ask;
use crate::registry::Routine;
use crate::store::Arriving;
use crate::worker::{self, Begin, Done, Order, Over, Run};
use kumiko_call::call::Call;
use kumiko_call::event::{End, Event};
use kumiko_call::id::AttemptId;
use kumiko_call::ledger::{Known, Ledger};
use kumiko_call::message::FromHost;
use kumiko_call::respond;
use kumiko_idl::{Limits, Plan};
use kumiko_job::contract::BatchSystem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

/// After the first attempt that found no room; after each fruitless one twice as long, which makes half a minute for all of them.
const ROOM_AFTER: Duration = Duration::from_millis(250);

/// A run, and what is heard of it.
pub(super) struct Made {
    pub run: Run,
    pub heard: Hearing,
    order: Order,
}

/// What is heard of a run.
pub(super) struct Hearing {
    started: oneshot::Receiver<()>,
    asks: UnboundedReceiver<Asked>,
    doubts: UnboundedReceiver<bool>,
    done: oneshot::Receiver<Over>,
}

impl<B: BatchSystem> Inner<B> {
    /// The event by which a call that waits has a worker, if there is one.
    pub(super) fn placing(&self, call: &Call) -> Option<Event> {
        match self.live(call.id)?.order.as_ref() {
            Some(order) => {
                let batch = &self.shop.batch;
                let number = match &call.wanted_on {
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
        let calls = Arc::clone(self);
        let which = book.is_logged();
        match book.next_waiting(|call| self.placing(call)) {
            None => {}
            Some(Err(error)) => tracing::error!(%error, "a call cannot be placed"),
            Some(Ok(pending)) => {
                tokio::spawn(async move {
                    let book = match which {
                        true => &calls.logged,
                        false => &calls.volatile,
                    };
                    let told = calls.settled(book, pending).await;
                    calls.act(book, told);
                    calls.place(book);
                });
            }
        }
    }

    /// Has a worker compute an attempt that is recorded, and records its end.
    pub(super) fn run(self: &Arc<Self>, attempt: AttemptId, number: u64) {
        match self.make_run(attempt) {
            // It is over already.
            None => self.shop.pool.idle(number),
            Some(Err(end)) => self.end(attempt, end, Some(number)),
            Some(Ok(made)) => {
                let ask = Ask::Run(Box::new(made.run));
                if let Err(Ask::Run(run)) = self.shop.pool.ask(number, ask) {
                    // A number is never a second worker's: the first may still be taking its folder away.
                    match self.shop.pool.is_promised(number) {
                        true => worker::begin(&self.shop, number, Begin::New(made.order, run)),
                        false => worker::unheard(*run),
                    }
                }
                let calls = Arc::clone(self);
                tokio::spawn(async move { calls.follow(attempt, made.heard).await });
            }
        }
    }

    pub(super) fn end(self: &Arc<Self>, attempt: AttemptId, end: End, free: Option<u64>) {
        let calls = Arc::clone(self);
        tokio::spawn(async move { calls.ended(attempt, end, free).await });
    }

    pub(super) async fn follow(self: &Arc<Self>, attempt: AttemptId, mut heard: Hearing) {
        let mut may_start = true;
        let done = loop {
            tokio::select! {
                biased;
                done = &mut heard.done => break done,
                begun = &mut heard.started, if may_start => {
                    may_start = false;
                    if begun.is_ok() {
                        self.host(&FromHost::Beat { attempt }).await;
                    }
                }
                Some(doubt) = heard.doubts.recv() => self.doubt(attempt, doubt).await,
                Some(asked) = heard.asks.recv() => self.asks(attempt, asked).await,
            }
        };
        if let Some(live) = self.live(attempt.call) {
            live.asked.close(attempt.epoch);
        }
        // Else the site goes down: the next one finds the worker again.
        let Ok((done, free)) = done else { return };
        let end = match done {
            Done::Ended(end, checkpoints) => {
                for number in checkpoints {
                    self.host(&FromHost::Checkpoint { attempt, number }).await;
                }
                end
            }
            Done::Lost(made) => {
                let lost = |call: &Call| respond::to_loss(call, attempt.epoch, &made);
                self.note(attempt, lost).await;
                return self.place_all();
            }
            Done::Finished(held, out_bytes) => {
                if let Some(live) = self.live(attempt.call) {
                    *lock(&live.result) = Some(held);
                }
                End::Finished { out_bytes }
            }
        };
        self.ended(attempt, end, free).await;
    }

    async fn ended(self: &Arc<Self>, attempt: AttemptId, end: End, free: Option<u64>) {
        if end == End::NoSpace {
            self.until_there_may_be_room(attempt).await;
        }
        let message = FromHost::Ended { attempt, end };
        let decide = |ledger: &Ledger| respond::to_host(ledger, &message);
        self.record(attempt, decide, free).await;
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
        self.record(attempt, decide, None).await;
    }

    /// What a host says; said until it is recorded (P35).
    async fn host(self: &Arc<Self>, message: &FromHost) {
        let decide = |ledger: &Ledger| respond::to_host(ledger, message);
        self.record(message.attempt(), decide, None).await;
    }

    /// The worker, if one is given, is free for what is recorded behind this.
    async fn record<T>(
        self: &Arc<Self>,
        attempt: AttemptId,
        decide: impl Fn(&Ledger) -> respond::Answer<T>,
        free: Option<u64>,
    ) {
        let book = self.book(attempt.call.client);
        loop {
            match book.ask(&decide) {
                Ok(pending) => {
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

    fn free(self: &Arc<Self>, worker: Option<u64>) {
        if let Some(number) = worker {
            self.shop.pool.idle(number);
            self.place_all();
        }
    }

    /// None: the call is not there any more. An end: its arguments cannot be what the routine takes.
    pub(super) fn make_run(&self, attempt: AttemptId) -> Option<Result<Made, End>> {
        let live = self.live(attempt.call)?;
        live.epoch.fetch_max(attempt.epoch, Ordering::Relaxed);
        let Some(order) = live.order.clone() else {
            return Some(Err(gone_routine()));
        };
        let (is_started, started) = oneshot::channel();
        let (is_done, done) = oneshot::channel();
        let (asking, asks) = unbounded_channel();
        let (say, said) = unbounded_channel();
        let (doubt, doubts) = unbounded_channel();
        live.asked.begin(attempt.epoch, say);
        let client = attempt.call.client;
        let call = self.book(client).call(attempt.call);
        let living = call.as_ref().and_then(|call| call.attempt());
        let living = living.filter(|one| one.epoch == attempt.epoch);
        let run = match plan(&order.routine, &live.arriving, self.setup.limits) {
            Err(message) => return Some(Err(End::Refused { message })),
            Ok(plan) => Run {
                attempt,
                program: order.routine.digest.clone(),
                plan,
                arguments: live.arriving.held(),
                checkpoints: order.routine.signature.checkpoint,
                checkpoint: living.and_then(|one| one.checkpoint),
                leaving: living.is_some_and(|one| one.leaving),
                wanted_on: living.and_then(|one| one.wanted_on.clone()),
                in_memory: !self.book(client).is_logged(),
                sync: self.is_synced(client),
                asks: asking,
                said,
                doubts: doubt,
                cancelled: live.cancelled.subscribe(),
                started: is_started,
                done: is_done,
            },
        };
        let heard = Hearing {
            started,
            asks,
            doubts,
            done,
        };
        Some(Ok(Made { run, heard, order }))
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

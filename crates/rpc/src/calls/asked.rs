//! Callbacks of calls: what a routine asks its caller's functions, and what they say (spec/rpc P68, P69). What is said is kept before
//! the routine hears of it. Not here: streams (`talk`), files (`callbacks`).

use super::{Inner, lock};
use crate::callbacks::{Asked, Kept};
use bytes::Bytes;
use kumiko_call::call::{Call, Stage};
use kumiko_call::event::{CallEvent, Event};
use kumiko_call::id::{AttemptId, CallId};
use kumiko_call::ledger::Client;
use kumiko_call::message;
use kumiko_job::contract::{BatchSystem, Refusal};
use kumiko_wire::routine::CALLBACK_BYTES;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A routine that waits for its caller's function holds a process of the site: without a word for so long its call is cancelled.
const ANSWER_WITHIN_MS: u64 = 10 * 60 * 1000;

/// What a call's attempts ask, and who hears what is said.
#[derive(Debug, Default)]
pub(crate) struct Open {
    state: Mutex<State>,
    kept: Arc<Mutex<Option<Kept>>>,
}

#[derive(Debug, Default)]
struct State {
    epoch: u32,
    asked: Option<Asked>,
    say: Option<UnboundedSender<(u64, Bytes)>>,
}

impl Open {
    /// Of an older attempt nothing is asked any more. Where this one hears what is said, if it asks.
    pub fn begin(&self, epoch: u32, asks: bool) -> Option<UnboundedReceiver<(u64, Bytes)>> {
        let (say, said) = asks.then(unbounded_channel).unzip();
        *lock(&self.state) = State {
            epoch,
            asked: None,
            say,
        };
        said
    }

    /// No answer was looked for in a file.
    pub fn kept_nothing(&self) -> bool {
        lock(&self.kept).is_none()
    }

    pub fn close(&self, epoch: u32) {
        let mut state = lock(&self.state);
        if state.epoch == epoch {
            *state = State::default();
        }
    }

    /// What is to be answered, with the attempt's epoch.
    pub fn now(&self) -> Option<(u32, Asked)> {
        let state = lock(&self.state);
        state.asked.clone().map(|asked| (state.epoch, asked))
    }

    fn ask(&self, epoch: u32, asked: Asked) -> bool {
        let mut state = lock(&self.state);
        let is_now = state.epoch == epoch;
        if is_now {
            state.asked = Some(asked);
        }
        is_now
    }

    /// The answer is kept: it is told to the routine, once.
    fn answer(&self, epoch: u32, asked: &Asked, data: Bytes) {
        let mut state = lock(&self.state);
        if state.epoch != epoch {
            return;
        }
        if state.asked.as_ref().is_some_and(|one| one != asked) {
            return;
        }
        state.asked = None;
        if let Some(say) = &state.say {
            // A process that has ended needs no answer.
            let _ = say.send((asked.number, data));
        }
    }
}

/// It may not have been possible before, on a disk that was full.
fn opened<'a>(kept: &'a mut Option<Kept>, path: &Path) -> io::Result<&'a mut Kept> {
    match kept {
        Some(kept) => Ok(kept),
        none => Ok(none.insert(Kept::open(path)?)),
    }
}

impl<B: BatchSystem> Inner<B> {
    /// The routine asks. What was answered to an attempt before is known.
    pub(super) async fn asks(self: &Arc<Self>, attempt: AttemptId, asked: Asked) {
        let Some(live) = self.live(attempt.call) else {
            return;
        };
        let (kept, question) = (Arc::clone(&live.asked.kept), asked.clone());
        let path = self.shop.store.callbacks.path(&attempt.call.to_string());
        let find = move || opened(&mut lock(&kept), &path)?.find(&question);
        let found = tokio::task::spawn_blocking(find).await;
        match found.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(Some(data)) => return live.asked.answer(attempt.epoch, &asked, data),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%attempt, %error, "answers of callbacks cannot be read: they are asked for again");
            }
        }
        // No function of a caller's works for a call that a machine could forget.
        self.keep(attempt.call);
        let book = self.book(attempt.call.client);
        let record = book.look(|ledger| ledger.last_record);
        book.on_disk(record).await;
        if live.asked.ask(attempt.epoch, asked) {
            live.changes.send_modify(|count| *count += 1);
        }
    }

    /// The caller's function said this. What comes late, or again, is nothing.
    pub(crate) async fn said(
        self: &Arc<Self>,
        subject: &str,
        (call, epoch, number): (CallId, u32, u64),
        data: Bytes,
    ) -> Result<(), Refusal> {
        let book = self.book(call.client);
        let told = |refusal: message::Refusal| crate::talk::told(&refusal);
        match book.subject(call.client) {
            Some(known) if known == subject => {}
            Some(_) => return Err(told(message::Refusal::Foreign)),
            None => {
                let client = call.client;
                return Err(told(message::Refusal::NoClient { client }));
            }
        }
        if data.len() as u64 > CALLBACK_BYTES {
            let what = format!("a callback gives back at most {CALLBACK_BYTES} bytes");
            return Err(Refusal::new("bad_request", what));
        }
        book.hear(call);
        let Some(live) = self.live(call) else {
            return Ok(());
        };
        let asked = match live.asked.now() {
            Some((now, asked)) if now == epoch && asked.number == number => asked,
            _ => return Ok(()),
        };
        let (kept, sync) = (Arc::clone(&live.asked.kept), self.is_synced(call.client));
        let (question, answer) = (asked.clone(), data.clone());
        let path = self.shop.store.callbacks.path(&call.to_string());
        let keep = move || opened(&mut lock(&kept), &path)?.put(&question, &answer, sync);
        let put = tokio::task::spawn_blocking(keep).await;
        put.unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|error| {
                let what = format!("the site has no room for the callback's answer: {error}");
                Refusal::new("rpc_no_room", what)
            })?;
        live.asked.answer(epoch, &asked, data);
        Ok(())
    }

    /// Whose routine has waited for so long is not answered any more.
    pub(super) fn not_answered(
        &self,
        client: &Client,
        call: &Call,
        absent_ms: u64,
    ) -> Option<Event> {
        let asked = self.live(call.id)?.asked.now();
        let waits = matches!(call.stage, Stage::Computing(_)) && !call.cancelled;
        if asked.is_none() || !waits || absent_ms < ANSWER_WITHIN_MS {
            return None;
        }
        tracing::warn!(call = %call.id, subject = %client.subject, "nobody answers a callback: the call is cancelled");
        let event = CallEvent::CancelRequested;
        Some(Event::Call {
            call: call.id,
            event,
        })
    }
}

//! The conversation with one client on one stream (spec/rpc P50 to P57): messages in, answers and outcomes out. Any number of
//! streams may speak of the same calls. Not here: what follows from a message (`calls`).

use crate::book::Unrecorded;
use crate::callbacks::Asked;
use crate::calls::{Calls, Inner};
use crate::log::Along;
use crate::store::{LOGGED_BYTES, call_file};
use bytes::Bytes;
use kumiko_call::call::Stage;
use kumiko_call::event::Invocation;
use kumiko_call::id::CallId;
use kumiko_call::ledger::is_passing;
use kumiko_call::message::{self, FromClient, Status, ToClient};
use kumiko_job::contract::{BatchSystem, Refusal};
use kumiko_session::{Draft, Peer, Receiver, Sender, Service, SessionError, Stream};
use kumiko_wire::rpc::{FromSite, ToSite};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;

/// A block of more is written to its file by a thread that may wait, while writing is slow.
pub(crate) const INLINE_BYTES: u64 = 64 << 10;
/// And one of more in any case.
const QUICK_BYTES: u64 = 512 << 10;
/// Longest block of arguments or of a result: both ends hold one in memory.
pub const BLOCK_MOST_BYTES: u64 = 4 << 20;

impl<B: BatchSystem> Service for Calls<B> {
    fn serve(&self, peer: Peer, stream: Stream) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let (sender, receiver) = stream.split();
        let mut talk = Talk {
            calls: Arc::clone(&self.inner),
            peer,
            sender,
            watched: None,
            asked: None,
            owed: None,
        };
        Box::pin(async move {
            match talk.go_on(receiver).await {
                Ok(()) => {
                    // The peer may have gone; it has heard all that it asked for.
                    let _ = talk.sender.finish().await;
                }
                Err(error) => {
                    tracing::debug!(subject = %talk.peer.subject, %error, "a stream of calls ended");
                }
            }
        })
    }
}

struct Talk<B> {
    calls: Arc<Inner<B>>,
    peer: Peer,
    sender: Sender,
    /// The call whose outcome is awaited here, and its changes.
    watched: Option<(CallId, watch::Receiver<u64>)>,
    /// What was asked here last of its caller's functions: call, epoch and number.
    asked: Option<(CallId, u32, u64)>,
    /// A call that was invoked, and wants its first block. Its client is told so, unless that comes right behind.
    owed: Option<CallId>,
}

impl<B: BatchSystem> Talk<B> {
    async fn go_on(&mut self, mut receiver: Receiver) -> Result<(), SessionError> {
        loop {
            let answered = tokio::select! {
                biased;
                message = receiver.recv() => {
                    let Some(message) = message? else { return Ok(()) };
                    match ToSite::decode(message.kind, message.data) {
                        Ok(message) => self.heard(message).await,
                        Err(error) => {
                            let refusal = Refusal::new("bad_request", error.to_string());
                            self.refuse(None, refusal).await
                        }
                    }
                }
                () = std::future::ready(()), if self.owed.is_some() => self.say_owed().await,
                () = changed(&mut self.watched) => self.tell_watched().await,
            };
            // Who reads no more may have said more before, such as that it has its result. The receiver knows when all is over.
            if let Err(error) = answered {
                tracing::debug!(subject = %self.peer.subject, %error, "an answer about a call is not read");
            }
        }
    }

    async fn say(&mut self, message: FromSite) -> Result<(), SessionError> {
        self.say_all([message]).await
    }

    async fn say_all(
        &mut self,
        messages: impl IntoIterator<Item = FromSite>,
    ) -> Result<(), SessionError> {
        let draft = |message: FromSite| {
            let (kind, [first, data]) = message.encode();
            Draft { kind, first, data }
        };
        let mut drafts: VecDeque<Draft> = messages.into_iter().map(draft).collect();
        self.sender.send_all(&mut drafts).await
    }

    async fn refuse(&mut self, call: Option<CallId>, refusal: Refusal) -> Result<(), SessionError> {
        self.say(self.refusal(call, refusal)).await
    }

    fn refusal(&self, call: Option<CallId>, refusal: Refusal) -> FromSite {
        tracing::info!(subject = %self.peer.subject, code = %refusal.code, "{refusal}");
        FromSite::Refused { call, refusal }
    }

    async fn heard(&mut self, message: ToSite) -> Result<(), SessionError> {
        let is_block = |id| matches!(&message, ToSite::Call { message: FromClient::Block { call, number: 0 }, .. } if *call == id);
        if !self.owed.is_some_and(is_block) {
            self.say_owed().await?;
        }
        match message {
            ToSite::Register { durability } => {
                if !self.peer.may_start {
                    let refusal = limited(&self.peer);
                    return self.refuse(None, refusal).await;
                }
                match self.calls.register(&self.peer.subject, durability).await {
                    Ok(answer) => self.answer([answer]).await,
                    Err(error) => self.refuse(None, unrecorded(error)).await,
                }
            }
            ToSite::Signature { routine } => self.signatures(&routine).await,
            ToSite::Record { call } => self.record(call).await,
            ToSite::Said {
                call,
                epoch,
                number,
                data,
            } => {
                let (subject, which) = (&self.peer.subject, (call, epoch, number));
                match self.calls.said(subject, which, data).await {
                    Ok(()) => Ok(()),
                    Err(refusal) => self.refuse(Some(call), refusal).await,
                }
            }
            ToSite::Call { message, data } => self.call(message, data).await,
        }
    }

    async fn signatures(&mut self, routine: &str) -> Result<(), SessionError> {
        let found = match routine {
            "" => self.calls.routines(),
            one => self.calls.routine(one).map(|one| vec![one]),
        };
        let routines = match found {
            Ok(routines) => routines,
            Err(refusal) => return self.refuse(None, refusal).await,
        };
        for one in routines {
            let signature = one.signature.to_text();
            // A call asks for one, and needs no policy to be made for that.
            let dumped = routine.is_empty() && self.calls.is_dumped(&self.peer.subject, one);
            self.say(FromSite::Routine { dumped, signature }).await?;
        }
        let end = FromSite::Routine {
            dumped: false,
            signature: String::new(),
        };
        self.say(end).await
    }

    async fn record(&mut self, call: CallId) -> Result<(), SessionError> {
        let book = self.calls.book(call.client);
        match book.subject(call.client) {
            Some(subject) if subject == self.peer.subject => {}
            other => {
                let client = call.client;
                let refusal = match other {
                    Some(_) => message::Refusal::Foreign,
                    None => message::Refusal::NoClient { client },
                };
                return self.refuse(Some(call), told(&refusal)).await;
            }
        }
        self.calls.keep(call);
        let all = match book.history(call).await {
            Ok(all) => all,
            Err(error) => {
                let refusal = Refusal::new("rpc_unreadable", error.to_string());
                return self.refuse(Some(call), refusal).await;
            }
        };
        for one in all.into_iter().map(Some).chain([None]) {
            self.say(FromSite::Recorded { call, one }).await?;
        }
        Ok(())
    }

    async fn call(&mut self, message: FromClient, data: Bytes) -> Result<(), SessionError> {
        let Some(id) = message.call() else {
            return Ok(()); // a number is asked for in its own message
        };
        let prepared = match &message {
            FromClient::Invoke { invocation, .. } => self.invoked(id, invocation).map(|()| None),
            FromClient::Block { number, .. } => self.block(id, *number, data).await,
            FromClient::Migrate { to, .. } => self.may_migrate(id, to.as_deref()).map(|()| None),
            _ => Ok(None),
        };
        let along = match prepared {
            Ok(along) => along,
            Err(refusal) => {
                // Of which it is told that it is known here: it goes on when what it is refused for has passed.
                self.say_owed().await?;
                return self.refuse(Some(id), refusal).await;
            }
        };
        self.owed = None;
        let subject = &self.peer.subject;
        let answer = self.calls.client(subject, &message, along).await;
        if matches!(message, FromClient::Invoke { .. }) && !goes_on(&answer) {
            self.calls.unprepare(id);
        }
        match answer {
            Err(error) => self.refuse(Some(id), unrecorded(error)).await,
            Ok(answer) => {
                let asks = matches!(
                    message,
                    FromClient::Invoke { .. } | FromClient::Ask { .. } | FromClient::Block { .. }
                );
                if asks {
                    self.watch(id);
                }
                if wants_first(&message, &answer) {
                    self.owed = Some(id);
                    return Ok(());
                }
                match goes_without_saying(&message, &answer) {
                    true => Ok(()),
                    false => self.answer([answer]).await,
                }
            }
        }
    }

    async fn say_owed(&mut self) -> Result<(), SessionError> {
        let Some(call) = self.owed.take() else {
            return Ok(());
        };
        let ask = FromClient::Ask { call };
        match self.calls.client(&self.peer.subject, &ask, None).await {
            Ok(answer) => self.answer([answer]).await,
            Err(error) => self.refuse(Some(call), unrecorded(error)).await,
        }
    }

    /// What makes no checkpoints would only begin anew, and what is wanted where nothing begins would go anywhere.
    fn may_migrate(&self, id: CallId, to: Option<&str>) -> Result<(), Refusal> {
        let owned = self.calls.book(id.client).subject(id.client);
        let Some(live) = self.calls.live(id) else {
            return Ok(());
        };
        if owned.as_ref() != Some(&self.peer.subject) {
            return Ok(()); // it is refused
        }
        if !live.goes_on() {
            return Err(Refusal::new(
                "rpc_no_checkpoints",
                format!(
                    "call {id} cannot migrate: its routine makes no checkpoints and is not dumped, so it would begin anew; make it by `kumiko rpc gen --checkpoint`"
                ),
            ));
        }
        match to {
            Some(host) => self.calls.may_begin_on(host),
            None => Ok(()),
        }
    }

    /// Follows the call from now on.
    fn watch(&mut self, id: CallId) {
        if self.watched.as_ref().is_some_and(|(one, _)| *one == id) {
            return;
        }
        self.watched = self.calls.live(id).map(|live| {
            let mut changes = live.changes();
            // What changed before is looked at too.
            changes.mark_changed();
            (id, changes)
        });
    }

    /// The outcome, if there is one now.
    async fn tell_watched(&mut self) -> Result<(), SessionError> {
        let Some((id, _)) = self.watched.as_ref() else {
            return Ok(());
        };
        let id = *id;
        let call = self.calls.book(id.client).call(id);
        let waits = |stage: &Stage| !matches!(stage, Stage::Kept(_) | Stage::Done { .. });
        if call.as_ref().is_some_and(|call| waits(&call.stage)) {
            return self.ask(id).await;
        }
        self.watched = None;
        let ask = FromClient::Ask { call: id };
        let answer = match self.calls.client(&self.peer.subject, &ask, None).await {
            Ok(answer) => answer,
            Err(error) => return self.refuse(Some(id), unrecorded(error)).await,
        };
        let blocks = match &answer {
            ToClient::Status {
                status: Status::Result { blocks, .. },
                ..
            } => *blocks,
            _ => 0,
        };
        // The first block, which mostly is the only one, goes out with the word that there are some.
        let mut words = vec![answer];
        for number in 0..blocks {
            words.push(ToClient::Part { call: id, number });
            self.answer(std::mem::take(&mut words)).await?;
        }
        self.answer(words).await
    }

    /// Once on each stream that follows the call, what its routine asks.
    async fn ask(&mut self, call: CallId) -> Result<(), SessionError> {
        let asked = self.calls.live(call).and_then(|live| live.asked());
        let Some((
            epoch,
            Asked {
                number,
                formal,
                data,
            },
        )) = asked
        else {
            return Ok(());
        };
        if self.asked.replace((call, epoch, number)) == Some((call, epoch, number)) {
            return Ok(());
        }
        self.say(FromSite::Asks {
            call,
            epoch,
            number,
            formal,
            data,
        })
        .await
    }

    async fn answer(
        &mut self,
        answers: impl IntoIterator<Item = ToClient>,
    ) -> Result<(), SessionError> {
        let mut messages = Vec::new();
        for answer in answers {
            messages.extend(self.worded(answer).await);
        }
        self.say_all(messages).await
    }

    /// None: there is nothing to say any more.
    async fn worded(&self, answer: ToClient) -> Option<FromSite> {
        match answer {
            ToClient::Registered { client } => Some(FromSite::Registered { client }),
            ToClient::Status { call, status } => Some(FromSite::Status { call, status }),
            ToClient::Refused { call, refusal } => Some(self.refusal(call, told(&refusal))),
            ToClient::Part { call, number } => {
                // Over meanwhile: the client has it, or does not want it.
                let known = self.calls.book(call.client).call(call)?;
                Some(match self.calls.part(&known, number).await {
                    Ok(data) => FromSite::Part { call, number, data },
                    Err(error) => {
                        let what = format!("block {number} of the result cannot be read: {error}");
                        self.refusal(Some(call), Refusal::new("rpc_unreadable", what))
                    }
                })
            }
        }
    }

    /// Before the call is recorded: what it needs is there.
    fn invoked(&self, id: CallId, invocation: &Invocation) -> Result<(), Refusal> {
        let book = self.calls.book(id.client);
        let is_mine = book.subject(id.client).as_ref() == Some(&self.peer.subject);
        if book.call(id).is_some() || !is_mine {
            return Ok(()); // it is answered by its state, or refused
        }
        if !self.peer.may_start {
            return Err(limited(&self.peer));
        }
        if invocation.block_bytes > BLOCK_MOST_BYTES {
            let what = format!("a block has at most {BLOCK_MOST_BYTES} bytes here");
            return Err(Refusal::new("bad_request", what));
        }
        let known = book.look(|ledger| {
            matches!(
                ledger.find(id),
                kumiko_call::ledger::Known::New(client) if client.subject == self.peer.subject
            )
        });
        match known {
            true => self
                .calls
                .prepare(&self.peer.subject, id, invocation)
                .map(|_| ()),
            false => Ok(()),
        }
    }

    /// Before the block is counted: it is on the disk, if it is the one that is wanted, or goes there along with what counts it.
    async fn block(&self, id: CallId, number: u64, data: Bytes) -> Result<Option<Along>, Refusal> {
        let book = self.calls.book(id.client);
        if book.subject(id.client).as_ref() != Some(&self.peer.subject) {
            return Ok(None);
        }
        let (Some(call), Some(live)) = (book.call(id), self.calls.live(id)) else {
            return Ok(None);
        };
        if !matches!(call.stage, Stage::Transferring { blocks } if blocks == number) {
            return Ok(None);
        }
        let Invocation {
            in_bytes,
            block_bytes,
            ..
        } = call.invocation;
        let offset = number.saturating_mul(block_bytes);
        let bytes = in_bytes.saturating_sub(offset).min(block_bytes);
        if data.len() as u64 != bytes {
            let what = format!("block {number} has {} bytes, not {bytes}", data.len());
            return Err(Refusal::new("bad_request", what));
        }
        let blocks = call.invocation.blocks();
        let sync = live.arriving().is_file() && self.calls.is_synced(id.client);
        let is_along = sync || is_passing(id.client);
        let along = (is_along && blocks == 1 && in_bytes <= LOGGED_BYTES).then(|| Along {
            name: call_file(id),
            data: data.clone(),
        });
        let sync = sync && along.is_none() && number + 1 == blocks;
        // What goes to the page cache takes less than to wake another thread for it.
        let pace = &self.calls.pace;
        let most = match pace.is_quick() {
            true => QUICK_BYTES,
            false => INLINE_BYTES,
        };
        let written = if bytes <= most && !sync {
            pace.of(|| live.arriving().write(offset, data))
        } else {
            let write = move || {
                live.arriving().write(offset, data)?;
                match sync {
                    true => live.arriving().sync(),
                    false => Ok(()),
                }
            };
            let written = tokio::task::spawn_blocking(write).await;
            written.unwrap_or_else(|error| Err(std::io::Error::other(error)))
        };
        written.map(|()| along).map_err(|error| {
            let what = format!("the site has no room for the call's arguments: {error}");
            Refusal::new("rpc_no_room", what)
        })
    }
}

/// What was prepared is of use.
fn goes_on(answer: &Result<ToClient, Unrecorded>) -> bool {
    match answer {
        Ok(ToClient::Status { status, .. }) => !matches!(status, Status::Over { .. }),
        Ok(ToClient::Part { .. }) => true,
        Ok(ToClient::Registered { .. } | ToClient::Refused { .. }) | Err(_) => false,
    }
}

/// What was said was taken, and the outcome is told by itself.
pub(crate) fn goes_without_saying(said: &FromClient, answer: &ToClient) -> bool {
    let ToClient::Status { status, .. } = answer else {
        return false;
    };
    match (said, status) {
        (
            FromClient::Invoke { .. } | FromClient::Block { .. },
            Status::Waiting | Status::Computing { .. },
        ) => true,
        (FromClient::Block { number, .. }, Status::Wants { block }) => *block == number + 1,
        (FromClient::Acknowledge { .. }, Status::Over { .. }) => true,
        _ => false,
    }
}

/// The call was begun, and its arguments may stand behind that already.
pub(crate) fn wants_first(said: &FromClient, answer: &ToClient) -> bool {
    let wants = |status: &Status| matches!(status, Status::Wants { block: 0 });
    matches!(said, FromClient::Invoke { .. })
        && matches!(answer, ToClient::Status { status, .. } if wants(status))
}

/// The call that is watched has another state; never, if none is.
async fn changed(watched: &mut Option<(CallId, watch::Receiver<u64>)>) {
    match watched {
        Some((_, changes)) => {
            if changes.changed().await.is_err() {
                // It is not kept any more: that is an end too, and is looked at once.
                tokio::task::yield_now().await;
            }
        }
        None => std::future::pending().await,
    }
}

fn limited(peer: &Peer) -> Refusal {
    Refusal::new(
        "limited_proxy",
        format!(
            "a limited proxy of {} cannot call routines here; show a full one (`kumiko identity proxy`)",
            peer.subject
        ),
    )
}

fn unrecorded(error: Unrecorded) -> Refusal {
    match error {
        Unrecorded::Stuck => told(&message::Refusal::LogUnwritable),
        Unrecorded::Bug(_) => Refusal::new("bug", error.to_string()),
    }
}

/// As it is told.
pub(crate) fn told(refusal: &message::Refusal) -> Refusal {
    Refusal::new(code(refusal), refusal.to_string())
}

fn code(refusal: &message::Refusal) -> &'static str {
    match refusal {
        message::Refusal::NoClient { .. } => "rpc_no_client",
        message::Refusal::Foreign => "rpc_not_yours",
        message::Refusal::NoCall { .. } => "rpc_no_call",
        message::Refusal::OtherWords { .. } => "rpc_other_words",
        message::Refusal::TooManyCalls { .. } => "rpc_too_many_calls",
        message::Refusal::BadInvocation { .. } => "bad_arguments",
        message::Refusal::LogUnwritable => "rpc_log_unwritable",
    }
}

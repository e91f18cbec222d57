//! The conversation about one call on one stream (spec/rpc P50 to P57, P68). Not here: streams (`calls`), and what follows from what is
//! heard (kumiko-call's client).

use crate::arguments::Arguments;
use crate::error::RpcError;
use crate::functions::Functions;
use crate::spare::Spare;
use crate::stages::Stages;
use crate::staging::Staging;
use bytes::Bytes;
use kumiko_call::client::{ClientAction, ClientCall, NoResult, Phase};
use kumiko_call::event::Invocation;
use kumiko_call::id::CallId;
use kumiko_call::message::{FromClient, Status, ToClient};
use kumiko_job::contract::Refusal;
use kumiko_session::{Draft, Receiver, Sender, SessionError};
use kumiko_wire::rpc::{FromSite, ToSite};
use std::collections::VecDeque;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{oneshot, watch};

/// Some blocks are on their way at once; one is held in memory at either end.
pub const BLOCK_BYTES: u64 = 256 << 10;
/// Refusals that pass.
const PASSING: [&str; 2] = ["rpc_log_unwritable", "rpc_too_many_calls"];

/// How a conversation on one stream ended.
pub enum Left {
    /// All of the result is in staging.
    Done,
    /// The stream is gone: another one goes on.
    Lost(SessionError),
    /// The site forgot the client: it ended, and with it calls that were not to outlive it.
    Forgotten,
    /// Try again after a while.
    Passing(Refusal),
    Failed(RpcError),
}

/// What of the caller's a conversation needs.
pub struct Given<'a> {
    /// Calls whose results were taken: said first.
    pub taken: &'a [CallId],
    pub arguments: Option<&'a Arguments>,
    /// Blocks follow the call at once.
    pub ahead: bool,
    /// There are other sites: one that does not take it at first is not asked again.
    pub others: bool,
    pub unwanted: &'a mut watch::Receiver<bool>,
    pub functions: &'a mut Functions,
    pub staging: &'a mut Staging,
    pub stages: &'a Stages,
    pub spare: &'a Spare,
}

pub fn passes(refusal: &Refusal) -> bool {
    PASSING.contains(&refusal.code.as_str())
}

/// Comes when the caller wants the call no more.
async fn no_more(unwanted: &mut watch::Receiver<bool>) {
    if unwanted.wait_for(|unwanted| *unwanted).await.is_err() {
        std::future::pending().await
    }
}

/// What functions say besides, until they say nothing any more.
async fn hand_on(sender: &mut Sender, words: Option<&mut UnboundedReceiver<ToSite>>) -> Left {
    if let Some(words) = words {
        while let Some(message) = words.recv().await {
            if let Err(error) = say(sender, message).await {
                return Left::Lost(error);
            }
        }
    }
    std::future::pending().await
}

/// The conversation on one stream.
pub async fn once(
    (sender, receiver): (&mut Sender, &mut Receiver),
    call: &mut ClientCall,
    given: Given<'_>,
) -> Left {
    let Given {
        taken,
        arguments,
        ahead,
        others,
        unwanted,
        functions,
        staging,
        stages,
        spare,
    } = given;
    let id = call.id;
    let Some(message) = call.next() else {
        return Left::Failed(RpcError::Unexpected);
    };
    let taken = taken.iter().map(|&call| FromClient::Acknowledge { call });
    let first = taken.chain([message]).map(about);
    if let Err(error) = say_all(sender, first).await {
        return Left::Lost(error);
    }
    // The first block to send, which is not known yet.
    let (mut wanted, wants) = (!ahead).then(oneshot::channel).unzip();
    let (besides, mut words) = functions.are_given().then(unbounded_channel).unzip();
    let blocks = call.invocation.as_ref().map_or(0, Invocation::blocks);
    let fetching = call.phase.clone();
    let sending = async {
        // What the site does not send by itself any more is asked for.
        if let Phase::Fetching { next, blocks, .. } = fetching {
            for number in next + 1..blocks {
                let message = FromClient::Fetch { call: id, number };
                if let Err(error) = say(sender, about(message)).await {
                    return Left::Lost(error);
                }
            }
        }
        let from = async {
            let first = match wants {
                Some(wants) => wants.await,
                None => Ok(0),
            };
            match (arguments, first) {
                (Some(arguments), Ok(first)) => (arguments, first),
                _ => std::future::pending().await,
            }
        };
        let wanted = tokio::select! {
            biased;
            () = no_more(unwanted) => None,
            left = hand_on(sender, words.as_mut()) => return left,
            from = from => Some(from),
        };
        if let Some((arguments, from)) = wanted {
            let in_bytes = arguments.plan.in_bytes;
            stages.sending((from * BLOCK_BYTES).min(in_bytes), in_bytes);
            for number in from..blocks {
                if *unwanted.borrow() {
                    break;
                }
                let data = match arguments.block(number, BLOCK_BYTES, spare) {
                    Ok(data) => data,
                    Err(error) => return Left::Failed(error),
                };
                let message = FromClient::Block { call: id, number };
                let message = ToSite::Call { message, data };
                if let Err(error) = say(sender, message).await {
                    return Left::Lost(error);
                }
                stages.sending(((number + 1) * BLOCK_BYTES).min(in_bytes), in_bytes);
            }
            stages.sent();
            tokio::select! {
                () = no_more(unwanted) => {}
                left = hand_on(sender, words.as_mut()) => return left,
            }
        }
        match say(sender, about(FromClient::Cancel { call: id })).await {
            Err(error) => Left::Lost(error),
            Ok(()) => std::future::pending().await,
        }
    };
    let hand = |message| {
        if let Some(besides) = &besides {
            // The other end lives as long as this does.
            let _ = besides.send(message);
        }
    };
    let hearing = async {
        let mut is_known = false;
        loop {
            let message = tokio::select! {
                message = hear(receiver) => message,
                message = functions.next(id) => {
                    hand(message);
                    continue;
                }
            };
            let message = match message {
                Ok(message) => message,
                Err(RpcError::Stream(error)) => return Left::Lost(error),
                Err(RpcError::Refused(refusal)) => return Left::Passing(refusal),
                Err(error) => return Left::Failed(error),
            };
            let (heard, data) = match message {
                FromSite::Refused { call, refusal } if call == Some(id) || call.is_none() => {
                    return match refusal.code.as_str() {
                        "rpc_no_client" => Left::Forgotten,
                        // What the site has begun goes on where it was, once there is room.
                        "rpc_no_room" if is_known => Left::Passing(refusal),
                        _ if ahead && others && !is_known => Left::Failed(refusal.into()),
                        _ if passes(&refusal) => Left::Passing(refusal),
                        _ => Left::Failed(refusal.into()),
                    };
                }
                FromSite::Status { call, status } => {
                    if call == id {
                        is_known = true;
                        stages.known();
                    }
                    match &status {
                        Status::Result { out_bytes, .. } if call == id => {
                            stages.outcome(*out_bytes);
                        }
                        Status::Failed(_) if call == id => stages.outcome(0),
                        _ => {}
                    }
                    if let (true, Status::Wants { block }) = (call == id, &status) {
                        if let Some(wanted) = wanted.take() {
                            let _ = wanted.send(*block); // a call without arguments sends none
                        }
                    }
                    (ToClient::Status { call, status }, Bytes::new())
                }
                FromSite::Part { call, number, data } => (ToClient::Part { call, number }, data),
                FromSite::Asks {
                    call,
                    epoch,
                    number,
                    formal,
                    data,
                } if call == id => {
                    is_known = true;
                    stages.known();
                    match functions.asked(id, epoch, number, formal, data) {
                        Ok(Some(message)) => {
                            hand(message);
                            continue;
                        }
                        Ok(None) => continue,
                        Err(error) => return Left::Failed(error),
                    }
                }
                _ => continue, // of a call before on this stream
            };
            let mut action = call.heard(&heard);
            if let Some(ClientAction::Store { number }) = action {
                if let Err(error) = staging.push(&data) {
                    return Left::Failed(error);
                }
                stages.fetched(data.len() as u64);
                action = call.stored(number);
            }
            match action {
                Some(ClientAction::Commit { .. }) => return Left::Done,
                Some(ClientAction::Fail(why)) => return Left::Failed(no_result(id, why)),
                Some(ClientAction::Store { .. }) | None => {}
            }
        }
    };
    tokio::select! {
        left = hearing => left,
        left = sending => left,
    }
}

fn no_result(call: CallId, why: NoResult) -> RpcError {
    let over = |what| RpcError::Over { call, what };
    match why {
        NoResult::Failed(failure) => RpcError::Failed { call, failure },
        NoResult::Expired => over("it was not fetched in time"),
        NoResult::Taken => over("its result was taken by another client"),
        NoResult::NoArguments => over("its arguments never arrived, and this client has none"),
        NoResult::Refused(refusal) => {
            RpcError::Refused(Refusal::new("rpc_no_call", refusal.to_string()))
        }
    }
}

/// Without a block.
pub fn about(message: FromClient) -> ToSite {
    let data = Bytes::new();
    ToSite::Call { message, data }
}

pub async fn say(sender: &mut Sender, message: ToSite) -> Result<(), SessionError> {
    say_all(sender, [message]).await
}

pub async fn say_all(
    sender: &mut Sender,
    messages: impl IntoIterator<Item = ToSite>,
) -> Result<(), SessionError> {
    let draft = |message: ToSite| {
        let (kind, [first, data]) = message.encode();
        Draft { kind, first, data }
    };
    let mut drafts: VecDeque<Draft> = messages.into_iter().map(draft).collect();
    sender.send_all(&mut drafts).await
}

pub async fn hear(receiver: &mut Receiver) -> Result<FromSite, RpcError> {
    match receiver.recv().await? {
        Some(message) if message.kind == kumiko_wire::api::kind::REFUSED => {
            Err(kumiko_wire::api::refusal(&message.data).into())
        }
        Some(message) => Ok(FromSite::decode(message.kind, message.data)?),
        None => Err(SessionError::Closed.into()),
    }
}

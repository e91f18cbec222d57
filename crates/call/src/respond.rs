//! Which events follow from what a client, a host or the clock says (spec/rpc, "Conversation" and "Time"). The answer is
//! given when its events are recorded; if they cannot be, [`Refusal::LogUnwritable`] or nothing is said instead. What was said
//! before, or comes late, makes no event.

use crate::call::{Attempt, Call, Outcome, Stage};
use crate::event::{CallEvent, End, Event, Failure, Invocation};
use crate::id::{CallId, CheckpointId};
use crate::ledger::{Client, Known, Ledger};
use crate::message::{FromClient, FromHost, Refusal, Status, ToClient, ToHost};

/// Most calls of one client that are remembered; its memory is a few hundred bytes each.
pub const MOST_CALLS: usize = 16_384;
/// Longest name of a routine: two names of the IDL.
pub const ROUTINE_MOST_BYTES: usize = 511;
/// Most bytes of a block: both ends hold one in memory.
pub const BLOCK_MOST_BYTES: u64 = 16 << 20;
/// Longest time that a result may be kept without a word: a month.
pub const KEEP_MOST_MS: u64 = 31 * 24 * 3600 * 1000;
/// Attempts in a row that came no further, after which the call fails.
pub const MOST_FRUITLESS: u32 = 8;
/// After so much silence a host is suspect: three heartbeats.
pub const SUSPECT_MS: u64 = 3_000;
/// After so much it is lost, and its calls run elsewhere: what pauses a virtual machine is over by then, mostly.
pub const LOST_MS: u64 = 10_000;
/// A client of which nothing was heard for so long, and that has no call, leaves: a week.
pub const LEASE_MS: u64 = 7 * 24 * 3600 * 1000;
/// Where there are more clients than this, it is ten minutes: a site that is started every day never sees a week of silence, and
/// each client and its calls are a few kilobytes of the log.
pub const MOST_CLIENTS: usize = 1_000;
pub const SHORT_LEASE_MS: u64 = 10 * 60 * 1000;

/// What to record, in one transaction, and what to say then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    pub events: Vec<Event>,
    pub say: T,
}

fn say<T>(say: T) -> Answer<T> {
    Answer {
        events: Vec::new(),
        say,
    }
}

fn of(call: CallId, event: CallEvent) -> Event {
    Event::Call { call, event }
}

/// To what a client said, whose verified subject is `subject`.
pub fn to_client(ledger: &Ledger, subject: &str, message: &FromClient) -> Answer<ToClient> {
    let Some(id) = message.call() else {
        let client = match message {
            FromClient::Register { passing: true } => ledger.last_passing + 1,
            _ => ledger.last_client + 1,
        };
        return Answer {
            events: vec![Event::Registered {
                client,
                subject: subject.to_owned(),
            }],
            say: ToClient::Registered { client },
        };
    };
    let refuse = |refusal| {
        say(ToClient::Refused {
            call: Some(id),
            refusal,
        })
    };
    let status = |status| ToClient::Status { call: id, status };
    let over = |expired| say(status(Status::Over { expired }));
    let (client, call) = match ledger.find(id) {
        Known::NoClient { .. } => return refuse(Refusal::NoClient { client: id.client }),
        Known::New(client) | Known::Call(client, _) if client.subject != subject => {
            return refuse(Refusal::Foreign);
        }
        Known::Forgotten => return over(false),
        // It may have been begun, and forgotten: what is left of that is to be of another name than what begins now.
        Known::New(client) if client.closed => {
            return refuse(Refusal::NoClient { client: id.client });
        }
        Known::New(client) => (client, None),
        Known::Call(client, call) => (client, Some(call)),
    };
    let Some(call) = call else {
        return match message {
            FromClient::Invoke {
                first_open,
                invocation,
                ..
            } => match invoke(client, id, *first_open, invocation) {
                Ok(answer) => answer,
                Err(refusal) => refuse(refusal),
            },
            _ => refuse(Refusal::NoCall { call: id }),
        };
    };
    match (message, &call.stage) {
        (FromClient::Invoke { invocation, .. }, _) if *invocation != call.invocation => {
            refuse(Refusal::OtherWords { call: id })
        }
        (FromClient::Block { number, .. }, Stage::Transferring { blocks }) if number == blocks => {
            let blocks = blocks + 1;
            let next = match blocks == call.invocation.blocks() {
                true => Status::Waiting,
                false => Status::Wants { block: blocks },
            };
            Answer {
                events: vec![of(id, CallEvent::Received { blocks })],
                say: status(next),
            }
        }
        (FromClient::Fetch { number, .. }, Stage::Kept(Outcome::Result { .. }))
            if call.result_blocks().is_some_and(|blocks| *number < blocks) =>
        {
            say(ToClient::Part {
                call: id,
                number: *number,
            })
        }
        (FromClient::Acknowledge { .. }, Stage::Kept(_)) => Answer {
            events: vec![of(id, CallEvent::Acknowledged)],
            say: status(Status::Over { expired: false }),
        },
        (FromClient::Cancel { .. }, Stage::Transferring { .. } | Stage::Waiting { .. }) => Answer {
            events: vec![of(id, CallEvent::CancelRequested)],
            say: status(Status::Failed(Failure::Cancelled)),
        },
        (FromClient::Cancel { .. }, Stage::Computing(attempt)) if !call.cancelled => Answer {
            events: vec![of(id, CallEvent::CancelRequested)],
            say: status(computing(attempt)),
        },
        // Said again of an attempt that has left it moves nobody twice.
        (FromClient::Migrate { epoch, to, .. }, Stage::Computing(attempt))
            if *epoch == attempt.epoch && !attempt.leaving && !call.cancelled =>
        {
            let (epoch, to) = (*epoch, to.clone());
            Answer {
                events: vec![of(id, CallEvent::MigrateRequested { epoch, to })],
                say: status(computing(attempt)),
            }
        }
        _ => say(status(status_of(call))),
    }
}

fn computing(attempt: &Attempt) -> Status {
    Status::Computing {
        epoch: attempt.epoch,
        started: attempt.started,
        suspect: attempt.suspect,
    }
}

/// What a client is told of a call.
pub fn status_of(call: &Call) -> Status {
    match &call.stage {
        Stage::Transferring { blocks } => Status::Wants { block: *blocks },
        Stage::Waiting { .. } => Status::Waiting,
        Stage::Computing(attempt) => computing(attempt),
        Stage::Kept(Outcome::Result { out_bytes, .. }) => Status::Result {
            blocks: call.result_blocks().unwrap_or(0),
            out_bytes: *out_bytes,
        },
        Stage::Kept(Outcome::Failed(failure)) => Status::Failed(failure.clone()),
        Stage::Done { expired } => Status::Over { expired: *expired },
    }
}

fn invoke(
    client: &Client,
    id: CallId,
    first_open: u64,
    invocation: &Invocation,
) -> Result<Answer<ToClient>, Refusal> {
    let bad = |what| Err(Refusal::BadInvocation { what });
    if invocation.routine.is_empty() || invocation.routine.len() > ROUTINE_MOST_BYTES {
        return bad("the name of the routine is empty or too long");
    }
    if !(1..=BLOCK_MOST_BYTES).contains(&invocation.block_bytes) {
        return bad("a block has 1 to 16777216 bytes");
    }
    if !(1..=KEEP_MOST_MS).contains(&invocation.keep_ms) {
        return bad("a result is kept for 1 ms to 31 days");
    }
    // As far as the client says, and no further than to what is really over.
    let mut calls = client.calls.values();
    let open = calls.find(|call| !matches!(call.stage, Stage::Done { .. }));
    let below = open
        .map_or(id.sequence, |call| call.id.sequence)
        .min(first_open);
    let released = (below > client.first_open).then_some(Event::Released {
        client: id.client,
        below,
    });
    let forgotten = match released {
        Some(_) => client.calls.range(..below).count(),
        None => 0,
    };
    let open = client.calls.len() - forgotten;
    if open >= MOST_CALLS {
        return Err(Refusal::TooManyCalls {
            open,
            most: MOST_CALLS,
        });
    }
    let invoked = of(id, CallEvent::Invoked(invocation.clone()));
    let next = match invocation.blocks() {
        0 => Status::Waiting,
        _ => Status::Wants { block: 0 },
    };
    Ok(Answer {
        events: released.into_iter().chain([invoked]).collect(),
        say: ToClient::Status {
            call: id,
            status: next,
        },
    })
}

/// To what a host said. Whoever is not the living attempt is fenced.
pub fn to_host(ledger: &Ledger, message: &FromHost) -> Answer<ToHost> {
    let id = message.attempt();
    let noted = ToHost::Noted {
        attempt: id,
        ended: matches!(message, FromHost::Ended { .. }),
    };
    let fence = || say(ToHost::Fence { attempt: id });
    let Known::Call(_, call) = ledger.find(id.call) else {
        return fence();
    };
    let Some(attempt) = call.attempt().filter(|one| one.epoch == id.epoch) else {
        // What the attempt whose result is kept said before comes late; only its end is news to the host.
        return match &call.stage {
            Stage::Kept(Outcome::Result { epoch, .. }) if *epoch == id.epoch => {
                say(ToHost::Noted {
                    attempt: id,
                    ended: true,
                })
            }
            _ => fence(),
        };
    };
    let event = |event| of(id.call, event);
    let epoch = id.epoch;
    let mut events = Vec::new();
    if attempt.suspect {
        events.push(event(CallEvent::Trusted { epoch }));
    }
    // Whatever a routine says, it has started; an end may be all that is heard of it.
    if !attempt.started && !matches!(message, FromHost::Ended { .. }) {
        let recovery = match message {
            FromHost::Beat { recovery, .. } => recovery.clone(),
            _ => None,
        };
        events.push(event(CallEvent::Started { epoch, recovery }));
    }
    match message {
        FromHost::Beat { .. } => {}
        FromHost::Checkpoint { number, .. } if *number > attempt.made => {
            let number = *number;
            let checkpoint = CheckpointId { epoch, number };
            events.push(event(CallEvent::Checkpointed { checkpoint }));
        }
        FromHost::Checkpoint { .. } => {}
        FromHost::Ended { end, .. } => events.push(event(ended(call, attempt, end.clone()))),
    }
    Answer { events, say: noted }
}

/// The end of the living attempt, with whether it is the call's.
fn ended(call: &Call, attempt: &Attempt, end: End) -> CallEvent {
    let failure = match &end {
        End::Finished { .. } => None,
        _ if call.cancelled => Some(Failure::Cancelled),
        End::Crashed { cause, point }
            if call
                .crashes
                .iter()
                .any(|one| one.cause == *cause && one.point == *point) =>
        {
            Some(Failure::Crashes {
                cause: cause.clone(),
                point: *point,
            })
        }
        End::Raised { error, told } => Some(Failure::Raised {
            error: error.clone(),
            told: told.clone(),
        }),
        End::TimeLimit => Some(Failure::TimeLimit),
        End::Refused { message } => Some(Failure::Refused {
            message: message.clone(),
        }),
        End::Preempted => None,
        _ if call.fruitless + 1 >= MOST_FRUITLESS => Some(Failure::Fruitless {
            attempts: MOST_FRUITLESS,
            last: end.name().to_owned(),
        }),
        _ => None,
    };
    CallEvent::AttemptEnded {
        epoch: attempt.epoch,
        end,
        failure,
    }
}

/// When the host of the living attempt was not heard for so long; counted from `Planned`, and anew from the server's start.
pub fn to_silence(call: &Call, silent_ms: u64) -> Option<Event> {
    let attempt = call.attempt()?;
    let epoch = attempt.epoch;
    let event = if silent_ms >= LOST_MS {
        ended(call, attempt, End::HostLost)
    } else if silent_ms >= SUSPECT_MS && !attempt.suspect {
        CallEvent::Suspected { epoch }
    } else {
        return None;
    };
    Some(of(call.id, event))
}

/// When the host of a suspect attempt is heard again, whether or not its routine has started.
pub fn to_sign(call: &Call, epoch: u32) -> Option<Event> {
    let attempt = call.attempt().filter(|one| one.epoch == epoch)?;
    attempt
        .suspect
        .then(|| of(call.id, CallEvent::Trusted { epoch }))
}

/// When the attempt's host is given up: there is nothing to wait for. `made`: numbers of checkpoints of the attempt's that are there all
/// the same, upwards.
pub fn to_loss(call: &Call, epoch: u32, made: &[u64]) -> Vec<Event> {
    let Some(attempt) = call.attempt().filter(|one| one.epoch == epoch) else {
        return Vec::new();
    };
    let newer = made.iter().filter(|number| **number > attempt.made);
    // Whatever it made, it has started.
    let started = (!attempt.started && !made.is_empty()).then_some(CallEvent::Started {
        epoch,
        recovery: None,
    });
    let made = newer.map(|number| CallEvent::Checkpointed {
        checkpoint: CheckpointId {
            epoch,
            number: *number,
        },
    });
    started
        .into_iter()
        .chain(made)
        .chain([ended(call, attempt, End::HostLost)])
        .map(|event| of(call.id, event))
        .collect()
}

/// When the client said nothing about the call for so long, in running time of the server.
pub fn to_absence(call: &Call, absent_ms: u64) -> Option<Event> {
    let waits = matches!(call.stage, Stage::Transferring { .. } | Stage::Kept(_));
    (waits && absent_ms >= call.invocation.keep_ms).then(|| of(call.id, CallEvent::Expired))
}

/// When nothing at all was heard of a client for so long, in running time of the server, where there are so many.
pub fn to_lease(number: u64, client: &Client, silent_ms: u64, clients: usize) -> Option<Event> {
    let mut calls = client.calls.values();
    let over = calls.all(|call| matches!(call.stage, Stage::Done { .. }));
    let lease_ms = match clients > MOST_CLIENTS {
        true => SHORT_LEASE_MS,
        false => LEASE_MS,
    };
    (over && silent_ms >= lease_ms).then_some(Event::Left { client: number })
}

/// The event for `Place`, when a host was found.
pub fn placed(call: &Call, host: &str) -> Option<Event> {
    let Stage::Waiting { last_epoch } = call.stage else {
        return None;
    };
    Some(of(
        call.id,
        CallEvent::Planned {
            epoch: last_epoch.checked_add(1)?,
            host: host.to_owned(),
            checkpoint: call.checkpoints.last().copied(),
        },
    ))
}

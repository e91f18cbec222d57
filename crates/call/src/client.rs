//! The client's end of one call (spec/rpc P40 to P45): what to say next, and what to do with what is heard. Nothing of the caller's is
//! touched before the whole result is there. Not here: choice of a server, time between two tries, bytes.

use crate::event::{Failure, Invocation};
use crate::id::CallId;
use crate::message::{FromClient, Refusal, Status, ToClient};

/// The call as its client knows it. What must outlive the client is its id, and that it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCall {
    pub id: CallId,
    /// None after [`ClientCall::attach`]: then somebody else has the arguments, or nobody.
    pub invocation: Option<Invocation>,
    pub first_open: u64,
    /// The caller does not want it any more.
    pub cancelled: bool,
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was heard yet.
    Inviting,
    /// The server wants this block next.
    Sending {
        block: u64,
    },
    /// All arguments are there.
    Awaiting,
    /// Blocks below `next` are in staging.
    Fetching {
        next: u64,
        blocks: u64,
        out_bytes: u64,
    },
    /// The outcome is the caller's; the server does not know that for sure. `cancel`: there it goes on still, and need not.
    Committed {
        cancel: bool,
    },
    Over,
}

/// What the client does because of what it heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAction {
    /// Put the block that came into staging.
    Store { number: u64 },
    /// The whole result is in staging: make it the caller's, durably, and say [`ClientCall::committed`].
    Commit { out_bytes: u64 },
    /// There is no result: tell the caller, and say [`ClientCall::committed`].
    Fail(NoResult),
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoResult {
    Failed(Failure),
    /// It was not fetched in time.
    Expired,
    /// Another client that attached to the call has it.
    Taken,
    Refused(Refusal),
    /// The server wants arguments which this client does not have.
    NoArguments,
}

impl ClientCall {
    pub fn invoke(id: CallId, first_open: u64, invocation: Invocation) -> ClientCall {
        ClientCall {
            id,
            invocation: Some(invocation),
            first_open,
            cancelled: false,
            phase: Phase::Inviting,
        }
    }

    /// After the client has begun anew, or from elsewhere.
    pub fn attach(id: CallId) -> ClientCall {
        ClientCall {
            id,
            invocation: None,
            first_open: 0,
            cancelled: false,
            phase: Phase::Inviting,
        }
    }

    /// After the client has begun anew, and had committed.
    pub fn attach_committed(id: CallId) -> ClientCall {
        ClientCall {
            phase: Phase::Committed { cancel: false },
            ..ClientCall::attach(id)
        }
    }

    /// What to say now, and again after a while without an answer. None: nothing is left to say.
    pub fn next(&self) -> Option<FromClient> {
        let call = self.id;
        match (&self.phase, &self.invocation) {
            (Phase::Inviting, Some(invocation)) => Some(FromClient::Invoke {
                call,
                first_open: self.first_open,
                invocation: invocation.clone(),
            }),
            (Phase::Sending { .. } | Phase::Awaiting, _) if self.cancelled => {
                Some(FromClient::Cancel { call })
            }
            (Phase::Inviting, None) | (Phase::Awaiting, _) => Some(FromClient::Ask { call }),
            (Phase::Sending { block }, _) => Some(FromClient::Block {
                call,
                number: *block,
            }),
            (Phase::Fetching { next, .. }, _) => Some(FromClient::Fetch {
                call,
                number: *next,
            }),
            (Phase::Committed { cancel: true }, _) => Some(FromClient::Cancel { call }),
            (Phase::Committed { cancel: false }, _) => Some(FromClient::Acknowledge { call }),
            (Phase::Over, _) => None,
        }
    }

    /// What was heard. What is late or comes twice does nothing.
    pub fn heard(&mut self, message: &ToClient) -> Option<ClientAction> {
        match message {
            ToClient::Status { call, status } if *call == self.id => self.status(status),
            ToClient::Part { call, number } if *call == self.id => self.part(*number),
            ToClient::Refused {
                call: Some(call),
                refusal,
            } if *call == self.id => self.refused(refusal),
            _ => None,
        }
    }

    /// The outcome is the caller's, and will be so after a crash.
    pub fn committed(&mut self) {
        if self.phase != Phase::Over {
            self.phase = Phase::Committed { cancel: false };
        }
    }

    fn status(&mut self, status: &Status) -> Option<ClientAction> {
        let early = matches!(self.phase, Phase::Inviting | Phase::Sending { .. });
        match (status, &self.phase) {
            (_, Phase::Over) => None,
            (Status::Over { .. }, Phase::Committed { .. }) => {
                self.phase = Phase::Over;
                None
            }
            (status, Phase::Committed { .. }) => {
                // Whoever gave up before there was an outcome does not want one.
                let cancel = !matches!(status, Status::Result { .. } | Status::Failed(_));
                self.phase = Phase::Committed { cancel };
                None
            }
            (Status::Over { expired: true }, _) => Some(ClientAction::Fail(NoResult::Expired)),
            (Status::Over { expired: false }, _) => Some(ClientAction::Fail(NoResult::Taken)),
            (Status::Wants { .. }, _) if early && self.invocation.is_none() => {
                Some(ClientAction::Fail(NoResult::NoArguments))
            }
            (Status::Wants { block }, Phase::Sending { block: now }) if block <= now => None,
            (Status::Wants { block }, _) if early => {
                self.phase = Phase::Sending { block: *block };
                None
            }
            (Status::Waiting | Status::Computing { .. }, _) if early => {
                self.phase = Phase::Awaiting;
                None
            }
            (Status::Result { blocks, out_bytes }, _) if early || self.phase == Phase::Awaiting => {
                self.phase = Phase::Fetching {
                    next: 0,
                    blocks: *blocks,
                    out_bytes: *out_bytes,
                };
                // Of nothing, all is there.
                (*blocks == 0).then_some(ClientAction::Commit { out_bytes: 0 })
            }
            (Status::Failed(failure), _) => {
                Some(ClientAction::Fail(NoResult::Failed(failure.clone())))
            }
            _ => None,
        }
    }

    fn part(&mut self, number: u64) -> Option<ClientAction> {
        match &self.phase {
            Phase::Fetching { next, .. } if *next == number => Some(ClientAction::Store { number }),
            _ => None,
        }
    }

    /// The block of [`ClientAction::Store`] is in staging.
    pub fn stored(&mut self, number: u64) -> Option<ClientAction> {
        match &mut self.phase {
            Phase::Fetching {
                next,
                blocks,
                out_bytes,
            } if *next == number => {
                *next += 1;
                let all = next == blocks;
                let out_bytes = *out_bytes;
                all.then_some(ClientAction::Commit { out_bytes })
            }
            _ => None,
        }
    }

    fn refused(&mut self, refusal: &Refusal) -> Option<ClientAction> {
        match (&self.phase, refusal) {
            (Phase::Over, _) => None,
            (_, refusal) if refusal.is_passing() => None,
            // The server knows nothing of it any more, and it is the caller's.
            (Phase::Committed { .. }, _) => {
                self.phase = Phase::Over;
                None
            }
            (_, refusal) => Some(ClientAction::Fail(NoResult::Refused(refusal.clone()))),
        }
    }
}

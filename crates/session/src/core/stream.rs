//! What a session knows of one stream: both halves, their queues and their credit (S5, S6).

use bytes::Bytes;
use kumiko_wire::frame::{FRAME_COST_BYTES, Half, INITIAL_CREDIT_BYTES};
use std::collections::VecDeque;
use std::task::Waker;

use crate::Part;

/// A sequenced frame without its number.
#[derive(Clone, Debug)]
pub(super) struct Sequenced {
    pub stream: u32,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Open(Bytes),
    /// The payload is `first` and `data`.
    Data {
        kind: u8,
        more: bool,
        first: Bytes,
        data: Bytes,
    },
    Finish,
    Reset {
        half: Half,
        code: u32,
    },
}

impl Body {
    pub fn cost(&self) -> usize {
        FRAME_COST_BYTES
            + match self {
                Body::Open(request) => request.len(),
                Body::Data { first, data, .. } => first.len() + data.len(),
                Body::Finish | Body::Reset { .. } => 0,
            }
    }
}

/// The half in which this side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Open,
    /// FINISH or RESET is queued or gone.
    Ended,
    /// The peer reads no more.
    Stopped(u32),
}

/// The half in which this side receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    Open,
    Finished,
    Reset(u32),
    /// This side reads no more.
    Stopped,
}

#[derive(Debug)]
pub(super) struct StreamState {
    pub out: VecDeque<Body>,
    pub out_cost: usize,
    /// Stands in one of the two queues of streams that have something to send.
    pub ready: bool,
    /// Credit used, and allowed by the peer.
    pub used: u64,
    pub limit: u64,
    pub sending: Sending,
    pub sender_gone: bool,
    pub sender_waker: Option<Waker>,

    pub inbox: VecDeque<Part>,
    /// Credit that came, was read by the user, and was granted to the peer.
    pub came: u64,
    pub read: u64,
    pub granted: u64,
    /// When it was last granted, and how much had been read by then.
    pub granted_us: u64,
    pub granted_at: u64,
    pub window: u32,
    pub credit_due: bool,
    pub receiving: Receiving,
    pub receiver_gone: bool,
    pub receiver_waker: Option<Waker>,
}

impl StreamState {
    pub fn new() -> Self {
        StreamState {
            out: VecDeque::new(),
            out_cost: 0,
            ready: false,
            used: 0,
            limit: INITIAL_CREDIT_BYTES.into(),
            sending: Sending::Open,
            sender_gone: false,
            sender_waker: None,
            inbox: VecDeque::new(),
            came: 0,
            read: 0,
            granted: INITIAL_CREDIT_BYTES.into(),
            granted_us: 0,
            granted_at: 0,
            window: INITIAL_CREDIT_BYTES,
            credit_due: false,
            receiving: Receiving::Open,
            receiver_gone: false,
            receiver_waker: None,
        }
    }

    /// Nobody holds the stream, and nothing of it waits to be sent.
    pub fn is_done(&self) -> bool {
        self.sender_gone && self.receiver_gone && self.out.is_empty()
    }

    /// Drops what is queued of the sending half, but not an OPEN, nor what is said of the other half; returns the
    /// cost dropped.
    pub fn drop_queue(&mut self) -> usize {
        let before = self.out_cost;
        self.out.retain(|body| {
            matches!(
                body,
                Body::Open(_)
                    | Body::Reset {
                        half: Half::Receiving,
                        ..
                    }
            )
        });
        self.out_cost = self.out.iter().map(Body::cost).sum();
        before - self.out_cost
    }
}

pub(super) fn part_cost(part: &Part) -> u64 {
    (FRAME_COST_BYTES + part.data.len()) as u64
}

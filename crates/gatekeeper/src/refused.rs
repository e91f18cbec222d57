//! Why a connection was not let in: each reason has a name, in the log and in /metrics.

use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("there are {limit} connections already")]
    TooMany { limit: usize },
    #[error("there are {limit} connections from this address already")]
    TooManyFromAddress { limit: usize },
    #[error("the handshake was not finished within {} s", within.as_secs_f32())]
    TooSlow { within: Duration },
    #[error("more than {limit} bytes came before the peer was known")]
    TooMuch { limit: u64 },
    /// Not TLS, no certificate, or one that is not accepted; the cause says which.
    #[error("TLS: {cause}")]
    Tls { cause: String },
    #[error("{subject} is not in the grid-mapfile")]
    Unmapped { subject: String },
    /// It has no rights but those granted to itself (spec/identity P5), and nothing here grants any.
    #[error("an independent proxy of {subject} has no rights here: show a full one")]
    Independent { subject: String },
    #[error("{subject} is mapped to the account {account}; this site serves {only} only")]
    OtherAccount {
        subject: String,
        account: String,
        only: String,
    },
    /// GRAM speaks without ALPN.
    #[error("no ALPN protocol was asked for: that is GRAM's door, which is not built yet")]
    Gram,
    /// Of a connection that was let in.
    #[error("the certificate of {subject} has ended: make a new proxy and connect again")]
    Ended { subject: String },
    #[error("the socket could not be set up: {cause}")]
    Socket { cause: String },
}

/// How many reasons there are.
pub(crate) const REASONS: usize = NAMES.len();
pub(crate) const NAMES: [&str; 11] = [
    "too_many",
    "too_many_from_address",
    "too_slow",
    "too_much",
    "tls",
    "unmapped",
    "other_account",
    "gram",
    "socket",
    "ended",
    "independent",
];

impl Refused {
    pub(crate) fn index(&self) -> usize {
        match self {
            Refused::TooMany { .. } => 0,
            Refused::TooManyFromAddress { .. } => 1,
            Refused::TooSlow { .. } => 2,
            Refused::TooMuch { .. } => 3,
            Refused::Tls { .. } => 4,
            Refused::Unmapped { .. } => 5,
            Refused::OtherAccount { .. } => 6,
            Refused::Gram => 7,
            Refused::Socket { .. } => 8,
            Refused::Ended { .. } => 9,
            Refused::Independent { .. } => 10,
        }
    }

    /// The reason's name in the log and in /metrics.
    pub fn name(&self) -> &'static str {
        NAMES[self.index()]
    }
}

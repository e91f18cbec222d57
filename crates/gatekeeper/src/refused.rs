//! Why a connection was not let in: each reason has a name, in the log and in /metrics.

use kumiko_wire::monitor::NotIntroduced;
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
    #[error("no ALPN protocol was asked for: that is GRAM's door, which is closed at this site")]
    Gram,
    /// Of a connection that was let in.
    #[error("the certificate of {subject} has ended: make a new proxy and connect again")]
    Ended { subject: String },
    /// At a site for many accounts: the monitor gave no way to an agent.
    #[error("{subject}: {}", reason(*why))]
    NotIntroduced { subject: String, why: NotIntroduced },
    #[error("the socket could not be set up: {cause}")]
    Socket { cause: String },
}

/// How many reasons there are.
pub(crate) const REASONS: usize = NAMES.len();
pub(crate) const NAMES: [&str; 12] = [
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
    "not_introduced",
];

fn reason(why: NotIntroduced) -> &'static str {
    match why {
        NotIntroduced::Unmapped => "not in the grid-mapfile",
        NotIntroduced::NotServed => {
            "the account it is mapped to is not served here: it does not exist, is root's or one of the system's"
        }
        NotIntroduced::TooMany => {
            "as many accounts are being served as the site has room for; try again soon"
        }
        NotIntroduced::Failing => {
            "the agent of the account does not start; the operator finds why in its log"
        }
        NotIntroduced::Busy => "the agent of the account does not answer; try again soon",
        NotIntroduced::Closing => "the site is going down; try again when it is back",
        NotIntroduced::Unreadable => {
            "the site cannot read its grid-mapfile or its accounts now; try again soon"
        }
    }
}

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
            Refused::NotIntroduced { .. } => 11,
        }
    }

    /// It passes by itself, and soon: the peer is to try again.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Refused::NotIntroduced { why, .. } if why.passes())
    }

    /// It is about the site, not about the peer.
    pub(crate) fn is_of_site(&self) -> bool {
        matches!(self, Refused::NotIntroduced { why, .. } if why.is_of_site())
    }

    /// The reason's name in the log and in /metrics.
    pub fn name(&self) -> &'static str {
        NAMES[self.index()]
    }
}

//! LDAPv3 messages (RFC 4511; spec/info L1 to L14): bytes to requests, answers to bytes. Not here: what a server does
//! with them, the bytes of entries that are found (`view` writes those).

mod answer;
mod filter;
mod reply;
mod request;

pub use answer::{Answer, change, control, done, entry, extended, page};
pub use reply::{REPLY_MOST_BYTES, Reply, ask_for_all, read_reply};
pub use request::{
    Add, Bind, Compare, Control, Credentials, Extended, LdapError, PersistentSearch, Request,
    RequestMessage, Search, read,
};

/// Tag of a SearchResultEntry.
pub const SEARCH_ENTRY: u8 = 0x64;

/// The longest request: a filter of 1024 items or a registration is a tenth of it.
pub const REQUEST_MOST_BYTES: usize = 256 * 1024;
/// Attributes that a search may name.
pub const SELECTION_MOST: usize = 1024;
/// Controls of a request.
pub const CONTROLS_MOST: usize = 16;

/// Object identifiers of controls and extended operations.
pub mod oid {
    pub const PAGED_RESULTS: &str = "1.2.840.113556.1.4.319"; // RFC 2696
    pub const PERSISTENT_SEARCH: &str = "2.16.840.1.113730.3.4.3"; // draft-ietf-ldapext-psearch-03
    pub const ENTRY_CHANGE: &str = "2.16.840.1.113730.3.4.7"; // the same
    pub const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2"; // RFC 3296
    pub const START_TLS: &str = "1.3.6.1.4.1.1466.20037"; // RFC 4511, section 4.14
    pub const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3"; // RFC 4532
    pub const CANCEL: &str = "1.3.6.1.1.8"; // RFC 3909
    pub const NOTICE_OF_DISCONNECTION: &str = "1.3.6.1.4.1.1466.20036"; // RFC 4511, section 4.4.1
    pub const ALL_OPERATIONAL: &str = "1.3.6.1.4.1.4203.1.5.1"; // RFC 3673: the feature "+"
    pub const TRUE_FALSE_FILTERS: &str = "1.3.6.1.4.1.4203.1.5.3"; // RFC 4526: (&) and (|)
}

/// Result codes (RFC 4511, appendix A; RFC 3909).
pub mod code {
    pub const SUCCESS: i64 = 0;
    pub const OPERATIONS_ERROR: i64 = 1;
    pub const PROTOCOL_ERROR: i64 = 2;
    pub const TIME_LIMIT_EXCEEDED: i64 = 3;
    pub const SIZE_LIMIT_EXCEEDED: i64 = 4;
    pub const COMPARE_FALSE: i64 = 5;
    pub const COMPARE_TRUE: i64 = 6;
    pub const AUTH_METHOD_NOT_SUPPORTED: i64 = 7;
    pub const ADMIN_LIMIT_EXCEEDED: i64 = 11;
    pub const UNAVAILABLE_CRITICAL_EXTENSION: i64 = 12;
    pub const NO_SUCH_ATTRIBUTE: i64 = 16;
    pub const CONSTRAINT_VIOLATION: i64 = 19;
    pub const NO_SUCH_OBJECT: i64 = 32;
    pub const INVALID_DN_SYNTAX: i64 = 34;
    pub const INAPPROPRIATE_AUTHENTICATION: i64 = 48;
    pub const INSUFFICIENT_ACCESS_RIGHTS: i64 = 50;
    pub const BUSY: i64 = 51;
    pub const UNAVAILABLE: i64 = 52;
    pub const UNWILLING_TO_PERFORM: i64 = 53;
    pub const OTHER: i64 = 80;
    pub const CANCELED: i64 = 118;
    pub const NO_SUCH_OPERATION: i64 = 119;
}

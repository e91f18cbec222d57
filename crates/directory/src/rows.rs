//! Rows of a directory, what bounds them, and what happens to them. Not here: what changes them (`store`).

use crate::column::Column;
use crate::entry::Stamp;
use crate::value::VALUE_MOST_BYTES;
use std::sync::Arc;

/// Attributes of an entry: the merged entry of a host has about sixty.
pub const ATTRIBUTES_MOST: usize = 512;
/// Values of an attribute: devices of a large host.
pub const VALUES_MOST: usize = 1024;
/// An entry as it is sent: a host with a thousand devices merged.
pub const ENTRY_MOST_BYTES: usize = 256 * 1024;
/// Different attribute names in a directory; all of MDS and GLUE are 500. A provider that invents names is stopped.
pub const NAMES_MOST: usize = 4096;
/// Changes that a follower may lag behind before it has to begin again.
pub const RING_MOST: usize = 1 << 17;

/// Who an entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// The directory itself: its root, and levels between entries that nobody told.
pub const OWN: SourceId = SourceId(0);

/// A row as it was at some moment: an index used again has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl RowId {
    /// Where a paged search goes on: rows are told in this order.
    pub fn position(self) -> u32 {
        self.index
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub attribute: u16,
    /// Within `Row::encoded`.
    pub at: u32,
    pub bytes: u32,
    pub stamp: Stamp,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub generation: u32,
    /// Normal form; also the key of `by_dn`.
    pub key: Arc<str>,
    /// As spelled.
    pub dn: Arc<str>,
    pub source: SourceId,
    /// Place within the source's list of rows.
    pub place: u32,
    pub children: u32,
    /// Nobody told it; it is there because something lies below.
    pub glue: bool,
    /// `kumiko-stale-since` was set here, not by the source.
    pub marked: bool,
    /// The round of the source in which it was last told.
    pub round: u32,
    /// In the order of `encoded`.
    pub slots: Vec<Slot>,
    /// The attributes as PartialAttributes (RFC 4511, section 4.5.2), one after the other.
    pub encoded: Vec<u8>,
}

/// What changed, in order.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub row: RowId,
    pub what: Changed,
}

#[derive(Clone, Debug)]
pub(crate) enum Changed {
    Whole,
    Attribute(u16),
    Removed { dn: Arc<str> },
}

#[derive(Debug)]
pub(crate) struct Name {
    /// As spelled first, or in the schema.
    pub spelled: Box<str>,
    pub column: Column,
}

/// How large a directory may become.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub entries: usize,
    /// Of one source.
    pub entries_of_source: usize,
}

impl Default for Bounds {
    /// A million hosts and their devices; a tenth of it from one source.
    fn default() -> Bounds {
        Bounds {
            entries: 10_000_000,
            entries_of_source: 2_000_000,
        }
    }
}

/// Why a change was not made; its source is at fault, except for `Full`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("{dn}: another source tells this entry already")]
    Taken { dn: String },
    #[error("{dn}: there is no such entry to change")]
    NoEntry { dn: String },
    #[error("{dn}: the root of the directory is its own")]
    Root { dn: String },
    #[error("{dn}: the attribute name {name:?} cannot be used")]
    Name { dn: String, name: String },
    #[error("{dn}: a value of {name} is longer than {VALUE_MOST_BYTES} bytes")]
    Value { dn: String, name: String },
    #[error(
        "{dn}: more than {ATTRIBUTES_MOST} attributes, {VALUES_MOST} values or {ENTRY_MOST_BYTES} bytes"
    )]
    TooLarge { dn: String },
    #[error("more than {NAMES_MOST} different attribute names")]
    TooManyNames,
    #[error("the directory is full at {limit} entries; its operator can allow more")]
    Full { limit: usize },
}

//! What the information service knows and how it is asked (spec/info), as values: names, entries in columns, filters,
//! expressions, LDAP's bytes, what sites tell indexes. Ring 0: no I/O, no clock; instants come in as arguments.

pub mod ask;
pub mod ber;
mod bits;
pub mod choose;
mod column;
pub mod delta;
mod dn;
mod entry;
pub mod estimate;
pub mod expr;
mod filter;
pub mod grrp;
pub mod ldap;
pub mod ldif;
pub mod near;
pub mod provider;
mod rows;
pub mod schema;
mod search;
pub mod source;
mod store;
mod value;
mod view;

pub use dn::{DEPTH_MOST, Dn, DnError, DnProblem, Rdn};
pub use entry::{Attribute, Entry, Op, Stamp};
pub use filter::{Assertion, Filter, FilterError, FilterProblem};
pub use rows::{ApplyError, Bounds, OWN, RowId, SourceId};
pub use search::{NoSuchEntry, Plan, Rank, Scope};
pub use store::Directory;
pub use value::{Datum, VALUE_MOST_BYTES, datum, normal};
pub use view::{Event, Gap, Selection};

//! GRAM's door (spec/gram): requests of GT's clients at the gatekeeper's port, the contacts of their jobs, and what their
//! jobs tell them. Jobs are reached through the contract `Jobs`, as at the other doors.
//!
//! Not here: frames and messages (kumiko-wire), RSL (kumiko-job), files and streams of jobs (staging).

mod commit;
mod contact;
mod delegate;
mod door;
mod entry;
mod hall;
mod helpers;
mod incoming;
mod outcome;
mod query;
mod remote_io;
mod store;
mod subject;
mod submit;
mod tell;
mod tokens;

pub(crate) use door::{greet, serve, turn_away};
pub(crate) use hall::{Hall, begin};
pub(crate) use tokens::Tokened;

use kumiko_identity::KeyKind;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// What GRAM's door is told.
#[derive(Clone)]
pub struct Gram {
    /// A folder of its own, for what must outlive the process.
    pub state: PathBuf,
    /// Where contacts of jobs listen.
    pub listen: IpAddr,
    /// Whose name contacts bear where the client's request names none.
    pub host: String,
    /// Kind of the keys of delegated credentials. P-256, unless jobs delegate on to servers of GT, which take RSA only.
    pub delegation: KeyKind,
    /// The site's batch system, by its name: one of its services is called after it.
    pub batch: &'static str,
    /// Where the helpers of GT's clients are, in the guest's view (GLOBUS_LOCATION).
    pub location: String,
    /// Removes an entry of the account's cache by its URL; one that is not there is no error. It blocks.
    pub uncache: Uncache,
}

pub type Uncache = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

impl fmt::Debug for Gram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gram")
            .field("state", &self.state)
            .field("listen", &self.listen)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

//! The contract between the manager, which knows what is to be moved, and staging, which moves it.

use crate::attempt::OutputStream;
use crate::contract::Refusal;
use crate::description::{Destination, StageIn, StageOut};
use crate::id::JobId;
use bytes::Bytes;
use kumiko_policy::Policy;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What a contract answers that is asked through a pointer.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Files and streams of jobs, between this host and others (GASS, GridFTP, HTTP), as the job's user.
///
/// 1. What is fetched is seen under its name whole or not at all, and after `fetch` it is on the disk.
/// 2. Each call may be done again after a crash: it goes on where it can, else begins anew.
/// 3. Nothing outside the job's own directory is read or written, but by a `file:` URL that the job's policy shows; no
///    symbolic link is followed there.
/// 4. No host is spoken to that the policy forbids.
/// 5. A call ends: a peer that stalls is given up after a time.
/// 6. A future that is dropped stops; what it began is left to `forget`.
pub trait Transfer: Send + Sync + 'static {
    /// Fetches a file; `item` names it among the job's. `shared`: through the account's cache. `executable`: may be run.
    /// Answers its length in bytes.
    fn fetch<'a>(
        &'a self,
        job: &'a Work,
        what: &'a StageIn,
        how: Fetch,
    ) -> Answer<'a, Result<u64, TransferFailure>>;
    /// Sends a file. Answers its length in bytes.
    fn send<'a>(
        &'a self,
        job: &'a Work,
        what: &'a StageOut,
    ) -> Answer<'a, Result<u64, TransferFailure>>;
    /// Sends a stream while it grows, until it ends. Answers how many bytes it had.
    fn stream<'a>(
        &'a self,
        job: &'a Work,
        what: Streamed<'a>,
    ) -> Answer<'a, Result<u64, TransferFailure>>;
    /// Makes the directory that is the job's scratch.
    fn make_scratch<'a>(
        &'a self,
        job: &'a Work,
        path: &'a str,
    ) -> Answer<'a, Result<(), TransferFailure>>;
    /// Removes files and directories; one that is not there is no error.
    fn clean_up<'a>(
        &'a self,
        job: &'a Work,
        paths: &'a [String],
    ) -> Answer<'a, Result<(), TransferFailure>>;
    /// Nothing of this job is under way any more: what transfers left may go.
    fn forget(&self, job: JobId) -> Answer<'_, ()>;
}

/// Whose files, and what he may.
pub struct Work {
    pub job: JobId,
    /// The job's own directory on the host. It is there.
    pub directory: PathBuf,
    pub policy: Policy,
    /// Where below its own directory the job has its cache; None: it is the account's.
    pub cache: Option<String>,
    /// The delegated proxy with its key, as PEM; None: only what needs no certificate can be reached.
    pub credential: Option<Zeroizing<Vec<u8>>>,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

/// How a file is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Told apart from the job's others by this, so that one that was cut can be found again.
    pub item: crate::staging::Item,
    pub shared: bool,
    pub executable: bool,
}

/// A stream on its way to one destination.
pub struct Streamed<'a> {
    pub stream: OutputStream,
    /// Among the destinations of this stream.
    pub index: u32,
    /// Number of the event that gave the destinations (1: the description).
    pub given: u64,
    pub to: &'a Destination,
    pub bytes: Arc<dyn Source>,
}

impl std::fmt::Debug for Streamed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streamed")
            .field("stream", &self.stream)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// Bytes that grow (a spool).
pub trait Source: Send + Sync {
    /// Bytes from `offset`, `most` at most, once there are some; None: the stream has ended there.
    fn read(&self, offset: u64, most: usize) -> Answer<'_, Result<Option<Bytes>, Refusal>>;
}

/// Why something was not moved: `code` names a row of spec/errors.toml; `message` says what was tried, where, whose fault
/// it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransferFailure {
    pub code: String,
    pub message: String,
    /// It may work later, as it is.
    pub retry: bool,
}

//! Files of jobs (spec/staging, S1 to S12): the contract `Transfer`, carried out by scheme. What is under way lies in a
//! directory of ours, on the file system of the jobs, and comes into the job's own by one rename.

mod brought;
mod fetch;
mod places;
mod streams;
mod url_copy;

use crate::cache::Cache;
use crate::fault::TransferError;
use crate::gass::client::Client;
use crate::gass::{Doorway, STALL};
use crate::stock::Stock;
use kumiko_identity::{Credential, TrustStore};
use kumiko_job::description::{StageIn, StageOut};
use kumiko_job::id::JobId;
use kumiko_job::transfer::{Answer, Fetch, Streamed, Transfer, TransferFailure, Work};
use kumiko_job::url::Url;
use kumiko_policy::Network;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why a transfer came to nothing, in the contract's words.
type Done<T> = Result<T, TransferFailure>;

/// What the CAs of the site are, read anew when they changed.
pub type Trust = Arc<dyn Fn() -> Result<TrustStore, kumiko_identity::TrustError> + Send + Sync>;

#[derive(Clone)]
pub struct Setup {
    /// For what is under way; made if missing. On the file system of the jobs' directories.
    pub directory: PathBuf,
    /// The account's cache; made if missing.
    pub cache: PathBuf,
    /// None: what comes again travels again.
    pub stock: Option<Arc<Stock>>,
    pub trust: Trust,
    /// The directory of the CAs, for programs.
    pub trust_dir: PathBuf,
    /// Moves what is at gsiftp addresses.
    pub url_copy: PathBuf,
    /// A peer that is silent for so long is given up.
    pub stall: Duration,
}

impl Setup {
    pub fn new(directory: PathBuf, cache: PathBuf, trust: Trust, trust_dir: PathBuf) -> Setup {
        Setup {
            directory,
            cache,
            stock: None,
            trust,
            trust_dir,
            url_copy: PathBuf::from("globus-url-copy"),
            stall: STALL,
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Moves files for the jobs of an account. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mover(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    setup: Setup,
    cache: Arc<Cache>,
    /// Whose turn it is in caches of jobs' own: a change of one is short.
    own_caches: Arc<Mutex<()>>,
    /// Who fetches a URL into the cache has its lock; the others wait for it.
    filling: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Mover {
    pub fn new(setup: Setup) -> io::Result<Mover> {
        places::private(&setup.directory)?;
        let cache = Arc::new(Cache::new(setup.cache.clone()));
        Ok(Mover(Arc::new(Inner {
            setup,
            cache,
            own_caches: Arc::default(),
            filling: Mutex::default(),
        })))
    }

    /// The account's cache.
    pub fn cache(&self) -> &Cache {
        &self.0.cache
    }
}

/// The tag of what a job holds in the cache.
fn tag_of(job: JobId) -> String {
    format!("job {job}")
}

/// Work on files, away from the threads that everybody shares.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(TransferError::Local {
            doing: "working on",
            path: PathBuf::from("files"),
            cause: io::Error::other(error),
        }),
    }
}

fn parse(text: &str) -> Result<Url, TransferError> {
    Url::parse(text).map_err(|cause| TransferError::Url {
        url: text.to_owned(),
        cause,
    })
}

impl Inner {
    /// Is the job allowed to have anybody spoken to (S4)?
    fn may_speak(job: &Work, url: &Url) -> Result<(), TransferError> {
        match (url.server.is_some(), job.policy.network()) {
            (true, Network::None) => Err(TransferError::Forbidden {
                url: url.to_string(),
                policy: Network::None,
            }),
            _ => Ok(()),
        }
    }

    /// The cache that a job's addresses mean (C7).
    async fn cache(&self, job: &Work) -> Result<Arc<Cache>, TransferError> {
        let Some(path) = job.cache.clone() else {
            return Ok(Arc::clone(&self.cache));
        };
        let (above, turn) = (job.directory.clone(), Arc::clone(&self.own_caches));
        blocking(move || {
            let directory = places::make(&above, &path)?;
            Ok(Arc::new(Cache::within(above.join(path), directory, turn)))
        })
        .await
    }

    fn client(&self, job: &Work) -> Result<Client, TransferError> {
        let trust = (self.setup.trust)().map_err(|cause| TransferError::Trust { cause })?;
        let credential = match &job.credential {
            Some(pem) => Some(
                Credential::from_proxy_pem(pem)
                    .map_err(|cause| TransferError::Credential { cause })?,
            ),
            None => None,
        };
        Ok(Client::new(Doorway::new(credential, trust)).with_stall(self.setup.stall))
    }

    /// Of a URL that is fetched for many.
    fn filling(&self, url: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        filling.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(filling.entry(url.to_owned()).or_default())
    }
}

impl Transfer for Mover {
    fn fetch<'a>(&'a self, job: &'a Work, what: &'a StageIn, how: Fetch) -> Answer<'a, Done<u64>> {
        Box::pin(async move { Ok(fetch::fetch(&self.0, job, what, how).await?) })
    }

    fn send<'a>(&'a self, job: &'a Work, what: &'a StageOut) -> Answer<'a, Done<u64>> {
        Box::pin(async move { Ok(fetch::send(&self.0, job, what).await?) })
    }

    fn stream<'a>(&'a self, job: &'a Work, what: Streamed<'a>) -> Answer<'a, Done<u64>> {
        Box::pin(async move { Ok(streams::stream(&self.0, job, what).await?) })
    }

    fn make_scratch<'a>(&'a self, job: &'a Work, path: &'a str) -> Answer<'a, Done<()>> {
        let (directory, path) = (job.directory.clone(), path.to_owned());
        Box::pin(async move {
            let made = blocking(move || places::make(&directory, &path)).await;
            Ok(made.map(drop)?)
        })
    }

    fn clean_up<'a>(&'a self, job: &'a Work, paths: &'a [String]) -> Answer<'a, Done<()>> {
        let (directory, paths) = (job.directory.clone(), paths.to_vec());
        Box::pin(async move { Ok(blocking(move || places::remove(&directory, &paths)).await?) })
    }

    fn forget(&self, job: JobId) -> Answer<'_, ()> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let forgotten = blocking(move || {
                places::forget(&inner.setup.directory, job)?;
                Ok(inner.cache.cleanup_tag_everywhere(&tag_of(job))?)
            });
            if let Err(error) = forgotten.await {
                tracing::warn!(%job, %error, "something of a job's transfers stays");
            }
        })
    }
}

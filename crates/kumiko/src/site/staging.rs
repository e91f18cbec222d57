//! What moves files for the jobs of a site: its directories, its CAs. Wiring only.

use kumiko_identity::{TrustError, TrustStore};
use kumiko_staging::stock::Stock;
use kumiko_staging::{Mover, Setup};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The stock of the account that has this state; None: nothing is to be kept.
pub fn stock(state: &Path, most_bytes: u64) -> Option<Arc<Stock>> {
    (most_bytes > 0).then(|| Arc::new(Stock::new(state.join("stock"), most_bytes)))
}

/// `state` is the account's; its cache and what is under way are there.
pub fn mover(
    state: &Path,
    certificates: PathBuf,
    stock: Option<Arc<Stock>>,
) -> io::Result<Arc<Mover>> {
    let known: Mutex<Option<TrustStore>> = Mutex::default();
    let directory = certificates.clone();
    let trust = move || {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = match known.as_ref() {
            Some(store) => store.reload()?,
            None => Some(TrustStore::load(&directory)?),
        };
        if fresh.is_some() {
            *known = fresh;
        }
        known.clone().ok_or_else(|| TrustError::Directory {
            path: directory.clone(),
            source: io::ErrorKind::NotFound.into(),
        })
    };
    let (under_way, cache) = (state.join("staging"), state.join("cache"));
    let mut setup = Setup::new(under_way, cache, Arc::new(trust), certificates);
    setup.stock = stock;
    Ok(Arc::new(Mover::new(setup)?))
}

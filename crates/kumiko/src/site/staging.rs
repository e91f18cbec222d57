//! What moves files for the jobs of a site: its directories, its CAs. Wiring only.

use kumiko_identity::{TrustError, TrustStore};
use kumiko_staging::stock::Stock;
use kumiko_staging::{Mover, Setup};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// `state` is the account's; its cache, its stock (of `stock_bytes` at most) and what is under way are there.
pub fn mover(state: &Path, certificates: PathBuf, stock_bytes: u64) -> io::Result<Arc<Mover>> {
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
    setup.stock = (stock_bytes > 0).then(|| Arc::new(Stock::new(state.join("stock"), stock_bytes)));
    Ok(Arc::new(Mover::new(setup)?))
}

//! The host's certificate, whom it trusts, and the grid-mapfile: read at the start, and again when a file changes.
//!
//! A change is seen at the next connection, by the files' times and sizes (looked at once a second at most). If what
//! is there then cannot be read, what was read before stays in force, and that is logged: a certificate directory is
//! often caught half written.

use crate::Config;
use crate::meter::Meter;
use kumiko_identity::tls::Acceptor;
use kumiko_identity::{Credential, GridMap, TrustStore};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// ALPN names of the doors, in the order of our preference.
pub(crate) const ALPN: [&[u8]; 3] = [b"kumiko/1", b"h2", b"http/1.1"];
/// Looking costs two system calls a file; a trust directory of all grid CAs has some 400.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why the gatekeeper has no keys to work with.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("the host certificate {certificate} with its key {key} cannot be used: {cause}")]
    Host {
        certificate: PathBuf,
        key: PathBuf,
        cause: String,
    },
    #[error("the trust directory {path} cannot be used: {cause}")]
    Trust { path: PathBuf, cause: String },
    #[error("the grid-mapfile {path} cannot be used: {cause}")]
    Mapfile { path: PathBuf, cause: String },
    #[error("TLS cannot be set up with {certificate}: {cause}")]
    Tls { certificate: PathBuf, cause: String },
}

pub(crate) struct Loaded {
    pub acceptor: Acceptor,
    pub map: GridMap,
    pub trust: TrustStore,
}

#[derive(Debug, Clone)]
struct Places {
    host_certificate: PathBuf,
    host_key: PathBuf,
    trust: PathBuf,
    mapfile: PathBuf,
}

pub(crate) struct Keys {
    places: Places,
    state: Mutex<State>,
}

struct State {
    loaded: Arc<Loaded>,
    stamp: Stamp,
    looked: Instant,
}

impl Keys {
    pub fn load(config: &Config) -> Result<Keys, KeysError> {
        let places = Places {
            host_certificate: config.host_certificate.clone(),
            host_key: config.host_key.clone(),
            trust: config.trust.clone(),
            mapfile: config.mapfile.clone(),
        };
        // The stamp first: what changes while we read is read again.
        let stamp = Stamp::of(&places);
        let loaded = Arc::new(load(&places)?);
        Ok(Keys {
            places,
            state: Mutex::new(State {
                loaded,
                stamp,
                looked: Instant::now(),
            }),
        })
    }

    /// What is in force now.
    pub async fn current(&self, meter: &Meter) -> Arc<Loaded> {
        let mut state = self.state.lock().await;
        if state.looked.elapsed() < LOOK_EVERY {
            return state.loaded.clone();
        }
        let (places, old) = (self.places.clone(), state.stamp.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let stamp = Stamp::of(&places);
            (stamp != old).then(|| (load(&places), stamp))
        });
        if let Ok(Some((result, stamp))) = looked.await {
            state.stamp = stamp;
            match result {
                Ok(loaded) => {
                    meter.reloads.fetch_add(1, Relaxed);
                    tracing::info!("certificates and grid-mapfile have changed and are read again");
                    state.loaded = Arc::new(loaded);
                }
                Err(cause) => {
                    meter.failed_reloads.fetch_add(1, Relaxed);
                    tracing::error!(%cause, "a changed file cannot be used; what was read before stays in force");
                }
            }
        }
        state.looked = Instant::now();
        state.loaded.clone()
    }
}

fn load(places: &Places) -> Result<Loaded, KeysError> {
    let Places {
        host_certificate,
        host_key,
        trust,
        mapfile,
    } = places;
    let credential =
        Credential::load_pair(host_certificate, host_key).map_err(|e| KeysError::Host {
            certificate: host_certificate.clone(),
            key: host_key.clone(),
            cause: e.to_string(),
        })?;
    let store = TrustStore::load(trust).map_err(|e| KeysError::Trust {
        path: trust.clone(),
        cause: e.to_string(),
    })?;
    let map = GridMap::load(mapfile).map_err(|e| KeysError::Mapfile {
        path: mapfile.clone(),
        cause: e.to_string(),
    })?;
    let acceptor = Acceptor::new(&credential, &store, &ALPN).map_err(|e| KeysError::Tls {
        certificate: host_certificate.clone(),
        cause: e.to_string(),
    })?;
    Ok(Loaded {
        acceptor,
        map,
        trust: store,
    })
}

/// Names, inodes, change times and sizes of all the files, enough to see a change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Vec<(PathBuf, Option<Seen>)>);

type Seen = (u64, i64, i64, u64);

impl Stamp {
    fn of(places: &Places) -> Stamp {
        let mut paths = vec![
            places.host_certificate.clone(),
            places.host_key.clone(),
            places.mapfile.clone(),
        ];
        if let Ok(entries) = std::fs::read_dir(&places.trust) {
            paths.extend(entries.flatten().map(|e| e.path()));
        }
        paths.sort();
        let look = |path: PathBuf| {
            let seen = seen(&path);
            (path, seen)
        };
        Stamp(paths.into_iter().map(look).collect())
    }
}

fn seen(path: &Path) -> Option<Seen> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((
        metadata.ino(),
        metadata.ctime(),
        metadata.ctime_nsec(),
        metadata.len(),
    ))
}
